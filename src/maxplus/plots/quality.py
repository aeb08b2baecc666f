"""Plots of calibration and certified accuracy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from maxplus.metrics import Reliability
from maxplus.plots._style import BLUE, DASHED, GREY, PALE, SMALL, new_figure, style_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PERCENT = ([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])


def plot_reliability(bins: Reliability) -> Figure:
    """Plot a reliability diagram with a histogram of the predicted probabilities.

    Parameters
    ----------
    bins : Reliability
        Result of `maxplus.metrics.reliability`.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from maxplus.metrics import reliability
    >>> from maxplus.plots import plot_reliability
    >>> figure = plot_reliability(reliability([0, 1, 1], [[0.9, 0.1], [0.3, 0.7], [0.6, 0.4]]))
    """
    if not np.sum(bins.count):
        raise ValueError("bins contains no samples; compute it for at least one sample")
    figure = new_figure(7.0, 4.8)
    above, below = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": [3.5, 1]})
    _draw_accuracy(above, bins)
    _draw_counts(below, bins)
    return figure


def _draw_accuracy(ax: Axes, bins: Reliability) -> None:
    """Draw the accuracy of each bin as a dot whose area increases with the number of samples."""
    filled = bins.count > 0
    confidence, accuracy = bins.confidence[filled], bins.accuracy[filled]
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=DASHED, zorder=1)
    ax.text(
        0.2,
        0.22,
        "perfect calibration",
        rotation=45,
        rotation_mode="anchor",
        transform_rotates_text=True,
        fontsize=SMALL,
        color=GREY,
    )
    ax.vlines(confidence, confidence, accuracy, color=BLUE, linewidth=2, alpha=0.35, zorder=2)
    share = bins.count[filled] / bins.count.sum()
    ax.scatter(
        confidence, accuracy, s=18 + 220 * share, color=BLUE, linewidth=0, zorder=3, clip_on=False
    )
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.set_yticks(*PERCENT)
    ax.set_ylabel("accuracy")
    # The top left corner is usually empty, because the largest probability is at least 1 / C.
    note = (
        f"expected calibration error {bins.error:.3f}\nabove the line: underconfident\n"
        "below: overconfident"
    )
    ax.text(0.01, 0.97, note, va="top", fontsize=SMALL, color=GREY)
    style_axes(ax, "Reliability diagram")


def _draw_counts(ax: Axes, bins: Reliability) -> None:
    edges = np.linspace(0, 1, len(bins.count) + 1)
    ax.stairs(bins.count, edges, fill=True, color=PALE)
    ax.set_xticks(*PERCENT)
    ax.set_xlabel("probability of the predicted class")
    ax.set_ylabel("samples")
    ax.locator_params(axis="y", nbins=3, integer=True)
    style_axes(ax, "")


def plot_certified_accuracy(
    radius: ArrayLike, correct: ArrayLike, *, unit: str | None = None
) -> Figure:
    """Plot the fraction of samples that are correct and certified, as a function of ε.

    Parameters
    ----------
    radius : array of shape (N,)
        Certified radii (`maxplus.LMMClassifier.certified_radius`).
    correct : array of bool of shape (N,)
        Mask of correct predictions.
    unit : str, optional
        Unit of ε, for the label of the axis.

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
            f"radius and correct must have the same shape (N,), N >= 1; got shapes "
            f"{radius.shape} and {correct.shape}"
        )
    correct_radius = radius[correct]
    eps = np.sort(correct_radius[np.isfinite(correct_radius)])
    end = 1.05 * eps[-1] if eps.size and eps[-1] > 0 else 1.0
    # Samples with an infinite radius remain certified at any ε.
    fraction = (correct_radius.size - np.arange(eps.size + 1)) / radius.size
    figure = new_figure(7.0, 4.2)
    ax = figure.subplots()
    x, y = np.concatenate([[0.0], eps, [end]]), np.append(fraction, fraction[-1])
    ax.step(x, y, where="post", color=BLUE, linewidth=2)
    ax.fill_between(x, y, step="post", color=BLUE, alpha=0.15, linewidth=0)
    ax.annotate(
        f"accuracy {100 * correct.mean():.1f} %",
        (0, correct.mean()),
        xytext=(6, 5),
        textcoords="offset points",
        fontsize=SMALL,
        color=GREY,
    )
    label = "ε: largest change of every feature" + ("" if unit is None else f", in {unit}")
    ax.set(xlim=(0, end), ylim=(0, 1.08), xlabel=label)
    ax.set_yticks(*PERCENT)
    style_axes(ax, "Certified accuracy")
    return figure
