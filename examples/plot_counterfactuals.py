"""
Counterfactual explanations
===========================

The scores of an LMM are piecewise linear functions of each feature. The smallest change of a
feature that changes the prediction can therefore be computed exactly. ``explain`` computes it for
each row.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

from maxplus import LMMClassifier

data = load_wine(as_frame=True)
X, y = data.data, data.target
names = [f"grower {letter}" for letter in "ABC"]
clf = LMMClassifier(12, slope=2.0, calibrate=True, random_state=0).fit(X, y)

row = 129
explanation = clf.explain(X.iloc[[row]], class_names=names, row_numbers=[row + 1])
print(explanation)

# %%
# Scores along one column
# -----------------------
#
# All other columns are fixed. The scores are piecewise linear, and the counterfactual is the point
# where the score of another class becomes the highest.

p, value = explanation.counterfactuals.feature[0], explanation.counterfactuals.value[0]
current = X.iloc[row, p]
line = np.linspace(min(X.iloc[:, p].min(), value), X.iloc[:, p].max(), 400)
rows = np.repeat(X.to_numpy()[[row]], line.size, axis=0)
rows[:, p] = line
scores = clf.model_.scores(rows)
fig, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
for d, colour in enumerate(("#009E73", "#0072B2", "#D55E00")):
    ax.plot(line, scores[:, d], color=colour, linewidth=2, label=names[d])
for position, label, style in (
    (current, "value", "-"),
    (value, f"counterfactual {value:.3g}", "--"),
):
    ax.axvline(position, color="#222222", linestyle=style, linewidth=1)
    ax.annotate(
        label,
        (position, 1),
        xycoords=("data", "axes fraction"),
        xytext=(5, -12),
        textcoords="offset points",
    )
ax.set(xlabel=X.columns[p], ylabel="score", ylim=(None, scores.max() + 3))
ax.legend(frameon=False)

# %%
# All rows
# --------
#
# The left plot shows which columns change. The right plot shows the distance of each row to its
# counterfactual, in standard deviations.

counterfactuals = clf.explain(X).counterfactuals
has_counterfactual = counterfactuals.feature >= 0
counts = np.bincount(counterfactuals.feature[has_counterfactual], minlength=X.shape[1])
order = np.argsort(counts)
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
left.barh(X.columns[order], counts[order], color="#0072B2")
left.set(xlabel="rows", title="Column of the nearest counterfactual")
right.hist(counterfactuals.distance[has_counterfactual], 24, color="#0072B2")
right.set(xlabel="distance, in standard deviations", ylabel="rows", title="Distance")

# %%
# Fixed columns
# -------------
#
# ``fixed`` excludes columns from changes. ``low`` and ``high`` set limits.

print(clf.explain(X.iloc[[row]], fixed=[X.columns[p]], class_names=names).text(0).splitlines()[-1])
plt.show()
