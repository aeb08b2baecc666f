"""Training of ``maxplus train``: one call of ``fit`` with a table, and its validation."""

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

# Models of an ensemble are trained in parallel and have no checkpoints.
NO_STATE = "{} is for one model, and --set n_estimators trains several; leave one of them out"
# Seconds between two checkpoints.
EVERY_MINUTE = 60.0
STANDARDIZE = "standardize"


@dataclass(frozen=True)
class Training:
    """A fitted estimator with its ``encoder_``, and its training data."""

    estimator: Any
    data: Dataset
    seed: int
    seconds: float
    checkpoint: Path | None
    # Set if features were standardised for training and the scaling was folded into the weights.
    is_folded: bool = False

    @property
    def is_classifier(self) -> bool:
        """True for a classification."""
        return hasattr(self.estimator, "classes_")

    @property
    def is_interrupted(self) -> bool:
        """True if Ctrl-C ended the training."""
        return self.estimator.status_ == Status.INTERRUPTED.value

    def save(self, out: Path, validation: Any = None, *, remember_rows: bool) -> None:
        """Write the model file, with its validation."""
        self.estimator.validation_ = validation
        if remember_rows and not hasattr(self.estimator, "training_rows_"):
            self.estimator.training_rows_ = gather_any(row_hashes(self.data.X))
        save(self.estimator, out, remember_rows=remember_rows)

    def describe(self, out: Path) -> dict[str, Any]:
        """Return the JSON document of the training."""
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
                "right": self._n_right,
                "max_loss": estimator.max_loss_,
                "mean_loss": estimator.mean_loss_,
                "every_loss_below_log_2": estimator.perfect_fit_,
                "suspects": len(self._suspects),
            }
        return document

    def print_fit(self, console: Console) -> None:
        """Print the fit to the training rows in one line."""
        if not self.is_classifier:
            return
        right, n = self._n_right, current().total(len(self.data.X))
        console.rich.print(
            f"training rows: {right:,} of {n:,} correct (largest loss "
            f"{self.estimator.max_loss_:.4f}, mean {self.estimator.mean_loss_:.4f}); not an "
            "estimate for new rows",
            style="dim",
            soft_wrap=True,
        )

    @property
    def _n_right(self) -> int:
        X, y = self.data.X, self.data.y
        return current().total(int((self.estimator.predict(X) == y).sum()) if len(X) else 0)

    @property
    def _suspects(self) -> NDArray:
        """Rows whose loss the polish left above its level; without a polish, above log 2."""
        losses, found = self.estimator.training_losses_, getattr(self.estimator, "suspects_", None)
        rows = np.flatnonzero(losses > LOG2) if found is None else np.asarray(found)
        return rows[np.argsort(-losses[rows], kind="stable")]

    def write_suspects(self, path: Path) -> None:
        """Write a CSV file of the rows that do not fit, sorted by decreasing loss."""
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
    """Read DATA, infer its target and call ``fit``.

    Parameters
    ----------
    data : the argument of the command
    encoder : unfitted, with the options about columns
    target : options --target, --task and --groups
    options : those of `build_estimator`
    checkpoint : file of checkpoints, if any
    console : for text and bars
    writes_suspects : whether suspects are to be written
    """
    if checkpoint is not None and N_ESTIMATORS in options["settings"]:
        raise ValueError(NO_STATE.format("--checkpoint"))
    settings = dict(options["settings"])
    standardize = settings.get(STANDARDIZE)
    if options["algorithm"] == SUBGRADIENT and STANDARDIZE in settings:
        if type(standardize) is not bool:
            raise ValueError(f"--set standardize={standardize}: write true or false")
        # The encoder standardises features for the paper's algorithm.
        del settings[STANDARDIZE]
    options = {**options, "settings": settings}
    _check_options(options, target["task"])
    read = open_training(data, encoder, target, console)
    is_regression = read.target.task == REGRESSION
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
    own = network.get_params(deep=False)
    assert read.encoder is not None
    if STANDARDIZE not in own:
        # The paper's algorithm does not standardise features: the encoder does, and the scaling is
        # folded into the weights afterwards.
        is_paper = options["algorithm"] == SUBGRADIENT
        is_image = read.image_shape is not None
        read.encoder.standardize = is_paper and (
            not is_image if standardize is None else standardize
        )
    elif standardize is None and read.image_shape is not None and not network._is_sum:
        network.set_params(standardize=False)
    began = time.perf_counter()
    frame = replace(read.frame, encoded=read.encoder.standardized(read.X))
    with _bar(estimator, console) as bar:
        notes = {"encoder": read.encoder.to_json(), "groups": target["groups"]}
        writers = [] if checkpoint is None else [Checkpoint(checkpoint, EVERY_MINUTE, notes)]
        estimator.set_params(callbacks=[bar, *writers, KeepBestOnInterrupt()])
        _without_interrupt_warning(lambda: estimator.fit(frame, read.y))
    return _finished(estimator, read, options["seed"], began, checkpoint)


def _check_options(options: Mapping[str, Any], task: str) -> None:
    """Raise ValueError for invalid options before a large table is read."""
    try:
        build_estimator(**options, regression=task == REGRESSION)
    except ValueError:
        if task != AUTO:
            raise
        # With task "auto", options that a classifier refuses may be valid for a regression.
        try:
            build_estimator(**options, regression=True)
        except ValueError:
            pass
        else:
            return
        raise


def resume_training(data: str, path: Path, checkpoint: Path, console: Console) -> Training:
    """Continue from a checkpoint, with its options, on the same data."""
    trained, _, _, document = read_checkpoint(path)
    notes = document.get("notes")
    if not isinstance(notes, dict) or not {"encoder", "groups"} <= set(notes):
        raise ValueError(f"{path} was not written by maxplus train; use maxplus.resume in Python")
    encoder = TableEncoder.from_json(notes["encoder"])
    standardize, encoder.standardize = encoder.standardize, False
    read = load_dataset(data, encoder, labelled=True)
    if notes["groups"] is not None:
        groups = load_training(data, encoder.target_.name, encoder.target_.task, notes["groups"])
        read = replace(read, groups=groups.groups)
    read = replace(read, table=read.table.without(encoder.target_.name, notes["groups"]))
    encoder.standardize = standardize
    frame = replace(read.frame, encoded=encoder.standardized(read.X))
    began = time.perf_counter()
    with _bar(trained, console) as bar:
        callbacks = [bar, Checkpoint(checkpoint, EVERY_MINUTE, notes), KeepBestOnInterrupt()]
        estimator = _without_interrupt_warning(lambda: resume(path, frame, read.y, callbacks))
    return _finished(estimator, read, estimator.random_state, began, checkpoint)


def _finished(
    estimator: Any, data: Dataset, seed: int, began: float, checkpoint: Path | None
) -> Training:
    """Fold a standardisation into the weights and gather the attributes of all ranks."""
    seconds = time.perf_counter() - began
    estimator.set_params(callbacks=None)
    encoder, is_folded = data.encoder, data.encoder.standardize  # type: ignore[union-attr]
    assert encoder is not None
    if is_folded:
        encoder.standardize = False
        estimator.fold(encoder.ranges_.mean, encoder.ranges_.deviations, data.X)
    # The model file describes the training rows of all ranks.
    for name in ("training_losses_", "training_labels_"):
        if hasattr(estimator, name):
            setattr(estimator, name, gather_any(getattr(estimator, name)))
    return Training(estimator, data, seed, seconds, checkpoint, is_folded)


def open_training(
    data: str, encoder: TableEncoder, target: Mapping[str, Any], console: Console
) -> Dataset:
    """Read and encode training data, and print the decisions about columns."""
    if data in SMALL:
        # All columns of a built-in data set are features.
        dropped = [name for name in encoder.drop or () if name != AUTO]
        encoder = clone(encoder).set_params(drop=dropped)
    read = load_training(data, **target).encoded(encoder)
    assert read.y is not None
    assert read.encoder is not None
    regression, name = read.target.task == REGRESSION, read.target.name
    comm = current()
    classes = [] if regression else sorted(set().union(*comm.allgather(np.unique(read.y).tolist())))
    if len(classes) == 1:
        raise ValueError(
            f"{read.name}: the target {name!r} has only one class "
            f"({str(classes[0])!r}); add rows of another, or name another column with --target"
        )
    kind = "a number" if regression else f"with {len(classes)} classes"
    console.print(
        f"{read.name}: {comm.total(len(read.X)):,} rows, {read.X.shape[1]:,} features, "
        f"target {name!r}{',' * regression} {kind}"
    )
    for line in read.decisions:
        console.print(f"  {line}")
    if comm.is_alone:
        leaks = tuple(_leak_lines(read))
        for line in leaks:
            console.remark(f"Warning: {line}")
        read.encoder.decisions_ += leaks
    else:
        rows = comm.allgather(len(read.X))
        console.print(f"  {comm.size} ranks, {min(rows):,} to {max(rows):,} rows each")
    return read


def _leak_lines(data: Dataset) -> Iterator[str]:
    """Yield a line for each column that may leak the target."""
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
    """Validate and print the metrics; None if there are too few rows, or after Ctrl-C."""
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
                one = stack.enter_context(ProgressBar("validating", console.stderr))
                progress = {"callbacks": [one]}
            else:
                several = stack.enter_context(console.bar(n_splits))
                progress = {"on_progress": partial(several, "validating")}
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
    """Gather the values of all rows from all ranks, of any type."""
    comm = current()
    return values if comm.is_alone else np.concatenate(comm.allgather(values))


def _without_interrupt_warning(fit: Callable[[], Any]) -> Any:
    """Fit without the warning about Ctrl-C, since the command prints its own message."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "training was interrupted")
        return fit()
