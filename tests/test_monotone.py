"""Monotone constraints of sums of terms."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from commands import bad, good, settings
from maxplus import LMMClassifier, LMMEnsembleClassifier, LMMRegressor, load
from maxplus.models import AdditiveLMM, FeatureMap
from maxplus.training.smooth.monotone import (
    MonotonicConstraints,
    constrain,
    deactivate_absent_weights,
)
from maxplus.training.smooth.structures import Structure, initial_terms
from strategies import SEEDS, quick

STRUCTURE = Structure(units=2, pairs_per_feature=1.0, boxes=2, box_units=3)


def table(rng, n=300):
    X = rng.normal(size=(n, 3))
    score = 2 * np.tanh(2 * X[:, 0]) - X[:, 1] + 2 * np.sin(3 * X[:, 2])
    return X, score


def violations(difference, rng, signs, scale=3.0, n=400):
    """Return the number of rows whose value changes against a sign if one feature increases."""
    found = 0
    for p in np.flatnonzero(signs):
        low = scale * rng.normal(size=(n, len(signs)))
        high = low.copy()
        high[:, p] += rng.exponential(size=n) * rng.choice([1e-12, 1e-6, 1e-2, 1.0, 100.0], n)
        found += np.count_nonzero((difference(high) - difference(low)) * signs[p] < 0.0)
    return found


@quick(25)
@given(
    seed=SEEDS,
    signs=st.lists(st.sampled_from([-1, 0, 1]), min_size=3, max_size=3),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_sealed_sums_with_random_weights_keep_the_order(seed, signs, dtype):
    rng, signs = np.random.default_rng(seed), np.array(signs)
    X, score = table(rng, 60)
    feature_map = FeatureMap.fit(X)
    start = initial_terms(
        STRUCTURE, feature_map(X), (score > 0).astype(int), 2, [(0, 1), (1, 2)], rng
    )
    monotonic = MonotonicConstraints.from_signs(signs, feature_map)
    model = constrain(start.model, signs)
    for term in model.terms:
        lmm = term.lmm
        lmm.W0[:] *= rng.exponential(size=lmm.W0.shape)
        for W in (lmm.W1, lmm.W2):
            W[np.abs(W) < 1e5] += rng.normal(size=np.count_nonzero(np.abs(W) < 1e5))
    model = deactivate_absent_weights(model, monotonic)
    model = AdditiveLMM(model.terms, 3, feature_map, [0.3, -0.2]).scaled(1.7).astype(dtype)
    scores = model.weights_by_name()
    assert max(np.abs(W).max() for W in scores.values()) < 1e4

    def difference(rows):
        Z = model.scores(rows.astype(dtype))
        return Z[:, 1] - Z[:, 0]

    assert violations(difference, rng, signs) == 0


def test_sum_without_constraints_violates_the_order():
    rng = np.random.default_rng(0)
    X, score = table(rng)
    clf = LMMClassifier(random_state=0).fit(X, score > 0)
    assert violations(clf.decision_function, rng, np.array([1, -1, 1])) > 0


@pytest.mark.parametrize(
    "estimator",
    [
        LMMClassifier(monotonic_cst=[1, -1, 1], random_state=0),
        LMMEnsembleClassifier(
            LMMClassifier(monotonic_cst=[1, -1, 1]), n_estimators=2, random_state=0
        ),
    ],
)
def test_classifiers_keep_the_order_for_all_inputs(estimator, tmp_path):
    rng = np.random.default_rng(1)
    X, score = table(rng)
    clf = clone(estimator).fit(X, score + 0.3 * rng.normal(size=len(X)) > 0)
    signs = np.array([1, -1, 1])
    assert violations(clf.decision_function, rng, signs) == 0
    with pytest.raises(ValueError, match="could violate monotonic_cst"):
        clf.prune()
    clf.prune(only_provable=True)
    assert violations(clf.decision_function, rng, signs) == 0
    clf.save(tmp_path / "model.maxplus")
    assert violations(load(tmp_path / "model.maxplus").decision_function, rng, signs) == 0


def test_constraints_that_hold_cost_little_accuracy():
    rng = np.random.default_rng(2)
    X, score = table(rng, 2000)
    y = score + 0.5 * rng.normal(size=len(X)) > 0
    free = LMMClassifier(random_state=0).fit(X[:1000], y[:1000])
    bound = LMMClassifier(monotonic_cst=[1, -1, 0], random_state=0).fit(X[:1000], y[:1000])
    assert bound.score(X[1000:], y[1000:]) > free.score(X[1000:], y[1000:]) - 0.02


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error"])
def test_regressor_keeps_the_order_for_all_inputs(loss):
    rng = np.random.default_rng(3)
    X, score = table(rng)
    options = {"loss": loss, "epochs": 30, "random_state": 0}
    reg = LMMRegressor(monotonic_cst=[1, -1, -1], **options).fit(X, score)
    assert violations(reg.predict, rng, np.array([1, -1, -1])) == 0
    free = LMMRegressor(monotonic_cst=[1, -1, 0], **options).fit(X, score)
    assert free.score(X, score) > 0.7


def test_columns_are_constrained_by_name():
    rng = np.random.default_rng(4)
    X, score = table(rng)
    frame = pd.DataFrame({"word": np.where(X[:, 2] > 0, "a", "b"), "up": X[:, 0], "down": X[:, 1]})
    frame.loc[::17, "up"] = np.nan
    clf = LMMClassifier(monotonic_cst={"up": 1, "down": -1}, random_state=0).fit(frame, score > 0)
    rows = frame.dropna().reset_index(drop=True)
    for name, sign in (("up", 1), ("down", -1)):
        moved = rows.assign(**{name: rows[name] + rng.exponential(size=len(rows))})
        change = clf.decision_function(moved) - clf.decision_function(rows)
        assert (sign * change >= 0).all()
        assert (sign * change > 0).any()


@pytest.mark.parametrize(
    ("cst", "message"),
    [
        ([1, 0], "one number for each of the 3 columns"),
        ({"age": 1}, "X has no column names"),
        ([2, 0, 0], "monotonic_cst must be"),
        ("up", "monotonic_cst must be"),
    ],
)
def test_fit_rejects_wrong_constraints(cst, message):
    X, score = table(np.random.default_rng(5), 60)
    with pytest.raises(ValueError, match=message):
        LMMClassifier(monotonic_cst=cst).fit(X, score > 0)


def test_fit_rejects_constraints_of_categories_and_of_many_classes():
    rng = np.random.default_rng(6)
    X, score = table(rng, 90)
    frame = pd.DataFrame({"word": np.where(X[:, 2] > 0, "a", "b"), "up": X[:, 0]})
    with pytest.raises(ValueError, match="'word', whose categories have no order"):
        LMMClassifier(monotonic_cst={"word": 1}).fit(frame, score > 0)
    with pytest.raises(ValueError, match="which does not exist; X has"):
        LMMClassifier(monotonic_cst={"age": 1}).fit(frame, score > 0)
    with pytest.raises(ValueError, match="requires two classes, but y has 3"):
        LMMClassifier(monotonic_cst=[1, 0, 0]).fit(X, np.arange(90) % 3)


def test_train_command_constrains_columns(tmp_path):
    rng = np.random.default_rng(7)
    X, score = table(rng, 120)
    frame = pd.DataFrame({"up": X[:, 0], "down": X[:, 1], "free": X[:, 2]})
    frame["ill"] = np.where(score > 0, "yes", "no")
    frame.to_csv(tmp_path / "ill.csv", index=False)
    out = tmp_path / "ill.maxplus"
    options = ["--target", "ill", "--increasing", "up", "--decreasing", "down", "-o", str(out)]
    good("train", tmp_path / "ill.csv", *options, *settings("warmup_epochs=9"), "--validate", 2)
    clf = load(out)
    assert clf.monotonic_cst == {"up": 1, "down": -1}

    def scores(rows):
        return clf.decision_function(pd.DataFrame(rows, columns=["up", "down", "free"]))

    assert violations(scores, rng, np.array([1, -1, 0])) == 0
    for extra in (["--decreasing", "up"], ["--algorithm", "subgradient"], ["--increasing", "age"]):
        message = bad("train", tmp_path / "ill.csv", *options, *extra)
        assert "creasing" in message or "monotonic_cst" in message
