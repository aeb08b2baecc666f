"""The exact worst-case polish: bring every sample's loss below a level."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus._jit import frozen
from maxplus.models import LMM
from maxplus.models._lmm_kernels import empty_gradient
from maxplus.training import _polish_kernels
from maxplus.training.engines._descent import empty_journal
from maxplus.training.steps import polyak

# Sweeps aim somewhat below the level, so that steps for some samples do not lift others over it.
AIM = 0.72
DAMPING = 0.5
MAX_SWEEPS = 50


class Polished(NamedTuple):
    """The model, each sample's loss, how many rounds and steps it took, and who is not below."""

    model: LMM
    losses: NDArray
    rounds: int
    steps: int
    above: NDArray

    @property
    def succeeded(self) -> bool:
        """Whether every loss is below the level."""
        return self.above.size == 0


def polish(
    model: LMM,
    X: NDArray,
    y: NDArray,
    rng: np.random.Generator,
    *,
    level: float = math.log(2.0),
    max_rounds: int = 30,
    tell: Callable[[int, float, int], bool | None] | None = None,
) -> Polished:
    """Lower the losses of all samples below ``level``, with as few and small moves as it takes.

    Each round evaluates all losses with the dense forward pass, adds the samples
    above 0.72·level to an active set, and sweeps over that set with damped Polyak steps
    towards 0.72·level until none of them is above it. It ends when every loss is
    below ``level``; then a level of log 2 or less is the paper's certificate. The
    model with the fewest samples above is kept. O(N·P·H) per round, and O(P·H) per
    active sample and sweep; W0 does not move.

    Parameters
    ----------
    model : LMM, where to start; it is not changed
    X, y : samples and classes 0..C−1
    rng : shuffles the active set
    level : what every loss must be below
    max_rounds : when to give up; the samples that are still above are reported
    tell : called with the round, the maximum loss and how many are above; True ends it
    """
    model = model.copy()
    X = np.ascontiguousarray(X, model.dtype)
    rule = polyak(AIM * level)
    grad = empty_gradient(model.n_classes, model.dtype)
    journal = empty_journal(1, model.n_classes)
    active = np.zeros(len(y), bool)
    steps = 0
    best: Polished | None = None
    for n_round in range(max_rounds + 1):
        losses = model.losses(X, y)
        above = np.flatnonzero(~(losses < level))
        if best is None or (above.size, losses.max()) < (best.above.size, best.losses.max()):
            best = Polished(model.copy(), losses, n_round, steps, above)
        stop = tell(n_round, float(losses.max()), above.size) if tell is not None else False
        if not above.size or stop or n_round == max_rounds:
            break
        active |= losses > rule.target
        order = np.flatnonzero(active)
        for _ in range(MAX_SWEEPS):
            rng.shuffle(order)
            moved = _polish_kernels.sweep(
                frozen(X), frozen(y), order, model.weights, grad, rule, DAMPING, journal
            )
            steps += moved
            if not moved:
                break
    assert best is not None
    return best._replace(rounds=n_round, steps=steps)
