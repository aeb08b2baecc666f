"""How far probabilities can be trusted: what was promised against what was kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from maxplus.plots._canvas import BLUE, DASHED, GREY, PALE, SMALL, new_figure, quiet_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PERCENT = ([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])


class Binned(Protocol):
    """Samples by their top probability, in bins of equal width; NaN where there are none."""

    @property
    def count(self) -> NDArray:
        """Samples of each bin."""

    @property
    def confidence(self) -> NDArray:
        """Their mean top probability."""

    @property
    def accuracy(self) -> NDArray:
        """The share of them that is right."""

    @property
    def error(self) -> float:
        """The expected calibration error."""


def plot_reliability(bins: Binned) -> Figure:
    """How often the predicted class is right, against its probability, and the samples per bin.

    Parameters
    ----------
    bins : from `maxplus.metrics.reliability`

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from maxplus.metrics import reliability
    >>> from maxplus.plots import plot_reliability
    >>> figure = plot_reliability(reliability([0, 1, 1], [[0.9, 0.1], [0.3, 0.7], [0.6, 0.4]]))
    """
    if not np.sum(bins.count):
        raise ValueError("bins holds no samples; give labels and probabilities of at least one")
    figure = new_figure(7.0, 4.8)
    above, below = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": [3.5, 1]})
    _draw_shares(above, bins)
    _draw_counts(below, bins)
    return figure


def _draw_shares(ax: Axes, bins: Binned) -> None:
    """A dot for each bin, as large as its samples are many, and its gap to the diagonal."""
    filled = bins.count > 0
    promised, kept = bins.confidence[filled], bins.accuracy[filled]
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=DASHED, zorder=1)
    ax.text(
        0.2, 0.22, "as promised", rotation=45, rotation_mode="anchor",
        transform_rotates_text=True, fontsize=SMALL, color=GREY,
    )  # fmt: skip
    ax.vlines(promised, promised, kept, color=BLUE, linewidth=2, alpha=0.35, zorder=2)
    share = bins.count[filled] / bins.count.sum()
    ax.scatter(promised, kept, s=18 + 220 * share, color=BLUE, linewidth=0, zorder=3, clip_on=False)
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.set_yticks(*PERCENT)
    ax.set_ylabel("right")
    # At the left, where few dots lie: a top probability is at least 1 / C.
    words = (
        f"expected calibration error {bins.error:.3f}\nabove the line: too modest\nbelow: too sure"
    )
    ax.text(0.01, 0.97, words, va="top", fontsize=SMALL, color=GREY)
    quiet_frame(ax, "How often predictions are right, by their probability")


def _draw_counts(ax: Axes, bins: Binned) -> None:
    edges = np.linspace(0, 1, len(bins.count) + 1)
    ax.stairs(bins.count, edges, fill=True, color=PALE)
    ax.set_xticks(*PERCENT)
    ax.set_xlabel("probability of the predicted class")
    ax.set_ylabel("samples")
    ax.locator_params(axis="y", nbins=3, integer=True)
    quiet_frame(ax, "")
