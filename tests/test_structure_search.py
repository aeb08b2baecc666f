"""Search for the structure of a sum of terms."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from maxplus import LMMClassifier
from maxplus.estimators._additive import JointTraining, drop_weak_terms, initial_model
from maxplus.estimators._training_data import TrainingData
from maxplus.training import TrainingMonitor, TrainingProblem
from maxplus.training.smooth.structures import Structure

PAIR = (Structure(units=1, size=1.5), Structure(units=2, pairs_per_feature=1.0, size=3.0))


def fit(rows):
    """Select one of two structures and train it."""
    rng = np.random.default_rng(0)
    problem = TrainingProblem(rows.X, rows.y, weight=rows.weight, rng=rng)
    return JointTraining(2, PAIR).run(initial_model(rows, 2, rng), problem, TrainingMonitor())


def interaction(n=500):
    """Return rows whose class is the sign of a product, not a sum of functions of features."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return TrainingData(X, (X[:, 0] * X[:, 2] > 0).astype(np.int64))


def test_structure_with_pairs_is_chosen_for_an_interaction():
    rows = interaction()
    fitted = fit(rows)
    assert fitted.choice.chosen == 1
    assert (0, 2) in [tuple(term.features) for term in fitted.model.terms]
    new = interaction(n=900).part(np.arange(500, 900))
    assert np.mean(fitted.model.scores(new.X).argmax(axis=1) == new.y) > 0.85


def test_simplest_structure_is_chosen_for_noise():
    rng = np.random.default_rng(1)
    rows = TrainingData(rng.normal(size=(200, 3)), rng.integers(0, 2, 200))
    assert fit(rows).choice.chosen == 0


def test_structure_search_ignores_rows_of_tiny_weight():
    rows = interaction()
    wrong = np.arange(500) % 3 == 0
    labels = np.where(wrong, 1 - rows.y, rows.y)
    weighted = TrainingData(rows.X, labels, np.where(wrong, 1e-12, 1.0))
    fitted = fit(weighted)
    right = fitted.model.scores(rows.X).argmax(axis=1) == rows.y
    assert right.mean() > 0.9


def test_model_accepts_raw_features_and_is_robust_to_outliers():
    rows = interaction(300)
    scores = []
    for far in (1e4, 1e9):
        X = rows.X.copy()
        X[0, 1] = far
        model = fit(TrainingData(X, rows.y)).model
        scores.append(model.scores(rows.X[1:]))
    assert_array_equal(scores[0], scores[1])


@pytest.mark.parametrize("structure", ["shapes", "pairs", "auto"])
def test_max_features_keeps_important_features(structure):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 8))
    y = (X[:, 2] + X[:, 5] > 0).astype(int)
    clf = LMMClassifier(structure=structure, max_features=2, random_state=0).fit(X, y)
    assert set(np.concatenate([term.features for term in clf.model_.terms])) == {2, 5}
    assert set(np.flatnonzero(clf.feature_importances_)) == {2, 5}
    assert clf.score(X, y) > 0.9
    one = LMMClassifier(structure=structure, max_features=1, random_state=0).fit(X, y)
    assert {term.features.tolist()[0] for term in one.model_.terms} <= {2, 5}


def test_negligible_terms_are_removed():
    rows = interaction()
    wide = TrainingData(np.column_stack([rows.X, np.ones(500)]), rows.y)
    model = fit(wide).model
    assert 3 not in np.concatenate([term.features for term in model.terms])
    rng = np.random.default_rng(0)
    whole = initial_model(wide, 2, rng)
    pruned = drop_weak_terms(whole, wide.X)
    assert len(pruned.terms) < len(whole.terms)
    # The scores of a term over a constant feature are the same for all rows.
    assert_allclose(pruned.scores(wide.X), whole.scores(wide.X), atol=1e-12)
    assert drop_weak_terms(pruned, wide.X) is pruned


def test_many_terms_of_similar_strength_are_kept():
    rng = np.random.default_rng(0)
    wide = TrainingData(rng.normal(size=(60, 600)), rng.integers(0, 2, 60))
    model = initial_model(wide, 2, rng)
    # The mean contribution of a term is below 0.2 % of the total.
    assert len(drop_weak_terms(model, wide.X).terms) > 0.7 * len(model.terms)
