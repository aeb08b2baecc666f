"""Figures of training: losses, stages, and the structure search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.models import LOG2
from maxplus.plots._canvas import (
    BLUE,
    DASHED,
    GREY,
    INK,
    PALE,
    SMALL,
    TEXT,
    VERMILION,
    figure_title,
    new_figure,
    quiet_frame,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Horizontal resolution of a curve.
N_COLUMNS = 500
# Lower losses are drawn here, because a logarithmic axis has no zero.
FLOOR = 1e-3


def plot_convergence(
    loss_curve: ArrayLike,
    n_classes: int,
    *,
    switch: int | None = None,
    sample: str = "sample",
    scale: str = "log",
) -> Figure:
    """Plot the maximum loss against the iteration, with the levels log 2 and log C.

    Parameters
    ----------
    loss_curve : array of shape (n_iter,)
        The maximum loss at each iteration, such as `LMMClassifier.loss_curve_`.
    n_classes : int
        C; the loss of uniform probabilities is log C.
    switch : int, optional
        First iteration with constant steps.
    sample : str, default="sample"
        Noun for a sample, for labels.
    scale : {"log", "linear"}, default="log"
        Scale of the iterations.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from maxplus.plots import plot_convergence
    >>> figure = plot_convergence([1.2, 0.9, 1.0, 0.6], n_classes=3)
    >>> figure.savefig("convergence.png")  # doctest: +SKIP
    """
    figure = new_figure(7.0, 4.6)
    draw_convergence(figure.subplots(), loss_curve, n_classes, switch, sample, scale)
    return figure


def draw_convergence(
    ax: Axes,
    loss_curve: ArrayLike,
    n_classes: int,
    switch: int | None,
    sample: str,
    scale: str = "log",
) -> None:
    """Draw `plot_convergence` on given axes: the range of the loss, and the best loss so far."""
    loss = np.asarray(loss_curve, float)
    if loss.ndim != 1 or loss.size == 0:
        raise ValueError(f"loss_curve must be a non-empty vector, got shape {loss.shape}")
    if scale not in ("log", "linear"):
        raise ValueError(f"scale must be 'log' or 'linear', got {scale!r}")
    first, low, high = _envelope(np.maximum(loss, FLOOR), scale)
    ax.fill_between(first, low, high, step="post", color=BLUE, alpha=0.3, linewidth=0.8)
    ax.step(first, np.minimum.accumulate(low), where="post", color=BLUE, linewidth=2.2)
    _scale(ax, low.min(), high.max(), n_classes, loss.size, scale)
    if switch is not None and switch < loss.size:
        _mark_switch(ax, switch)
    if n_classes > 2:
        _mark_level(ax, math.log(n_classes), f"log {n_classes}\nuniform guess")
    _mark_level(ax, LOG2, f"log 2\nbelow: every\ntraining {sample}\nis correct")
    _name_curves(ax, first, high, loss.min(), scale)
    ax.set_xlabel("iteration")
    quiet_frame(ax, f"Loss of the worst training {sample}")


def _envelope(loss: NDArray, scale: str) -> tuple[NDArray, NDArray, NDArray]:
    """Return the first iteration (from 1), lowest and highest loss of each column of the figure.

    The last values are repeated at the end, so that a step plot includes the last column.
    """
    spaced = np.geomspace if scale == "log" else np.linspace
    edges = spaced(1, loss.size + 1, N_COLUMNS + 1).astype(int)
    first = np.unique(edges[:-1])
    low = np.minimum.reduceat(loss, first - 1)
    high = np.maximum.reduceat(loss, first - 1)
    return np.append(first, loss.size + 1), np.append(low, low[-1]), np.append(high, high[-1])


def _scale(ax: Axes, low: float, high: float, n_classes: int, n_iter: int, scale: str) -> None:
    """Set the scales, limits and ticks; ticks of losses are 1, 2 and 5 in each decade."""
    from matplotlib.ticker import FixedLocator, NullLocator

    low, high = min(low, LOG2), max(high, math.log(n_classes))
    # Leave space for a label below the curve.
    bottom, top = low / max(1.33, (high / low) ** 0.1), 1.15 * high
    decades = range(math.floor(math.log10(bottom)), math.ceil(math.log10(top)))
    ticks = [digit * 10.0**decade for decade in decades for digit in (1, 2, 5)]
    ax.set(xscale=scale, yscale="log", xlim=(1, n_iter + 1), ylim=(bottom, top))
    ax.yaxis.set_major_locator(FixedLocator([t for t in ticks if bottom <= t <= top]))
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_locator(NullLocator())
    ax.grid(axis="y", color=PALE, linewidth=0.6)
    ax.set_axisbelow(True)


def _name_curves(ax: Axes, first: NDArray, high: NDArray, best: float, scale: str) -> None:
    """Label the range in its middle and the best loss at its end."""
    centre = math.sqrt(first[-1]) if scale == "log" else 0.25 * first[-1]
    middle = int(np.searchsorted(first, centre))
    ax.annotate(
        "at each iteration",
        (first[middle], high[middle]),
        xytext=(0, 4),
        textcoords="offset points",
        fontsize=SMALL,
        color=BLUE,
        alpha=0.7,
    )
    ax.annotate(
        f"best so far: {best:.3f}",
        (1, max(best, FLOOR)),
        xycoords=("axes fraction", "data"),
        xytext=(0, -7),
        textcoords="offset points",
        ha="right",
        va="top",
        fontsize=TEXT,
        fontweight="bold",
        color=BLUE,
        bbox={"facecolor": "white", "linewidth": 0, "pad": 1},
    )


def _mark_level(ax: Axes, level: float, label: str) -> None:
    """Draw a dashed level with a label on the right."""
    ax.axhline(level, color=INK, linewidth=0.9, linestyle=DASHED)
    ax.annotate(
        label,
        (1, level),
        xycoords=("axes fraction", "data"),
        xytext=(6, 4),
        textcoords="offset points",
        va="top",
        fontsize=SMALL,
        color=INK,
    )


def _mark_switch(ax: Axes, switch: int) -> None:
    """Mark the end of the Polyak steps."""
    ax.axvline(switch + 1, color=GREY, linewidth=0.8, linestyle=(0, (1, 2)))
    ax.annotate(
        "constant steps →",
        (switch + 1, 1),
        xycoords=("data", "axes fraction"),
        xytext=(-5, 0),
        textcoords="offset points",
        ha="right",
        va="top",
        fontsize=SMALL,
        color=GREY,
    )


def plot_stages(
    warmup_losses: ArrayLike, polish_losses: ArrayLike = (), level: float = LOG2
) -> Figure:
    """Plot the mean loss of each epoch of the warm-up and the largest loss of each polish round.

    If the largest loss is below log 2, every training row is classified correctly.

    Parameters
    ----------
    warmup_losses : array, such as `LMMClassifier.loss_curve_`
    polish_losses : array, such as `LMMClassifier.polish_losses_`
        Drawn in a second panel, unless empty.
    level : float
        Target level of the polish.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from maxplus.plots import plot_stages
    >>> figure = plot_stages([0.9, 0.3, 0.1], [4.0, 1.1, 0.6])
    >>> figure.savefig("stages.png")  # doctest: +SKIP
    """
    warmup, polish = np.asarray(warmup_losses, float), np.asarray(polish_losses, float)
    if warmup.ndim != 1 or not warmup.size:
        raise ValueError(f"warmup_losses must be a non-empty vector, got shape {warmup.shape}")
    figure = new_figure(7.0, 4.2)
    axes = figure.subplots(1, 2 if polish.size else 1, squeeze=False)[0]
    _draw_course(axes[0], 1 + np.arange(warmup.size), warmup, BLUE)
    axes[0].set_xlabel("epoch of the warm-up")
    quiet_frame(axes[0], "Mean soft loss")
    if polish.size:
        _draw_course(axes[1], np.arange(polish.size), polish, VERMILION)
        axes[1].axhline(level, color=GREY, linestyle=DASHED, linewidth=1)
        name = "log 2" if level == LOG2 else f"{level:g}"
        axes[1].text(
            1.01,
            level,
            name,
            transform=axes[1].get_yaxis_transform(),
            va="center",
            fontsize=SMALL,
            color=GREY,
        )
        axes[1].set_xlabel("round of the polish")
        quiet_frame(axes[1], "Largest loss")
    return figure


def _draw_course(ax: Axes, x: ArrayLike, y: ArrayLike, colour: str) -> None:
    from matplotlib.ticker import MaxNLocator

    ax.plot(x, y, "o-", color=colour, linewidth=2, markersize=4)
    ax.set_ylim(bottom=0)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def plot_search(candidates: Sequence[str], losses: ArrayLike, chosen: int) -> Figure:
    """Plot the held-out loss of each candidate, the chosen one first and in another colour.

    Parameters
    ----------
    candidates : sequence of K str
    losses : array of shape (K, splits)
        Infinite for splits on which a candidate was not evaluated.
    chosen : int
        Index of the candidate that was trained.

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
        raise ValueError(f"chosen must be 0 to {len(names) - 1}; got {chosen}")
    known = np.isfinite(table)
    mean = np.where(known, table, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    # Candidates that were evaluated on more splits come first.
    order = np.lexsort((mean, -known.sum(axis=1), np.arange(len(names)) != chosen))
    figure = new_figure(7.0, 1.4 + 0.3 * len(names))
    ax = figure.subplots()
    for place, k in enumerate(order):
        colour = VERMILION if k == chosen else BLUE
        found = table[k][known[k]]
        ax.plot(found, np.full(found.size, place), "o", color=colour, alpha=0.45, markersize=5)
        if found.size:
            ax.plot([mean[k]], [place], "|", color=colour, markersize=14, markeredgewidth=3)
    ax.hlines(np.arange(len(order)), *ax.get_xlim(), color=PALE, linewidth=0.5, zorder=0)
    ax.set_yticks(np.arange(len(order)), [names[k] for k in order])
    ax.invert_yaxis()
    ax.set_xlabel("held-out loss of each split, and its mean")
    quiet_frame(ax, "")
    figure_title(figure, "Model search")
    ax.tick_params(axis="y", labelcolor=INK, labelsize=SMALL)
    ax.tick_params(axis="x", labelcolor=GREY)
    return figure
