"""What training minimises: the maximum, the mean of the k worst or the mean of all losses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from numbers import Integral
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from maxplus.models.base import Model, Subgradient

# Stands for "no single sample" in histories.
NO_SAMPLE = -1


class Value(NamedTuple):
    """The objective's value and the worst sample (`NO_SAMPLE` for the mean of all).

    ``worst`` lists the samples that the value is the mean of, worst first, if they are only some.
    """

    loss: float
    sample: int
    worst: tuple[int, ...] = ()


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


def count_samples(k: int | float, n_samples: int) -> int:
    """A number of samples, or a fraction of them rounded up; never more than there are."""
    # By its decimal digits: in floating point 0.07 · 100 is more than 7.
    wanted = math.ceil(Fraction(str(k)) * n_samples) if 0 < k < 1 else int(k)
    return min(wanted, n_samples)


class TopKLoss:
    """L(W) = the mean of the k largest Loss_n(W), and the mean of those samples' subgradients.

    Between the maximum (k = 1, the same iterates to the last bit) and the mean (k = N).
    Ties go to the lowest sample. Sums run over the samples from the worst on, left to
    right, and are divided by k in the end; so engines can agree to the last bit. Weights
    change nothing, as with the maximum: only a sample without any is left out, before.

    Parameters
    ----------
    k : int or float
        How many, at least 1, or which part of the samples, in (0, 1), rounded up. More
        than there are is all of them.

    Examples
    --------
    >>> import numpy as np
    >>> from maxplus.training import TopKLoss
    >>> TopKLoss(2).value(np.array([1.0, 5.0, 3.0, 5.0]), None)
    Value(loss=5.0, sample=1, worst=(1, 3))
    >>> TopKLoss(0.07).count(100)
    7
    """

    name = "top-k"

    def __init__(self, k: int | float) -> None:
        if not (0 < k < 1 or (isinstance(k, Integral) and k >= 1)):
            raise ValueError(f"k must be an integer >= 1 or a fraction > 0 and < 1; got {k!r}")
        self.k = k

    def count(self, n_samples: int) -> int:
        """How many of so many samples are the worst ones."""
        return count_samples(self.k, n_samples)

    def value(self, losses: NDArray, weight: NDArray | None) -> Value:
        """The mean of the k worst losses, and whose they are; O(N·log N)."""
        # NaN, where a score overflowed, comes first, as in `np.argmax`.
        worst_first = np.lexsort((-losses, ~np.isnan(losses)))
        worst = worst_first[: self.count(len(losses))].tolist()
        total = 0.0
        for n in worst:
            total += float(losses[n])
        return Value(total / len(worst), worst[0], tuple(worst))

    def subgradient(
        self, model: Model, X: NDArray, y: NDArray, weight: NDArray | None, at: Value,
        layers: Sequence[str],
    ) -> Subgradient:  # fmt: skip
        """The mean of the k worst samples' own: at most k·C entries per layer of an LMM."""
        return Subgradient.mean([model.subgradient(X[n], int(y[n]), layers) for n in at.worst])


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
