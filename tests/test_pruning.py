"""Pruning of hidden units that determine no score."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import maxplus
from maxplus import LMMClassifier, SubgradientLMMClassifier
from maxplus.models import LMM
from maxplus.models.additive import dominated_units, with_units


def random_model(rng, P=3, H=8, C=3):
    """Return a model with small integer weights, so that ties and unused units are common."""
    W0 = rng.choice([-2.0, -1.0, 1.0, 2.0], 2 * P)
    return LMM(W0, rng.integers(-2, 3, (2 * P, H)) * 1.0, rng.integers(-3, 4, (H, C)) * 1.0)


def count_activations(model, X):
    return np.bincount(model.active_path(X).unit.ravel(), minlength=model.n_hidden)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 7, 200])
def test_activation_counts_match_active_paths(dtype, n):
    rng = np.random.default_rng(n)
    model = random_model(rng)
    model = LMM(*(W.astype(dtype) for W in (model.W0, model.W1, model.W2)))
    X = rng.integers(-3, 4, (n, 3)).astype(dtype)
    assert np.array_equal(model.activation_counts(X), count_activations(model, X))
    assert model.activation_counts(X).sum() == 3 * n


@given(st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_provably_unused_units_change_no_score(seed):
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    useless = dominated_units(model)
    assert not useless.all()
    # Sums of these values are exact.
    X = np.concatenate([rng.integers(-9, 10, (300, 3)), rng.integers(-900, 900, (300, 3)) / 8])
    smaller = with_units(model, np.flatnonzero(~useless))
    assert np.array_equal(smaller.scores(X), model.scores(X))


def test_unused_units_are_found():
    rng = np.random.default_rng(0)
    model = random_model(rng, H=4)
    W1 = np.concatenate([model.W1, model.W1[:, :1], model.W1[:, 1:2] - 0.5], axis=1)
    W2 = np.concatenate([model.W2, model.W2[:1], model.W2[1:2] + 0.25])
    more = LMM(model.W0, W1, W2)  # A copy of unit 0, and unit 1 lowered by 1/4.
    assert np.array_equal(np.flatnonzero(dominated_units(more)[4:]), [0, 1])
    assert dominated_units(more)[:4].sum() == dominated_units(model).sum()


@pytest.mark.parametrize(
    "clf",
    [
        LMMClassifier(100, warmup_epochs=20, random_state=0),
        SubgradientLMMClassifier(100, max_iter=200, random_state=0),
    ],
    ids=lambda clf: type(clf).__name__,
)
def test_pruning_keeps_training_scores(iris, clf, tmp_path):
    clf.fit(iris.X, iris.y)
    assert np.array_equal(clf.unit_activation_counts_, count_activations(clf.model_, iris.X))
    scores, certified = clf.decision_function(iris.X), clf.perfect_fit_
    clf.save(tmp_path / "m")
    again = maxplus.load(tmp_path / "m")
    dropped, provable, left = clf.prune()
    assert dropped > 0
    assert provable <= dropped
    assert left == clf.n_hidden_ == 100 - dropped
    assert np.array_equal(clf.decision_function(iris.X), scores)
    assert (clf.unit_activation_counts_ > 0).all()
    assert clf.perfect_fit_ == certified
    assert clf.prune() == (0, 0, left)
    if hasattr(clf, "prototypes_"):
        assert len(clf.prototypes_) == left
    clf.explain(iris.X[:2])
    clf.save(tmp_path / "m2")
    assert maxplus.load(tmp_path / "m2").n_hidden_ == left
    # Activation counts are saved.
    assert again.prune() == (dropped, provable, left)
    assert np.array_equal(again.W1_, clf.W1_)


def test_provable_pruning_changes_no_prediction(iris):
    clf = LMMClassifier(60, warmup_epochs=20, random_state=1).fit(iris.X, iris.y)
    X = np.random.default_rng(0).uniform(-2, 10, (500, 4))
    before = clf.decision_function(X)
    dropped, provable, left = clf.prune(only_provable=True)
    assert dropped == provable
    assert left == 60 - dropped
    assert np.allclose(clf.decision_function(X), before, rtol=1e-12)
