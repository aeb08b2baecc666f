"""The paper's training as experiments time it: its start, its steps and its sizes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maxplus.models import LMM
from maxplus.models.initialization import choose_prototypes, prototype_lmm
from maxplus.training import (
    MaxLoss,
    StepRule,
    TrainingProblem,
    constant,
    paper_alpha,
    polyak,
    two_phase,
)
from maxplus.training.engines import ENGINES, Engine

N_HIDDEN, SLOPE, LEARNING_RATE, LINEAR_EVERY = 500, 4.0, 0.1, 100


def start(
    X: NDArray, y: NDArray, n_hidden: int = N_HIDDEN, rng: np.random.Generator | None = None
) -> LMM:
    """Prototypes among the samples, with the paper's slope; drawn with the seed 0 by default."""
    chosen = choose_prototypes(y, n_hidden, rng or np.random.default_rng(0))
    return prototype_lmm(X[chosen], y[chosen], int(y.max()) + 1, SLOPE, SLOPE)


def constant_steps(y: NDArray) -> StepRule:
    """α = ε / (2·√(2C))."""
    return constant(paper_alpha(LEARNING_RATE, int(y.max()) + 1))


def two_phases(y: NDArray, n_polyak: int) -> StepRule:
    """Polyak steps towards 0 first, constant steps after."""
    return two_phase(polyak(), constant_steps(y), n_polyak)


def start_and_problem(
    X: NDArray,
    y: NDArray,
    steps: StepRule,
    n_hidden: int = N_HIDDEN,
    w0_update_interval: int = LINEAR_EVERY,
) -> tuple[LMM, TrainingProblem]:
    """Return the initial model and the problem of minimising the maximum loss."""
    return start(X, y, n_hidden), TrainingProblem(X, y, MaxLoss(), steps, w0_update_interval)


def engine_on(
    X: NDArray,
    y: NDArray,
    steps: StepRule,
    engine: str = "sparse",
    n_hidden: int = N_HIDDEN,
    w0_update_interval: int = LINEAR_EVERY,
) -> Engine:
    """An engine at the paper's start, on the maximum loss."""
    return ENGINES[engine](*start_and_problem(X, y, steps, n_hidden, w0_update_interval))
