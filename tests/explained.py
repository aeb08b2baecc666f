"""Models, rows and reference implementations for the tests of explanations."""

import functools
from typing import NamedTuple

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from maxplus.explain import Domain, nearest_counterfactuals
from maxplus.models import LMM, AdditiveLMM, FeatureMap, Term
from oracles import best, lmm_path, lmm_terms
from strategies import DTYPES, SEEDS, grid_array, quick

SMALL = st.integers(1, 4)
FEW_CLASSES = st.integers(2, 4)
FLOWERS = ["setosa", "versicolor", "virginica"]
MEASURES = ["sepal length", "sepal width", "petal length", "petal width"]
FAR = 100.0  # An offset with which a row is never the minimum.


def fixed(max_examples):
    """Return settings of a property test with the same examples at every run."""
    return settings(quick(max_examples), derandomize=True)


def flips_within(model, X, low=-np.inf, high=np.inf):
    """Return counterfactuals in raw units; all features are numbers between two limits."""
    return nearest_counterfactuals(
        model, X, Domain.unrestricted(model.n_features).within(low, high)
    )


def lmm(W0, W1, W2, dtype=np.float64):
    return LMM(*(np.asarray(W, dtype) for W in (W0, W1, W2)))


@st.composite
def tied_models(draw):
    """Return a model and three rows on a coarse grid: slopes of any sign, zeros, many ties."""
    P, H, C = draw(SMALL), draw(SMALL), draw(SMALL)
    rng, dtype = np.random.default_rng(draw(SEEDS)), draw(DTYPES)
    shapes = [(2 * P,), (2 * P, H), (H, C), (3, P)]
    W0, W1, W2, X = (grid_array(rng, shape, dtype) for shape in shapes)
    return LMM(W0, W1, W2), X


@st.composite
def smooth_models(draw, dtype=np.float64):
    """Return a model and three rows without ties, with no bounds, scalar or array bounds."""
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


def path_of(x, model, d):
    """Return score, unit, row, runner-up and margin of one class, computed with loops."""
    z, units, rows = lmm_path(x, model.W0, model.W1, model.W2)
    terms = lmm_terms(x, model.W0, model.W1)
    outputs = [min(t) + float(model.W2[h, d]) for h, t in enumerate(terms)]
    others = [-np.inf if h == units[d] else v for h, v in enumerate(outputs)]
    if len(others) == 1:
        return z[d], units[d], rows[d], -1, np.nan
    second, runner_up = best(others, "max")
    return z[d], units[d], rows[d], runner_up, z[d] - second


class Nearest(NamedTuple):
    """Bounds on the distance of the nearest counterfactual, and the nearest tied interval."""

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
        """Return all values at which any two pieces of any two scores are equal."""
        lines = [(a, np.unique(b[:, None] + self.W2)) for a, b in self.pieces]
        lines = [(a, b) for a, b in lines if np.isfinite(b).all()]
        pairs = [(one, other) for k, one in enumerate(lines) for other in lines[:k]]
        found = [(np.subtract.outer(b, B) / (A - a)).ravel() for (a, b), (A, B) in pairs if a != A]
        return np.concatenate([[], *found])

    def lead(self, t, y):
        """Return the score of the best other class minus that of class y."""
        z = self.scores(t)
        return np.delete(z, y, axis=1).max(axis=1, initial=-np.inf) - z[:, y]

    def nearest(self, y, low, high, tolerance):
        """Evaluate at each crossing and between two, where the highest class is constant."""
        ts = np.append(self.crossings(), self.at)
        ts = ts[(ts >= low) & (ts <= high)]
        # The highest class is constant beyond the last crossing, so that a step of 1 suffices.
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


def nearest_flip(model, x, y, low, high, tolerance):
    """Return the nearest flip along any feature, searched in growing neighbourhoods."""
    lines = [Line(model, x, q) for q in range(len(x))]
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
    """Assert that every flip is real, within bounds and the nearest; ``ties`` allows ties."""
    found = flips_within(model, X, low, high)
    predicted = model.scores(X).argmax(axis=1)
    low, high = (np.broadcast_to(v, X.shape[1]) for v in (low, high))
    for n, x in enumerate(X):
        p, value, new_class = (array[n] for array in found[:3])
        nearest = nearest_flip(model, x, predicted[n], low, high, tolerance)
        if p == -1:
            assert np.isnan(value)
            assert new_class == -1
            change = np.inf
        else:
            assert low[p] <= value <= high[p]
            changed = x.astype(np.float64)
            changed[p] = value
            assert model.scores(changed[None]).argmax() == new_class
            assert new_class != predicted[n]
            change = abs(value - float(x[p]))
            assert change >= nearest.possible - rtol * (1 + nearest.possible)
        if not (ties and nearest.tied < nearest.clear):
            assert change <= nearest.clear + rtol * (1 + nearest.clear)
    return found


# Limits of the features of random sums.
LOW, HIGH = -4.0, 4.0


def random_terms(rng, n_features, n_classes, dtype=np.float64, n_terms=4):
    """Return terms over one, some and all features, with capped units of any slopes."""
    terms = []
    for _ in range(n_terms):
        m = int(rng.choice([1, 1, rng.integers(1, n_features + 1), n_features]))
        H = int(rng.integers(1, 5))
        slopes = rng.uniform(0.3, 2.0, 2 * m) * rng.choice([-1.0, 0.0, 1.0, 1.0], 2 * m)
        weights = slopes, rng.normal(size=(2 * m, H)), rng.normal(size=(H, n_classes))
        features = np.sort(rng.choice(n_features, m, replace=False))
        terms.append(Term(features, LMM(*(W.astype(dtype) for W in weights))))
    return terms


def random_map(rng, n_features):
    """Return a feature map with any number of knots within the limits, some segments flat."""
    knots = []
    for _ in range(n_features):
        n = int(rng.integers(1, 7))
        u = np.cumsum(rng.exponential(0.5, n) * rng.choice([0.0, 1.0, 1.0], n)) - 1.0
        knots.append((np.sort(rng.uniform(LOW, HIGH, n)), u))
    return FeatureMap(knots)


def random_sum(rng, n_features, n_classes, *, is_mapped=True, dtype=np.float64, n_terms=4):
    return AdditiveLMM(
        random_terms(rng, n_features, n_classes, dtype, n_terms),
        n_features,
        random_map(rng, n_features) if is_mapped else None,
        0.3 * rng.normal(size=n_classes),
    )
