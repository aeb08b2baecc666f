"""The sparse engine: the dense engine's iterates, by bounds that are audited."""

import itertools
import time
from dataclasses import replace
from unittest.mock import Mock

import numba
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits, load_iris, load_wine

from maxplus.models.initialization import choose_prototypes, median_distance, prototype_lmm
from maxplus.training import (
    MaxLoss,
    Status,
    TopKLoss,
    TrainingProblem,
    TrimmedMaxLoss,
    constant,
    level,
    paper_alpha,
    polyak,
    train,
    two_phase,
)
from maxplus.training.engines import DenseEngine, SparseEngine
from maxplus.training.engines.sparse import engine as sparse_engine
from maxplus.training.engines.sparse._state import arrange, count_chunks, lanes_per_chunk
from maxplus.training.steps import FOREVER
from memory_used import arrays_of, own_bytes
from trainings import assert_same_training

RULES = {
    "polyak": lambda n, C: polyak(),
    "constant": lambda n, C: constant(paper_alpha(0.1, C)),
    "two-phase": lambda n, C: two_phase(polyak(), constant(paper_alpha(0.1, C)), n // 2),
    "level": lambda n, C: level(n - n // 10),
}


def ties(rng):
    """Values on a coarse grid, repeated samples and a constant feature."""
    X = rng.integers(0, 3, (120, 5)) / 2.0
    X[:, 3] = 0.5
    X[60:] = X[:60]
    return X, rng.integers(0, 3, 120)


def duplicates():
    """Every flower twice: two worst samples at each iteration."""
    X, y = load_iris(return_X_y=True)
    return np.repeat(X, 2, axis=0), np.repeat(y, 2)


DATA = {
    "duplicates": duplicates,
    "iris": lambda: load_iris(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "digits": lambda: tuple(part[:250] for part in load_digits(return_X_y=True)),
    "ties": lambda: ties(np.random.default_rng(0)),
}


def model_and_problem(X, y, n_hidden, rule, w0_update_interval, dtype="float64", seed=0):
    """Return a fresh model and the problem to train it on."""
    rng = np.random.default_rng(seed)
    X = np.ascontiguousarray(X, dtype)
    n_classes = int(y.max()) + 1
    slope = 4 / median_distance(X, rng)
    chosen = choose_prototypes(y, n_hidden, rng)
    model = prototype_lmm(X[chosen], y[chosen], n_classes, slope, slope)
    return model, TrainingProblem(X, y, MaxLoss(), rule, w0_update_interval)


EVERY_PROBLEM = pytest.mark.parametrize(
    ("data", "rule", "w0_update_interval", "dtype"),
    list(itertools.product(DATA, RULES, (0, 1, 7), ("float32", "float64"))),
)


@pytest.mark.slow
@EVERY_PROBLEM
def test_sparse_iterates_equal_dense(data, rule, w0_update_interval, dtype, request):
    """Large chunks; small chunks and much regrouping."""
    X, y = DATA[data]()
    n = 540  # more than the ring of past steps holds
    args = (X, y, 20, RULES[rule](n, int(y.max()) + 1), w0_update_interval, dtype)
    dense = DenseEngine(*model_and_problem(*args))
    expected = train(dense, n)
    for chunks in ("large", "small"):
        if chunks == "small":
            request.getfixturevalue("small_chunks")
        engine = SparseEngine(*model_and_problem(*args))
        assert engine._n_workers == 1
        assert_same_training(engine, train(engine, n), dense, expected)


@pytest.mark.slow
@EVERY_PROBLEM
def test_sparse_iterates_of_two_workers_equal_dense(
    two_workers, data, rule, w0_update_interval, dtype
):
    X, y = DATA[data]()
    n = 60
    args = (X, y, 20, RULES[rule](n, int(y.max()) + 1), w0_update_interval, dtype)
    engine, dense = SparseEngine(*model_and_problem(*args)), DenseEngine(*model_and_problem(*args))
    assert engine._n_workers == min(2, numba.config.NUMBA_NUM_THREADS)
    assert_same_training(engine, train(engine, n), dense, train(dense, n))


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["two-phase", "level"])
@pytest.mark.parametrize("w0_update_interval", [0, 1, 7])
@pytest.mark.parametrize("data", DATA)
def test_sparse_bounds_are_never_violated(two_workers, data, w0_update_interval, rule):
    X, y = DATA[data]()
    X, y = X[:150], y[:150]
    n = 80
    args = (X, y, 12, RULES[rule](n, int(y.max()) + 1), w0_update_interval)
    engine = SparseEngine(*model_and_problem(*args), audit=True)
    dense = DenseEngine(*model_and_problem(*args))
    assert_same_training(engine, train(engine, n), dense, train(dense, n))


@pytest.mark.slow
@pytest.mark.parametrize("small_from", [None, 0, 40, FOREVER])
def test_sparse_level_iterates_with_small_steps_equal_dense(small_from, two_workers):
    """From there on chunks have bounds of their own, whenever it is; iterates do not change."""
    X, y = DATA["digits"]()
    n = 200
    rule = level(n)
    rule = rule if small_from is None else rule._replace(small_from=small_from)
    args = (X[:200], y[:200], 20, rule, 7)
    engine = SparseEngine(*model_and_problem(*args), audit=True)
    dense = DenseEngine(*model_and_problem(*args))
    assert_same_training(engine, train(engine, n), dense, train(dense, n))
    assert np.isfinite(engine._state.search.base).any() == (small_from != FOREVER)


def test_bound_audit_detects_false_bound():
    X, y = DATA["iris"]()
    engine = SparseEngine(*model_and_problem(X, y, 12, polyak(), 0), audit=True)
    engine._state.minima.g2[:] += 1.0
    with pytest.raises(AssertionError, match="below g2"):
        train(engine, 3)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    shape=st.tuples(st.integers(4, 40), st.integers(1, 5), st.integers(2, 4), st.integers(1, 12)),
    levels=st.integers(2, 6),
    w0_update_interval=st.sampled_from([0, 1, 3]),
    rule=st.sampled_from(sorted(RULES)),
    seed=st.integers(0, 1000),
)
def test_sparse_equals_dense_on_generated_problems(shape, levels, w0_update_interval, rule, seed):
    n_samples, n_features, n_classes, n_hidden = shape
    rng = np.random.default_rng(seed)
    X = rng.integers(0, levels, (n_samples, n_features)) / levels
    y = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n_samples - n_classes)])
    args = (X, y, n_hidden, RULES[rule](150, n_classes), w0_update_interval)
    sparse, dense = (
        SparseEngine(*model_and_problem(*args), audit=True),
        DenseEngine(*model_and_problem(*args)),
    )
    assert_same_training(sparse, train(sparse, 150), dense, train(dense, 150))


def test_sparse_equals_dense_with_absent_class():
    X, y = DATA["iris"]()
    X, y = X[y != 1], y[y != 1]
    args = (X, y, 10, RULES["two-phase"](200, 3), 7)
    sparse, dense = SparseEngine(*model_and_problem(*args)), DenseEngine(*model_and_problem(*args))
    assert_same_training(sparse, train(sparse, 200), dense, train(dense, 200))


def test_sparse_engine_checks_memory_before_allocation(monkeypatch):
    X, y = DATA["digits"]()
    model, problem = model_and_problem(X, y, 30, polyak(), 0)
    engine = SparseEngine(model, problem)
    held = sum(own_bytes(array) or 0 for group in engine._state for array in arrays_of(group))
    planned = SparseEngine.bytes_needed(model, problem)
    assert 0.9 * planned < held <= planned
    monkeypatch.setattr("maxplus.training.memory.available_bytes", lambda: 1000)
    with pytest.raises(MemoryError, match=r"MB.*fewer hidden units, fewer samples or float32"):
        SparseEngine(model, problem)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("objective", [MaxLoss(), TopKLoss(7), TrimmedMaxLoss(0.3)])
@pytest.mark.parametrize(("data", "n_hidden"), [("iris", 12), ("digits", 30), ("wide", 3)])
def test_sparse_engine_memory_estimate_is_exact(
    data, n_hidden, objective, dtype, workers, monkeypatch
):
    if workers > numba.config.NUMBA_NUM_THREADS:
        pytest.skip("one processor only")
    monkeypatch.setattr(sparse_engine, "_count_workers", lambda model, problem: workers)
    if data == "wide":  # row numbers beyond int16, and a class without samples
        X, y = np.random.default_rng(0).random((20, 17_000)), np.arange(20) % 2 * 2
        # These fill arrays and make none; compiled for such row numbers they would take a minute.
        for kernel in ("scan_all", "fill_columns", "replay_chunks", "permute_lanes"):
            monkeypatch.setattr(sparse_engine._kernels, kernel, Mock())
    else:
        X, y = DATA[data]()
    model, problem = model_and_problem(X, y, n_hidden, polyak(), 0, dtype)
    problem = replace(problem, objective=objective)
    engine = SparseEngine(model, problem)
    weights = (engine.best.W0, engine.best.W1, engine.best.W2)
    others = {id(array) for array in (problem.X, problem.y, *engine._state.weights)}
    held = [array for array in arrays_of(tuple(vars(engine).values())) if id(array) not in others]
    own = [own_bytes(array) for array in held]
    assert None not in own
    total = sum(own) + sum(array.nbytes for array in weights)
    assert SparseEngine.bytes_needed(model, problem) == total
    # Regrouping samples allocates nothing.
    kept = engine._state
    engine.regroup()
    assert engine._state is kept


@given(sizes=st.lists(st.integers(0, 70), min_size=1, max_size=4), workers=st.integers(1, 3))
def test_sparse_chunks_contain_every_sample_once(sizes, workers):
    sizes[-1] += 1
    y = np.repeat(np.arange(len(sizes)), sizes)
    order = np.random.default_rng(0).permutation(y.size)
    n_lanes = lanes_per_chunk(y)
    layout = arrange(y, order, n_lanes, workers)
    assert len(layout.sample) == count_chunks(y, n_lanes)
    samples = np.concatenate([s[:n] for s, n in zip(layout.sample, layout.lanes, strict=True)])
    np.testing.assert_array_equal(np.sort(samples), np.arange(y.size))
    np.testing.assert_array_equal(y[layout.sample], layout.label[:, None] + 0 * layout.sample)
    leaves = set(zip(layout.worker, layout.label, layout.leaf, strict=True))
    assert len(leaves) == len(layout.sample)


def test_failing_worker_ends_sparse_training(two_workers, monkeypatch):
    def fail(w, *args, work=sparse_engine._kernels.sparse_block):
        if w > 0:
            raise RuntimeError("no helper today")
        return work(w, *args)

    monkeypatch.setattr(sparse_engine._kernels, "sparse_block", fail)
    X, y = DATA["iris"]()
    engine = SparseEngine(*model_and_problem(X, y, 10, polyak(), 0))
    if engine._n_workers < 2:
        pytest.skip("one processor only")
    with pytest.raises(RuntimeError, match="no helper today"):
        train(engine, 5)


def test_late_worker_is_awaited(two_workers, monkeypatch):
    """The first iteration, too: no iteration's number means that helpers may go."""

    def late(w, *args, work=sparse_engine._kernels.sparse_block):
        if w > 0:
            time.sleep(0.3)
        return work(w, *args)

    monkeypatch.setattr(sparse_engine._kernels, "sparse_block", late)
    X, y = DATA["iris"]()
    args = (X, y, 10, polyak(), 7)
    sparse, dense = SparseEngine(*model_and_problem(*args)), DenseEngine(*model_and_problem(*args))
    assert_same_training(sparse, train(sparse, 5), dense, train(dense, 5))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("slope", [40.0, 120.0, 200.0])
def test_sparse_engine_distinguishes_losses_too_small_for_float32(slope, dtype):
    """Losses down to 1e-65: bounds in float32 must not clear the worst sample."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0.0, 0.05, (20, 2)), rng.normal(1.0, 0.05, (20, 2))])
    X, y = X.astype(dtype), np.repeat([0, 1], 20)
    model = prototype_lmm(X[[0, 20]], y[[0, 20]], 2, slope, slope)
    problem = TrainingProblem(X, y, MaxLoss(), constant(1e-3, target=-1.0), 0)
    sparse, dense = SparseEngine(model.copy(), problem), DenseEngine(model.copy(), problem)
    assert_same_training(sparse, train(sparse, 5), dense, train(dense, 5))


@pytest.mark.parametrize(("dtype", "alpha"), [("float32", 6e38), ("float64", 1e307)])
def test_overflowing_steps_end_sparse_training(dtype, alpha):
    X, y = DATA["iris"]()
    engine = SparseEngine(*model_and_problem(X, y, 10, constant(alpha), 0, dtype))
    with np.errstate(all="ignore"):
        result = train(engine, 300)
    assert result.status is Status.OVERFLOW
    assert np.isfinite(engine.best_loss)
    assert np.isfinite(engine.best.W1).all()


def test_accumulated_bounds_remain_valid():
    """Tens of thousands of large rises, then small steps: sums must not have been rounded down."""
    rng = np.random.default_rng(0)
    X, y = rng.random((96, 2)), rng.integers(0, 3, 96)
    n = 20_000
    rule = two_phase(polyak(), constant(1e-4), n)
    model, problem = model_and_problem(X, y, 12, rule, 0)
    engine = SparseEngine(model, problem)
    train(engine, n)
    engine._audit = True
    train(engine, 700)
