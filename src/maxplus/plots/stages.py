"""How a training in stages went: the warm-up's mean loss, then the polish's maximum."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from maxplus.models import LOG2
from maxplus.plots._canvas import BLUE, DASHED, GREY, SMALL, VERMILION, new_figure, quiet_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_stages(
    warmup_losses: ArrayLike, polish_losses: ArrayLike = (), level: float = LOG2
) -> Figure:
    """Mean loss of each epoch of the warm-up, and the largest loss of each round of the polish.

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
    _draw(axes[0], 1 + np.arange(warmup.size), warmup, BLUE)
    axes[0].set_xlabel("epoch of the warm-up")
    quiet_frame(axes[0], "Mean soft loss")
    if polish.size:
        _draw(axes[1], np.arange(polish.size), polish, VERMILION)
        axes[1].axhline(level, color=GREY, linestyle=DASHED, linewidth=1)
        name = "log 2" if level == LOG2 else f"{level:g}"
        axes[1].text(
            1.01, level, name, transform=axes[1].get_yaxis_transform(), va="center",
            fontsize=SMALL, color=GREY,
        )  # fmt: skip
        axes[1].set_xlabel("round of the polish")
        quiet_frame(axes[1], "Largest loss")
    return figure


def _draw(ax: Axes, x: ArrayLike, y: ArrayLike, colour: str) -> None:
    from matplotlib.ticker import MaxNLocator

    ax.plot(x, y, "o-", color=colour, linewidth=2, markersize=4)
    ax.set_ylim(bottom=0)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
