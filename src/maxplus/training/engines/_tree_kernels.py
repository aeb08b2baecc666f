"""Jitted parts of the tree engine: a tree per minimum, per maximum and over the losses."""

import math
from typing import NamedTuple

import numpy as np
from numba import prange

from maxplus._compile.jit import alone, njit
from maxplus.models._softmax import sample_loss
from maxplus.training.engines._descent import descend
from maxplus.training.result import Signal
from maxplus.trees._kernels import build, root, update, winner

_GOES_ON, _TARGET, _STATIONARY, _OVERFLOW = (
    int(Signal.GOES_ON), int(Signal.TARGET), int(Signal.STATIONARY), int(Signal.OVERFLOW)
)  # fmt: skip
# From this many samples on, a second thread is worth waking for each iteration.
PARALLEL_FROM = 2_000


class Trees(NamedTuple):
    """All trees of a training set, and the levels' offsets of each kind."""

    minima: np.ndarray  # (N, H, nodes of 2P leaves): λ_i(x_n) + W1[i, h]
    maxima: np.ndarray  # (N, C, nodes of H leaves): g_h(x_n) + W2[h, d]
    losses: np.ndarray  # (nodes of N leaves), float64
    off_min: np.ndarray
    off_max: np.ndarray
    off_loss: np.ndarray


@njit(cache=True)
def _scores(maxima, off, z):
    """z_d = the root of each class's tree."""
    for d in range(z.size):
        z[d] = root(maxima[d], off)


@njit(cache=True)
def _plant_sample(n, X, y, weights, trees):
    """Build sample n's trees by a forward pass; O(P·H)."""
    W0, W1T, W2T = weights.W0, weights.W1T, weights.W2T
    z = np.empty(W2T.shape[0], W0.dtype)
    for h in range(W1T.shape[0]):
        tree = trees.minima[n, h]
        for i in range(W0.size):
            tree[i] = W0[i] * X[n, i // 2] + W1T[h, i]
        build(tree, trees.off_min, False)
        for d in range(z.size):
            trees.maxima[n, d, h] = root(tree, trees.off_min) + W2T[d, h]
    for d in range(z.size):
        build(trees.maxima[n, d], trees.off_max, True)
    _scores(trees.maxima[n], trees.off_max, z)
    trees.losses[n] = sample_loss(z, y[n])


@njit(cache=True, parallel=True)
def plant_samples(X, y, weights, trees):
    """Build every sample's trees by a full forward pass; O(N·P·H)."""
    # Only calls may stand in a parallel loop over a NamedTuple of arrays: Numba
    # drops writes made there directly (its issue 5872).
    for n in prange(X.shape[0]):
        _plant_sample(n, X, y, weights, trees)


@njit(cache=True)
def _set_row(n, h, i, X, weights, trees):
    """Row i of unit h changed: repair its minimum and, if that moved, the maxima above."""
    value = weights.W0[i] * X[n, i // 2] + weights.W1T[h, i]
    tree = trees.minima[n, h]
    if not update(tree, trees.off_min, i, value, False):
        return False
    moved = False
    g = root(tree, trees.off_min)
    for d in range(weights.W2T.shape[0]):
        new = g + weights.W2T[d, h]
        moved |= update(trees.maxima[n, d], trees.off_max, h, new, True)
    return moved


@njit(cache=True)
def _refresh_sample(n, X, weights, grad, trees, z):
    """Repair sample n's trees after a step; True if a score moved. O(C·log P + C²·log H).

    A moved slope in W0 adds O(H·(log P + C·log H)); samples whose feature is zero
    there do not notice.
    """
    moved = False
    for j in range(grad.n[1]):
        i = grad.row0[j]
        if X[n, i // 2] != 0:
            for h in range(weights.W1T.shape[0]):
                moved |= _set_row(n, h, i, X, weights, trees)
    for j in range(grad.n[0]):
        moved |= _set_row(n, grad.unit1[j], grad.row1[j], X, weights, trees)
    for d in range(z.size):
        h = grad.h_star[d]
        new = root(trees.minima[n, h], trees.off_min) + weights.W2T[d, h]
        moved |= update(trees.maxima[n, d], trees.off_max, h, new, True)
    if moved:
        _scores(trees.maxima[n], trees.off_max, z)
    return moved


@njit(cache=True)
def _refresh(n, X, y, weights, grad, trees, losses, z):
    """Repair sample n's trees; losses[n] is its new loss, or −1 where no score of it moved."""
    losses[n] = -1.0
    if _refresh_sample(n, X, weights, grad, trees, z):
        losses[n] = sample_loss(z, y[n])


@njit(cache=True, parallel=True, within=True)
def _refresh_parallel(X, y, weights, grad, trees, losses):
    for n in prange(X.shape[0]):
        _refresh(n, X, y, weights, grad, trees, losses, np.empty(grad.z.size, grad.z.dtype))


@njit(cache=True)
def _step(k, X, y, weights, grad, trees, rule, linear_every, t, journal, loss, sample, step):
    """Iteration k's entries of loss, sample and step; a signal."""
    loss[k] = root(trees.losses, trees.off_loss)
    n = winner(trees.losses, trees.off_loss)
    sample[k], step[k] = n, 0.0
    if loss[k] <= rule.target:
        return _TARGET
    if not math.isfinite(loss[k]):
        return _OVERFLOW
    _scores(trees.maxima[n], trees.off_max, grad.z)
    for d in range(grad.z.size):
        grad.h_star[d] = winner(trees.maxima[n, d], trees.off_max)
        grad.i_star[d] = winner(trees.minima[n, grad.h_star[d]], trees.off_min)
    step[k] = descend(weights, grad, X[n], y[n], loss[k], t + k, rule, linear_every, journal, k)
    return _STATIONARY if step[k] == 0.0 else _GOES_ON


@njit(cache=True)
def _settle(trees, losses):
    """The losses that moved enter the tree over all of them."""
    for n in range(losses.size):
        if losses[n] >= 0.0:
            update(trees.losses, trees.off_loss, n, losses[n], True)


@njit(cache=True)
def tree_block(
    X, y, weights, grad, trees, scratch, rule, linear_every, t, journal, loss, sample, step
):
    """Fill loss, sample and step, one iteration each; returns (iterations done, signal).

    After a step all trees are repaired: O(N·(C·log P + C²·log H)), more when W0 moves.
    """
    z = np.empty(grad.z.size, grad.z.dtype)
    for k in range(loss.size):
        signal = _step(
            k, X, y, weights, grad, trees, rule, linear_every, t, journal, loss, sample, step
        )
        if signal != _GOES_ON:
            return k + 1, signal
        for n in range(X.shape[0]):
            _refresh(n, X, y, weights, grad, trees, scratch, z)
        _settle(trees, scratch)
    return loss.size, _GOES_ON


@alone
@njit(cache=True)
def tree_block_parallel(
    X, y, weights, grad, trees, scratch, rule, linear_every, t, journal, loss, sample, step
):
    """`tree_block` with the samples spread over the threads."""
    for k in range(loss.size):
        signal = _step(
            k, X, y, weights, grad, trees, rule, linear_every, t, journal, loss, sample, step
        )
        if signal != _GOES_ON:
            return k + 1, signal
        _refresh_parallel(X, y, weights, grad, trees, scratch)
        _settle(trees, scratch)
    return loss.size, _GOES_ON
