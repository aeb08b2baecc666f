"""Which class is taken for which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from maxplus.plots._canvas import GREY, INK, SMALL, new_figure, quiet_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Larger tables are drawn without numbers: they could not be read.
MAX_WRITTEN = 20


def plot_confusion(matrix: ArrayLike, class_names: Sequence[Any]) -> Figure:
    """A confusion matrix as a heat map.

    Parameters
    ----------
    matrix : array of shape (C, C)
        How often a sample of class i (row) was taken for class j (column).
    class_names : sequence of C names

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from maxplus.plots import plot_confusion
    >>> figure = plot_confusion([[9, 1], [0, 10]], ["cat", "dog"])
    """
    size = 2.6 + 0.42 * min(len(class_names), MAX_WRITTEN)
    figure = new_figure(size, size)
    draw_confusion(figure.subplots(), matrix, class_names)
    return figure


def draw_confusion(ax: Axes, matrix: ArrayLike, class_names: Sequence[Any]) -> None:
    """Draw `plot_confusion` on given axes; shades are shares of the row, on a root scale."""
    counts = np.asarray(matrix)
    C = len(class_names)
    if counts.shape != (C, C):
        raise ValueError(f"matrix must have shape ({C}, {C}) for {C} classes, got {counts.shape}")
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    # Mistakes are rare: on a linear scale all of them would be white.
    ax.imshow(np.sqrt(share), cmap="Blues", vmin=0, vmax=1.15)
    if C <= MAX_WRITTEN:
        for (row, column), count in np.ndenumerate(counts):
            dark = share[row, column] > 0.35
            ax.text(
                column, row, f"{count:,}", ha="center", va="center", fontsize=SMALL - 1,
                color="white" if dark else INK if count else GREY,
            )  # fmt: skip
    ax.set_xticks(range(C), [str(name) for name in class_names])
    ax.set_yticks(range(C), [str(name) for name in class_names])
    if max(len(str(name)) for name in class_names) > 3:
        ax.tick_params(axis="x", labelrotation=45)
    ax.set_xlabel("predicted")
    ax.set_ylabel("true")
    quiet_frame(ax, "Which class is taken for which")
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
