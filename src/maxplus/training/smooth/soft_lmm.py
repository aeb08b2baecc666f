"""The LMM with soft minima and maxima: matrix products of exponentials.

g_h = −τ·log Σ_i exp(−(λ_i + W1[i, h])/τ) is a matrix product of exp(−λ/τ) and
exp(−W1/τ), so it runs at the speed of BLAS, and so does its gradient; the soft
maximum z_d = τ·log Σ_h exp((g_h + W2[h, d])/τ) likewise. As τ → 0 they become the hard
minimum and maximum; g is too low by at most τ·log 2P, z too high by at most τ·log H.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.training.smooth._kernels import (
    LIMIT,
    exp_all,
    exp_inputs,
    times,
)

# Derivatives below this share of the largest one are left out.
NEGLIGIBLE = 1e-7
# The factors of a product of matrices are above these, so that their product is not denormal.
SMALL, SMALLEST = np.float32(1e-13), np.float32(1e-24)


class SoftGradient(NamedTuple):
    """The batch's mean loss, and its gradient by both layers."""

    loss: float
    W1: NDArray
    W2: NDArray

    def times(self, factor: float) -> SoftGradient:
        """Those of the loss times a factor."""
        f = np.float32(factor)
        return SoftGradient(factor * self.loss, f * self.W1, f * self.W2)


class SoftLMM:
    """Soft scores, loss and gradient of one model, in float32; W0 stays as it is.

    The largest arrays of a batch are kept for the next: memory that is new costs as much as
    what is computed in it. So one thread at a time may ask.

    Parameters
    ----------
    W0 : array of shape (2P,)
    size : what a score of 1 is worth: the softmax is taken of scores times ``size``
    """

    def __init__(self, W0: NDArray, size: float = 1.0) -> None:
        self.W0 = W0.astype(np.float32)
        self.size = np.float32(size)
        self._E = self._U = np.empty((0, 0), np.float32)

    def gradient(
        self, X: NDArray, y: NDArray, W1: NDArray, W2: NDArray, tau: float,
        margin: float = 0.0, weight: NDArray | None = None,
    ) -> SoftGradient:  # fmt: skip
        """Mean cross-entropy of a batch and its gradient; O(n·P·H).

        ``margin`` is added to the scores of all classes but the true one before the loss is
        taken: what an adversary could gain. ``tau`` and ``margin`` are in units of scores.
        ``weight`` (n,) counts samples differently.
        """
        n, t = len(y), np.float32(tau)
        # In NumPy 1, a Python number divided by a float32 is a float64, which kernels refuse.
        sharp = np.float32(-1) / t
        if len(self._E) < n:
            self._E = np.empty((n, self.W0.size), np.float32)
        if self._U.shape != W1.shape:
            self._U = np.empty(W1.shape, np.float32)
        E, U = self._E[:n], self._U
        exp_inputs(X, self.W0, sharp, E)
        exp_all(W1.reshape(-1), sharp, U.reshape(-1))
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
        share = np.full(n, 1 / n) if weight is None else weight / weight.sum()
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
        D = E.T @ dg
        times(U.reshape(-1), D.reshape(-1))
        return SoftGradient(loss, D, V * (G.T @ R))
