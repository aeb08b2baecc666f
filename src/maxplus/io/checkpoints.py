"""Training checkpoints: a callback that writes them, and a function that resumes training."""

from __future__ import annotations

import os
import time
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

import maxplus
from maxplus.distributed import current
from maxplus.estimators._base import Origin, OtherDataError
from maxplus.io.container import FileError, read_container, write_container
from maxplus.io.models import unfitted_estimator
from maxplus.io.schema import labels_to_json, parameters_to_json, read_classes
from maxplus.training import Progress
from maxplus.training.result import StateError, TrainingState
from maxplus.training.stages import Iterations

KIND = "maxplus-checkpoint"


class Checkpoint:
    """Callback that saves the training state to a file periodically and when training is complete.

    After a crash, `maxplus.resume` continues from the file. The resulting weights are bit-identical
    to those of an uninterrupted fit. If the file cannot be written, for example because the disk is
    full, a warning is issued, the previous file is kept, and training continues.

    Parameters
    ----------
    path : str or path
        Name of the file. An existing file is replaced atomically.
    every : float, default=60.0
        Interval between checkpoints in seconds.
    notes : JSON value, optional
        Data to store in the file.

    Examples
    --------
    >>> from maxplus import LMMClassifier
    >>> from maxplus.io import Checkpoint
    >>> clf = LMMClassifier(50, callbacks=Checkpoint("training.ckpt", every=600.0))
    """

    needs_state = True

    def __init__(
        self, path: str | os.PathLike[str], every: float = 60.0, notes: Any = None
    ) -> None:
        self.path = path
        self.every = every
        self.notes = notes
        self._origin: Origin | None = None

    def __call__(self, progress: Progress) -> None:
        """Write the state if the interval has elapsed, or if training is complete or interrupted.

        Stages without a state are not saved; `resume` repeats them.
        """
        now = time.monotonic()
        if progress.origin is not self._origin:
            # Check at the start of training that the parameters can be stored.
            parameters_to_json(progress.origin.estimator)
            self._origin = progress.origin
            self._due = now - progress.seconds + self.every
        if progress.state is None or not (progress.is_last or now >= self._due):
            return
        try:
            self._write(progress.state())
        except OSError as error:
            # `write_atomically` raises errors without errno if the path is invalid.
            if error.errno is None:
                raise
            again = "" if progress.is_last else f"; trying again in {self.every:g} seconds"
            warnings.warn(
                f"the checkpoint {self.path} could not be written ({error.strerror}); training "
                f"continues without it{again}",
                stacklevel=2,
            )
        self._due = time.monotonic() + self.every

    def _write(self, state: TrainingState) -> None:
        assert self._origin is not None
        estimator, data = self._origin
        document = {
            "estimator": type(estimator).__name__,
            "library": maxplus.__version__,
            "parameters": parameters_to_json(estimator),
            "classes": labels_to_json(data.classes),
            "data": data.digest,
            "notes": self.notes,
            "augmented": getattr(estimator, "augment", None) is not None,
            "stage": state.stage,
            "generator": state.generator,
        }
        write_container(self.path, KIND, document, dict(state.arrays))


def resume(
    path: str | os.PathLike[str],
    X: Any,
    y: Any,
    callbacks: Any = None,
    sample_weight: Any = None,
    augment: Any = None,
) -> Any:
    """Resume training from a file written by `maxplus.io.Checkpoint`.

    Parameters
    ----------
    path : str or path
        Name of the file.
    X, y : array-like
        Data of the interrupted fit.
    callbacks : callable or list of callables, optional
        Callbacks of the estimator, which are not stored in the file.
    sample_weight : array of shape (n_samples,), optional
        Sample weights of the interrupted fit.
    augment : callable, optional
        Parameter ``augment`` of the estimator, which is not stored in the file.

    Returns
    -------
    estimator
        Fitted estimator, bit-identical to the result of an uninterrupted fit.

    Raises
    ------
    FileError
        If the file is damaged, was written by a fit to other data, or requires ``augment``.
    OSError
        If the file cannot be opened.

    Examples
    --------
    >>> import os, tempfile
    >>> import maxplus
    >>> from maxplus import SubgradientLMMClassifier
    >>> from maxplus.io import Checkpoint
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "training.ckpt")
    ...     clf = SubgradientLMMClassifier(9, engine="dense", max_iter=30, random_state=0,
    ...                                    callbacks=Checkpoint(path)).fit(X, y)
    ...     again = maxplus.resume(path, X, y)
    >>> bool((again.W1_ == clf.W1_).all())
    True
    """
    # Rank 0 reads the file for all ranks.
    estimator, state, classes, document = current().root_only(
        lambda _: read_checkpoint(path), np.empty((0, 0))
    )
    if augment is not None:
        estimator.augment = augment
    elif document.get("augmented") and state.stage != Iterations.name:
        raise FileError(f"{path} is from a fit with augment; pass the same augment to resume")
    estimator.callbacks = callbacks
    try:
        return estimator._fit(
            X, y, sample_weight, classes, saved=state, digest=document.get("data")
        )
    except OtherDataError:
        raise FileError(
            f"{path} was written by a fit to other data; pass its X, y and sample_weight "
            "with the same order and dtype"
        ) from None
    except StateError as error:
        raise FileError(f"{path} is damaged: {error}") from None


def read_checkpoint(
    path: str | os.PathLike[str],
) -> tuple[Any, TrainingState, NDArray, dict[str, Any]]:
    """Return the unfitted estimator, the training state, the classes and the document."""
    document, arrays = read_container(path, KIND)
    try:
        estimator = unfitted_estimator(document)
        classes = read_classes(document.get("classes"))
    except FileError as error:
        raise FileError(f"{path} is damaged: {error}") from None
    state = TrainingState(str(document.get("stage")), arrays, document.get("generator"))
    return estimator, state, classes, document
