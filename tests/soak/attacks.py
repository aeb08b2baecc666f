"""Certificates under attack, and flips that are claimed."""

import numpy as np

from maxplus.certify import box_bounds, certified_radius
from maxplus.explain import nearest_counterfactuals
from maxplus.models import LMM, AdditiveLMM
from maxplus.training import MaxLoss, TrainingProblem, polyak, train
from maxplus.training.engines import DenseEngine
from soak.problems import lmm, samples

ATTACKS, ROUNDS = 40, 4


def network(rng, X, y):
    """A trained or an untrained one, alone or in the mean of two."""

    def one():
        start = lmm(rng, X, y)
        if rng.random() < 0.5:
            engine = DenseEngine(start, TrainingProblem(X, y, MaxLoss(), polyak(), 1))
            train(engine, 30)
            start = engine.best
        return start

    return AdditiveLMM.mean([one(), one()]) if rng.random() < 0.2 else one()


def certificates(rng, folder):
    """No row changes its class inside its radius; no score leaves its bounds over a box."""
    X, y = samples(rng, most=60)
    model = network(rng, X, y)
    scale = rng.choice([0.0, 1.0, 3.0], X.shape[1]) if rng.random() < 0.5 else np.ones(X.shape[1])
    radius = np.minimum(certified_radius(model, X, scale), 1e6)
    predicted = model.scores(X).argmax(axis=1)
    reach = 0.999999 * radius[:, None] * scale
    attacks = 0
    for _ in range(ATTACKS):
        # Corners, faces and single features: minima and maxima have their extremes there.
        moves = rng.choice([-1.0, 1.0], X.shape)
        kind = rng.integers(3)
        if kind == 1:
            moves *= rng.random(X.shape)
        elif kind == 2:
            moves *= rng.permutation(X.shape[1]) == 0
        worst = _margin(model, X + reach * moves, predicted)
        for _ in range(ROUNDS):
            # Turn some features round where that brings the row closer to another class.
            turned = np.where(rng.random(X.shape) < 0.3, -moves, moves)
            margin = _margin(model, X + reach * turned, predicted)
            better = margin < worst
            moves[better], worst = turned[better], np.minimum(worst, margin)
        assert (worst >= 0).all(), f"row {int(worst.argmin())} flips within its radius"
        attacks += len(X) * (1 + ROUNDS)
    if not isinstance(model, LMM):
        return {"attacks": attacks}
    eps = float(rng.choice([0.01, 0.1, 1.0]))
    bounds = box_bounds(model, X, eps, scale)
    inside = X + eps * scale * rng.uniform(-1, 1, (10, *X.shape))
    noise = 1e-9 * (1.0 + np.abs(bounds.low).max() + np.abs(bounds.high).max())
    for Z in map(model.scores, inside):
        assert (bounds.low - noise <= Z).all()
        assert (bounds.high + noise >= Z).all()
    return {"attacks": attacks, "points in boxes": 10 * len(X)}


def _margin(model, X, predicted):
    """By how much the class that was predicted leads; negative where another is ahead."""
    Z = model.scores(X)
    own = Z[np.arange(len(X)), predicted]
    Z[np.arange(len(X)), predicted] = -np.inf
    return own - Z.max(axis=1)


def flips(rng, folder):
    """Every flip that is claimed happens, and no nearer one of any feature is found."""
    X, y = samples(rng, most=25)
    model = network(rng, X, y)
    while not isinstance(model, LMM):
        model = network(rng, X, y)
    found = nearest_counterfactuals(model, X)
    predicted = model.scores(X).argmax(axis=1)
    rows = np.flatnonzero(found.feature >= 0)
    changed = X[rows].copy()
    changed[np.arange(len(rows)), found.feature[rows]] = found.value[rows]
    assert (model.scores(changed).argmax(axis=1) == found.becomes[rows]).all()
    looked = 0
    for n in range(len(X)):
        limit = abs(found.value[n] - X[n, found.feature[n]]) if found.feature[n] >= 0 else 1e3
        nearer = X[n] + np.zeros((40 * X.shape[1], 1))
        steps = 0.999 * limit * rng.uniform(-1, 1, (X.shape[1], 40))
        nearer[np.arange(len(nearer)), np.repeat(np.arange(X.shape[1]), 40)] += steps.ravel()
        # A class that only draws level wins if it comes first; that is no flip that is looked for.
        behind = -_margin(model, nearer, np.full(len(nearer), predicted[n]))
        assert (behind <= 1e-9 * (1.0 + np.abs(model.scores(nearer)).max())).all(), f"row {n}"
        looked += len(nearer)
    return {"flips": len(rows), "nearer changes tried": looked}
