"""What an iteration takes on several ranks, measured and by a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from maxplus.plots._canvas import BLUE, GREY, VERMILION, new_figure, quiet_frame

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = (BLUE, VERMILION)


def plot_scaling(
    ranks: Sequence[int],
    measured: Mapping[str, Sequence[float]],
    predicted: Mapping[str, Sequence[float]],
) -> Figure:
    """Milliseconds of an iteration over the number of ranks: dots, and a line for the model.

    Parameters
    ----------
    ranks : how many, on the horizontal axis
    measured, predicted : seconds by the kind of steps, one for each number of ranks

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from maxplus.plots import plot_scaling
    >>> figure = plot_scaling([1, 2], {"polyak": [4e-3, 2e-3]}, {"polyak": [4e-3, 2.1e-3]})
    """
    figure = new_figure(7.2, 3.4)
    ax = figure.subplots()
    for colour, (name, seconds) in zip(COLOURS, measured.items(), strict=False):
        ax.plot(
            ranks, [1e3 * s for s in seconds], "o", color=colour, label=f"{name.capitalize()} steps"
        )
        if name in predicted:
            ax.plot(ranks, [1e3 * s for s in predicted[name]], "-", color=colour, linewidth=1.0,
                    label="… by the model")  # fmt: skip
    ax.set_xticks(list(ranks))
    ax.set_ylim(bottom=0.0)
    ax.set_xlabel("ranks", color=GREY)
    ax.set_ylabel("ms per iteration", color=GREY)
    # Beside the axes, where no dot can lie behind it.
    ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.02, 1.0))
    quiet_frame(ax, "Iterations over several ranks")
    return figure
