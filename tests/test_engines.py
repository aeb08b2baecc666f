"""Engines: the dense engine equals the oracles, the others equal the dense engine bit by bit."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from maxplus import SubgradientLMMClassifier
from maxplus.models.initialization import prototype_lmm, random_lmm
from maxplus.training import (
    MaxLoss,
    MeanLoss,
    TopKLoss,
    TrainingProblem,
    TrimmedMaxLoss,
    constant,
    level,
    memory,
    paper_alpha,
    polyak,
    train,
    two_phase,
)
from maxplus.training.engines import ENGINES, DenseEngine, TreeEngine
from maxplus.training.result import Block, History, Signal, Status
from memory_used import most_memory
from strategies import SEEDS, quick
from trainings import (
    LAYERS,
    assert_same_arrays,
    assert_same_training,
    assert_same_weights,
    assert_steps_match_the_oracle,
    start_at,
)

STEPS = {
    "polyak": polyak(),
    "constant": constant(0.02),
    "two-phase": two_phase(polyak(), constant(0.02), 60),
    "level": level(150),
}
DTYPES = [np.float64, np.float32]
# Engines that minimise the maximum: all give the iterates of the dense engine.
MAX_ENGINES = [name for name, engine in ENGINES.items() if engine.minimises(MaxLoss)]


def objective_of(name):
    """Return an objective that the engine minimises."""
    return MeanLoss() if name == "sgd" else MaxLoss()


def make(name, model, X, y, step=STEPS["polyak"], w0_update_interval=0, **options):
    problem = TrainingProblem(X, y, objective_of(name), step, w0_update_interval, **options)
    return ENGINES[name](model.copy(), problem)


def run(engine, *sizes):
    """Advance by blocks of these sizes; return the history and the signal of the last block."""
    blocks = []
    for size in sizes:
        blocks.append(Block(size))
        engine.advance(blocks[-1])
        if blocks[-1].signal != Signal.CONTINUE:
            break
    columns = {c: np.concatenate([getattr(b, c)[: b.n] for b in blocks]) for c in History.columns}
    return columns, blocks[-1].signal


def assert_engines_agree(data, model, step, w0_update_interval, n_iter):
    """Check that all engines for the maximum give bit-identical trainings; return the history."""
    dense = make("dense", model, *data, step, w0_update_interval)
    expected = train(dense, n_iter)
    assert dense.best_loss == expected.history["loss"].min()
    for name in MAX_ENGINES:
        engine = make(name, model, *data, step, w0_update_interval)
        assert_same_training(engine, train(engine, n_iter), dense, expected)
    return expected.history


# -- the dense engine equals the oracles ------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("w0_update_interval", [0, 1, 7])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("init", ["prototypes", "gaussian"])
@pytest.mark.parametrize(
    "objective",
    [MaxLoss(), MeanLoss(), *map(TopKLoss, (1, 2, 5, 20)), *map(TrimmedMaxLoss, (1, 5))],
    ids=lambda objective: f"{objective.name} {next(iter(vars(objective).values()), '')}",
)
def test_dense_engine_equals_definition(cloud, objective, init, step, w0_update_interval):
    X, y = cloud.X[:20], cloud.y[:20]
    problem = TrainingProblem(X, y, objective, STEPS[step], w0_update_interval)
    samples = assert_steps_match_the_oracle(
        DenseEngine(start_at(X, y, 6, init=init), problem), n_iter=80
    )
    assert len(samples) == 80
    assert type(objective) is not MaxLoss or len({*samples}) > 3


@given(
    shape=st.tuples(st.integers(1, 15), st.integers(1, 4), st.integers(2, 4), st.integers(1, 6)),
    objective=st.builds(MaxLoss)
    | st.builds(TopKLoss, st.integers(1, 15))
    | st.builds(TrimmedMaxLoss, st.integers(0, 15)),
    w0_update_interval=st.integers(0, 3),
    seed=SEEDS,
)
@quick(80)
def test_dense_engine_equals_definition_with_ties(shape, objective, w0_update_interval, seed):
    n_samples, n_features, n_classes, n_hidden = shape
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (n_samples, n_features)) / 2
    y = rng.integers(0, n_classes, n_samples)
    y[0] = n_classes - 1
    problem = TrainingProblem(X, y, objective, constant(0.25), w0_update_interval)
    engine = DenseEngine(start_at(X, y, n_hidden, seed=seed % 100), problem)
    assert_steps_match_the_oracle(engine, 4)


def test_polyak_target_is_subtracted_and_iterations_are_counted_from_start(cloud):
    """A problem that starts at t = 6 moves W0 in its first iteration."""
    X, y = cloud
    model = start_at(X, y, n_hidden=6)
    engine = make("dense", model, X, y, polyak(0.5), w0_update_interval=7, start=6)
    history, _ = run(engine, 1)
    G = model.subgradient(X[history["sample"][0]], int(y[history["sample"][0]]))
    assert history["step"][0] == (history["loss"][0] - 0.5) / G.squared_norm()
    assert not np.array_equal(engine.model.W0, model.W0)
    assert engine.iteration == 7


# -- other engines equal the dense engine -----------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("w0_update_interval", [0, 1, 7])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("data", ["iris", "digits"])
def test_engines_equal_dense(data, step, w0_update_interval, dtype, request):
    X, y = request.getfixturevalue(data).astype(dtype)
    X, y = X[:200], y[:200]
    model = start_at(X, y, 12 if data == "iris" else 20, 2.0 if data == "iris" else 0.3)
    history = assert_engines_agree((X, y), model, STEPS[step], w0_update_interval, 300)
    assert np.unique(history["sample"]).size > 3


def coarse_grid(X, y):
    return np.round(X), y


def duplicates(X, y):
    return np.repeat(X, 2, axis=0), np.repeat(y, 2)


def contradictions(X, y):
    """Repeat every sample with another label, so that no model classifies both correctly."""
    return np.repeat(X, 2, axis=0), np.ravel(np.column_stack([y, (y + 1) % 3]))


def constant_features(X, y):
    return np.column_stack([np.zeros(len(y)), X, np.full(len(y), 3.0)]), y


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("w0_update_interval", [0, 3])
@pytest.mark.parametrize("init", ["prototypes", "uniform"])
@pytest.mark.parametrize("modify", [coarse_grid, duplicates, contradictions, constant_features])
def test_engines_equal_dense_with_ties(iris, modify, init, w0_update_interval, dtype):
    X, y = modify(iris.X, iris.y)
    X = np.ascontiguousarray(X, dtype)
    model = start_at(X, y, init=init, n_hidden=12)
    assert_engines_agree((X, y), model, STEPS["two-phase"], w0_update_interval, 150)


@pytest.mark.slow
def test_tree_engine_on_several_threads_equals_dense(iris, monkeypatch):
    monkeypatch.setattr("maxplus.training.engines.tree.PARALLEL_FROM", 0)
    model = start_at(*iris, n_hidden=12)
    assert_engines_agree(iris, model, STEPS["two-phase"], 7, 60)


@st.composite
def tiny_trainings(draw):
    """Arguments of `assert_engines_agree` for problems of a few samples."""
    n_samples, n_features, n_hidden = (draw(st.integers(1, k)) for k in (12, 4, 6))
    n_classes = draw(st.integers(2, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.normal(0, 2, (n_samples, n_features))
    if draw(st.booleans()):
        X = np.round(X)
    X = X.astype(draw(st.sampled_from(DTYPES)))
    y = rng.integers(0, n_classes, n_samples)
    y[0] = n_classes - 1  # start_at counts the classes by their labels
    init = draw(st.sampled_from(["prototypes", "gaussian", "uniform"]))
    model = start_at(X, y, n_hidden, init=init, slope=draw(st.sampled_from([0.5, 1.0, 4.0])))
    rule = draw(st.sampled_from([*STEPS.values(), polyak(0.25)]))
    return (X, y), model, rule, draw(st.integers(0, 5)), draw(st.integers(50, 200))


@given(training=tiny_trainings())
@settings(max_examples=100, deadline=None)
def test_engines_equal_dense_on_tiny_problems(training):
    assert_engines_agree(*training)


@pytest.mark.parametrize("w0_update_interval", [0, 7])
def test_engines_equal_dense_where_norm_overflows(cloud, w0_update_interval):
    """x² is infinite, so Polyak's step is 0 if W0 moves."""
    data = cloud.X * 1e200, cloud.y
    model = start_at(*data, n_hidden=6, slope=1e-200)
    assert_engines_agree(data, model, STEPS["polyak"], w0_update_interval, 30)


@pytest.mark.parametrize("engine", ["dense", "tree", "sparse"])
def test_engines_end_with_overflow_where_a_score_is_infinite(iris, engine):
    """The loss is NaN if the score of the true class is infinite, which trees would ignore."""
    X, y = iris.X.astype(np.float32), iris.y
    engine = make(engine, start_at(X, y), X[:1], y[:1], constant(1e41))
    with np.errstate(over="ignore", invalid="ignore"):
        assert train(engine, 20).status is Status.OVERFLOW


def test_samples_of_a_problem_are_contiguous_and_read_only(iris):
    problem = TrainingProblem(np.asfortranarray(iris.X), np.repeat(iris.y, 2)[::2])
    for array in (problem.X, problem.y):
        assert array.flags.c_contiguous
        assert not array.flags.writeable


# -- level rules ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "n_hidden", "scale", "slope"), [("cloud", 12, 1.0, 2.0), ("digits", 15, 16.0, 4.0)]
)
def test_level_rule_ends_lower_on_contradictory_data(data, n_hidden, scale, slope, request):
    """Compare medians of five initialisations after the same number of iterations."""
    X, y = request.getfixturevalue(data)
    X, y, n = X[:300] / scale, y[:300], 3000
    alpha = paper_alpha(0.1, int(y.max()) + 1)
    rules = (level(n), polyak(), two_phase(polyak(), constant(alpha), n // 2))
    ends = np.empty((5, 3))
    for seed in range(5):
        model = start_at(X, y, n_hidden, slope, seed)
        for k, rule in enumerate(rules):
            engine = make("sparse", model, X, y, rule, 10)
            run(engine, n)
            ends[seed, k] = engine.best_loss
    level_end, polyak_end, two_phase_end = np.median(ends, axis=0)
    assert level_end < 0.99 * min(polyak_end, two_phase_end)


# -- every engine: blocks, best weights, end of training --------------------------------------


@pytest.mark.parametrize("step", ["two-phase", "level"])
@pytest.mark.parametrize("sizes", [[1] * 90, [7] * 12 + [6], [89, 1]])
@pytest.mark.parametrize("name", ENGINES)
def test_block_size_does_not_change_iterates(cloud, name, sizes, step):
    X, y = cloud
    model = start_at(X, y, n_hidden=6)
    whole, parts = (
        make(name, model, X, y, STEPS[step], 5, rng=np.random.default_rng(3)) for _ in range(2)
    )
    assert_same_arrays(run(parts, *sizes)[0], run(whole, 90)[0])
    assert_same_weights(parts.model, whole.model)
    assert_same_weights(parts.best, whole.best)
    assert parts.best_loss == whole.best_loss


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("w0_update_interval", [0, 3])
@pytest.mark.parametrize("name", MAX_ENGINES)
def test_best_weights_equal_those_of_shorter_run(cloud, name, w0_update_interval, dtype):
    X, y = cloud.astype(dtype)
    model = start_at(X, y, n_hidden=30)
    long = make(name, model, X, y, STEPS["polyak"], w0_update_interval)
    loss = run(long, 30, 170)[0]["loss"]
    best = int(np.argmin(loss))
    assert 30 < best < 199
    short = make(name, model, X, y, STEPS["polyak"], w0_update_interval)
    run(short, best)
    assert_same_weights(long.best, short.model)
    assert long.best_loss == loss[best] == long.best.losses(X, y).max()


@pytest.mark.parametrize("name", ENGINES)
def test_engines_of_one_problem_share_no_memory(cloud, name):
    """The memory of a level rule is not shared with a later training of the same problem."""
    X, y = cloud
    problem = TrainingProblem(X, y, objective_of(name), level(100))
    model = start_at(X, y, n_hidden=6)
    histories = []
    for _ in range(2):
        rng = np.random.default_rng(3)
        engine = ENGINES[name](model.copy(), replace(problem, rng=rng))
        histories.append(run(engine, 100)[0])
    assert_same_arrays(*histories)
    assert problem.step.memory[0] == np.inf


@pytest.mark.parametrize("rule", [constant(0.02, target=2.0), level(2000, target=2.0)])
@pytest.mark.parametrize("name", MAX_ENGINES)
def test_training_ends_at_the_target(cloud, name, rule):
    X, y = cloud
    model = start_at(X, y, n_hidden=6)
    engine = make(name, model, X, y, rule)
    history, signal = run(engine, 10, 1000)
    assert signal == Signal.TARGET
    assert history["loss"][-1] <= 2.0 < history["loss"][:-1].min()
    assert history["step"][-1] == 0.0
    assert engine.iteration == history["loss"].size > 10
    assert_same_weights(engine.best, engine.model)


@pytest.mark.parametrize(
    ("init_margin", "signal"), [(300.0, Signal.STATIONARY), (500.0, Signal.TARGET)]
)
@pytest.mark.parametrize("name", MAX_ENGINES)
def test_training_ends_at_a_zero_subgradient(name, init_margin, signal):
    """A loss of e^−600 has a subgradient whose square underflows; e^−1000 is 0."""
    X, y = np.array([[0.0], [1e6]]), np.array([0, 1])
    model = prototype_lmm(X, y, 2, 1.0, init_margin)
    engine = make(name, model, X, y)
    history, ended = run(engine, 10)
    assert ended == signal
    assert_array_equal(history["step"], [0.0])
    assert (history["loss"] > 0).all() == (signal == Signal.STATIONARY)
    assert_same_weights(engine.model, model)


# -- memory -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n_samples", "n_hidden"), [(1, 1), (45, 6), (17, 17)])
def test_tree_engine_memory_matches_its_estimate(cloud, n_samples, n_hidden, dtype):
    X, y = cloud.X[:n_samples].astype(dtype), cloud.y[:n_samples]
    model = start_at(X, cloud.y[:3], n_hidden, init="gaussian")
    engine = make("tree", model, X, y)
    trees = engine._trees
    held = [trees.minima, trees.maxima, trees.losses, engine._scratch]
    held += [getattr(engine.best, name) for name in LAYERS]
    assert TreeEngine.bytes_needed(model, engine.problem) == sum(array.nbytes for array in held)


def test_tree_engine_checks_memory_before_allocation(iris, monkeypatch):
    X, y = np.zeros((2000, 100)), np.arange(2000) % 2
    model = random_lmm("gaussian", (100, 12, 2), 1.0, 1.0, X.dtype, np.random.default_rng(0))
    problem = TrainingProblem(X, y, MaxLoss(), polyak())
    needed = TreeEngine.bytes_needed(model, problem)
    assert needed > 50e6

    def fail():
        with pytest.raises(memory.NotEnoughMemoryError, match="engine='dense'") as caught:
            TreeEngine(model, problem)
        assert memory.human_bytes(needed) in str(caught.value)

    monkeypatch.setattr(memory, "available_bytes", lambda: needed - 1)
    assert most_memory(fail) < 1e6
    for available in (needed, None):
        monkeypatch.setattr(memory, "available_bytes", lambda available=available: available)
        TreeEngine(model, problem)
    monkeypatch.setattr(memory, "available_bytes", lambda: 10_000)
    with pytest.raises(MemoryError, match=r"engine='tree' needs .* only 10\.0 kB .*engine='dense'"):
        SubgradientLMMClassifier(10, engine="tree", max_iter=5).fit(*iris)


# -- sgd --------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
def test_sgd_descends_on_the_samples_it_drew(cloud, step):
    X, y = cloud
    model = start_at(X, y, init="gaussian", n_hidden=6)
    engine = make("sgd", model, X, y, STEPS[step], 4, rng=np.random.default_rng(0))
    assert len({*assert_steps_match_the_oracle(engine, 150)}) > 20


def test_sgd_draws_by_weight():
    X, y = np.arange(8.0).reshape(4, 2), np.array([0, 1, 0, 1])
    weight = np.array([1.0, 2.0, 3.0, 14.0])
    model, rng = start_at(X, y, 3, init="gaussian"), np.random.default_rng(0)
    engine = make("sgd", model, X, y, constant(1e-9), weight=weight, rng=rng)
    drawn = run(engine, 20_000)[0]["sample"]
    # Five standard deviations of a binomial share are 0.018 at most.
    assert_allclose(np.bincount(drawn) / drawn.size, weight / 20, atol=0.018)


@pytest.mark.parametrize(
    ("n_iter", "evaluated", "best"),
    [(45, [0, 45], 45), (78, [0, 45, 78], 78), (180, [0, 45, 90, 135, 180], 135)],
)
def test_sgd_keeps_the_best_epoch(cloud, n_iter, evaluated, best):
    """Weights are evaluated at the start, after each epoch of 45 samples, and at the end."""
    X, y = cloud
    model = start_at(X, y, n_hidden=6)

    def after(n):
        engine = make("sgd", model, X, y, constant(1.0), 3, rng=np.random.default_rng(3))
        engine.advance(Block(n))
        return engine

    means = {n: after(n).model.losses(X, y).mean() for n in evaluated}
    assert min(means, key=means.get) == best
    assert after(n_iter).best.losses(X, y).mean() == means[best]


def test_sgd_ends_at_the_target():
    X, y = np.array([[0.0], [1e6]]), np.array([0, 1])
    engine = make("sgd", prototype_lmm(X, y, 2, 1.0, 300.0), X, y, polyak(1e-9))
    history, signal = run(engine, 10)
    assert signal == Signal.TARGET
    assert_array_equal(history["sample"], [-1])


@pytest.mark.parametrize("name", ENGINES)
def test_engine_updates_given_model_in_place_and_copies_the_best(cloud, name):
    X, y = cloud
    model = start_at(X, y, n_hidden=6)
    before = model.copy()
    engine = ENGINES[name](model, TrainingProblem(X, y, objective_of(name), polyak()))
    run(engine, 5)
    assert engine.model is model
    assert not np.array_equal(model.W2, before.W2)
    assert not np.shares_memory(engine.best.W2, model.W2)


# -- objectives that an engine supports -----------------------------------------------------------


class OwnMean(MeanLoss):
    """Subclass of a built-in objective."""

    name = "own mean"


class DisguisedMean(MeanLoss):
    """Objective whose name is that of another, built-in objective."""

    name = "max"


class HalfMaximum(MaxLoss):
    """Subclass of a built-in objective that is another function."""

    def value(self, losses, weight):
        at = super().value(losses, weight)
        return at._replace(loss=at.loss / 2)


OWN = (OwnMean(), DisguisedMean(), HalfMaximum())
UNSUPPORTED = [
    *(("sparse", objective) for objective in (MeanLoss(), *OWN)),
    *(("tree", objective) for objective in (MeanLoss(), TopKLoss(3), TrimmedMaxLoss(3), *OWN)),
    *(("sgd", objective) for objective in (MaxLoss(), TopKLoss(3), TrimmedMaxLoss(3), OWN[0])),
]


@pytest.mark.parametrize(("name", "objective"), UNSUPPORTED)
def test_engine_rejects_unsupported_objective(cloud, name, objective):
    X, y = cloud
    with pytest.raises(ValueError, match="use engine='dense'") as error:
        ENGINES[name](start_at(X, y), TrainingProblem(X, y, objective, polyak()))
    assert f"engine={name!r}" in str(error.value)
    assert f"not {type(objective).__name__}" in str(error.value)


@pytest.mark.parametrize("objective", OWN)
def test_dense_engine_minimises_own_objective(cloud, objective):
    X, y = cloud
    engine = ENGINES["dense"](start_at(X, y), TrainingProblem(X, y, objective, constant(0.01)))
    expected = objective.value(engine.model.losses(X, y), None)
    history, _ = run(engine, 1)
    assert (history["loss"][0], history["sample"][0]) == (expected.loss, expected.sample)


@pytest.mark.parametrize("step", [lambda t: 0.1, polyak, 0.1, None])
def test_problem_rejects_invalid_step_rule(cloud, step):
    with pytest.raises(TypeError, match=r"step must be a StepRule.*step=polyak\(\)"):
        TrainingProblem(*cloud, MaxLoss(), step)
