"""Models against each other on one split: trained in the same way, judged by the same losses."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.estimators import LMMClassifier, SubgradientLMMClassifier
from maxplus.experiments.adam import AdamEngine
from maxplus.experiments.metrics import Evaluation, evaluate
from maxplus.experiments.mlp import MLP
from maxplus.models import Model
from maxplus.training import MeanLoss, Status, Task, constant, train
from maxplus.training.loop import Callback

# Opens what is told about one training's progress, given the model's name.
Watch = Callable[[str], AbstractContextManager[Callback]]


class PaperResult(NamedTuple):
    """What the paper's tables say: max loss, average loss, accuracy; NaN where they are silent."""

    train: tuple[float, float, float]
    test: tuple[float, float, float]
    seconds: float = math.nan


class Split(NamedTuple):
    """Samples to train on and samples to test with, classes 0..C−1."""

    X_train: NDArray
    X_test: NDArray
    y_train: NDArray
    y_test: NDArray


@dataclass(frozen=True)
class Contestant:
    """One trained model's results; the curve is its objective before each step."""

    name: str
    train: Evaluation
    test: Evaluation
    seconds: float
    loss_curve: NDArray


class MLPSettings(NamedTuple):
    """Widths of the hidden layers, Adam's rate, and samples per step (None is all)."""

    hidden: tuple[int, int]
    rate: float
    batch: int | None = None


def silence(name: str) -> AbstractContextManager[Callback]:
    """A `Watch` that tells nobody."""
    return nullcontext(lambda progress: None)


def contest_mlp(
    settings: MLPSettings, split: Split, seed: int, iterations: int, watch: Watch = silence
) -> Contestant:
    """Train an MLP by Adam on the mean loss and judge what it ends with."""
    n_features, n_classes = split.X_train.shape[1], int(split.y_train.max()) + 1
    rng = np.random.default_rng(seed)
    model = MLP.random((n_features, *settings.hidden, n_classes), rng, split.X_train.dtype)
    task = Task(split.X_train, split.y_train, MeanLoss(), constant(settings.rate), rng=rng)
    with watch("MLP (mean)") as callback:
        result = train(AdamEngine(model, task, settings.batch), iterations, [callback])
    _raise_if_interrupted(result.status.value)
    return _judge("MLP (mean)", model, split, result.seconds, result.history["loss"])


def contest_lmm(
    name: str,
    settings: dict[str, Any],
    split: Split,
    seed: int,
    iterations: int,
    watch: Watch = silence,
) -> Contestant:
    """Train an `LMMClassifier` and judge what it keeps."""
    with watch(name) as callback:
        model = SubgradientLMMClassifier(
            **settings, max_iter=iterations, random_state=seed, callbacks=callback
        )
        started = time.perf_counter()
        fit_or_raise(model, split.X_train, split.y_train)
        seconds = time.perf_counter() - started
    return _judge(name, model.model_, split, seconds, model.loss_curve_)


def fit_or_raise(model: LMMClassifier, X: NDArray, y: NDArray) -> None:
    """Fit; on Ctrl-C an estimator warns and keeps what it has, an experiment ends."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "training was interrupted")
        model.fit(X, y)
    _raise_if_interrupted(model.status_)


def _raise_if_interrupted(status: str) -> None:
    if status == Status.INTERRUPTED.value:
        raise KeyboardInterrupt


def _judge(
    name: str, model: Model, split: Split, seconds: float, loss_curve: NDArray
) -> Contestant:
    return Contestant(
        name,
        evaluate(model, split.X_train, split.y_train),
        evaluate(model, split.X_test, split.y_test),
        seconds,
        loss_curve,
    )
