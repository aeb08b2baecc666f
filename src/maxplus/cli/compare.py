"""``maxplus compare``: other models on the same table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxplus.cli import _options as opt
from maxplus.cli._common import DataArgument, plain_errors, require_folder
from maxplus.cli._output import JsonOption, QuietOption, Voice

if TYPE_CHECKING:
    from maxplus.evaluation import Comparison


def compare(
    data: DataArgument,
    models: Annotated[
        list[str] | None,
        typer.Option(
            help="Which models: --models LMM,forest or repeated. All by default: LMM, "
            "ensemble, logistic, kNN, forest, boosting, MLP, SVC; for numbers LMM, ridge, kNN, "
            "forest, boosting, MLP, SVR."
        ),
    ] = None,
    validate: Annotated[
        str,
        typer.Option(
            metavar="auto|cv|FOLDS|SHARE",
            help="How rows are held out, as for train; all models get the same ones.",
        ),
    ] = "auto",
    csv: Annotated[
        Path | None, typer.Option(help="Write the table to this CSV file as well; none by default.")
    ] = None,
    seed: opt.Seed = 0,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    target: opt.Target = None,
    task: opt.TaskOption = "auto",
    drop: opt.Drop = None,
    keep: opt.Keep = None,
    categorical: opt.Categorical = None,
    numeric: opt.Numeric = None,
    missing: opt.Missing = "impute",
    groups: opt.Groups = None,
) -> None:
    """Cross-validate our models and scikit-learn's usual ones on a table, side by side.

    All with their defaults, scikit-learn's on standardised features. Certified is the share of
    held-out rows that are right and provably stay so while every feature moves by up to 0.1 of its
    deviation; a dash is a model that offers no proof here.
    Example: maxplus compare patients.csv --target disease
    """
    given = {name: value for name, value in locals().items() if value is not None}
    voice = Voice(as_json, quiet)
    with plain_errors(quiet):
        from maxplus.cli._columns import column_choices
        from maxplus.cli._comparing import comparison_columns, comparison_table, run_comparison
        from maxplus.cli._validating import validation_plan

        if csv is not None:
            require_folder(csv, "--csv")
        how = validation_plan(validate)
        if how is None:
            raise ValueError("--validate none leaves nothing to compare by; name another way")
        choices = column_choices(given)
        samples, comparison = run_comparison(data, choices, models, how, seed, voice)
        voice.console.print(comparison_table(comparison))
        voice.say(_how(comparison))
        if csv is not None:
            from maxplus.cli._tables_out import write_csv

            write_csv(csv, comparison_columns(comparison))
            voice.say(f"Table: {csv}")
        document: dict[str, Any] = {"data": samples.name, "models": comparison.to_json()}
        voice.result(document)


def _how(comparison: Comparison) -> str:
    one = next(iter(comparison.validations.values()))
    guess = f"Always guessing {one.guessed}: {_guess(one.guess)}."
    return f"Judged by {one.words}, the same for all. {guess}"


def _guess(guess: Any) -> str:
    from maxplus.cli._show import percent

    return percent(guess.accuracy) if hasattr(guess, "accuracy") else f"R² {guess.r2:.3f}"
