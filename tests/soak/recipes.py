"""Whole fits: what an estimator says of itself is so, in memory and in a file."""

import numpy as np

import maxplus
from maxplus import (
    LipschitzInterpolator,
    LMMClassifier,
    LMMEnsembleClassifier,
    LMMRegressor,
    SubgradientLMMClassifier,
)
from maxplus.models import LOG2
from maxplus.training import Status
from soak.problems import samples


def recipes(rng, folder):
    """A classifier of any kind and a regression on random rows, sorted out or not."""
    X, y = samples(rng, most=80)
    clf = _classifier(rng)
    try:
        clf.fit(X, y)
    except ValueError as error:
        if "scale" not in str(error):
            raise
        return {"refused": 1}
    assert Status.of(clf.status_).message == clf.status_message_
    right = clf.predict(X) == y
    assert right.all() or not clf.perfect_fit_
    assert right[clf.training_losses_ < LOG2].all()
    assert np.isfinite(clf.predict_proba(X)).all()
    clf.save(folder / "model")
    again = maxplus.load(folder / "model")
    assert np.array_equal(again.decision_function(X), clf.decision_function(X))
    Z = clf.model_.scores(X)
    clf.prune()
    assert np.array_equal(clf.model_.scores(X), Z)
    return {"classifiers": 1, "regressions": _regression(rng, X)}


def _classifier(rng):
    seed = int(rng.integers(2**31))
    polish = [None, "auto", "log2", 0.3][rng.integers(4)]
    own = {"slope": float(rng.choice([0.5, 3.0, 20.0])), "random_state": seed}
    brief = {
        **own,
        "warmup_epochs": 3,
        "polish": polish,
        "standardize": rng.random() < 0.8 and "auto",
    }
    n_hidden = int(rng.integers(1, 20))
    kinds = [
        lambda: LMMClassifier(n_hidden, **brief),
        lambda: LMMEnsembleClassifier(
            LMMClassifier(n_hidden, **brief | {"random_state": None}), 2, random_state=seed
        ),
        lambda: SubgradientLMMClassifier(n_hidden, max_iter=50, **own),
    ]
    return kinds[rng.integers(3)]()


def _regression(rng, X):
    """Bounds of a learned curve never cross, and pyramids pass through all points."""
    X = np.unique(X / np.maximum(np.abs(X).max(axis=0), 1e-300), axis=0)
    target = X @ rng.normal(size=X.shape[1]) + rng.normal(0, 0.1, len(X))
    seed = int(rng.integers(2**31))
    reg = LMMRegressor(epochs=3, random_state=seed).fit(X, target)
    lower, upper = reg.predict_interval(X)
    assert (lower <= upper).all()
    exact = LipschitzInterpolator().fit(X, target)
    lower, upper = exact.predict_interval(rng.normal(size=X.shape))
    assert (lower <= upper).all()
    return 2
