"""Explanations: paths, flips, boxes, tables, words and pictures, against slow oracles."""

import functools
import re
import sys
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from maxplus import LMMClassifier, SubgradientLMMClassifier
from maxplus.explain import Explanation, decisive_paths, single_feature_flips, unit_boxes
from maxplus.explain import paths as paths_module
from maxplus.explain.naming import view_features, view_names
from maxplus.models import LMM
from maxplus.models.starts import prototype_lmm
from oracles import best, lmm_path, lmm_terms
from strategies import DTYPES, GRID, SEEDS, grid_array, quick

pytestmark = pytest.mark.slow

SMALL = st.integers(1, 4)
FEW_CLASSES = st.integers(2, 4)
# Powers of two and zero: walls (level − A) / a are exact.
EXACT_SLOPES = np.array([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])
FLOWERS = ["setosa", "versicolor", "virginica"]
MEASURES = ["sepal length", "sepal width", "petal length", "petal width"]
FAR = 100.0  # an offset with which a row never decides


def fixed(max_examples):
    """The same examples at every run."""
    return settings(quick(max_examples), derandomize=True)


def lmm(W0, W1, W2, dtype=np.float64):
    return LMM(*(np.asarray(W, dtype) for W in (W0, W1, W2)))


@st.composite
def tied_models(draw):
    """A model and three rows on a coarse grid: slopes of any sign, zeros, many ties."""
    P, H, C = draw(SMALL), draw(SMALL), draw(SMALL)
    rng, dtype = np.random.default_rng(draw(SEEDS)), draw(DTYPES)
    shapes = [(2 * P,), (2 * P, H), (H, C), (3, P)]
    W0, W1, W2, X = (grid_array(rng, shape, dtype) for shape in shapes)
    return LMM(W0, W1, W2), X


@st.composite
def smooth_models(draw, dtype=np.float64):
    """A model and three rows without ties, and bounds around the rows: none, numbers or arrays."""
    P, H, C = draw(SMALL), draw(SMALL), draw(FEW_CLASSES)
    rng = np.random.default_rng(draw(SEEDS))
    slopes = rng.uniform(0.3, 2.0, 2 * P) * rng.choice([-1.0, 1.0], 2 * P)
    model = lmm(slopes, rng.normal(size=(2 * P, H)), rng.normal(size=(H, C)), dtype)
    X = rng.normal(size=(3, P)).astype(dtype)
    low, high = X.min(axis=0) - rng.random(P), X.max(axis=0) + rng.random(P)
    bounds = draw(st.sampled_from(["none", "numbers", "arrays"]))
    if bounds == "none":
        return model, X, -np.inf, np.inf
    return model, X, *((low, high) if bounds == "arrays" else (float(low.min()), float(high.max())))


@pytest.fixture(scope="module")
def fitted(iris):
    return SubgradientLMMClassifier(8, max_iter=200, random_state=0).fit(iris.X, iris.y)


# -- deciding units and rows ------------------------------------------------------------------


def path_of(x, model, d):
    """Score, unit, row, runner-up and margin of one class, one number after the other."""
    z, units, rows = lmm_path(x, model.W0, model.W1, model.W2)
    terms = lmm_terms(x, model.W0, model.W1)
    outputs = [min(t) + float(model.W2[h, d]) for h, t in enumerate(terms)]
    others = [-np.inf if h == units[d] else v for h, v in enumerate(outputs)]
    if len(others) == 1:
        return z[d], units[d], rows[d], -1, np.nan
    second, runner_up = best(others, "max")
    return z[d], units[d], rows[d], runner_up, z[d] - second


@given(tied_models())
@fixed(80)
def test_paths_are_the_oracle_s(drawn):
    model, X = drawn
    paths = decisive_paths(model, X)
    for array in paths:
        assert array.shape == (len(X), model.n_classes)
    for n, x in enumerate(X):
        for d in range(model.n_classes):
            found = [array[n, d] for array in paths]
            np.testing.assert_array_equal(found, path_of(x, model, d))
    assert np.array_equal(paths.feature, paths.row // 2)


def test_paths_of_a_trained_model_are_the_scores(fitted, reader, iris, digits):
    for model, X in ((fitted.model_, iris.X), (reader.model_, digits.X)):
        paths = decisive_paths(model, X)
        active = model.active_path(X)
        assert np.array_equal(paths.unit, active.unit)
        assert np.array_equal(paths.row, active.row)
        assert np.array_equal(paths.score, model.scores(X))
        n, d = np.indices(paths.unit.shape)
        i, h = paths.row, paths.unit
        z = model.W0[i] * X[n, i // 2] + model.W1[i, h] + model.W2[h, d]
        np.testing.assert_allclose(paths.score, z, rtol=0, atol=1e-12)
        outputs = model.hidden(X)[:, :, None] + model.W2
        two = np.sort(outputs, axis=1)[:, -2:]
        np.testing.assert_allclose(paths.margin, two[:, 1] - two[:, 0], rtol=0, atol=1e-12)
        np.testing.assert_allclose(outputs[n, paths.runner_up, d], two[:, 0], rtol=0, atol=1e-12)
        assert (paths.runner_up != paths.unit).all()


def test_paths_do_not_depend_on_how_many_rows_go_at_once(fitted, iris, monkeypatch):
    whole = decisive_paths(fitted.model_, iris.X)
    monkeypatch.setattr(paths_module, "ROWS_AT_ONCE", 7)
    for one, other in zip(whole, decisive_paths(fitted.model_, iris.X), strict=True):
        assert np.array_equal(one, other)


def test_one_unit_has_no_runner_up():
    paths = decisive_paths(lmm([1.0, -1.0], [[0.0], [2.0]], [[3.0, 4.0]]), np.array([[0.5]]))
    assert paths.score.tolist() == [[3.5, 4.5]]
    assert paths.runner_up.tolist() == [[-1, -1]]
    assert np.isnan(paths.margin).all()


# -- flips ------------------------------------------------------------------------------------


class Nearest(NamedTuple):
    """How far the nearest flip of a row is: at least, and at most; and the nearest tied stretch."""

    possible: float
    clear: float
    tied: float


class Line:
    """The scores of one row along one feature, in float64."""

    def __init__(self, model, x, p):
        W0, W1 = model.W0.astype(np.float64), model.W1.astype(np.float64)
        self.W2 = model.W2.astype(np.float64)
        self.at = float(x[p])
        terms = (W0 * np.repeat(x.astype(np.float64), 2))[:, None] + W1
        others = np.delete(terms, [2 * p, 2 * p + 1], axis=0).min(axis=0, initial=np.inf)
        # Every unit is the minimum of two lines, one for each row of p, and a constant.
        self.pieces = [(W0[2 * p], W1[2 * p]), (W0[2 * p + 1], W1[2 * p + 1]), (0.0, others)]

    def scores(self, t):
        g = functools.reduce(np.minimum, (a * t[:, None] + b for a, b in self.pieces))
        return np.stack([(g + w).max(axis=1) for w in self.W2.T], axis=1)

    def crossings(self):
        """All values at which any two pieces of any two scores are equal."""
        lines = [(a, np.unique(b[:, None] + self.W2)) for a, b in self.pieces]
        lines = [(a, b) for a, b in lines if np.isfinite(b).all()]
        pairs = [(one, other) for k, one in enumerate(lines) for other in lines[:k]]
        found = [(np.subtract.outer(b, B) / (A - a)).ravel() for (a, b), (A, B) in pairs if a != A]
        return np.concatenate([[], *found])

    def lead(self, t, y):
        """How far the best other class is above class y."""
        z = self.scores(t)
        return np.delete(z, y, axis=1).max(axis=1, initial=-np.inf) - z[:, y]

    def nearest(self, y, low, high, tolerance):
        """Who wins is constant between crossings: look at each of them and once between two."""
        ts = np.append(self.crossings(), self.at)
        ts = ts[(ts >= low) & (ts <= high)]
        # Beyond the last crossing nothing changes any more, so a step of 1 sees it all.
        ts = np.unique([*ts, max(low, ts.min() - 1), min(high, ts.max() + 1)])
        left, right = ts[:-1], ts[1:]
        away = np.maximum(0.0, np.maximum(left - self.at, self.at - right))
        lead = self.lead((left + right) / 2, y)
        touched = np.abs(ts - self.at)[self.lead(ts, y) >= -tolerance]
        tied = away[(np.abs(lead) <= tolerance) & (right - left > 1e-6)]
        return Nearest(
            min(touched.min(initial=np.inf), away[lead >= -tolerance].min(initial=np.inf)),
            away[lead > tolerance].min(initial=np.inf),
            tied.min(initial=np.inf),
        )


class ViewLine(Line):
    """The same for a model with directions: all rows of views that the feature is in move."""

    def __init__(self, model, x, p):
        W0, W1 = model.W0.astype(np.float64), model.W1.astype(np.float64)
        self.W2 = model.W2.astype(np.float64)
        self.at = float(x[p])
        D, x = np.repeat(model.directions.astype(np.float64), 2, axis=0), x.astype(np.float64)
        terms = (W0 * (D @ x))[:, None] + W1
        slope = W0 * D[:, p]
        self.pieces = [(a, b - a * self.at) for a, b in zip(slope, terms, strict=True)]


def nearest_flip(model, x, y, low, high, tolerance):
    """Along any feature; nearby first, for nothing behind a clear flip counts."""
    kind = Line if model.directions is None else ViewLine
    lines = [kind(model, x, q) for q in range(len(x))]
    for reach in (0.1, 0.5, 2.0, np.inf):
        every = [
            line.nearest(y, max(a, line.at - reach), min(b, line.at + reach), tolerance)
            for line, a, b in zip(lines, low, high, strict=True)
        ]
        nearest = Nearest(*map(min, zip(*every, strict=True)))
        if nearest.clear < np.inf:
            break
    return nearest


def check_flips(model, X, low=-np.inf, high=np.inf, *, tolerance=1e-9, rtol=1e-9, ties=False):
    """Every flip is real, within bounds and the nearest; with ``ties``, unless there is one."""
    found = single_feature_flips(model, X, low, high)
    predicted = model.scores(X).argmax(axis=1)
    low, high = (np.broadcast_to(v, X.shape[1]) for v in (low, high))
    for n, x in enumerate(X):
        p, value, becomes = (array[n] for array in found)
        nearest = nearest_flip(model, x, predicted[n], low, high, tolerance)
        if p == -1:
            assert np.isnan(value)
            assert becomes == -1
            change = np.inf
        else:
            assert low[p] <= value <= high[p]
            changed = x.astype(np.float64)
            changed[p] = value
            assert model.scores(changed[None]).argmax() == becomes
            assert becomes != predicted[n]
            change = abs(value - float(x[p]))
            assert change >= nearest.possible - rtol * (1 + nearest.possible)
        if not (ties and nearest.tied < nearest.clear):
            assert change <= nearest.clear + rtol * (1 + nearest.clear)
    return found


@given(smooth_models())
@fixed(80)
def test_flips_are_the_nearest(drawn):
    check_flips(*drawn)


@given(smooth_models(np.float32))
@fixed(40)
def test_flips_of_float32_are_nearly_the_nearest(drawn):
    check_flips(*drawn, tolerance=1e-5, rtol=1e-4)


@given(tied_models())
@fixed(80)
def test_flips_with_ties_are_real(drawn):
    model, X = drawn
    # On the grid float32 is exact, but a flip has to show in it.
    tolerance, rtol = (1e-9, 1e-6) if model.dtype == np.float64 else (1e-5, 1e-4)
    check_flips(model, X, tolerance=tolerance, rtol=rtol, ties=True)


def test_flips_of_trained_models_are_the_nearest(fitted, without_prototypes, reader, iris, digits):
    check_flips(fitted.model_, iris.X[::3], ties=True)
    check_flips(fitted.model_, iris.X[::3], iris.X.min(axis=0), iris.X.max(axis=0), ties=True)
    check_flips(without_prototypes.model_, iris.X[::3])
    found = check_flips(reader.model_, digits.X[:5], 0.0, 16.0, ties=True)
    assert (found.feature >= 0).any()


def test_flips_of_a_trained_float32_model_are_nearly_the_nearest(iris):
    X, y = iris.astype(np.float32)
    model = SubgradientLMMClassifier(8, max_iter=200, random_state=0).fit(X, y).model_
    assert model.dtype == np.float32
    check_flips(model, X[::3], tolerance=1e-5, rtol=1e-4, ties=True)


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
def test_bounds_rule_out_features(high, feature, value, becomes):
    X = np.zeros((1, 2))
    assert THREE_WAYS.scores(X).tolist() == [[0.0, -5.0, -7.0]]
    found = single_feature_flips(THREE_WAYS, X, -np.inf, high)
    assert found.feature.tolist() == [feature]
    assert found.becomes.tolist() == [becomes]
    np.testing.assert_allclose(found.value, [value], rtol=1e-12)
    check_flips(THREE_WAYS, X, -np.inf, high)


def test_a_lower_bound_counts_as_well():
    X = np.array([[6.0, 0.0]])
    found = single_feature_flips(THREE_WAYS, X, 0.0)
    assert (found.feature[0], found.becomes[0]) == (0, 0)
    assert found.value[0] == pytest.approx(5.0)
    found = single_feature_flips(THREE_WAYS, X, [5.5, 0.0])
    assert (found.feature[0], found.becomes[0]) == (1, 2)
    assert found.value[0] == pytest.approx(8.0)


@given(tied_models())
@fixed(20)
def test_a_class_that_always_wins_cannot_flip(drawn):
    model, X = drawn
    W2 = model.W2.copy()
    W2[:, -1] = W2.max(axis=1) + 1
    found = single_feature_flips(LMM(model.W0, model.W1, W2), X)
    assert (found.feature == -1).all()
    assert (found.becomes == -1).all()
    assert np.isnan(found.value).all()


def test_features_without_slope_cannot_flip():
    model = lmm(np.zeros(4), THREE_WAYS.W1, THREE_WAYS.W2)
    assert single_feature_flips(model, np.array([[3.0, 4.0]])).feature.tolist() == [-1]


def test_a_crossing_that_rounding_hides_hides_no_later_one(iris):
    """In float32 an earlier crossing along feature 3 does not show: the nearest flip is behind."""
    X, y = iris.astype(np.float32)
    recipe = SubgradientLMMClassifier(20, engine="dense", max_iter=5, random_state=1)
    model = recipe.fit(X, y).model_
    found = single_feature_flips(model, X[54:55])
    assert found.feature.tolist() == [3]
    assert found.value[0] - X[54, 3] == pytest.approx(0.31, abs=0.01)
    check_flips(model, X, tolerance=1e-5, rtol=1e-4, ties=True)


def test_scores_that_touch_hide_no_later_flip():
    W1 = [[-1, -1, 0, 1, -1], [2, 1, 1, -1, 1], [0, 0, 1, 1, -1], [1, 1, 0, -1, 0]]
    W2 = [[1, 0, 0], [0, 2, -1], [2, 0, 2], [-1, 0, 0], [1, -1, 0]]
    model = lmm([3.85673445, -4.58026695, 3.63519403, -10.21363512], W1, W2)
    X = np.array([[1.0, -1.0]])
    assert model.scores(X).argmax() == 0
    assert model.scores(np.array([[1.0, 0.5]])).argmax() == 1
    found = single_feature_flips(model, X)
    assert (found.feature[0], found.becomes[0]) == (1, 1)
    assert found.value[0] == pytest.approx(0.4, abs=0.05)


@st.composite
def seen_models(draw, dtype=np.float64):
    """A model with directions, three rows and bounds, as `smooth_models`."""
    plain, _, _, _ = draw(smooth_models(dtype))
    P, M = draw(SMALL), plain.n_views
    rng = np.random.default_rng(draw(SEEDS))
    D = rng.normal(size=(M, P)) * (rng.random((M, P)) < draw(st.sampled_from([0.5, 1.0])))
    model = LMM(plain.W0, plain.W1, plain.W2, D)
    X = rng.normal(size=(3, P)).astype(dtype)
    if draw(st.booleans()):
        return model, X, -np.inf, np.inf
    return model, X, X.min(axis=0) - rng.random(P), X.max(axis=0) + rng.random(P)


@given(seen_models())
@fixed(150)
def test_flips_of_models_with_directions_are_the_nearest(drawn):
    check_flips(*drawn)


@given(seen_models(np.float32))
@fixed(60)
def test_flips_of_float32_models_with_directions_are_nearly_the_nearest(drawn):
    check_flips(*drawn, tolerance=2e-5, rtol=3e-4)


@given(tied_models(), SEEDS)
@fixed(80)
def test_flips_of_directions_with_ties_are_real(drawn, seed):
    plain, _ = drawn
    rng = np.random.default_rng(seed)
    D = rng.choice([-1.0, 0.0, 0.0, 0.5, 1.0], size=(plain.n_views, 3))
    model = LMM(plain.W0, plain.W1, plain.W2, D)
    X = rng.choice(np.arange(-4, 5) / 2, size=(3, 3)).astype(model.dtype)
    tolerance, rtol = (1e-9, 1e-6) if model.dtype == np.float64 else (1e-5, 1e-4)
    check_flips(model, X, tolerance=tolerance, rtol=rtol, ties=True)


@given(smooth_models())
@fixed(60)
def test_directions_that_are_the_features_flip_where_features_do(drawn):
    model, X, low, high = drawn
    seen = LMM(model.W0, model.W1, model.W2, np.eye(model.n_views))
    found, expected = (single_feature_flips(m, X, low, high) for m in (seen, model))
    assert np.array_equal(found.feature, expected.feature)
    assert np.array_equal(found.becomes, expected.becomes)
    np.testing.assert_allclose(found.value, expected.value, rtol=1e-9)


def test_flips_of_many_units_with_directions_are_the_nearest():
    rng = np.random.default_rng(3)
    plain = prototype_lmm(rng.normal(size=(30, 5)), np.arange(30) % 4, 4, 2.0, 1.0)
    model = LMM(plain.W0, plain.W1, plain.W2, rng.normal(size=(5, 3)))
    found = check_flips(model, rng.normal(size=(40, 3)), ties=True)
    assert (found.feature >= 0).sum() > 20


@pytest.mark.parametrize("gap", [1.0, 0.1, 1e-3, 1e-6])
@pytest.mark.parametrize("slope", [0.0, 0.5])
def test_a_class_that_stays_close_hides_no_flip(gap, slope):
    # Class 1 is below class 0 by the gap everywhere; class 2 overtakes both.
    W1 = [[0.0, FAR], [FAR, -5.0]]
    model = lmm([slope, 1.0], W1, [[0.0, -gap, -FAR], [-FAR, -FAR, 0.0]])
    found = check_flips(model, np.zeros((1, 1)))
    assert (found.feature[0], found.becomes[0]) == (0, 2)
    assert found.value[0] == pytest.approx(5.0 / (1.0 - slope))


def test_rounding_at_the_row_hides_no_flip():
    # In float32 both scores are 1; in float64 class 1 would be ahead by 1e-9.
    W1 = [[FAR, FAR], [FAR, FAR], [FAR, 1e-9], [1.0, FAR]]
    model = lmm([1.0, 1.0, 1.0, 0.0], W1, [[0.0, -FAR], [-FAR, 0.0]], np.float32)
    X = np.array([[0.0, 1.0], [0.0, 1.0 + 2.0**-22]], np.float32)
    assert model.scores(X).argmax(axis=1).tolist() == [0, 1]
    found = single_feature_flips(model, X[:1])
    assert (found.feature[0], found.becomes[0]) == (1, 1)
    assert found.value[0] == pytest.approx(1.0, abs=1e-4)


def test_a_flip_that_only_shows_beyond_the_bound_is_none():
    # z_1 = x − 4 + 1e-9 passes z_0 = 1 just before 5, but in float32 just after.
    W1, W2 = [[1.0, FAR], [FAR, -4.0]], [[0.0, -FAR], [-FAR, 1e-9]]
    model = lmm([0.0, 1.0], W1, W2, np.float32)
    assert model.scores(np.array([[5.0]])).argmax() == 0
    found = single_feature_flips(model, np.zeros((1, 1), np.float32), 0.0, 5.0)
    assert found.feature.tolist() == [-1]
    assert found.becomes.tolist() == [-1]
    assert np.isnan(found.value).all()
    found = single_feature_flips(model, np.zeros((1, 1), np.float32), 0.0, 5.1)
    assert (found.feature[0], found.becomes[0]) == (0, 1)


def test_of_two_that_overtake_together_the_first_wins():
    W2 = [[-FAR, 0.0, -FAR], [0.0, -FAR, 0.0]]
    found = check_flips(lmm([0.0, 1.0], [[0.0, FAR], [FAR, -5.0]], W2), np.zeros((1, 1)), ties=True)
    assert found.becomes.tolist() == [0]
    assert found.value[0] == pytest.approx(5.0)


def test_the_classifier_predicts_what_flips_say(fitted, iris):
    flips = fitted.explain(iris.X[::5]).flips
    changed = iris.X[::5].copy()
    changed[np.arange(len(changed)), flips.feature] = flips.value
    assert (flips.feature >= 0).all()
    assert np.array_equal(fitted.predict(changed), fitted.classes_[flips.becomes])


# -- units as boxes ---------------------------------------------------------------------------


def inside(boxes, X):
    """Whether each row lies in each unit's box, (N, H)."""
    return ((boxes.low <= X[:, None]) & (X[:, None] <= boxes.high)).all(axis=2)


def hidden(model, X):
    return ((model.W0 * np.repeat(X, 2, axis=1))[:, :, None] + model.W1).min(axis=1)


@st.composite
def boxed_models(draw):
    """A model whose walls are exact, and a level."""
    P, H, C = draw(st.integers(1, 3)), draw(SMALL), draw(SMALL)
    rng = np.random.default_rng(draw(SEEDS))
    W0 = rng.choice(EXACT_SLOPES, 2 * P)
    model = LMM(W0, grid_array(rng, (2 * P, H)), grid_array(rng, (H, C)))
    return model, draw(st.sampled_from([-1.25, -0.5, 0.0, 0.75]))


@given(boxed_models(), SEEDS)
@fixed(80)
def test_boxes_are_where_units_reach_the_level(drawn, seed):
    model, level = drawn
    P = model.n_features
    boxes = unit_boxes(model, level)
    assert boxes.low.shape == boxes.high.shape == (model.n_hidden, P)
    grid = np.stack(np.meshgrid(*[3 * GRID] * P), axis=-1).reshape(-1, P)
    walls = np.concatenate([boxes.low, boxes.high])
    at_walls = np.where(np.isfinite(walls), walls, 0.0)
    rng = np.random.default_rng(seed)
    mixed = rng.permuted(np.tile(at_walls, (20, 1)), axis=0)
    for X in (grid, at_walls, mixed, rng.normal(scale=3, size=(200, P))):
        assert np.array_equal(inside(boxes, X), hidden(model, X) >= level)


@given(smooth_models())
@fixed(30)
def test_boxes_of_any_weights_are_right_away_from_their_walls(drawn):
    model = drawn[0]
    X = np.random.default_rng(0).normal(scale=3, size=(300, model.n_features))
    g = hidden(model, X)
    sure = np.abs(g - 0.3) > 1e-9
    assert np.array_equal(inside(unit_boxes(model, 0.3), X)[sure], (g >= 0.3)[sure])


@given(tied_models())
@fixed(40)
def test_centres_are_the_tops_of_units(drawn):
    model = drawn[0]
    centre = unit_boxes(model).centre
    for p in range(model.n_features):
        a, b = (float(v) for v in model.W0[2 * p : 2 * p + 2])
        for h in range(model.n_hidden):
            A, B = (float(v) for v in model.W1[2 * p : 2 * p + 2, h])

            def value(t, a=a, b=b, A=A, B=B):
                return min(a * t + A, b * t + B)

            top = float(centre[h, p])
            if a * b < 0:
                assert all(value(top) > value(top + s) for s in (-9.0, -0.01, 0.01, 9.0))
            elif a * b > 0:
                assert np.isnan(top)


def test_rows_without_slope_are_all_or_nothing():
    model = lmm(np.zeros(2), [[0.5, 0.5, 0.5], [0.5, 0.25, 1.0]], np.zeros((3, 1)))
    X = np.array([[-1e9], [0.0], [1e9]])
    assert inside(unit_boxes(model, 0.5), X).tolist() == [[True, False, True]] * 3
    assert not inside(unit_boxes(model, 1.5), X).any()


def test_favourites_are_the_largest_outputs():
    W2 = [[1.0, 3.0, 3.0], [0.0, 0.0, 0.0], [-1.0, -2.0, -0.5]]
    boxes = unit_boxes(lmm([1.0, -1.0], np.zeros((2, 3)), W2))
    assert boxes.favourite.tolist() == [1, 0, 2]
    assert boxes.height.tolist() == [3.0, 0.0, -0.5]


# -- explanations of a classifier -------------------------------------------------------------

FIELDS = [
    *("row", "class", "predicted", "score", "probability", "unit", "prototype", "feature"),
    *("value", "slope", "runner_up", "margin", "flip_feature", "flip_value", "flip_class"),
]


@pytest.fixture(scope="module")
def why(fitted, iris):
    return fitted.explain(iris.X[::10], class_names=FLOWERS, feature_names=MEASURES)


def check_records(clf, X, explanation, classes, features):
    """Every field of every record, computed by hand."""
    records = explanation.to_records()
    assert records.dtype.names == tuple(FIELDS)
    assert len(records) == len(X) * len(classes)
    model, proba = clf.model_, clf.predict_proba(X)
    winners = clf.predict(X)
    prototypes = getattr(clf, "prototypes_", np.full(model.n_hidden, -1))
    flips = single_feature_flips(model, X)
    for k, record in enumerate(records):
        n, d = divmod(k, len(classes))
        score, unit, row, runner_up, margin = path_of(X[n], model, d)
        assert record["row"] == n
        assert record["class"] == classes[d]
        assert record["predicted"] == (clf.classes_[d] == winners[n])
        np.testing.assert_allclose(record["score"], score, rtol=1e-12)
        np.testing.assert_allclose(record["probability"], proba[n, d], rtol=1e-12)
        assert record["unit"] == unit
        assert record["prototype"] == prototypes[unit]
        assert record["feature"] == features[row // 2]
        assert record["value"] == X[n, row // 2]
        assert record["slope"] == model.W0[row]
        assert record["runner_up"] == runner_up
        np.testing.assert_allclose(record["margin"], margin, atol=1e-12)
        if flips.feature[n] < 0:
            assert (record["flip_feature"], record["flip_class"]) == ("", "")
            assert np.isnan(record["flip_value"])
        else:
            assert record["flip_feature"] == features[flips.feature[n]]
            assert record["flip_value"] == flips.value[n]
            assert record["flip_class"] == classes[flips.becomes[n]]


def test_records_are_what_the_oracle_says(fitted, why, iris):
    assert isinstance(why, Explanation)
    assert len(why) == 15
    assert why.predicted.tolist() == fitted.predict(iris.X[::10]).tolist()
    assert why.prototype.shape == (15, 3)
    check_records(fitted, iris.X[::10], why, FLOWERS, MEASURES)


def test_random_weights_have_no_prototypes(without_prototypes, iris):
    explanation = without_prototypes.explain(iris.X[::10])
    assert (explanation.prototype == -1).all()
    assert "training sample" not in str(explanation)
    words = [f"feature {p}" for p in range(4)]
    check_records(without_prototypes, iris.X[::10], explanation, FLOWERS, words)


def test_a_single_unit_and_two_classes(iris):
    X, y = iris.X[:100:10], iris.y[:100:10] > 0
    clf = SubgradientLMMClassifier(1, max_iter=5, random_state=0).fit(X, y)
    explanation = clf.explain(X)
    words = [f"feature {p}" for p in range(4)]
    check_records(clf, X, explanation, ["False", "True"], words)
    for words in ("unit -1", "nan", "ahead of"):
        assert words not in str(explanation)


def test_tables_are_data_frames(why):
    pandas = pytest.importorskip("pandas")
    table, records = why.to_table(), why.to_records()
    assert isinstance(table, pandas.DataFrame)
    assert list(table.columns) == FIELDS
    for name in FIELDS:
        assert table[name].tolist() == pytest.approx(records[name].tolist(), nan_ok=True)


def test_without_pandas_tables_are_records(fitted, why, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    table = why.to_table()
    assert isinstance(table, np.recarray)
    assert table.tolist() == why.to_records().tolist()
    assert isinstance(fitted.units(), np.recarray)
    assert isinstance(fitted.worst_samples(3), np.recarray)
    assert len(fitted.worst_samples(3).sample) == 3


def test_words_name_everything_best_class_first(why, iris):
    records = why.to_records().reshape(len(why), 3)
    X = iris.X[::10]
    for n in range(len(why)):
        first, *classes, last = why.text(n).splitlines()
        order = sorted(range(3), key=lambda d: -records[n, d]["score"])
        winner = records[n, order[0]]
        assert first.startswith(f"Row {n}: {winner['class']}")
        assert f"{winner['probability']:.3f}" in first
        assert len(classes) == 3
        for d, line in zip(order, classes, strict=True):
            record = records[n, d]
            assert re.search(rf"\bclass {record['class']}\b", line)
            assert re.search(rf"\bunit {record['unit']}\b", line)
            assert re.search(rf"\blike training sample {record['prototype']}\b", line)
            assert f"{record['feature']} = {record['value']:g} " in line
            assert re.search(rf"\bunit {record['runner_up']}\b", line)
            (score,) = re.findall(r"score (\S+),", line)
            assert float(score) == pytest.approx(record["score"], rel=1e-3)
        found = re.search(r"flips to (.+) if (.+) goes from (\S+) to ([-+.e\d]+)", last)
        word, feature, old, new = found.groups()
        assert (word, feature) == (record["flip_class"], record["flip_feature"])
        assert float(old) == X[n, MEASURES.index(feature)]
        assert float(new) == pytest.approx(record["flip_value"], rel=1e-3)


def test_the_text_is_that_of_all_rows(why):
    for n in range(len(why)):
        assert why.text(n) in str(why)
    starts = [line for line in str(why).splitlines() if line.startswith("Row ")]
    assert [int(re.match(r"Row (\d+):", line)[1]) for line in starts] == list(range(len(why)))


def test_words_say_so_if_nothing_flips(fitted, iris):
    x = iris.X[0]
    fixed_row = fitted.explain(x[None], low=x, high=x)
    assert "no change of a single feature flips it" in str(fixed_row)
    assert "flips to" not in str(fixed_row)
    assert np.isnan(fixed_row.to_records()["flip_value"]).all()
    assert "no change of a single feature" not in str(fitted.explain(x[None]))


def test_bounds_reach_the_flips(fitted, iris):
    X = iris.X[::10]
    low, high = iris.X.min(axis=0), iris.X.max(axis=0)
    flips = fitted.explain(X, low=low, high=high).flips
    expected = single_feature_flips(fitted.model_, X, low, high)
    for one, other in zip(flips, expected, strict=True):
        assert np.array_equal(one, other, equal_nan=True)
    some = flips.feature >= 0
    assert (flips.value[some] >= low[flips.feature[some]]).all()
    assert (flips.value[some] <= high[flips.feature[some]]).all()


def test_names_come_from_the_data_or_are_numbers(iris):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(iris.X, columns=MEASURES)
    clf = SubgradientLMMClassifier(5, max_iter=5, random_state=0).fit(X, iris.y)
    assert set(clf.explain(X[:9]).to_records()["feature"]) <= set(MEASURES)
    assert set(clf.units()["feature"]) == set(MEASURES)
    assert set(clf.explain(X[:9]).to_records()["class"]) == {"0", "1", "2"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"class_names": ["a", "b"]}, "class_names"),
        ({"class_names": list("abcd")}, "class_names"),
        ({"feature_names": list("abc")}, "feature_names"),
        ({"feature_names": []}, "feature_names"),
        ({"low": np.nan}, "low"),
        ({"high": [1.0, np.nan, 1.0, 1.0]}, "high"),
        ({"low": [1.0, 2.0]}, "low"),
        ({"high": np.ones((4, 1))}, "high"),
    ],
    ids=str,
)
def test_wrong_arguments_are_named(fitted, iris, arguments, words):
    with pytest.raises(ValueError, match=f"^{words} "):
        fitted.explain(iris.X[:2], **arguments)


def test_wrong_rows_are_refused(fitted, iris):
    with pytest.raises(ValueError, match="features"):
        fitted.explain(iris.X[:2, :3])
    with pytest.raises(ValueError, match="NaN"):
        fitted.explain(np.full((1, 4), np.nan))


def test_unfitted_classifiers_explain_nothing(iris):
    for call in (
        lambda clf: clf.explain(iris.X),
        lambda clf: clf.units(),
        lambda clf: clf.worst_samples(),
    ):
        with pytest.raises(NotFittedError):
            call(LMMClassifier())


# -- units and worst samples ------------------------------------------------------------------


@pytest.mark.parametrize("level", [0.0, -2.0])
def test_units_are_their_boxes(fitted, level):
    table = fitted.units(level)
    assert len(table) == 8 * 4
    X = np.random.default_rng(0).uniform(0, 8, (400, 4))
    g = hidden(fitted.model_, X)
    for h in range(8):
        lines = [{name: table[name][4 * h + p] for name in table_names(table)} for p in range(4)]
        top = fitted.W2_[h].max()
        for p, line in enumerate(lines):
            assert line["unit"] == h
            assert line["class"] == fitted.classes_[fitted.W2_[h].tolist().index(top)]
            assert line["height"] == top
            assert line["prototype"] == fitted.prototypes_[h]
            assert line["feature"] == f"feature {p}"
        low, high = (np.array([line[name] for line in lines]) for name in ("low", "high"))
        reached = ((low <= X) & (high >= X)).all(axis=1)
        sure = np.abs(g[:, h] - level) > 1e-9
        assert np.array_equal(reached[sure], (g[:, h] >= level)[sure])
    assert level == 0.0 or (g >= level).any()


def table_names(table):
    names = getattr(table, "columns", None)
    return list(table.dtype.names if names is None else names)


def test_units_have_these_columns(fitted, without_prototypes):
    names = ["unit", "class", "height", "prototype", "feature", "low", "high"]
    assert table_names(fitted.units()) == names
    table = without_prototypes.units()
    assert table_names(table) == names
    assert (np.asarray(table["prototype"]) == -1).all()
    assert set(table["class"]) <= set(FLOWERS)


def by_loss(clf, X, y):
    """Samples with their losses, worst first."""
    rows = zip(clf.predict_log_proba(X), y, strict=True)
    losses = [-row[list(clf.classes_).index(label)] for row, label in rows]
    return sorted(enumerate(losses), key=lambda pair: -pair[1])


@pytest.mark.parametrize("n", [1, 10, 150, 1000])
def test_worst_samples_have_the_largest_losses(without_prototypes, iris, n):
    labels = np.array(FLOWERS)[iris.y]
    table = without_prototypes.worst_samples(n)
    assert table_names(table) == ["sample", "label", "loss", "probability"]
    expected = by_loss(without_prototypes, iris.X, labels)[:n]
    assert len(table) == len(expected) == min(n, 150)
    np.testing.assert_allclose(table["loss"], [loss for _, loss in expected], rtol=1e-9)
    columns = [table[name] for name in table_names(table)]
    every = dict(by_loss(without_prototypes, iris.X, labels))
    for sample, label, loss, probability in zip(*columns, strict=True):
        assert label == labels[sample]
        assert loss == pytest.approx(every[sample], rel=1e-9)
        assert probability == pytest.approx(np.exp(-loss), rel=1e-9)
    assert len(set(table["sample"])) == len(expected)


def test_ten_is_the_usual_number(fitted):
    assert len(fitted.worst_samples()) == 10


def test_samples_of_no_weight_are_left_out(iris):
    weight = np.ones(150)
    weight[[0, 3, 70, 149]] = 0.0
    clf = SubgradientLMMClassifier(6, max_iter=30, random_state=0).fit(iris.X, iris.y, weight)
    table = clf.worst_samples(1000)
    assert sorted(table["sample"]) == np.flatnonzero(weight).tolist()
    expected = [(n, loss) for n, loss in by_loss(clf, iris.X, iris.y) if weight[n]]
    np.testing.assert_allclose(table["loss"], [loss for _, loss in expected], rtol=1e-9)
    assert np.array_equal(table["label"], iris.y[np.asarray(table["sample"])])


@pytest.mark.parametrize("n", [0, -3])
def test_worst_samples_are_at_least_one(fitted, n):
    with pytest.raises(ValueError, match=f"^n must be .*got {n}"):
        fitted.worst_samples(n)


# -- linear directions ------------------------------------------------------------------------


def test_paths_lead_through_views(seer, iris):
    model, paths = seer.model_, decisive_paths(seer.model_, iris.X)
    plain, V = LMM(model.W0, model.W1, model.W2), model.views(iris.X)
    for found, expected in zip(paths, decisive_paths(plain, V), strict=True):
        assert np.array_equal(found, expected)
    n, d = np.indices(paths.unit.shape)
    i, h = paths.row, paths.unit
    z = model.W0[i] * V[n, paths.view] + model.W1[i, h] + model.W2[h, d]
    np.testing.assert_allclose(paths.score, z, atol=1e-12)
    # Some scores are decided by sums, and some by features.
    assert (paths.view >= 4).any()
    assert (paths.view < 4).any()


def test_a_direction_is_named_by_its_largest_terms(seer, iris):
    why = seer.explain(iris.X, feature_names=list("abcd"))
    D = seer.model_.directions
    assert np.array_equal(D[:4], np.eye(4))
    assert why.view_names[:4] == list("abcd")
    a, _, c, d = np.abs(D[4])
    assert why.view_names[4] == f"−{d:.2g}·d − {c:.2g}·c + {a:.2g}·a + …"
    assert why.view_names[5] == f"−{abs(D[5, 3]):.2g}·d + {D[5, 0]:.2g}·a"
    records = why.to_records()
    view = why.paths.view.ravel()
    assert records["feature"].tolist() == [why.view_names[m] for m in view]
    values = iris.X @ D.T
    np.testing.assert_allclose(records["value"], values[records["row"], view], atol=1e-12)
    n = int(np.flatnonzero((why.paths.view == 4).any(axis=1))[0])
    words = f"decided by {why.view_names[4]} = {values[n, 4]:.4g} (slope "
    assert words in why.text(n)
    assert set(records["flip_feature"]) <= {*"abcd", ""}


def test_names_of_sums():
    D = np.array([[1.0, 0, 0, 0], [0, -1, 0, 0], [0, 2, 0, 0], [0, 0, 0, 0], [1, -0.5, 3, 100]])
    names = ["0", "1", "2", "3"]
    expected = ["0", "−1", "2·1", "0", "1e+02·3 + 3·2 + 0 + …"]
    assert view_names(D, names) == expected
    # A feature that varies little has a small term.
    by_scale = view_names(D, names, np.array([1.0, 10.0, 1.0, 1e-3]))
    assert by_scale[4] == "−0.5·1 + 3·2 + 0 + …"
    assert view_names(None, names) == names
    assert view_features(D, 4).tolist() == [0, -1, -1, -1, -1]
    assert view_features(None, 3).tolist() == [0, 1, 2]


def test_units_are_boxes_of_views(seer, iris):
    table = seer.units()
    H, M = seer.n_hidden_, 6
    assert len(table) == H * M
    why = seer.explain(iris.X[:1])
    assert [str(name) for name in table["feature"][:M]] == why.view_names
    low, high = (np.asarray(table[name]).reshape(H, M) for name in ("low", "high"))
    X = np.random.default_rng(0).uniform(0, 8, (400, 4))
    V, g = X @ seer.model_.directions.T, seer.model_.hidden(X)
    reached = ((low <= V[:, None]) & (V[:, None] <= high)).all(axis=2)
    sure = np.abs(g) > 1e-9
    assert np.array_equal(reached[sure], (g >= 0)[sure])
    assert why.centres.shape == (H, M)


def test_flips_of_a_classifier_with_directions(seer, iris):
    check_flips(seer.model_, iris.X[::3], ties=True)
    flips = seer.explain(iris.X).flips
    some = flips.feature >= 0
    changed = iris.X[some]
    changed[np.arange(len(changed)), flips.feature[some]] = flips.value[some]
    assert some.mean() > 0.9
    assert np.array_equal(seer.predict(changed), seer.classes_[flips.becomes[some]])
