"""Formatting of tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from maxplus.metrics import RegressionMetrics, RobustErrors

MAX_LABEL_LENGTH = 24


def percent(share: float | None) -> str:
    """Format a share as a percentage with one decimal; NaN and None as a dash."""
    return "–" if share is None or math.isnan(share) else f"{share:.1%}".replace("%", " %")


def number(value: float, digits: int = 4) -> str:
    """Format a number with a fixed number of decimals; NaN as a dash."""
    return "–" if math.isnan(value) else f"{value:.{digits}f}"


def label_cell(label: str) -> str:
    """Truncate a label to 24 characters and escape Rich markup."""
    from rich.markup import escape

    return escape(shorten(label))


def shorten(label: str) -> str:
    """Truncate a label to 24 characters."""
    return label if len(label) <= MAX_LABEL_LENGTH else label[: MAX_LABEL_LENGTH - 1] + "…"


def plain_table(*headers: str, title: str | None = None) -> Table:
    """Return an empty table; columns other than the first are right-aligned."""
    from rich import box
    from rich.table import Table

    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)
    )
    for k, header in enumerate(headers):
        table.add_column(header, justify="right" if k else "left", no_wrap=k > 0)
    return table


def mean_absolute_error(metrics: RegressionMetrics) -> str:
    """Format the mean absolute error with its 95 % confidence interval."""
    from maxplus.metrics._intervals import Z_95
    from maxplus.metrics._readable import with_error

    return with_error(metrics.mae, Z_95 * metrics.mae_error)


def robust_errors_table(errors: Mapping[str, RobustErrors]) -> Table:
    """Return a table of clean, attack and certified error rates by model."""
    table = plain_table(
        "error within robust_eps", "clean", "attack\n(at least)", "certified\n(at most)", "constant"
    )
    for name, rates in errors.items():
        cells = map(percent, (rates.clean, rates.attack, rates.certified, rates.constant))
        table.add_row(name, *cells)
    return table
