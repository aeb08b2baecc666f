"""Comparison of LMMs with an MLP on one split: training, evaluation and tables."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from experiments.harness import Table, Watch, unwatched
from experiments.measure import timed
from maxplus.estimators import LMMClassifier, NoEffectWarning, SubgradientLMMClassifier
from maxplus.models import LOG2, Model
from maxplus.models._softmax import log_softmax, losses
from maxplus.training.monitor import Callback, Progress
from maxplus.training.smooth import Adam


@dataclass(frozen=True)
class Evaluation:
    """Cross-entropy (not clipped), class and prediction of each sample."""

    losses: NDArray
    labels: NDArray
    predicted: NDArray

    @property
    def correct(self) -> NDArray:
        """Mask of the samples that are classified correctly."""
        return self.labels == self.predicted

    @property
    def max_loss(self) -> float:
        """The maximum loss."""
        return float(self.losses.max())

    @property
    def mean_loss(self) -> float:
        """The mean loss."""
        return float(self.losses.mean())

    @property
    def accuracy(self) -> float:
        """Share of samples whose label has the highest score."""
        return float(self.correct.mean())

    @property
    def certified(self) -> bool:
        """True if every loss is below log 2, which implies that all predictions are correct."""
        return self.max_loss < LOG2


def evaluate(model: Model | MLP, X: NDArray, y: NDArray) -> Evaluation:
    """Evaluate a model on samples with classes 0..C−1."""
    return Evaluation(model.losses(X, y), y, model.scores(X).argmax(axis=1))


SIDES = ("train", "test")
FIGURES = ("max_loss", "mean_loss", "accuracy")
# The three figures of a model as text.
Cells = tuple[str, str, str]


class PaperResult(NamedTuple):
    """Maximum loss, mean loss and accuracy in the paper; NaN if not stated."""

    train: tuple[float, float, float]
    test: tuple[float, float, float]
    seconds: float = math.nan


class Split(NamedTuple):
    """Training and test samples, with classes 0..C−1."""

    X_train: NDArray
    X_test: NDArray
    y_train: NDArray
    y_test: NDArray


@dataclass(frozen=True)
class TrainedModel:
    """Results of one model; the curve is the objective before each step."""

    name: str
    train: Evaluation
    test: Evaluation
    seconds: float
    loss_curve: NDArray

    def values(self) -> dict[str, float]:
        """Return seconds and the figures of both sets by name."""
        figures = {
            f"{side}_{what}": getattr(getattr(self, side), what)
            for side in SIDES
            for what in FIGURES
        }
        return {"seconds": self.seconds, **figures}


class MLPSettings(NamedTuple):
    """Widths of the hidden layers, learning rate, and batch size (None: all samples)."""

    hidden: tuple[int, int]
    rate: float
    batch: int | None = None


def train_mlp(
    settings: MLPSettings, split: Split, seed: int, iterations: int, watch: Watch = unwatched
) -> TrainedModel:
    """Train an MLP by Adam on the mean loss and evaluate its last iterate."""
    n_features, n_classes = split.X_train.shape[1], int(split.y_train.max()) + 1
    rng = np.random.default_rng(seed)
    model = MLP.random((n_features, *settings.hidden, n_classes), rng, split.X_train.dtype)
    with watch("MLP (mean)") as callback:
        seconds, curve = train_by_adam(
            model,
            split.X_train,
            split.y_train,
            settings.rate,
            iterations,
            batch=settings.batch,
            rng=rng,
            callback=callback,
        )
    return _evaluated("MLP (mean)", model, split, seconds, curve)


def train_lmm(
    name: str,
    settings: dict[str, Any],
    split: Split,
    seed: int,
    iterations: int,
    watch: Watch = unwatched,
) -> TrainedModel:
    """Train the paper's classifier and evaluate its best iterate."""
    with watch(name) as callback:
        model = SubgradientLMMClassifier(
            **settings, max_iter=iterations, random_state=seed, callbacks=callback
        )
        seconds, _ = timed(fit_quietly, model, split.X_train, split.y_train)
    return _evaluated(name, model.model_, split, seconds, model.loss_curve_)


def fit_quietly(model: LMMClassifier, X: NDArray, y: NDArray) -> None:
    """Fit without warnings about parameters that have no effect."""
    with warnings.catch_warnings():
        # The paper's settings are kept even if a run has no constant steps.
        warnings.simplefilter("ignore", NoEffectWarning)
        model.fit(X, y)


def comparison_table(caption: str, rows: list[tuple[str, Cells, Cells]]) -> Table:
    """Return a table of the paper's figures next to the measured ones."""
    columns = (
        "model",
        "max loss (paper)",
        "max loss",
        "mean loss (paper)",
        "mean loss",
        "accuracy (paper)",
        "accuracy",
    )
    cells = [
        (name, *(cell for pair in zip(theirs, ours, strict=True) for cell in pair))
        for name, theirs, ours in rows
    ]
    return Table(caption, columns, cells)


def _evaluated(
    name: str, model: Model | MLP, split: Split, seconds: float, loss_curve: NDArray
) -> TrainedModel:
    return TrainedModel(
        name,
        evaluate(model, split.X_train, split.y_train),
        evaluate(model, split.X_test, split.y_test),
        seconds,
        loss_curve,
    )


# -- multilayer perceptron -------------------------------------------------------------------------

# Seconds between two reports to a callback.
INTERVAL = 0.2


class MLP:
    """z = W3·a2, a2 = relu(W2·a1), a1 = relu(W1·x), with a 1 appended to x, a1 and a2.

    The last column of each W is the bias. The layers are views of one vector ``theta``, which Adam
    updates.

    Parameters
    ----------
    widths : (P, first hidden layer, second hidden layer, C)
    theta : vector of all weights, layer by layer
    """

    def __init__(self, widths: tuple[int, int, int, int], theta: NDArray) -> None:
        self.theta = theta
        shapes = [(out, into + 1) for into, out in pairwise(widths)]
        parts = np.split(theta, np.cumsum([math.prod(shape) for shape in shapes])[:-1])
        self.W1, self.W2, self.W3 = (
            part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)
        )

    @classmethod
    def random(
        cls,
        widths: tuple[int, int, int, int],
        rng: np.random.Generator,
        dtype: DTypeLike = np.float64,
    ) -> MLP:
        """Return He's initialisation: N(0, 2 / fan-in), and zero biases."""
        n_weights = sum(out * (into + 1) for into, out in pairwise(widths))
        model = cls(widths, np.zeros(n_weights, dtype))
        for W, fan_in in zip((model.W1, model.W2, model.W3), widths, strict=False):
            W[:, :-1] = rng.normal(0.0, math.sqrt(2 / fan_in), (len(W), fan_in))
        return model

    def scores(self, X: NDArray) -> NDArray:
        """Return z, shape (N, C)."""
        return np.ascontiguousarray(self._forward(X)[-1].T)

    def losses(self, X: NDArray, y: NDArray) -> NDArray:
        """Return the cross-entropy of each sample, shape (N,)."""
        out = np.empty(len(y))
        losses(self.scores(X), y, out)
        return out

    def losses_and_gradient(self, X: NDArray, y: NDArray) -> tuple[NDArray, NDArray]:
        """Return each sample's loss, and the gradient of their mean by ``theta``."""
        A0, A1, A2, Z = self._forward(X)
        log_p = log_softmax(Z.T)
        true = np.arange(len(y)), y
        E = np.exp(log_p)
        E[true] -= 1.0
        E3 = E.T / len(y)
        E2 = (self.W3[:, :-1].T @ E3) * (A2[:-1] > 0)
        E1 = (self.W2[:, :-1].T @ E2) * (A1[:-1] > 0)
        gradient = [(E1 @ A0.T).ravel(), (E2 @ A1.T).ravel(), (E3 @ A2.T).ravel()]
        return -log_p[true], np.concatenate(gradient)

    def _forward(self, X: NDArray) -> tuple[NDArray, NDArray, NDArray, NDArray]:
        """Return input, hidden layers and scores, samples as columns, which is faster in NumPy."""
        A0 = _above_ones(X.T)
        A1 = _above_ones(np.maximum(self.W1 @ A0, 0.0))
        A2 = _above_ones(np.maximum(self.W2 @ A1, 0.0))
        return A0, A1, A2, self.W3 @ A2


def _above_ones(A: NDArray) -> NDArray:
    """Return A with a row of ones below it."""
    out = np.ones((len(A) + 1, A.shape[1]), A.dtype)
    out[:-1] = A
    return out


def train_by_adam(
    model: MLP,
    X: NDArray,
    y: NDArray,
    rate: float,
    iterations: int,
    *,
    batch: int | None = None,
    rng: np.random.Generator | None = None,
    callback: Callback = lambda progress: None,
) -> tuple[float, NDArray]:
    """Minimise the mean loss by Adam (Kingma & Ba, 2015); return seconds and the loss curve.

    Parameters
    ----------
    model : MLP, changed in place
    X, y : samples, and classes 0..C−1
    rate, iterations : of Adam
    batch : number of samples of an iteration, drawn by ``rng``; all samples by default
    callback : called about five times a second
    """
    rng = rng or np.random.default_rng()
    adam, curve = Adam(model.theta, beta2=0.999), np.empty(iterations)
    began = reported = time.perf_counter()
    X_batch, y_batch = X, y
    for n in range(iterations):
        if batch is not None:
            drawn = rng.integers(len(y), size=batch)
            X_batch, y_batch = X[drawn], y[drawn]
        each, gradient = model.losses_and_gradient(X_batch, y_batch)
        curve[n] = each.mean()
        adam.move(gradient, rate)
        now, is_last = time.perf_counter(), n == iterations - 1
        if is_last or now - reported > INTERVAL:
            reported, best = now, float(curve[: n + 1].min())
            state: Any = (curve[n], best, now - began, model, is_last, None)
            callback(Progress("iterations", n + 1, iterations, *state))
    return time.perf_counter() - began, curve
