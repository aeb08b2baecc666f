"""
A clinical table, from CSV to report
====================================

Tables of people hold words, ordered words, holes, ids. A data frame goes into ``fit`` as it is:
each decision about a column is kept with the model, and the page at the end says all of it in
words.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import maxplus
from maxplus import LMMClassifier
from maxplus.report import render_page, report_content

folder = Path(tempfile.mkdtemp())

# %%
# The table
# ---------
#
# Made-up patients. Older people, smokers and those in pain come back more often; the ward does not
# matter. In three columns one value in twelve is missing.

rng = np.random.default_rng(3)
n = 400
age, dose = rng.integers(25, 85, n), rng.gamma(2.0, 1.5, n).round(2)
smoker, ward = rng.choice(["yes", "no"], n, p=[0.3, 0.7]), rng.choice(["A", "B", "C"], n)
pain = rng.integers(0, 3, n)
risk = (age - 55) / 15 + 1.2 * (smoker == "yes") + 0.9 * (pain - 1) + 0.2 * dose
frame = pd.DataFrame(
    {
        "patient": [f"P{1000 + 7 * k}" for k in range(n)],
        "age": age.astype(float),
        "dose": dose,
        "smoker": smoker,
        "ward": ward,
        "pain": np.array(["low", "medium", "high"], object)[pain],
        "outcome": np.where(risk + rng.normal(0, 0.8, n) > 1.2, "returned", "well"),
    }
)
for column in ("age", "smoker", "pain"):
    frame.loc[rng.random(n) < 1 / 12, column] = None
frame.to_csv(folder / "patients.csv", index=False)
print(*(folder / "patients.csv").read_text().splitlines()[:6], sep="\n")

# %%
# How good is it on patients that it has not seen?
# ------------------------------------------------
#
# ``maxplus.validate`` decides about columns and trains anew in each fold. A capacity is given here
# to save time; without it, one is chosen from the data.

table = pd.read_csv(folder / "patients.csv")
# `fit` uses every column that it is given, so ids are dropped before.
X, y = table.drop(columns=["patient", "outcome"]), table["outcome"]
model = LMMClassifier(12, slope=1.0, calibrate=True, random_state=0)
seen = maxplus.validate(model, X, y)
print(f"{seen.words}: {seen.figures.accuracy:.1%} right, a guess {seen.guess.accuracy:.1%}")

# %%
# What it decided about columns, and what decides
# -----------------------------------------------

clf = model.fit(X, y)
print("used:", ", ".join(column.name for column in clf.encoder_.columns_))
print(clf.explain(X.iloc[:1]).text(0))

# %%
# The model's boxes as rules, counted on the training rows:
print(clf.rules(X, y, n=3))

# %%
# The share of what decides, feature by feature, and how sure the model is of those who came back:

names = clf.encoder_.feature_names
order = np.argsort(clf.feature_importances_)[-8:]
held = seen.held_out
back = held.outcome[:, 0]
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
left.barh(np.array(names)[order], clf.feature_importances_[order], color="#0072B2")
left.set(xlabel="share of what decides", title="What matters")
for code, name, colour in ((1, "stayed well", "#009E73"), (0, "returned", "#D55E00")):
    right.hist(back[held.y == code], np.linspace(0, 1, 21), color=colour, alpha=0.6, label=name)
right.set(xlabel="probability of coming back", ylabel="held-out patients", title="New patients")
right.legend(frameon=False)

# %%
# The page for those who decide
# -----------------------------
#
# One file that needs no network. ``maxplus train patients.csv`` and ``maxplus report`` do the same
# at the command line.

features = clf.encoder_.transform(X)
page = render_page(report_content(clf, features, y.to_numpy(), name="patients.csv"))
(folder / "report.html").write_text(page, encoding="utf-8")
print(f"report.html: {len(page) / 1000:.0f} kB")
plt.show()
