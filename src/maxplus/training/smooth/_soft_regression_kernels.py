"""The soft LMM with one output, sample by sample: score, loss and gradient in one pass.

Sums are taken relative to their largest term, so any temperature > 0 will do, down to where the
soft model is the hard one.
"""

import math

import numpy as np

from maxplus._compile.intrinsics import fmin, use_widest_vectors
from maxplus._compile.jit import njit

# Terms smaller than exp(−FADED) of the largest are left out: they would not show in a sum.
FADED = 20.0


@njit(cache=True)
def _minimum(lam, w, terms):
    """The least of lam + w, all of which go into ``terms``; O(rows)."""
    use_widest_vectors()
    least = np.inf
    for i in range(lam.size):
        terms[i] = lam[i] + w[i]
        least = fmin(least, terms[i])
    return least


@njit(cache=True)
def _soft_minimum(lam, w, tau, share):
    """−τ·log Σ_i exp(−(lam_i + w_i)/τ); the terms of the sum, relative to the largest, and it."""
    least = _minimum(lam, w, share)
    near = least + FADED * tau
    total = 0.0
    for i in range(lam.size):
        share[i] = math.exp((least - share[i]) / tau) if share[i] < near else 0.0
        total += share[i]
    return least - tau * math.log(total), total


@njit(cache=True)
def _soft_maximum(g, tau, share):
    """τ·log Σ_h exp(g_h/τ) and the share of each term, which add up to 1; O(H)."""
    most = g.max()
    total = 0.0
    for h in range(g.size):
        below = (most - g[h]) / tau
        share[h] = math.exp(-below) if below < FADED else 0.0
        total += share[h]
    share /= total
    return most + tau * math.log(total)


@njit(cache=True)
def _loss(error, absolute, tau):
    """Half the square, or √(error² + τ²) − τ, which tends to the absolute value; derivative too."""
    if absolute:
        size = math.sqrt(error * error + tau * tau)
        return size - tau, error / size
    return 0.5 * error * error, error


@njit(cache=True)
def soft_regression(lam, W1T, W2, tau, target, weight, absolute, d_lam, d_W1T, d_W2):
    """Σ_n weight_n·loss(z(x_n) − target_n); its gradient is added to the last three; O(n·P·H).

    lam (n, rows) holds W0·v, W1T is (H, rows), W2 (H,).
    """
    n, n_rows = lam.shape
    H = W2.size
    g, unit, row, whole = np.empty(H), np.empty(H), np.empty((H, n_rows)), np.empty(H)
    total = 0.0
    for k in range(n):
        for h in range(H):
            least, whole[h] = _soft_minimum(lam[k], W1T[h], tau, row[h])
            g[h] = least + W2[h]
        z = _soft_maximum(g, tau, unit)
        loss, slope = _loss(z - target[k], absolute, tau)
        total += weight[k] * loss
        for h in range(H):
            if unit[h] > 0.0:
                d_g = weight[k] * slope * unit[h]
                d_W2[h] += d_g
                d_g /= whole[h]
                for i in range(n_rows):
                    d_W1T[h, i] += d_g * row[h, i]
                    d_lam[k, i] += d_g * row[h, i]
    return total
