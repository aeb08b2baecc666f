"""Objectives on the worst samples: definitions, and engines that agree to the last bit."""

import math

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import maxplus
import oracles
from maxplus import SubgradientLMMClassifier
from maxplus.estimators import NoEffectWarning
from maxplus.models import LMM, LinearMaxPlus, ZeroHidden
from maxplus.models.base import SparseUpdate, Subgradient
from maxplus.models.initialization import random_lmm
from maxplus.training import (
    MaxLoss,
    ObjectiveValue,
    Status,
    TopKLoss,
    TrainingProblem,
    TrimmedMaxLoss,
    constant,
    polyak,
    train,
    two_phase,
)
from maxplus.training.engines import DenseEngine, SparseEngine
from maxplus.training.engines.sparse._state import RING, ring_length
from memory_used import arrays_of, own_bytes
from strategies import SEEDS, quick
from trainings import assert_same_training, start_at

RULES = {
    "polyak": polyak(),
    "constant": constant(0.02),
    "two-phase": two_phase(polyak(), constant(0.02), 20),
}
LAYERS = ("W0", "W1", "W2")


def worst_first(losses, k):
    """Return the samples sorted by loss, with the lowest index first among equals."""
    return sorted(range(len(losses)), key=lambda n: (-losses[n], n))[:k]


def stepped_on(losses, objective):
    """Return the samples that an iteration steps on, by the definitions."""
    if isinstance(objective, TopKLoss):
        return worst_first(losses, objective.k)
    return worst_first(losses, objective.n_trimmed + 1)[-1:]


# -- the definition ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("k", "n_samples", "count"),
    [
        (1, 7, 1),
        (3, 7, 3),
        (7, 7, 7),
        (8, 7, 7),
        (0.1, 7, 1),
        (0.5, 7, 4),
        (0.999, 7, 7),
        (0.07, 100, 7),
        (0.29, 100, 29),
        (1e-9, 100, 1),
        (np.int64(2), 7, 2),
        (np.float32(0.1), 30, 3),
    ],
)
def test_top_k_number_of_samples(k, n_samples, count):
    """A fraction is rounded up, by its digits: 0.07·100 is 7.000000000000001 in floating point."""
    assert TopKLoss(k).count(n_samples) == count


@pytest.mark.parametrize("k", [0, -1, 1.0, 1.5, 0.0, -0.5, math.nan, math.inf])
def test_top_k_rejects_invalid_k(k):
    with pytest.raises(ValueError, match="integer >= 1 or a fraction"):
        TopKLoss(k)


@given(levels=st.integers(1, 6), n_samples=st.integers(1, 30), k=st.integers(1, 30), seed=SEEDS)
@quick(100)
def test_top_k_objective_is_mean_of_worst_losses(levels, n_samples, k, seed):
    losses = np.random.default_rng(seed).integers(0, levels, n_samples) / 4
    worst = worst_first(losses, k)
    at = TopKLoss(k).value(losses, None)
    assert at.worst == tuple(worst)
    assert at.sample == worst[0] == MaxLoss().value(losses, None).sample
    assert_allclose(at.loss, np.mean(losses[worst]), rtol=1e-15)


def test_top_k_sums_losses_from_the_worst():
    """In another order the two small ones would together make a difference."""
    losses = np.array([1.0, 1e16, 1.0])
    assert TopKLoss(3).value(losses, None).loss == 1e16 / 3
    assert 1e16 / 3 != (1.0 + 1.0 + 1e16) / 3


def test_top_k_treats_overflow_as_worst():
    at = TopKLoss(2).value(np.array([1.0, np.nan, np.inf, 2.0]), None)
    assert math.isnan(at.loss)
    assert at.worst == (1, 2)


@given(levels=st.integers(1, 6), n_samples=st.integers(1, 30), k=st.integers(0, 35), seed=SEEDS)
@quick(100)
def test_trimmed_max_objective_is_next_largest_loss(levels, n_samples, k, seed):
    losses = np.random.default_rng(seed).integers(0, levels, n_samples) / 4
    at = TrimmedMaxLoss(k).value(losses, None)
    (expected,) = worst_first(losses, k + 1)[-1:]
    assert at == (losses[expected], expected, ())
    assert at.loss == np.sort(losses)[::-1][min(k, n_samples - 1)]


@pytest.mark.parametrize(
    ("n_trimmed", "n_samples", "count"),
    [(0, 7, 0), (0.0, 7, 0), (3, 7, 3), (7, 7, 6), (0.1, 7, 1), (0.07, 100, 7), (0.99, 2, 1)],
)
def test_trimmed_max_number_of_samples(n_trimmed, n_samples, count):
    assert TrimmedMaxLoss(n_trimmed).count(n_samples) == count


@pytest.mark.parametrize("n_trimmed", [-1, 1.0, 1.5, -0.5, math.nan, math.inf])
def test_trimmed_max_rejects_invalid_number(n_trimmed):
    with pytest.raises(ValueError, match="n_trimmed must be an integer >= 0 or a fraction"):
        TrimmedMaxLoss(n_trimmed)


@pytest.mark.parametrize("largest", [math.nan, math.inf])
def test_trimmed_max_does_not_ignore_overflow(largest):
    at = TrimmedMaxLoss(2).value(np.array([1.0, largest, 2.0, 3.0]), None)
    assert_array_equal(at.loss, largest)


def test_top_k_merges_subgradient_entries_at_first_occurrence():
    """Sums run over the parts in order: 1 + 1e16 − 1e16 is 0, 1e16 − 1e16 + 1 would be 1."""

    def part(rows, values):
        return Subgradient(W=SparseUpdate((np.array(rows), np.array(rows) + 1), np.array(values)))

    mean = Subgradient.mean(
        [part([4, 2], [1.0, 3.0]), part([0, 4], [5.0, 1e16]), part([4, 2], [-1e16, 1.0])]
    )
    rows, columns = mean["W"].index
    assert_array_equal(rows, [4, 2, 0])
    assert_array_equal(columns, [5, 3, 1])
    assert_array_equal(mean["W"].value, np.array([0.0, 4.0, 5.0]) / 3)


def test_mean_subgradient_of_empty_layers_is_empty():
    empty = Subgradient(A=SparseUpdate((np.empty(0, int), np.empty(0, int)), np.empty(0)))
    mean = Subgradient.mean([empty, empty])
    assert [part.size for part in (*mean["A"].index, mean["A"].value)] == [0, 0, 0]


# -- the subgradient --------------------------------------------------------------------------


def oracle_step(X, y, model, t, rule, w0_update_interval, worst):
    """Weights after a step on these samples, by dense subgradients from the formulas."""
    W = [getattr(model, name).astype(float) for name in LAYERS]
    losses = [oracles.loss(oracles.lmm_path(X[n], *W)[0], y[n]) for n in worst]
    G = {name: np.zeros(w.shape) for name, w in zip(LAYERS, W, strict=True)}
    for n in worst:
        for name, part in oracles.lmm_subgradient(X[n], y[n], *W).items():
            G[name] += np.array(part) / len(worst)
    if w0_update_interval == 0 or (t + 1) % w0_update_interval:
        G["W0"][:] = 0.0
    norm = sum((g**2).sum() for g in G.values())
    loss = np.mean(losses)
    alpha = (loss - rule.target) / norm if t < rule.polyak_until else rule.alpha
    return loss, alpha, [w - alpha * G[name] for name, w in zip(LAYERS, W, strict=True)]


def assert_steps_are_the_oracles(X, y, model, objective, rule, w0_update_interval, n_iter):
    """One iteration at a time, each from where the engine is."""
    engine = DenseEngine(model, TrainingProblem(X, y, objective, rule, w0_update_interval))
    moved = 0
    for t in range(n_iter):
        worst = stepped_on(model.losses(X, y), objective)
        expected = oracle_step(X, y, model, t, rule, w0_update_interval, worst)
        history = train(engine, 1).history
        assert history["sample"].tolist() == worst[:1]
        assert_allclose(history["loss"], expected[0], rtol=1e-12, atol=1e-12)
        if history["step"][0] == 0.0:
            break
        moved += 1
        assert_allclose(history["step"], expected[1], rtol=1e-9)
        for name, w in zip(LAYERS, expected[2], strict=True):
            assert_allclose(getattr(model, name), w, rtol=1e-9, atol=1e-9, err_msg=name)
    return moved


@pytest.mark.slow
@pytest.mark.parametrize("w0_update_interval", [0, 1, 7])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    "objective",
    [*map(TopKLoss, (1, 2, 5, 20)), *map(TrimmedMaxLoss, (1, 5))],
)
def test_dense_engine_equals_definition(cloud, objective, rule, w0_update_interval):
    X, y = cloud.X[:20], cloud.y[:20]
    problem = (X, y, start_at(X, y), objective, RULES[rule], w0_update_interval)
    assert assert_steps_are_the_oracles(*problem, n_iter=30) == 30


@given(
    shape=st.tuples(st.integers(1, 15), st.integers(1, 4), st.integers(2, 4), st.integers(1, 6)),
    objective=st.builds(TopKLoss, st.integers(1, 15))
    | st.builds(TrimmedMaxLoss, st.integers(0, 15)),
    w0_update_interval=st.integers(0, 3),
    seed=SEEDS,
)
@quick(60)
def test_dense_engine_equals_definition_with_ties(shape, objective, w0_update_interval, seed):
    n_samples, n_features, n_classes, n_hidden = shape
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (n_samples, n_features)) / 2
    y = rng.integers(0, n_classes, n_samples)
    y[0] = n_classes - 1
    model = start_at(X, y, n_hidden, seed=seed % 100)
    assert_steps_are_the_oracles(X, y, model, objective, constant(0.25), w0_update_interval, 4)


@pytest.mark.parametrize(
    "objective", [TopKLoss(1), TopKLoss(3), TopKLoss(45), TrimmedMaxLoss(3), TrimmedMaxLoss(7)]
)
def test_subgradient_matches_finite_differences(cloud, objective):
    """At random weights nothing ties, so the objective is smooth there."""
    X, y = cloud
    model = random_lmm("gaussian", (4, 5, 3), 1.0, 1.0, X.dtype, np.random.default_rng(5))
    at = objective.value(model.losses(X, y), None)
    G = objective.subgradient(model, TrainingProblem(X, y), at, model.layers)
    for name in LAYERS:
        W, step = getattr(model, name), 1e-6
        expected = np.zeros(W.shape)
        expected[G[name].index] = G[name].value
        slopes = np.empty(W.shape)
        for place in np.ndindex(W.shape):
            ends = []
            for change in (step, -step):
                moved = model.copy()
                getattr(moved, name)[place] += change
                ends.append(objective.value(moved.losses(X, y), None).loss)
            slopes[place] = (ends[0] - ends[1]) / (2 * step)
        assert_allclose(slopes, expected, atol=1e-7, err_msg=name)
        assert np.abs(expected).max() > 0.01


def test_top_k_of_all_samples_has_the_mean_subgradient(cloud):
    X, y = cloud
    model = start_at(X, y)
    objective = TopKLoss(45)
    at = objective.value(model.losses(X, y), None)
    assert_allclose(at.loss, model.losses(X, y).mean(), rtol=1e-12)
    G = objective.subgradient(model, TrainingProblem(X, y), at, model.layers)
    for name, entries in model.mean_subgradient(X, y).items():
        expected = np.zeros(getattr(model, name).shape)
        expected[entries.index] = entries.value
        got = np.zeros_like(expected)
        got[G[name].index] = G[name].value
        assert_allclose(got, expected, atol=1e-14, err_msg=name)


# -- trainings --------------------------------------------------------------------------------


def any_model(kind, X, y):
    rng, C = np.random.default_rng(0), int(y.max()) + 1
    if kind is LMM:
        return start_at(X, y)
    if kind is ZeroHidden:
        return ZeroHidden(rng.normal(size=(C, X.shape[1])).astype(X.dtype))
    A, b, W = rng.normal(size=(X.shape[1], 6)), rng.normal(size=6), rng.normal(size=(6, C))
    return LinearMaxPlus(A.astype(X.dtype), b.astype(X.dtype), W.astype(X.dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [LMM, ZeroHidden, LinearMaxPlus])
@pytest.mark.parametrize("objective", [TopKLoss(1), TrimmedMaxLoss(0)])
def test_top_1_and_untrimmed_maximum_equal_the_maximum(cloud, objective, kind, dtype):
    X, y = cloud.astype(dtype)
    engines = [
        DenseEngine(any_model(kind, X, y), TrainingProblem(X, y, objective, RULES["two-phase"], 3))
        for objective in (MaxLoss(), objective)
    ]
    expected, got = (train(engine, 200) for engine in engines)
    assert expected.history["loss"].size == 200
    assert_same_training(engines[1], got, engines[0], expected)


def test_top_k_rounds_each_weight_once_per_iteration(cloud):
    """Twenty samples move the same float32 entries: one rounding leaves them elsewhere."""
    X, y = cloud.astype(np.float32)
    model, alpha = start_at(X, y, 3), 0.37
    once, in_turn = model.W2.astype(float), model.W2.copy()
    worst = TopKLoss(20).value(model.losses(X, y), None).worst
    parts = [model.subgradient(X[n], int(y[n]), ("W2",))["W2"] for n in worst]
    mean = np.zeros_like(once)
    for part in parts:
        mean[part.index] += part.value
        in_turn[part.index] -= alpha * part.value / 20
    once = (once - alpha * (mean / 20)).astype(np.float32)
    train(DenseEngine(model, TrainingProblem(X, y, TopKLoss(20), constant(alpha))), 1)
    assert_array_equal(model.W2, once, strict=True)
    assert not np.array_equal(in_turn, once)


def test_top_k_training_ends_at_the_target(cloud):
    X, y = cloud
    engine = DenseEngine(start_at(X, y, 30), TrainingProblem(X, y, TopKLoss(9), polyak(1.0)))
    result = train(engine, 2000)
    assert result.status is Status.TARGET
    losses = np.sort(engine.model.losses(X, y))[::-1]
    assert losses[:9].mean() <= 1.0 + 1e-9 < losses[0]


def test_trimmed_max_training_ends_at_the_target(cloud):
    X, y = cloud
    problem = TrainingProblem(X, y, TrimmedMaxLoss(5), polyak(1.0))
    engine = DenseEngine(start_at(X, y, 30), problem)
    assert train(engine, 2000).status is Status.TARGET
    losses = np.sort(engine.model.losses(X, y))[::-1]
    assert losses[5] <= 1.0 < losses[4]


# -- the sparse engine is the dense one -------------------------------------------------------


def ties():
    """Values on a coarse grid, and every sample twice."""
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 3, (50, 4)) / 2.0, rng.integers(0, 3, 50)
    return np.repeat(X, 2, axis=0), np.repeat(y, 2)


def assert_sparse_is_dense(
    X, y, objective, rule, w0_update_interval, n_iter, dense=None, **options
):
    """Train both ways; returns the sparse engine, the dense one and its result."""
    problem = TrainingProblem(X, y, objective, rule, w0_update_interval)
    if dense is None:
        engine = DenseEngine(start_at(X, y, 12), problem)
        dense = engine, train(engine, n_iter)
    sparse = SparseEngine(start_at(X, y, 12), problem, **options)
    assert_same_training(sparse, train(sparse, n_iter), *dense)
    return sparse, dense


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("w0_update_interval", [0, 1, 7])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("k", [1, 2, 5, "N"])
@pytest.mark.parametrize("data", ["iris", "ties"])
@pytest.mark.parametrize("kind", [TopKLoss, TrimmedMaxLoss])
def test_sparse_equals_dense(iris, kind, data, k, rule, w0_update_interval, dtype, request):
    """Large chunks; small chunks and much regrouping; the same searched by two workers."""
    X, y = iris if data == "iris" else ties()
    if k == "N":  # whose subgradients the dense engine adds up one by one
        X, y = X[::3], y[::3].copy()
    X = np.ascontiguousarray(X, dtype)
    few = 40  # and more than 20, where two phases change
    objective, n = (kind(len(y)), few) if k == "N" else (kind(k), 270)
    _, dense = assert_sparse_is_dense(X, y, objective, RULES[rule], w0_update_interval, n)
    assert dense[1].history["loss"].size == n
    request.getfixturevalue("small_chunks")
    assert_sparse_is_dense(X, y, objective, RULES[rule], w0_update_interval, n, dense)
    request.getfixturevalue("two_workers")
    dense = dense if n == few else None
    sparse, _ = assert_sparse_is_dense(X, y, objective, RULES[rule], w0_update_interval, few, dense)
    assert sparse._n_workers == min(2, numba.config.NUMBA_NUM_THREADS)


@pytest.mark.slow
@pytest.mark.parametrize("objective", [TopKLoss(3), TopKLoss(0.1), TrimmedMaxLoss(0.02)])
@pytest.mark.parametrize("w0_update_interval", [0, 7])
def test_sparse_equals_dense_on_digits(digits, two_workers, objective, w0_update_interval):
    X, y = digits.astype(np.float32)
    rule = two_phase(polyak(), constant(0.02), 150)
    problem = TrainingProblem(X, y, objective, rule, w0_update_interval)
    engines = [kind(start_at(X, y, 20, 0.3), problem) for kind in (DenseEngine, SparseEngine)]
    expected, got = (train(engine, 300) for engine in engines)
    assert_same_training(engines[1], got, engines[0], expected)


@pytest.mark.slow
@pytest.mark.parametrize("w0_update_interval", [0, 1, 7])
@pytest.mark.parametrize("k", [2, 5, 40, "N"])
@pytest.mark.parametrize("data", ["iris", "ties"])
@pytest.mark.parametrize("kind", [TopKLoss, TrimmedMaxLoss])
def test_sparse_bounds_are_never_violated(iris, two_workers, kind, data, k, w0_update_interval):
    X, y = iris if data == "iris" else ties()
    rule = two_phase(polyak(), constant(0.02), 50)
    objective = kind(len(y) if k == "N" else k)
    assert_sparse_is_dense(X, y, objective, rule, w0_update_interval, 75, audit=True)


@pytest.mark.slow
@given(
    shape=st.tuples(st.integers(4, 40), st.integers(1, 5), st.integers(2, 4), st.integers(1, 12)),
    levels=st.integers(2, 6),
    objective=st.builds(TopKLoss, st.integers(1, 40))
    | st.builds(TrimmedMaxLoss, st.integers(0, 40)),
    w0_update_interval=st.sampled_from([0, 1, 3]),
    rule=st.sampled_from(sorted(RULES)),
    dtype=st.sampled_from([np.float32, np.float64]),
    seed=st.integers(0, 1000),
)
@quick(60)
def test_sparse_equals_dense_on_generated_problems(
    shape, levels, objective, w0_update_interval, rule, dtype, seed
):
    n_samples, n_features, n_classes, n_hidden = shape
    rng = np.random.default_rng(seed)
    X = (rng.integers(0, levels, (n_samples, n_features)) / levels).astype(dtype)
    y = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n_samples - n_classes)])
    problem = TrainingProblem(X, y, objective, RULES[rule], w0_update_interval)
    dense = DenseEngine(start_at(X, y, n_hidden, seed=seed), problem)
    sparse = SparseEngine(start_at(X, y, n_hidden, seed=seed), problem, audit=True)
    expected = train(dense, 120)
    assert_same_training(sparse, train(sparse, 120), dense, expected)


def test_top_k_rebuilds_chunks_skipped_longer_than_the_ring(iris, monkeypatch):
    """Small steps on ten flowers: easy chunks are not looked at for hundreds of iterations."""
    monkeypatch.setattr("maxplus.training.engines.sparse._state.MAX_LANES", 16)
    X, y = iris
    problem = TrainingProblem(X, y, TopKLoss(10), two_phase(polyak(), constant(0.01), 60), 7)
    dense = DenseEngine(start_at(X, y, 12), problem)
    sparse = SparseEngine(start_at(X, y, 12), problem, audit=True)
    woken = 0
    for loss in train(dense, 900).history["loss"]:
        before = sparse._state.search.updated.copy()
        assert train(sparse, 1).history["loss"] == loss
        slept = np.where(before >= 0, sparse._state.search.updated - before, 0)
        woken += int((slept > ring_length(10)).sum())
    assert woken > 10


@pytest.mark.parametrize("k", [1, 5, 60])
def test_top_k_step_bound_covers_all_changed_entries(iris, k):
    """Bounds have slack, so an audit may miss an entry that was left out: count it directly."""
    X, y = iris
    engine = SparseEngine(
        start_at(X, y, 30), TrainingProblem(X, y, TopKLoss(k), polyak(), w0_update_interval=0)
    )
    for _ in range(5):
        before, fall = engine.model.copy(), engine._state.lift.fallen.copy()
        train(engine, 1)
        down = (before.W1 - engine.model.W1).max(axis=0)
        change = engine.model.W2 - before.W2
        expected = (down[:, None] - np.minimum(change, 0.0)).max(axis=0)
        assert_allclose(engine._state.lift.fallen - fall, expected, rtol=1e-9)


@pytest.mark.parametrize(("k", "length"), [(1, RING), (2, 256), (5, 64), (300, 2), (10**6, 2)])
def test_top_k_ring_holds_fewer_iterations_of_more_samples(k, length):
    assert ring_length(k) == length


@pytest.mark.slow
def test_top_k_memory_estimate_covers_k_samples(digits):
    X, y = digits
    model = start_at(X, y, 30)

    def planned_and_held(k):
        problem = TrainingProblem(X, y, TopKLoss(k), polyak())
        engine = SparseEngine(model.copy(), problem)
        held = sum(own_bytes(array) or 0 for group in engine._state for array in arrays_of(group))
        return SparseEngine.bytes_needed(model, problem), held

    for k in (1, 50, 500):
        planned, held = planned_and_held(k)
        assert 0.9 * planned < held <= planned


@pytest.mark.parametrize(("dtype", "alpha"), [("float32", 6e38), ("float64", 1e307)])
def test_overflowing_steps_end_training(iris, dtype, alpha):
    X, y = iris.astype(dtype)
    for objective in (TopKLoss(1), TopKLoss(7), TopKLoss(150), TrimmedMaxLoss(7)):
        engine = SparseEngine(start_at(X, y, 10), TrainingProblem(X, y, objective, constant(alpha)))
        with np.errstate(all="ignore"):
            result = train(engine, 300)
        assert result.status is Status.OVERFLOW
        assert result.history["sample"].max() < 150
        assert np.isfinite(engine.best_loss)
        assert np.isfinite(engine.best.W1).all()


# -- the classifier ---------------------------------------------------------------------------


def fitted(iris, weight=None, **options):
    options = {"n_hidden": 8, "max_iter": 300, "random_state": 0, **options}
    options = {"objective": "top-k", **options}
    return SubgradientLMMClassifier(**options).fit(iris.X, iris.y, weight)


def assert_same_fit(a, b):
    assert_array_equal(a.history_["loss"], b.history_["loss"])
    for name in ("W0_", "W1_", "W2_"):
        assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


@pytest.mark.parametrize("top_k", [1, 4, 0.2])
def test_top_k_selects_sparse_engine_and_equals_dense(iris, top_k):
    model = fitted(iris, top_k=top_k)
    assert model._engine_class() is SparseEngine
    assert_same_fit(model, fitted(iris, top_k=top_k, engine="dense"))
    worst = np.sort(model.training_losses_)[::-1][: TopKLoss(top_k).count(150)]
    assert_allclose(worst.mean(), model.loss_curve_.min(), rtol=1e-9)


def test_top_k_default_is_one_in_ten(iris):
    assert_same_fit(fitted(iris), fitted(iris, top_k=15))
    assert not np.array_equal(fitted(iris).W2_, fitted(iris, top_k=16).W2_)


def test_classifier_with_top_1_minimises_the_maximum(iris):
    options = {"n_hidden": 8, "max_iter": 300, "random_state": 0}
    assert_same_fit(fitted(iris, top_k=1), SubgradientLMMClassifier(**options).fit(iris.X, iris.y))


@pytest.mark.parametrize("n_trimmed", [0, 4, 0.2])
def test_trimmed_max_selects_sparse_engine_and_equals_dense(iris, n_trimmed):
    options = {"objective": "trimmed-max", "n_trimmed": n_trimmed}
    model = fitted(iris, **options)
    assert model._engine_class() is SparseEngine
    assert_same_fit(model, fitted(iris, **options, engine="dense"))
    assert_same_fit(model, fitted(iris, objective=TrimmedMaxLoss(n_trimmed), engine="sparse"))
    ordered = np.sort(model.training_losses_)[::-1]
    expected = ordered[TrimmedMaxLoss(n_trimmed).count(150)]
    assert_allclose(expected, model.loss_curve_.min(), rtol=1e-9)


def test_trimmed_max_ignores_wrong_labels(iris):
    """Two samples at the same place with different labels: their maximum never reaches log 2."""
    twice = [0, 60, 120]
    X, y = np.vstack([iris.X, iris.X[twice]]), np.append(iris.y, (iris.y[twice] + 1) % 3)
    options = {"n_hidden": 100, "max_iter": 3000, "random_state": 0}
    maximum = SubgradientLMMClassifier(**options).fit(X, y)
    trimmed = SubgradientLMMClassifier(**options, objective="trimmed-max", n_trimmed=3).fit(X, y)
    assert maximum.max_loss_ >= math.log(2)
    assert np.sort(trimmed.training_losses_)[-4] < math.log(2)
    assert trimmed.score(*iris) > maximum.score(*iris)


class Median:
    """A user's own objective: the median loss."""

    name = "median"

    def value(self, losses, weight):
        n = int(np.argsort(losses)[len(losses) // 2])
        return ObjectiveValue(float(losses[n]), n)

    def subgradient(self, model, problem, at, layers):
        return model.subgradient(problem.X[at.sample], int(problem.y[at.sample]), layers)


def test_classifier_minimises_own_objective_with_own_step_rule(iris, tmp_path):
    clf = SubgradientLMMClassifier(
        8, max_iter=50, objective=Median(), step=constant(0.02), random_state=0
    )
    clf = clone(clf).fit(iris.X, iris.y)
    assert clf._engine_class() is DenseEngine
    assert {*clf.history_["step"]} == {0.02}
    assert_allclose(np.sort(clf.training_losses_)[75], clf.loss_curve_.min(), rtol=1e-9)
    with pytest.raises(ValueError, match=r"objective=.*pickle, or .*set_params\(objective='max'\)"):
        clf.save(tmp_path / "model.mplus")
    clf.set_params(objective="max", step="polyak").save(tmp_path / "model.mplus")
    loaded = maxplus.load(tmp_path / "model.mplus")
    assert_array_equal(loaded.predict_proba(iris.X), clf.predict_proba(iris.X))


@pytest.mark.parametrize("objective", [MaxLoss, "median", 3, None])
def test_classifier_rejects_invalid_objective(iris, objective):
    with pytest.raises(ValueError, match=r"'trimmed-max' or an Objective \(maxplus.training\)"):
        SubgradientLMMClassifier(objective=objective).fit(*iris)


def test_classifier_rejects_invalid_step_rule(iris):
    with pytest.raises(ValueError, match=r"'level' or a StepRule \(maxplus.training\)"):
        SubgradientLMMClassifier(step=lambda t: 0.1).fit(*iris)


def test_classifier_replaces_engine_that_does_not_minimise_own_objective(iris):
    clf = SubgradientLMMClassifier(8, objective=Median(), engine="sparse", max_iter=3)
    with pytest.warns(
        NoEffectWarning, match="engine='sparse' has no effect with objective=.*dense"
    ):
        clf.fit(*iris)


def test_top_k_ignores_sample_weights_but_zero(iris):
    """Weights are no multiples: only samples without any are missing, in k as well."""
    weight = 1.0 + np.arange(150) % 4
    assert_same_fit(fitted(iris, weight), fitted(iris))
    weight[::3] = 0.0
    assert_same_fit(fitted(iris, weight, init="uniform"), fitted(iris, weight > 0, init="uniform"))
    assert_same_fit(
        fitted(iris, weight, init="uniform"), fitted(iris, weight, init="uniform", top_k=10)
    )
