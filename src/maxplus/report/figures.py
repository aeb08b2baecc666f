"""The page's figures: drawn by `maxplus.plots`, kept as SVG, with words for who cannot see them."""

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
    plot_predictions,
    plot_reliability,
    plot_search,
    plot_stages,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def reliability_figure(bins: dict[str, Any]) -> dict[str, str]:
    """How often predictions are right, by their probability."""
    count, confidence, accuracy = (
        np.array(bins[name], float) for name in ("count", "confidence", "accuracy")
    )
    known = Reliability(count.astype(int), confidence, accuracy)
    return _figure(
        "reliability", "How far probabilities can be trusted",
        "How often the predicted class is right against its probability, in "
        f"{len(count)} bins; the expected calibration error is {known.error:.3f}.",
        plot_reliability(known),
    )  # fmt: skip


def predictions_figure(y: NDArray, predicted: NDArray, half_width: float) -> dict[str, str]:
    """Numbers beside what was predicted."""
    off = float(np.abs(y - predicted).mean())
    return _figure(
        "predictions", "True numbers beside predicted ones",
        f"A dot for each of {len(y):,} rows; on average a prediction is off by {readable(off)}.",
        plot_predictions(y, predicted, half_width),
    )  # fmt: skip


def certified_figure(radius: NDArray, correct: NDArray, unit: str) -> dict[str, str]:
    """How much accuracy survives changes."""
    return _figure(
        "robustness", "What small changes cannot do",
        f"Certified accuracy against the size of the change in {unit}; it begins at "
        f"{correct.mean():.1%}.",
        plot_certified_accuracy(radius, correct, unit=unit),
    )  # fmt: skip


def search_figure(search: dict[str, Any]) -> dict[str, str]:
    """What was tried before the training."""
    losses = np.asarray(search["losses"], float)
    best = str(search["candidates"][search["chosen"]])
    return _figure(
        "search", "What was tried before the training",
        f"Held-out loss of {len(losses)} kinds of model; {best} was chosen.",
        plot_search(search["candidates"], losses, search["chosen"]),
    )  # fmt: skip


def training_figures(estimator: Any) -> list[dict[str, str]]:
    """How the stages of a training went, as far as the estimator knows."""
    nothing = np.empty(0)
    # With a history, ``loss_curve_`` is that of the iterations.
    is_iterated = hasattr(estimator, "history_")
    warmup = nothing if is_iterated else getattr(estimator, "loss_curve_", nothing)
    polish = getattr(estimator, "polish_losses_", nothing)
    if polish.size < 2:  # one number is no course
        polish = polish[:0]
    level = getattr(estimator, "polish", None) or LOG2
    figures = []
    if warmup.size:
        figures.append(_figure(
            "stages", "How training went",
            f"The mean soft loss over {warmup.size:,} epochs of the warm-up"
            + (", and the largest loss over the rounds of the polish." if polish.size else "."),
            plot_stages(warmup, polish, LOG2 if isinstance(level, str) else level),
        ))  # fmt: skip
    curve = estimator.history_["loss"] if is_iterated else nothing
    if curve.size and np.isfinite(curve).all():
        figures.append(_figure(
            "convergence", "How training went",
            f"The training loss over {curve.size:,} iterations; its lowest value is "
            f"{curve.min():.3g}.",
            plot_convergence(curve, len(estimator.classes_)),
        ))  # fmt: skip
    return figures


def _figure(key: str, title: str, alt: str, figure: Figure) -> dict[str, str]:
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    return {"id": key, "title": title, "alt": alt, "svg": text.getvalue()}
