"""The training problem: samples, the objective to minimise, and the step rule.

An objective is a function of the losses of all samples: their maximum, their maximum after the k
largest are removed, the mean of the k largest, or the mean of all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Integral
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from maxplus._compile.jit import frozen
from maxplus.distributed import Communicator, current
from maxplus.models.base import M, Model, Network, Subgradient
from maxplus.training.result import StateError, TrainingState
from maxplus.training.steps import StepRule, polyak

# Sample index in histories if no single sample determines the objective.
NO_SAMPLE = -1


class ObjectiveValue(NamedTuple):
    """The value of an objective for the losses of all samples.

    Attributes
    ----------
    loss : the value
    sample : the sample that determines it, or ``NO_SAMPLE``
    worst : the samples by decreasing loss, if the value is the mean of their losses
    """

    loss: float
    sample: int = NO_SAMPLE
    worst: tuple[int, ...] = ()


@runtime_checkable
class Objective(Protocol):
    """A function of the losses, and its subgradient with respect to the weights."""

    name: str

    def value(self, losses: NDArray, weight: NDArray | None) -> ObjectiveValue:
        """Return the value for the losses (N,) and the sample weights (N,), if any."""

    def subgradient(
        self, model: Model, problem: TrainingProblem, at: ObjectiveValue, layers: Sequence[str]
    ) -> Subgradient:
        """Return a subgradient with respect to ``layers`` at the weights of the model.

        ``at`` is the value of the objective there.
        """


class MaxLoss:
    """Maximum loss, L(W) = max_n Loss_n(W).

    A subgradient of the loss of the worst sample is a subgradient of L. Sample weights have no
    effect, except that estimators drop samples of weight 0. Ties are broken by the lowest index.
    """

    name = "max"

    def value(self, losses: NDArray, weight: NDArray | None) -> ObjectiveValue:
        """Return the largest loss and its sample."""
        n_star = int(np.argmax(losses))
        return ObjectiveValue(float(losses[n_star]), n_star)

    def subgradient(
        self, model: Model, problem: TrainingProblem, at: ObjectiveValue, layers: Sequence[str]
    ) -> Subgradient:
        """Return the subgradient of the worst sample: at most C entries per layer of an LMM."""
        return model.subgradient(problem.X[at.sample], int(problem.y[at.sample]), layers)


def count_samples(k: int | float, n_samples: int) -> int:
    """Return k, or the fraction k of ``n_samples``, rounded up; at most ``n_samples``."""
    # Exact arithmetic: in floating point, 0.07 · 100 is more than 7.
    count = math.ceil(Fraction(str(k)) * n_samples) if 0 < k < 1 else int(k)
    return min(count, n_samples)


def worst_first(losses: NDArray) -> NDArray:
    """Return the indices of the samples by decreasing loss, ties by index; O(N·log N)."""
    # NaN, where a score overflowed, comes first, as in `np.argmax`.
    return np.lexsort((-losses, ~np.isnan(losses)))


class TrimmedMaxLoss(MaxLoss):
    """Maximum without the k largest losses: L(W) is the (k + 1)-th largest Loss_n(W).

    If at most k labels are wrong and their samples have the largest losses, only samples with
    correct labels determine the objective. The samples to ignore are selected in each iteration.
    The objective is not convex in the scores: it can have several local minima. Ties are broken by
    the lowest index. The value is not finite if any loss is not finite, even an ignored one.

    Parameters
    ----------
    n_trimmed : int or float
        Number k of samples to ignore, at least 0, or fraction of all, in (0, 1), rounded up. At
        least one sample remains.

    Examples
    --------
    >>> import numpy as np
    >>> from maxplus.training import TrimmedMaxLoss
    >>> TrimmedMaxLoss(2).value(np.array([1.0, 5.0, 3.0, 5.0]), None)
    ObjectiveValue(loss=3.0, sample=2, worst=())
    """

    name = "trimmed-max"

    def __init__(self, n_trimmed: int | float) -> None:
        if not (0 <= n_trimmed < 1 or (isinstance(n_trimmed, Integral) and n_trimmed >= 0)):
            raise ValueError(
                f"n_trimmed must be an integer >= 0 or a fraction > 0 and < 1; got {n_trimmed!r}"
            )
        self.n_trimmed = n_trimmed

    def count(self, n_samples: int) -> int:
        """Return the number of ignored samples, of ``n_samples``."""
        return min(count_samples(self.n_trimmed, n_samples), n_samples - 1)

    def value(self, losses: NDArray, weight: NDArray | None) -> ObjectiveValue:
        """Return the largest loss that is not ignored, and its sample; O(N·log N).

        If the largest loss is not finite, it is the value.
        """
        order = worst_first(losses)
        n_star = int(order[self.count(len(losses))])
        largest = float(losses[order[0]])
        return ObjectiveValue(float(losses[n_star]) if math.isfinite(largest) else largest, n_star)


class TopKLoss:
    """Mean of the k largest losses.

    It is the maximum for k = 1, with bit-identical iterates, and the mean for k = N. Its
    subgradient is the mean of the subgradients of the k samples. Ties are broken by the lowest
    index. Sums start with the worst sample and are divided by k last, so that all engines give
    bit-identical results. Sample weights have no effect, except that estimators drop samples of
    weight 0.

    Parameters
    ----------
    k : int or float
        Number of samples, at least 1, or fraction of all, in (0, 1), rounded up. If it exceeds
        the number of samples, all are selected.

    Examples
    --------
    >>> import numpy as np
    >>> from maxplus.training import TopKLoss
    >>> TopKLoss(2).value(np.array([1.0, 5.0, 3.0, 5.0]), None)
    ObjectiveValue(loss=5.0, sample=1, worst=(1, 3))
    >>> TopKLoss(0.07).count(100)
    7
    """

    name = "top-k"

    def __init__(self, k: int | float) -> None:
        if not (0 < k < 1 or (isinstance(k, Integral) and k >= 1)):
            raise ValueError(f"k must be an integer >= 1 or a fraction > 0 and < 1; got {k!r}")
        self.k = k

    def count(self, n_samples: int) -> int:
        """Return the number k of selected samples, of ``n_samples``."""
        return count_samples(self.k, n_samples)

    def value(self, losses: NDArray, weight: NDArray | None) -> ObjectiveValue:
        """Return the mean of the k largest losses, and their samples; O(N·log N)."""
        worst = worst_first(losses)[: self.count(len(losses))].tolist()
        total = 0.0
        for n in worst:
            total += float(losses[n])
        return ObjectiveValue(total / len(worst), worst[0], tuple(worst))

    def subgradient(
        self, model: Model, problem: TrainingProblem, at: ObjectiveValue, layers: Sequence[str]
    ) -> Subgradient:
        """Return the mean subgradient of the k worst samples: at most k·C entries per layer."""
        X, y = problem.X, problem.y
        return Subgradient.mean([model.subgradient(X[n], int(y[n]), layers) for n in at.worst])


class MeanLoss:
    """Weighted mean loss, L(W) = Σ_n w_n·Loss_n(W) / Σ_n w_n."""

    name = "mean"

    def value(self, losses: NDArray, weight: NDArray | None) -> ObjectiveValue:
        """Return the weighted mean loss; no single sample determines it."""
        return ObjectiveValue(float(np.average(losses, weights=weight)))

    def subgradient(
        self, model: Model, problem: TrainingProblem, at: ObjectiveValue, layers: Sequence[str]
    ) -> Subgradient:
        """Return the weighted mean of the subgradients of all samples, which is not sparse."""
        return model.mean_subgradient(problem.X, problem.y, problem.weight).only(layers)


@dataclass(frozen=True)
class TrainingProblem:
    """Samples, objective and step rule: the input of a stage besides the model.

    Attributes
    ----------
    X : array of shape (N, P), C order, in the model's float type
    y : array of shape (N,): classes 0..C−1, or regression targets
    objective : the objective that an engine minimises; custom ones require ``DenseEngine``
    step : the step sizes of its iterations; from `polyak`, `constant`, `level` or `two_phase`
    w0_update_interval : iteration t updates W0 if (t + 1) % w0_update_interval == 0; 0 never
        updates it
    start : the index t of the first iteration
    weight : positive sample weights of shape (N,), or None; only mean losses depend on them
    rng : generator for stages and engines that draw or shuffle samples
    comm : the communicator; X, y and weight are the rows of this rank
    n_samples : number of samples of all ranks
    first_sample : the index of the first sample of this rank among the samples of all ranks
    """

    X: NDArray
    y: NDArray
    objective: Objective = field(default_factory=MaxLoss)
    step: StepRule = field(default_factory=polyak)
    w0_update_interval: int = 1
    start: int = 0
    weight: NDArray | None = None
    rng: np.random.Generator | None = None
    comm: Communicator = field(default_factory=current)
    n_samples: int = field(init=False)
    first_sample: int = field(init=False)

    def __post_init__(self) -> None:
        """Make X and y read-only and contiguous, and count the samples of all ranks.

        Kernels would be compiled again for writeable or strided arrays.
        """
        if not isinstance(self.step, StepRule):
            raise TypeError(
                f"step must be a StepRule, got {self.step!r:.60}; create one with polyak, "
                "constant, level or two_phase of maxplus.training.steps, for example step=polyak()"
            )
        object.__setattr__(self, "X", frozen(np.ascontiguousarray(self.X)))
        object.__setattr__(self, "y", frozen(np.ascontiguousarray(self.y)))
        counts = self.comm.allgather(len(self.y))
        object.__setattr__(self, "n_samples", sum(counts))
        object.__setattr__(self, "first_sample", sum(counts[: self.comm.rank]))

    def local_rows(self, samples: NDArray) -> NDArray:
        """Return the row indices in X of those samples that belong to this rank."""
        rows = samples - self.first_sample
        return rows[(rows >= 0) & (rows < len(self.y))]

    def rows(self, samples: NDArray) -> tuple[NDArray, NDArray, NDArray]:
        """Return (X, y, rows) with the given samples, in ascending order, on every rank.

        ``rows`` are the row indices of the samples in the returned X and y, which contain all
        samples in a single process, and only the given ones otherwise.
        """
        if self.comm.is_serial:
            return self.X, self.y, samples
        own = self.local_rows(samples)
        X, y = self.comm.allgatherv(self.X[own]), self.comm.allgatherv(self.y[own])
        return X, y, np.arange(len(y))

    def losses(self, model: Network) -> NDArray:
        """Return the losses of the samples of all ranks, shape (n_samples,), on every rank."""
        X = np.ascontiguousarray(self.X, model.dtype)
        return self.comm.allgatherv(model.losses(X, self.y))

    def model_of(self, state: TrainingState, prefix: str, kind: type[M]) -> M:
        """Return the model of the weights whose names begin with ``prefix``.

        Raise StateError if they do not fit X.
        """
        try:
            model = kind.from_weights(state.part(prefix))
        except ValueError as error:
            raise StateError(str(error)) from None
        if (model.n_features, model.dtype) != (self.X.shape[1], self.X.dtype):
            raise StateError(
                f"its weights are for {model.n_features} features of {model.dtype}, but X has "
                f"{self.X.shape[1]} of {self.X.dtype}"
            )
        return model
