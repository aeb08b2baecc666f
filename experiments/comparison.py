"""Comparison of LMMs with an MLP on a train-test split."""

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
from maxplus.training.smooth.annealing import Adam


@dataclass(frozen=True)
class Evaluation:
    """Cross-entropy (without clipping), true class and prediction of each sample."""

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
        """Fraction of correct predictions."""
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
# Formatted values of FIGURES.
Cells = tuple[str, str, str]


class PaperResult(NamedTuple):
    """Maximum loss, mean loss and accuracy reported in the paper; NaN if missing."""

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
    """Results of a model; ``loss_curve`` is the objective before each step."""

    name: str
    train: Evaluation
    test: Evaluation
    seconds: float
    loss_curve: NDArray

    def values(self) -> dict[str, float]:
        """Return the training time and the metrics of both sets by name."""
        figures = {
            f"{side}_{what}": getattr(getattr(self, side), what)
            for side in SIDES
            for what in FIGURES
        }
        return {"seconds": self.seconds, **figures}


class MLPSettings(NamedTuple):
    """Hidden layer sizes, learning rate, and batch size (None for full batches)."""

    hidden: tuple[int, int]
    rate: float
    batch: int | None = None


def train_mlp(
    settings: MLPSettings, split: Split, seed: int, iterations: int, watch: Watch = unwatched
) -> TrainedModel:
    """Train an MLP on the mean loss with Adam and evaluate the last iterate."""
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
    return _trained_model("MLP (mean)", model, split, seconds, curve)


def train_lmm(
    name: str,
    settings: dict[str, Any],
    split: Split,
    seed: int,
    iterations: int,
    watch: Watch = unwatched,
) -> TrainedModel:
    """Train `SubgradientLMMClassifier` and evaluate the best iterate."""
    with watch(name) as callback:
        model = SubgradientLMMClassifier(
            **settings, max_iter=iterations, random_state=seed, callbacks=callback
        )
        seconds, _ = timed(fit_quietly, model, split.X_train, split.y_train)
    return _trained_model(name, model.model_, split, seconds, model.loss_curve_)


def fit_quietly(model: LMMClassifier, X: NDArray, y: NDArray) -> None:
    """Fit without warnings about parameters that have no effect."""
    with warnings.catch_warnings():
        # Some settings of the paper have no effect in short runs.
        warnings.simplefilter("ignore", NoEffectWarning)
        model.fit(X, y)


def comparison_table(caption: str, rows: list[tuple[str, Cells, Cells]]) -> Table:
    """Return a table of the paper's results next to the measured results."""
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
        (name, *(cell for pair in zip(paper, measured, strict=True) for cell in pair))
        for name, paper, measured in rows
    ]
    return Table(caption, columns, cells)


def _trained_model(
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

# Seconds between calls of a callback.
INTERVAL = 0.2


class MLP:
    """MLP with two hidden layers: z = W3·a2, a2 = relu(W2·a1), a1 = relu(W1·x).

    The last column of each matrix is the bias. The matrices are views of the vector ``theta``.

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
        """Return a model with He initialisation and zero biases."""
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
        """Return the losses and the gradient of their mean with respect to ``theta``."""
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
        """Return inputs, hidden activations and scores, with samples in columns."""
        A0 = _append_ones(X.T)
        A1 = _append_ones(np.maximum(self.W1 @ A0, 0.0))
        A2 = _append_ones(np.maximum(self.W2 @ A1, 0.0))
        return A0, A1, A2, self.W3 @ A2


def _append_ones(A: NDArray) -> NDArray:
    """Append a row of ones."""
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
    """Minimise the mean loss with Adam; return the training time and the loss curve.

    Parameters
    ----------
    model : MLP, changed in place
    X, y : samples, and classes 0..C−1
    rate, iterations : learning rate and number of iterations
    batch : batch size; all samples by default
    callback : called about five times a second
    """
    rng = rng or np.random.default_rng()
    adam, curve = Adam(model.theta, beta2=0.999), np.empty(iterations)
    start = reported = time.perf_counter()
    X_batch, y_batch = X, y
    for n in range(iterations):
        if batch is not None:
            indices = rng.integers(len(y), size=batch)
            X_batch, y_batch = X[indices], y[indices]
        batch_losses, gradient = model.losses_and_gradient(X_batch, y_batch)
        curve[n] = batch_losses.mean()
        adam.move(gradient, rate)
        now, is_last = time.perf_counter(), n == iterations - 1
        if is_last or now - reported > INTERVAL:
            reported, best = now, float(curve[: n + 1].min())
            state: Any = (curve[n], best, now - start, model, is_last, None)
            callback(Progress("iterations", n + 1, iterations, *state))
    return time.perf_counter() - start, curve
