"""The LMM with soft minima and maxima: matrix products of exponentials.

g_h = −τ·log Σ_i exp(−(λ_i + W1[i, h])/τ) is a matrix product of exp(−λ/τ) and
exp(−W1/τ), so it runs at the speed of BLAS, and so does its gradient; the soft
maximum z_d = τ·log Σ_h exp((g_h + W2[h, d])/τ) likewise. As τ → 0 they become the hard
minimum and maximum; g is too low by at most τ·log 2P, z too high by at most τ·log H.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maxplus.training.smooth._kernels import LIMIT, exp_inputs
from maxplus.training.smooth.soft_weights import SoftWeights

# Derivatives below this share of the largest one are left out.
NEGLIGIBLE = 1e-7
# The factors of a product of matrices are above these, so that their product is not denormal.
SMALL, SMALLEST = np.float32(1e-13), np.float32(1e-24)


class SoftLMM:
    """Soft scores, loss and gradient of one model, in float32; W0 stays as it is.

    The largest array of a batch is kept for the next: memory that is new costs as much as
    what is computed in it. So one thread at a time may ask.

    Parameters
    ----------
    W0 : array of shape (2P,)
    size : what a score of 1 is worth: the softmax is taken of scores times ``size``
    """

    def __init__(self, W0: NDArray, size: float = 1.0) -> None:
        self.W0 = W0.astype(np.float32)
        self.size = np.float32(size)
        self._E = np.empty((0, 0), np.float32)

    def gradient(
        self, X: NDArray, y: NDArray, weights: SoftWeights, tau: float,
        margin: float = 0.0, weight: NDArray | None = None, worth: float = 1.0,
    ) -> float:  # fmt: skip
        """Mean cross-entropy of a batch; its gradient is left in ``weights.sums()``; O(n·P·H).

        ``margin`` is added to the scores of all classes but the true one before the loss is
        taken: what an adversary could gain. ``tau`` and ``margin`` are in units of scores.
        ``weight`` (n,) counts samples differently, ``worth`` the batch as a whole. All ranks
        ask together; one without samples has a loss of 0.
        """
        n, t = len(y), np.float32(tau)
        U, W2 = weights.show(t)
        sums = weights.sums()
        if n == 0:
            for layer in sums:
                layer[:] = 0.0
            return 0.0
        if len(self._E) < n:
            self._E = np.empty((n, self.W0.size), np.float32)
        E = self._E[:n]
        # In NumPy 1, a Python number divided by a float32 is a float64, which kernels refuse.
        exp_inputs(X, self.W0, np.float32(-1) / t, E)
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
        z *= self.size
        p = np.exp(np.maximum(z, -LIMIT))
        p /= p.sum(axis=1, keepdims=True)
        share = worth * (np.full(n, 1 / n) if weight is None else weight / weight.sum())
        loss = float(-(share @ np.log(p[true])))
        p[true] -= 1.0
        p[np.abs(p) < NEGLIGIBLE**2] = 0.0
        R = p * (self.size * share.astype(np.float32))[:, None] / Q
        dg = G * (R @ V.T)
        # Units that hardly matter to a sample would fill the product with denormal numbers.
        dg[np.abs(dg) < NEGLIGIBLE * np.abs(dg).max()] = 0.0
        # Each sample's terms are taken relative to its least sum, lest they leave the range.
        least = S.min(axis=1)
        dg *= least[:, None] / S
        dg[np.abs(dg) < SMALL] = 0.0
        factor = (1 / least)[:, None]
        seen = SMALLEST / factor < E
        E *= factor
        E *= seen
        np.matmul(E.T, dg, out=sums.W1)
        np.multiply(V, G.T @ R, out=sums.W2)
        return loss
