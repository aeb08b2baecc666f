"""``maxplus compare``: cross-validated comparison with scikit-learn models."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from maxplus.cli import _options as opt
from maxplus.cli._common import DataArgument, plain_errors, require_folder
from maxplus.cli._console import Console, JsonOption, QuietOption
from maxplus.cli._estimator import build_estimator, parse_settings

if TYPE_CHECKING:
    from rich.table import Table

    from maxplus.evaluation import Comparison


def compare(
    data: DataArgument,
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
            metavar="auto|cv|FOLDS|SHARE",
            help="Validation on held-out rows, as for train, with the same splits for all models.",
        ),
    ] = "auto",
    csv: Annotated[
        Path | None, typer.Option(help="Write the table to this CSV file as well; none by default.")
    ] = None,
    seed: opt.Seed = 0,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
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

    All models have default parameters; those of scikit-learn use standardised features. The column
    "certified" is the fraction of held-out rows that are correct and provably stay correct if every
    feature changes by up to 0.1 standard deviations, or a dash for models without certificates.
    With --set robust_eps=…, a second table contains the certified error of LMM.
    Example: maxplus compare patients.csv --target disease
    """
    console = Console(as_json, quiet)
    with plain_errors(quiet):
        from maxplus.cli._text_tables import robust_errors_table
        from maxplus.cli._training import open_training
        from maxplus.evaluation import compare as compare_models
        from maxplus.evaluation import make_splits, usual_models
        from maxplus.evaluation.comparison import OURS
        from maxplus.tables.schema import REGRESSION

        if csv is not None:
            require_folder(csv, "--csv")
        cv = opt.validation_splits(validate)
        if cv is None:
            raise ValueError(
                "--validate none: a comparison needs held-out rows; choose auto, cv, or folds"
            )
        parameters = parse_settings(settings)
        encoder = opt.table_encoder(drop, keep, categorical, numeric, parameters)
        target_options = {"target": target, "task": task, "groups": groups}
        dataset = open_training(data, encoder, target_options, console)
        assert dataset.y is not None
        regression = dataset.target.task == REGRESSION
        available = usual_models(regression=regression, seed=seed)
        available[OURS] = build_estimator(settings=parameters, seed=seed, regression=regression)
        chosen = _chosen(available, opt.names(models))
        splits = make_splits(
            dataset.y, cv, classes=not regression, seed=seed, groups=dataset.groups
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
        console.rich.print(comparison_table(comparison))
        robust = {
            name: validation.robust
            for name, validation in comparison.validations.items()
            if validation.robust
        }
        if robust:
            console.rich.print(robust_errors_table(robust))
        console.print(_description(comparison))
        if csv is not None:
            from maxplus.cli._writers import write_csv

            write_csv(csv, comparison_columns(comparison))
            console.print(f"Table: {csv}")
        document: dict[str, Any] = {"data": dataset.name, "models": comparison.to_json()}
        console.result(document)


def _description(comparison: Comparison) -> str:
    from maxplus.cli._text_tables import percent

    validation = next(iter(comparison.validations.values()))
    baseline: Any = validation.baseline
    is_class = hasattr(baseline, "accuracy")
    score = percent(baseline.accuracy) if is_class else f"R² {baseline.r2:.3f}"
    return (
        f"Validated by {validation.description}, with the same splits for all models.\n"
        f"Always predicting {validation.baseline_label}: {score}."
    )


class Figure(NamedTuple):
    """A column of the table: header, value, format, and selection of the best value."""

    head: str
    of: Callable[[Any], float]
    text: Callable[[float], str]
    best: Callable[[Sequence[float]], float] = min


def _chosen(models: dict[str, Any], requested: tuple[str, ...]) -> dict[str, Any]:
    known = {name.lower(): name for name in models}
    unknown = [name for name in requested if name.lower() not in known]
    if unknown:
        raise ValueError(f"--models: there is no {unknown[0]!r}; choose from {', '.join(models)}")
    chosen = [known[name.lower()] for name in requested] or list(models)
    return {name: models[name] for name in chosen}


def _columns(comparison: Comparison) -> tuple[Figure, ...]:
    from maxplus.cli._text_tables import number, percent
    from maxplus.metrics import ClassificationMetrics
    from maxplus.metrics._readable import readable

    seconds = Figure("seconds", lambda v: v.seconds_each, lambda s: f"{s:.2f}")
    first = next(iter(comparison.validations.values()))
    if isinstance(first.figures, ClassificationMetrics):
        return (
            Figure("accuracy", lambda v: v.figures.accuracy, percent, max),
            Figure("log loss", lambda v: v.figures.log_loss, number),
            Figure("calibration\nerror", lambda v: v.figures.calibration_error, number),
            seconds,
            Figure(
                "certified",
                lambda v: math.nan if v.certified is None else v.certified,
                percent,
                max,
            ),
        )
    return (
        Figure("R²", lambda v: v.figures.r2, number, max),
        Figure("mean abs.\nerror", lambda v: v.figures.mae, readable),
        Figure("root mean\nsquare error", lambda v: v.figures.rmse, readable),
        Figure("inside 90 %\ninterval", lambda v: v.figures.covered, percent, lambda x: math.nan),
        seconds,
    )


def comparison_table(comparison: Comparison) -> Table:
    """Return a text table with the best value of each column in bold."""
    from maxplus.cli._text_tables import plain_table
    from maxplus.evaluation.comparison import EXPLAINED

    figures = _columns(comparison)
    table = plain_table("model", *(figure.head for figure in figures), "explained")
    validations = comparison.validations
    best = {
        figure.head: _best(figure, [figure.of(validation) for validation in validations.values()])
        for figure in figures
    }
    for name, validation in validations.items():
        cells = []
        for figure in figures:
            value = figure.of(validation)
            text = figure.text(value) + (_error(validation) if figure.head == "accuracy" else "")
            cells.append(f"[bold]{text}[/]" if value == best[figure.head] else text)
        table.add_row(name, *cells, EXPLAINED.get(name, "no"))
    return table


def _best(figure: Figure, values: list[float]) -> float:
    defined = [value for value in values if not math.isnan(value)]
    return figure.best(defined) if defined else math.nan


def _error(validation: Any) -> str:
    return f" ± {100 * validation.figures.accuracy_error:.1f}"


def comparison_columns(comparison: Comparison) -> dict[str, list[Any]]:
    """Return the unrounded values of `comparison_table` by column."""
    from maxplus.evaluation.comparison import EXPLAINED

    validations: dict[str, Any] = comparison.validations
    columns: dict[str, list[Any]] = {"model": list(validations)}
    for figure in _columns(comparison):
        columns[figure.head.replace("\n", " ")] = [
            figure.of(validation) for validation in validations.values()
        ]
        if figure.head == "accuracy":
            columns["standard error"] = [
                validation.figures.accuracy_error for validation in validations.values()
            ]
    columns["explained"] = [EXPLAINED.get(name, "no") for name in validations]
    return columns
