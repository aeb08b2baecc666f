"""``maxplus train``: from a table to a model file, and how good it is on rows it has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from maxplus.cli import _options as opt
from maxplus.cli._common import INTERRUPTED, DataArgument, plain_errors, require_folder
from maxplus.cli._output import JsonOption, QuietOption, Voice
from maxplus.cli._ranks import all_ranks, refuse_over_ranks

if TYPE_CHECKING:
    from maxplus.cli._training import Training

REMEMBERED = (
    "The file keeps a hash, the label and the loss of every training row: whoever has the file can "
    "test guesses of rows against it."
)


def train(
    data: DataArgument,
    out: opt.ModelOut = Path("model.maxplus"),
    validate: opt.Validate = "auto",
    suspects: opt.Suspects = None,
    remember_rows: opt.RememberRows = False,
    seed: opt.Seed = 0,
    jobs: opt.Jobs = None,
    checkpoint: opt.CheckpointOut = None,
    resume: opt.Resume = None,
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
    scale: opt.Scale = None,
    hidden: opt.Hidden = None,
    slope: opt.Slope = None,
    confidence: opt.Confidence = None,
    structure: opt.Structure = None,
    max_features: opt.MaxFeatures = None,
    scoring: opt.Scoring = None,
    estimators: opt.Estimators = None,
    bootstrap: opt.Bootstrap = None,
    epochs: opt.Epochs = None,
    robust_eps: opt.RobustEps = None,
    early_stopping: opt.EarlyStopping = None,
    polish: opt.Polish = None,
    no_polish: opt.NoPolish = None,
    max_suspects: opt.MaxSuspects = None,
    class_weight: opt.ClassWeight = None,
    calibrate: opt.Calibrate = None,
    loss: opt.Loss = None,
    paper: opt.Paper = False,
    iterations: opt.Iterations = None,
    init: opt.Init = None,
    objective: opt.Objective = None,
    top_k: opt.TopK = None,
    step: opt.Step = None,
    polyak_target: opt.PolyakTarget = None,
    polyak_fraction: opt.PolyakFraction = None,
    learning_rate: opt.LearningRate = None,
    linear_every: opt.LinearEvery = None,
    engine: opt.Engine = None,
    iterate: opt.Iterate = None,
) -> None:
    """Train a model on a table, write it to a file and tell how good it is on unseen rows.

    Ctrl-C keeps the best model so far. Example: maxplus train flowers.csv --target species
    """
    given = {name: value for name, value in locals().items() if value is not None}
    with all_ranks() as comm, plain_errors(quiet, speaks=comm.is_first):
        voice = Voice(as_json and comm.is_first, quiet or not comm.is_first)
        from maxplus.cli import _training
        from maxplus.cli._validating import validate_training, validation_plan

        require_folder(out, "--out")
        how = validation_plan(validate)
        if not comm.is_alone:
            if suspects is not None:
                refuse_over_ranks("--suspects", "find them with maxplus predict afterwards")
            if groups is not None:
                refuse_over_ranks("--groups", "keep whole groups aside for maxplus evaluate")
            if validate not in ("auto", "none"):
                refuse_over_ranks("--validate", "keep rows aside and ask maxplus evaluate")
            how = None
        for path, option in ((checkpoint, "--checkpoint"), (suspects, "--suspects")):
            if path is not None:
                require_folder(path, option)
        if resume is None:
            training = _training.begin(data, given, checkpoint, voice)
        elif estimators is not None:
            raise ValueError(_training.NO_STATE.format("--resume"))
        else:
            training = _training.resume_training(data, resume, checkpoint or resume, voice)
        training.save(out, remember_rows=remember_rows)
        document = training.describe(out)
        if how is not None and not training.interrupted:
            validation = validate_training(training, how, voice)
            if validation is not None:
                document["validation"] = validation.to_json()
                training.save(out, document["validation"], remember_rows=remember_rows)
        training.tell_fit(voice)
        if suspects is not None:
            training.write_suspects(suspects)
            voice.say(f"suspects       {suspects}")
            document["suspects_file"] = str(suspects)
        voice.say(f"model          {out}")
        if remember_rows:
            voice.say(REMEMBERED)
        voice.result(document)
        if training.interrupted:
            _leave(training, out)


def _leave(training: Training, out: Path) -> NoReturn:
    where = training.checkpoint
    hint = "" if where is None else f"; go on with --resume {where}"
    typer.echo(f"Interrupted; the best model so far is in {out}{hint}.", err=True)
    raise typer.Exit(INTERRUPTED)
