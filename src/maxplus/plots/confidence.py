"""How sure models are of what is right: one dot per sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from maxplus.plots._canvas import (
    BLUE,
    DASHED,
    GREEN,
    GREY,
    INK,
    PALE,
    SMALL,
    TEXT,
    VERMILION,
    quiet_frame,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = (VERMILION, GREEN, BLUE)

# Heights on the axis: a model takes a line for its name and one for each of its two sets.
BAND, TRAIN, TEST = 2.75, 0.75, 1.65
SPREAD = 0.6
GOLDEN = (5**0.5 - 1) / 2
# Where the columns right of the dots stand.
LOWEST, RIGHT = 1.14, 1.30


class Evaluated(Protocol):
    """A model's outcome on one set of samples."""

    @property
    def losses(self) -> NDArray:
        """Each sample's loss."""

    @property
    def accuracy(self) -> float:
        """Share of samples that are classified right."""


class Compared(Protocol):
    """A model's outcome on the training set and on the test set."""

    @property
    def name(self) -> str:
        """What the model is called."""

    @property
    def train(self) -> Evaluated:
        """Outcome on what it was trained on."""

    @property
    def test(self) -> Evaluated:
        """Outcome on what it had not seen."""


def draw_confidence(ax: Axes, models: Sequence[Compared], sample: str = "sample") -> None:
    """Probability of the true label, exp(−loss), in a row of dots for each model and set.

    Beside each row stand its lowest probability and the accuracy; ½ is where
    the loss is log 2.
    """
    for band, (model, colour) in enumerate(zip(models, COLOURS, strict=False)):
        top = band * BAND
        ax.text(0, top, model.name, va="center", fontsize=TEXT, fontweight="bold", color=colour)
        _row(ax, top + TRAIN, model.train, colour, alpha=0.4)
        _row(ax, top + TEST, model.test, colour, alpha=1.0)
    _frame(ax, len(models))
    quiet_frame(ax, f"Probability given to each {sample}'s true label")
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)


def _frame(ax: Axes, n_models: int) -> None:
    """Axes, the line at ½ and the heads of the columns."""
    head, bottom = -0.85, BAND * n_models - 0.5
    rows = [band * BAND + row for band in range(n_models) for row in (TRAIN, TEST)]
    ax.set(xlim=(-0.02, 1.02), ylim=(bottom, head))
    ax.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "¼", "½", "¾", "1"])
    ax.set_yticks(rows, ["train", "test"] * n_models)
    ax.set_xlabel("probability")
    ax.axvline(0.5, ymax=0.95, color=INK, linewidth=0.9, linestyle=DASHED, zorder=0)
    label: dict[str, Any] = {"va": "center", "fontsize": SMALL}
    ax.text(0.5, head, "→ right for sure (loss below log 2)", color=INK, **label)
    ax.text(LOWEST, head, "lowest", ha="right", color=GREY, **label)
    ax.text(RIGHT, head, "right", ha="right", color=GREY, **label)


def _row(ax: Axes, y: float, outcome: Evaluated, colour: str, alpha: float) -> None:
    """Dots spread evenly over a row's height, and its figures."""
    losses = outcome.losses
    # Multiples of the golden ratio fill a row without the clumps of random numbers.
    jitter = np.arange(losses.size) * GOLDEN % 1 - 0.5
    ax.axhline(y, color=PALE, linewidth=0.6, zorder=0)
    ax.scatter(
        np.exp(-losses), y + SPREAD * jitter,
        s=12, color=colour, alpha=alpha, linewidth=0, clip_on=False,
    )  # fmt: skip
    figure: dict[str, Any] = {"va": "center", "ha": "right", "fontsize": SMALL, "color": INK}
    ax.text(LOWEST, y, _probability(float(losses.max())), **figure)
    ax.text(RIGHT, y, f"{outcome.accuracy:.1%}", **figure)


def _probability(loss: float) -> str:
    """exp(−loss): two digits, or a power of ten when it is below 0.01."""
    if loss < np.log(100):
        return f"{np.exp(-loss):.2f}"
    return rf"$10^{{{-loss / np.log(10):.0f}}}$"
