"""Implementation of ``maxplus train``; ``compare`` shares a part of it."""

from __future__ import annotations

import ast
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxplus import estimators
from maxplus.cli._console import (
    counted,
    label_cell,
    number,
    percent,
    plain_table,
    regression_rows,
    robust_errors_table,
    validated_with,
    with_options,
)
from maxplus.cli._writers import write_csv
from maxplus.distributed import current
from maxplus.evaluation import Validation, make_splits, validate
from maxplus.evaluation.leaks import find_leaks
from maxplus.io import Checkpoint, save
from maxplus.io.checkpoints import read_checkpoint, resume
from maxplus.metrics import ClassificationMetrics
from maxplus.metrics._formatting import format_number
from maxplus.models import LOG2
from maxplus.tables import Dataset, TableEncoder, load_dataset, load_training, row_hashes
from maxplus.tables.dataset import BUILT_IN_TABLES
from maxplus.tables.schema import AUTO, REGRESSION
from maxplus.training import KeepBestOnInterrupt, Status
from maxplus.training.progress import ProgressBar

if TYPE_CHECKING:
    from rich.table import Table

    from maxplus.cli._console import Console

ALGORITHMS = SMOOTH, SUBGRADIENT = ("smooth", "subgradient")
# Parameters that have a command-line option.
OPTIONS = {"random_state": "--seed", "monotonic_cst": "--increasing or --decreasing"}
# Setting this parameter selects an ensemble.
N_ESTIMATORS = "n_estimators"
STANDARDIZE = "standardize"
# Lower-case spellings of Python constants.
LITERALS = {"none": None, "null": None, "true": True, "false": False}
# Seconds between checkpoints.
CHECKPOINT_INTERVAL = 60.0
# Maximum number of printed recalls; the lowest are chosen.
MAX_RECALLS = 12


# -- estimator -------------------------------------------------------------------------------------


def parse_settings(texts: Sequence[str] | None) -> dict[str, Any]:
    """Parse NAME=VALUE pairs; values that are not Python literals are strings."""
    settings: dict[str, Any] = {}
    for text in texts or ():
        name, equals, value = map(str.strip, text.partition("="))
        if not (equals and name):
            raise ValueError(f"--set {text}: must be NAME=VALUE, such as --set slope=2")
        if value.lower() in LITERALS:
            settings[name] = LITERALS[value.lower()]
            continue
        try:
            settings[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            settings[name] = value
    return settings


def build_estimator(
    algorithm: str = SMOOTH,
    *,
    increasing: Sequence[str] = (),
    decreasing: Sequence[str] = (),
    settings: Mapping[str, Any],
    seed: int,
    regression: bool,
) -> Any:
    """Return the unfitted estimator; raise ValueError for incompatible options.

    ``settings`` are the parameters given by --set.
    """
    name = _class_name(algorithm, N_ESTIMATORS in settings, regression)
    estimator = getattr(estimators, name)(random_state=seed)
    if name == "LMMEnsembleClassifier":
        estimator.set_params(estimator=estimators.LMMClassifier())
    if increasing or decreasing:
        if algorithm == SUBGRADIENT:
            raise ValueError(
                f"--increasing and --decreasing are not supported with --algorithm {SUBGRADIENT}; "
                "omit them, or omit --algorithm"
            )
        if both := set(increasing) & set(decreasing):
            raise ValueError(
                f"--increasing and --decreasing both contain {min(both)!r}; remove it from one of "
                "them"
            )
        signs = dict.fromkeys(increasing, 1) | dict.fromkeys(decreasing, -1)
        _set_parameter(estimator, "monotonic_cst", signs)
    for key, value in settings.items():
        if key in OPTIONS:
            raise ValueError(f"--set {key}={value}: use {OPTIONS[key]} instead")
        _set_parameter(estimator, key, value)
    # Fail before a large table is read.
    estimator._check_parameters()
    return estimator


def _class_name(algorithm: str, ensemble: bool, regression: bool) -> str:
    if algorithm not in ALGORITHMS:
        raise ValueError(
            f"--algorithm must be one of {', '.join(ALGORITHMS)}; got {algorithm!r:.60}"
        )
    if algorithm == SUBGRADIENT:
        if regression:
            raise ValueError(
                f"--algorithm {SUBGRADIENT} requires a categorical target, but the target is "
                "numeric; omit the option, or add --task classification"
            )
        return "SubgradientLMMClassifier"
    if regression:
        return "LMMRegressor"
    return "LMMEnsembleClassifier" if ensemble else "LMMClassifier"


def _set_parameter(estimator: Any, name: str, value: Any) -> None:
    """Set a parameter of an estimator, or of its base estimator."""
    params = estimator.get_params(deep=True)
    known = name if name in params else f"estimator__{name}"
    if known not in params:
        names = sorted(name for name in params if name not in ("callbacks", *OPTIONS))
        similar = get_close_matches(name, names, n=1)
        hint = f"; did you mean {similar[0]!r}?" if similar else f"; it has {', '.join(names)}"
        raise ValueError(
            f"--set {name}={value}: {type(estimator).__name__} has no parameter {name!r}{hint}"
        )
    estimator.set_params(**{known: value})


def reject_ensemble(option: str, settings: Mapping[str, Any]) -> None:
    """Raise ValueError for checkpoints of an ensemble, whose models are trained in parallel."""
    if N_ESTIMATORS in settings:
        raise ValueError(
            f"{option} requires a single model, but --set n_estimators trains several; omit one of "
            "them"
        )


def _check_options(options: Mapping[str, Any], task: str) -> None:
    """Raise ValueError for invalid options before the table is read.

    With --task auto, options that are invalid for a classifier may be valid for a regressor.
    """
    try:
        build_estimator(**options, regression=task == REGRESSION)
    except ValueError:
        if task != AUTO:
            raise
        with suppress(ValueError):
            build_estimator(**options, regression=True)
            return
        raise


# -- training --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Training:
    """A fitted estimator and its training data."""

    estimator: Any
    data: Dataset
    seed: int
    seconds: float
    # True if the standardisation of features was folded into the weights.
    is_folded: bool

    @property
    def is_classifier(self) -> bool:
        """True for a classifier, False for a regressor."""
        return hasattr(self.estimator, "classes_")

    @property
    def is_interrupted(self) -> bool:
        """True if training was interrupted by Ctrl-C."""
        return self.estimator.status_ == Status.INTERRUPTED.value

    def save(self, out: Path, validation: Any = None, *, remember_rows: bool) -> None:
        """Write the model and its validation to a file."""
        self.estimator.validation_ = validation
        if remember_rows and not hasattr(self.estimator, "training_rows_"):
            self.estimator.training_rows_ = _gather(row_hashes(self.data.X))
        save(self.estimator, out, remember_rows=remember_rows)

    def describe(self, out: Path) -> dict[str, Any]:
        """Return the JSON document of the command."""
        estimator, X = self.estimator, self.data.X
        document: dict[str, Any] = {
            "model": str(out),
            "data": self.data.name,
            "rows": current().total(len(X)),
            "features": X.shape[1],
            "target": self.data.target.name,
            "decisions": estimator.encoder_.decisions_,
            "task": "classification" if self.is_classifier else "regression",
            "estimator": type(estimator).__name__,
            "status": estimator.status_,
            "status_message": estimator.status_message_,
            "seconds": self.seconds,
            "validation": None,
        }
        if self.is_classifier:
            n_correct = int((estimator.predict(X) == self.data.y).sum()) if len(X) else 0
            document["classes"] = estimator.classes_
            document["training_fit"] = {
                "correct": current().total(n_correct),
                "max_loss": estimator.max_loss_,
                "mean_loss": estimator.mean_loss_,
                "every_loss_below_log_2": estimator.perfect_fit_,
                "suspects": len(self._suspects),
            }
        return document

    @property
    def _suspects(self) -> NDArray:
        """Rows that the polish could not fit or, without a polish, with a loss above log 2."""
        losses = self.estimator.training_losses_
        suspects = getattr(self.estimator, "suspects_", None)
        rows = np.flatnonzero(losses > LOG2) if suspects is None else np.asarray(suspects)
        return rows[np.argsort(-losses[rows], kind="stable")]

    def write_suspects(self, path: Path) -> None:
        """Write the suspect rows to a CSV file, sorted by decreasing loss."""
        assert self.data.y is not None
        rows, losses = self._suspects, self.estimator.training_losses_
        predicted = self.estimator.predict(self.data.X[rows]) if rows.size else []
        columns = {
            "row": self.data.rows[rows] + 1,
            "label": self.data.y[rows],
            "predicted": predicted,
            "probability of its label": np.exp(-losses[rows]).round(6),
            "loss": losses[rows].round(6),
        }
        write_csv(path, [columns])


def train_table(
    data: str,
    encoder: TableEncoder,
    target: Mapping[str, Any],
    options: Mapping[str, Any],
    console: Console,
    *,
    checkpoint: Path | None = None,
    suspects_out: Path | None = None,
) -> Training:
    """Read a table and fit an estimator to it.

    ``target`` contains the options --target, --task and --groups, and ``options`` the arguments of
    `build_estimator`.
    """
    settings = dict(options["settings"])
    if checkpoint is not None:
        reject_ensemble("--checkpoint", settings)
    is_subgradient = options["algorithm"] == SUBGRADIENT
    standardize = settings.get(STANDARDIZE)
    if is_subgradient and STANDARDIZE in settings:
        if type(standardize) is not bool:
            raise ValueError(f"--set standardize={standardize}: must be true or false")
        # SubgradientLMMClassifier has no such parameter; the encoder standardises instead.
        del settings[STANDARDIZE]
    options = {**options, "settings": settings}
    _check_options(options, target["task"])
    dataset = open_training(data, encoder, target, console)
    assert dataset.encoder is not None
    is_regression = dataset.target.task == REGRESSION
    for option, path in (("--checkpoint", checkpoint), ("--suspects-out", suspects_out)):
        if is_regression and path is not None:
            raise ValueError(
                f"{option} requires a categorical target, but the target is numeric; omit the "
                "option, or add --task classification"
            )
    estimator = build_estimator(**options, regression=is_regression)
    if checkpoint is not None and getattr(estimator, "_is_sum", False):
        raise ValueError(
            "--checkpoint requires a single network, but the model is a sum of terms; omit the "
            "option, or add --set n_hidden=50"
        )
    if standardize is None:
        standardize = dataset.image_shape is None
    if is_subgradient:
        # The scaling is folded into the weights after the fit.
        dataset.encoder.standardize = standardize
    elif not standardize:
        network = getattr(estimator, "estimator", estimator)
        if not network._is_sum:
            network.set_params(standardize=False)
    notes = {"encoder": dataset.encoder.to_json(), "groups": target["groups"]}
    writers = [] if checkpoint is None else [Checkpoint(checkpoint, CHECKPOINT_INTERVAL, notes)]
    start = time.perf_counter()
    with _interruptible(estimator, console) as callbacks:
        estimator.set_params(callbacks=[*callbacks, *writers])
        estimator.fit(_standardized_frame(dataset), dataset.y)
    return _finish(estimator, dataset, options["seed"], start)


def resume_training(data: str, path: Path, checkpoint: Path, console: Console) -> Training:
    """Continue from a checkpoint, with its options, on the same data."""
    checkpointed, _, _, document = read_checkpoint(path)
    notes = document.get("notes")
    if not isinstance(notes, dict) or not {"encoder", "groups"} <= set(notes):
        raise ValueError(f"{path} was not written by maxplus train; use maxplus.resume in Python")
    encoder = TableEncoder.from_json(notes["encoder"])
    standardize, encoder.standardize = encoder.standardize, False
    dataset = load_dataset(data, encoder, labelled=True)
    if notes["groups"] is not None:
        groups = load_training(data, encoder.target_.name, encoder.target_.task, notes["groups"])
        dataset = replace(dataset, groups=groups.groups)
    dataset = replace(dataset, table=dataset.table.without(encoder.target_.name, notes["groups"]))
    encoder.standardize = standardize
    start = time.perf_counter()
    with _interruptible(checkpointed, console) as callbacks:
        callbacks = [*callbacks, Checkpoint(checkpoint, CHECKPOINT_INTERVAL, notes)]
        estimator = resume(path, _standardized_frame(dataset), dataset.y, callbacks)
    return _finish(estimator, dataset, estimator.random_state, start)


def _standardized_frame(data: Dataset) -> Any:
    assert data.encoder is not None
    return replace(data.frame, encoded=data.encoder.standardized(data.X))


@contextmanager
def _interruptible(estimator: Any, console: Console) -> Iterator[list[Any]]:
    """Yield the callbacks for progress and Ctrl-C; the command reports the interruption."""
    certificate = getattr(estimator, "objective", "") == "max"
    with (
        ProgressBar("training", console.stderr, is_max_loss=certificate) as bar,
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", "training was interrupted")
        yield [bar, KeepBestOnInterrupt()]


def _finish(estimator: Any, data: Dataset, seed: int, start: float) -> Training:
    """Fold the standardisation into the weights and gather attributes from all ranks."""
    seconds = time.perf_counter() - start
    estimator.set_params(callbacks=None)
    encoder = data.encoder
    assert encoder is not None
    is_folded = encoder.standardize
    if is_folded:
        encoder.standardize = False
        estimator.fold(encoder.ranges_.mean, encoder.ranges_.deviations, data.X)
    # The model file contains the losses and labels of all ranks.
    for name in ("training_losses_", "training_labels_"):
        if hasattr(estimator, name):
            setattr(estimator, name, _gather(getattr(estimator, name)))
    return Training(estimator, data, seed, seconds, is_folded)


def _gather(values: NDArray) -> NDArray:
    """Concatenate the values of all ranks."""
    comm = current()
    return values if comm.is_serial else np.concatenate(comm.allgather(values))


# -- table -----------------------------------------------------------------------------------------


def open_training(
    data: str, encoder: TableEncoder, target: Mapping[str, Any], console: Console
) -> Dataset:
    """Read and encode training data, and print how each column is used."""
    if data in BUILT_IN_TABLES:
        # All columns of a built-in dataset are features.
        dropped = [name for name in encoder.drop or () if name != AUTO]
        encoder = clone(encoder).set_params(drop=dropped)
    dataset = load_training(data, **target).encoded(encoder)
    assert dataset.y is not None
    assert dataset.encoder is not None
    regression, name = dataset.target.task == REGRESSION, dataset.target.name
    comm = current()
    classes = (
        [] if regression else sorted(set().union(*comm.allgather(np.unique(dataset.y).tolist())))
    )
    if len(classes) == 1:
        raise ValueError(
            f"{dataset.name}: the target {name!r} has only one class "
            f"({str(classes[0])!r}); add rows of other classes, or select another column with "
            "--target"
        )
    described = f"target {name!r} with {len(classes)} classes"
    if regression:
        described = f"regression target {name!r}"
    console.print(
        f"{dataset.name}: {counted(comm.total(len(dataset.X)), 'row')}, "
        f"{counted(dataset.X.shape[1], 'feature')}, {described}"
    )
    decisions = [with_options(line) for line in dataset.decisions]
    for line in decisions:
        console.print(f"  {line}")
    if comm.is_serial:
        leaks = [with_options(line) for line in _leak_warnings(dataset)]
        for line in leaks:
            console.print_message(f"Warning: {line}")
        decisions += leaks
    else:
        rows = comm.allgather(len(dataset.X))
        console.print(f"  {comm.size} ranks, {min(rows):,} to {max(rows):,} rows each")
    dataset.encoder.decisions_ = tuple(decisions)
    return dataset


def _leak_warnings(data: Dataset) -> Iterator[str]:
    """Yield a warning for each column that may leak the target."""
    for leak in find_leaks(data):
        is_number = data.target.task == REGRESSION
        score = f"R² {leak.score:.3f}" if is_number else f"accuracy {leak.score:.1%}"
        yield (
            f"{leak.column!r} alone predicts {data.target.name!r} nearly perfectly "
            f"({score} on held-out rows): if it is known only after the target, it is a leak; "
            f"drop it with `drop=[{leak.column!r}]`"
        )


# -- validation ------------------------------------------------------------------------------------


def validate_training(
    training: Training, cv: str | int | float, console: Console
) -> Validation | None:
    """Validate the model and print the metrics; return None if validation is not possible."""
    model, data = clone(training.estimator), training.data
    assert data.y is not None
    if training.is_folded:
        model = make_pipeline(StandardScaler(), model)
    try:
        splits = make_splits(data.y, cv, classification=training.is_classifier, groups=data.groups)
        n_splits = len(splits.pairs)
        run = partial(validate, model, data, cv=cv, random_state=training.seed)
        if n_splits == 1:
            # With a single split, the bar counts epochs.
            with ProgressBar("validating", console.stderr) as progress_bar:
                validation = run(callbacks=[progress_bar])
        else:
            with console.bar(n_splits) as bar:
                validation = run(on_progress=partial(bar, "validating"))
    except ValueError as error:
        console.print_message(f"Not validated: {error}")
        return None
    except KeyboardInterrupt:
        console.print_message("Validation was interrupted; the model is complete.")
        return None
    console.print("")
    console.rich.print(validation_table(validation))
    if validation.robust is not None:
        console.rich.print(robust_errors_table({"this model": validation.robust}))
    console.print(_validation_text(validation))
    return validation


def _validation_text(validation: Validation) -> str:
    validated = validated_with(validation.description)
    text = f"{validated}; the model itself was trained on all rows."
    if isinstance(validation.metrics, ClassificationMetrics):
        n = validation.metrics.n_rows
        low, high = map(percent, validation.score_interval(n))
        text += (
            f" Estimated accuracy on {n:,} new rows: {low} to {high} (95 % prediction interval)."
        )
    if validation.n_untested:
        n = validation.n_untested
        rows, classes = ("row", "its class") if n == 1 else ("rows", "their classes")
        text += f" {n} {rows} could not be held out: no other row or group has {classes}."
    return text


def validation_table(validation: Validation) -> Table:
    """Return a table of validation metrics next to those of the baseline."""
    metrics: Any = validation.metrics
    baseline: Any = validation.baseline
    if not isinstance(metrics, ClassificationMetrics):
        table = plain_table("held-out rows", "this model", "always the mean")
        baseline_cells = (
            number(baseline.r2),
            format_number(baseline.mae),
            format_number(baseline.rmse),
            "–",
        )
        for row, cell in zip(regression_rows(metrics), baseline_cells, strict=False):
            table.add_row(*row, cell)
        return table
    label = label_cell(validation.baseline_label)
    table = plain_table("held-out rows", "this model", f"always {label}")
    table.add_row("accuracy", percent(metrics.accuracy), percent(baseline.accuracy))
    interval = " to ".join(map(percent, validation.interval))
    table.add_row("  95 % confidence interval", interval, "")
    table.add_row(
        "balanced accuracy", percent(metrics.balanced_accuracy), percent(baseline.balanced_accuracy)
    )
    table.add_row("log loss", number(metrics.log_loss), number(baseline.log_loss))
    table.add_row("AUC", number(metrics.auc), number(baseline.auc))
    recalls = [class_metrics.recall for class_metrics in metrics.classes]
    n_hidden = len(recalls) - MAX_RECALLS
    # The recall of a class without held-out rows is NaN and sorts last.
    lowest = np.argsort(recalls, kind="stable")[:MAX_RECALLS]
    for d in lowest if n_hidden > 0 else range(len(recalls)):
        class_metrics = metrics.classes[d]
        name = (
            f"recall of {label_cell(class_metrics.label)}, {counted(class_metrics.n_rows, 'row')}"
        )
        table.add_row(name, percent(class_metrics.recall), percent(baseline.classes[d].recall))
    if n_hidden > 0:
        others = "the other class has" if n_hidden == 1 else f"{n_hidden} other classes have"
        table.add_row(f"{others} an equal or higher recall", "", "")
    return table
