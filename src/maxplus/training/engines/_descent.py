"""One step of descent on an LMM, as compiled engines take it, and how to undo it."""

from typing import NamedTuple

import numpy as np

from maxplus._compile.jit import njit
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


def empty_journal(n_iterations: int, n_entries: int) -> Journal:
    """Room for the moves of a block: in an iteration ``n_entries`` of each of three layers."""
    size = 3 * n_entries * n_iterations
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
def fall(W, row, column, change):
    """One entry falls by ``change`` and is rounded once; O(1)."""
    W[row, column] = np.float64(W[row, column]) - change


@njit(cache=True)
def move(weights, layer, row, column, change, journal, iteration):
    """One entry of a layer falls by ``change``; the journal keeps what it was; O(1)."""
    if layer == LAYER_0:
        _note(journal, iteration, layer, row, column, weights.W0[row])
        weights.W0[row] = np.float64(weights.W0[row]) - change
    elif layer == LAYER_1:
        _note(journal, iteration, layer, row, column, weights.W1T[row, column])
        fall(weights.W1T, row, column, change)
    else:
        _note(journal, iteration, layer, row, column, weights.W2T[row, column])
        fall(weights.W2T, row, column, change)


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
    for d in range(grad.e.size):
        move(weights, LAYER_2, d, grad.h_star[d], alpha * grad.e[d], journal, iteration)
    for j in range(grad.n[0]):
        h, i = grad.unit1[j], grad.row1[j]
        move(weights, LAYER_1, h, i, alpha * grad.value1[j], journal, iteration)
    for j in range(grad.n[1]):
        move(weights, LAYER_0, grad.row0[j], 0, alpha * grad.value0[j], journal, iteration)
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
