"""Figures of compared models: the worst sample's loss, and probabilities of true labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from experiments.comparison import Evaluation, TrainedModel
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
    figure_title,
    new_figure,
    quiet_frame,
)
from maxplus.plots.training import draw_convergence

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = (VERMILION, GREEN, BLUE)

# Heights on the axis: a model takes a line for its name and one for each of its two sets.
BAND, TRAIN, TEST = 2.75, 0.75, 1.65
SPREAD = 0.6
N_BINS = 40
GOLDEN = (5**0.5 - 1) / 2
# Positions of the columns right of the dots.
LOWEST, RIGHT = 1.14, 1.30


def draw_confidence(ax: Axes, models: Sequence[TrainedModel], sample: str = "sample") -> None:
    """Draw the probability of the true label, exp(−loss), in a row of dots for each set.

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
    """Draw axes, the line at ½ and the heads of the columns."""
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


def _row(ax: Axes, y: float, outcome: Evaluation, colour: str, alpha: float) -> None:
    """Draw dots spread evenly over a row's height, and its figures."""
    losses = outcome.losses
    # Multiples of the golden ratio fill a row without the clumps of random numbers.
    jitter = np.arange(losses.size) * GOLDEN % 1 - 0.5
    ax.axhline(y, color=PALE, linewidth=0.6, zorder=0)
    ax.scatter(
        np.exp(-losses),
        y + SPREAD * jitter,
        s=12,
        color=colour,
        alpha=alpha,
        linewidth=0,
        clip_on=False,
    )
    figure: dict[str, Any] = {"va": "center", "ha": "right", "fontsize": SMALL, "color": INK}
    ax.text(LOWEST, y, _probability(float(losses.max())), **figure)
    ax.text(RIGHT, y, f"{outcome.accuracy:.1%}", **figure)


def _probability(loss: float) -> str:
    """Return exp(−loss) with two digits, or a power of ten below 0.01."""
    if loss < np.log(100):
        return f"{np.exp(-loss):.2f}"
    return rf"$10^{{{-loss / np.log(10):.0f}}}$"


def plot_comparison(
    loss_curve: ArrayLike,
    models: Sequence[TrainedModel],
    n_classes: int,
    *,
    switch: int | None = None,
    sample: str = "sample",
) -> Figure:
    """Draw the maximum loss of one model, and probabilities of true labels of several.

    Parameters
    ----------
    loss_curve : array of shape (n_iter,)
        As in `plot_convergence`.
    models : at most three
    n_classes : int
    switch : int, optional
        Both as in `plot_convergence`.
    sample : str
        Noun for one sample.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure = new_figure(12.0, 4.8)
    left, right = figure.subplots(1, 2, gridspec_kw={"wspace": 0.08})
    draw_convergence(left, loss_curve, n_classes, switch, sample)
    draw_confidence(right, models, sample)
    return figure


def plot_probabilities(losses: Mapping[str, NDArray], sample: str = "sample") -> Figure:
    """Draw histograms of the probability given to the true label, one below the other.

    Parameters
    ----------
    losses : mapping from a model's name to each sample's loss; the probability is exp(−loss)
    sample : str
        Noun for one sample.

    Returns
    -------
    matplotlib.figure.Figure
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
    figure_title(figure, f"Probability given to each {sample}'s true label")
    panels[-1].set(xlim=(0, 1), xlabel="probability of the true label")
    return figure
