"""The mean of several samples' subgradients, entry by entry, and the step along it.

The same sums in the same order as `Subgradient.mean` and `Subgradient.squared_norm`.
"""

from maxplus._compile.jit import inner
from maxplus.models._lmm_kernels import sum_of_squares
from maxplus.training.engines._descent import LAYER_0, LAYER_1, LAYER_2, move
from maxplus.training.engines.sparse._state import NONE
from maxplus.training.steps import step_size


@inner
def _add(total, layer, place, row, column, value):
    j = place[row, column]
    if j == NONE:
        j = total.n[layer]
        total.n[layer] += 1
        place[row, column] = j
        total.row[layer, j], total.column[layer, j], total.value[layer, j] = row, column, 0.0
    total.value[layer, j] += value


@inner
def add_sample(grad, total):
    """One more sample's subgradient joins the sum; O(C)."""
    for d in range(grad.e.size):
        _add(total, LAYER_2, total.place2, d, grad.h_star[d], grad.e[d])
    for j in range(grad.n[0]):
        _add(total, LAYER_1, total.place1, grad.unit1[j], grad.row1[j], grad.value1[j])
    for j in range(grad.n[1]):
        _add(total, LAYER_0, total.place0, grad.row0[j], 0, grad.value0[j])


@inner
def _forget(total, layer, place):
    for j in range(total.n[layer]):
        place[total.row[layer, j], total.column[layer, j]] = NONE
    total.n[layer] = 0


@inner
def descend_along(weights, total, n_samples, loss, t, rule, journal, iteration):
    """W ← W − α·(the mean of the samples in ``total``), which is empty then; returns α; O(k·C).

    α = 0 says that the subgradient is zero and nothing moved.
    """
    n, value = total.n, total.value
    for layer in (LAYER_2, LAYER_1, LAYER_0):
        for j in range(n[layer]):
            value[layer, j] /= n_samples
    norm = (
        sum_of_squares(value[LAYER_2], n[LAYER_2])
        + sum_of_squares(value[LAYER_1], n[LAYER_1])
        + sum_of_squares(value[LAYER_0], n[LAYER_0])
    )
    alpha = 0.0
    if norm > 0.0:
        alpha = step_size(rule, t, loss, norm)
        for layer in (LAYER_2, LAYER_1, LAYER_0):
            for j in range(n[layer]):
                row, column = total.row[layer, j], total.column[layer, j]
                move(weights, layer, row, column, alpha * value[layer, j], journal, iteration)
    _forget(total, LAYER_2, total.place2)
    _forget(total, LAYER_1, total.place1)
    _forget(total, LAYER_0, total.place0)
    return alpha
