"""Training of an LMM with soft minima and maxima, by matrix products of exponentials.

g_h = −τ·log Σ_i exp(−(λ_i + W1[i, h])/τ) and z_d = τ·log Σ_h exp((g_h + W2[h, d])/τ) are matrix
products of exponentials, apart from the logarithms, and so are their gradients: BLAS computes
them. As τ → 0 they converge to the minimum and the maximum. The soft minimum is at most τ·log 2P
below the minimum, the soft maximum at most τ·log H above the maximum.

All arrays are float32, scaled by a `Rescaling`. Denormal numbers have a negligible effect but
are a hundred times slower, so small factors are set to zero before products. Element-wise kernels
use one thread: they take a fraction of the time of the matrix products, and their threads would
compete with those of BLAS.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus._compile.elementary import exp32
from maxplus._compile.intrinsics import fmax, fmin, use_widest_vectors
from maxplus._compile.jit import njit
from maxplus.distributed import Communicator
from maxplus.models import LMM
from maxplus.training.smooth.annealing import Adam

# Sums of a few thousand products of two exponentials exp(±LIMIT) stay within the range of float32.
LIMIT = 40.0
_LIMIT, _ZERO = np.float32(LIMIT), np.float32(0.0)
# Smaller factors become 0, so that a product with exp(−LIMIT) is not denormal, and so do smaller
# derivatives, because their squares would be denormal in Adam's averages.
MIN_FACTOR, MIN_DERIVATIVE = np.float32(1e-19), np.float32(1e-15)
# Derivatives below this share of the largest one become 0.
NEGLIGIBLE = 1e-7
# Lower bounds of the factors of the gradient with respect to W1, so that their products are not
# denormal: derivatives of units, and exponentials of inputs.
MIN_UNIT_FACTOR, MIN_INPUT_FACTOR = np.float32(1e-13), np.float32(1e-24)
# Fraction of the values at each end of a feature that may be outliers.
OUTLIER_SHARE = 0.005
# Inputs are clipped at this multiple of the value at which exponents are clipped.
FAR = 4.0
# Rows per block of computations in float64, to save memory.
ROWS_AT_ONCE = 4_096


class Rescaling(NamedTuple):
    """Scales of a soft model: data are centred and divided by ``reach``, scores by ``size``.

    Data are rounded to float32 after rescaling, so that precision does not depend on their offset
    and scale.
    """

    W0: NDArray  # (2P,): rescaled slopes
    coldest: float  # lowest temperature at which no exponent of typical data exceeds LIMIT
    middle: NDArray  # (P,): centre of each feature
    reach: float  # distance over which scores change by ``size``
    size: float  # typical score
    offset: NDArray  # (2P,): rows λ at the centre

    @classmethod
    def from_model(cls, model: LMM, X: NDArray, size: float) -> Rescaling:
        """Return the rescaling for a model with typical scores of ``size``, and its samples."""
        W0 = model.W0.astype(np.float64)
        reach = size / max(float(np.abs(W0).max()), np.finfo(np.float64).tiny)
        low, high = _typical_range(X, reach)
        middle = (low + high) / 2
        relative = W0 * (reach / size)
        exponent = np.abs(relative) * np.repeat((high - low) / (2 * reach), 2)
        coldest = float(exponent.max()) / LIMIT
        return cls(relative, coldest, middle, reach, size, np.repeat(middle, 2) * W0)

    def transform(self, X: NDArray) -> NDArray:
        """Return rescaled samples, clipped at FAR·LIMIT."""
        far, rows = FAR * LIMIT, np.empty(X.shape, np.float32)
        for lo in range(0, len(X), ROWS_AT_ONCE):
            part = slice(lo, lo + ROWS_AT_ONCE)
            rows[part] = np.clip((X[part] - self.middle) / self.reach, -far, far)
        return rows

    def rescaled_weights(self, model: LMM) -> tuple[NDArray, NDArray]:
        """Return rescaled W1 and W2."""
        W1 = (model.W1.astype(np.float64) + self.offset[:, None]) / self.size
        W2 = model.W2 / self.size
        return W1.astype(np.float32, order="C"), W2.astype(np.float32, order="C")

    def to_lmm(self, model: LMM, W1: NDArray, W2: NDArray) -> LMM:
        """Return the LMM for rescaled W1 and W2, with the W0 and float type of ``model``."""
        W1 = W1.astype(np.float64) * self.size - self.offset[:, None]
        W2 = W2.astype(np.float64) * self.size
        return LMM(model.W0.copy(), W1.astype(model.dtype), W2.astype(model.dtype))


def _typical_range(X: NDArray, reach: float) -> tuple[NDArray, NDArray]:
    """Return lower and upper bounds of the values of each feature that are not outliers; O(N·P).

    Outliers are farther from the range of 99 % of the values than both ``reach`` and the length of
    that range. Quantiles are computed for fewer than 20,000 rows.
    """
    low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
    sample = X[:: max(1, len(X) // 10_000)].astype(np.float64)
    inner_low, inner_high = np.quantile(sample, (OUTLIER_SHARE, 1 - OUTLIER_SHARE), axis=0)
    margin = np.maximum(inner_high - inner_low, reach)
    return np.maximum(low, inner_low - margin), np.minimum(high, inner_high + margin)


class SoftLMM:
    """Soft model with a fixed W0, and the state of Adam; the weights are the same on all ranks.

    ``theta`` contains W1 and W2 as a flat array; scores are multiplied by ``size`` before the
    softmax. Arrays are reused for all batches, because allocation would take as long as the
    computation. The object is not thread-safe.
    """

    def __init__(
        self, comm: Communicator, W0: NDArray, W1: NDArray, W2: NDArray, size: float = 1.0
    ) -> None:
        self.comm, self._W0, self._size = comm, W0.astype(np.float32), np.float32(size)
        self._shapes = W1.shape, W2.shape
        self.theta = np.concatenate([W1.ravel(), W2.ravel()])
        self._adam = Adam(self.theta)
        # exp(−W1/τ), and the derivatives on this rank; those with respect to W1 without this
        # factor.
        self._U, self._derivatives = np.empty(W1.shape, np.float32), np.empty_like(self.theta)
        self._E = np.empty((0, 0), np.float32)

    def loss(
        self,
        X: NDArray,
        y: NDArray,
        tau: float,
        margin: float = 0.0,
        weight: NDArray | None = None,
        batch_weight: float = 1.0,
    ) -> float:
        """Return the mean loss of a batch times ``batch_weight``, and store its derivatives.

        ``margin`` is added to the scores of all wrong classes. ``tau`` and ``margin`` are in the
        scales of `Rescaling`, and ``weight`` (n,) are sample weights. The loss is 0 on a
        rank without samples.
        """
        n, t = len(y), np.float32(tau)
        U, (W1, W2), (d_W1, d_W2) = self._U, self.layers(self.theta), self.layers(self._derivatives)
        # In NumPy 1, a Python number divided by a float32 is a float64, which kernels reject.
        factor = np.float32(-1) / t
        exp_all(W1.reshape(-1), factor, U.reshape(-1))
        if n == 0:
            self._derivatives[:] = 0.0
            return 0.0
        if len(self._E) < n:
            self._E = np.empty((n, self._W0.size), np.float32)
        E = self._E[:n]
        exp_inputs(X, self._W0, factor, E)
        S = E @ U
        g = -t * np.log(S)
        peak = g.max(axis=1, keepdims=True)
        G = np.exp(np.maximum((g - peak) / t, -LIMIT))
        top = W2.max()
        V = np.exp(np.maximum((W2 - top) / t, -LIMIT))
        Q = np.maximum(G @ V, np.float32(1e-30))
        z = t * np.log(Q) + peak + top
        true = np.arange(n), y
        z[true] -= np.float32(margin)
        z -= z.max(axis=1, keepdims=True)
        z *= self._size
        p = np.exp(np.maximum(z, -LIMIT))
        p /= p.sum(axis=1, keepdims=True)
        share = batch_weight * (np.full(n, 1 / n) if weight is None else weight / weight.sum())
        loss = float(-(share @ np.log(p[true])))
        p[true] -= 1.0
        p[np.abs(p) < NEGLIGIBLE**2] = 0.0
        R = p * (self._size * share.astype(np.float32))[:, None] / Q
        dg = G * (R @ V.T)
        # Negligible derivatives would result in denormal products.
        dg[np.abs(dg) < NEGLIGIBLE * np.abs(dg).max()] = 0.0
        # The factors of each sample are divided by its smallest sum, so that they do not overflow.
        least = S.min(axis=1)
        dg *= least[:, None] / S
        dg[np.abs(dg) < MIN_UNIT_FACTOR] = 0.0
        scale = (1 / least)[:, None]
        is_relevant = MIN_INPUT_FACTOR / scale < E
        E *= scale
        E *= is_relevant
        np.matmul(E.T, dg, out=d_W1)
        np.multiply(V, G.T @ R, out=d_W2)
        return loss

    def gradient(self) -> NDArray:
        """Return the gradient of the last batch, summed over all ranks; O(P·H).

        All ranks must call it together.
        """
        total = self.comm.sum(self._derivatives)
        multiply_into(self._U.reshape(-1), total[: self._U.size])
        return total

    def move(self, rate: float) -> None:
        """Take one step of Adam with the gradient of the last batch; O(P·H)."""
        self._adam.move(self.gradient(), rate)

    def layers(self, flat: NDArray) -> tuple[NDArray, NDArray]:
        """Return views of a flat array with the shapes of W1 and W2."""
        first, second = self._shapes
        n = math.prod(first)
        return flat[:n].reshape(first), flat[n:].reshape(second)

    def state(self) -> dict[str, NDArray]:
        """Return a copy of the weights and of the state of Adam."""
        adam = self._adam
        return {
            "theta": self.theta.copy(),
            "mean": adam.mean.copy(),
            "square": adam.square.copy(),
            "steps": np.array([adam.steps]),
        }

    def restore(self, state: Mapping[str, NDArray]) -> None:
        """Continue from a state."""
        self.theta[:], self._adam.mean[:] = state["theta"], state["mean"]
        self._adam.square[:], self._adam.steps = state["square"], int(state["steps"][0])


@njit(cache=True)
def exp_all(x, factor, out):
    """Compute out_i = exp(factor·x_i), with exponents clipped to ±LIMIT; O(size)."""
    use_widest_vectors()
    for i in range(x.size):
        out[i] = exp32(fmax(fmin(x[i] * factor, _LIMIT), -_LIMIT))


@njit(cache=True)
def _exp_inputs_row(x, W0, factor, out):
    use_widest_vectors()
    for p in range(x.size):
        scaled = x[p] * factor
        for i in (2 * p, 2 * p + 1):
            out[i] = exp32(fmax(fmin(W0[i] * scaled, _LIMIT), -_LIMIT))


@njit(cache=True)
def exp_inputs(X, W0, factor, out):
    """Compute out[n, i] = exp(factor·W0[i]·X[n, i // 2]), exponents clipped to ±LIMIT; O(n·P)."""
    for n in range(X.shape[0]):
        _exp_inputs_row(X[n], W0, factor, out[n])


@njit(cache=True)
def multiply_into(a, b):
    """Multiply b by a, in place; results whose squares would be denormal become 0; O(size)."""
    use_widest_vectors()
    for i in range(a.size):
        product = a[i] * (b[i] if abs(b[i]) > MIN_FACTOR else _ZERO)
        b[i] = product if abs(product) > MIN_DERIVATIVE else _ZERO
