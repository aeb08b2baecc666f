"""Metrics as text tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from maxplus.metrics._readable import readable, with_error

if TYPE_CHECKING:
    from rich.table import Table

    from maxplus.evaluation import Validation
    from maxplus.metrics import ClassificationMetrics, RegressionMetrics, RobustErrors

# Number of confusions listed for each class if the matrix is too wide.
MAX_CONFUSIONS = 3
MAX_LABEL_LENGTH = 24
CORNER = "true \\ predicted"
# Maximum number of classes whose recall is printed; those with the lowest recall are chosen.
MAX_RECALLS = 12


def percent(share: float | None) -> str:
    """Format a share as a percentage with one decimal; NaN and None as a dash."""
    return "–" if share is None or math.isnan(share) else f"{share:.1%}".replace("%", " %")


def number(value: float, digits: int = 4) -> str:
    """Format a rounded number; NaN as a dash."""
    return "–" if math.isnan(value) else f"{value:.{digits}f}"


def plain_table(*heads: str, title: str | None = None) -> Table:
    """Return an empty table: the first column is left-aligned and wraps, others right-aligned."""
    from rich import box
    from rich.table import Table

    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)
    )
    for place, head in enumerate(heads):
        table.add_column(head, justify="right" if place else "left", no_wrap=place > 0)
    return table


def validation_table(validation: Validation) -> Table:
    """Return a table of the metrics of a validation and of the baseline."""
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
    for d in _worst_recalled(figures):
        found, constant = figures.classes[d], baseline.classes[d]
        name = f"recall of {escape(shorten(found.label))}, {found.n_rows:,} rows"
        table.add_row(name, percent(found.recall), percent(constant.recall))
    hidden = len(figures.classes) - MAX_RECALLS
    if hidden > 0:
        others = "the other class has" if hidden == 1 else f"{hidden} other classes have"
        table.add_row(f"{others} no lower recall", "", "")
    return table


def _between(interval: tuple[float, float]) -> str:
    low, high = interval
    return f"{percent(low)} to {percent(high)}"


def _worst_recalled(figures: ClassificationMetrics) -> list[int]:
    """Return all classes in order; if there are many, those with the lowest recall."""
    order = range(len(figures.classes))
    if len(order) <= MAX_RECALLS:
        return list(order)
    # The recall of a class without held-out rows is NaN, which does not sort.
    recall = [2.0 if math.isnan(one.recall) else one.recall for one in figures.classes]
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
    """Return a table of R², errors and intervals of a regression."""
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
    from maxplus.metrics._intervals import ERRORS

    return with_error(figures.mae, ERRORS * figures.mae_error)


def classes_table(figures: ClassificationMetrics) -> Table:
    """Return a table of precision, recall, F1 and AUC of each class."""
    from rich.markup import escape

    table = plain_table("class", "rows", "predicted", "precision", "recall", "F1", "AUC")
    for one in figures.classes:
        table.add_row(
            escape(shorten(one.label)),
            f"{one.n_rows:,}",
            f"{one.n_predicted:,}",
            percent(one.precision),
            percent(one.recall),
            number(one.f1),
            number(one.auc),
        )
    return table


def robust_errors_table(found: Mapping[str, RobustErrors]) -> Table:
    """Return a table of clean, attacked and certified error rates, one row for each model."""
    table = plain_table(
        "error within robust_eps", "clean", "attack\n(at least)", "certified\n(at most)", "constant"
    )
    for name, one in found.items():
        rates = (one.clean, one.attack, one.certified, one.constant)
        table.add_row(name, *map(percent, rates))
    return table


def confusion_table(figures: ClassificationMetrics, width: int) -> Table:
    """Return the confusion matrix if it fits the width, else the largest confusions.

    Correct predictions are in brackets, to be visible without colours.
    """
    labels = [shorten(one.label) for one in figures.classes]
    cells = [
        [_cell(int(n), d == k) for k, n in enumerate(row)]
        for d, row in enumerate(figures.confusion)
    ]
    widest = [
        max(len(label), *map(len, column))
        for label, column in zip(labels, zip(*cells, strict=True), strict=True)
    ]
    gaps = 2 * len(labels) + 2
    if max(map(len, [CORNER, *labels])) + sum(widest) + gaps > width:
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
    for d, one in enumerate(figures.classes):
        row = figures.confusion[d]
        others = [k for k in (-row).argsort(kind="stable") if k != d and row[k]]
        listed = [f"{shorten(figures.classes[k].label)} ({row[k]:,})" for k in others]
        shown = ", ".join(listed[:MAX_CONFUSIONS]) + (", …" if len(listed) > MAX_CONFUSIONS else "")
        right = escape(f"[{row[d]:,}]")
        table.add_row(escape(shorten(one.label)), f"{one.n_rows:,}", right, escape(shown) or "–")
    return table


def _cell(count: int, is_right: bool) -> str:
    return f"[{count:,}]" if is_right else f"{count:,}" if count else "·"


def shorten(label: str) -> str:
    """Truncate a label to 24 characters."""
    return label if len(label) <= MAX_LABEL_LENGTH else label[: MAX_LABEL_LENGTH - 1] + "…"
