"""SVG figures of the report, with alternative text."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maxplus.explain import Domain
from maxplus.explain.contributions import groups_of
from maxplus.metrics import Reliability
from maxplus.metrics._formatting import format_number
from maxplus.models import LOG2
from maxplus.plots import (
    plot_certified_accuracy,
    plot_convergence,
    plot_reliability,
    plot_search,
    plot_shape_functions,
    plot_stages,
)
from maxplus.plots._style import BLUE, DASHED, GREY, SMALL, new_figure, style_axes
from maxplus.report._text import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Maximum number of points in a scatter plot.
MAX_POINTS = 2_000


def reliability_figure(bins: dict[str, Any]) -> dict[str, str]:
    """Return the reliability diagram."""
    count, confidence, accuracy = (
        np.array(bins[name], float) for name in ("count", "confidence", "accuracy")
    )
    reliability = Reliability(count.astype(int), confidence, accuracy)
    return _figure(
        "reliability",
        "Calibration",
        "Accuracy against the probability of the predicted class, in "
        f"{len(count)} bins; the expected calibration error is {reliability.error:.3f}.",
        plot_reliability(reliability),
    )


def predictions_figure(y: NDArray, predicted: NDArray, half_width: float) -> dict[str, str]:
    """Return the figure of true against predicted values."""
    mean_absolute_error = float(np.abs(y - predicted).mean())
    return _figure(
        "predictions",
        "True against predicted values",
        f"A point for each of {len(y):,} rows; the mean absolute error is "
        f"{format_number(mean_absolute_error)}.",
        draw_predictions(y, predicted, half_width),
    )


def draw_predictions(y: NDArray, predicted: NDArray, half_width: float) -> Figure:
    """Plot true against predicted values, and the prediction interval if its width is finite.

    ``half_width`` is half the width of the interval.
    """
    shown = slice(None, None, -(-len(y) // MAX_POINTS))
    figure = new_figure(7.0, 4.8)
    ax = figure.subplots()
    ends = np.array([min(y.min(), predicted.min()), max(y.max(), predicted.max())])
    if np.isfinite(half_width):
        band = (ends - half_width, ends + half_width)
        ax.fill_between(ends, *band, color=BLUE, alpha=0.1, linewidth=0)
        label = "shaded: 90 % prediction interval"
        ax.text(0.01, 0.97, label, transform=ax.transAxes, va="top", fontsize=SMALL, color=GREY)
    ax.plot(ends, ends, color=GREY, linewidth=1, linestyle=DASHED, zorder=1)
    ax.scatter(predicted[shown], y[shown], s=14, color=BLUE, alpha=0.5, linewidth=0, zorder=2)
    ax.set(xlabel="predicted", ylabel="true")
    style_axes(ax, "True against predicted values")
    return figure


def certified_figure(radius: NDArray, correct: NDArray, unit: str) -> dict[str, str]:
    """Return the figure of certified accuracy against the radius."""
    return _figure(
        "robustness",
        "Certified robustness",
        f"Certified accuracy against the size of the change in {unit}; without a change it is "
        f"{percent(float(correct.mean()))}.",
        plot_certified_accuracy(radius, correct, unit=unit),
    )


def shapes_figure(clf: Any, X: NDArray, domain: Domain) -> dict[str, str] | None:
    """Return the figure of the shape functions; None if all terms have more than two columns.

    ``X`` are rows for the distributions and importances.
    """
    if all(len(group) > 2 for group in groups_of(clf.model_, domain.column_of)[0]):
        return None
    labels = [str(label) for label in clf.classes_]
    figure = plot_shape_functions(
        clf.model_, X, class_names=labels, baseline=clf.term_means_, domain=domain
    )
    panels = ", ".join(filter(None, (ax.get_title(loc="left") for ax in figure.axes)))
    alt = f"Contributions of {panels} to the scores."
    return _figure("shapes", "Shape functions", alt, figure)


def search_figure(estimator: Any) -> dict[str, str] | None:
    """Return the figure of the model search, or None if there was no search."""
    search = getattr(estimator, "search_", None)
    if search is None:
        return None
    losses = np.asarray(search["losses"], float)
    best = str(search["candidates"][search["chosen"]])
    return _figure(
        "search",
        "Model search",
        f"Held-out loss of {len(losses)} candidate models; {best} was chosen.",
        plot_search(search["candidates"], losses, search["chosen"]),
    )


def training_figures(estimator: Any) -> list[dict[str, str]]:
    """Return figures of the stored training losses."""
    empty = np.empty(0)
    # Estimators with ``history_`` store the losses of iterations instead of epochs.
    is_iterated = hasattr(estimator, "history_")
    warmup = empty if is_iterated else getattr(estimator, "loss_curve_", empty)
    polish = getattr(estimator, "polish_losses_", empty)
    if polish.size < 2:  # A curve needs at least two points.
        polish = polish[:0]
    level = getattr(estimator, "polish", None) or LOG2
    figures = []
    if warmup.size:
        figures.append(
            _figure(
                "stages",
                "Training loss",
                f"The mean soft loss over {warmup.size:,} warm-up epochs"
                + (", and the maximum loss over the polishing rounds." if polish.size else "."),
                plot_stages(warmup, polish, LOG2 if isinstance(level, str) else level),
            )
        )
    curve = estimator.history_["loss"] if is_iterated else empty
    if curve.size and np.isfinite(curve).all():
        figures.append(
            _figure(
                "convergence",
                "Training loss",
                f"The training loss over {curve.size:,} iterations; its lowest value is "
                f"{curve.min():.3g}.",
                plot_convergence(curve, len(estimator.classes_)),
            )
        )
    return figures


def _figure(key: str, title: str, alt: str, figure: Figure) -> dict[str, str]:
    """Return the SVG of a figure, with its identifier, title and alternative text."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    return {"id": key, "title": title, "alt": alt, "svg": text.getvalue()}
