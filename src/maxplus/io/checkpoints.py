"""Checkpoints: trainings that survive the end of their process."""

from __future__ import annotations

import hashlib
import math
import os
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import maxplus
from maxplus.io.container import FileError, read_container, write_container
from maxplus.io.labels import labels_to_json, parameters_to_json
from maxplus.io.models import (
    COURSES,
    SHAPES,
    blank,
    classes_of,
    history_of,
    model_of,
    restore_courses,
)
from maxplus.training import History, Progress
from maxplus.training.result import Signal
from maxplus.training.state import ITERATIONS, POLISH, WARM_UP, TrainingState
from maxplus.training.steps import NO_MEMORY

KIND = "maxplus-checkpoint"


class Checkpoint:
    """A callback that writes the training's state to a file now and then, and at its end.

    After a crash, `maxplus.resume` goes on from the file and ends with the same
    parameters as a training that was never interrupted, to the last bit.

    Parameters
    ----------
    path : where; each time the file is replaced, whole or not at all
    every : seconds between two writings
    notes : anything that JSON can hold, kept beside the state

    Examples
    --------
    >>> from maxplus import LMMClassifier
    >>> from maxplus.io import Checkpoint
    >>> clf = LMMClassifier(callbacks=Checkpoint("training.ckpt"))  # doctest: +SKIP
    """

    def __init__(
        self, path: str | os.PathLike[str], every: float = 60.0, notes: Any = None
    ) -> None:
        self.path = path
        self.every = every
        self.notes = notes

    def begin(
        self, estimator: Any, labels: NDArray, X: NDArray, y: NDArray, weight: NDArray | None
    ) -> None:
        """Note what is trained on what; the first file is due ``every`` seconds from now."""
        self._document = {
            "estimator": type(estimator).__name__,
            "library": maxplus.__version__,
            "parameters": parameters_to_json(estimator.get_params(deep=False)),
            "classes": labels_to_json(labels),
            "data": data_digest(X, y, weight),
            "notes": self.notes,
            "augmented": getattr(estimator, "augment", None) is not None,
        }
        if hasattr(estimator, "slope_"):
            self._document["slope"] = float(estimator.slope_)
        self._estimator = estimator
        self._due = time.monotonic() + self.every

    def __call__(self, progress: Progress) -> None:
        """Write if it is time; a polish is repeated from its beginning."""
        if progress.stage == POLISH:
            return
        if progress.is_last or time.monotonic() >= self._due:
            self._write(progress.state())
            self._due = time.monotonic() + self.every

    def _write(self, state: TrainingState) -> None:
        document = self._document | {
            "iteration": state.iteration,
            "best_loss": state.best_loss,
            "signal": int(state.signal),
            "generator": state.generator,
            "stage": state.stage,
        }
        arrays = {f"model.{name}": W for name, W in state.weights.items()}
        arrays |= {f"best.{name}": W for name, W in state.best_weights.items()}
        arrays |= {f"history.{name}": column for name, column in state.history.items()}
        arrays |= {f"more.{name}": array for name, array in state.more.items()}
        arrays["step.memory"] = state.step_memory
        facts = vars(self._estimator)
        arrays |= {name: facts[f"{name}_"] for name in COURSES if f"{name}_" in facts}
        if "prototypes_" in facts:
            arrays["prototypes"] = np.asarray(facts["prototypes_"], np.int64)
        write_container(self.path, KIND, document, arrays)


def resume(
    path: str | os.PathLike[str], X: Any, y: Any, callbacks: Any = None, sample_weight: Any = None,
    augment: Any = None,
) -> Any:  # fmt: skip
    """Go on with a training that a `Checkpoint` has written, on the same data.

    Parameters
    ----------
    path : the checkpoint
    X, y, sample_weight : the data that the training began with
    callbacks : as in the estimators, for the rest of the training; files cannot hold them
    augment : the one that the training began with, if it had one, for the same reason

    Returns
    -------
    The fitted estimator, as the training without interruption would have given it.

    Raises
    ------
    FileError (a ValueError)
        When the file is damaged or the data are not those it began with.
    """
    estimator, state, document = read_checkpoint(path)
    if augment is not None:
        estimator.augment = augment
    elif document.get("augmented") and state.stage != ITERATIONS:
        raise FileError(f"{path} is from a training with augment; give the same one to resume")
    checks = [_SameData(str(path), document.get("data"))]
    several = callbacks if isinstance(callbacks, (list, tuple)) else [callbacks]
    estimator.callbacks = [*checks, *(c for c in several if c is not None)]
    try:
        estimator._fit(
            X, y, sample_weight, estimator.classes_, resume=False, go_on=False, state=state
        )
    finally:
        estimator.callbacks = callbacks
    return estimator


def read_checkpoint(path: str | os.PathLike[str]) -> tuple[Any, TrainingState, dict[str, Any]]:
    """The estimator that is being trained, the training's state and the file's document."""
    document, arrays = read_container(path, KIND)
    try:
        estimator = blank(document)
        kind = estimator._model_class
        model, best = (model_of(kind, arrays, prefix) for prefix in ("model.", "best."))
        estimator.classes_ = classes_of(document, model)
        if "prototypes" in arrays:
            estimator.prototypes_ = arrays["prototypes"]
        restore_courses(estimator, arrays)
        if isinstance(document.get("slope"), float):
            estimator.slope_ = document["slope"]
        history = history_of(arrays)
        state = TrainingState(
            iteration=document["iteration"],
            weights={name: getattr(model, name) for name in SHAPES[kind]},
            best_weights={name: getattr(best, name) for name in SHAPES[kind]},
            best_loss=float(document["best_loss"]),
            history={name: history[name] for name in History.columns},
            signal=Signal(document["signal"]),
            step_memory=arrays.get("step.memory", NO_MEMORY),
            generator=document.get("generator"),
            stage=document.get("stage", ITERATIONS),
            more=_more(arrays),
        )
        _check_stage(state)
        _check_memory(estimator, state)
    except (FileError, KeyError, TypeError, ValueError) as error:
        raise FileError(f"{path} is damaged: {error}") from None
    return estimator, state, document


def _more(arrays: dict[str, NDArray]) -> dict[str, NDArray]:
    """What a warm-up needs beside the weights."""
    prefix = "more."
    return {name.removeprefix(prefix): A for name, A in arrays.items() if name.startswith(prefix)}


def _check_stage(state: TrainingState) -> None:
    """FileError where a warm-up could not go on from the state."""
    if state.stage == ITERATIONS:
        return
    if state.stage != WARM_UP or state.generator is None:
        raise FileError(f"there is no stage {state.stage!r:.40} to go on from")
    more = state.more
    shapes: dict[str, tuple[int, ...]] = {}
    for k, layer in ((1, "W1"), (2, "W2")):
        shape = state.weights[layer].shape
        size = (math.prod(shape),)
        shapes |= {layer: shape, f"m{k}": size, f"v{k}": size}
        if f"best{k}" in more:
            shapes[f"best{k}"] = shape
    for name, shape in shapes.items():
        array = more.get(name)
        good = array is not None and array.dtype == np.float32 and array.shape == shape
        if not good or not np.isfinite(array).all():  # type: ignore[arg-type]
            raise FileError(f"the warm-up's {name} are missing or do not fit")
    for name, kind in (("losses", np.float64), ("scores", np.float64), ("steps", np.int64)):
        if name not in more or more[name].dtype != kind or more[name].ndim != 1:
            raise FileError(f"the warm-up's {name} are missing or of another type")
    if more["steps"].size != 1 or more["steps"][0] < 0 or ("best1" in more) != ("best2" in more):
        raise FileError("the warm-up's steps or best weights do not fit")


def _check_memory(estimator: Any, state: TrainingState) -> None:
    """FileError where it is not what the step rule remembers; before iterations that is nothing."""
    memory, expected = state.step_memory, NO_MEMORY
    if state.stage == ITERATIONS:
        expected = estimator._step_rule(estimator.classes_.size).memory
    if memory.dtype != expected.dtype or memory.shape != expected.shape or np.isnan(memory).any():
        raise FileError(f"the memory of step={estimator.step!r} is missing or not right")


def data_digest(X: NDArray, y: NDArray, weight: NDArray | None) -> str:
    """What tells one training set from another."""
    digest = hashlib.sha256(f"{X.dtype.str}{X.shape}".encode())
    digest.update(np.ascontiguousarray(X).data)
    digest.update(np.ascontiguousarray(y, np.int64).data)
    if weight is not None:
        digest.update(np.ascontiguousarray(weight, np.float64).data)
    return digest.hexdigest()


class _SameData:
    """A callback that refuses to begin on other data."""

    def __init__(self, path: str, digest: Any) -> None:
        self._path, self._digest = path, digest

    def begin(
        self, estimator: Any, labels: NDArray, X: NDArray, y: NDArray, weight: NDArray | None
    ) -> None:
        if data_digest(X, y, weight) != self._digest:
            raise FileError(
                f"{self._path} was written by a training on other data; give the X, y and "
                "sample_weight that it began with, in the same order and type"
            )

    def __call__(self, progress: Progress) -> None:
        """Nothing more to check."""
