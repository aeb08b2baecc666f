"""Figures of LMMs with two features: boxes, predicted classes and active walls."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle

from maxplus.explain import active_paths, unit_boxes

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#E69F00")
INK, GREY = "#222222", "#6B6B6B"


def limits(X, margin=0.08):
    """Return the limits of the axes: the range of all rows with a margin."""
    low, high = X.min(axis=0), X.max(axis=0)
    border = margin * (high - low)
    return low - border, high + border


def grid(low, high, n=160):
    """Return the points of a grid, (n·n, 2), and its two axes."""
    a, b = (np.linspace(low[p], high[p], n) for p in range(2))
    return np.column_stack([axis.ravel() for axis in np.meshgrid(a, b)]), a, b


def draw_rows(ax, X, y, size=14, names=None):
    """Plot the rows, with a colour for each class."""
    for d in np.unique(y):
        label = None if names is None else names[d]
        ax.scatter(
            *X[y == d].T, s=size, color=COLOURS[d], edgecolor="white", linewidth=0.4, label=label
        )


def draw_regions(ax, model, low, high):
    """Plot the predicted class of each point."""
    points, a, b = grid(low, high)
    winner = model.scores(points).argmax(axis=1).reshape(len(b), len(a))
    n = model.n_classes
    ax.contourf(a, b, winner, levels=np.arange(n + 1) - 0.5, colors=COLOURS[:n], alpha=0.13)
    ax.contour(a, b, winner, levels=np.arange(n - 1) + 0.5, colors=GREY, linewidths=0.7)
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))


def draw_boxes(ax, model, low, high, level=0.0):
    """Plot the boxes of all units at a level, in the colour of their class."""
    boxes = unit_boxes(model, level)
    for h in range(model.n_hidden):
        corner = np.maximum(boxes.low[h], low - 1)
        size = np.minimum(boxes.high[h], high + 1) - corner
        if (size > 0).all():
            colour = COLOURS[boxes.label[h]]
            ax.add_patch(Rectangle(corner, *size, fill=False, edgecolor=colour, linewidth=1.4))


def draw_heights(ax, model, unit, low, high, levels=8):
    """Plot contours of the value of one unit."""
    points, a, b = grid(low, high)
    g = model.hidden(points)[:, unit].reshape(len(b), len(a))
    lines = ax.contour(a, b, g, levels=levels, cmap="cividis", linewidths=0.9)
    ax.clabel(lines, fontsize=7, fmt="%g")
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))


def draw_decisions(ax, model, x):
    """Plot the active box of each class, and the distance to its active wall, for one row."""
    path = active_paths(model, x[None])
    boxes = unit_boxes(model)
    for d in range(model.n_classes):
        h, row = int(path.unit[0, d]), int(path.row[0, d])
        p = row // 2
        colour = COLOURS[d]
        corner = np.array([boxes.low[h, 0], boxes.low[h, 1]])
        size = np.array([boxes.high[h, 0], boxes.high[h, 1]]) - corner
        ax.add_patch(
            Rectangle(corner, *size, facecolor=colour, alpha=0.10, edgecolor=colour, linewidth=1.6)
        )
        wall = x.copy()
        wall[p] = boxes.low[h, p] if row % 2 == 0 else boxes.high[h, p]
        ax.annotate("", wall, x, arrowprops={"arrowstyle": "->", "color": colour, "linewidth": 1.8})
    ax.scatter(*x, s=60, color=INK, zorder=5)


def two_feature_picture(model, X, y, names, features):
    """Plot boxes and predicted classes side by side."""
    low, high = limits(X)
    fig, (left, right) = plt.subplots(1, 2, figsize=(8.2, 3.6), sharey=True)
    draw_boxes(left, model, low, high)
    draw_rows(left, X, y, names=names)
    left.set(title="Boxes", xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    draw_regions(right, model, low, high)
    draw_rows(right, X, y)
    right.set_title("Predicted classes")
    left.set(xlabel=features[0], ylabel=features[1])
    right.set_xlabel(features[0])
    left.legend(fontsize=8, loc="best")
    return fig
