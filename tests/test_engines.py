"""Engines: the dense one is the algorithm, compiled ones are the dense one, sgd keeps its word."""

import tracemalloc
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
    two_phase,
)
from maxplus.training.engines import ENGINES, TreeEngine
from maxplus.training.result import Block, History, Signal
from maxplus.training.steps import StepKind
from trainings import start_at

STEPS = {
    "polyak": polyak(),
    "constant": constant(0.02),
    "two-phase": two_phase(polyak(), constant(0.02), 60),
    "level": level(150),
}
POLYAK = STEPS["polyak"]
DTYPES = [np.float64, np.float32]
LAYERS = ("W0", "W1", "W2")
# Engines that minimise the maximum; all of them must give the iterates of the dense one.
MAX_ENGINES = [name for name, engine in ENGINES.items() if engine.minimises(MaxLoss)]
COMPILED = [name for name in MAX_ENGINES if name != "dense"]


def make(name, model, X, y, step=POLYAK, w0_update_interval=0, **options):
    objective = MeanLoss() if name == "sgd" else MaxLoss()
    return ENGINES[name](
        model.copy(), TrainingProblem(X, y, objective, step, w0_update_interval, **options)
    )


def run(engine, *sizes):
    """Advance by blocks of these sizes; all of the history, and how the last block ended."""
    blocks = []
    for size in sizes:
        blocks.append(Block(size))
        engine.advance(blocks[-1])
        if blocks[-1].signal != Signal.GOES_ON:
            break
    columns = {c: np.concatenate([getattr(b, c)[: b.n] for b in blocks]) for c in History.columns}
    return columns, blocks[-1].signal


def assert_same_weights(a, b):
    for name in LAYERS:
        assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name, strict=True)


def assert_same_history(a, b):
    for name in History.columns:
        assert_array_equal(a[name], b[name], err_msg=name, strict=True)


def assert_engines_agree(data, model, step, w0_update_interval, n_iter, sizes=None):
    """Train with all engines and compare everything to the last bit; returns the history."""
    X, y = data
    dense = make("dense", model, X, y, step, w0_update_interval)
    expected, dense_end = run(dense, n_iter)
    assert dense.best_loss == expected["loss"].min()
    for name in COMPILED:
        engine = make(name, model, X, y, step, w0_update_interval)
        history, end = run(engine, *(sizes or [n_iter]))
        assert_same_history(history, expected)
        assert end == dense_end
        assert engine.best_loss == dense.best_loss
        assert_same_weights(engine.model, dense.model)
        assert_same_weights(engine.best, dense.best)
    return expected


# -- the dense engine is the algorithm --------------------------------------------------------


def plain_scores(x, W0, W1, W2):
    """z, h* and i* of one sample, straight from the formulas."""
    lam = [W0[i] * x[i // 2] for i in range(len(W0))]
    rows = [np.argmin(lam + W1[:, h]) for h in range(W1.shape[1])]
    g = np.array([lam[i] + W1[i, h] for h, i in enumerate(rows)])
    units = [np.argmax(g + W2[:, d]) for d in range(W2.shape[1])]
    z = np.array([g[h] + W2[h, d] for d, h in enumerate(units)])
    return z, units, [rows[h] for h in units]


def plain_loss(x, y, *W):
    z = plain_scores(x, *W)[0]
    return np.log(np.exp(z - z.max()).sum()) + z.max() - z[y]


def plain_training(X, y, W, rule, w0_update_interval, samples):
    """Run the whole algorithm in plain loops, with a step on each of these samples.

    Which sample is the worst is not decided here: where two have the same loss
    but for rounding, it is the engine's to say. ``largest`` is what it must attain.
    """
    history = {"loss": [], "largest": [], "step": []}
    for t, n in enumerate(samples):
        losses = [plain_loss(x, label, *W) for x, label in zip(X, y, strict=True)]
        z, units, rows = plain_scores(X[n], *W)
        e = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
        e[y[n]] -= 1
        G = [np.zeros_like(w) for w in W]
        for d, (h, i) in enumerate(zip(units, rows, strict=True)):
            G[2][h, d] = e[d]
            G[1][i, h] += e[d]
            if w0_update_interval > 0 and (t + 1) % w0_update_interval == 0:
                G[0][i] += e[d] * X[n][i // 2]
        norm = sum(float((g**2).sum()) for g in G)
        alpha = (losses[n] - rule.target) / norm if t < rule.polyak_until else rule.alpha
        if rule.kind == StepKind.LEVEL:
            lowest = min([*history["loss"], losses[n]])
            left = max(rule.polyak_until - t, 1) / rule.polyak_until
            alpha = (losses[n] - (1 - left) * lowest - left * rule.target) / norm
        W = [w - alpha * g for w, g in zip(W, G, strict=True)]
        for name, value in (("loss", losses[n]), ("largest", max(losses)), ("step", alpha)):
            history[name].append(value)
    return history, W


def assert_plain_training_agrees(engine, history, start):
    """Compare the history of ``engine`` with plain loops and return the largest loss per step."""
    problem = engine.problem
    W = [start.W0, start.W1, start.W2]
    expected, W = plain_training(
        problem.X, problem.y, W, problem.step, problem.w0_update_interval, history["sample"]
    )
    for name in ("loss", "step"):
        assert_allclose(history[name], expected[name], rtol=1e-9, atol=1e-9, err_msg=name)
    for name, w in zip(LAYERS, W, strict=True):
        assert_allclose(getattr(engine.model, name), w, rtol=1e-9, atol=1e-9, err_msg=name)
    return expected["largest"]


@pytest.mark.slow
@pytest.mark.parametrize("w0_update_interval", [0, 1, 7])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("init", ["prototypes", "gaussian"])
def test_dense_engine_equals_reference_algorithm(cloud, init, step, w0_update_interval):
    X, y = cloud.X[:20], cloud.y[:20]
    model = start_at(X, y, init=init, n_hidden=6)
    engine = make("dense", model, X, y, STEPS[step], w0_update_interval)
    history, _ = run(engine, 200)
    largest = assert_plain_training_agrees(engine, history, model)
    assert_allclose(history["loss"], largest, rtol=1e-9, atol=1e-9)
    assert history["loss"].size == 200
    assert np.unique(history["sample"]).size > 3


def test_engine_takes_first_of_equally_bad_samples(cloud):
    X, y = duplicates(*cloud)
    history, _ = run(make("dense", start_at(X, y, init="gaussian", n_hidden=6), X, y), 100)
    assert_array_equal(history["sample"] % 2, 0)


def test_polyak_target_is_subtracted_and_iterations_are_counted_from_start(cloud):
    """A problem that starts at t = 6 moves W0 first, and Polyak's step aims at the target."""
    X, y = cloud
    model = start_at(X, y, n_hidden=6)
    engine = make("dense", model, X, y, polyak(0.5), w0_update_interval=7, start=6)
    history, _ = run(engine, 1)
    G = model.subgradient(X[history["sample"][0]], int(y[history["sample"][0]]))
    assert history["step"][0] == (history["loss"][0] - 0.5) / G.squared_norm()
    assert not np.array_equal(engine.model.W0, model.W0)
    assert engine.iteration == 7


# -- compiled engines are the dense one -------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("w0_update_interval", [0, 1, 7])
@pytest.mark.parametrize("step", STEPS)
def test_engines_equal_dense_on_iris(iris, step, w0_update_interval, dtype):
    data = iris.astype(dtype)
    model = start_at(*data, n_hidden=12)
    history = assert_engines_agree(data, model, STEPS[step], w0_update_interval, 300)
    assert np.unique(history["sample"]).size > 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "w0_update_interval", "dtype"),
    [
        *(
            (step, w0_update_interval, np.float64)
            for step in STEPS
            for w0_update_interval in (0, 1)
        ),
        ("constant", 7, np.float64),
        ("two-phase", 7, np.float32),
        ("level", 7, np.float32),
    ],
)
def test_engines_equal_dense_on_digits(digits, step, w0_update_interval, dtype):
    data = digits.X[:200].astype(dtype), digits.y[:200]
    model = start_at(*data, n_hidden=20, slope=0.3)
    assert_engines_agree(data, model, STEPS[step], w0_update_interval, 300, sizes=[1, 99, 200])


def coarse_grid(X, y):
    return np.round(X), y


def duplicates(X, y):
    return np.repeat(X, 2, axis=0), np.repeat(y, 2)


def contradictions(X, y):
    """Every sample twice, with different labels: no model can get both right."""
    return np.repeat(X, 2, axis=0), np.ravel(np.column_stack([y, (y + 1) % 3]))


def constant_features(X, y):
    return np.column_stack([np.zeros(len(y)), X, np.full(len(y), 3.0)]), y


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("w0_update_interval", [0, 3])
@pytest.mark.parametrize("init", ["prototypes", "uniform"])
@pytest.mark.parametrize("spoil", [coarse_grid, duplicates, contradictions, constant_features])
def test_engines_equal_dense_with_ties(iris, spoil, init, w0_update_interval, dtype):
    X, y = spoil(iris.X, iris.y)
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
    """Everything `assert_engines_agree` takes, for problems of a few samples."""
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
    n_iter = draw(st.integers(50, 200))
    first = draw(st.integers(1, n_iter - 1))
    return (X, y), model, rule, draw(st.integers(0, 5)), n_iter, [first, n_iter - first]


@given(training=tiny_trainings())
@settings(max_examples=100, deadline=None)
def test_engines_equal_dense_on_tiny_problems(training):
    assert_engines_agree(*training)


@pytest.mark.parametrize("w0_update_interval", [0, 7])
def test_engines_equal_dense_where_norm_overflows(cloud, w0_update_interval):
    """x² is infinite, so Polyak's step is 0 when W0 takes part."""
    data = cloud.X * 1e200, cloud.y
    model = start_at(*data, n_hidden=6, slope=1e-200)
    assert_engines_agree(data, model, STEPS["polyak"], w0_update_interval, 30)


# -- what the rising level is for -------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "n_hidden", "scale", "slope"), [("cloud", 12, 1.0, 2.0), ("digits", 15, 16.0, 4.0)]
)
def test_level_rule_ends_lower_on_contradictory_data(data, n_hidden, scale, slope, request):
    """The median of five starts, at equal iterations."""
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


# -- every engine: blocks, the best iterate, the end ------------------------------------------


@pytest.mark.parametrize("step", ["two-phase", "level"])
@pytest.mark.parametrize("sizes", [[1] * 90, [7] * 12 + [6], [89, 1], [50, 40]])
@pytest.mark.parametrize("name", ENGINES)
def test_block_size_does_not_change_iterates(cloud, name, sizes, step):
    X, y = cloud
    model = start_at(X, y, n_hidden=6)
    whole, parts = (
        make(name, model, X, y, STEPS[step], 5, rng=np.random.default_rng(3)) for _ in range(2)
    )
    assert_same_history(run(parts, *sizes)[0], run(whole, 90)[0])
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
    """The second training begins when the first has seen lower losses."""
    X, y = cloud
    problem = TrainingProblem(X, y, MeanLoss() if name == "sgd" else MaxLoss(), level(100))
    model = start_at(X, y, n_hidden=6)
    histories = []
    for _ in range(2):
        rng = np.random.default_rng(3)
        engine = ENGINES[name](model.copy(), replace(problem, rng=rng))
        histories.append(run(engine, 100)[0])
    assert_same_history(*histories)
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
def test_training_ends_where_nothing_can_move(name, init_margin, signal):
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


@pytest.fixture(scope="module")
def large():
    """Return a problem whose trees take some 80 MB, and its model."""
    X, y = np.zeros((2000, 100)), np.arange(2000) % 2
    model = random_lmm("gaussian", (100, 12, 2), 1.0, 1.0, X.dtype, np.random.default_rng(0))
    return model, TrainingProblem(X, y, MaxLoss(), polyak())


def test_tree_engine_rejects_too_large_problem_before_allocation(large, monkeypatch):
    needed = TreeEngine.bytes_needed(*large)
    assert needed > 50e6
    monkeypatch.setattr(memory, "available_bytes", lambda: needed - 1)
    tracemalloc.start()
    try:
        with pytest.raises(memory.NotEnoughMemoryError, match="engine='dense'") as caught:
            TreeEngine(*large)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1e6
    assert memory.human_bytes(needed) in str(caught.value)
    assert isinstance(caught.value, MemoryError)


@pytest.mark.parametrize("available", ["as much as needed", None])
def test_tree_engine_accepts_problem_that_fits(cloud, monkeypatch, available):
    X, y = cloud
    model = start_at(X, y, n_hidden=6)
    needed = TreeEngine.bytes_needed(model, TrainingProblem(X, y, MaxLoss(), polyak()))
    monkeypatch.setattr(memory, "available_bytes", lambda: needed if available else None)
    run(make("tree", model, X, y), 3)


def test_classifier_raises_memory_error_of_tree_engine(iris, monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 10_000)
    with pytest.raises(MemoryError, match=r"engine='tree' needs .* only 10\.0 kB .*engine='dense'"):
        SubgradientLMMClassifier(10, engine="tree", max_iter=5).fit(*iris)


def test_available_memory_is_plausible():
    assert memory.available_bytes() is None or 1e6 < memory.available_bytes() < 1e15


@pytest.mark.parametrize(
    ("n", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (491.2e9, "491.2 GB"), (3.76e14, "376.0 TB")],
)
def test_memory_sizes_are_human_readable(n, text):
    assert memory.human_bytes(n) == text


# -- sgd --------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
def test_sgd_descends_on_the_samples_it_drew(cloud, step):
    X, y = cloud
    model = start_at(X, y, init="gaussian", n_hidden=6)
    engine = make("sgd", model, X, y, STEPS[step], 4, rng=np.random.default_rng(0))
    history, _ = run(engine, 150)
    assert_plain_training_agrees(engine, history, model)
    assert np.unique(history["sample"]).size > 20


def test_sgd_draws_by_weight():
    X, y = np.arange(8.0).reshape(4, 2), np.array([0, 1, 0, 1])
    weight = np.array([1.0, 2.0, 3.0, 14.0])
    engine = make(
        "sgd",
        start_at(X, y, 3, init="gaussian"),
        X,
        y,
        constant(1e-9),
        weight=weight,
        rng=np.random.default_rng(0),
    )
    drawn = run(engine, 20_000)[0]["sample"]
    # Five standard deviations of a binomial share are 0.018 at most.
    assert_allclose(np.bincount(drawn) / drawn.size, weight / 20, atol=0.018)


@pytest.mark.parametrize(
    ("n_iter", "looked_at", "best"),
    [(45, [0, 45], 45), (78, [0, 45, 78], 78), (180, [0, 45, 90, 135, 180], 135)],
)
def test_sgd_keeps_the_best_epoch(cloud, n_iter, looked_at, best):
    """Of the start, the end of each epoch of 45 samples and the end."""
    X, y = cloud
    model = start_at(X, y, n_hidden=6)

    def after(n):
        engine = make("sgd", model, X, y, constant(1.0), 3, rng=np.random.default_rng(3))
        engine.advance(Block(n))
        return engine

    means = {n: after(n).model.losses(X, y).mean() for n in looked_at}
    assert min(means, key=means.get) == best
    assert after(n_iter).best.losses(X, y).mean() == means[best]


def test_sgd_ends_at_the_target():
    X, y = np.array([[0.0], [1e6]]), np.array([0, 1])
    engine = make("sgd", prototype_lmm(X, y, 2, 1.0, 300.0), X, y, polyak(1e-9))
    history, signal = run(engine, 10)
    assert signal == Signal.TARGET
    assert_array_equal(history["sample"], [-1])


@pytest.mark.parametrize("name", ENGINES)
def test_engine_updates_given_model_in_place(cloud, name):
    """The given model is updated in place; the best model is a copy."""
    X, y = cloud
    model = start_at(X, y, n_hidden=6)
    before = model.copy()
    engine = ENGINES[name](
        model, TrainingProblem(X, y, MeanLoss() if name == "sgd" else MaxLoss(), polyak())
    )
    run(engine, 5)
    assert engine.model is model
    assert not np.array_equal(model.W2, before.W2)
    assert not np.shares_memory(engine.best.W2, model.W2)


# -- which objectives an engine minimises ---------------------------------------------------------


class OwnMean(MeanLoss):
    """A user's own objective."""

    name = "own mean"


class DisguisedMean(MeanLoss):
    """A user's own objective whose name is that of a built-in one."""

    name = "max"


class HalfMaximum(MaxLoss):
    """A subclass of a built-in objective that is another function."""

    def value(self, losses, weight):
        at = super().value(losses, weight)
        return at._replace(loss=at.loss / 2)


UNSUPPORTED = [
    (name, objective)
    for name, objectives in {
        "sparse": (MeanLoss(), OwnMean(), DisguisedMean(), HalfMaximum()),
        "tree": (
            MeanLoss(),
            TopKLoss(3),
            TrimmedMaxLoss(3),
            OwnMean(),
            DisguisedMean(),
            HalfMaximum(),
        ),
        "sgd": (MaxLoss(), TopKLoss(3), TrimmedMaxLoss(3), OwnMean()),
    }.items()
    for objective in objectives
]


@pytest.mark.parametrize(("name", "objective"), UNSUPPORTED)
def test_engine_refuses_objective_it_does_not_minimise(cloud, name, objective):
    X, y = cloud
    with pytest.raises(ValueError, match="use engine='dense'") as refusal:
        ENGINES[name](start_at(X, y), TrainingProblem(X, y, objective, polyak()))
    assert f"engine={name!r}" in str(refusal.value)
    assert f"not {type(objective).__name__}" in str(refusal.value)


@pytest.mark.parametrize("objective", [OwnMean(), DisguisedMean(), HalfMaximum()])
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
