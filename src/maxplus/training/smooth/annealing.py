"""Annealed training with Adam: temperatures, step sizes and batches of all soft models.

The temperature of soft minima and maxima decreases geometrically over the first nine tenths of the
steps and is then constant; the step size decreases like half a period of a cosine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus._compile.jit import njit
from maxplus.distributed import Communicator

# Fraction of the steps in which the temperature decreases, and ratio of the last to the first step
# size.
COOLING, LAST_RATE = 0.9, 0.02
# Maximum and minimum of the default batch size; minimum numbers of epochs and steps.
BATCH, MIN_BATCH = 200, 8
EPOCHS, MIN_STEPS = 10, 500

BETA1, EPSILON = 0.9, 1e-8
# Smaller than usual, because the magnitude of the gradient changes with the temperature.
BETA2 = 0.99
# Averages below this value are set to 0. It is far below EPSILON and far above the smallest normal
# float32.
NEGLIGIBLE = 1e-30

# Function that returns augmented samples, given the samples of a batch and a generator.
Augment = Callable[[NDArray, np.random.Generator], NDArray]


class Annealing(NamedTuple):
    """Settings of annealed training.

    Attributes
    ----------
    scale : unit of temperatures and step sizes: the change of a score over a typical distance
        between samples
    hot, cold : temperatures at the beginning and at the end, in units of ``scale``
    rate : step size of Adam at the beginning, in units of ``scale``
    slope_rate : step size of W0 relative to that of other weights; the warm-up does not use it
    length : factor by which the number of epochs is multiplied
    n_epochs : number of epochs; by default 10, or more if that is necessary for ``min_steps``
    min_steps : minimum number of steps if ``length`` is 1
    batch_size : samples per step; by default an eighth of all, between 8 and 200
    """

    scale: float = 1.0
    hot: float = 0.1
    cold: float = 0.03
    rate: float = 0.01
    slope_rate: float = 0.5
    length: float = 1.0
    n_epochs: int | None = None
    min_steps: int = MIN_STEPS
    batch_size: int | None = None

    def batch(self, n_rows: int) -> int:
        """Return the number of samples per step."""
        if self.batch_size is not None:
            return min(n_rows, self.batch_size)
        return min(n_rows, BATCH, max(MIN_BATCH, n_rows // 8))

    def epochs(self, n_rows: int) -> int:
        """Return the number of epochs for ``n_rows`` samples, at least 1."""
        n_batches = n_rows // self.batch(n_rows)
        n_epochs = self.n_epochs
        if n_epochs is None:
            n_epochs = max(EPOCHS, math.ceil(self.min_steps / n_batches))
        return max(1, round(self.length * n_epochs))

    def schedule(
        self, n_rows: int, *, scale: float = 1.0, coldest: float = 0.0
    ) -> AnnealingSchedule:
        """Return the schedule for ``n_rows`` samples.

        Temperatures and step sizes are multiplied by ``scale``; temperatures are at least
        ``scale·coldest``.
        """
        batch, epochs = self.batch(n_rows), self.epochs(n_rows)
        cold = max(self.cold, coldest)
        hot = max(self.hot, cold)
        rates = scale * self.rate, self.slope_rate
        return AnnealingSchedule(batch, n_rows // batch, epochs, scale * hot, scale * cold, *rates)


class AnnealingSchedule(NamedTuple):
    """Batch size, batches per epoch, epochs, range of temperatures, and step sizes.

    ``rate`` is the first step size, and ``slope_rate`` the ratio of the step size of W0 to that of
    other weights.
    """

    batch: int
    n_batches: int
    n_epochs: int
    hot: float
    cold: float
    rate: float
    slope_rate: float

    def at(self, step: int) -> tuple[float, float]:
        """Return the temperature and the step size of a step, counted from 0."""
        return temperature_and_rate.py_func(self, step)


@njit(cache=True, nogil=True)
def temperature_and_rate(schedule, step):
    """Return the temperature and the step size of a step, counted from 0; O(1)."""
    done = step / (schedule.n_batches * schedule.n_epochs)
    tau = schedule.hot * (schedule.cold / schedule.hot) ** min(1.0, done / COOLING)
    falling = 0.5 * (1.0 + math.cos(math.pi * done))
    return tau, schedule.rate * (LAST_RATE + (1.0 - LAST_RATE) * falling)


@dataclass
class Batches:
    """Random batches of an epoch, from the samples of all ranks.

    In a single process, batches of ``size`` samples are consecutive parts of a permutation of all
    samples, of which the last samples may be left out. With several ranks, each rank permutes its
    samples and splits them into one part for each batch. Batches therefore depend on the number
    of ranks.
    """

    comm: Communicator
    counts: list[int]  # samples of each rank
    size: int  # samples of a batch
    n_batches: int  # batches of an epoch

    def split(self, rng: np.random.Generator) -> tuple[list[NDArray], np.random.Generator]:
        """Return the row indices of this rank in each batch, and a generator for augmentation."""
        n = self.counts[self.comm.rank]
        if self.comm.is_serial:
            order = rng.permutation(n)
            return [order[k * self.size :][: self.size] for k in range(self.n_batches)], rng
        own = np.random.default_rng([int(rng.integers(2**63)), self.comm.rank])
        order = own.permutation(n)
        return [
            order[self._batch_start(n, k) : self._batch_start(n, k + 1)]
            for k in range(self.n_batches)
        ], own

    def _batch_start(self, n: int, k: int) -> int:
        """Return the position at which batch k begins in the n samples of a rank."""
        return k * n // self.n_batches

    def share(self, k: int) -> float:
        """Return the fraction of the samples of batch k that belong to this rank."""
        if self.comm.is_serial:
            return 1.0
        sizes = [self._batch_start(n, k + 1) - self._batch_start(n, k) for n in self.counts]
        return sizes[self.comm.rank] / sum(sizes)


class Adam:
    """Adam optimiser, which updates a C-contiguous array in place (Kingma & Ba, 2015)."""

    def __init__(self, weights: NDArray, beta2: float = BETA2) -> None:
        self._weights, self._beta2 = weights, beta2
        self.mean, self.square = np.zeros_like(weights), np.zeros_like(weights)
        self.steps = 0

    def move(self, gradient: NDArray, rate: float) -> None:
        """Take one step; O(weights)."""
        self.steps += 1
        arrays = self._weights, self.mean, self.square, gradient
        adam_move(*arrays, self.steps, rate, self._beta2)


@njit(cache=True, nogil=True, error_model="numpy")
def adam_move(weights, first, second, gradient, t, rate, beta2):
    """Take step t = 1, 2, …: θ ← θ − rate · m̂ / (√v̂ + ε), in place; O(weights)."""
    theta, g = weights.reshape(-1), gradient.reshape(-1)
    m, v = first.reshape(-1), second.reshape(-1)
    # Constants have the type of the weights, because loops with mixed types do not vectorise.
    dtype = theta.dtype.type
    new_m, new_v = dtype(1.0 - BETA1), dtype(1.0 - beta2)
    unbias_m, unbias_v = dtype(1.0 - BETA1**t), dtype(1.0 - beta2**t)
    alpha, epsilon = dtype(rate), dtype(EPSILON)
    negligible, zero = dtype(NEGLIGIBLE), dtype(0.0)
    for i in range(theta.size):
        mean = m[i] + new_m * (g[i] - m[i])
        square = v[i] + new_v * (g[i] * g[i] - v[i])
        # Averages of old gradients would decay to denormal numbers, which are slow.
        m[i] = mean if abs(mean) > negligible else zero
        v[i] = square if square > negligible else zero
        theta[i] -= alpha * (m[i] / unbias_m) / (np.sqrt(v[i] / unbias_v) + epsilon)
