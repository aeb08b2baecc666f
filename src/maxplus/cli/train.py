"""Command ``maxplus train``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from maxplus.cli import _options as opt
from maxplus.cli._common import (
    INTERRUPTED,
    DataArgument,
    all_ranks,
    plain_errors,
    refuse_over_ranks,
    require_folder,
)
from maxplus.cli._console import Console, JsonOption, QuietOption
from maxplus.cli._estimator import N_ESTIMATORS, parse_settings

if TYPE_CHECKING:
    from maxplus.cli._training import Training

PRIVACY_NOTE = (
    "The file contains a hash, the label and the loss of every training row: anyone with the file "
    "can test guesses of rows."
)


def train(
    data: DataArgument,
    out: opt.ModelOut = Path("model.maxplus"),
    validate: opt.Validate = "auto",
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
    algorithm: opt.Algorithm = "smooth",
    increasing: opt.Increasing = None,
    decreasing: opt.Decreasing = None,
    settings: opt.Set = None,
    suspects_out: opt.SuspectsOut = None,
    remember_rows: opt.RememberRows = False,
    checkpoint: opt.CheckpointOut = None,
    resume: opt.Resume = None,
) -> None:
    """Train a model on a table, write it to a file and validate it on held-out rows.

    Ctrl-C keeps the best model so far. Example: maxplus train flowers.csv --target species
    """
    with all_ranks() as comm, plain_errors(quiet, prints=comm.is_first):
        console = Console(as_json and comm.is_first, quiet or not comm.is_first)
        from maxplus.cli import _training

        require_folder(out, "--out")
        parameters = parse_settings(settings)
        encoder = opt.table_encoder(drop, keep, categorical, numeric, parameters)
        cv = opt.validation_splits(validate)
        if not comm.is_alone:
            if suspects_out is not None:
                refuse_over_ranks("--suspects-out", "omit it and use maxplus predict afterwards")
            if groups is not None:
                refuse_over_ranks("--groups", "omit it and hold out groups for maxplus evaluate")
            if validate not in ("auto", "none"):
                refuse_over_ranks("--validate", "omit it and hold out rows for maxplus evaluate")
            cv = None
        for path, option in ((checkpoint, "--checkpoint"), (suspects_out, "--suspects-out")):
            if path is not None:
                require_folder(path, option)
        if resume is None:
            estimator_options = {
                "algorithm": algorithm,
                "increasing": opt.names(increasing),
                "decreasing": opt.names(decreasing),
                "settings": parameters,
                "seed": seed,
            }
            training = _training.train_table(
                data,
                encoder,
                {"target": target, "task": task, "groups": groups},
                estimator_options,
                checkpoint,
                console,
                writes_suspects=suspects_out is not None,
            )
        elif N_ESTIMATORS in parameters:
            raise ValueError(_training.NO_CHECKPOINT.format("--resume"))
        else:
            training = _training.resume_training(data, resume, checkpoint or resume, console)
        training.save(out, remember_rows=remember_rows)
        document = training.describe(out)
        if cv is not None and not training.is_interrupted:
            validation = _training.validate_training(training, cv, console)
            if validation is not None:
                document["validation"] = validation.to_json()
                training.save(out, document["validation"], remember_rows=remember_rows)
        training.print_fit(console)
        if suspects_out is not None:
            training.write_suspects(suspects_out)
            console.print(f"suspects       {suspects_out}")
            document["suspects_file"] = str(suspects_out)
        console.print(f"model          {out}")
        if remember_rows:
            console.print(PRIVACY_NOTE)
        console.result(document)
        if training.is_interrupted:
            _exit_interrupted(training, out)


def _exit_interrupted(training: Training, out: Path) -> NoReturn:
    path: Any = training.checkpoint
    hint = "" if path is None else f"; continue with --resume {path}"
    typer.echo(f"Interrupted; the best model so far is in {out}{hint}.", err=True)
    raise typer.Exit(INTERRUPTED)
