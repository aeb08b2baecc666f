"""Initial weights: prototypes, random weights and distances of the data."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import oracles
from maxplus import LMMClassifier, SubgradientLMMClassifier
from maxplus.models.initialization import (
    choose_prototypes,
    class_distance,
    glorot_uniform,
    median_distance,
    prototype_lmm,
    random_lmm,
)
from strategies import DTYPES, SEEDS, grid_array, quick


def rng(seed=0):
    return np.random.default_rng(seed)


# -- prototypes -------------------------------------------------------------------------------


@quick(100)
@given(seed=SEEDS, n=st.integers(1, 40), n_classes=st.integers(1, 6), n_hidden=st.integers(1, 50))
def test_prototypes_are_distinct_sorted_and_of_every_class(seed, n, n_classes, n_hidden):
    y = rng(seed).integers(n_classes, size=n)
    chosen = choose_prototypes(y, n_hidden, rng(seed))
    assert chosen.size == min(n_hidden, n)
    assert_array_equal(chosen, sorted(set(chosen.tolist())))
    assert 0 <= chosen[0] <= chosen[-1] < n
    if n_hidden >= np.unique(y).size:
        assert_array_equal(np.unique(y[chosen]), np.unique(y))


def test_prototypes_are_spread_evenly():
    """Each of 40 samples of one class is one of 10 prototypes with probability 1/4."""
    y = np.zeros(40, int)
    counts = np.zeros(40)
    for seed in range(800):
        counts[choose_prototypes(y, 10, rng(seed))] += 1
    assert_allclose(counts, 200, atol=60)


# -- the prototype model ----------------------------------------------------------------------


@quick(40)
@given(
    seed=SEEDS,
    dtype=DTYPES,
    P=st.integers(1, 6),
    H=st.integers(1, 9),
    slope=st.sampled_from([0.5, 1.0, 4.0]),
)
def test_prototype_units_are_negative_distances(seed, dtype, P, H, slope):
    generator = rng(seed)
    points = grid_array(generator, (H, P), dtype)
    labels = generator.integers(3, size=H)
    model = prototype_lmm(points, labels, 3, slope, init_margin=2.0)
    X = grid_array(generator, (5, P), dtype)
    expected = [[-slope * oracles.chebyshev(x, point) for point in points] for x in X]
    assert_array_equal(model.hidden(X), np.array(expected, dtype), strict=True)


@quick(40)
@given(seed=SEEDS, dtype=DTYPES, slope=st.floats(1e-3, 1e3))
def test_prototype_units_are_exactly_zero_at_their_prototype(seed, dtype, slope):
    points = rng(seed).normal(size=(6, 5)).astype(dtype)
    G = prototype_lmm(points, np.arange(6) % 2, 2, slope, 1.0).hidden(points)
    assert_array_equal(np.diag(G), np.zeros(6))
    assert (G <= 0).all()


def test_prototype_model_weights():
    points = np.array([[1.0, -2.0], [0.5, 4.0], [3.0, 0.0]])
    model = prototype_lmm(points, np.array([1, 0, 1]), 2, slope=3.0, init_margin=5.0)
    assert_array_equal(model.W0, [3, -3, 3, -3])
    assert_array_equal(model.W1, [[-3, -1.5, -9], [3, 1.5, 9], [6, -12, 0], [-6, 12, 0]])
    assert_array_equal(model.W2, [[-5, 5], [5, -5], [-5, 5]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_prototype_model_is_a_nearest_neighbour_classifier(dtype):
    points, X = rng(2).normal(size=(20, 3)).astype(dtype), rng(3).normal(size=(50, 3)).astype(dtype)
    labels = np.arange(20) % 4
    model = prototype_lmm(points, labels, 4, slope=1.0, init_margin=50.0)
    nearest = [min(range(20), key=lambda h, x=x: oracles.chebyshev(x, points[h])) for x in X]
    assert model.dtype == dtype
    assert (model.n_features, model.n_hidden, model.n_classes) == (3, 20, 4)
    assert_array_equal(model.scores(X).argmax(axis=1), labels[nearest])
    assert_array_equal(model.scores(points).argmax(axis=1), labels)


# -- random weights ---------------------------------------------------------------------------


@pytest.mark.parametrize(("fan_in", "fan_out", "bound"), [(100, 50, 0.2), (300, 300, 0.1)])
def test_glorot_initialization_bounds(fan_in, fan_out, bound):
    sample = glorot_uniform(fan_in, fan_out, rng())
    assert sample.shape == (fan_in, fan_out)
    assert 0.99 * bound < np.abs(sample).max() <= bound
    assert_allclose(sample.std(), bound / math.sqrt(3), rtol=0.03)


@pytest.mark.parametrize(
    "draw",
    [
        lambda generator: choose_prototypes(np.arange(200) % 4, 20, generator),
        lambda generator: random_lmm("gaussian", (3, 4, 2), 1.0, 1.0, np.float64, generator).W1,
        lambda generator: random_lmm("uniform", (3, 4, 2), 1.0, 1.0, np.float64, generator).W1,
        lambda generator: median_distance(rng().normal(size=(500, 3)), generator),
    ],
)
def test_initialization_depends_only_on_seed(draw):
    assert_array_equal(draw(rng(1)), draw(rng(1)))
    assert np.any(draw(rng(1)) != draw(rng(2)))


@pytest.mark.parametrize("draw", ["gaussian", "uniform"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_random_lmm_shapes_types_and_scales(draw, dtype):
    P, H, C = 50, 60, 40
    model = random_lmm(draw, (P, H, C), 3.0, 0.5, dtype, rng())
    assert (model.n_features, model.n_hidden, model.n_classes) == (P, H, C)
    scale = {"gaussian": 1.0, "uniform": 1 / math.sqrt(3)}[draw]
    for W, k, rtol in ((model.W0, 3.0, 0.3), (model.W1, 3.0, 0.05), (model.W2, 0.5, 0.06)):
        assert W.dtype == dtype
        assert abs(W.mean()) < 5 * k / math.sqrt(W.size)
        assert_allclose(W.std(), k * scale, rtol=rtol)
        assert (np.abs(W).max() <= k) == (draw == "uniform")


# -- median distance --------------------------------------------------------------------------


def test_median_distance_of_a_normal_cloud():
    X = rng().normal(size=(300, 4))
    pairs = [oracles.chebyshev(X[i], X[j]) for i in range(300) for j in range(i)]
    assert_allclose(median_distance(X, rng()), np.median(pairs), rtol=0.05)


@pytest.mark.parametrize(
    ("X", "expected"),
    [
        ([[7.0, 7.0]], 1.0),
        ([[7.0, 7.0]] * 10, 1.0),
        ([[0.0, 0.0], [3.0, -4.0]], 4.0),
        # Nearly all pairs of these 100 samples coincide; the distance of the others is 5.
        ([[0.0]] * 98 + [[5.0]] * 2, 5.0),
    ],
    ids=["one sample", "constant", "two samples", "mostly duplicates"],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_median_distance_examples(X, expected, dtype):
    for seed in range(5):
        got = median_distance(np.array(X, dtype), rng(seed))
        assert isinstance(got, float)
        assert got == expected


def test_median_distance_excludes_pairs_of_the_same_sample():
    """The median of the distances 1, 2 and 3 is 2; with distances of 0 it would be 1."""
    X = np.array([[0.0], [1.0], [3.0]])
    assert [median_distance(X, rng(seed)) for seed in range(10)] == [2.0] * 10


# -- distance between classes -----------------------------------------------------------------


@quick(30)
@given(seed=SEEDS, dtype=DTYPES, P=st.integers(1, 3), n=st.integers(1, 30))
def test_class_distance_matches_loop_over_pairs(seed, dtype, P, n):
    X, y = rng(seed).normal(size=(n, P)).astype(dtype), rng(seed).integers(3, size=n)
    draws = rng(seed)
    a, b = draws.integers(n, size=2_000), draws.integers(n, size=2_000)
    pairs = [np.abs(X[i] - X[j]).max() for i, j in zip(a, b, strict=True) if y[i] != y[j]]
    assert class_distance(X, y, rng(seed)) == (float(np.median(pairs)) if pairs else 1.0)


def test_class_distance_of_coinciding_classes_is_one():
    X = np.zeros((10, 2))
    assert class_distance(X, np.arange(10) % 2, rng()) == 1.0
    assert class_distance(rng().normal(size=(10, 2)), np.zeros(10, int), rng()) == 1.0


DISTANCES = {
    "median": lambda X: median_distance(X, rng()),
    "class": lambda X: class_distance(X, np.arange(len(X)) % 2, rng()),
}
EVERY_DISTANCE = pytest.mark.parametrize("distance", DISTANCES.values(), ids=DISTANCES)


@EVERY_DISTANCE
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distances_are_positive(distance, dtype):
    """Distances of all magnitudes have a finite inverse, or are rejected."""
    info = np.finfo(dtype)
    X = rng(1).uniform(-1, 1, size=(50, 3))
    rejected = {}
    for size in 2.0 ** np.arange(math.log2(info.smallest_subnormal), math.log2(info.max), 3.0):
        rows = np.concatenate([X, -X]).astype(dtype) * dtype(size)
        try:
            found = distance(rows)
        except ValueError as error:
            rejected[size] = str(error)
        else:
            assert 0.0 < found < math.inf
            assert 100.0 / found < float(info.max)
    assert all("scale the features" in message for message in rejected.values())
    # Only distances close to the smallest normal float are rejected.
    assert 0 < max(rejected) < 1e6 * info.tiny


@EVERY_DISTANCE
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distances_of_largest_floats_are_finite(distance, dtype):
    X = np.full((20, 2), np.finfo(dtype).max)
    X[::2] *= -1
    assert 1e30 < distance(X) < math.inf


@EVERY_DISTANCE
def test_distances_of_features_of_different_magnitudes(distance):
    X = rng().normal(size=(100, 3)) * [1e-22, 1.0, 1e22]
    assert_allclose(distance(X), distance(X[:, 2:]), rtol=0)
    assert 1e21 < distance(X) < 1e23


@pytest.mark.parametrize(
    "clf", [LMMClassifier(), LMMClassifier(slope=1.0), SubgradientLMMClassifier()]
)
def test_fit_rejects_too_small_features(clf):
    X, y = 1e-310 * rng().normal(size=(40, 2)), np.arange(40) % 2
    with pytest.raises(ValueError, match="scale the features"):
        clf.fit(X, y)
