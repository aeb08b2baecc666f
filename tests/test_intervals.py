"""Intervals of held-out accuracy, standard errors of ROC AUC, and formatted numbers."""

import math

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import GaussianNB

from maxplus import validate
from maxplus.certify import CertifiedRows
from maxplus.metrics._formatting import format_number, format_with_error
from maxplus.metrics._intervals import auc_error, fold_dispersion, score_interval, wilson_interval

TRIALS = 2000


def covered(interval, value):
    return interval[0] <= value <= interval[1]


@pytest.mark.parametrize(("spread", "coverage"), [(0.0, 0.94), (0.05, 0.91), (0.1, 0.88)])
@pytest.mark.parametrize("accuracy", [0.6, 0.85])
def test_accuracy_interval_covers_folds_that_differ(accuracy, spread, coverage):
    """The interval is for the mean accuracy of models whose accuracies differ between folds."""
    rng = np.random.default_rng(1)
    fold = np.repeat(np.arange(5), 40)
    adjusted = plain = 0
    for _ in range(TRIALS):
        means = np.full(5, accuracy)
        if spread:
            size = accuracy * (1 - accuracy) / spread**2 - 1
            means = rng.beta(accuracy * size, (1 - accuracy) * size, 5)
        right = rng.random(200) < means[fold]
        share = right.mean()
        adjusted += covered(wilson_interval(share, 200 / fold_dispersion(right, fold)), accuracy)
        plain += covered(wilson_interval(share, 200), accuracy)
    # Five folds are few for estimating a large variation.
    assert adjusted / TRIALS > coverage
    if spread == 0.1:
        assert plain / TRIALS < 0.78


@pytest.mark.parametrize("n_new", [50, 200, 1000])
def test_score_interval_covers_scores_of_new_tables(n_new):
    rng = np.random.default_rng(2)
    n, accuracy = 200, 0.8
    inside = narrow = 0
    for _ in range(TRIALS):
        share, score = rng.binomial(n, accuracy) / n, rng.binomial(n_new, accuracy) / n_new
        inside += covered(score_interval(share, n, n_new), score)
        narrow += covered(wilson_interval(share, n), score)
    assert 0.93 < inside / TRIALS < 0.985
    # The interval of the accuracy itself is too narrow for few new rows.
    if n_new <= 200:
        assert narrow / TRIALS < 0.88


@pytest.mark.slow
def test_validation_intervals_hold_for_the_model_that_is_kept():
    rng = np.random.default_rng(3)

    def rows(n):
        y = rng.integers(0, 2, n)
        return rng.normal(size=(n, 4)) + 0.6 * y[:, None], y

    accuracies = scores = 0
    trials = 120
    for _ in range(trials):
        X, y = rows(100)
        found = validate(GaussianNB(), X, y, cv=5)
        model = GaussianNB().fit(X, y)
        accuracies += covered(found.interval, model.score(*rows(20_000)))
        scores += covered(found.score_interval(100), model.score(*rows(100)))
        assert found.to_json()["accuracy_interval"] == list(found.interval)
    assert accuracies / trials > 0.9
    assert scores / trials > 0.9


def test_equal_folds_have_no_dispersion():
    right = np.tile([True, True, True, False], 10)
    assert fold_dispersion(right, np.repeat(np.arange(5), 8)) == 1.0
    assert fold_dispersion(np.ones(8, bool), np.arange(8) % 2) == 1.0
    assert fold_dispersion(right, np.zeros(40)) == 1.0
    apart = np.repeat([True, False], 20)
    assert fold_dispersion(apart, np.repeat([0, 1], 20)) == pytest.approx(40.0)


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_auc_error_is_the_deviation_of_areas(shift):
    rng = np.random.default_rng(0)
    own = np.repeat([True, False], [30, 70])
    Z = rng.normal(size=(600, 100)) + shift * own
    areas = (Z[:, own, None] > Z[:, None, ~own]).mean(axis=(1, 2))
    assert areas[0] == pytest.approx(roc_auc_score(own, Z[0]))
    assert auc_error(areas.mean(), 30, 70) == pytest.approx(areas.std(), rel=0.12)
    assert math.isnan(auc_error(0.5, 0, 70))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (16180.4, "16,180"),
        (1.618e6, "1,618,000"),
        (-175.62, "−175.6"),
        (0.012345, "0.01235"),
        (0.0, "0.000"),
        (9999.6, "10,000"),
        (3e-7, "3.000e−07"),
        (2e15, "2.000e+15"),
        (math.inf, "∞"),
        (math.nan, "–"),
        (None, "–"),
    ],
)
def test_numbers_are_printed_with_significant_digits(value, text):
    assert format_number(value) == text


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (16180.4, 970.1, "16,180 ± 970"),
        (0.51234, 0.0234, "0.512 ± 0.023"),
        (3.0, 0.0, "3.000 ± 0.0"),
        (1.0, math.inf, "1.000 ± ∞"),
        (12.3, 0.996, "12.3 ± 1.0"),
        (1234567.0, 98765.0, "1,235,000 ± 99,000"),
        (-2.5, 0.12, "−2.50 ± 0.12"),
    ],
)
def test_standard_errors_are_printed_with_significant_digits(value, error, text):
    assert format_with_error(value, error) == text


@pytest.mark.parametrize(
    ("radius", "words"),
    [
        (
            [np.inf, np.inf],
            "predictions of all 2 provably do not change for any change of the features",
        ),
        (
            [1.0, np.inf, np.inf],
            "at least half of these 3 provably do not change for any change of the features, "
            "those of all 3 if each changes by up to 1 deviations",
        ),
        (
            [1.0, 2.0, np.inf],
            "if each feature changes by up to 2 deviations, those of all 3 up to 1",
        ),
    ],
)
def test_unlimited_radii_are_not_printed_as_inf(radius, words):
    message = CertifiedRows.from_radii(radius, np.ones(len(radius), bool)).sentence("deviations")
    assert words in message
    assert "inf " not in message
