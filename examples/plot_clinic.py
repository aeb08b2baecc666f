"""
Classification of a clinical table
==================================

Clinical tables often contain text, ordinal values, missing values and ids. ``fit`` accepts data
frames, and the encoding of each column is stored with the model. The last step creates an HTML
report.
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
# Dataset
# -------
#
# The patients are synthetic. The probability of a return increases with age, smoking, pain and
# dose, and does not depend on the ward. In three columns, one value in twelve is missing.

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
# Validation
# ----------
#
# ``maxplus.validate`` repeats encoding and training in each fold. This example sets the number of
# units to save time. By default, the structure is selected by cross-validation.

table = pd.read_csv(folder / "patients.csv")
# `fit` uses every column, so ids must be dropped.
X, y = table.drop(columns=["patient", "outcome"]), table["outcome"]
model = LMMClassifier(12, slope=1.0, calibrate=True, random_state=0)
validation = maxplus.validate(model, X, y)
print(f"{validation.description}: accuracy {validation.metrics.accuracy:.1%}")
print(f"baseline: accuracy {validation.baseline.accuracy:.1%}")

# %%
# Columns and explanation
# -----------------------

clf = model.fit(X, y)
print("used:", ", ".join(column.name for column in clf.encoder_.columns_))
print(clf.explain(X.iloc[:1]).text(0))

# %%
# The rules of the model, with their coverage of the training rows:
print(clf.rules(X, y, n=3))

# %%
# The feature importances, and the predicted probabilities of held-out patients:

names = clf.encoder_.feature_names
order = np.argsort(clf.feature_importances_)[-8:]
held_out = validation.held_out
probability = held_out.outcome[:, 0]
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
left.barh(np.array(names)[order], clf.feature_importances_[order], color="#0072B2")
left.set(xlabel="share", title="Feature importances")
for code, name, colour in ((1, "well", "#009E73"), (0, "returned", "#D55E00")):
    right.hist(
        probability[held_out.y == code], np.linspace(0, 1, 21), color=colour, alpha=0.6, label=name
    )
right.set(xlabel="probability of a return", ylabel="held-out patients", title="Predictions")
right.legend(frameon=False)

# %%
# Report
# ------
#
# The report is an HTML file without external resources. The equivalent commands are ``maxplus train
# patients.csv`` and ``maxplus report``.

features = clf.encoder_.transform(X)
page = render_page(report_content(clf, features, y.to_numpy(), name="patients.csv"))
(folder / "report.html").write_text(page, encoding="utf-8")
print(f"report.html: {len(page) / 1000:.0f} kB")
plt.show()
