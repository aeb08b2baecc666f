"""
Flips: the smallest change of one column
========================================

What would have to be different for another answer? Along a single feature every score of an LMM is
piecewise linear, so the nearest crossing is found exactly. ``explain`` does it for every row.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

from maxplus import LMMClassifier

data = load_wine(as_frame=True)
X, y = data.data, data.target
names = [f"grower {letter}" for letter in "ABC"]
clf = LMMClassifier(12, slope=2.0, calibrate=True, random_state=0).fit(X, y)

bottle = 129
why = clf.explain(X.iloc[[bottle]], class_names=names, row_numbers=[bottle + 1])
print(why)

# %%
# Along the column that flips it
# ------------------------------
#
# All other columns stay as they are. The scores are straight between kinks, and the flip is where
# another line meets the highest one.

p, value = why.flips.feature[0], why.flips.value[0]
now = X.iloc[bottle, p]
line = np.linspace(min(X.iloc[:, p].min(), value), X.iloc[:, p].max(), 400)
rows = np.repeat(X.to_numpy()[[bottle]], line.size, axis=0)
rows[:, p] = line
scores = clf.model_.scores(rows)
fig, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
for d, colour in enumerate(("#009E73", "#0072B2", "#D55E00")):
    ax.plot(line, scores[:, d], color=colour, linewidth=2, label=names[d])
for at, words, style in ((now, "the bottle", "-"), (value, f"flips at {value:.3g}", "--")):
    ax.axvline(at, color="#222222", linestyle=style, linewidth=1)
    ax.annotate(
        words,
        (at, 1),
        xycoords=("data", "axes fraction"),
        xytext=(5, -12),
        textcoords="offset points",
    )
ax.set(xlabel=X.columns[p], ylabel="score", ylim=(None, scores.max() + 3))
ax.legend(frameon=False)

# %%
# All bottles
# -----------
#
# How far each bottle is from its flip, in training deviations, and which column is the nearest way.

all_flips = clf.explain(X).flips
can = all_flips.feature >= 0
counts = np.bincount(all_flips.feature[can], minlength=X.shape[1])
order = np.argsort(counts)
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
left.barh(X.columns[order], counts[order], color="#0072B2")
left.set(xlabel="bottles", title="The column that flips with the least change")
right.hist(all_flips.distance[can], 24, color="#0072B2")
right.set(xlabel="distance, in deviations of the column", ylabel="bottles", title="How far it is")

# %%
# Some columns cannot change
# --------------------------
#
# ``fixed`` holds them; ``low`` and ``high`` are limits.

print(
    clf.explain(X.iloc[[bottle]], fixed=[X.columns[p]], class_names=names).text(0).splitlines()[-1]
)
plt.show()
