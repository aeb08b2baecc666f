"""One number that turns scores into probabilities that hold on rows not trained on."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from maxplus.distributed import current

# How far a temperature goes in either direction.
LEAST, MOST = 0.02, 50.0
# Halvings of an interval of logarithms: far below what a temperature is known to.
HALVINGS = 40


def losses_of(Z: NDArray, y: NDArray) -> NDArray:
    """−log softmax(z)_y of each row; O(N·C)."""
    Z = Z - Z.max(axis=1, keepdims=True)
    return np.log(np.exp(Z).sum(axis=1)) - Z[np.arange(len(y)), y]


def temperature(Z: NDArray, y: NDArray, weight: NDArray | None = None) -> float:
    """The t that minimises the mean loss of softmax(t·z) over n held-out rows.

    A share 1 / (n + 2) of each label is spread over all classes (the rule of succession): rows
    that are all right do not promise that every row will be, and t stays finite. O(N·C) for
    each of some twenty values.
    """
    Z = np.asarray(Z, np.float64)
    Z = Z - Z.max(axis=1, keepdims=True)
    doubt, rows = 1.0 / (len(y) + 2), np.arange(len(y))
    own = (1.0 - doubt) * Z[rows, y] + doubt * Z.mean(axis=1)

    def loss(u: float) -> float:
        t = math.exp(u)
        return float(np.average(np.log(np.exp(t * Z).sum(axis=1)) - t * own, weights=weight))

    bounds = math.log(LEAST), math.log(MOST)
    best = minimize_scalar(loss, method="bounded", bounds=bounds, options={"xatol": 1e-3})
    return math.exp(best.x)


def keep_level(wanted: float, Z: NDArray, y: NDArray, level: float) -> float:
    """The temperature nearest to ``wanted`` that leaves every loss below a level.

    They are below it at 1. log Σ exp(t·(z_d − z_y)) is convex in t, and so is the maximum over
    rows, those of all ranks: where it is below the level is an interval around 1, whose end is
    found by halving.
    """
    Z = np.asarray(Z, np.float64)

    def fits(u: float) -> bool:
        worst = float(losses_of(math.exp(u) * Z, y).max(initial=0.0))
        return current().largest(worst) < level

    far = math.log(wanted)
    if fits(far):
        return wanted
    near = 0.0
    for _ in range(HALVINGS):
        middle = (near + far) / 2
        near, far = (middle, far) if fits(middle) else (near, middle)
    return math.exp(near)
