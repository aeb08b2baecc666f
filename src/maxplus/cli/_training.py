"""A training by the command line: what is read, fitted, kept and told."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maxplus.cli._columns import column_choices
from maxplus.cli._recipe import recipe
from maxplus.cli._tables_out import write_csv
from maxplus.distributed import current
from maxplus.evaluation.leaks import find_leaks
from maxplus.io import Checkpoint, save
from maxplus.io.checkpoints import read_checkpoint, resume
from maxplus.models import LOG2
from maxplus.tables import (
    ColumnChoices,
    Preparation,
    Samples,
    open_source,
    row_fingerprints,
)
from maxplus.tables.kind_of import in_shell
from maxplus.training import KeepBestOnInterrupt, Status
from maxplus.training.progress import ProgressBar

if TYPE_CHECKING:
    from maxplus.cli._output import Voice


# Models of an ensemble are trained side by side, and what one has reached is not written down.
NO_STATE = "{} is for one network, and --estimators trains several; leave one of both out"
# Seconds between two checkpoints.
EVERY_MINUTE = 60.0
# In a checkpoint's notes, beside the preparation.
CHOICES = "choices"


@dataclass(frozen=True)
class Training:
    """A fitted estimator with all that it came from.

    ``estimator`` takes raw features: scaling is in its weights.
    """

    estimator: Any
    samples: Samples
    preparation: Preparation
    choices: ColumnChoices
    seed: int
    seconds: float
    checkpoint: Path | None

    @property
    def y(self) -> NDArray:
        """What was to be learned."""
        return targets(self.samples)

    @property
    def is_classifier(self) -> bool:
        """Whether classes were learned, not numbers."""
        return hasattr(self.estimator, "classes_")

    @property
    def interrupted(self) -> bool:
        """Whether somebody pressed Ctrl-C."""
        return self.estimator.status_ == Status.INTERRUPTED.value

    def save(self, out: Path, validation: Any = None, *, remember_rows: bool) -> None:
        """Write the model file, with how it did on rows that it had not seen."""
        self.estimator.validation_ = validation
        if remember_rows and not hasattr(self.estimator, "training_rows_"):
            # A model file knows all of its training rows, whichever ranks had them.
            self.estimator.training_rows_ = gather_any(row_fingerprints(self.samples.X))
        save(self.estimator, out, remember_rows=remember_rows)

    def describe(self, out: Path) -> dict[str, Any]:
        """What there is to know about the training, for programs."""
        estimator = self.estimator
        document: dict[str, Any] = {
            "model": str(out),
            "data": self.samples.name,
            "rows": current().total(len(self.samples.X)),
            "features": self.samples.X.shape[1],
            "target": self.samples.encoding.target,
            "decisions": self.preparation.decisions,
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

    def tell_fit(self, voice: Voice) -> None:
        """How the training rows fit, in one line that is not to be mistaken for more."""
        if not self.is_classifier:
            return
        right, n = self._n_right, current().total(len(self.y))
        voice.console.print(
            f"fits {'all' if right == n else f'{right:,} of'} {n:,} training rows (largest loss "
            f"{self.estimator.max_loss_:.4f}, mean {self.estimator.mean_loss_:.4f}); this says "
            "nothing about new rows", style="dim", soft_wrap=True,
        )  # fmt: skip

    @property
    def _n_right(self) -> int:
        if not len(self.y):
            return current().total(0)
        return current().total(int((self.estimator.predict(self.samples.X) == self.y).sum()))

    @property
    def _suspects(self) -> NDArray:
        """Rows that the polish could not bring below its level; without one, those above log 2."""
        losses, found = self.estimator.training_losses_, getattr(self.estimator, "suspects_", None)
        rows = np.flatnonzero(losses > LOG2) if found is None else np.asarray(found)
        return rows[np.argsort(-losses[rows], kind="stable")]

    def write_suspects(self, path: Path) -> None:
        """A CSV file of rows that do not fit, the most surprising first, as users count them."""
        rows, losses = self._suspects, self.estimator.training_losses_
        predicted = self.estimator.predict(self.samples.X[rows]) if rows.size else []
        write_csv(path, {
            "row": self.samples.rows[rows] + 1, "label": self.y[rows], "predicted": predicted,
            "probability of its label": np.exp(-losses[rows]).round(6),
            "loss": losses[rows].round(6),
        })  # fmt: skip


def begin(data: str, options: Mapping[str, Any], checkpoint: Path | None, voice: Voice) -> Training:
    """Read DATA and train by the options that were given."""
    choices = column_choices(options)
    if checkpoint is not None and "estimators" in options:
        raise ValueError(NO_STATE.format("--checkpoint"))
    if choices.task != "auto" or "loss" not in options:
        # What cannot be is told before a large table is read.
        recipe(options, regression=choices.task == "regression")
    samples, regression = open_training(data, choices, voice)
    if regression and checkpoint is not None:
        raise ValueError("--checkpoint is for classes, and the target is a number; leave it out")
    if regression and "suspects" in options:
        raise ValueError("--suspects lists rows whose class does not fit; the target is a number")
    estimator = recipe(options, regression=regression)
    scale = options.get("scale", samples.image_shape is None)
    network = getattr(estimator, "estimator", estimator)
    if "standardize" in network.get_params(deep=False):
        # A sum of terms keeps the unit of pixels by itself.
        if "scale" in options or not network._is_sum:
            network.set_params(standardize="auto" if scale else False)
    elif regression and "scale" in options:
        raise ValueError("--scale and --no-scale are for classes: a regression always scales")
    # The paper's algorithm does not scale by itself.
    preparation = Preparation.of(samples, scale=scale and bool(options.get("paper")))
    X, y = preparation.scaled(samples.X), targets(samples)
    notes = {**preparation.to_json(), CHOICES: choices._asdict()}
    began = time.perf_counter()
    with _bar(estimator, voice) as bar:
        own = [] if checkpoint is None else [Checkpoint(checkpoint, EVERY_MINUTE, notes)]
        estimator.set_params(callbacks=[bar, *own, KeepBestOnInterrupt()])
        _quietly(lambda: estimator.fit(X, y))
    return _finished(estimator, samples, preparation, choices, options["seed"], began, checkpoint)


def resume_training(data: str, path: Path, checkpoint: Path, voice: Voice) -> Training:
    """Train on from a checkpoint, with its options, on the same data."""
    trained, _, _, document = read_checkpoint(path)
    notes = document.get("notes")
    if not isinstance(notes, dict) or "encoding" not in notes:
        raise ValueError(f"{path} was not written by maxplus train; use maxplus.resume in Python")
    preparation = Preparation.from_json(notes)
    choices = _choices_of(notes, path)
    samples = open_source(data, preparation=preparation, labelled=True)
    X, y = preparation.scaled(samples.X), targets(samples)
    began = time.perf_counter()
    with _bar(trained, voice) as bar:
        callbacks = [bar, Checkpoint(checkpoint, EVERY_MINUTE, notes), KeepBestOnInterrupt()]
        estimator = _quietly(lambda: resume(path, X, y, callbacks))
    seed = estimator.random_state
    return _finished(estimator, samples, preparation, choices, seed, began, checkpoint)


def _choices_of(notes: Mapping[str, Any], path: Path) -> ColumnChoices:
    """What the user had said about columns when the training began."""
    try:
        return ColumnChoices(**notes[CHOICES])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged: its choices of columns cannot be read") from error


def _finished(
    estimator: Any, samples: Samples, preparation: Preparation, choices: Any, seed: int,
    began: float, checkpoint: Path | None,
) -> Training:  # fmt: skip
    """Fold the scaling into the weights, so that the model takes raw features."""
    seconds = time.perf_counter() - began
    estimator.set_params(callbacks=None)
    if preparation.centre is not None and preparation.spread is not None:
        estimator.fold(preparation.centre, preparation.spread, samples.X)
    estimator.preparation_ = preparation
    # A model file counts all of its training rows, whichever ranks had them.
    for name in ("training_losses_", "training_labels_"):
        if hasattr(estimator, name):
            setattr(estimator, name, gather_any(getattr(estimator, name)))
    return Training(estimator, samples, preparation, choices, seed, seconds, checkpoint)


def targets(samples: Samples) -> NDArray:
    """Labels or numbers to learn; ValueError if there are none."""
    if samples.y is None:
        raise ValueError(f"{samples.name} has no column {samples.encoding.target!r} with labels")
    return samples.y


def open_training(data: str, choices: ColumnChoices, voice: Voice) -> tuple[Samples, bool]:
    """DATA to learn from, and whether its target is a number; what was decided is told."""
    samples = open_source(data, choices)
    y, target = targets(samples), samples.encoding.target
    regression = samples.encoding.task == "regression"
    comm = current()
    classes = [] if regression else sorted(set().union(*comm.allgather(np.unique(y).tolist())))
    n_classes = len(classes)
    if n_classes == 1:
        raise ValueError(
            f"{samples.name}: the target {target!r} holds one class only "
            f"({str(classes[0])!r}); add rows of another, or name another column with --target"
        )
    kind = "a number" if regression else f"with {n_classes} classes"
    voice.say(
        f"{samples.name}: {comm.total(len(samples.X)):,} rows, {samples.X.shape[1]:,} features, "
        f"target {target!r}{',' * regression} {kind}"
    )
    for line in samples.decisions:
        voice.say(f"  {line}")
    if comm.is_alone:
        leaks = tuple(_leak_lines(samples))
        for line in leaks:
            voice.remark(f"Warning: {line}")
        samples = replace(samples, decisions=samples.decisions + leaks)
    if not comm.is_alone:
        rows = comm.allgather(len(samples.X))
        voice.say(f"  {comm.size} ranks, {min(rows):,} to {max(rows):,} rows each")
    return samples, regression


def _leak_lines(samples: Samples) -> Iterator[str]:
    """A line for each column that alone predicts the target nearly perfectly."""
    regression = samples.encoding.task == "regression"
    for leak in find_leaks(samples):
        how_well = f"R² {leak.score:.3f}" if regression else f"{leak.score:.1%} right"
        yield (
            f"{leak.column!r} alone predicts {samples.encoding.target!r} nearly perfectly "
            f"({how_well} on held-out rows): if it is known only after the target, it is a leak; "
            f"leave it out with --drop {in_shell(leak.column)}"
        )


def _bar(estimator: Any, voice: Voice) -> ProgressBar:
    certificate = getattr(estimator, "objective", "") == "max"
    return ProgressBar("training", voice.aside, certificate=certificate)


def gather_any(facts: NDArray) -> NDArray:
    """What ranks know of their own rows, together; of any type."""
    comm = current()
    return facts if comm.is_alone else np.concatenate(comm.allgather(facts))


def _quietly(fit: Callable[[], Any]) -> Any:
    """Fit without the warning about Ctrl-C: the command says it in its own words."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "training was interrupted")
        return fit()
