"""Where training starts: prototypes, random weights and the scale of the data."""

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
    gaussian,
    glorot_uniform,
    median_distance,
    prototype_lmm,
    random_lmm,
    uniform,
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


@pytest.mark.parametrize("rare", [0, 57, 99])
def test_a_class_of_one_sample_is_always_there(rare):
    y = np.zeros(100, int)
    y[rare] = 1
    for seed in range(20):
        assert rare in choose_prototypes(y, 2, rng(seed))


@pytest.mark.parametrize("n_hidden", [5, 6, 1000])
def test_enough_units_take_every_sample(n_hidden):
    assert_array_equal(choose_prototypes(np.array([0, 1, 0, 1, 1]), n_hidden, rng()), np.arange(5))


@pytest.mark.parametrize("n_hidden", [1, 2])
def test_too_few_units_for_all_classes(n_hidden):
    chosen = choose_prototypes(np.arange(30) % 3, n_hidden, rng())
    assert np.unique(chosen).size == n_hidden


def test_the_seed_decides_the_prototypes():
    y = np.arange(200) % 4
    expected = choose_prototypes(y, 20, rng(1))
    assert_array_equal(choose_prototypes(y, 20, rng(1)), expected)
    assert np.any(choose_prototypes(y, 20, rng(2)) != expected)


def test_prototypes_are_spread_evenly():
    """10 of 40 samples of one class: each is chosen a quarter of the time."""
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
def test_units_measure_the_distance_to_their_prototype(seed, dtype, P, H, slope):
    generator = rng(seed)
    points = grid_array(generator, (H, P), dtype)
    labels = generator.integers(3, size=H)
    model = prototype_lmm(points, labels, 3, slope, init_margin=2.0)
    X = grid_array(generator, (5, P), dtype)
    expected = [[-slope * oracles.chebyshev(x, point) for point in points] for x in X]
    assert_array_equal(model.hidden(X), np.array(expected, dtype), strict=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distance_holds_for_any_numbers(dtype):
    points, X = rng(0).normal(size=(7, 4)).astype(dtype), rng(1).normal(size=(9, 4)).astype(dtype)
    model = prototype_lmm(points, np.arange(7) % 3, 3, slope=1.7, init_margin=1.0)
    expected = [[-1.7 * oracles.chebyshev(x, point) for point in points] for x in X]
    assert_allclose(model.hidden(X), expected, rtol=0, atol=30 * np.finfo(dtype).eps)


@quick(40)
@given(seed=SEEDS, dtype=DTYPES, slope=st.floats(1e-3, 1e3))
def test_units_are_exactly_zero_at_their_prototype(seed, dtype, slope):
    points = rng(seed).normal(size=(6, 5)).astype(dtype)
    G = prototype_lmm(points, np.arange(6) % 2, 2, slope, 1.0).hidden(points)
    assert_array_equal(np.diag(G), np.zeros(6))
    assert (G <= 0).all()


def test_weights_of_the_prototype_model():
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

N = 40_000


@pytest.mark.parametrize("k", [0.1, 1.0, 7.0])
def test_gaussian_moments(k):
    sample = gaussian((200, 200), k, rng())
    assert sample.shape == (200, 200)
    assert abs(sample.mean()) < 5 * k / math.sqrt(N)
    assert_allclose(sample.std(), k, rtol=0.02)
    within = np.mean(np.abs(sample) < k)
    assert_allclose(within, math.erf(1 / math.sqrt(2)), atol=0.02)


@pytest.mark.parametrize("k", [0.1, 1.0, 7.0])
def test_uniform_bounds_and_moments(k):
    sample = uniform((200, 200), k, rng())
    assert sample.shape == (200, 200)
    assert 0.99 * k < np.abs(sample).max() <= k
    assert abs(sample.mean()) < 5 * k / math.sqrt(3 * N)
    assert_allclose(sample.std(), k / math.sqrt(3), rtol=0.02)


@pytest.mark.parametrize(("fan_in", "fan_out", "bound"), [(100, 50, 0.2), (300, 300, 0.1)])
def test_glorot_bounds(fan_in, fan_out, bound):
    sample = glorot_uniform(fan_in, fan_out, rng())
    assert sample.shape == (fan_in, fan_out)
    assert 0.99 * bound < np.abs(sample).max() <= bound
    assert_allclose(sample.std(), bound / math.sqrt(3), rtol=0.03)


@pytest.mark.parametrize("draw", ["gaussian", "uniform"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_random_lmm(draw, dtype):
    P, H, C = 50, 60, 40
    model = random_lmm(draw, (P, H, C), 3.0, 0.5, dtype, rng())
    assert (model.n_features, model.n_hidden, model.n_classes) == (P, H, C)
    scale = {"gaussian": 1.0, "uniform": 1 / math.sqrt(3)}[draw]
    for W, k, rtol in ((model.W0, 3.0, 0.3), (model.W1, 3.0, 0.05), (model.W2, 0.5, 0.06)):
        assert W.dtype == dtype
        assert_allclose(W.std(), k * scale, rtol=rtol)
        assert draw == "gaussian" or np.abs(W).max() <= k


@pytest.mark.parametrize("draw", ["gaussian", "uniform"])
def test_the_seed_decides_the_random_weights(draw):
    first, second, other = (
        random_lmm(draw, (3, 4, 2), 1.0, 1.0, np.float64, rng(seed)) for seed in (5, 5, 6)
    )
    for name in first.layers:
        assert_array_equal(getattr(first, name), getattr(second, name))
        assert np.all(getattr(first, name) != getattr(other, name))


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
        # Of 100 samples two are elsewhere: nearly all pairs coincide, the others are 5 apart.
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


def test_a_sample_is_never_paired_with_itself():
    """Distances 1, 2 and 3 have the median 2; a third of zeros more would make it 1."""
    X = np.array([[0.0], [1.0], [3.0]])
    assert [median_distance(X, rng(seed)) for seed in range(10)] == [2.0] * 10


@quick(40)
@given(seed=SEEDS, n=st.integers(0, 6), P=st.integers(1, 3))
def test_median_distance_can_be_divided_by(seed, n, P):
    X = grid_array(rng(seed), (n, P))
    assert median_distance(X, rng(seed)) > 0


def test_the_seed_decides_the_median_distance():
    X = rng().normal(size=(500, 3))
    expected = median_distance(X, rng(1))
    assert median_distance(X, rng(1)) == expected
    assert median_distance(X, rng(2)) != expected


# -- distance between classes -----------------------------------------------------------------


@quick(30)
@given(seed=SEEDS, dtype=DTYPES, P=st.integers(1, 3), n=st.integers(1, 30))
def test_class_distance_is_that_of_its_pairs_one_by_one(seed, dtype, P, n):
    X, y = rng(seed).normal(size=(n, P)).astype(dtype), rng(seed).integers(3, size=n)
    draws = rng(seed)
    a, b = draws.integers(n, size=2_000), draws.integers(n, size=2_000)
    pairs = [np.abs(X[i] - X[j]).max() for i, j in zip(a, b, strict=True) if y[i] != y[j]]
    assert class_distance(X, y, rng(seed)) == (float(np.median(pairs)) if pairs else 1.0)


def test_classes_that_coincide_are_one_apart():
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
def test_distances_can_always_be_divided_by(distance, dtype):
    """From the largest numbers to the least: a distance with a finite inverse, or a clear error."""
    info = np.finfo(dtype)
    X = rng(1).uniform(-1, 1, size=(50, 3))
    refused = {}
    for size in 2.0 ** np.arange(math.log2(info.smallest_subnormal), math.log2(info.max), 3.0):
        rows = np.concatenate([X, -X]).astype(dtype) * dtype(size)
        try:
            found = distance(rows)
        except ValueError as error:
            refused[size] = str(error)
        else:
            assert 0.0 < found < math.inf
            assert 100.0 / found < float(info.max)
    assert all("scale the features" in message for message in refused.values())
    # Only numbers near the end of the type's range are refused.
    assert 0 < max(refused) < 1e6 * info.tiny


@EVERY_DISTANCE
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_largest_numbers_have_finite_distances(distance, dtype):
    X = np.full((20, 2), np.finfo(dtype).max)
    X[::2] *= -1
    assert 1e30 < distance(X) < math.inf


@EVERY_DISTANCE
def test_features_many_orders_of_magnitude_apart(distance):
    X = rng().normal(size=(100, 3)) * [1e-22, 1.0, 1e22]
    assert_allclose(distance(X), distance(X[:, 2:]), rtol=0)
    assert 1e21 < distance(X) < 1e23


@pytest.mark.parametrize(
    "clf", [LMMClassifier(), LMMClassifier(slope=1.0), SubgradientLMMClassifier()]
)
def test_features_too_small_to_train_with(clf):
    X, y = 1e-310 * rng().normal(size=(40, 2)), np.arange(40) % 2
    with pytest.raises(ValueError, match="scale the features"):
        clf.fit(X, y)
