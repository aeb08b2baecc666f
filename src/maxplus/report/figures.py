"""Figures of the page as SVG, with text for screen readers."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maxplus.metrics import Reliability
from maxplus.metrics._readable import readable
from maxplus.models import LOG2
from maxplus.plots import (
    plot_certified_accuracy,
    plot_convergence,
    plot_reliability,
    plot_search,
    plot_stages,
)
from maxplus.plots._canvas import BLUE, DASHED, GREY, SMALL, new_figure, quiet_frame

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# More dots than this would hide each other: some are drawn, at even distances.
MOST_DOTS = 2_000


def reliability_figure(bins: dict[str, Any]) -> dict[str, str]:
    """Return the figure of how often predictions are right, by their probability."""
    count, confidence, accuracy = (
        np.array(bins[name], float) for name in ("count", "confidence", "accuracy")
    )
    known = Reliability(count.astype(int), confidence, accuracy)
    return _figure(
        "reliability",
        "How far probabilities can be trusted",
        "How often the predicted class is right against its probability, in "
        f"{len(count)} bins; the expected calibration error is {known.error:.3f}.",
        plot_reliability(known),
    )


def predictions_figure(y: NDArray, predicted: NDArray, half_width: float) -> dict[str, str]:
    """Return the figure of numbers beside what was predicted."""
    off = float(np.abs(y - predicted).mean())
    return _figure(
        "predictions",
        "True numbers beside predicted ones",
        f"A dot for each of {len(y):,} rows; on average a prediction is off by {readable(off)}.",
        draw_predictions(y, predicted, half_width),
    )


def draw_predictions(y: NDArray, predicted: NDArray, half_width: float) -> Figure:
    """Draw true numbers against predicted ones, and the band of the intervals if it is finite."""
    some = slice(None, None, -(-len(y) // MOST_DOTS))
    figure = new_figure(7.0, 4.8)
    ax = figure.subplots()
    ends = np.array([min(y.min(), predicted.min()), max(y.max(), predicted.max())])
    if np.isfinite(half_width):
        band = (ends - half_width, ends + half_width)
        ax.fill_between(ends, *band, color=BLUE, alpha=0.1, linewidth=0)
        words = "shaded: inside the 90 % interval"
        ax.text(0.01, 0.97, words, transform=ax.transAxes, va="top", fontsize=SMALL, color=GREY)
    ax.plot(ends, ends, color=GREY, linewidth=1, linestyle=DASHED, zorder=1)
    ax.scatter(predicted[some], y[some], s=14, color=BLUE, alpha=0.5, linewidth=0, zorder=2)
    ax.set(xlabel="predicted", ylabel="true")
    quiet_frame(ax, "True numbers beside predicted ones")
    return figure


def certified_figure(radius: NDArray, correct: NDArray, unit: str) -> dict[str, str]:
    """Return the figure of accuracy under changes of a row."""
    return _figure(
        "robustness",
        "What small changes cannot do",
        f"Certified accuracy against the size of the change in {unit}; it begins at "
        f"{correct.mean():.1%}.",
        plot_certified_accuracy(radius, correct, unit=unit),
    )


def search_figure(search: dict[str, Any]) -> dict[str, str]:
    """Return the figure of the search before the training."""
    losses = np.asarray(search["losses"], float)
    best = str(search["candidates"][search["chosen"]])
    return _figure(
        "search",
        "What was tried before the training",
        f"Held-out loss of {len(losses)} kinds of model; {best} was chosen.",
        plot_search(search["candidates"], losses, search["chosen"]),
    )


def training_figures(estimator: Any) -> list[dict[str, str]]:
    """Return figures of the stages of a training, as far as the estimator has kept them."""
    nothing = np.empty(0)
    # With a history, ``loss_curve_`` is that of the iterations.
    is_iterated = hasattr(estimator, "history_")
    warmup = nothing if is_iterated else getattr(estimator, "loss_curve_", nothing)
    polish = getattr(estimator, "polish_losses_", nothing)
    if polish.size < 2:  # a course has at least two points
        polish = polish[:0]
    level = getattr(estimator, "polish", None) or LOG2
    figures = []
    if warmup.size:
        figures.append(
            _figure(
                "stages",
                "How training went",
                f"The mean soft loss over {warmup.size:,} epochs of the warm-up"
                + (", and the largest loss over the rounds of the polish." if polish.size else "."),
                plot_stages(warmup, polish, LOG2 if isinstance(level, str) else level),
            )
        )
    curve = estimator.history_["loss"] if is_iterated else nothing
    if curve.size and np.isfinite(curve).all():
        figures.append(
            _figure(
                "convergence",
                "How training went",
                f"The training loss over {curve.size:,} iterations; its lowest value is "
                f"{curve.min():.3g}.",
                plot_convergence(curve, len(estimator.classes_)),
            )
        )
    return figures


def _figure(key: str, title: str, alt: str, figure: Figure) -> dict[str, str]:
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    return {"id": key, "title": title, "alt": alt, "svg": text.getvalue()}
