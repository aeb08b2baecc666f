"""Comparison of LMMs with an MLP on a train-test split."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from experiments.harness import Split, Table, mean_and_spread
from experiments.measure import timed
from maxplus.estimators import SubgradientLMMClassifier
from maxplus.models import Model
from maxplus.models._softmax import log_softmax, losses
from maxplus.training.smooth.annealing import Adam

SIDES = ("train", "test")
METRICS = {"max_loss": "max loss", "mean_loss": "mean loss", "accuracy": "accuracy"}


class PaperResult(NamedTuple):
    """Maximum loss, mean loss and accuracy reported in the paper; NaN if missing."""

    train: tuple[float, float, float]
    test: tuple[float, float, float]
    seconds: float = math.nan


class Evaluation(NamedTuple):
    """Cross-entropy (without clipping), true class and prediction of each sample."""

    losses: NDArray
    labels: NDArray
    predicted: NDArray

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
        return float((self.labels == self.predicted).mean())


class TrainedModel(NamedTuple):
    """Results of a model; ``loss_curve`` is the objective before each step."""

    train: Evaluation
    test: Evaluation
    seconds: float
    loss_curve: NDArray

    def values(self) -> dict[str, float]:
        """Return the metrics of both sets by name."""
        return {
            f"{side}_{metric}": getattr(getattr(self, side), metric)
            for side in SIDES
            for metric in METRICS
        }


def _evaluate(model: Model | MLP, split: Split) -> tuple[Evaluation, Evaluation]:
    """Evaluate a model on the training and the test samples."""
    train, test = (
        Evaluation(model.losses(X, y), y, model.scores(X).argmax(axis=1))
        for X, y in ((split.X_train, split.y_train), (split.X_test, split.y_test))
    )
    return train, test


def train_lmm(settings: dict[str, Any], split: Split, seed: int, iterations: int) -> TrainedModel:
    """Train `SubgradientLMMClassifier` and evaluate the best iterate."""
    model = SubgradientLMMClassifier(**settings, max_iter=iterations, random_state=seed)
    seconds, _ = timed(model.fit, split.X_train, split.y_train)
    return TrainedModel(*_evaluate(model.model_, split), seconds, model.loss_curve_)


def format_metrics(evaluations: Sequence[Evaluation], digits: int) -> tuple[str, ...]:
    """Format means and standard deviations of `METRICS`, the accuracy in percent."""
    max_losses, mean_losses, accuracies = (
        [getattr(evaluation, metric) for evaluation in evaluations] for metric in METRICS
    )
    percent = mean_and_spread(100 * np.array(accuracies), digits)
    unit = " %" if len(evaluations) > 1 else "%"
    return mean_and_spread(max_losses), mean_and_spread(mean_losses), percent + unit


def comparison_table(
    caption: str,
    side: str,
    paper: Mapping[str, PaperResult],
    models: Mapping[str, Sequence[TrainedModel]],
    digits: int,
) -> Table:
    """Return a table of the paper's results next to those of one or several runs of each model."""
    rows = []
    for name, runs in models.items():
        published = ("–", "–", "–")
        if name in paper:
            max_loss, mean_loss, accuracy = getattr(paper[name], side)
            published = (str(max_loss), str(mean_loss), f"{accuracy:.{digits}%}")
        measured = format_metrics([getattr(run, side) for run in runs], digits)
        pairs = zip(published, measured, strict=True)
        rows.append((name, *(cell for pair in pairs for cell in pair)))
    columns = (column for name in METRICS.values() for column in (f"{name} (paper)", name))
    return Table(caption, ("model", *columns), rows)


# -- multilayer perceptron -------------------------------------------------------------------------


class MLP:
    """MLP with layers a_l = relu(W_l·a_{l−1}) and scores z = W_L·a_{L−1}.

    The last column of each matrix is the bias. Weights are drawn with He initialisation, and biases
    are 0. ``widths`` are P, the widths of the hidden layers, and C.
    """

    def __init__(
        self, widths: tuple[int, ...], rng: np.random.Generator, dtype: DTypeLike = np.float64
    ) -> None:
        self.weights = [np.zeros((out, into + 1), dtype) for into, out in pairwise(widths)]
        for W, fan_in in zip(self.weights, widths, strict=False):
            W[:, :-1] = rng.normal(0.0, math.sqrt(2 / fan_in), (len(W), fan_in))

    def scores(self, X: NDArray) -> NDArray:
        """Return z, shape (N, C)."""
        return np.ascontiguousarray(self._forward(X)[-1].T)

    def losses(self, X: NDArray, y: NDArray) -> NDArray:
        """Return the cross-entropy of each sample, shape (N,)."""
        out = np.empty(len(y))
        losses(self.scores(X), y, out)
        return out

    def losses_and_gradients(self, X: NDArray, y: NDArray) -> tuple[NDArray, list[NDArray]]:
        """Return the losses and the gradient of their mean with respect to each matrix."""
        *activations, Z = self._forward(X)
        log_p = log_softmax(Z.T)
        true = np.arange(len(y)), y
        E = np.exp(log_p)
        E[true] -= 1.0
        E = E.T / len(y)
        gradients: list[NDArray] = []
        for k in reversed(range(len(activations))):
            gradients.insert(0, E @ activations[k].T)
            if k:
                E = (self.weights[k][:, :-1].T @ E) * (activations[k][:-1] > 0)
        return -log_p[true], gradients

    def _forward(self, X: NDArray) -> list[NDArray]:
        """Return inputs, hidden activations and scores, with samples in columns."""
        layers = [_append_ones(X.T)]
        for W in self.weights[:-1]:
            layers.append(_append_ones(np.maximum(W @ layers[-1], 0.0)))
        return [*layers, self.weights[-1] @ layers[-1]]


def _append_ones(A: NDArray) -> NDArray:
    """Append a row of ones."""
    out = np.ones((len(A) + 1, A.shape[1]), A.dtype)
    out[:-1] = A
    return out


def train_mlp(
    hidden: tuple[int, ...],
    rate: float,
    split: Split,
    seed: int,
    iterations: int,
    batch: int | None = None,
) -> TrainedModel:
    """Train an MLP on the mean loss with Adam and evaluate the last iterate."""
    X, y, rng = split.X_train, split.y_train, np.random.default_rng(seed)
    model = MLP((X.shape[1], *hidden, int(y.max()) + 1), rng, X.dtype)
    training = train_by_adam(model, X, y, rate, iterations, rng, batch)
    return TrainedModel(*_evaluate(model, split), *training)


def train_by_adam(
    model: MLP,
    X: NDArray,
    y: NDArray,
    rate: float,
    iterations: int,
    rng: np.random.Generator,
    batch: int | None = None,
) -> tuple[float, NDArray]:
    """Minimise the mean loss with Adam; return the training time and the loss curve.

    By default, each iteration uses all samples. The model is changed in place.
    """
    adams = [Adam(W.reshape(-1), beta2=0.999) for W in model.weights]
    curve = np.empty(iterations)
    start = time.perf_counter()
    for n in range(iterations):
        rows: Any = slice(None) if batch is None else rng.integers(len(y), size=batch)
        batch_losses, gradients = model.losses_and_gradients(X[rows], y[rows])
        curve[n] = batch_losses.mean()
        for adam, G in zip(adams, gradients, strict=True):
            adam.move(G.reshape(-1), rate)
    return time.perf_counter() - start, curve
