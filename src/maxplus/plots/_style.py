"""Colours, font sizes and axes style of all figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colour-blind-safe palette of Okabe and Ito.
VERMILION, GREEN, BLUE, ORANGE = "#D55E00", "#009E73", "#0072B2", "#E69F00"
INK, GREY, PALE = "#222222", "#6B6B6B", "#DCDCDC"

TITLE, TEXT, SMALL = 12.5, 10.0, 9.0
DASHED = (0, (4, 3))
DPI = 160


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches that is not registered with pyplot."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "plots require matplotlib, which is not installed: pip install 'maxplus[plot]'"
        ) from error
    return Figure(figsize=(width, height), dpi=DPI, layout="constrained")


def style_axes(ax: Axes, title: str, size: float = TITLE) -> None:
    """Set a left-aligned title, hide the top and right spines, and use small grey ticks."""
    pad = 14 if size == TITLE else 5
    ax.set_title(title, loc="left", fontsize=size, fontweight="bold", color=INK, pad=pad)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(PALE)
    ax.tick_params(which="both", color=PALE, labelcolor=GREY, labelsize=SMALL)
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set(size=TEXT, color=GREY)


def figure_title(figure: Figure, title: str) -> None:
    """Set a left-aligned title above all axes."""
    figure.suptitle(title, x=0.01, ha="left", fontsize=TITLE, fontweight="bold", color=INK)
