"""One step of descent on an LMM, as compiled engines take it, and how to undo it."""

from typing import NamedTuple

import numpy as np
from numba import njit

from maxplus.models._lmm_kernels import squared_norm, subgradient_entries
from maxplus.training.steps import step_size

LAYER_0, LAYER_1, LAYER_2 = 0, 1, 2


class Journal(NamedTuple):
    """Old values of all entries that moved in a block, in the order of the moves.

    With it the weights of any iteration of the block can be restored, so the
    best iterate is kept without copying the weights each time it improves.
    """

    n: np.ndarray  # (1,): rows in use
    iteration: np.ndarray  # within the block
    layer: np.ndarray
    row: np.ndarray
    column: np.ndarray
    old: np.ndarray


def empty_journal(n_iterations: int, n_classes: int) -> Journal:
    """Room for the moves of a block: at most C entries in each of three layers."""
    size = 3 * n_classes * n_iterations
    return Journal(
        np.zeros(1, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int8),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size),
    )


@njit(cache=True)
def _note(journal, iteration, layer, row, column, old):
    k = journal.n[0]
    journal.iteration[k], journal.layer[k] = iteration, layer
    journal.row[k], journal.column[k], journal.old[k] = row, column, old
    journal.n[0] = k + 1


@njit(cache=True)
def linear_moves(t, linear_every):
    """Whether W0 takes part in iteration t."""
    return linear_every > 0 and (t + 1) % linear_every == 0


@njit(cache=True)
def descend(weights, grad, x, y, loss, t, rule, linear_every, journal, iteration):
    """W ← W − α·(subgradient of the sample's loss); returns α; O(C²).

    ``grad`` comes with the sample's z, h_star and i_star and leaves with all
    moved entries. α = 0 says that the subgradient is zero and nothing moved.
    """
    subgradient_entries(x, y, linear_moves(t, linear_every), grad)
    norm = squared_norm(grad)
    if norm == 0.0:
        return 0.0
    alpha = step_size(rule, t, loss, norm)
    W0, W1T, W2T = weights.W0, weights.W1T, weights.W2T
    for d in range(grad.e.size):
        h = grad.h_star[d]
        _note(journal, iteration, LAYER_2, d, h, W2T[d, h])
        W2T[d, h] = np.float64(W2T[d, h]) - alpha * grad.e[d]
    for j in range(grad.n[0]):
        i, h = grad.row1[j], grad.unit1[j]
        _note(journal, iteration, LAYER_1, h, i, W1T[h, i])
        W1T[h, i] = np.float64(W1T[h, i]) - alpha * grad.value1[j]
    for j in range(grad.n[1]):
        i = grad.row0[j]
        _note(journal, iteration, LAYER_0, i, 0, W0[i])
        W0[i] = np.float64(W0[i]) - alpha * grad.value0[j]
    return alpha


@njit(cache=True)
def undo(weights, journal, since):
    """Take back all moves of the block's iterations ``since`` and later."""
    k = journal.n[0] - 1
    while k >= 0 and journal.iteration[k] >= since:
        layer, row, column = journal.layer[k], journal.row[k], journal.column[k]
        if layer == LAYER_0:
            weights.W0[row] = journal.old[k]
        elif layer == LAYER_1:
            weights.W1T[row, column] = journal.old[k]
        else:
            weights.W2T[row, column] = journal.old[k]
        k -= 1
