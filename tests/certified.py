"""Models, exact bounds in fractions, and attacks for tests of certificates."""

from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import strategies as st

from maxplus.models import LMM
from strategies import DTYPES, SEEDS, grid_array

# A radius may fall short of the largest certified eps by this share of it.
SHORT = 1e-6
# Rounding that a bound may contain, relative to the largest number that occurs.
ROUNDING = {np.dtype(np.float64): 1e-14, np.dtype(np.float32): 2e-6}

BOTH_TYPES = pytest.mark.parametrize("dtype", [np.float64, np.float32])


def cast(model, dtype):
    """Return the same weights, rounded to another float type."""
    return LMM(model.W0.astype(dtype), model.W1.astype(dtype), model.W2.astype(dtype))


def cones(centres, slope=1.0):
    """Return a model with one unit per class, z_d(x) = −slope·‖x − centres[d]‖∞."""
    W0 = slope * np.tile([1.0, -1.0], centres.shape[1])
    W1 = -W0[:, None] * np.repeat(centres.T, 2, axis=0)
    return LMM(W0, W1, np.where(np.eye(len(centres)), 0.0, -999.0))


def random_model(rng, P, H, C):
    """Return a model whose slopes have any signs; some are zero."""
    W0 = rng.normal(size=2 * P) * (rng.random(2 * P) < 0.9)
    return LMM(W0, rng.normal(size=(2 * P, H)), rng.normal(size=(H, C)))


ROUGH = random_model(np.random.default_rng(1), 4, 6, 3)


def predict(model, X):
    return model.scores(X).argmax(axis=1)


def two_best(model, X):
    """Return the two highest scores of each row."""
    Z = np.sort(model.scores(X).astype(float), axis=1)
    return Z[:, -1], Z[:, -2]


def lipschitz_radius(model, X, scale=1.0):
    """Return (z₁ − z₂) / (2·max |W0|·scale), a lower bound of the radius."""
    first, second = two_best(model, X)
    slopes = np.abs(model.W0.astype(float)) * np.repeat(np.broadcast_to(scale, X.shape[1]), 2)
    return (first - second) / (2.0 * slopes.max())


def size(model, X, eps, scale=1.0):
    """Return roughly the largest magnitude in each row's box, to which rounding is relative."""
    inputs = np.abs(X.astype(float)).max(axis=1) + np.max(eps * np.asarray(scale, float))
    largest = [float(np.abs(W).max()) for W in (model.W0, model.W1, model.W2)]
    return largest[0] * inputs + largest[1] + largest[2]


# -- reference implementation in exact arithmetic ---------------------------------------------


def exact(values):
    """Return nested lists of the values as fractions."""
    return [exact(v) if np.ndim(v) else Fraction(float(v)) for v in values]


def exact_box(x, eps, scale):
    """Return both ends of the interval of each feature."""
    reach = [Fraction(float(eps)) * Fraction(float(s)) for s in scale]
    return [(Fraction(float(t)) - r, Fraction(float(t)) + r) for t, r in zip(x, reach, strict=True)]


def exact_units(model, x, eps, scale):
    """Return the lowest and the highest g_h over the box.

    A feature contributes min(a·t + A, b·t + B) to a unit. Over an interval, its minimum and its
    maximum are at an end or where the two lines cross.
    """
    W0, W1 = exact(model.W0), exact(model.W1)
    lowest, highest = [], []
    for h in range(model.n_hidden):
        bottoms, tops = [], []
        for p, (left, right) in enumerate(exact_box(x, eps, scale)):
            a, b, A, B = W0[2 * p], W0[2 * p + 1], W1[2 * p][h], W1[2 * p + 1][h]
            points = [left, right]
            if a != b and left < (B - A) / (a - b) < right:
                points.append((B - A) / (a - b))
            values = [min(a * t + A, b * t + B) for t in points]
            bottoms.append(min(values))
            tops.append(max(values))
        lowest.append(min(bottoms))
        highest.append(min(tops))
    return lowest, highest


def exact_bounds(model, x, eps, scale):
    """Return the bounds of scores that follow from those of the units."""
    W2, classes = exact(model.W2), range(model.n_classes)
    return [
        [max(g + heights[d] for g, heights in zip(unit, W2, strict=True)) for d in classes]
        for unit in exact_units(model, x, eps, scale)
    ]


def exact_gap(model, x, eps, scale):
    """Return the exact lower bound of the margin that `maxplus.certify.margins` computes.

    With one feature, it is the minimum over the ends and the crossings of two lines of a class.
    Otherwise, it is the minimum over the units h that may decide the score of another class, of the
    largest of three lower bounds of z_y.
    """
    y = int(predict(model, x[None])[0])
    W0, W1, W2 = exact(model.W0), exact(model.W1), exact(model.W2)
    units, rows = range(model.n_hidden), range(len(W0))
    others = [d for d in range(model.n_classes) if d != y]
    box = exact_box(x, eps, scale)
    if model.n_features == 1:
        (a, b), points = W0, [*box[0]]
        if a != b:
            tops = [
                [(W1[0][h] + W2[h][d], W1[1][h] + W2[h][d]) for h in units] for d in (y, *others)
            ]
            crossings = [(B - A) / (a - b) for pairs in tops for A, _ in pairs for _, B in pairs]
            points += [t for t in crossings if box[0][0] < t < box[0][1]]
        Z = [
            [
                max(min(a * t + W1[0][h], b * t + W1[1][h]) + W2[h][d] for h in units)
                for d in range(model.n_classes)
            ]
            for t in points
        ]
        return min(z[y] - z[d] for z in Z for d in others)
    least = [min(W0[i] * end for end in box[i // 2]) for i in rows]
    lowest, highest = exact_units(model, x, eps, scale)
    own = max(lowest[h] + W2[h][y] for h in units)
    k = int(model.astype(np.float64).active_path(x[None].astype(float)).unit[0, y])
    gaps = []
    for h in units:
        lead = min(W1[i][k] + max(-W1[i][h], least[i] - highest[h]) for i in rows)
        ahead = max(own - highest[h], W2[h][y], lead + W2[k][y])
        gaps += [ahead - W2[h][d] for d in others]
    return min(gaps)


class Case(NamedTuple):
    model: LMM
    X: np.ndarray
    eps: float
    scale: np.ndarray


@st.composite
def cases(draw, dtypes=DTYPES):
    """Draw a small model, rows and a box; values are on a grid with many ties, or arbitrary.

    Scales are 0 or powers of two, so that eps·scale_p is not rounded.
    """
    P, H, C, N = (draw(st.integers(low, 4)) for low in (1, 1, 2, 1))
    rng = np.random.default_rng(draw(SEEDS))
    dtype = draw(dtypes)
    signs = draw(st.sampled_from(["paper", "any", "equal", "some zero"]))
    shapes = [(2 * P,), (2 * P, H), (H, C), (N, P)]
    if draw(st.booleans()):
        arrays = [grid_array(rng, shape) for shape in shapes]
        eps = draw(st.sampled_from([0.0, 0.25, 0.5, 1.0, 3.0]))
    else:
        arrays = [rng.normal(size=shape) for shape in shapes]
        for array in arrays:
            if draw(st.booleans()):
                array += 1e4 * rng.choice([-1, 0, 1], size=array.shape[-1])
        eps = draw(st.sampled_from([1e-5, 0.3, 2.0])) * rng.uniform(0.5, 1.0)
    W0, W1, W2, X = arrays
    pair = np.tile([1.0, -1.0], P)
    W0 = {
        "paper": np.abs(W0) * pair,
        "any": W0,
        "equal": np.abs(W0) * np.repeat(np.sign(W0[::2]), 2),
        "some zero": W0 * (rng.random(2 * P) < 0.5),
    }[signs]
    scale = rng.choice([0.0, 0.5, 1.0, 1.0, 4.0], size=P) if draw(st.booleans()) else np.ones(P)
    return Case(cast(LMM(W0, W1, W2), dtype), X.astype(dtype), eps, scale)


# -- attacks ----------------------------------------------------------------------------------


def inside(X, step):
    """Return X + step, rounded towards X so that it stays in the box."""
    return np.nextafter((X + step).astype(X.dtype), X)


def peaks(model):
    """Return the maximiser of each unit per feature: a crossing, or ±∞ if the unit is unbounded."""
    W0, W1 = model.W0.astype(float)[:, None], model.W1.astype(float)
    a, b = W0[::2], W0[1::2]
    roof = np.sign(a) * np.sign(b) < 0
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = (W1[1::2] - W1[::2]) / (a - b)
    return np.where(roof, crossing, np.where((a > 0) | (b > 0), np.inf, -np.inf)).T


def assess(model, points, y):
    """Return for all points[n, k] whether y[n] is not predicted, and the margin of y[n]."""
    Z = model.scores(points.reshape(-1, points.shape[2])).reshape(*points.shape[:2], -1)
    index = y[:, None, None]
    lost = Z.argmax(axis=2) != y[:, None]
    own = np.take_along_axis(Z, index, axis=2)[..., 0]
    np.put_along_axis(Z, index, -np.inf, axis=2)
    return lost, own - Z.max(axis=2)


def attack(model, X, radius, scale=1.0, tries=20, rounds=8, width=16, seed=0):
    """Return whether an attack found a point of another class in each row's box.

    The attack evaluates random points and corners and, for an LMM, the maximiser of each unit.
    Starting at the one with the lowest margin, a pattern search moves one feature at a time to an
    end of its interval or to a random point. For an LMM, one of the features is always the one that
    decides the score of the class.
    """
    rng, is_single = np.random.default_rng(seed), isinstance(model, LMM)
    (N, P), y, rows = X.shape, predict(model, X), np.arange(len(X))
    if N == 0:
        return np.zeros(0, bool)
    reach = np.broadcast_to(np.minimum(radius, 1e9), N)[:, None] * np.broadcast_to(scale, P)
    centre, span = X[:, None], reach[:, None]
    steps = [
        span * rng.uniform(-1.0, 1.0, (N, tries, P)),
        span * rng.choice([-1.0, 1.0], (N, tries, P)),
    ]
    if is_single:
        steps.append(np.clip(peaks(model) - centre, -span, span))
    points = inside(centre, np.concatenate(steps, axis=1))
    lost, ahead = assess(model, points, y)
    flipped, best = lost.any(axis=1), points[rows, ahead.argmin(axis=1)]
    for _ in range(rounds):
        shares = [-1.0, 0.0, 1.0, rng.uniform(-1.0, 1.0, X.shape)]
        values = np.stack([inside(X, share * reach) for share in shares])
        feature = rng.integers(P, size=(N, width))
        if is_single:
            feature[:, 0] = model.active_path(best).row[rows, y] // 2
        points = np.tile(best[:, None], (1, 1 + len(values) * width, 1))
        for k in range(width):
            places = 1 + len(values) * k + np.arange(len(values))[:, None]
            points[rows, places, feature[:, k]] = values[:, rows, feature[:, k]]
        lost, ahead = assess(model, points, y)
        flipped |= lost.any(axis=1)
        best = points[rows, ahead.argmin(axis=1)]
    return flipped
