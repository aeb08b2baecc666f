"""Figures of a training: its losses, its stages, and the search before it."""

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

# The resolution of a printed figure.
N_COLUMNS = 500
# A logarithmic axis has no zero; lower losses are drawn here.
FLOOR = 1e-3


def plot_convergence(
    loss_curve: ArrayLike,
    n_classes: int,
    *,
    switch: int | None = None,
    sample: str = "sample",
    scale: str = "log",
) -> Figure:
    """Draw the maximum loss against the iteration, with the lines log 2 and log C.

    Parameters
    ----------
    loss_curve : array of shape (n_iter,)
        The maximum loss at each iteration, such as `LMMClassifier.loss_curve_`.
    n_classes : int
        C; the loss of guessing is log C.
    switch : int, optional
        The iteration from which steps are constant.
    sample : str
        Noun for one sample.
    scale : {"log", "linear"}
        Of the iterations: the first steps drawn as large as the last, or not.

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
    """Draw `plot_convergence` on given axes: the loss light, the best so far strong."""
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
    _mark_level(ax, LOG2, f"log 2\nbelow: every\ntraining {sample}\nis right")
    _name_curves(ax, first, high, loss.min(), scale)
    ax.set_xlabel("iteration")
    quiet_frame(ax, f"Loss of the worst training {sample}")


def _envelope(loss: NDArray, scale: str) -> tuple[NDArray, NDArray, NDArray]:
    """Return first iteration (from 1), lowest and highest loss of stretches as wide as a column.

    The end is added as a last stretch of no length, so that a step plot reaches it.
    """
    spaced = np.geomspace if scale == "log" else np.linspace
    edges = spaced(1, loss.size + 1, N_COLUMNS + 1).astype(int)
    first = np.unique(edges[:-1])
    low = np.minimum.reduceat(loss, first - 1)
    high = np.maximum.reduceat(loss, first - 1)
    return np.append(first, loss.size + 1), np.append(low, low[-1]), np.append(high, high[-1])


def _scale(ax: Axes, low: float, high: float, n_classes: int, n_iter: int, scale: str) -> None:
    """Set axes with plain numbers; losses on a logarithmic one: 0.5, 1, 2, 5."""
    from matplotlib.ticker import FixedLocator, NullLocator

    low, high = min(low, LOG2), max(high, math.log(n_classes))
    # Room below the best curve for its name, however many decades there are.
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
    """Write the light curve's name over its middle, the strong curve's at its end."""
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
    """Draw a dashed level, its meaning in the margin beside the curves."""
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
    """Mark where Polyak's steps end."""
    ax.axvline(switch + 1, color=GREY, linewidth=0.8, linestyle=(0, (1, 2)))
    ax.annotate(
        "constant steps\nfrom here on",
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
    """Draw the mean loss of the warm-up's epochs and the largest loss of the polish's rounds.

    Below log 2 every training sample is right.

    Parameters
    ----------
    warmup_losses : such as `LMMClassifier.loss_curve_`
    polish_losses : such as `LMMClassifier.polish_losses_`; a panel of its own if there are any
    level : what the polish was to bring every loss below

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
    """Draw the held-out loss of each candidate, the best mean first, and the chosen one in colour.

    Parameters
    ----------
    candidates : K names
    losses : array of shape (K, splits); infinite where a candidate was given up before a split
    chosen : index of the candidate that was trained

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
    # A candidate that was judged on more splits was given up later.
    order = np.lexsort((mean, -known.sum(axis=1), np.arange(len(names)) != chosen))
    figure = new_figure(7.0, 1.4 + 0.3 * len(names))
    ax = figure.subplots()
    for place, k in enumerate(order):
        colour = VERMILION if k == chosen else BLUE
        own = table[k][known[k]]
        ax.plot(own, np.full(own.size, place), "o", color=colour, alpha=0.45, markersize=5)
        if own.size:
            ax.plot([mean[k]], [place], "|", color=colour, markersize=14, markeredgewidth=3)
    ax.hlines(np.arange(len(order)), *ax.get_xlim(), color=PALE, linewidth=0.5, zorder=0)
    ax.set_yticks(np.arange(len(order)), [names[k] for k in order])
    ax.invert_yaxis()
    ax.set_xlabel("loss on rows held out: dots, and their mean")
    quiet_frame(ax, "")
    figure_title(figure, "Model search")
    ax.tick_params(axis="y", labelcolor=INK, labelsize=SMALL)
    ax.tick_params(axis="x", labelcolor=GREY)
    return figure
