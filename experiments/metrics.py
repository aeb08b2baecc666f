"""What a trained model is judged by: the losses of a set's samples, one by one."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import NDArray

from maxplus.models import LOG2, Model


@dataclass(frozen=True)
class Evaluation:
    """Cross-entropy of each sample of a set, never clipped; its class, and what was predicted."""

    losses: NDArray
    labels: NDArray
    predicted: NDArray

    @property
    def correct(self) -> NDArray:
        """Whether each sample is right."""
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
        """Whether every loss is below log 2, which no misclassified sample's can be."""
        return self.max_loss < LOG2


def evaluate(model: Model, X: NDArray, y: NDArray) -> Evaluation:
    """Judge a model on samples with classes 0..C−1."""
    return Evaluation(model.losses(X, y), y, model.scores(X).argmax(axis=1))
