"""Predicted numbers beside the true ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from maxplus.plots._canvas import BLUE, DASHED, GREY, SMALL, new_figure, quiet_frame

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# More dots than this would hide each other: some are drawn, at even distances.
MOST_DOTS = 2_000


def plot_predictions(y: ArrayLike, predicted: ArrayLike, half_width: float = np.inf) -> Figure:
    """Each row's prediction against its true number, and the band that intervals promise.

    Parameters
    ----------
    y, predicted : numbers, one for each row
    half_width : how far an interval reaches to each side; none is drawn if it is infinite

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from maxplus.plots import plot_predictions
    >>> figure = plot_predictions([1.0, 2.0, 4.0], [1.5, 2.0, 3.0], 1.0)
    """
    truth, guess = np.asarray(y, float), np.asarray(predicted, float)
    if truth.ndim != 1 or not truth.size or truth.shape != guess.shape:
        raise ValueError(
            f"y and predicted must be non-empty vectors of one length; got shapes {truth.shape} "
            f"and {guess.shape}"
        )
    some = slice(None, None, -(-truth.size // MOST_DOTS))
    figure = new_figure(7.0, 4.8)
    ax = figure.subplots()
    ends = np.array([min(truth.min(), guess.min()), max(truth.max(), guess.max())])
    ax.plot(ends, ends, color=GREY, linewidth=1, linestyle=DASHED, zorder=1)
    if np.isfinite(half_width):
        ax.fill_between(ends, ends - half_width, ends + half_width, color=BLUE, alpha=0.1,
                        linewidth=0)  # fmt: skip
        ax.text(0.01, 0.97, "shaded: inside the 90 % interval", transform=ax.transAxes, va="top",
                fontsize=SMALL, color=GREY)  # fmt: skip
    ax.scatter(guess[some], truth[some], s=14, color=BLUE, alpha=0.5, linewidth=0, zorder=2)
    ax.set(xlabel="predicted", ylabel="true")
    quiet_frame(ax, "True numbers beside predicted ones")
    return figure
