"""``maxplus compare``: cross-validated comparison with scikit-learn models."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from maxplus.cli import _options as opt
from maxplus.cli._console import (
    number,
    open_console,
    percent,
    plain_table,
    robust_errors_table,
    validated_with,
)

if TYPE_CHECKING:
    from rich.table import Table

    from maxplus.evaluation import Comparison


def compare(
    data: opt.Data,
    models: Annotated[
        list[str] | None,
        typer.Option(
            help="Models, as a comma-separated list; repeatable. All by default: LMM, ensemble, "
            "logistic, kNN, forest, boosting, MLP, SVC; for regression LMM, ridge, kNN, forest, "
            "boosting, MLP, SVR."
        ),
    ] = None,
    validate: Annotated[
        str,
        typer.Option(
            metavar="auto|cv|FOLDS|FRACTION",
            help="Validation on held-out rows, as for train, with the same splits for all models.",
        ),
    ] = "auto",
    csv: Annotated[
        Path | None,
        opt.output_file(help="Write the table to this CSV file as well; none by default."),
    ] = None,
    seed: opt.Seed = 0,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
    target: opt.Target = None,
    task: opt.Task = "auto",
    drop: opt.Drop = None,
    keep: opt.Keep = None,
    categorical: opt.Categorical = None,
    numeric: opt.Numeric = None,
    groups: opt.Groups = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A parameter of LMM, such as robust_eps=0.1, as for train; repeatable. None by "
            "default.",
        ),
    ] = None,
) -> None:
    """Cross-validate models of this library and of scikit-learn on a table, side by side.

    All models have their default parameters, except for max_iter. Models of scikit-learn use
    standardised features, and SVC is calibrated. The column "certified" is the fraction of held-out
    rows that are classified correctly and provably remain so if every feature changes by up to 0.1
    standard deviations, or a dash for models without certificates.
    With --set robust_eps=…, a second table contains the certified error of LMM.

    Example: maxplus compare patients.csv --target disease
    """
    with open_console(as_json, quiet) as console:
        from maxplus.cli._training import build_estimator, open_training, parse_settings
        from maxplus.evaluation import compare as compare_models
        from maxplus.evaluation import default_models, make_splits
        from maxplus.evaluation.comparison import LMM
        from maxplus.tables.schema import REGRESSION

        opt.check_not_input(csv, data)
        cv = opt.validation_splits(validate)
        if cv is None:
            raise ValueError(
                "--validate none: a comparison needs held-out rows; choose auto, cv, or a number "
                "of folds"
            )
        parameters = parse_settings(settings)
        encoder = opt.table_encoder(drop, keep, categorical, numeric, parameters)
        target_options = {"target": target, "task": task, "groups": groups}
        dataset = open_training(data, encoder, target_options, console)
        assert dataset.y is not None
        regression = dataset.target.task == REGRESSION
        available = default_models(regression=regression, seed=seed)
        available[LMM] = build_estimator(settings=parameters, seed=seed, regression=regression)
        chosen = _select(available, opt.names(models))
        splits = make_splits(
            dataset.y, cv, classification=not regression, seed=seed, groups=dataset.groups
        )
        n_splits, order = len(splits.pairs), list(chosen)
        with console.bar(n_splits * len(chosen)) as bar:
            comparison = compare_models(
                dataset,
                models=chosen,
                cv=cv,
                random_state=seed,
                on_progress=lambda name, done: bar(name, n_splits * order.index(name) + done),
            )
        console.rich.print(_table(comparison))
        robust = {name: v.robust for name, v in comparison.validations.items() if v.robust}
        if robust:
            console.rich.print(robust_errors_table(robust))
        console.print(_description(comparison))
        if csv is not None:
            from maxplus.cli._writers import write_csv

            write_csv(csv, [_csv_columns(comparison)])
            console.print(f"Table: {csv}")
        console.print_json({"data": dataset.name, "models": comparison.to_json()})


def _select(models: dict[str, Any], requested: tuple[str, ...]) -> dict[str, Any]:
    known = {name.lower(): name for name in models}
    unknown = [name for name in requested if name.lower() not in known]
    if unknown:
        raise ValueError(f"--models: unknown model {unknown[0]!r}; choose from {', '.join(models)}")
    selected = [known[name.lower()] for name in requested] or list(models)
    return {name: models[name] for name in selected}


def _description(comparison: Comparison) -> str:
    validation = next(iter(comparison.validations.values()))
    baseline: Any = validation.baseline
    is_class = hasattr(baseline, "accuracy")
    score = percent(baseline.accuracy) if is_class else f"R² {baseline.r2:.3f}"
    return (
        f"{validated_with(validation.description)}, with the same splits for all models.\n"
        f"Always predicting {validation.baseline_label}: {score}."
    )


class Metric(NamedTuple):
    """A column of the table: header, value, format, and selection of the best value."""

    header: str
    value: Callable[[Any], float]
    text: Callable[[float], str]
    best: Callable[[Sequence[float]], float] | None = min


def _metrics(comparison: Comparison) -> tuple[Metric, ...]:
    from maxplus.metrics import ClassificationMetrics
    from maxplus.metrics._formatting import format_number

    seconds = Metric("seconds", lambda v: v.seconds_per_split, lambda s: f"{s:.2f}")
    first = next(iter(comparison.validations.values()))
    if isinstance(first.metrics, ClassificationMetrics):
        return (
            Metric("accuracy", lambda v: v.metrics.accuracy, percent, max),
            Metric("log loss", lambda v: v.metrics.log_loss, number),
            Metric("calibration\nerror", lambda v: v.metrics.calibration_error, number),
            seconds,
            Metric(
                "certified",
                lambda v: math.nan if v.certified is None else v.certified,
                percent,
                max,
            ),
        )
    return (
        Metric("R²", lambda v: v.metrics.r2, number, max),
        Metric("mean abs.\nerror", lambda v: v.metrics.mae, format_number),
        Metric("root mean\nsquare error", lambda v: v.metrics.rmse, format_number),
        Metric("inside 90 %\ninterval", lambda v: v.metrics.coverage, percent, None),
        seconds,
    )


def _table(comparison: Comparison) -> Table:
    """Return a text table with the best value of each column in bold."""
    from maxplus.evaluation.comparison import EXPLANATIONS

    validations, metrics = comparison.validations, _metrics(comparison)
    cells: dict[str, list[str]] = {name: [] for name in validations}
    for metric in metrics:
        values = {name: metric.value(v) for name, v in validations.items()}
        defined = [value for value in values.values() if not math.isnan(value)]
        best = metric.best(defined) if metric.best and defined else math.nan
        for name, value in values.items():
            text = metric.text(value)
            if metric.header == "accuracy":
                scores: Any = validations[name].metrics
                text += f" ± {100 * scores.accuracy_error:.1f}"
            cells[name].append(f"[bold]{text}[/]" if value == best else text)
    table = plain_table("model", *(metric.header for metric in metrics), "explanation")
    for name, texts in cells.items():
        table.add_row(name, *texts, EXPLANATIONS.get(name, "none"))
    return table


def _csv_columns(comparison: Comparison) -> dict[str, list[Any]]:
    """Return the columns of `_table` with unrounded values."""
    from maxplus.evaluation.comparison import EXPLANATIONS

    validations: dict[str, Any] = comparison.validations
    columns: dict[str, list[Any]] = {"model": list(validations)}
    for metric in _metrics(comparison):
        columns[metric.header.replace("\n", " ")] = [metric.value(v) for v in validations.values()]
        if metric.header == "accuracy":
            errors = [v.metrics.accuracy_error for v in validations.values()]
            columns["standard error"] = errors
    columns["explanation"] = [EXPLANATIONS.get(name, "none") for name in validations]
    return columns
