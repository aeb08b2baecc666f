"""What was tried before a training, and what came out best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from maxplus.plots._canvas import BLUE, GREY, INK, PALE, SMALL, VERMILION, new_figure, quiet_frame

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_search(candidates: Sequence[str], losses: ArrayLike, chosen: int) -> Figure:
    """Held-out loss of each candidate, the best mean first, and the chosen one in colour.

    Parameters
    ----------
    candidates : K names
    losses : array of shape (K, splits); infinite where a candidate was given up before a split
    chosen : which of them was trained in the end

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
    # Who was judged on more splits was given up later.
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
    quiet_frame(ax, "What was tried; the first was chosen")
    ax.tick_params(axis="y", labelcolor=INK, labelsize=SMALL)
    ax.tick_params(axis="x", labelcolor=GREY)
    return figure
