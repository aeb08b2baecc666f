"""Models side by side, on the same held-out rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from maxplus.cli._bars import trainings_bar
from maxplus.cli._columns import names
from maxplus.cli._show import number, percent, plain_table
from maxplus.cli._training import open_training
from maxplus.evaluation import Comparison, as_rows, plan_for, usual_models
from maxplus.evaluation import compare as compare_models
from maxplus.evaluation.comparison import EXPLAINED
from maxplus.metrics import ClassifierFigures
from maxplus.metrics._readable import readable

if TYPE_CHECKING:
    from rich.table import Table

    from maxplus.cli._output import Voice
    from maxplus.tables import ColumnChoices, Samples


class Figure(NamedTuple):
    """A column of the table: its head, a validation's number, its text, and which is best."""

    head: str
    of: Callable[[Any], float]
    text: Callable[[float], str]
    best: Callable[[Sequence[float]], float] = min


def _share(value: float | None) -> float:
    return math.nan if value is None else value


CLASSES = (
    Figure("accuracy", lambda v: v.figures.accuracy, percent, max),
    Figure("log loss", lambda v: v.figures.log_loss, number),
    Figure("calibration\nerror", lambda v: v.figures.calibration_error, number),
    Figure("seconds", lambda v: v.seconds_each, lambda s: f"{s:.2f}"),
    Figure("certified", lambda v: _share(v.certified), percent, max),
)
NUMBERS = (
    Figure("R²", lambda v: v.figures.r2, number, max),
    Figure("mean abs.\nerror", lambda v: v.figures.mae, readable),
    Figure("root mean\nsquare error", lambda v: v.figures.rmse, readable),
    Figure("inside 90 %\ninterval", lambda v: v.figures.covered, percent, lambda x: math.nan),
    Figure("seconds", lambda v: v.seconds_each, lambda s: f"{s:.2f}"),
)


def run_comparison(
    data: str, choices: ColumnChoices, wanted: Sequence[str] | None, how: str | int | float,
    seed: int, voice: Voice,
) -> tuple[Samples, Comparison]:  # fmt: skip
    """Read DATA and validate each model on it."""
    samples, regression = open_training(data, choices, voice)
    models = _chosen(usual_models(regression=regression, seed=seed), names(wanted))
    rows = as_rows(samples, choices=choices)
    plan = plan_for(rows.y, how, classes=not regression, seed=seed, groups=rows.groups)
    each = len(plan.splits)
    order = list(models)
    with trainings_bar(each * len(models), voice) as bar:
        comparison = compare_models(
            rows, models=models, how=how, random_state=seed,
            watch=lambda name, done: bar(name, each * order.index(name) + done),
        )  # fmt: skip
    return samples, comparison


def _chosen(models: dict[str, Any], wanted: tuple[str, ...]) -> dict[str, Any]:
    known = {name.lower(): name for name in models}
    unknown = [name for name in wanted if name.lower() not in known]
    if unknown:
        raise ValueError(f"--models: there is no {unknown[0]!r}; choose from {', '.join(models)}")
    chosen = [known[name.lower()] for name in wanted] or list(models)
    return {name: models[name] for name in chosen}


def _columns(comparison: Comparison) -> tuple[Figure, ...]:
    first = next(iter(comparison.validations.values()))
    return CLASSES if isinstance(first.figures, ClassifierFigures) else NUMBERS


def comparison_table(comparison: Comparison) -> Table:
    """For people; the best of each column in bold."""
    figures = _columns(comparison)
    table = plain_table("model", *(figure.head for figure in figures), "explained")
    found = comparison.validations
    best = {figure.head: _best(figure, [figure.of(one) for one in found.values()])
            for figure in figures}  # fmt: skip
    for name, one in found.items():
        cells = []
        for figure in figures:
            value = figure.of(one)
            text = figure.text(value) + (_error(one) if figure.head == "accuracy" else "")
            cells.append(f"[bold]{text}[/]" if value == best[figure.head] else text)
        table.add_row(name, *cells, EXPLAINED.get(name, "no"))
    return table


def _best(figure: Figure, values: list[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return figure.best(known) if known else math.nan


def _error(validation: Any) -> str:
    return f" ± {100 * validation.figures.accuracy_error:.1f}"


def comparison_columns(comparison: Comparison) -> dict[str, list[Any]]:
    """The same numbers, unrounded, as columns."""
    found: dict[str, Any] = comparison.validations
    columns: dict[str, list[Any]] = {"model": list(found)}
    for figure in _columns(comparison):
        columns[figure.head.replace("\n", " ")] = [figure.of(one) for one in found.values()]
        if figure.head == "accuracy":
            columns["standard error"] = [one.figures.accuracy_error for one in found.values()]
    columns["explained"] = [EXPLAINED.get(name, "no") for name in found]
    return columns
