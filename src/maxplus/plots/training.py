"""Plots of training losses and of the candidate search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.models import LOG2
from maxplus.plots._style import (
    BLUE,
    DASHED,
    GREY,
    INK,
    PALE,
    SMALL,
    VERMILION,
    new_figure,
    style_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Maximum number of bins of a curve.
MAX_BINS = 500
# Losses are clipped below at this value, because the axis is logarithmic.
FLOOR = 1e-3


def plot_convergence(
    loss_curve: ArrayLike,
    n_classes: int,
    *,
    switch: int | None = None,
    sample: str = "sample",
    scale: str = "log",
    ax: Axes | None = None,
) -> Figure:
    """Plot the maximum loss against the iteration, with the levels log 2 and log C.

    Parameters
    ----------
    loss_curve : array of shape (n_iter,)
        Maximum loss at each iteration, such as ``loss_curve_`` of
        `maxplus.SubgradientLMMClassifier`.
    n_classes : int
        Number of classes C. The loss of uniform probabilities is log C.
    switch : int, optional
        Index of the first iteration with constant steps, drawn as a vertical line.
    sample : str, default="sample"
        Noun for a sample in labels, such as "row".
    scale : {"log", "linear"}, default="log"
        Scale of the axis of the iterations.
    ax : matplotlib.axes.Axes, optional
        Axes of the plot. By default, those of a new figure.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from maxplus.plots import plot_convergence
    >>> figure = plot_convergence([1.2, 0.9, 1.0, 0.6], n_classes=3)
    >>> figure.savefig("convergence.png")  # doctest: +SKIP
    """
    from matplotlib.ticker import LogLocator, NullLocator

    loss = np.asarray(loss_curve, float)
    if loss.ndim != 1 or loss.size == 0:
        raise ValueError(f"loss_curve must be a non-empty vector, got shape {loss.shape}")
    if scale not in ("log", "linear"):
        raise ValueError(f"scale must be 'log' or 'linear', got {scale!r}")
    figure: Any = new_figure(7.0, 4.6) if ax is None else ax.figure
    ax = figure.subplots() if ax is None else ax
    first, low, high = _envelope(np.maximum(loss, FLOOR), scale)
    ax.fill_between(
        first, low, high, step="post", color=BLUE, alpha=0.3, lw=0.8, label="at each iteration"
    )
    best = f"best so far: {loss.min():.3f}"
    ax.step(first, np.minimum.accumulate(low), BLUE, where="post", linewidth=2.2, label=best)
    level = f"log 2: below, every training {sample} is correct"
    ax.axhline(LOG2, color=INK, linewidth=0.9, linestyle=DASHED, label=level)
    if n_classes > 2:
        level = f"log {n_classes}: uniform guess"
        ax.axhline(math.log(n_classes), color=GREY, linewidth=0.9, linestyle=DASHED, label=level)
    if switch is not None and switch < loss.size:
        ax.axvline(switch + 1, color=GREY, linestyle=(0, (1, 2)), label="start of constant steps")
    ax.set(xscale=scale, yscale="log", xlim=(1, loss.size + 1), xlabel="iteration")
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_major_formatter("{x:,.0f}")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_locator(NullLocator())
    ax.grid(axis="y", color=PALE, linewidth=0.6)
    ax.set_axisbelow(True)
    style_axes(ax, f"Loss of the worst training {sample}")
    ax.legend(
        loc="upper left",
        bbox_to_anchor=(0.0, -0.16),
        ncols=2,
        frameon=False,
        fontsize=SMALL,
        labelcolor=GREY,
    )
    return figure


def _envelope(loss: NDArray, scale: str) -> tuple[NDArray, NDArray, NDArray]:
    """Return the first iteration, the lowest and the highest loss of each bin of iterations.

    Iterations are 1-based. The last values are repeated to complete a step plot.
    """
    spaced = np.geomspace if scale == "log" else np.linspace
    edges = spaced(1, loss.size + 1, MAX_BINS + 1).astype(int)
    first = np.unique(edges[:-1])
    low = np.minimum.reduceat(loss, first - 1)
    high = np.maximum.reduceat(loss, first - 1)
    return np.append(first, loss.size + 1), np.append(low, low[-1]), np.append(high, high[-1])


def plot_stages(
    warmup_losses: ArrayLike, polish_losses: ArrayLike = (), level: float = LOG2
) -> Figure:
    """Plot the mean loss of each epoch of the warm-up and the maximum loss of each polish round.

    A maximum loss below log 2 implies that all training samples are classified correctly.

    Parameters
    ----------
    warmup_losses : array of shape (n_epochs,)
        Mean smoothed losses, such as ``loss_curve_`` of `maxplus.LMMClassifier`.
    polish_losses : array of shape (n_rounds + 1,), default=()
        Maximum losses, such as ``polish_losses_``. Drawn in a second panel, unless empty.
    level : float, default=log 2
        Threshold of the losses in the polish.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from maxplus.plots import plot_stages
    >>> figure = plot_stages([0.9, 0.3, 0.1], [4.0, 1.1, 0.6])
    >>> figure.savefig("stages.png")  # doctest: +SKIP
    """
    from matplotlib.ticker import MaxNLocator

    warmup, polish = np.asarray(warmup_losses, float), np.asarray(polish_losses, float)
    if warmup.ndim != 1 or not warmup.size:
        raise ValueError(f"warmup_losses must be a non-empty vector, got shape {warmup.shape}")
    figure = new_figure(7.0, 4.2)
    axes = figure.subplots(1, 2 if polish.size else 1, squeeze=False)[0]
    axes[0].plot(1 + np.arange(warmup.size), warmup, "o-", color=BLUE, linewidth=2, markersize=4)
    axes[0].set_xlabel("epoch of the warm-up")
    style_axes(axes[0], "Mean soft loss")
    if polish.size:
        axes[1].plot(polish, "o-", color=VERMILION, linewidth=2, markersize=4)
        name = "log 2" if level == LOG2 else f"{level:g}"
        axes[1].axhline(level, color=GREY, linestyle=DASHED, linewidth=1, label=name)
        axes[1].set_xlabel("round of the polish")
        style_axes(axes[1], "Largest loss")
        axes[1].legend(frameon=False, fontsize=SMALL, labelcolor=GREY)
    for ax in axes:
        ax.set_ylim(bottom=0)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def plot_search(candidates: Sequence[str], losses: ArrayLike, chosen: int) -> Figure:
    """Plot the held-out loss of each candidate and highlight the chosen candidate.

    Parameters
    ----------
    candidates : sequence of K str
        Names of the candidates.
    losses : array of shape (K, n_splits)
        Held-out losses; infinite for splits on which a candidate was not evaluated.
    chosen : int
        Index of the selected candidate.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from maxplus.plots import plot_search
    >>> figure = plot_search(["small", "large"], [[0.4, 0.5], [0.6, float("inf")]], 0)
    """
    names, table = [str(name) for name in candidates], np.asarray(losses, float)
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or len(table) != len(names) or not len(names):
        raise ValueError(
            f"losses must have a row for each of the {len(names)} candidates; got shape "
            f"{table.shape}"
        )
    if not 0 <= chosen < len(names):
        raise ValueError(f"chosen must be an index from 0 to {len(names) - 1}; got {chosen}")
    evaluated = np.isfinite(table)
    mean = np.where(evaluated, table, 0.0).sum(axis=1) / np.maximum(evaluated.sum(axis=1), 1)
    # The chosen candidate is first. The others are in descending order of the number of evaluated
    # splits, then in ascending order of the mean loss.
    order = np.lexsort((mean, -evaluated.sum(axis=1), np.arange(len(names)) != chosen))
    figure = new_figure(7.0, 1.4 + 0.3 * len(names))
    ax = figure.subplots()
    for position, k in enumerate(order):
        colour = VERMILION if k == chosen else BLUE
        split_losses = table[k][evaluated[k]]
        ax.plot(split_losses, [position] * split_losses.size, "o", color=colour, alpha=0.45, ms=5)
        if split_losses.size:
            ax.plot([mean[k]], [position], "|", color=colour, ms=14, mew=3)
    ax.hlines(np.arange(len(order)), *ax.get_xlim(), color=PALE, linewidth=0.5, zorder=0)
    ax.set_yticks(np.arange(len(order)), [names[k] for k in order])
    ax.invert_yaxis()
    # Right-aligned: the axis can be narrower than its label beside long names.
    ax.set_xlabel("held-out loss of each split, and its mean", loc="right")
    style_axes(ax, "Model search")
    ax.tick_params(axis="y", labelcolor=INK)
    return figure
