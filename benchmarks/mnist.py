"""The data and the start that all MNIST benchmarks share: the paper's size, slope and classes."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from maxplus import datasets
from maxplus.models import LMM
from maxplus.models.starts import choose_prototypes, prototype_lmm
from maxplus.training import StepRule, constant, paper_alpha, polyak, two_phase
from maxplus.training.engines import Engine
from maxplus.training.result import Block

N_HIDDEN, SLOPE, N_CLASSES, LINEAR_EVERY = 500, 4.0, 10, 100
RESULTS = Path(__file__).parent / "results"


def load_mnist() -> tuple[NDArray, NDArray]:
    """All training images, scaled to [0, 1] in float32, and their labels."""
    data = datasets.load_mnist()
    return data.X_train, data.y_train


def start(X: NDArray, y: NDArray, n_hidden: int = N_HIDDEN) -> LMM:
    """The paper's start, from random images."""
    chosen = choose_prototypes(y, n_hidden, np.random.default_rng(0))
    return prototype_lmm(X[chosen], y[chosen], N_CLASSES, SLOPE, SLOPE)


def paper_rule(n_polyak: int) -> StepRule:
    """Polyak steps first, constant steps after."""
    return two_phase(polyak(), constant(paper_alpha(0.1, N_CLASSES)), n_polyak)


def advance(engine: Engine, n: int, size: int = 200) -> float:
    """Seconds per iteration over n iterations, in blocks as training makes them."""
    began = time.perf_counter()
    for done in range(0, n, size):
        engine.advance(Block(min(size, n - done)))
    return (time.perf_counter() - began) / n
