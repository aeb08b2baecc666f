"""SubgradientLMMClassifier: initialisation, steps, fitted attributes, partial_fit, interruption."""

import itertools
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import maxplus
from maxplus import SubgradientLMMClassifier
from maxplus.estimators import NoEffectWarning
from maxplus.training import KeepBestOnInterrupt, MaxLoss, TrainingProblem, level, train
from maxplus.training.engines import ENGINES
from trainings import press_ctrl_c, raise_keyboard_interrupt

LAYERS = ("W0_", "W1_", "W2_")
HISTORY = ("loss", "sample", "step")
MAX_ENGINES = pytest.mark.parametrize("engine", ["dense", "tree"])


def lmm(n_hidden=8, **parameters):
    return SubgradientLMMClassifier(n_hidden, **{"max_iter": 60, "random_state": 0, **parameters})


def initial(data, **parameters):
    """Return the classifier before its first step, the best one after a single iteration."""
    return lmm(**parameters, max_iter=1).fit(*data)


def assert_same(a, b):
    """Assert that two classifiers have bit-identical weights and histories."""
    for name in LAYERS:
        assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name, strict=True)
    for name in HISTORY:
        assert_array_equal(a.history_[name], b.history_[name], err_msg=name, strict=True)
    assert a.max_loss_ == b.max_loss_
    assert a.mean_loss_ == b.mean_loss_
    assert a.status_ == b.status_


def losses(clf, X, y):
    """Return the log loss of each sample, from the predicted probabilities."""
    codes = np.searchsorted(clf.classes_, y)
    return -clf.predict_log_proba(X)[np.arange(len(y)), codes]


# -- initialisation ---------------------------------------------------------------------------


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
def test_random_initialization(cloud, init, spread):
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


@pytest.mark.parametrize("dtype", [np.float16, np.int32, np.uint8, np.longdouble, object])
def test_other_float_types_become_float64(iris, dtype):
    X = np.round(iris.X).astype(dtype)
    assert_same(lmm().fit(X, iris.y), lmm().fit(np.round(iris.X), iris.y))


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


# -- prediction -------------------------------------------------------------------------------


FLOAT32_MAX = float(np.finfo(np.float32).max)


@pytest.mark.parametrize("value", [1e300, -1e308, 1.7e308, FLOAT32_MAX, -FLOAT32_MAX, 5e-324])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("fitted", [np.float64, np.float32])
@pytest.mark.parametrize("where", [slice(None), slice(1, 2)])
def test_finite_inputs_have_finite_scores(cloud, fitted, n_classes, value, where):
    clf = lmm(w0_update_interval=5).fit(cloud.X.astype(fitted), cloud.y % n_classes)
    X = cloud.X[:3].copy()
    X[:, where] = value
    assert np.isfinite(clf.decision_function(X)).all()
    proba = clf.predict_proba(X)
    assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-5)
    assert (proba >= 0).all()
    assert np.isfinite(clf.predict_log_proba(X)).all()


def test_fit_does_not_depend_on_memory_layout(cloud):
    for X in (np.asfortranarray(cloud.X), np.repeat(cloud.X, 2, axis=1)[:, ::2], cloud.X.tolist()):
        assert_same(lmm().fit(X, cloud.y), lmm().fit(*cloud))


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
        assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-9)
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


# -- threads ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parameters", "repeat"),
    [
        ({"engine": "dense", "w0_update_interval": 3}, 1),
        ({"engine": "tree", "w0_update_interval": 3}, 5),
        ({"objective": "mean", "engine": "sgd", "max_iter": 600}, 1),
    ],
    ids=lambda p: p["engine"] if isinstance(p, dict) else "",
)
def test_fit_does_not_depend_on_threads(digits, parameters, repeat):
    """The problems are large enough for the parallel kernels."""
    shift = np.repeat(np.arange(repeat), len(digits.y))[:, None]
    X = np.tile(digits.X, (repeat, 1))[:, 20 * (repeat > 1) : 40 if repeat > 1 else 64] + shift
    y = np.tile(digits.y, repeat)
    one, two = (lmm(25, n_jobs=n, **parameters).fit(X, y) for n in (1, 2))
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
