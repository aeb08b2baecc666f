"""One step of Adam over all weights."""

import numpy as np
from numba import njit, prange

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
WEIGHTS_PER_TASK = 16_384


@njit(cache=True, error_model="numpy")
def move_serial(theta, m, v, g, rate, unbias_m, unbias_v):
    """One step of Adam, in place; O(weights), one pass over memory."""
    for i in range(theta.size):
        m[i] += (1 - BETA1) * (g[i] - m[i])
        v[i] += (1 - BETA2) * (g[i] * g[i] - v[i])
        theta[i] -= rate * (m[i] / unbias_m) / (np.sqrt(v[i] / unbias_v) + EPSILON)


@njit(cache=True, parallel=True)
def move_parallel(theta, m, v, g, rate, unbias_m, unbias_v):
    """`move_serial` with parts of the weights spread over the threads."""
    for task in prange((theta.size + WEIGHTS_PER_TASK - 1) // WEIGHTS_PER_TASK):
        part = slice(task * WEIGHTS_PER_TASK, (task + 1) * WEIGHTS_PER_TASK)
        move_serial(theta[part], m[part], v[part], g[part], rate, unbias_m, unbias_v)
