"""
Boxes in the plane
==================

A hidden unit is a soft box: its value is the margin to the nearest wall. A class takes the largest
value of its units, and the class with the largest score wins. In two dimensions all of it can be
drawn.
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
clf.prune()  # units that decide nothing need no picture
print(f"{clf.n_hidden_} boxes, {clf.score(X, y):.1%} of the training points are right")

# %%
# What the network computes
# -------------------------
#
# On the left the boxes, each where its unit's output for its own class is at least 0. On the right
# the two scores' difference, whose sign decides.

low, high = X.min(axis=0) - 0.4, X.max(axis=0) + 0.4
grid = np.stack(np.meshgrid(*(np.linspace(a, b, 241) for a, b in zip(low, high, strict=True))), -1)
score = clf.decision_function(grid.reshape(-1, 2)).reshape(241, 241)


def draw_points(ax):
    """The points, on axes of equal units."""
    ax.scatter(*X[y == 0].T, s=10, color=BLUE, linewidth=0)
    ax.scatter(*X[y == 1].T, s=10, color=RED, linewidth=0)
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")


def box_of(unit):
    """The corners where a unit's output for its class is at least 0, kept inside the picture."""
    boxes = unit_boxes(clf.model_, level=-clf.W2_[unit].max())
    first = np.clip(boxes.low[unit], low, high)
    return first, np.clip(boxes.high[unit], low, high) - first, boxes.favourite[unit]


fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
for unit in range(clf.n_hidden_):
    corner, size, favourite = box_of(unit)
    colour = (BLUE, RED)[favourite]
    left.add_patch(Rectangle(corner, *size, facecolor=colour, edgecolor=colour, alpha=0.15))
    left.add_patch(Rectangle(corner, *size, fill=False, edgecolor=colour, linewidth=1.5))
draw_points(left)
left.set_title("Each unit is a box")
ends = np.abs(score).max()
right.contourf(
    grid[..., 0], grid[..., 1], score, 20, cmap="RdBu_r", vmin=-ends, vmax=ends, alpha=0.7
)
right.contour(grid[..., 0], grid[..., 1], score, [0.0], colors="black", linewidths=1.5)
draw_points(right)
right.set_title("Who wins, and by how much")

# %%
# One point, one box, one wall
# ----------------------------
#
# Every score comes down to a single unit, and in it to a single wall. ``explain`` names both.

point = np.array([[0.45, 0.35]])
why = clf.explain(point, feature_names=["across", "up"], class_names=["blue", "red"])
print(why)

fig, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
for d, (ax, colour, name) in enumerate(zip(axes, (BLUE, RED), ("blue", "red"), strict=True)):
    unit, row = why.paths.unit[0, d], why.paths.row[0, d]
    corner, size, _ = box_of(unit)
    draw_points(ax)
    ax.add_patch(Rectangle(corner, *size, facecolor=colour, edgecolor=colour, alpha=0.25))
    # Even rows of the network rise with a feature: theirs is the lower wall.
    feature, is_upper = divmod(int(row), 2)
    wall = (corner + is_upper * size)[feature]
    line = ax.axvline if feature == 0 else ax.axhline
    line(wall, color=colour, linewidth=3)
    foot = point[0].copy()
    foot[feature] = wall
    ax.plot(*np.transpose([point[0], foot]), color="black", linestyle="--", linewidth=1.5)
    ax.plot(*point[0], "*", color="black", markersize=16)
    ax.set_title(f"{name}: score {why.paths.score[0, d]:.2f}, by how far the thick wall is")
plt.show()
