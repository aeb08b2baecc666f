"""Classifiers trained with the subgradient method: scores, steps, attributes, partial_fit."""

import itertools
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.preprocessing import scale

import maxplus
from maxplus import LinearMaxPlusClassifier, MaxPlusClassifier, SubgradientLMMClassifier
from maxplus.estimators import NoEffectWarning
from maxplus.training import KeepBestOnInterrupt, MaxLoss, TrainingProblem, level, train
from maxplus.training.engines import ENGINES
from trainings import LAYERS, press_ctrl_c, raise_keyboard_interrupt

HISTORY = ("loss", "sample", "step")
MAX_ENGINES = pytest.mark.parametrize("engine", ["dense", "tree"])
# Parameters of all classifiers, independent of the defaults.
COMMON = {"step": "polyak", "learning_rate": 0.1, "max_iter": 60, "random_state": 0}


def max_plus(**parameters):
    return MaxPlusClassifier(**{**COMMON, **parameters})


def linear_max_plus(**parameters):
    return LinearMaxPlusClassifier(12, **{"objective": "max", **COMMON, **parameters})


def gaussian_lmm(**parameters):
    options = {"init": "gaussian", "slope": 1.0, "w0_update_interval": 1}
    return SubgradientLMMClassifier(12, **{**options, **COMMON, **parameters})


def lmm(n_hidden=8, **parameters):
    return SubgradientLMMClassifier(n_hidden, **{"max_iter": 60, "random_state": 0, **parameters})


def initial(data, **parameters):
    """Return the classifier before its first step, the best one after a single iteration."""
    return lmm(**parameters, max_iter=1).fit(*data)


SHAPES = {
    max_plus: {"W": (3, 4)},
    linear_max_plus: {"A": (4, 12), "b": (12,), "W": (12, 3)},
    gaussian_lmm: {"W0": (8,), "W1": (8, 12), "W2": (12, 3)},
}
ALL = pytest.mark.parametrize("make", SHAPES)
BOTH = pytest.mark.parametrize("make", [max_plus, linear_max_plus])


def weights(clf):
    return {name: getattr(clf, f"{name}_") for name in clf.model_.layers}


def scores(clf, X, W=None):
    """Return the scores according to the formulas of the models."""
    W = W or weights(clf)
    if isinstance(clf, MaxPlusClassifier):
        return (X[:, None] + W["W"][None]).max(axis=2)
    if isinstance(clf, LinearMaxPlusClassifier):
        a = np.maximum(0, X @ W["A"] + W["b"])
        return (a[:, :, None] + W["W"][None]).max(axis=1)
    g = (np.repeat(X, 2, axis=1)[:, :, None] * W["W0"][:, None] + W["W1"]).min(axis=1)
    return (g[:, :, None] + W["W2"][None]).max(axis=1)


def losses(clf, X, y, W=None):
    Z = scores(clf, X, W)
    return np.log(np.exp(Z).sum(axis=1)) - Z[np.arange(len(y)), y]


def assert_same(a, b):
    """Assert that two classifiers have bit-identical weights and histories."""
    for name, W in weights(a).items():
        assert_array_equal(W, weights(b)[name], err_msg=name, strict=True)
    for name in HISTORY:
        assert_array_equal(a.history_[name], b.history_[name], err_msg=name, strict=True)
    assert a.max_loss_ == b.max_loss_
    assert a.mean_loss_ == b.mean_loss_
    assert a.status_ == b.status_


# -- models -----------------------------------------------------------------------------------


@ALL
def test_predictions_equal_the_formula(cloud, pair, make):
    clf = make().fit(*cloud)
    Z = scores(clf, cloud.X)
    proba = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
    assert_allclose(clf.decision_function(cloud.X), Z, atol=1e-12)
    assert_array_equal(clf.predict(cloud.X), np.argmax(Z, axis=1))
    assert_allclose(clf.predict_proba(cloud.X), proba)
    assert_allclose(clf.predict_log_proba(cloud.X), np.log(proba))
    assert losses(clf, *cloud).max() == pytest.approx(clf.max_loss_)
    assert losses(clf, *cloud).mean() == pytest.approx(clf.mean_loss_)

    clf = make().fit(pair.X, np.where(pair.y == 1, "yes", "no"))
    margin = np.diff(scores(clf, pair.X), axis=1)[:, 0]
    assert_allclose(clf.decision_function(pair.X), margin, atol=1e-12)
    assert_array_equal(clf.predict(pair.X), np.where(margin > 0, "yes", "no"))
    assert_allclose(clf.predict_proba(pair.X)[:, 1], 1 / (1 + np.exp(-margin)))


@ALL
@pytest.mark.parametrize("objective", ["max", "mean"])
def test_classifier_step_follows_the_subgradient(cloud, make, objective):
    """A step is compared with central differences of the objective."""
    parameters = {"objective": objective, "engine": "dense", "step": "constant", "max_iter": 1}
    start = make(**parameters).fit(*cloud)
    moved = make(**parameters, keep="last").fit(*cloud)
    alpha = 0.1 / (2 * np.sqrt(2 * 3))
    reduce = np.max if objective == "max" else np.mean
    for name, before in weights(start).items():
        slope = np.empty_like(before)
        for index in np.ndindex(before.shape):
            sides = []
            for h in (1e-6, -1e-6):
                W = {key: value.copy() for key, value in weights(start).items()}
                W[name][index] += h
                sides.append(reduce(losses(start, *cloud, W)))
            slope[index] = (sides[0] - sides[1]) / 2e-6
        assert_allclose(weights(moved)[name], before - alpha * slope, atol=1e-8, err_msg=name)
        assert np.any(slope)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@ALL
def test_fitted_attributes(cloud, make, dtype):
    X, y = cloud.astype(dtype)
    clf = make().fit(X, np.array(["a", "b", "c"])[y])
    assert {name: W.shape for name, W in weights(clf).items()} == SHAPES[make]
    assert {W.dtype for W in weights(clf).values()} == {np.dtype(dtype)}
    assert clf.predict_proba(X).dtype == clf.decision_function(X).dtype == dtype
    assert_array_equal(clf.classes_, ["a", "b", "c"])
    assert clf.n_features_in_ == 4
    assert {name: values.shape for name, values in clf.history_.items()} == dict.fromkeys(
        ("loss", "sample", "step"), (60,)
    )
    assert_array_equal(clf.loss_curve_, clf.history_["loss"])
    assert clf.n_iter_ == 60
    assert (clf.status_, clf.status_message_) == ("max_iter", "all iterations done")
    assert clf.perfect_fit_ == (clf.max_loss_ < np.log(2))


@pytest.mark.parametrize("init", ["gaussian", "uniform"])
@BOTH
def test_random_initialization(cloud, make, init):
    X = np.tile(cloud.X, 30)
    clf = make(init=init, scale=2.0, max_iter=1).fit(X, cloud.y)
    drawn = weights(clf)["W" if make is max_plus else "A"]
    assert np.std(drawn) == pytest.approx(2.0 if init == "gaussian" else 2 / 3**0.5, rel=0.1)
    assert (np.abs(drawn).max() <= 2.0) == (init == "uniform")
    glorot = linear_max_plus(max_iter=1).fit(*cloud)
    assert 0.8 < np.abs(glorot.A_).max() / np.sqrt(6 / 16) <= 1.0
    assert 0.8 < np.abs(glorot.W_).max() / np.sqrt(6 / 15) <= 1.0
    assert_array_equal(glorot.b_, 0.0)


# -- training ---------------------------------------------------------------------------------


@ALL
@pytest.mark.parametrize("engine", ["dense", "sgd"])
def test_mean_objective_lowers_the_mean_loss(cloud, make, engine):
    parameters = {"objective": "mean", "step": "constant", "learning_rate": 1.0}
    clf = make(**parameters, engine=engine, max_iter=200).fit(*cloud)
    start = make(max_iter=1).fit(*cloud)
    assert clf.mean_loss_ < 0.97 * start.mean_loss_


def test_linear_max_plus_learns_scaled_iris_by_default(iris):
    X = scale(iris.X)
    clf = LinearMaxPlusClassifier(20, random_state=0).fit(X, iris.y)
    assert clf.score(X, iris.y) > 0.9


@ALL
@pytest.mark.parametrize("step", ["polyak", "constant"])
def test_partial_fit_and_warm_start_continue_training(cloud, make, step):
    options = {"step": step, "keep": "last", "engine": "dense"}
    expected = make(**options).fit(*cloud)
    clf = make(**options, max_iter=20).partial_fit(*cloud)
    clf.set_params(max_iter=40).partial_fit(*cloud)
    assert_same(clf, expected)
    assert clf.n_iter_ == 60
    warm = make(**options, warm_start=True, max_iter=30).fit(*cloud).fit(*cloud)
    assert_array_equal(warm.history_["loss"], expected.history_["loss"][30:])
    assert warm.n_iter_ == 30


@ALL
@pytest.mark.parametrize(
    "parameters",
    [
        {"engine": "dense"},
        {"objective": "mean", "engine": "dense"},
        {"objective": "mean", "engine": "sgd"},
    ],
)
def test_sample_weight_of_zero_excludes_sample(cloud, make, parameters):
    used = np.arange(45) % 4 != 1
    some = make(**parameters).fit(*cloud, sample_weight=used)
    less = make(**parameters).fit(cloud.X[used], cloud.y[used])
    for name, W in weights(less).items():
        assert_array_equal(weights(some)[name], W)
    assert some.max_loss_ == less.max_loss_
    # Sample indices refer to the input of fit.
    samples = less.history_["sample"]
    expected = np.where(samples < 0, samples, np.flatnonzero(used)[samples])
    assert_array_equal(some.history_["sample"], expected)


# -- input ------------------------------------------------------------------------------------


FLOAT32_MAX = float(np.finfo(np.float32).max)


@ALL
@pytest.mark.parametrize("value", [1e300, -1e308, 1.7e308, FLOAT32_MAX, -FLOAT32_MAX, 5e-324])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_copies", [1, 50])
def test_finite_inputs_have_finite_scores(cloud, make, value, n_classes, dtype, n_copies):
    X = np.tile(cloud.X, n_copies).astype(dtype)
    clf = make(init="uniform", max_iter=20).fit(X, cloud.y % n_classes)
    for where in (slice(None), slice(1, 2)):
        huge = X[:3].astype(float)
        huge[:, where] = value
        assert np.isfinite(clf.decision_function(huge)).all()
        proba = clf.predict_proba(huge)
        assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-5)
        assert (proba >= 0).all()
        assert np.isfinite(clf.predict_log_proba(huge)).all()


@pytest.mark.parametrize("dtype", [np.float16, np.int32, np.uint8, np.longdouble, object])
def test_other_float_types_become_float64(iris, dtype):
    X = np.round(iris.X).astype(dtype)
    assert_same(lmm().fit(X, iris.y), lmm().fit(np.round(iris.X), iris.y))


def test_fit_does_not_depend_on_memory_layout(cloud):
    for X in (np.asfortranarray(cloud.X), np.repeat(cloud.X, 2, axis=1)[:, ::2], cloud.X.tolist()):
        assert_same(lmm().fit(X, cloud.y), lmm().fit(*cloud))


# -- threads ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "parameters", "repeat"),
    [
        (max_plus, {}, 1),
        (linear_max_plus, {}, 1),
        (lmm, {"n_hidden": 25, "engine": "dense", "w0_update_interval": 3}, 1),
        (lmm, {"n_hidden": 25, "engine": "tree", "w0_update_interval": 3}, 5),
        (lmm, {"n_hidden": 25, "objective": "mean", "engine": "sgd", "max_iter": 600}, 1),
    ],
)
def test_fit_does_not_depend_on_threads(digits, make, parameters, repeat):
    """The problems are large enough for the parallel kernels."""
    shift = np.repeat(np.arange(repeat), len(digits.y))[:, None]
    X = np.tile(digits.X, (repeat, 1))[:, 20 * (repeat > 1) : 40 if repeat > 1 else 64] + shift
    y = np.tile(digits.y, repeat)
    one, two = (make(n_jobs=n, **parameters).fit(X, y) for n in (1, 2))
    assert_same(one, two)
    assert_array_equal(one.predict_proba(X), two.predict_proba(X))


@pytest.mark.parametrize("n_jobs", [1, 2, -1, -1000, None])
def test_n_jobs_sets_number_of_threads(cloud, n_jobs):
    before = numba.get_num_threads()
    seen = set()
    lmm(n_jobs=n_jobs, callbacks=lambda _: seen.add(numba.get_num_threads())).fit(*cloud)
    available = numba.config.NUMBA_NUM_THREADS
    # As in joblib, a number far below zero leaves one thread.
    expected = {1: 1, 2: min(2, available), -1000: 1}.get(n_jobs, available)
    assert seen == {expected}
    assert numba.get_num_threads() == before


# -- initialisation of SubgradientLMMClassifier -----------------------------------------------


def test_prototype_initialization_weights(cloud):
    clf = initial(cloud, slope=3.0, init_margin=1.5)
    X, y = cloud.X[clf.prototypes_], cloud.y[clf.prototypes_]
    distance = np.abs(cloud.X[:, None] - X[None]).max(axis=2)
    height = np.where(y[:, None] == np.arange(3), 1.5, -1.5)
    expected = (height[None] - 3.0 * distance[:, :, None]).max(axis=1)
    assert_allclose(clf.decision_function(cloud.X), expected, atol=1e-12)
    assert_array_equal(clf.W2_, height)
    assert_array_equal(np.abs(clf.W0_), 3.0)
    assert clf.slope_ == 3.0
    # The default margin is the slope.
    assert_array_equal(np.abs(initial(cloud, slope=3.0).W2_), 3.0)


@pytest.mark.parametrize("scale", [0.1, 1.0, 50.0])
def test_automatic_slope_is_four_over_the_median_distance(iris, scale):
    # All distances between the corners of a simplex are equal.
    assert initial((scale * np.eye(6), [0, 1, 0, 1, 0, 1])).slope_ == 4.0 / scale
    distance = np.abs(iris.X[:, None] - iris.X[None]).max(axis=2)
    median = np.median(distance[np.triu_indices(150, 1)])
    clf = initial((scale * iris.X, iris.y))
    assert clf.slope_ == pytest.approx(4.0 / (scale * median), rel=0.1)


@pytest.mark.parametrize(("init", "spread"), [("gaussian", 1.0), ("uniform", 3**-0.5)])
def test_random_initialization_of_lmm(cloud, init, spread):
    clf = initial(cloud, n_hidden=400, init=init, slope=2.0, init_margin=0.5)
    assert np.std(clf.W1_) == pytest.approx(2.0 * spread, rel=0.1)
    assert np.std(clf.W2_) == pytest.approx(0.5 * spread, rel=0.15)
    assert (np.abs(clf.W1_).max() <= 2.0) == (init == "uniform")
    assert clf.n_hidden_ == 400
    assert not hasattr(clf, "prototypes_")


@pytest.mark.parametrize(("n_hidden", "expected"), [(1, 1), (44, 44), (45, 45), (1000, 45)])
def test_prototypes_are_at_most_the_number_of_samples(cloud, n_hidden, expected):
    clf = initial(cloud, n_hidden=n_hidden)
    assert clf.n_hidden_ == clf.W1_.shape[1] == np.unique(clf.prototypes_).size == expected


@pytest.mark.parametrize("seed", range(5))
def test_every_class_has_a_prototype(cloud, seed):
    y = np.zeros(45, int)
    y[[3, 40]] = 1, 2
    clf = initial((cloud.X, y), n_hidden=3, random_state=seed)
    assert_array_equal(np.sort(y[clf.prototypes_]), [0, 1, 2])


# -- steps ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fraction", "switch"), [(0.0, 0), (0.5, 30), (0.51, 31)])
def test_two_phase_uses_polyak_steps_and_then_constant_steps(cloud, fraction, switch):
    steps = (
        lmm(polyak_fraction=fraction, learning_rate=0.3, keep="last").fit(*cloud).history_["step"]
    )
    polyak = lmm(step="polyak").fit(*cloud).history_["step"]
    assert_array_equal(steps[:switch], polyak[:switch])
    assert_array_equal(steps[switch:], 0.3 / (2 * np.sqrt(2 * 3)))


@pytest.mark.parametrize(
    ("w0_update_interval", "moves"),
    [(0, []), (1, [*range(12)]), (4, [3, 7, 11]), (5, [4, 9]), (100, [])],
)
def test_w0_is_updated_at_its_interval(cloud, w0_update_interval, moves):
    parameters = {"n_hidden": 20, "w0_update_interval": w0_update_interval}
    before = initial(cloud, **parameters).W0_
    clf = lmm(**parameters, keep="last", max_iter=1)
    seen = []
    for t in range(12):
        after = clf.partial_fit(*cloud).W0_
        seen += [t] * (not np.array_equal(after, before))
        before = after
    assert seen == moves


# -- fitted attributes ------------------------------------------------------------------------


@MAX_ENGINES
def test_best_weights_are_kept(cloud, engine):
    clf = lmm(engine=engine, step="polyak").fit(*cloud)
    assert clf.max_loss_ == clf.history_["loss"].min() < clf.history_["loss"][-1]
    last = lmm(engine=engine, step="polyak", keep="last").fit(*cloud)
    assert last.max_loss_ > clf.max_loss_
    for model in (clf, last):
        assert losses(model, *cloud).max() == pytest.approx(model.max_loss_)
        assert losses(model, *cloud).mean() == pytest.approx(model.mean_loss_)


@pytest.mark.parametrize("max_iter", [1, 30, 300])
def test_perfect_fit_means_all_losses_below_log_2(max_iter):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(m, 0.5, (40, 2)) for m in (-2, 0, 2)])
    y = np.repeat([0, 1, 2], 40)
    clf = lmm(20, max_iter=max_iter, init_margin=0.1).fit(X, y)
    assert clf.perfect_fit_ == (clf.max_loss_ < np.log(2.0)) == (max_iter == 300)
    assert clf.score(X, y) == 1.0 or not clf.perfect_fit_


@MAX_ENGINES
def test_fit_depends_only_on_random_state(cloud, engine):
    clf = lmm(engine=engine, init="gaussian").fit(cloud.X[:30, :2], cloud.y[:30])
    clf.set_params(init="prototypes").fit(*cloud)
    assert_same(clf, lmm(engine=engine).fit(*cloud))
    assert not np.array_equal(clf.W1_, lmm(random_state=1).fit(*cloud).W1_)
    a, b = (lmm(random_state=np.random.RandomState(5)).fit(*cloud) for _ in range(2))
    assert_same(a, b)


# -- partial_fit and warm_start ---------------------------------------------------------------


def test_partial_fit_continues_from_the_best_weights(cloud):
    X, y = cloud.astype(np.float32)
    clf = lmm(step="polyak").fit(X, y)
    before = clf.max_loss_
    clf.partial_fit(X, y)
    assert clf.history_["loss"][60] == before
    assert clf.max_loss_ == clf.history_["loss"].min() <= before
    assert clf.W1_.dtype == clf.predict_proba(cloud.X).dtype == np.float32


@MAX_ENGINES
def test_partial_fit_continues_below_lowest_loss(cloud, engine):
    """The step rule "level" starts from the lowest loss of all calls, not from the last loss."""
    parameters = {"engine": engine, "step": "level", "keep": "last", "w0_update_interval": 7}
    clf = lmm(**parameters, max_iter=45).fit(*cloud)
    assert clf.max_loss_ > clf.history_["loss"].min()
    clf.partial_fit(*cloud)
    problem = TrainingProblem(cloud.X, cloud.y, MaxLoss(), level(45), w0_update_interval=7)
    whole = train(ENGINES[engine](initial(cloud).model_, problem), 90).history
    for name in HISTORY:
        assert_array_equal(clf.history_[name], whole[name], err_msg=name, strict=True)


def test_partial_fit_accepts_classes_not_yet_seen(cloud):
    few = cloud.y < 2
    clf = lmm().partial_fit(cloud.X[few], cloud.y[few], classes=[2, 0, 1])
    assert_array_equal(clf.classes_, [0, 1, 2])
    assert clf.predict_proba(cloud.X).shape == (45, 3)
    clf.partial_fit(*cloud)
    assert clf.n_iter_ == 120


def test_warm_start_restarts_the_schedule(cloud):
    """Calls of five iterations never reach an update of W0, in contrast to partial_fit."""
    parameters = {"max_iter": 5, "w0_update_interval": 7, "keep": "last", "init": "gaussian"}
    start = initial(cloud, init="gaussian")
    warm = lmm(**parameters, warm_start=True)
    for _ in range(3):
        warm.fit(*cloud)
    assert_array_equal(warm.W0_, start.W0_)
    assert warm.n_iter_ == 5
    continued = lmm(**parameters).fit(*cloud).partial_fit(*cloud)
    assert not np.array_equal(continued.W0_, start.W0_)


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_hidden", 12), ("slope", 2.0), ("init_margin", 1.0), ("init", "gaussian")],
)
def test_warm_start_warns_of_ignored_initialization_parameters(cloud, tmp_path, name, value):
    clf = lmm(max_iter=5, engine="dense", warm_start=True).fit(*cloud)
    clf.save(tmp_path / "model")
    loaded = maxplus.load(tmp_path / "model")
    initial_value = getattr(clf, name)
    message = (
        rf"{name}={value!r} has no effect .* with {name}={initial_value!r}; .*warm_start=False"
    )
    for model, method in itertools.product((clf, loaded), ("fit", "partial_fit")):
        shape = model.W1_.shape
        with pytest.warns(NoEffectWarning, match=message) as caught:
            getattr(model.set_params(**{name: value}), method)(*cloud)
        assert caught[0].filename == __file__
        assert model.W1_.shape == shape
    # No warning without a change, and for a new fit.
    clf.set_params(**{name: initial_value}).fit(*cloud)
    clf.set_params(**{name: value, "warm_start": False}).fit(*cloud)
    clf.set_params(warm_start=True).fit(*cloud)


# -- sample weights ---------------------------------------------------------------------------


@MAX_ENGINES
def test_prototypes_are_samples_of_positive_weight(cloud, engine):
    used = np.arange(45) % 4 != 1
    some = lmm(33, engine=engine).fit(*cloud, sample_weight=used)
    less = lmm(33, engine=engine).fit(cloud.X[used], cloud.y[used])
    assert_array_equal(some.W1_, less.W1_)
    assert_array_equal(some.prototypes_, np.flatnonzero(used)[less.prototypes_])


@MAX_ENGINES
def test_positive_sample_weights_do_not_change_the_maximum(cloud, engine):
    weight = np.random.default_rng(0).uniform(0.1, 9, 45)
    a, b = (lmm(engine=engine).fit(*cloud, sample_weight=w) for w in (None, weight))
    for name in HISTORY:
        assert_array_equal(a.history_[name], b.history_[name])
    assert_array_equal(a.W1_, b.W1_)
    assert b.mean_loss_ == pytest.approx(np.average(losses(b, *cloud), weights=weight))


def test_integer_sample_weight_equals_repetition_for_the_mean(cloud):
    parameters = {"objective": "mean", "engine": "dense", "init": "gaussian", "slope": 1.0}
    weight = 1 + np.arange(45) % 3
    a = lmm(**parameters).fit(*cloud, sample_weight=weight)
    b = lmm(**parameters).fit(np.repeat(cloud.X, weight, axis=0), np.repeat(cloud.y, weight))
    for name in LAYERS:
        assert_allclose(weights(a)[name], weights(b)[name], rtol=1e-9)
    assert_allclose(a.history_["loss"], b.history_["loss"], rtol=1e-9)
    assert a.mean_loss_ == pytest.approx(b.mean_loss_)
    plain = lmm(**parameters).fit(*cloud)
    assert not np.allclose(plain.W1_, a.W1_)


# -- objectives and engines -------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_sgd_with_too_large_steps_keeps_the_initial_weights(cloud, seed):
    clf = lmm(objective="mean", learning_rate=50.0, step="constant", random_state=seed)
    start = initial(cloud, random_state=seed)
    assert clf.fit(*cloud).mean_loss_ <= start.mean_loss_
    assert clf.set_params(keep="last").fit(*cloud).mean_loss_ > start.mean_loss_


@pytest.mark.parametrize(
    ("options", "used"),
    [
        ({}, "dense"),
        ({"objective": "top-k"}, "dense"),
        ({"max_iter": 100_000}, "sparse"),
        ({"n_hidden": 10**6}, "sparse"),
        ({"engine": "sparse"}, "sparse"),
        ({"engine": "tree"}, "tree"),
        ({"objective": "mean"}, "sgd"),
    ],
)
def test_engine_is_selected_by_problem_size(cloud, options, used):
    data = SimpleNamespace(X=cloud[0])
    assert lmm(**options)._engine_for(data).name == used


# -- callbacks, progress, interruption --------------------------------------------------------


@pytest.mark.parametrize("verbose", [0, 1])
def test_verbose_draws_a_progress_bar(cloud, capsys, verbose):
    lmm(verbose=verbose).fit(*cloud)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert ("60/60" in captured.err and "LMMClassifier" in captured.err) == bool(verbose)
    assert bool(captured.err) == bool(verbose)


@MAX_ENGINES
@pytest.mark.parametrize("interrupt", [raise_keyboard_interrupt, press_ctrl_c])
@pytest.mark.parametrize("keep", ["best", "last"])
def test_interrupted_training_keeps_best_weights(cloud, engine, interrupt, keep):
    def callback(progress):
        if progress.iteration > 20:
            interrupt()

    callbacks = [callback, KeepBestOnInterrupt()]
    clf = lmm(engine=engine, max_iter=10**9, keep=keep, callbacks=callbacks, step="polyak")
    with pytest.warns(UserWarning, match=rf"interrupted after \d+ of 1000000000 .*the {keep} par"):
        clf.fit(*cloud)
    assert clf.status_ == "interrupted"
    assert 20 < clf.n_iter_ < 1000
    other = lmm(engine=engine, step="polyak", keep=keep, max_iter=clf.n_iter_).fit(*cloud)
    other.status_ = clf.status_
    assert_same(clf, other)
