"""The tree engine: the algorithm of the paper, with a tree for each minimum and maximum."""

from __future__ import annotations

import math
from typing import NamedTuple, cast

import numpy as np
from numba import prange

from maxplus._compile.jit import njit
from maxplus.models import LMM, Model
from maxplus.models._lmm_kernels import empty_gradient
from maxplus.models._softmax import sample_loss
from maxplus.training.engines.base import CompiledEngine
from maxplus.training.engines.step import Journal, descend
from maxplus.training.problem import TrainingProblem
from maxplus.training.result import Block, Signal
from maxplus.trees._kernels import build, level_offsets, root, update, winner
from maxplus.trees.short_trees import nodes_per_tree

# Number of samples from which a parallel loop in each iteration is faster.
PARALLEL_FROM = 2_000


class Trees(NamedTuple):
    """All trees of a training set, and the offsets of the levels of each kind."""

    minima: np.ndarray  # (N, H, nodes of 2P leaves): λ_i(x_n) + W1[i, h]
    maxima: np.ndarray  # (N, C, nodes of H leaves): g_h(x_n) + W2[h, d]
    losses: np.ndarray  # (nodes of N leaves), float64
    off_min: np.ndarray
    off_max: np.ndarray
    off_loss: np.ndarray


class TreeEngine(CompiledEngine):
    """Engine that stores each minimum and maximum in a Short Computational Tree.

    It minimises the maximum loss. A step costs O(N·(C·log P + C²·log H)) instead of O(N·P·H), plus
    O(N·H·(log P + C·log H)) for each changed slope of W0. The N·H trees of 2P leaves take 376 GB
    for MNIST with 500 hidden units in float32. The paper, which pads leaves to a power of two,
    reports 513 GB.

    Parameters
    ----------
    model : Model
        The model to train, in place.
    problem : TrainingProblem
    """

    name = "tree"
    memory_remedy = (
        "use engine='sparse' or engine='dense', which need no trees, "
        "or fewer hidden units or samples"
    )

    def __init__(self, model: LMM, problem: TrainingProblem) -> None:
        super().__init__(model, problem)
        N, P, H, C = len(problem.y), model.n_features, model.n_hidden, model.n_classes
        off_min, off_max, off_loss = level_offsets(2 * P), level_offsets(H), level_offsets(N)
        self._trees = Trees(
            np.empty((N, H, off_min[-1]), model.dtype),
            np.empty((N, C, off_max[-1]), model.dtype),
            np.empty(off_loss[-1]),
            off_min,
            off_max,
            off_loss,
        )
        self._grad = empty_gradient(C, model.dtype)
        self._scratch = np.empty(N)
        self._is_large = N >= PARALLEL_FROM
        build_all = _build_all if self._is_large else _build_all.serial
        build_all(problem.X, problem.y, model.weights, self._trees)
        build(self._trees.losses, off_loss, True)

    @classmethod
    def bytes_needed(cls, model: Model, problem: TrainingProblem) -> int:
        """Return the memory of all trees and of the best weights, in bytes.

        There are N·H trees of 2P leaves, N·C of H leaves and one of N leaves.
        """
        lmm = cast(LMM, model)
        N, H, C = len(problem.y), lmm.n_hidden, lmm.n_classes
        nodes = N * H * nodes_per_tree(2 * lmm.n_features) + N * C * nodes_per_tree(H)
        losses = 8 * (nodes_per_tree(N) + N)
        return nodes * lmm.dtype.itemsize + losses + super().bytes_needed(model, problem)

    def _run(self, block: Block, journal: Journal) -> tuple[int, int]:
        problem = self.problem
        run = _run_block if self._is_large else _run_block.serial
        return run(
            problem.X,
            problem.y,
            self.model.weights,
            self._grad,
            self._trees,
            self._scratch,
            self.step,
            problem.w0_update_interval,
            self.iteration,
            journal,
            block.loss,
            block.sample,
            block.step,
        )


@njit(cache=True)
def _scores(maxima, off, z):
    """Fill z_d with the root of the tree of class d."""
    for d in range(z.size):
        z[d] = root(maxima[d], off)


@njit(cache=True)
def _loss(z, y):
    """Return the loss of a sample, infinite if a score overflowed; a tree would ignore NaN."""
    loss = sample_loss(z, y)
    return np.inf if math.isnan(loss) else loss


@njit(cache=True)
def _build_sample(n, X, y, weights, trees):
    """Build the trees of sample n by a forward pass; O(P·H)."""
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
    trees.losses[n] = _loss(z, y[n])


@njit(cache=True, parallel=True)
def _build_all(X, y, weights, trees):
    """Build the trees of all samples by a forward pass; O(N·P·H)."""
    # A parallel loop over a NamedTuple of arrays may only contain calls: Numba drops writes
    # that are made there directly (numba #5872).
    for n in prange(X.shape[0]):
        _build_sample(n, X, y, weights, trees)


@njit(cache=True)
def _set_row(n, h, i, X, weights, trees):
    """Update the minimum of unit h after a change of row i, and the maxima that depend on it.

    Return whether a maximum changed.
    """
    value = weights.W0[i] * X[n, i // 2] + weights.W1T[h, i]
    tree = trees.minima[n, h]
    if not update(tree, trees.off_min, i, value, False):
        return False
    has_changed = False
    g = root(tree, trees.off_min)
    for d in range(weights.W2T.shape[0]):
        new = g + weights.W2T[d, h]
        has_changed |= update(trees.maxima[n, d], trees.off_max, h, new, True)
    return has_changed


@njit(cache=True)
def _update_sample(n, X, y, weights, grad, trees, losses):
    """Update the trees of sample n after a step; O(C·log P + C²·log H).

    losses[n] is its new loss, or −1 if no score changed. A changed slope of W0 adds
    O(H·(log P + C·log H)) unless the feature is zero.
    """
    C = grad.z.size
    has_changed = False
    for j in range(grad.n[1]):
        i = grad.row0[j]
        if X[n, i // 2] != 0:
            for h in range(weights.W1T.shape[0]):
                has_changed |= _set_row(n, h, i, X, weights, trees)
    for j in range(grad.n[0]):
        has_changed |= _set_row(n, grad.unit1[j], grad.row1[j], X, weights, trees)
    for d in range(C):
        h = grad.h_star[d]
        new = root(trees.minima[n, h], trees.off_min) + weights.W2T[d, h]
        has_changed |= update(trees.maxima[n, d], trees.off_max, h, new, True)
    losses[n] = -1.0
    if has_changed:
        z = np.empty(C, grad.z.dtype)
        _scores(trees.maxima[n], trees.off_max, z)
        losses[n] = _loss(z, y[n])


@njit(cache=True)
def _step(k, X, y, weights, grad, trees, rule, w0_update_interval, t, journal, loss, sample, step):
    """Take the step of iteration k; fill its entries of loss, sample and step; return a signal."""
    loss[k] = root(trees.losses, trees.off_loss)
    n = winner(trees.losses, trees.off_loss)
    sample[k], step[k] = n, 0.0
    if loss[k] <= rule.target:
        return Signal.TARGET.value
    if not math.isfinite(loss[k]):
        return Signal.OVERFLOW.value
    _scores(trees.maxima[n], trees.off_max, grad.z)
    for d in range(grad.z.size):
        grad.h_star[d] = winner(trees.maxima[n, d], trees.off_max)
        grad.i_star[d] = winner(trees.minima[n, grad.h_star[d]], trees.off_min)
    step[k] = descend(
        weights, grad, X[n], y[n], loss[k], t + k, rule, w0_update_interval, journal, k
    )
    return Signal.STATIONARY.value if step[k] == 0.0 else Signal.CONTINUE.value


@njit(cache=True)
def _update_losses(trees, losses):
    """Update the tree of losses; −1 in ``losses`` means that a loss has not changed."""
    for n in range(losses.size):
        if losses[n] >= 0.0:
            update(trees.losses, trees.off_loss, n, losses[n], True)


@njit(cache=True, parallel=True)
def _run_block(
    X, y, weights, grad, trees, scratch, rule, w0_update_interval, t, journal, loss, sample, step
):
    """Fill loss, sample and step of each iteration; return (number of iterations, signal).

    After each step all trees are updated: O(N·(C·log P + C²·log H)), more if W0 changes.
    """
    for k in range(loss.size):
        signal = _step(
            k, X, y, weights, grad, trees, rule, w0_update_interval, t, journal, loss, sample, step
        )
        if signal != Signal.CONTINUE.value:
            return k + 1, signal
        for n in prange(X.shape[0]):
            _update_sample(n, X, y, weights, grad, trees, scratch)
        _update_losses(trees, scratch)
    return loss.size, Signal.CONTINUE.value
