"""Bounds on losses, lane by lane: odds = exp(loss) − 1 = Σ_{d≠y} exp(z_d − z_y).

Odds order samples as losses do, keep their relative precision when losses are
tiny, and need one exponential per wrong class.
"""

import math

import numpy as np

from maxplus._compile.intrinsics import exp32, fmax, fmin, use_widest_vectors
from maxplus._compile.jit import inner
from maxplus.training.engines.sparse._minima import lane_max

RESOLVED = np.float32(-1.0)

# More than the errors of one term: exp32's, and the rounded argument (|x| ≤ 87).
_SLACK = 1.00004


@inner
def _exp(x):
    """exp(x) with x moved into [−80, 87]."""
    return exp32(fmin(fmax(x, np.float32(-80.0)), np.float32(87.0)))


@inner
def _add_odds(lead, rest, own, odds):
    """Add one wrong class's term; O(B)."""
    use_widest_vectors()
    for q in range(odds.size):
        odds[q] += _exp(np.float32(fmax(lead[q], rest[q]) - own[q]))


@inner
def _slack(n_classes):
    """More than all errors of odds together: those of the terms and those of their sum."""
    return np.float32(_SLACK + 1.2e-7 * n_classes)


@inner
def odds_bounds(label, lanes, lead, rest, odds):
    """odds[q] ≥ exp(loss) − 1 for each lane of a chunk; O(B·C).

    Wrong scores enter with upper bounds, the true one with a lower bound, and
    odds grow with the former and fall with the latter. Differences above 87
    would overflow: they, and only they, give infinity.
    """
    odds[:] = np.float32(0.0)
    own = lead[label]
    for d in range(lead.shape[0]):
        if d != label:
            _add_odds(lead[d], rest[d], own, odds)
    huge, slack = np.float32(math.exp(86.0)), _slack(lead.shape[0])
    for q in range(odds.size):
        odds[q] = np.float32(np.inf) if odds[q] >= huge else odds[q] * slack
    odds[lanes:] = RESOLVED


@inner
def _largest_share(lead, rest, own, odds):
    """The largest term of one wrong class, as a part of 1 + odds, over the lanes; O(B)."""
    use_widest_vectors()
    most = np.float32(0.0)
    for q in range(odds.size):
        term = _exp(np.float32(fmax(lead[q], rest[q]) - own[q]))
        most = fmax(most, term / (np.float32(1.0) + odds[q]))
    return most


@inner
def share_bounds(label, lanes, lead, rest, odds, share):
    """share[d] ≥ exp(z_d − z_y) / (1 + odds) in every lane, for the bounds behind odds; O(B·C)."""
    finite, slack = lane_max(odds) < np.inf, _slack(lead.shape[0])
    for d in range(lead.shape[0]):
        share[d] = 1.0
        if finite and d != label:
            most = _largest_share(lead[d, :lanes], rest[d, :lanes], lead[label, :lanes], odds)
            share[d] = min(1.0, np.float64(most * slack * slack))


@inner
def loss_bound(odds):
    """The loss that belongs to the odds, rounded up; −inf for resolved lanes."""
    if odds < 0:
        return -np.inf
    return math.log1p(np.float64(odds)) * (1.0 + 1e-12)
