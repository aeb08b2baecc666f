"""
Boxes of hidden units
=====================

Each hidden unit defines a box in feature space. The value of the unit is the margin to the nearest
wall of its box. The score of a class is the largest value of its units. This example plots units
and scores for two features.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle
from sklearn.datasets import make_moons

from maxplus import LMMClassifier
from maxplus.explain import unit_boxes

BLUE, RED = "#0072B2", "#D55E00"
X, y = make_moons(300, noise=0.2, random_state=0)
clf = LMMClassifier(10, slope=4.0, polish=None, random_state=0).fit(X, y)
clf.prune()  # remove units that are never active
print(f"{clf.n_hidden_} units, training accuracy {clf.score(X, y):.1%}")

# %%
# Boxes and scores
# ----------------
#
# The left plot shows, for each unit, the box where its output for its class is at least 0. The
# right plot shows the difference between the two scores.

low, high = X.min(axis=0) - 0.4, X.max(axis=0) + 0.4
grid = np.stack(np.meshgrid(*(np.linspace(a, b, 241) for a, b in zip(low, high, strict=True))), -1)
score = clf.decision_function(grid.reshape(-1, 2)).reshape(241, 241)


def draw_points(ax):
    """Plot the points on axes of equal scale."""
    ax.scatter(*X[y == 0].T, s=10, color=BLUE, linewidth=0)
    ax.scatter(*X[y == 1].T, s=10, color=RED, linewidth=0)
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")


def box_of(unit):
    """Return the box where a unit's output for its class is at least 0, clipped to the axes."""
    boxes = unit_boxes(clf.model_, level=-clf.W2_[unit].max())
    first = np.clip(boxes.low[unit], low, high)
    return first, np.clip(boxes.high[unit], low, high) - first, boxes.label[unit]


fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
for unit in range(clf.n_hidden_):
    corner, size, label = box_of(unit)
    colour = (BLUE, RED)[label]
    left.add_patch(Rectangle(corner, *size, facecolor=colour, edgecolor=colour, alpha=0.15))
    left.add_patch(Rectangle(corner, *size, fill=False, edgecolor=colour, linewidth=1.5))
draw_points(left)
left.set_title("Boxes of the units")
ends = np.abs(score).max()
right.contourf(
    grid[..., 0], grid[..., 1], score, 20, cmap="RdBu_r", vmin=-ends, vmax=ends, alpha=0.7
)
right.contour(grid[..., 0], grid[..., 1], score, [0.0], colors="black", linewidths=1.5)
draw_points(right)
right.set_title("Difference of the scores")

# %%
# Active units and walls
# ----------------------
#
# Each score is determined by one wall of one unit. ``explain`` lists the unit and the wall.

point = np.array([[0.45, 0.35]])
explanation = clf.explain(point, feature_names=["across", "up"], class_names=["blue", "red"])
print(explanation)

fig, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
for d, (ax, colour, name) in enumerate(zip(axes, (BLUE, RED), ("blue", "red"), strict=True)):
    unit, row = explanation.paths.unit[0, d], explanation.paths.row[0, d]
    corner, size, _ = box_of(unit)
    draw_points(ax)
    ax.add_patch(Rectangle(corner, *size, facecolor=colour, edgecolor=colour, alpha=0.25))
    # Even rows increase with the feature and define the lower wall.
    feature, is_upper = divmod(int(row), 2)
    wall = (corner + is_upper * size)[feature]
    line = ax.axvline if feature == 0 else ax.axhline
    line(wall, color=colour, linewidth=3)
    foot = point[0].copy()
    foot[feature] = wall
    ax.plot(*np.transpose([point[0], foot]), color="black", linestyle="--", linewidth=1.5)
    ax.plot(*point[0], "*", color="black", markersize=16)
    ax.set_title(f"{name}: score {explanation.paths.score[0, d]:.2f}, distance to the thick wall")
plt.show()
