"""The sparse engine: iterates equal to those of the dense engine, and bounds that are audited."""

import itertools
import time
from dataclasses import replace
from functools import cache

import numba
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
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
from maxplus.training.engines.sparse._state import (
    RING,
    aligned_bytes,
    aligned_empty,
    arrange,
    chunks_per_class,
    lanes_per_chunk,
    ring_length,
)
from maxplus.training.steps import MAX_ITERATION
from memory_used import arrays_of, own_bytes
from trainings import assert_same_training, start_at

RULES = {
    "polyak": lambda n, C: polyak(),
    "constant": lambda n, C: constant(paper_alpha(0.1, C)),
    "two-phase": lambda n, C: two_phase(polyak(), constant(paper_alpha(0.1, C)), n // 2),
    "level": lambda n, C: level(n - n // 10),
}


def ties():
    """Return samples on a coarse grid, each of them twice, with a constant feature."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (120, 5)) / 2.0
    X[:, 3] = 0.5
    X[60:] = X[:60]
    return X, rng.integers(0, 3, 120)


def duplicates():
    """Return each sample twice, so that two samples are the worst in each iteration."""
    X, y = load_iris(return_X_y=True)
    return np.repeat(X, 2, axis=0), np.repeat(y, 2)


DATA = {
    "duplicates": duplicates,
    "iris": lambda: load_iris(return_X_y=True),
    "few": lambda: tuple(part[::3].copy() for part in load_iris(return_X_y=True)),
    "wine": lambda: load_wine(return_X_y=True),
    "digits": lambda: tuple(part[:250] for part in load_digits(return_X_y=True)),
    "ties": ties,
}
DATA = {name: cache(load) for name, load in DATA.items()}


def model_and_problem(
    X, y, n_hidden, rule, w0_update_interval, dtype="float64", objective=None, seed=0
):
    """Return a new model and the problem to train it on."""
    rng = np.random.default_rng(seed)
    X = np.ascontiguousarray(X, dtype)
    n_classes = int(y.max()) + 1
    slope = 4 / median_distance(X, rng)
    chosen = choose_prototypes(y, n_hidden, rng)
    model = prototype_lmm(X[chosen], y[chosen], n_classes, slope, slope)
    return model, TrainingProblem(X, y, objective or MaxLoss(), rule, w0_update_interval)


def assert_sparse_equals_dense(n_iter, *args, audit=False, **options):
    """Train both engines and compare everything bit by bit; return the sparse engine."""
    sparse = SparseEngine(*model_and_problem(*args, **options), audit=audit)
    dense = DenseEngine(*model_and_problem(*args, **options))
    assert_same_training(sparse, train(sparse, n_iter), dense, train(dense, n_iter))
    return sparse


OBJECTIVES = [
    *((MaxLoss(), data) for data in DATA if data != "few"),
    *((kind(k), data) for kind in (TopKLoss, TrimmedMaxLoss) for k in (1, 5) for data in DATA),
    # All samples.
    (TopKLoss(50), "few"),
    (TrimmedMaxLoss(50), "few"),
]


def describe(objective):
    return f"{objective.name} {next(iter(vars(objective).values()), '')}".strip()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "rule", "w0_update_interval", "dtype"),
    list(itertools.product(OBJECTIVES, RULES, (0, 1, 7), ("float32", "float64"))),
    ids=lambda value: f"{describe(value[0])} {value[1]}" if isinstance(value, tuple) else None,
)
def test_sparse_iterates_equal_dense(problem, rule, w0_update_interval, dtype, request):
    """Compare large chunks, small chunks that are often regrouped, and two workers."""
    objective, data = problem
    X, y = DATA[data]()
    # The ring of past steps holds at most 512 iterations.
    n = 540 if objective.name == "max" else 40 if data == "few" else 270
    args = (X, y, 20, RULES[rule](n, int(y.max()) + 1), w0_update_interval, dtype, objective)
    dense = DenseEngine(*model_and_problem(*args))
    expected = train(dense, n)
    for chunks in ("large", "small"):
        if chunks == "small":
            request.getfixturevalue("small_chunks")
        engine = SparseEngine(*model_and_problem(*args))
        assert engine._n_workers == 1
        assert_same_training(engine, train(engine, n), dense, expected)
    request.getfixturevalue("two_workers")
    engine = assert_sparse_equals_dense(30, *args)
    assert engine._n_workers == min(2, numba.config.NUMBA_NUM_THREADS)


AUDITED = [
    *((MaxLoss(), data) for data in DATA if data != "few"),
    *(
        (kind(k), data)
        for kind in (TopKLoss, TrimmedMaxLoss)
        for k in (2, 40, 120)
        for data in ("iris", "ties")
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["two-phase", "level"])
@pytest.mark.parametrize("w0_update_interval", [0, 1, 7])
@pytest.mark.parametrize(("objective", "data"), AUDITED)
def test_sparse_bounds_are_never_violated(two_workers, objective, data, w0_update_interval, rule):
    X, y = (part[:150] for part in DATA[data]())
    args = (X, y, 12, RULES[rule](80, int(y.max()) + 1), w0_update_interval)
    assert_sparse_equals_dense(80, *args, objective=objective, audit=True)


@pytest.mark.slow
@pytest.mark.parametrize("small_from", [None, 0, 40, MAX_ITERATION])
def test_iteration_from_which_steps_count_as_small_does_not_change_iterates(
    small_from, two_workers
):
    X, y = DATA["digits"]()
    rule = level(200) if small_from is None else level(200)._replace(small_from=small_from)
    engine = assert_sparse_equals_dense(200, X[:200], y[:200], 20, rule, 7, audit=True)
    # From there on, chunks have their own bounds.
    assert np.isfinite(engine._state.search.base).any() == (small_from != MAX_ITERATION)


def test_audit_detects_a_violated_bound():
    X, y = DATA["iris"]()
    engine = SparseEngine(*model_and_problem(X, y, 12, polyak(), 0), audit=True)
    engine._state.minima.g2[:] += 1.0
    with pytest.raises(AssertionError, match="below g2"):
        train(engine, 3)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    shape=st.tuples(st.integers(4, 40), st.integers(1, 5), st.integers(2, 4), st.integers(1, 12)),
    levels=st.integers(2, 6),
    objective=st.builds(MaxLoss)
    | st.builds(TopKLoss, st.integers(1, 40))
    | st.builds(TrimmedMaxLoss, st.integers(0, 40)),
    w0_update_interval=st.sampled_from([0, 1, 3]),
    rule=st.sampled_from(sorted(RULES)),
    dtype=st.sampled_from(["float32", "float64"]),
    seed=st.integers(0, 1000),
)
def test_sparse_equals_dense_on_generated_problems(
    shape, levels, objective, w0_update_interval, rule, dtype, seed
):
    n_samples, n_features, n_classes, n_hidden = shape
    rng = np.random.default_rng(seed)
    X = rng.integers(0, levels, (n_samples, n_features)) / levels
    y = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n_samples - n_classes)])
    args = (X, y, n_hidden, RULES[rule](150, n_classes), w0_update_interval, dtype, objective)
    assert_sparse_equals_dense(150, *args, audit=True)


def test_sparse_equals_dense_with_absent_class():
    X, y = DATA["iris"]()
    assert_sparse_equals_dense(200, X[y != 1], y[y != 1], 10, RULES["two-phase"](200, 3), 7)


@pytest.mark.slow
@pytest.mark.parametrize("objective", [TopKLoss(3), TopKLoss(0.1), TrimmedMaxLoss(0.02)])
@pytest.mark.parametrize("w0_update_interval", [0, 7])
def test_sparse_equals_dense_with_fraction_of_samples(two_workers, objective, w0_update_interval):
    X, y = load_digits(return_X_y=True)
    args = (X[:500], y[:500], 20, RULES["two-phase"](300, 10), w0_update_interval, "float32")
    assert_sparse_equals_dense(300, *args, objective=objective)


def test_chunks_skipped_longer_than_the_ring_are_rebuilt(iris, monkeypatch):
    """With small steps on ten samples, most chunks are not updated for hundreds of iterations."""
    monkeypatch.setattr("maxplus.training.engines.sparse._state.MAX_LANES", 16)
    rule = two_phase(polyak(), constant(0.01), 60)
    problem = TrainingProblem(*iris, TopKLoss(10), rule, 7)
    dense = DenseEngine(start_at(*iris, 12), problem)
    sparse = SparseEngine(start_at(*iris, 12), problem, audit=True)
    rebuilt = 0
    for loss in train(dense, 900).history["loss"]:
        before = sparse._state.search.updated.copy()
        assert train(sparse, 1).history["loss"] == loss
        skipped = np.where(before >= 0, sparse._state.search.updated - before, 0)
        rebuilt += int((skipped > ring_length(10)).sum())
    assert rebuilt > 10


@pytest.mark.parametrize("k", [1, 5, 60])
def test_step_bound_covers_all_changed_entries(iris, k):
    """Bounds have slack, so that an audit may not detect an omitted entry."""
    problem = TrainingProblem(*iris, TopKLoss(k), polyak(), w0_update_interval=0)
    engine = SparseEngine(start_at(*iris, 30), problem)
    for _ in range(5):
        before, fall = engine.model.copy(), engine._state.lift.fallen.copy()
        train(engine, 1)
        down = (before.W1 - engine.model.W1).max(axis=0)
        change = engine.model.W2 - before.W2
        expected = (down[:, None] - np.minimum(change, 0.0)).max(axis=0)
        assert_allclose(engine._state.lift.fallen - fall, expected, rtol=1e-9)


@pytest.mark.parametrize(("k", "length"), [(1, RING), (2, 256), (5, 64), (300, 2), (10**6, 2)])
def test_ring_holds_fewer_iterations_of_more_samples(k, length):
    assert ring_length(k) == length


# -- memory ----------------------------------------------------------------------------------------


def test_sparse_engine_checks_memory_before_allocation(monkeypatch):
    X, y = DATA["digits"]()
    monkeypatch.setattr("maxplus.training.memory.available_bytes", lambda: 1000)
    with pytest.raises(MemoryError, match=r"MB.*fewer hidden units, fewer samples or float32"):
        SparseEngine(*model_and_problem(X, y, 30, polyak(), 0))


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("objective", [MaxLoss(), TopKLoss(7), TopKLoss(100), TrimmedMaxLoss(0.3)])
@pytest.mark.parametrize(("data", "n_hidden"), [("iris", 12), ("digits", 30), ("wide", 3)])
def test_sparse_engine_memory_estimate_is_exact(
    data, n_hidden, objective, dtype, workers, monkeypatch
):
    if workers > numba.config.NUMBA_NUM_THREADS:
        pytest.skip("one processor only")
    monkeypatch.setattr(sparse_engine, "_count_workers", lambda model, problem: workers)
    if data == "wide":  # row numbers beyond int16, and a class without samples
        X, y = np.random.default_rng(0).random((20, 17_000)), np.arange(20) % 2 * 2
        # The kernel allocates nothing, and would be compiled for another type of row numbers.
        monkeypatch.setattr(
            sparse_engine._kernels,
            "replay_chunks",
            lambda state, first, step: [part.fill(0) for part in state.minima],
        )
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
    state = engine._state
    engine.regroup()
    assert engine._state is state


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.int8])
@pytest.mark.parametrize("shape", [(7,), (3, 5), (0, 4), (2, 300, 77), ()])
def test_aligned_arrays_begin_at_a_cache_line(shape, dtype):
    arrays = [aligned_empty(shape, dtype) for _ in range(5)]
    for k, array in enumerate(arrays):
        assert array.size == 0 or array.ctypes.data % 64 == 0
        assert (array.shape, array.dtype) == (shape, dtype)
        assert array.flags.carray
        assert array.base.nbytes == aligned_bytes(shape, dtype)
        array[...] = k
    assert all((array == k).all() for k, array in enumerate(arrays))


@given(sizes=st.lists(st.integers(0, 70), min_size=1, max_size=4), workers=st.integers(1, 3))
def test_chunks_contain_every_sample_once(sizes, workers):
    sizes[-1] += 1
    y = np.repeat(np.arange(len(sizes)), sizes)
    order = np.random.default_rng(0).permutation(y.size)
    n_lanes = lanes_per_chunk(y)
    layout = arrange(y, order, n_lanes, workers)
    assert len(layout.sample) == chunks_per_class(y, n_lanes).sum()
    samples = np.concatenate([s[:n] for s, n in zip(layout.sample, layout.lanes, strict=True)])
    np.testing.assert_array_equal(np.sort(samples), np.arange(y.size))
    np.testing.assert_array_equal(y[layout.sample], layout.label[:, None] + 0 * layout.sample)
    leaves = set(zip(layout.worker, layout.label, layout.leaf, strict=True))
    assert len(leaves) == len(layout.sample)


# -- workers and overflow --------------------------------------------------------------------------


@pytest.fixture
def on_helpers(two_workers, monkeypatch):
    """Run a function in each helper thread before its block."""

    def install(function, work=sparse_engine._kernels.sparse_block):
        def block(w, *args):
            if w > 0:
                function()
            return work(w, *args)

        monkeypatch.setattr(sparse_engine._kernels, "sparse_block", block)

    return install


def test_failing_worker_ends_sparse_training(on_helpers):
    def fail():
        raise RuntimeError("the helper failed")

    on_helpers(fail)
    X, y = DATA["iris"]()
    engine = SparseEngine(*model_and_problem(X, y, 10, polyak(), 0))
    if engine._n_workers < 2:
        pytest.skip("one processor only")
    with pytest.raises(RuntimeError, match="the helper failed"):
        train(engine, 5)


def test_late_worker_is_awaited_in_the_first_iteration(on_helpers):
    on_helpers(lambda: time.sleep(0.3))
    X, y = DATA["iris"]()
    assert_sparse_equals_dense(5, X, y, 10, polyak(), 7)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("slope", [40.0, 120.0, 200.0])
def test_sparse_engine_distinguishes_losses_too_small_for_float32(slope, dtype):
    """Bounds in float32 must not exclude the worst sample if losses are as small as 1e-65."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0.0, 0.05, (20, 2)), rng.normal(1.0, 0.05, (20, 2))])
    X, y = X.astype(dtype), np.repeat([0, 1], 20)
    model = prototype_lmm(X[[0, 20]], y[[0, 20]], 2, slope, slope)
    problem = TrainingProblem(X, y, MaxLoss(), constant(1e-3, target=-1.0), 0)
    sparse, dense = SparseEngine(model.copy(), problem), DenseEngine(model.copy(), problem)
    assert_same_training(sparse, train(sparse, 5), dense, train(dense, 5))


@pytest.mark.parametrize("objective", [MaxLoss(), TopKLoss(7), TopKLoss(150), TrimmedMaxLoss(7)])
@pytest.mark.parametrize(("dtype", "alpha"), [("float32", 6e38), ("float64", 1e307)])
def test_overflowing_steps_end_sparse_training(iris, objective, dtype, alpha):
    engine = SparseEngine(*model_and_problem(*iris, 10, constant(alpha), 0, dtype, objective))
    with np.errstate(all="ignore"):
        result = train(engine, 300)
    assert result.status is Status.OVERFLOW
    assert result.history["sample"].max() < 150
    assert np.isfinite(engine.best_loss)
    assert np.isfinite(engine.best.W1).all()


def test_accumulated_bounds_remain_valid():
    """Sums over tens of thousands of large rises must not be rounded down."""
    rng = np.random.default_rng(0)
    X, y = rng.random((96, 2)), rng.integers(0, 3, 96)
    n = 20_000
    rule = two_phase(polyak(), constant(1e-4), n)
    engine = SparseEngine(*model_and_problem(X, y, 12, rule, 0))
    train(engine, n)
    engine._audit = True
    train(engine, 700)
