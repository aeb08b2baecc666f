"""Colours, font sizes and axes style of all figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The palette of Okabe and Ito, which is distinguishable with colour blindness.
VERMILION, GREEN, BLUE, ORANGE = "#D55E00", "#009E73", "#0072B2", "#E69F00"
INK, GREY, PALE = "#222222", "#6B6B6B", "#DCDCDC"

TITLE, TEXT, SMALL = 12.5, 10.0, 9.0
DASHED = (0, (4, 3))
DPI = 160


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure outside pyplot's global state; sizes in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "figures need matplotlib, which is not installed: pip install 'maxplus[plot]'"
        ) from error
    return Figure(figsize=(width, height), dpi=DPI, layout="constrained")


def quiet_frame(ax: Axes, title: str) -> None:
    """Set a left-aligned title, remove the top and right spines, and use small grey ticks."""
    ax.set_title(title, loc="left", fontsize=TITLE, fontweight="bold", color=INK, pad=14)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(PALE)
    ax.tick_params(which="both", color=PALE, labelcolor=GREY, labelsize=SMALL)
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set(size=TEXT, color=GREY)


def figure_title(figure: Figure, title: str) -> None:
    """Set a left-aligned title above all axes."""
    figure.suptitle(title, x=0.01, ha="left", fontsize=TITLE, fontweight="bold", color=INK)
