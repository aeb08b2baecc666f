"""How the maximum loss falls during training."""

from __future__ import annotations

import math
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
    new_figure,
    quiet_frame,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# More columns than this cannot be told apart in print.
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
    """Maximum loss against iteration, with the lines log 2 and log C.

    Parameters
    ----------
    loss_curve : array of shape (n_iter,)
        The maximum loss at each iteration, such as `LMMClassifier.loss_curve_`.
    n_classes : int
        C; the loss of guessing is log C.
    switch : int, optional
        The iteration from which steps are constant.
    sample : str
        What one sample is called.
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
        _mark_level(ax, math.log(n_classes), f"log {n_classes}\nguessing")
    _mark_level(ax, LOG2, f"log 2\nbelow: every\ntraining {sample}\nis right")
    _name_curves(ax, first, high, loss.min(), scale)
    ax.set_xlabel("iteration")
    quiet_frame(ax, f"Loss of the worst training {sample}")


def _envelope(loss: NDArray, scale: str) -> tuple[NDArray, NDArray, NDArray]:
    """First iteration (from 1), lowest and highest loss of stretches as wide as a column.

    The end is added as a last stretch of no length, so that a step plot reaches it.
    """
    spaced = np.geomspace if scale == "log" else np.linspace
    edges = spaced(1, loss.size + 1, N_COLUMNS + 1).astype(int)
    first = np.unique(edges[:-1])
    low = np.minimum.reduceat(loss, first - 1)
    high = np.maximum.reduceat(loss, first - 1)
    return np.append(first, loss.size + 1), np.append(low, low[-1]), np.append(high, high[-1])


def _scale(ax: Axes, low: float, high: float, n_classes: int, n_iter: int, scale: str) -> None:
    """Axes with plain numbers; losses on a logarithmic one: 0.5, 1, 2, 5."""
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
    """The light curve's name over its middle, the strong curve's at its end."""
    centre = math.sqrt(first[-1]) if scale == "log" else 0.25 * first[-1]
    middle = int(np.searchsorted(first, centre))
    ax.annotate(
        "at each iteration", (first[middle], high[middle]), xytext=(0, 4),
        textcoords="offset points", fontsize=SMALL, color=BLUE, alpha=0.7,
    )  # fmt: skip
    ax.annotate(
        f"best so far: {best:.3f}", (1, max(best, FLOOR)), xycoords=("axes fraction", "data"),
        xytext=(0, -7), textcoords="offset points", ha="right", va="top",
        fontsize=TEXT, fontweight="bold", color=BLUE,
        bbox={"facecolor": "white", "linewidth": 0, "pad": 1},
    )  # fmt: skip


def _mark_level(ax: Axes, level: float, label: str) -> None:
    """A dashed level, its meaning in the margin where no curve comes."""
    ax.axhline(level, color=INK, linewidth=0.9, linestyle=DASHED)
    ax.annotate(
        label, (1, level), xycoords=("axes fraction", "data"), xytext=(6, 4),
        textcoords="offset points", va="top", fontsize=SMALL, color=INK,
    )  # fmt: skip


def _mark_switch(ax: Axes, switch: int) -> None:
    """Where Polyak's steps end."""
    ax.axvline(switch + 1, color=GREY, linewidth=0.8, linestyle=(0, (1, 2)))
    ax.annotate(
        "constant steps\nfrom here on", (switch + 1, 1), xycoords=("data", "axes fraction"),
        xytext=(-5, 0), textcoords="offset points", ha="right", va="top",
        fontsize=SMALL, color=GREY,
    )  # fmt: skip
