"""How far probabilities can be trusted, against loops and against scikit-learn."""

import math

import numpy as np
import pytest
from hypothesis import given
from sklearn.metrics import log_loss

import oracles
from maxplus.metrics import expected_calibration_error, log_losses, reliability
from strategies import SEEDS, quick


def predictions(seed, n=None):
    """Labels and probabilities; some of them on the bins' edges, some certain."""
    rng = np.random.default_rng(seed)
    n, n_classes = n or int(rng.integers(1, 60)), int(rng.integers(2, 5))
    # Sixteenths are exact: nothing is summed to 1 but nearly.
    P = rng.multinomial(16, rng.dirichlet(np.full(n_classes, 0.4)), n) / 16
    return rng.integers(n_classes, size=n), P


@given(SEEDS)
@quick(60)
def test_bins_are_what_loops_find(seed):
    y, P = predictions(seed)
    n_bins = 1 + seed % 16
    bins = reliability(y, P, n_bins)
    count, confidence, accuracy, error = oracles.reliability(y.tolist(), P.tolist(), n_bins)
    assert bins.count.tolist() == count
    np.testing.assert_allclose(bins.confidence, confidence, rtol=1e-12)
    np.testing.assert_allclose(bins.accuracy, accuracy, rtol=1e-12)
    assert bins.error == pytest.approx(error, abs=1e-12)
    assert expected_calibration_error(y, P, n_bins) == bins.error


def test_kept_promises_have_no_error():
    # Ten samples at 80 %, eight of them right; four at 50 %, two of them right.
    P = np.array([[0.8, 0.2]] * 10 + [[0.5, 0.5]] * 4)
    y = np.array([0] * 8 + [1] * 2 + [0, 0, 1, 1])
    assert expected_calibration_error(y, P) == pytest.approx(0.0, abs=1e-12)
    assert expected_calibration_error(1 - y, P) == pytest.approx(0.6 * 10 / 14)


def test_certainty_falls_into_the_last_bin():
    bins = reliability([0, 1], [[1.0, 0.0], [1.0, 0.0]], 15)
    assert bins.count.tolist() == [0] * 14 + [2]
    assert bins.accuracy[-1] == 0.5
    assert np.isnan(bins.confidence[:-1]).all()
    assert bins.error == 0.5


def test_parts_are_never_better_calibrated_than_the_whole():
    y, P = predictions(3, 600)
    parts = [expected_calibration_error(y[k::10], P[k::10]) for k in range(10)]
    assert np.mean(parts) > expected_calibration_error(y, P)


@given(SEEDS)
@quick(30)
def test_log_losses_are_scikit_learn_s(seed):
    y, P = predictions(seed)
    clipped = np.clip(P, 1e-15, 1)
    expected = log_loss(y, clipped / clipped.sum(1, keepdims=True), labels=range(P.shape[1]))
    assert log_losses(y, P).mean() == pytest.approx(expected, abs=1e-9)


def test_a_class_without_any_probability_costs_much_but_not_all():
    assert log_losses([1, 0], [[1.0, 0.0], [1.0, 0.0]]).tolist() == [-math.log(1e-15), 0.0]


@pytest.mark.parametrize(
    ("codes", "P", "words"),
    [
        ([0], [0.5, 0.5], r"P must have shape \(N, C\)"),
        ([], np.empty((0, 2)), r"P must have shape \(N, C\)"),
        ([0, 1], [[0.5, 0.5], [1.5, -0.5]], "row 1 is"),
        ([0], [[np.nan, 0.5]], "row 0 is"),
        ([0], [[0.5, 0.5], [0.5, 0.5]], "codes must be 2 whole numbers"),
        ([0.0, 1.0], [[0.5, 0.5], [0.5, 0.5]], "codes must be 2 whole numbers"),
        (["a", "b"], [[0.5, 0.5], [0.5, 0.5]], "codes must be 2 whole numbers"),
        ([0, 2], [[0.5, 0.5], [0.5, 0.5]], "from 0 to 1, the columns of P; got 0 to 2"),
        ([-1, 0], [[0.5, 0.5], [0.5, 0.5]], "from 0 to 1"),
    ],
)
def test_what_is_no_prediction_is_refused(codes, P, words):
    for measure in (expected_calibration_error, log_losses, reliability):
        with pytest.raises(ValueError, match=words):
            measure(codes, P)


def test_there_is_at_least_one_bin():
    with pytest.raises(ValueError, match="n_bins must be at least 1, got 0"):
        reliability([0], [[1.0, 0.0]], 0)
