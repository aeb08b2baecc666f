"""Text tables of metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from maxplus.metrics._readable import readable, with_error

if TYPE_CHECKING:
    from rich.table import Table

    from maxplus.evaluation import Validation
    from maxplus.metrics import ClassificationMetrics, RegressionMetrics, RobustErrors

# Number of confusions per class that are listed if the matrix is too wide.
MAX_CONFUSIONS = 3
MAX_LABEL_LENGTH = 24
CORNER = "true \\ predicted"
# Maximum number of printed recalls; the lowest are chosen.
MAX_RECALLS = 12


def percent(share: float | None) -> str:
    """Format a share as a percentage with one decimal; NaN and None as a dash."""
    return "–" if share is None or math.isnan(share) else f"{share:.1%}".replace("%", " %")


def number(value: float, digits: int = 4) -> str:
    """Format a number with a fixed number of decimals; NaN as a dash."""
    return "–" if math.isnan(value) else f"{value:.{digits}f}"


def plain_table(*heads: str, title: str | None = None) -> Table:
    """Return an empty table; columns other than the first are right-aligned."""
    from rich import box
    from rich.table import Table

    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)
    )
    for k, head in enumerate(heads):
        table.add_column(head, justify="right" if k else "left", no_wrap=k > 0)
    return table


def validation_table(validation: Validation) -> Table:
    """Return a table of validation metrics next to those of the baseline."""
    from rich.markup import escape

    from maxplus.metrics import ClassificationMetrics

    figures, baseline = validation.figures, validation.baseline
    if not isinstance(figures, ClassificationMetrics):
        return _regression_validation(validation)
    assert isinstance(baseline, ClassificationMetrics)
    table = plain_table(
        "held-out rows",
        "this model",
        f"always {escape(shorten(validation.baseline_label))}",
    )
    table.add_row("accuracy", percent(figures.accuracy), percent(baseline.accuracy))
    table.add_row("  95 % confidence interval", _between(validation.interval), "")
    table.add_row(
        "balanced accuracy", percent(figures.balanced_accuracy), percent(baseline.balanced_accuracy)
    )
    table.add_row("log loss", number(figures.log_loss), number(baseline.log_loss))
    table.add_row("AUC", number(figures.auc), number(baseline.auc))
    for d in _lowest_recalls(figures):
        metrics, baseline_metrics = figures.classes[d], baseline.classes[d]
        name = f"recall of {escape(shorten(metrics.label))}, {metrics.n_rows:,} rows"
        table.add_row(name, percent(metrics.recall), percent(baseline_metrics.recall))
    n_hidden = len(figures.classes) - MAX_RECALLS
    if n_hidden > 0:
        others = "the other class has" if n_hidden == 1 else f"{n_hidden} other classes have"
        table.add_row(f"{others} no lower recall", "", "")
    return table


def _between(interval: tuple[float, float]) -> str:
    low, high = interval
    return f"{percent(low)} to {percent(high)}"


def _lowest_recalls(figures: ClassificationMetrics) -> list[int]:
    """Return the indices of the classes whose recall is printed."""
    order = range(len(figures.classes))
    if len(order) <= MAX_RECALLS:
        return list(order)
    # The recall of a class without held-out rows is NaN and sorts last.
    recall = [2.0 if math.isnan(metrics.recall) else metrics.recall for metrics in figures.classes]
    return sorted(order, key=lambda d: recall[d])[:MAX_RECALLS]


def _regression_validation(validation: Validation) -> Table:
    figures: Any = validation.figures
    baseline: Any = validation.baseline
    table = plain_table("held-out rows", "this model", "always the mean")
    table.add_row("R²", number(figures.r2), number(baseline.r2))
    table.add_row("mean absolute error, 95 % interval", _mae(figures), readable(baseline.mae))
    table.add_row("root mean square error", readable(figures.rmse), readable(baseline.rmse))
    if not math.isnan(figures.covered):
        table.add_row("inside the 90 % interval", percent(figures.covered), "–")
    return table


def regression_table(figures: RegressionMetrics) -> Table:
    """Return a table of regression metrics."""
    table = plain_table("", "")
    table.show_header = False
    table.add_row("R²", number(figures.r2))
    table.add_row("mean absolute error, 95 % interval", _mae(figures))
    table.add_row("root mean square error", readable(figures.rmse))
    if not math.isnan(figures.covered):
        table.add_row("inside the 90 % interval", percent(figures.covered))
        table.add_row("width of the interval", readable(figures.width))
    return table


def _mae(figures: RegressionMetrics) -> str:
    from maxplus.metrics._intervals import Z_95

    return with_error(figures.mae, Z_95 * figures.mae_error)


def classes_table(figures: ClassificationMetrics) -> Table:
    """Return a table of per-class metrics."""
    from rich.markup import escape

    table = plain_table("class", "rows", "predicted", "precision", "recall", "F1", "AUC")
    for metrics in figures.classes:
        table.add_row(
            escape(shorten(metrics.label)),
            f"{metrics.n_rows:,}",
            f"{metrics.n_predicted:,}",
            percent(metrics.precision),
            percent(metrics.recall),
            number(metrics.f1),
            number(metrics.auc),
        )
    return table


def robust_errors_table(errors: Mapping[str, RobustErrors]) -> Table:
    """Return a table of clean, attack and certified error rates by model."""
    table = plain_table(
        "error within robust_eps", "clean", "attack\n(at least)", "certified\n(at most)", "constant"
    )
    for name, model_errors in errors.items():
        rates = (
            model_errors.clean,
            model_errors.attack,
            model_errors.certified,
            model_errors.constant,
        )
        table.add_row(name, *map(percent, rates))
    return table


def confusion_table(figures: ClassificationMetrics, width: int) -> Table:
    """Return the confusion matrix if it fits the width, else the largest confusions.

    Counts of correct predictions are in brackets.
    """
    labels = [shorten(metrics.label) for metrics in figures.classes]
    cells = [
        [_cell(int(n), d == k) for k, n in enumerate(row)]
        for d, row in enumerate(figures.confusion)
    ]
    widths = [
        max(len(label), *map(len, column))
        for label, column in zip(labels, zip(*cells, strict=True), strict=True)
    ]
    gaps = 2 * len(labels) + 2
    if max(map(len, [CORNER, *labels])) + sum(widths) + gaps > width:
        return _largest_confusions(figures)
    return _matrix(labels, cells)


def _matrix(labels: list[str], cells: list[list[str]]) -> Table:
    from rich.markup import escape

    table = plain_table(CORNER, *map(escape, labels), title="confusion")
    for label, row in zip(labels, cells, strict=True):
        table.add_row(escape(label), *map(escape, row))
    return table


def _largest_confusions(figures: ClassificationMetrics) -> Table:
    from rich.markup import escape

    table = plain_table("true", "rows", "correct", title="confusion")
    table.add_column("most often predicted as", justify="left")
    for d, metrics in enumerate(figures.classes):
        row = figures.confusion[d]
        others = [k for k in (-row).argsort(kind="stable") if k != d and row[k]]
        confusions = [f"{shorten(figures.classes[k].label)} ({row[k]:,})" for k in others]
        shown = ", ".join(confusions[:MAX_CONFUSIONS]) + (
            ", …" if len(confusions) > MAX_CONFUSIONS else ""
        )
        correct = escape(f"[{row[d]:,}]")
        table.add_row(
            escape(shorten(metrics.label)), f"{metrics.n_rows:,}", correct, escape(shown) or "–"
        )
    return table


def _cell(count: int, is_correct: bool) -> str:
    return f"[{count:,}]" if is_correct else f"{count:,}" if count else "·"


def shorten(label: str) -> str:
    """Truncate a label to 24 characters."""
    return label if len(label) <= MAX_LABEL_LENGTH else label[: MAX_LABEL_LENGTH - 1] + "…"
