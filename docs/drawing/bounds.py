"""Figures of the bounds of the sparse engine."""

import matplotlib.pyplot as plt
import numpy as np

BLUE, VERMILION, GREEN, GREY, PALE = "#0072B2", "#D55E00", "#009E73", "#6B6B6B", "#D9E4EC"


def minima_cases():
    """Plot the effect of a changed row on the witness and the runner-up in four cases."""
    rows = np.array([2.0, 4.6, 3.0, 5.2, 4.1, 3.7])  # witness 0, runner-up 2
    cases = (
        ("the witness rises,\nbut not above g₂", 0, 2.7),
        ("the witness rises above g₂:\nthe runner-up takes over", 0, 4.4),
        ("another row falls below g:\na new witness", 4, 1.2),
        ("another row falls between:\na new runner-up", 4, 2.5),
    )
    fig, axes = plt.subplots(2, 2, figsize=(7.6, 4.6), sharex=True, sharey=True)
    for ax, (title, changed, value) in zip(axes.flat, cases, strict=True):
        new = rows.copy()
        new[changed] = value
        order = np.argsort(new)
        colours = [
            VERMILION if i == order[0] else GREEN if i == order[1] else PALE
            for i in range(rows.size)
        ]
        ax.bar(range(rows.size), new, color=colours)
        ax.bar(
            changed, rows[changed], fill=False, edgecolor="#222222", linestyle="--", linewidth=0.9
        )
        ax.axhline(3.0, color=GREY, linewidth=0.8, linestyle=":")
        ax.text(5.6, 5.05, "dotted: g₂ before", ha="right", fontsize=7, color=GREY)
        ax.set_title(title, fontsize=8.5, fontweight="normal")
        ax.set(xticks=range(6), xlabel="row i" if ax in axes[1] else "")
    for ax in axes[:, 0]:
        ax.set_ylabel("row's value at one sample")
    return fig


def step_bounds(before, after):
    """Return bounds of the increase and decrease of each score in a step with fixed W⁰."""
    up, down = (np.maximum(s * (after.W1 - before.W1), 0).max(axis=0) for s in (1, -1))
    lift = after.W2 - before.W2
    rise = np.maximum(up[:, None] + lift, 0).max(axis=0)
    fall = np.maximum(down[:, None] - lift, 0).max(axis=0)
    return rise, fall


def growth_of(before, after, label):
    """Return a bound of the increase of a loss (Lemma 3)."""
    rise, fall = step_bounds(before, after)
    return np.delete(rise, label).max() + fall[label]


def bound_over_time(models, X, y, label, chunk):
    """Plot the largest loss of a chunk, its bound, and the updates of the bound."""
    exact = [model.losses(X[chunk], y[chunk]).max() for model in models]
    worst = [model.losses(X, y).max() for model in models]
    bound, bounds, updates = exact[0], [exact[0]], [0]
    for t in range(1, len(models)):
        bound += growth_of(models[t - 1], models[t], label)
        if bound >= worst[t]:
            bound = exact[t]
            updates.append(t)
        bounds.append(bound)
    fig, ax = plt.subplots(figsize=(7.4, 3.1))
    ax.plot(worst, color=GREY, linewidth=0.9, label="largest loss of all samples")
    ax.plot(bounds, color=VERMILION, label="bound of this chunk")
    ax.plot(exact, color=BLUE, label="largest loss of this chunk")
    ax.plot(updates, [exact[t] for t in updates], "o", color=BLUE, markersize=4, label="updates")
    ax.set(
        xlabel="iteration",
        ylabel="loss",
        title=f"{len(updates)} updates in {len(models) - 1} iterations",
    )
    ax.legend(fontsize=8)
    return fig


def share_curves():
    """Plot the increase of the loss against the increase of one wrong score."""
    r = np.linspace(0, 2, 100)
    fig, ax = plt.subplots(figsize=(5.4, 3))
    for s in (1.0, 0.5, 0.2, 0.05):
        ax.plot(r, np.log1p(s * np.expm1(r)), label=f"s = {s:g}")
    ax.set(xlabel="increase r of one wrong score", ylabel="bound of the increase of the loss")
    ax.legend(fontsize=8)
    return fig


def search_picture(bounds, exact, threshold):
    """Plot the bounds of all chunks and highlight the evaluated chunks."""
    order = np.argsort(-bounds)
    opened = bounds[order] >= threshold
    fig, ax = plt.subplots(figsize=(7.2, 2.8))
    x = np.arange(len(bounds))
    ax.bar(x, bounds[order], color=np.where(opened, VERMILION, PALE), label="bound")
    ax.plot(x, exact[order], "o", color=BLUE, markersize=4, label="largest loss of the chunk")
    ax.axhline(threshold, color="#222222", linewidth=0.8, linestyle="--")
    ax.text(len(bounds) - 0.5, threshold, "worst loss found", ha="right", va="bottom", fontsize=8)
    ax.set(
        xlabel="chunks, sorted by bound",
        ylabel="loss",
        title=f"{opened.sum()} of {len(bounds)} chunks evaluated",
    )
    ax.legend(fontsize=8)
    return fig
