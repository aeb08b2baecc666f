"""Kernels of a step of compiled engines and of the polish: subgradient, step size, update.

The dense engine computes the same steps with `Subgradient` objects, for any model. All engines use
`step_size` of `maxplus.training.steps` and `updates_w0`.
"""

from typing import NamedTuple

import numpy as np

from maxplus._compile.jit import inner, njit
from maxplus.models._lmm_kernels import squared_norm, subgradient_entries, sum_of_squares
from maxplus.training.steps import step_size

LAYER_0, LAYER_1, LAYER_2 = 0, 1, 2
# Position of an entry that is not in a sum of subgradients.
_ABSENT = -1


@njit(cache=True)
def updates_w0(t, w0_update_interval):
    """Return whether iteration t updates W0."""
    return w0_update_interval > 0 and (t + 1) % w0_update_interval == 0


class Journal(NamedTuple):
    """Old values of all entries that changed in a block, in the order of the changes.

    The weights of any iteration of the block can be restored from it, so that the best iterate is
    kept without copying the weights each time it improves.
    """

    n: np.ndarray  # (1,): number of entries
    iteration: np.ndarray  # within the block
    layer: np.ndarray  # LAYER_0, LAYER_1 or LAYER_2
    row: np.ndarray  # in the matrices of `_layers`
    column: np.ndarray
    old: np.ndarray  # value before the change, float64


def empty_journal(n_iterations: int, n_entries: int) -> Journal:
    """Return an empty journal for iterations that change up to ``n_entries`` of each layer."""
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
def _layers(weights):
    """Return W0 (2P, 1), W1T and W2T as C-contiguous matrices, which have one Numba type."""
    return weights.W0.reshape(weights.W0.size, 1), weights.W1T, weights.W2T


@njit(cache=True)
def undo(weights, journal, since):
    """Undo all changes of the iterations ``since`` and later of a block."""
    layers = _layers(weights)
    k = journal.n[0] - 1
    while k >= 0 and journal.iteration[k] >= since:
        layers[journal.layer[k]][journal.row[k], journal.column[k]] = journal.old[k]
        k -= 1


@njit(cache=True)
def _move_entry(weights, layer, row, column, change, journal, iteration):
    """Subtract ``change`` from an entry, rounded once, and record the old value; O(1).

    The journal may be None.
    """
    W = _layers(weights)[layer]
    old = W[row, column]
    W[row, column] = np.float64(old) - change
    if journal is not None:
        k = journal.n[0]
        journal.iteration[k], journal.layer[k] = iteration, layer
        journal.row[k], journal.column[k], journal.old[k] = row, column, old
        journal.n[0] = k + 1


@njit(cache=True)
def move(weights, grad, alpha, journal, iteration):
    """Update the weights, W ← W − α·grad, for the subgradient of one sample; O(C).

    The journal may be None.
    """
    for d in range(grad.e.size):
        _move_entry(weights, LAYER_2, d, grad.h_star[d], alpha * grad.e[d], journal, iteration)
    for j in range(grad.n[0]):
        h, i = grad.unit1[j], grad.row1[j]
        _move_entry(weights, LAYER_1, h, i, alpha * grad.value1[j], journal, iteration)
    for j in range(grad.n[1]):
        _move_entry(weights, LAYER_0, grad.row0[j], 0, alpha * grad.value0[j], journal, iteration)


@njit(cache=True)
def descend(weights, grad, x, y, loss, t, rule, w0_update_interval, journal, iteration):
    """Take a step on one sample, W ← W − α·(subgradient of its loss), and return α; O(C²).

    ``grad`` contains z, h_star and i_star of the sample; its other arrays are filled. The journal
    may be None. α is 0 if no step is taken (see `step_size`).
    """
    subgradient_entries(x, y, updates_w0(t, w0_update_interval), grad)
    alpha = step_size(rule, t, loss, squared_norm(grad))
    if alpha != 0.0:
        move(weights, grad, alpha, journal, iteration)
    return alpha


# The functions below take a step along the mean of the subgradients of several samples. ``total``
# is a `sparse._state.Total`. Values are added in the order of `Subgradient.mean` and
# `Subgradient.squared_norm`.


@inner
def _add_entry(total, layer, place, row, column, value):
    j = place[row, column]
    if j == _ABSENT:
        j = total.n[layer]
        total.n[layer] += 1
        place[row, column] = j
        total.row[layer, j], total.column[layer, j], total.value[layer, j] = row, column, 0.0
    total.value[layer, j] += value


@inner
def add_sample(grad, total):
    """Add the subgradient of one sample's loss to the sum; O(C)."""
    for d in range(grad.e.size):
        _add_entry(total, LAYER_2, total.place2, d, grad.h_star[d], grad.e[d])
    for j in range(grad.n[0]):
        _add_entry(total, LAYER_1, total.place1, grad.unit1[j], grad.row1[j], grad.value1[j])
    for j in range(grad.n[1]):
        _add_entry(total, LAYER_0, total.place0, grad.row0[j], 0, grad.value0[j])


@inner
def descend_mean(weights, total, n_samples, loss, t, rule, journal, iteration):
    """Take a step, W ← W − α·(total / n_samples), clear the sum, and return α; O(n_samples·C).

    α is 0 if no step is taken (see `step_size`).
    """
    norm = 0.0
    for layer in (LAYER_2, LAYER_1, LAYER_0):
        value, n = total.value[layer], total.n[layer]
        for j in range(n):
            value[j] /= n_samples
        norm += sum_of_squares(value, n)
    alpha = step_size(rule, t, loss, norm)
    places = total.place0, total.place1, total.place2
    for layer in (LAYER_2, LAYER_1, LAYER_0):
        for j in range(total.n[layer]):
            row, column = total.row[layer, j], total.column[layer, j]
            places[layer][row, column] = _ABSENT
            if alpha != 0.0:
                change = alpha * total.value[layer, j]
                _move_entry(weights, layer, row, column, change, journal, iteration)
        total.n[layer] = 0
    return alpha
