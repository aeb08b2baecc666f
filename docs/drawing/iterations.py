"""Figures of iterations of the subgradient algorithm."""

import matplotlib.pyplot as plt
import numpy as np

from drawing.plane import COLOURS, INK, draw_boxes, draw_decisions, draw_regions, draw_rows, limits

GREY, VERMILION = "#B5B5B5", "#D55E00"


def draw_losses(ax, losses, worst):
    """Plot all losses and highlight the largest one."""
    order = np.argsort(-losses)
    colours = [VERMILION if n == worst else GREY for n in order]
    ax.bar(range(len(losses)), losses[order], color=colours, width=1.0)
    ax.axhline(np.log(2), color=INK, linewidth=0.8, linestyle="--")
    ax.text(len(losses), np.log(2), "log 2", ha="right", va="bottom", fontsize=8)
    ax.set(xlabel="samples, sorted by loss", ylabel="loss", xlim=(-1, len(losses)))


def draw_network(ax, model, path, label):
    """Plot the layers as columns of nodes, with the edges of active paths."""
    n_rows, H, C = model.W0.size, model.n_hidden, model.n_classes
    heights = {
        "row": np.linspace(0, 1, n_rows),
        "unit": np.linspace(0, 1, H),
        "class": np.linspace(0.2, 0.8, C),
    }
    for x, kind in enumerate(heights):
        ax.scatter(
            np.full(heights[kind].size, x),
            heights[kind],
            s=60,
            color="white",
            edgecolor=GREY,
            zorder=2,
        )
    for d in range(C):
        h, i = int(path.unit[0, d]), int(path.row[0, d])
        spots = heights["row"][i], heights["unit"][h], heights["class"][d]
        ax.plot([0, 1, 2], spots, color=COLOURS[d], linewidth=2.4 if d == label else 1.4, zorder=1)
        ax.scatter([0, 1, 2], spots, s=60, color=COLOURS[d], zorder=3)
    for x, name in enumerate((f"{n_rows} rows", f"{H} units (min)", f"{C} classes (max)")):
        ax.text(x, -0.12, name, ha="center", fontsize=8)
    ax.set(xlim=(-0.4, 2.4), ylim=(-0.2, 1.05))
    ax.axis("off")


def draw_moves(ax, before, after):
    """Plot the number of weights of each layer that a step has changed."""
    moved = []
    for name in ("W0", "W1", "W2"):
        old, new = (np.asarray(getattr(model, name)).ravel() for model in (before, after))
        moved.append((name, old.size, int((old != new).sum())))
    top = max(size for _, size, _ in moved)
    for k, (_, size, n) in enumerate(moved):
        ax.barh(k, size, color="#E4E4E4")
        ax.barh(k, n, color=VERMILION)
        ax.text(size + 0.01 * top, k, f"{n} of {size} changed", va="center", fontsize=8)
    ax.set(yticks=range(3), yticklabels=["W⁰", "W¹", "W²"], xlim=(0, 1.35 * top), xlabel="entries")
    ax.invert_yaxis()


def one_iteration(model, after, X, y, title):
    """Plot an iteration: losses, worst sample, active paths, changed weights."""
    losses = model.losses(X, y)
    worst = int(losses.argmax())
    path = model.active_path(X[worst : worst + 1])
    fig, grid = plt.subplots(2, 2, figsize=(7.8, 5.4))
    axes = grid.ravel()
    draw_losses(axes[0], losses, worst)
    axes[0].set_title(title)
    low, high = limits(X, 0.12)
    draw_regions(axes[1], model, low, high)
    draw_rows(axes[1], X, y, size=8)
    draw_decisions(axes[1], model, X[worst])
    axes[1].set_title("active boxes and walls")
    draw_network(axes[2], model, path, int(y[worst]))
    axes[2].set_title("active paths")
    draw_moves(axes[3], model, after)
    axes[3].set_title("changed weights")
    return fig


def boxes_over_time(models, X, y, titles):
    """Plot boxes and predicted classes at some iterations."""
    low, high = limits(X, 0.12)
    fig, axes = plt.subplots(1, len(models), figsize=(2.1 * len(models), 2.3), sharey=True)
    for ax, model, title in zip(axes, models, titles, strict=True):
        draw_regions(ax, model, low, high)
        draw_boxes(ax, model, low, high, level=-0.6)
        draw_rows(ax, X, y, size=7)
        ax.set_title(title, fontsize=9)
    return fig
