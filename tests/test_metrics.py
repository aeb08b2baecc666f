"""Metrics of predictions, compared with loops and with scikit-learn."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from sklearn.metrics import (
    accuracy_score,
    classification_report,
    confusion_matrix,
    f1_score,
    log_loss,
    mean_absolute_error,
    r2_score,
    recall_score,
    roc_auc_score,
)

import oracles
from maxplus.metrics import (
    classification_metrics,
    expected_calibration_error,
    log_losses,
    regression_metrics,
    reliability,
)
from strategies import SEEDS, quick


def predictions(seed, n=None):
    """Return labels and probabilities, some at the edges of bins and some equal to 1."""
    rng = np.random.default_rng(seed)
    n, n_classes = n or int(rng.integers(1, 60)), int(rng.integers(2, 5))
    # Multiples of 1/16 sum to exactly 1.
    P = rng.multinomial(16, rng.dirichlet(np.full(n_classes, 0.4)), n) / 16
    return rng.integers(n_classes, size=n), P


@given(SEEDS)
@quick(60)
def test_reliability_matches_loops(seed):
    y, P = predictions(seed)
    n_bins = 1 + seed % 16
    bins = reliability(y, P, n_bins)
    count, confidence, accuracy, error = oracles.reliability(y.tolist(), P.tolist(), n_bins)
    assert bins.count.tolist() == count
    np.testing.assert_allclose(bins.confidence, confidence, rtol=1e-12)
    np.testing.assert_allclose(bins.accuracy, accuracy, rtol=1e-12)
    assert bins.error == pytest.approx(error, abs=1e-12)
    assert expected_calibration_error(y, P, n_bins) == bins.error


def test_calibration_error_of_calibrated_probabilities_is_zero():
    # Ten samples at 80 %, eight of them right; four at 50 %, two of them right.
    P = np.array([[0.8, 0.2]] * 10 + [[0.5, 0.5]] * 4)
    y = np.array([0] * 8 + [1] * 2 + [0, 0, 1, 1])
    assert expected_calibration_error(y, P) == pytest.approx(0.0, abs=1e-12)
    assert expected_calibration_error(1 - y, P) == pytest.approx(0.6 * 10 / 14)


def test_probability_one_is_in_the_last_bin():
    bins = reliability([0, 1], [[1.0, 0.0], [1.0, 0.0]], 15)
    assert bins.count.tolist() == [0] * 14 + [2]
    assert bins.accuracy[-1] == 0.5
    assert np.isnan(bins.confidence[:-1]).all()
    assert bins.error == 0.5


@given(SEEDS)
@quick(30)
def test_log_losses_equal_scikit_learn(seed):
    y, P = predictions(seed)
    clipped = np.clip(P, 1e-15, 1)
    expected = log_loss(y, clipped / clipped.sum(1, keepdims=True), labels=range(P.shape[1]))
    assert log_losses(y, P).mean() == pytest.approx(expected, abs=1e-9)


def test_log_loss_of_probability_zero_is_finite():
    assert log_losses([1, 0], [[1.0, 0.0], [1.0, 0.0]]).tolist() == [-math.log(1e-15), 0.0]


@pytest.mark.parametrize(
    ("codes", "P", "message"),
    [
        ([0], [0.5, 0.5], r"array of shape \(N, C\); got shape \(2,\)"),
        ([], np.empty((0, 2)), "P must be a non-empty array"),
        ([0, 1], [[0.5, 0.5], [1.5, -0.5]], "row 1 is"),
        ([0], [[np.nan, 0.5]], "row 0 is"),
        ([0], np.full((2, 2), 0.5), "codes must be 2 integers"),
        ([0.0, 1.0], np.full((2, 2), 0.5), "codes must be 2 integers"),
        (["a", "b"], np.full((2, 2), 0.5), "codes must be 2 integers"),
        ([0, 2], np.full((2, 2), 0.5), "column indices of P, from 0 to 1; got 0 to 2"),
        ([-1, 0], np.full((2, 2), 0.5), "from 0 to 1"),
    ],
)
def test_metrics_reject_invalid_probabilities(codes, P, message):
    for metric in (expected_calibration_error, log_losses, reliability):
        with pytest.raises(ValueError, match=message):
            metric(codes, P)


def test_metrics_reject_invalid_bins_and_labels():
    with pytest.raises(ValueError, match="n_bins must be at least 1, got 0"):
        reliability([0], [[1.0, 0.0]], 0)
    with pytest.raises(ValueError, match="labels must name the 2 columns of P; got 3 names"):
        classification_metrics([0], [[0.5, 0.5]], "abc")


@given(SEEDS)
@quick(40)
def test_classification_metrics_equal_scikit_learn(seed):
    y, P = predictions(seed, 40)
    C, predicted = P.shape[1], P.argmax(axis=1)
    found = classification_metrics(y, P, [f"class {d}" for d in range(C)])
    right = accuracy_score(y, predicted)
    recall = recall_score(y, predicted, labels=np.unique(y), average="macro", zero_division=0)
    assert (found.n_rows, found.accuracy) == (40, right)
    assert found.accuracy_error == pytest.approx(math.sqrt(right * (1 - right) / 40))
    assert found.balanced_accuracy == pytest.approx(recall)
    assert found.macro_f1 == pytest.approx(f1_score(y, predicted, average="macro"))
    assert found.log_loss == pytest.approx(log_losses(y, P).mean())
    assert found.calibration_error == expected_calibration_error(y, P)
    assert found.max_loss == log_losses(y, P).max()
    assert found.worst == log_losses(y, P).argmax()
    assert np.array_equal(found.confusion, confusion_matrix(y, predicted, labels=range(C)))
    report = classification_report(
        y, predicted, labels=range(C), output_dict=True, zero_division=np.nan
    )
    for d, one in enumerate(found.classes):
        assert (one.n_rows, one.n_predicted) == ((y == d).sum(), (predicted == d).sum())
        expected = [report[str(d)][name] for name in ("precision", "recall", "f1-score")]
        np.testing.assert_allclose([one.precision, one.recall, one.f1], expected)
        if 0 < (y == d).sum() < len(y):
            # The probability that a row of the class is ranked above another row; ties count half.
            own, others = P[y == d, d][:, None], P[y != d, d]
            ranked = ((own > others) + 0.5 * (own == others)).mean()
            assert one.auc == pytest.approx(ranked)
    if C == 2 and len(np.unique(y)) == 2:
        assert found.auc == pytest.approx(roc_auc_score(y, P[:, 1]))


def test_undefined_metrics_are_null_in_json():
    metrics = classification_metrics([0, 0], [[0.75, 0.25, 0.0], [0.5, 0.25, 0.25]], "abc")
    assert math.isnan(metrics.classes[1].recall)
    document = metrics.to_json()
    undefined = dict.fromkeys(("precision", "recall", "f1", "auc"))
    assert document["classes"][1] == {"label": "b", "n_rows": 0, "n_predicted": 0, **undefined}
    assert document["auc"] is None
    assert document["worst"] == 2
    assert document["confusion"] == [[2, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert json.loads(json.dumps(document, allow_nan=False)) == document


@given(SEEDS)
@quick(30)
def test_regression_metrics_equal_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    y, predicted = rng.normal(size=(2, 25))
    lower, upper = predicted - 1.0, predicted + rng.random(25)
    found = regression_metrics(y, predicted, lower, upper)
    assert found.r2 == pytest.approx(r2_score(y, predicted))
    assert found.mae == pytest.approx(mean_absolute_error(y, predicted))
    assert found.rmse == pytest.approx(math.sqrt(np.mean((y - predicted) ** 2)))
    assert found.mae_error == pytest.approx(np.abs(y - predicted).std() / 5)
    inside = sum(a <= b <= c for a, b, c in zip(lower, y, upper, strict=True))
    assert found.coverage == pytest.approx(inside / 25)
    assert found.mean_width == pytest.approx(np.mean(upper - lower))
    without = regression_metrics(y, predicted).to_json()
    assert (without["covered"], without["width"]) == (None, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"losses": [1.0]}, r"losses must have shape \(2,\)"),
        ({"predicted": [0]}, "predicted must be 2 integers"),
        ({"predicted": [0, 2]}, "predicted must be column indices of P"),
    ],
)
def test_classification_metrics_reject_invalid_losses_and_predictions(options, message):
    with pytest.raises(ValueError, match=message):
        classification_metrics([0, 1], [[0.9, 0.1], [0.2, 0.8]], "ab", **options)


def test_regression_metrics_reject_invalid_predictions():
    with pytest.raises(ValueError, match=r"shapes \(2,\) and \(3,\)"):
        regression_metrics([1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="lower and upper must be given together"):
        regression_metrics([1.0], [1.0], lower=[0.0])
    with pytest.raises(ValueError, match=r"lower and upper must have shape \(2,\)"):
        regression_metrics([1.0, 2.0], [1.0, 2.0], [[0.0], [1.0]], [2.0, 3.0])
    assert math.isnan(regression_metrics([1.0, 1.0], [1.0, 2.0]).r2)


def test_both_classes_have_the_same_auc():
    """1 − p rounds tiny differences away, and would make ties of them."""
    small = 1e-18 * np.arange(1, 41)
    P = np.stack([1.0 - small, small], axis=1)
    codes = np.arange(40) % 7 > 2
    first, second = classification_metrics(codes.astype(int), P, ["a", "b"]).classes
    assert first.auc == second.auc == roc_auc_score(codes, P[:, 1])
