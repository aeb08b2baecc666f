"""Random classification problems, ordinary and extreme."""

import numpy as np

from maxplus.models.initialization import (
    choose_prototypes,
    median_distance,
    prototype_lmm,
    random_lmm,
)
from maxplus.training import constant, level, paper_alpha, polyak, two_phase


def samples(rng, most=120, dtype=np.float64):
    """X and y: normal, on a coarse grid, repeated, constant in a feature, tiny or huge."""
    n_classes = int(rng.integers(2, 6))
    N, P = int(rng.integers(n_classes, most)), int(rng.integers(1, 10))
    X = rng.normal(size=(N, P))
    kind = rng.integers(5)
    if kind == 1:
        X = rng.integers(-2, 3, (N, P)) / 2.0
    elif kind == 2:
        X = X[rng.integers(N, size=N)]
    elif kind == 3:
        X[:, rng.integers(P)] = rng.choice([0.0, 1.0, -7.5])
    elif kind == 4:
        X *= 10.0 ** rng.integers(-6, 7, P)
    y = rng.integers(n_classes, size=N)
    y[:n_classes] = np.arange(n_classes)  # each class has a sample
    X[y == 0] += rng.choice([0.0, 1.0, 5.0]) * np.abs(X).max()
    return np.ascontiguousarray(X, dtype), y


def lmm(rng, X, y):
    """Return a model to start from: pyramids, or weights that fit nothing."""
    n_classes, H = int(y.max()) + 1, int(rng.integers(1, 25))
    slope = float(rng.choice([0.5, 4.0, 50.0])) / median_distance(X, rng)
    if rng.random() < 0.8:
        chosen = choose_prototypes(y, H, rng)
        return prototype_lmm(X[chosen], y[chosen], n_classes, slope, slope)
    shape = (X.shape[1], H, n_classes)
    return random_lmm(str(rng.choice(["gaussian", "uniform"])), shape, slope, slope, X.dtype, rng)


def step_rule(rng, n_iterations, n_classes):
    """Any of them."""
    small = constant(paper_alpha(float(rng.choice([0.01, 0.1, 1.0])), n_classes))
    rules = [
        polyak(float(rng.choice([0.0, 0.3]))),
        small,
        two_phase(polyak(), small, n_iterations // 2),
        level(n_iterations),
    ]
    return rules[rng.integers(len(rules))]
