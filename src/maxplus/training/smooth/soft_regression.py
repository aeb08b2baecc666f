"""The LMM with soft minima and maxima as a curve through noisy targets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.training.smooth._soft_regression_kernels import soft_regression


class CurveGradient(NamedTuple):
    """The batch's mean loss, and its gradient by directions and both layers."""

    loss: float
    directions: NDArray
    W1: NDArray
    W2: NDArray


class SoftRegression:
    """Soft scores of a model with one output, their loss and gradient, in float64.

    z(x) = max_h (min_i (W0[i]·(D·x)[i // 2] + W1[i, h]) + W2[h]) with soft minima and maxima.
    Unlike `SoftLMM`, whose matrix products need a temperature that float32 can hold, this goes
    down to the hard model: a regression is about the scores themselves, and a soft maximum is
    too high by up to τ·log H. The slopes, the sizes of D's rows, move as well.

    Parameters
    ----------
    W0 : array of shape (2M,)
    loss : "squared" or "absolute"
    """

    def __init__(self, W0: NDArray, loss: str = "squared") -> None:
        self.W0 = W0.astype(np.float64)
        self.absolute = loss == "absolute"

    def gradient(
        self, X: NDArray, target: NDArray, D: NDArray, W1T: NDArray, W2: NDArray, tau: float,
        weight: NDArray | None = None,
    ) -> CurveGradient:  # fmt: skip
        """Half the mean squared error of a batch, or its mean absolute one; O(n·M·(P + H)).

        D is (M, P), W1T (H, 2M), W2 (H,); ``tau`` > 0 is in units of scores. ``weight`` (n,)
        counts samples differently; a batch's mean is over its number of samples.
        """
        n = len(target)
        share = np.full(n, 1.0 / n) if weight is None else weight / n
        lam = np.repeat(X @ D.T, 2, axis=1) * self.W0
        d_lam, d_W1T, d_W2 = np.zeros_like(lam), np.zeros_like(W1T), np.zeros_like(W2)
        loss = soft_regression(
            lam, W1T, W2, tau, target, share, self.absolute, d_lam, d_W1T, d_W2
        )  # fmt: skip
        d_views = (d_lam * self.W0).reshape(n, -1, 2).sum(axis=2)
        return CurveGradient(loss, d_views.T @ X, d_W1T, d_W2)
