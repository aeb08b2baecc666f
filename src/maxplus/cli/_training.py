"""Training and validation for ``maxplus train``."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxplus.cli._estimator import N_ESTIMATORS, SUBGRADIENT, build_estimator
from maxplus.cli._text_tables import percent, robust_errors_table, validation_table
from maxplus.cli._writers import write_csv
from maxplus.distributed import current
from maxplus.evaluation import Validation, make_splits, validate
from maxplus.evaluation.leaks import find_leaks
from maxplus.io import Checkpoint, save
from maxplus.io.checkpoints import read_checkpoint, resume
from maxplus.metrics import ClassificationMetrics
from maxplus.models import LOG2
from maxplus.tables import Dataset, TableEncoder, load_dataset, load_training, row_hashes
from maxplus.tables.dataset import SMALL
from maxplus.tables.schema import AUTO, REGRESSION, in_shell
from maxplus.training import KeepBestOnInterrupt, Status
from maxplus.training.progress import ProgressBar

if TYPE_CHECKING:
    from maxplus.cli._console import Console

# Ensembles are trained in parallel and do not support checkpoints.
NO_CHECKPOINT = "{} is for one model, and --set n_estimators trains several; leave one of them out"
# Seconds between checkpoints.
EVERY_MINUTE = 60.0
STANDARDIZE = "standardize"


@dataclass(frozen=True)
class Training:
    """A fitted estimator and its training data."""

    estimator: Any
    data: Dataset
    seed: int
    seconds: float
    checkpoint: Path | None
    # True if the standardisation of features was folded into the weights.
    is_folded: bool = False

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
            self.estimator.training_rows_ = gather_any(row_hashes(self.data.X))
        save(self.estimator, out, remember_rows=remember_rows)

    def describe(self, out: Path) -> dict[str, Any]:
        """Return the JSON document of the command."""
        estimator = self.estimator
        document: dict[str, Any] = {
            "model": str(out),
            "data": self.data.name,
            "rows": current().total(len(self.data.X)),
            "features": self.data.X.shape[1],
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
            document["classes"] = estimator.classes_
            document["training_fit"] = {
                "right": self._n_correct,
                "max_loss": estimator.max_loss_,
                "mean_loss": estimator.mean_loss_,
                "every_loss_below_log_2": estimator.perfect_fit_,
                "suspects": len(self._suspects),
            }
        return document

    def print_fit(self, console: Console) -> None:
        """Print the accuracy and loss on the training rows."""
        if not self.is_classifier:
            return
        n_correct, n = self._n_correct, current().total(len(self.data.X))
        console.rich.print(
            f"training rows: {n_correct:,} of {n:,} correct (largest loss "
            f"{self.estimator.max_loss_:.4f}, mean {self.estimator.mean_loss_:.4f}); not an "
            "estimate for new rows",
            style="dim",
            soft_wrap=True,
        )

    @property
    def _n_correct(self) -> int:
        X, y = self.data.X, self.data.y
        return current().total(int((self.estimator.predict(X) == y).sum()) if len(X) else 0)

    @property
    def _suspects(self) -> NDArray:
        """Rows that the polish could not fit or, without a polish, with a loss above log 2."""
        losses, suspects = (
            self.estimator.training_losses_,
            getattr(self.estimator, "suspects_", None),
        )
        rows = np.flatnonzero(losses > LOG2) if suspects is None else np.asarray(suspects)
        return rows[np.argsort(-losses[rows], kind="stable")]

    def write_suspects(self, path: Path) -> None:
        """Write the suspect rows to a CSV file, sorted by decreasing loss."""
        assert self.data.y is not None
        rows, losses = self._suspects, self.estimator.training_losses_
        predicted = self.estimator.predict(self.data.X[rows]) if rows.size else []
        write_csv(
            path,
            {
                "row": self.data.rows[rows] + 1,
                "label": self.data.y[rows],
                "predicted": predicted,
                "probability of its label": np.exp(-losses[rows]).round(6),
                "loss": losses[rows].round(6),
            },
        )


def train_table(
    data: str,
    encoder: TableEncoder,
    target: Mapping[str, Any],
    options: Mapping[str, Any],
    checkpoint: Path | None,
    console: Console,
    *,
    writes_suspects: bool = False,
) -> Training:
    """Read a table and fit an estimator to it.

    Parameters
    ----------
    data : argument DATA
    encoder : unfitted encoder
    target : options --target, --task and --groups
    options : arguments of `build_estimator`
    checkpoint : checkpoint file, optional
    console : console for messages and progress bars
    writes_suspects : whether --suspects-out is set
    """
    if checkpoint is not None and N_ESTIMATORS in options["settings"]:
        raise ValueError(NO_CHECKPOINT.format("--checkpoint"))
    settings = dict(options["settings"])
    standardize = settings.get(STANDARDIZE)
    if options["algorithm"] == SUBGRADIENT and STANDARDIZE in settings:
        if type(standardize) is not bool:
            raise ValueError(f"--set standardize={standardize}: must be true or false")
        # SubgradientLMMClassifier has no such parameter; the encoder standardises instead.
        del settings[STANDARDIZE]
    options = {**options, "settings": settings}
    _check_options(options, target["task"])
    dataset = open_training(data, encoder, target, console)
    is_regression = dataset.target.task == REGRESSION
    for option, is_given in (
        ("--checkpoint", checkpoint is not None),
        ("--suspects-out", writes_suspects),
    ):
        if is_regression and is_given:
            raise ValueError(
                f"{option} is for classes, and the target is a number; leave it out, or add --task "
                "classification"
            )
    estimator = build_estimator(**options, regression=is_regression)
    network = getattr(estimator, "estimator", estimator)
    params = network.get_params(deep=False)
    assert dataset.encoder is not None
    if STANDARDIZE not in params:
        # The encoder standardises features, and the scaling is folded into the weights after the
        # fit.
        is_subgradient = options["algorithm"] == SUBGRADIENT
        is_image = dataset.image_shape is not None
        dataset.encoder.standardize = is_subgradient and (
            not is_image if standardize is None else standardize
        )
    elif standardize is None and dataset.image_shape is not None and not network._is_sum:
        network.set_params(standardize=False)
    start = time.perf_counter()
    frame = replace(dataset.frame, encoded=dataset.encoder.standardized(dataset.X))
    with _bar(estimator, console) as bar:
        notes = {"encoder": dataset.encoder.to_json(), "groups": target["groups"]}
        writers = [] if checkpoint is None else [Checkpoint(checkpoint, EVERY_MINUTE, notes)]
        estimator.set_params(callbacks=[bar, *writers, KeepBestOnInterrupt()])
        _without_interrupt_warning(lambda: estimator.fit(frame, dataset.y))
    return _finish(estimator, dataset, options["seed"], start, checkpoint)


def _check_options(options: Mapping[str, Any], task: str) -> None:
    """Raise ValueError for invalid options before the table is read."""
    try:
        build_estimator(**options, regression=task == REGRESSION)
    except ValueError:
        if task != AUTO:
            raise
        # With --task auto, options that are invalid for a classifier may be valid for a regressor.
        try:
            build_estimator(**options, regression=True)
        except ValueError:
            pass
        else:
            return
        raise


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
    frame = replace(dataset.frame, encoded=encoder.standardized(dataset.X))
    start = time.perf_counter()
    with _bar(checkpointed, console) as bar:
        callbacks = [bar, Checkpoint(checkpoint, EVERY_MINUTE, notes), KeepBestOnInterrupt()]
        estimator = _without_interrupt_warning(lambda: resume(path, frame, dataset.y, callbacks))
    return _finish(estimator, dataset, estimator.random_state, start, checkpoint)


def _finish(
    estimator: Any, data: Dataset, seed: int, start: float, checkpoint: Path | None
) -> Training:
    """Fold the standardisation into the weights and gather attributes from all ranks."""
    seconds = time.perf_counter() - start
    estimator.set_params(callbacks=None)
    encoder, is_folded = data.encoder, data.encoder.standardize  # type: ignore[union-attr]
    assert encoder is not None
    if is_folded:
        encoder.standardize = False
        estimator.fold(encoder.ranges_.mean, encoder.ranges_.deviations, data.X)
    # The model file contains the losses and labels of all ranks.
    for name in ("training_losses_", "training_labels_"):
        if hasattr(estimator, name):
            setattr(estimator, name, gather_any(getattr(estimator, name)))
    return Training(estimator, data, seed, seconds, checkpoint, is_folded)


def open_training(
    data: str, encoder: TableEncoder, target: Mapping[str, Any], console: Console
) -> Dataset:
    """Read and encode training data, and print how each column is used."""
    if data in SMALL:
        # All columns of a built-in data set are features.
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
            f"({str(classes[0])!r}); add rows of another, or name another column with --target"
        )
    kind = "a number" if regression else f"with {len(classes)} classes"
    console.print(
        f"{dataset.name}: {comm.total(len(dataset.X)):,} rows, {dataset.X.shape[1]:,} features, "
        f"target {name!r}{',' * regression} {kind}"
    )
    for line in dataset.decisions:
        console.print(f"  {line}")
    if comm.is_alone:
        leaks = tuple(_leak_warnings(dataset))
        for line in leaks:
            console.remark(f"Warning: {line}")
        dataset.encoder.decisions_ += leaks
    else:
        rows = comm.allgather(len(dataset.X))
        console.print(f"  {comm.size} ranks, {min(rows):,} to {max(rows):,} rows each")
    return dataset


def _leak_warnings(data: Dataset) -> Iterator[str]:
    """Yield a warning for each column that may leak the target."""
    for leak in find_leaks(data):
        is_number = data.target.task == REGRESSION
        score = f"R² {leak.score:.3f}" if is_number else f"{leak.score:.1%} right"
        yield (
            f"{leak.column!r} alone predicts {data.target.name!r} nearly perfectly "
            f"({score} on held-out rows): if it is known only after the target, it is a leak; "
            f"leave it out with --drop {in_shell(leak.column)}"
        )


def validate_training(
    training: Training, cv: str | int | float, console: Console
) -> Validation | None:
    """Validate the model and print the metrics; return None if validation is not possible."""
    model, data = clone(training.estimator), training.data
    assert data.y is not None
    if training.is_folded:
        model = make_pipeline(StandardScaler(), model)
    try:
        splits = make_splits(data.y, cv, classes=training.is_classifier, groups=data.groups)
        n_splits = len(splits.pairs)
        with ExitStack() as stack:
            progress: dict[str, Any]
            if n_splits == 1:
                # With a single split, the bar counts epochs.
                progress_bar = stack.enter_context(ProgressBar("validating", console.stderr))
                progress = {"callbacks": [progress_bar]}
            else:
                bar = stack.enter_context(console.bar(n_splits))
                progress = {"on_progress": partial(bar, "validating")}
            validation = validate(model, data, cv=cv, random_state=training.seed, **progress)
    except ValueError as error:
        console.remark(f"Not validated: {error}")
        return None
    except KeyboardInterrupt:
        console.remark("Validation was interrupted; the model is complete.")
        return None
    console.print("")
    console.rich.print(validation_table(validation))
    if validation.robust is not None:
        console.rich.print(robust_errors_table({"this model": validation.robust}))
    console.print(_validation_text(validation))
    return validation


def _validation_text(validation: Validation) -> str:
    text = f"Validated by {validation.description}; the model itself was trained on all rows."
    if isinstance(validation.figures, ClassificationMetrics):
        n = validation.figures.n_rows
        low, high = map(percent, validation.score_interval(n))
        text += f" 95 % of new tables with {n:,} rows have an accuracy of {low} to {high}."
    if validation.n_untested:
        n = validation.n_untested
        whose = "its class" if n == 1 else "their classes"
        text += f" {n} row{'s' * (n > 1)} could not be held out: no other row or group has {whose}."
    return text


def _bar(estimator: Any, console: Console) -> ProgressBar:
    certificate = getattr(estimator, "objective", "") == "max"
    return ProgressBar("training", console.stderr, certificate=certificate)


def gather_any(values: NDArray) -> NDArray:
    """Concatenate the values of all ranks."""
    comm = current()
    return values if comm.is_alone else np.concatenate(comm.allgather(values))


def _without_interrupt_warning(fit: Callable[[], Any]) -> Any:
    """Call ``fit`` without the warning about Ctrl-C, which the command reports itself."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "training was interrupted")
        return fit()
