"""Counterfactuals of single networks without limits, compared with a reference implementation."""

import numpy as np
import pytest
from hypothesis import given

from explained import FAR, check_flips, fixed, flips_within, lmm, smooth_models, tied_models
from maxplus import SubgradientLMMClassifier
from maxplus.explain import nearest_counterfactuals
from strategies import DTYPES

pytestmark = pytest.mark.slow


@given(DTYPES.flatmap(smooth_models))
@fixed(120)
def test_counterfactuals_are_the_nearest(drawn):
    tolerance, rtol = (1e-9, 1e-9) if drawn[0].dtype == np.float64 else (1e-5, 1e-4)
    check_flips(*drawn, tolerance=tolerance, rtol=rtol)


@given(tied_models())
@fixed(80)
def test_counterfactuals_with_ties_change_the_class(drawn):
    model, X = drawn
    # On the grid float32 is exact, but a flip has to show in it.
    tolerance, rtol = (1e-9, 1e-6) if model.dtype == np.float64 else (1e-5, 1e-4)
    check_flips(model, X, tolerance=tolerance, rtol=rtol, ties=True)


def test_counterfactuals_of_trained_models_are_the_nearest(
    fitted, without_prototypes, reader, iris, digits
):
    check_flips(fitted.model_, iris.X[::3], ties=True)
    check_flips(fitted.model_, iris.X[::3], iris.X.min(axis=0), iris.X.max(axis=0), ties=True)
    check_flips(without_prototypes.model_, iris.X[::3])
    found = check_flips(reader.model_, digits.X[:5], 0.0, 16.0, ties=True)
    assert (found.feature >= 0).any()


# z_0 = 0, z_1 = x_0 − 5 and z_2 = x_1 − 7.
THREE_WAYS = lmm(
    [1.0, 0.0, 1.0, 0.0],
    [[FAR, -5.0, FAR], [0.0, FAR, FAR], [FAR, FAR, -7.0], [FAR, FAR, FAR]],
    [[0.0, -FAR, -FAR], [-FAR, 0.0, -FAR], [-FAR, -FAR, 0.0]],
)


@pytest.mark.parametrize(
    ("high", "feature", "value", "becomes"),
    [
        (np.inf, 0, 5.0, 1),
        ([5.5, np.inf], 0, 5.0, 1),
        ([4.5, np.inf], 1, 7.0, 2),
        (6.0, 0, 5.0, 1),
        ([4.5, 6.5], -1, np.nan, -1),
        # At 5 class 1 only ties, and loses.
        (5.0, -1, np.nan, -1),
        ([5.0, np.inf], 1, 7.0, 2),
        (0.0, -1, np.nan, -1),
    ],
)
def test_counterfactuals_respect_upper_bounds(high, feature, value, becomes):
    X = np.zeros((1, 2))
    assert THREE_WAYS.scores(X).tolist() == [[0.0, -5.0, -7.0]]
    found = flips_within(THREE_WAYS, X, -np.inf, high)
    assert found.feature.tolist() == [feature]
    assert found.new_class.tolist() == [becomes]
    np.testing.assert_allclose(found.value, [value], rtol=1e-12)
    check_flips(THREE_WAYS, X, -np.inf, high)


def test_crossing_lost_by_rounding_hides_no_later_counterfactual(iris):
    """In float32, rounding hides an earlier crossing along feature 3."""
    X, y = iris.astype(np.float32)
    clf = SubgradientLMMClassifier(20, engine="dense", max_iter=5, random_state=1)
    model = clf.fit(X, y).model_
    found = nearest_counterfactuals(model, X[54:55])
    assert found.feature.tolist() == [3]
    assert found.value[0] - X[54, 3] == pytest.approx(0.31, abs=0.01)
    check_flips(model, X, tolerance=1e-5, rtol=1e-4, ties=True)


def test_touching_scores_hide_no_later_counterfactual():
    W1 = [[-1, -1, 0, 1, -1], [2, 1, 1, -1, 1], [0, 0, 1, 1, -1], [1, 1, 0, -1, 0]]
    W2 = [[1, 0, 0], [0, 2, -1], [2, 0, 2], [-1, 0, 0], [1, -1, 0]]
    model = lmm([3.85673445, -4.58026695, 3.63519403, -10.21363512], W1, W2)
    X = np.array([[1.0, -1.0]])
    assert model.scores(X).argmax() == 0
    assert model.scores(np.array([[1.0, 0.5]])).argmax() == 1
    found = nearest_counterfactuals(model, X)
    assert (found.feature[0], found.new_class[0]) == (1, 1)
    assert found.value[0] == pytest.approx(0.4, abs=0.05)


@pytest.mark.parametrize("gap", [1.0, 0.1, 1e-3, 1e-6])
@pytest.mark.parametrize("slope", [0.0, 0.5])
def test_close_class_hides_no_counterfactual(gap, slope):
    # Class 1 is below class 0 by the gap everywhere; class 2 overtakes both.
    W1 = [[0.0, FAR], [FAR, -5.0]]
    model = lmm([slope, 1.0], W1, [[0.0, -gap, -FAR], [-FAR, -FAR, 0.0]])
    found = check_flips(model, np.zeros((1, 1)))
    assert (found.feature[0], found.new_class[0]) == (0, 2)
    assert found.value[0] == pytest.approx(5.0 / (1.0 - slope))


def test_rounding_at_the_row_hides_no_counterfactual():
    # In float32 both scores are 1; in float64 class 1 would be ahead by 1e-9.
    W1 = [[FAR, FAR], [FAR, FAR], [FAR, 1e-9], [1.0, FAR]]
    model = lmm([1.0, 1.0, 1.0, 0.0], W1, [[0.0, -FAR], [-FAR, 0.0]], np.float32)
    X = np.array([[0.0, 1.0], [0.0, 1.0 + 2.0**-22]], np.float32)
    assert model.scores(X).argmax(axis=1).tolist() == [0, 1]
    found = nearest_counterfactuals(model, X[:1])
    assert (found.feature[0], found.new_class[0]) == (1, 1)
    assert found.value[0] == pytest.approx(1.0, abs=1e-4)


def test_crossing_beyond_the_bound_is_no_counterfactual():
    # z_1 = x − 4 + 1e-9 passes z_0 = 1 just before 5, but in float32 just after.
    W1, W2 = [[1.0, FAR], [FAR, -4.0]], [[0.0, -FAR], [-FAR, 1e-9]]
    model = lmm([0.0, 1.0], W1, W2, np.float32)
    assert model.scores(np.array([[5.0]])).argmax() == 0
    found = flips_within(model, np.zeros((1, 1), np.float32), 0.0, 5.0)
    assert found.feature.tolist() == [-1]
    assert found.new_class.tolist() == [-1]
    assert np.isnan(found.value).all()
    found = flips_within(model, np.zeros((1, 1), np.float32), 0.0, 5.1)
    assert (found.feature[0], found.new_class[0]) == (0, 1)


def test_counterfactual_class_of_a_tie_is_the_first():
    W2 = [[-FAR, 0.0, -FAR], [0.0, -FAR, 0.0]]
    found = check_flips(lmm([0.0, 1.0], [[0.0, FAR], [FAR, -5.0]], W2), np.zeros((1, 1)), ties=True)
    assert found.new_class.tolist() == [0]
    assert found.value[0] == pytest.approx(5.0)
