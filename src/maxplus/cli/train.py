"""``maxplus train``: training and validation of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maxplus.cli import _options as opt
from maxplus.cli._console import INTERRUPTED, open_console

# Panels of the help text.
MODEL, FILES = "Model", "Files"
PRIVACY_NOTE = (
    "The file contains a hash, the label and the loss of every training row: anyone with the file "
    "can test whether a given row was in the training data."
)
# Options that have no effect with --resume, which uses those of the checkpoint.
NOT_RESUMED = (
    "seed",
    "target",
    "task",
    "drop",
    "keep",
    "categorical",
    "numeric",
    "groups",
    "algorithm",
    "increasing",
    "decreasing",
    "settings",
)


def train(
    context: typer.Context,
    data: opt.Data,
    out: Annotated[
        Path, opt.output_file("--out", "-o", help="The model file to write.", panel=FILES)
    ] = Path("model.maxplus"),
    validate: Annotated[
        str,
        typer.Option(
            metavar="auto|cv|FOLDS|FRACTION|none",
            help="Validation on held-out rows: cv for cross-validation, a number of folds such as "
            "10, or a fraction such as 0.2 to hold out. By default five folds up to 2,000 rows, "
            "three folds up to 10,000 rows, and a 20 % hold-out set for larger tables. Column "
            "types, imputed values and structure are chosen in each split from its training rows. "
            "The model that is written is trained on all rows.",
        ),
    ] = "auto",
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
    algorithm: Annotated[
        str,
        typer.Option(
            metavar="smooth|subgradient",
            help="smooth minimises the mean loss; subgradient, the algorithm of Enaieh and Fercoq "
            "(arXiv:2603.04133), minimises the maximum loss.",
            rich_help_panel=MODEL,
        ),
    ] = "smooth",
    increasing: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMNS",
            help="Columns in which the prediction is monotonically increasing. For classification, "
            "the prediction is the probability of the second class in alphabetical order. "
            "Comma-separated names, repeatable. None by default.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    decreasing: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMNS",
            help="Columns in which the prediction is monotonically decreasing. None by default.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other parameter of the estimator, such as class_weight=balanced or "
            "robust_eps=0.1; n_hidden=50 trains a single network with 50 units, n_estimators=4 an "
            "ensemble of 4 models, n_jobs=2 uses 2 threads, and missing=error rejects missing "
            "values. Repeatable. The estimator's documentation lists its parameters and their "
            "defaults.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    suspects_out: Annotated[
        Path | None,
        opt.output_file(
            help="CSV file for training rows with a high loss, in descending order; rows are "
            "numbered from 1, the first line of data. None by default.",
            panel=FILES,
        ),
    ] = None,
    remember_rows: Annotated[
        bool,
        typer.Option(
            "--remember-rows",
            help="Store a hash, the label and the loss of every training row in the model file, so "
            "that evaluate, certify and report can count rows that equal training rows. Anyone who "
            "has the file can then test whether a given row was in the training data. Off by "
            "default.",
            rich_help_panel=FILES,
        ),
    ] = False,
    checkpoint: Annotated[
        Path | None,
        opt.output_file(
            help="Write the state of training of a single network to this file every minute. None "
            "by default.",
            panel=FILES,
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="Continue from this checkpoint, with its options, on the same DATA. The file is "
            "replaced every minute unless --checkpoint is given. None by default.",
            rich_help_panel=FILES,
        ),
    ] = None,
) -> None:
    """Train a model on a table, write it to a file and validate it on held-out rows.

    Ctrl-C keeps the best model so far.

    Example: maxplus train flowers.csv --target species
    """
    with open_console(as_json, quiet) as console:
        from maxplus.cli import _training
        from maxplus.distributed import current

        for path in (out, suspects_out, checkpoint):
            opt.check_not_input(path, data)
        parameters = _training.parse_settings(settings)
        encoder = opt.table_encoder(drop, keep, categorical, numeric, parameters)
        cv = opt.validation_splits(validate)
        if not current().is_serial:
            for option, is_set, remedy in (
                ("--suspects-out", suspects_out, "omit it and use maxplus predict afterwards"),
                ("--groups", groups, "omit it and hold out groups for maxplus evaluate"),
                (
                    "--validate",
                    validate not in ("auto", "none"),
                    "omit it and hold out rows for maxplus evaluate",
                ),
            ):
                if is_set:
                    raise ValueError(f"{option} is not supported on several MPI ranks; {remedy}")
            cv = None
        if resume is None:
            training = _training.train_table(
                data,
                encoder,
                {"target": target, "task": task, "groups": groups},
                {
                    "algorithm": algorithm,
                    "increasing": opt.names(increasing),
                    "decreasing": opt.names(decreasing),
                    "settings": parameters,
                    "seed": seed,
                },
                console,
                checkpoint=checkpoint,
                suspects_out=suspects_out,
            )
        else:
            _training.reject_ensemble("--resume", parameters)
            ignored = opt.given_options(context, NOT_RESUMED)
            if ignored:
                console.print_message(
                    "--resume uses the options of the checkpoint, so these have no effect: "
                    f"{', '.join(ignored)}"
                )
            training = _training.resume_training(data, resume, checkpoint or resume, console)
        training.save(out, remember_rows=remember_rows)
        document = training.describe(out)
        if cv is not None and not training.is_interrupted:
            validation = _training.validate_training(training, cv, console)
            if validation is not None:
                document["validation"] = validation.to_json()
                training.save(out, document["validation"], remember_rows=remember_rows)
        if training.is_classifier:
            fit = document["training_fit"]
            console.rich.print(
                f"training rows: {fit['correct']:,} of {document['rows']:,} correct (largest loss "
                f"{fit['max_loss']:.4f}, mean {fit['mean_loss']:.4f}); not an estimate for new "
                "rows",
                style="dim",
                soft_wrap=True,
            )
        if suspects_out is not None:
            training.write_suspects(suspects_out)
            console.print(f"suspects       {suspects_out}")
            document["suspects_file"] = str(suspects_out)
        console.print(f"model          {out}")
        if remember_rows:
            console.print(PRIVACY_NOTE)
        console.print_json(document)
        if training.is_interrupted:
            saved = checkpoint or resume
            hint = "" if saved is None else f"; continue with --resume {saved}"
            typer.echo(f"Interrupted; the best model so far is in {out}{hint}.", err=True)
            raise typer.Exit(INTERRUPTED)
