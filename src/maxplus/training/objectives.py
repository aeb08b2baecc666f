"""What training minimises: the maximum or the mean of the samples' losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from maxplus.models.base import Model, Subgradient

# Stands for "no single sample" in histories.
NO_SAMPLE = -1


class Value(NamedTuple):
    """The objective's value and the sample that attains it (`NO_SAMPLE` for a mean)."""

    loss: float
    sample: int


class Objective(Protocol):
    """A function of the losses, with a subgradient by the weights."""

    name: str

    def value(self, losses: NDArray, weight: NDArray | None) -> Value:
        """The objective for these losses; O(N)."""

    def subgradient(
        self, model: Model, X: NDArray, y: NDArray, weight: NDArray | None, at: Value,
        layers: Sequence[str],
    ) -> Subgradient:  # fmt: skip
        """A subgradient at the model's weights, where the objective has the value ``at``."""


class MaxLoss:
    """L(W) = max_n Loss_n(W): the worst sample's subgradient is one of L.

    Weights do not change a maximum. Ties go to the lowest sample.
    """

    name = "max"

    def value(self, losses: NDArray, weight: NDArray | None) -> Value:
        """The largest loss and whose it is."""
        n_star = int(np.argmax(losses))
        return Value(float(losses[n_star]), n_star)

    def subgradient(
        self, model: Model, X: NDArray, y: NDArray, weight: NDArray | None, at: Value,
        layers: Sequence[str],
    ) -> Subgradient:  # fmt: skip
        """The worst sample's own: at most C entries per layer of an LMM."""
        return model.subgradient(X[at.sample], int(y[at.sample]), layers)


class MeanLoss:
    """L(W) = Σ_n w_n·Loss_n(W) / Σ_n w_n, with every sample's subgradient in it."""

    name = "mean"

    def value(self, losses: NDArray, weight: NDArray | None) -> Value:
        """The weighted mean."""
        return Value(float(np.average(losses, weights=weight)), NO_SAMPLE)

    def subgradient(
        self, model: Model, X: NDArray, y: NDArray, weight: NDArray | None, at: Value,
        layers: Sequence[str],
    ) -> Subgradient:  # fmt: skip
        """The mean of all samples' subgradients: not sparse, which is the paper's point."""
        return model.mean_subgradient(X, y, weight).only(layers)
