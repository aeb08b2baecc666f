"""Models compared on one split, trained alike and evaluated by the same losses."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.harness import Table, Watch, unwatched
from experiments.measure import timed
from experiments.mlp import MLP, train_by_adam
from maxplus.estimators import LMMClassifier, NoEffectWarning, SubgradientLMMClassifier
from maxplus.models import LOG2, Model


@dataclass(frozen=True)
class Evaluation:
    """Cross-entropy of each sample of a set, not clipped, its class and its prediction."""

    losses: NDArray
    labels: NDArray
    predicted: NDArray

    @property
    def correct(self) -> NDArray:
        """Boolean for each sample: classified right."""
        return self.labels == self.predicted

    @property
    def max_loss(self) -> float:
        """The worst sample's loss."""
        return float(self.losses.max())

    @property
    def mean_loss(self) -> float:
        """The average loss."""
        return float(self.losses.mean())

    @property
    def accuracy(self) -> float:
        """Share of samples whose label has the highest score."""
        return float(self.correct.mean())

    @property
    def certified(self) -> bool:
        """True if every loss is below log 2, so that every sample is classified right."""
        return self.max_loss < LOG2


def evaluate(model: Model | MLP, X: NDArray, y: NDArray) -> Evaluation:
    """Evaluate a model on samples with classes 0..C−1."""
    return Evaluation(model.losses(X, y), y, model.scores(X).argmax(axis=1))


SIDES = ("train", "test")
FIGURES = ("max_loss", "mean_loss", "accuracy")
# A model's three figures, as text.
Cells = tuple[str, str, str]


class PaperResult(NamedTuple):
    """The paper's max loss, average loss and accuracy; NaN where a table lacks them."""

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
class TrainedModel:
    """One trained model's results; the curve is its objective before each step."""

    name: str
    train: Evaluation
    test: Evaluation
    seconds: float
    loss_curve: NDArray

    def values(self) -> dict[str, float]:
        """Its seconds and figures on both sides, by name."""
        figures = {
            f"{side}_{what}": getattr(getattr(self, side), what)
            for side in SIDES
            for what in FIGURES
        }
        return {"seconds": self.seconds, **figures}


class MLPSettings(NamedTuple):
    """Widths of the hidden layers, Adam's rate, and samples per step (None is all)."""

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
        # The paper's settings are kept, whether or not its constant steps come to count.
        warnings.simplefilter("ignore", NoEffectWarning)
        model.fit(X, y)


def comparison_table(caption: str, rows: list[tuple[str, Cells, Cells]]) -> Table:
    """Return a table of the paper's figures and ours, in pairs."""
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
