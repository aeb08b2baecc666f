"""How sure models are of what is right, for sets too large to draw each sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from maxplus.plots._canvas import (
    BLUE,
    GREEN,
    GREY,
    INK,
    PALE,
    SMALL,
    TITLE,
    VERMILION,
    new_figure,
    quiet_frame,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_BINS = 40


def plot_probabilities(losses: Mapping[str, NDArray], sample: str = "sample") -> Figure:
    """Histograms of the probability given to the true label, one below the other.

    Parameters
    ----------
    losses : mapping from a model's name to each sample's loss; the probability is exp(−loss)
    sample : str
        What one sample is called.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from maxplus.plots import plot_probabilities
    >>> figure = plot_probabilities({"LMM (max)": np.array([0.1, 0.2, 1.5])})
    """
    if not losses:
        raise ValueError("losses is empty; give each model's losses by its name")
    figure = new_figure(7.0, 1.2 + 1.3 * len(losses))
    panels = figure.subplots(len(losses), 1, sharex=True, squeeze=False)[:, 0]
    colours = (VERMILION, GREEN, BLUE)
    for k, (ax, (name, values)) in enumerate(zip(panels, losses.items(), strict=True)):
        probability = np.exp(-np.asarray(values))
        counts, edges = np.histogram(probability, N_BINS, (0.0, 1.0))
        ax.stairs(counts / counts.sum(), edges, fill=True, color=colours[k % 3], alpha=0.8)
        ax.axvline(0.5, color=PALE, linewidth=1, zorder=0)
        quiet_frame(ax, "")
        ax.set_ylabel("share", fontsize=SMALL)
        below = f"{name}: {(probability < 0.5).mean():.1%} below ½"
        ax.set_title(below, loc="left", fontsize=SMALL, color=GREY, pad=4)
    figure.suptitle(
        f"Probability given to each {sample}'s true label",
        x=0.01, ha="left", fontsize=TITLE, fontweight="bold", color=INK,
    )  # fmt: skip
    panels[-1].set(xlim=(0, 1), xlabel="probability of the true label")
    return figure
