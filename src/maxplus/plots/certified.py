"""How much of the accuracy survives changes of the input."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from maxplus.plots._canvas import BLUE, GREY, SMALL, new_figure, quiet_frame

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_certified_accuracy(
    radius: ArrayLike, correct: ArrayLike, *, unit: str | None = None
) -> Figure:
    """Certified accuracy against ε: the share of samples right at every point within ε.

    Parameters
    ----------
    radius : each sample's certified radius, from `maxplus.LMMClassifier.certified_radius`
    correct : whether each sample is classified right
    unit : what ε is counted in, for the axis

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from maxplus.plots import plot_certified_accuracy
    >>> figure = plot_certified_accuracy([0.1, 0.3, 0.2], [True, True, False])
    """
    radius, correct = np.asarray(radius, float), np.asarray(correct, bool)
    if radius.ndim != 1 or radius.shape != correct.shape or radius.size == 0:
        raise ValueError(
            f"radius and correct must be non-empty vectors of one length; got shapes "
            f"{radius.shape} and {correct.shape}"
        )
    own = radius[correct]
    eps = np.sort(own[np.isfinite(own)])
    end = 1.05 * eps[-1] if eps.size and eps[-1] > 0 else 1.0
    # After each radius one sample less; infinite ones stay to the end.
    left = (own.size - np.arange(eps.size + 1)) / radius.size
    figure = new_figure(7.0, 4.2)
    ax = figure.subplots()
    x, y = np.concatenate([[0.0], eps, [end]]), np.append(left, left[-1])
    ax.step(x, y, where="post", color=BLUE, linewidth=2)
    ax.fill_between(x, y, step="post", color=BLUE, alpha=0.15, linewidth=0)
    ax.annotate(
        f"accuracy {correct.mean():.1%}", (0, correct.mean()), xytext=(6, 5),
        textcoords="offset points", fontsize=SMALL, color=GREY,
    )  # fmt: skip
    what = "ε: how far every feature may move" + ("" if unit is None else f", in {unit}")
    ax.set(xlim=(0, end), ylim=(0, 1.08), xlabel=what)
    ax.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
    quiet_frame(ax, "Certified accuracy: right, and provably so within ε")
    return figure
