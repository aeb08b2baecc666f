"""SubgradientLMMClassifier: starts, steps, fitted attributes, going on, weights, interruption."""

import itertools
import signal
import threading
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import maxplus
from maxplus import SubgradientLMMClassifier
from maxplus.estimators import NoEffectWarning
from maxplus.training import KeepBestOnInterrupt, MaxLoss, Progress, TrainingProblem, level, train
from maxplus.training.engines import ENGINES
from trainings import press_ctrl_c, raise_keyboard_interrupt

LAYERS = ("W0_", "W1_", "W2_")
HISTORY = ("loss", "sample", "step")
MAX_ENGINES = pytest.mark.parametrize("engine", ["dense", "tree"])
LOG_2 = np.log(2.0)


def lmm(n_hidden=8, **parameters):
    return SubgradientLMMClassifier(n_hidden, **{"max_iter": 60, "random_state": 0, **parameters})


def initial(data, **parameters):
    """Return the classifier before its first step: the best parameters after a single iteration."""
    return lmm(**parameters, max_iter=1).fit(*data)


def assert_same(a, b):
    """Two classifiers with the same parameters and the same history, to the last bit."""
    for name in LAYERS:
        assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name, strict=True)
    for name in HISTORY:
        assert_array_equal(a.history_[name], b.history_[name], err_msg=name, strict=True)
    assert a.max_loss_ == b.max_loss_
    assert a.mean_loss_ == b.mean_loss_
    assert a.status_ == b.status_


def losses(clf, X, y):
    """Cross-entropy of each sample, from the public interface alone."""
    codes = np.searchsorted(clf.classes_, y)
    return -clf.predict_log_proba(X)[np.arange(len(y)), codes]


# -- where training starts --------------------------------------------------------------------


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


def test_default_init_margin_is_the_slope(cloud):
    assert_array_equal(np.abs(initial(cloud, slope=3.0).W2_), 3.0)


@pytest.mark.parametrize("scale", [0.1, 1.0, 50.0])
def test_automatic_slope_is_four_over_the_distance(scale):
    """Corners of a simplex, any two of which are ``scale`` apart."""
    clf = initial((scale * np.eye(6), [0, 1, 0, 1, 0, 1]))
    assert clf.slope_ == 4.0 / scale


def test_automatic_slope_uses_the_median_distance(iris):
    distance = np.abs(iris.X[:, None] - iris.X[None]).max(axis=2)
    expected = 4.0 / np.median(distance[np.triu_indices(150, 1)])
    assert initial(iris).slope_ == pytest.approx(expected, rel=0.1)


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


@pytest.mark.parametrize("seed", range(10))
def test_every_class_gets_a_prototype(cloud, seed):
    y = np.zeros(45, int)
    y[[3, 40]] = 1, 2
    clf = initial((cloud.X, y), n_hidden=3, random_state=seed)
    assert_array_equal(np.sort(y[clf.prototypes_]), [0, 1, 2])


# -- steps ------------------------------------------------------------------------------------


def test_constant_step(cloud):
    clf = lmm(step="constant", learning_rate=0.3).fit(*cloud)
    assert_array_equal(clf.history_["step"], 0.3 / (2 * np.sqrt(2 * 3)))


@pytest.mark.parametrize(("fraction", "switch"), [(0.0, 0), (0.5, 30), (0.51, 31), (1.0, 60)])
def test_two_phase_step(cloud, fraction, switch):
    steps = lmm(polyak_fraction=fraction).fit(*cloud).history_["step"]
    first = lmm(step="polyak").fit(*cloud).history_["step"]
    assert_array_equal(steps[:switch], first[:switch])
    assert_array_equal(steps[switch:], 0.1 / (2 * np.sqrt(2 * 3)))


def test_polyak_step_uses_the_target(cloud):
    """The same first subgradient; the step is shorter by the target."""
    near, far = (lmm(step="polyak", polyak_target=t).fit(*cloud) for t in (0.5, 0.0))
    loss = far.history_["loss"][0]
    ratio = near.history_["step"][0] / far.history_["step"][0]
    assert ratio == pytest.approx((loss - 0.5) / loss)


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
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_fitted_attributes(cloud, engine, dtype):
    X, y = cloud.astype(dtype)
    clf = lmm(engine=engine).fit(X, np.array(["a", "b", "c"])[y])
    assert_array_equal(clf.classes_, ["a", "b", "c"])
    assert clf.n_features_in_ == 4
    for name, shape in zip(LAYERS, [(8,), (8, 8), (8, 3)], strict=True):
        assert getattr(clf, name).shape == shape
        assert getattr(clf, name).dtype == dtype
    assert set(clf.history_) == set(HISTORY)
    assert [clf.history_[name].shape for name in HISTORY] == [(60,)] * 3
    assert clf.n_iter_ == 60
    assert (clf.status_, clf.status_message_) == ("max_iter", "all iterations done")
    assert_array_equal(clf.loss_curve_, clf.history_["loss"])
    assert clf.predict_proba(X).dtype == clf.decision_function(X).dtype == dtype


@pytest.mark.parametrize("dtype", [np.float16, np.int32, np.uint8, np.longdouble, object])
def test_other_float_types_become_float64(iris, dtype):
    X = np.round(iris.X).astype(dtype)
    assert_same(lmm().fit(X, iris.y), lmm().fit(np.round(iris.X), iris.y))


@MAX_ENGINES
def test_history_is_recorded_before_each_step(cloud, engine):
    """After k steps the loss is what iteration k of a longer training starts with."""
    history = lmm(engine=engine, step="polyak", w0_update_interval=3).fit(*cloud).history_
    for k in (1, 2, 17, 59):
        clf = lmm(engine=engine, step="polyak", w0_update_interval=3, max_iter=k, keep="last")
        assert clf.fit(*cloud).max_loss_ == history["loss"][k]
    first = losses(initial(cloud), *cloud)
    assert history["sample"][0] == np.argmax(first)
    assert history["loss"][0] == pytest.approx(first.max())


@MAX_ENGINES
def test_best_weights_are_kept(cloud, engine):
    clf = lmm(engine=engine, step="polyak").fit(*cloud)
    assert clf.max_loss_ == clf.history_["loss"].min() < clf.history_["loss"][-1]
    assert losses(clf, *cloud).max() == pytest.approx(clf.max_loss_)
    assert losses(clf, *cloud).mean() == pytest.approx(clf.mean_loss_)
    last = lmm(engine=engine, step="polyak", keep="last").fit(*cloud)
    assert last.max_loss_ > clf.max_loss_
    assert losses(last, *cloud).max() == pytest.approx(last.max_loss_)


@pytest.mark.parametrize("max_iter", [1, 30, 300])
def test_perfect_fit_means_all_losses_below_log_2(max_iter):
    """Below log 2 no training sample is misclassified; the start is far above."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(m, 0.5, (40, 2)) for m in (-2, 0, 2)])
    y = np.repeat([0, 1, 2], 40)
    clf = lmm(20, max_iter=max_iter, init_margin=0.1).fit(X, y)
    assert clf.perfect_fit_ == (clf.max_loss_ < LOG_2) == (max_iter == 300)
    if clf.perfect_fit_:
        assert clf.score(X, y) == 1.0


def test_iris_loss_approaches_log_2(iris):
    """Two classes overlap: log 2 is as far as the worst sample's loss will soon get."""
    clf = lmm(20, max_iter=2000).fit(*iris)
    assert clf.score(*iris) > 0.9
    assert LOG_2 < clf.max_loss_ < LOG_2 + 0.02
    assert initial(iris, n_hidden=20).max_loss_ > 1.0


@MAX_ENGINES
def test_reaching_the_target_ends_training(cloud, engine):
    clf = lmm(engine=engine, polyak_target=2.0, max_iter=1000).fit(*cloud)
    assert "target" in clf.status_
    assert clf.max_loss_ == clf.history_["loss"][-1] <= 2.0 < clf.history_["loss"][:-1].min()
    assert clf.n_iter_ < 1000
    assert clf.history_["step"][-1] == 0.0


@MAX_ENGINES
def test_a_zero_subgradient_ends_training(engine):
    clf = lmm(engine=engine, slope=1.0, init_margin=300.0).fit([[0.0], [1e6]], [0, 1])
    assert clf.status_ == "stationary"
    assert "subgradient is zero" in clf.status_message_
    assert clf.n_iter_ == 1
    assert clf.perfect_fit_


@MAX_ENGINES
def test_fit_does_not_depend_on_previous_fit(cloud, engine):
    """The same with the same random state, whatever the classifier did before."""
    clf = lmm(engine=engine, init="gaussian").fit(cloud.X[:30, :2], cloud.y[:30])
    clf.set_params(init="prototypes").fit(*cloud)
    assert_same(clf, lmm(engine=engine).fit(*cloud))
    assert not np.array_equal(clf.W1_, lmm(random_state=1).fit(*cloud).W1_)


def test_random_state_accepts_all_types(cloud):
    a, b = (lmm(random_state=np.random.RandomState(5)).fit(*cloud) for _ in range(2))
    assert_same(a, b)
    lmm(random_state=None).fit(*cloud)


# -- going on ---------------------------------------------------------------------------------


@MAX_ENGINES
@pytest.mark.parametrize("step", ["polyak", "constant"])
def test_partial_fit_continues_training(cloud, engine, step):
    parameters = {"engine": engine, "step": step, "keep": "last", "w0_update_interval": 7}
    clf = lmm(**parameters, max_iter=20).fit(*cloud)
    clf.set_params(max_iter=40).partial_fit(*cloud)
    assert_same(clf, lmm(**parameters, max_iter=60).fit(*cloud))
    assert clf.n_iter_ == 60


@MAX_ENGINES
def test_partial_fit_continues_below_lowest_loss(cloud, engine):
    """A level that forgot the first call would begin from the last loss, not the lowest."""
    parameters = {"engine": engine, "step": "level", "keep": "last", "w0_update_interval": 7}
    clf = lmm(**parameters, max_iter=45).fit(*cloud)
    assert clf.max_loss_ > clf.history_["loss"].min()
    clf.partial_fit(*cloud)
    problem = TrainingProblem(cloud.X, cloud.y, MaxLoss(), level(45), w0_update_interval=7)
    whole = train(ENGINES[engine](initial(cloud).model_, problem), 90).history
    for name in HISTORY:
        assert_array_equal(clf.history_[name], whole[name], err_msg=name, strict=True)


def test_partial_fit_works_without_fit(cloud):
    assert_same(lmm().partial_fit(*cloud), lmm().fit(*cloud))


def test_partial_fit_never_gets_worse(cloud):
    clf = lmm(step="polyak").fit(*cloud)
    before = clf.max_loss_
    clf.partial_fit(*cloud)
    assert clf.history_["loss"][60] == before
    assert clf.max_loss_ == clf.history_["loss"].min() <= before


def test_partial_fit_accepts_classes_not_yet_seen(cloud):
    few = cloud.y < 2
    clf = lmm().partial_fit(cloud.X[few], cloud.y[few], classes=[2, 0, 1])
    assert_array_equal(clf.classes_, [0, 1, 2])
    assert clf.predict_proba(cloud.X).shape == (45, 3)
    clf.partial_fit(*cloud)
    assert clf.n_iter_ == 120


def test_warm_start_continues_with_a_new_schedule(cloud):
    """Five iterations are too few for W0 to move; counted on, t = 6 would be among them."""
    warm = lmm(max_iter=5, w0_update_interval=7, warm_start=True, keep="last", init="gaussian")
    start = initial(cloud, init="gaussian")
    for _ in range(3):
        warm.fit(*cloud)
    assert_array_equal(warm.W0_, start.W0_)
    assert warm.n_iter_ == 5
    on = lmm(max_iter=5, w0_update_interval=7, keep="last", init="gaussian").fit(*cloud)
    on.partial_fit(*cloud)
    assert not np.array_equal(on.W0_, start.W0_)


def test_warm_start_continues_from_the_weights(cloud):
    parameters = {"step": "constant", "keep": "last", "w0_update_interval": 1}
    warm = lmm(**parameters, max_iter=30, warm_start=True).fit(*cloud)
    warm.fit(*cloud)
    straight = lmm(**parameters, max_iter=60).fit(*cloud)
    assert_array_equal(warm.W1_, straight.W1_)
    assert_array_equal(warm.history_["loss"], straight.history_["loss"][30:])


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_hidden", 12), ("slope", 2.0), ("init_margin", 1.0), ("init", "gaussian")],
)
def test_warm_start_warns_of_ignored_initialization_parameters(cloud, tmp_path, name, value):
    clf = lmm(max_iter=5, engine="dense", warm_start=True).fit(*cloud)
    clf.save(tmp_path / "model")
    loaded = maxplus.load(tmp_path / "model")
    began = getattr(clf, name)
    words = rf"{name}={value!r} has no effect .* one with {name}={began!r}; .*warm_start=False"
    for model, go_on in itertools.product((clf, loaded), ("fit", "partial_fit")):
        shape = model.W1_.shape
        with pytest.warns(NoEffectWarning, match=words) as caught:
            getattr(model.set_params(**{name: value}), go_on)(*cloud)
        assert caught[0].filename == __file__
        assert model.W1_.shape == shape
    # Without a change, and from scratch, there is nothing to say.
    clf.set_params(**{name: began}).fit(*cloud)
    clf.set_params(**{name: value, "warm_start": False}).fit(*cloud)
    clf.set_params(warm_start=True).fit(*cloud)


def test_warm_start_keeps_float32(cloud):
    clf = lmm().fit(*cloud.astype(np.float32)).partial_fit(*cloud)
    assert clf.W1_.dtype == np.float32
    assert clf.predict_proba(cloud.X).dtype == np.float32


# -- prediction -------------------------------------------------------------------------------


def test_decision_function_of_many_classes(cloud):
    clf = lmm().fit(*cloud)
    Z = clf.decision_function(cloud.X)
    powers = np.exp(Z)
    assert Z.shape == (45, 3)
    assert_array_equal(Z, clf.model_.scores(cloud.X))
    assert_allclose(clf.predict_proba(cloud.X), powers / powers.sum(axis=1, keepdims=True))
    assert_allclose(clf.predict_log_proba(cloud.X), np.log(clf.predict_proba(cloud.X)))
    assert_array_equal(clf.predict(cloud.X), np.argmax(Z, axis=1))


def test_decision_function_of_two_classes(pair):
    clf = lmm().fit(pair.X, np.where(pair.y == 1, "yes", "no"))
    margin = clf.decision_function(pair.X)
    assert margin.shape == (45,)
    assert_array_equal(clf.predict(pair.X), np.where(margin > 0, "yes", "no"))
    assert_allclose(clf.predict_proba(pair.X)[:, 1], 1 / (1 + np.exp(-margin)))


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
    wide = np.repeat(cloud.X, 2, axis=1)
    for X in (np.asfortranarray(cloud.X), wide[:, ::2], cloud.X.tolist()):
        assert_same(lmm().fit(X, cloud.y), lmm().fit(*cloud))


def test_fit_does_not_change_its_input(cloud):
    X, y = cloud.X.copy(), cloud.y.copy()
    lmm().fit(X, y).predict(X)
    assert_array_equal(X, cloud.X)
    assert_array_equal(y, cloud.y)


# -- sample weights ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parameters",
    [
        {"engine": "dense"},
        {"engine": "tree"},
        {"objective": "mean", "engine": "dense"},
        {"objective": "mean", "engine": "sgd"},
        {"init": "gaussian"},
    ],
)
def test_sample_weight_of_zero_excludes_sample(cloud, parameters):
    used = np.arange(45) % 4 != 1
    some = lmm(33, **parameters).fit(*cloud, sample_weight=used)
    less = lmm(33, **parameters).fit(cloud.X[used], cloud.y[used])
    for name in LAYERS:
        assert_array_equal(getattr(some, name), getattr(less, name))
    assert some.max_loss_ == less.max_loss_
    # Samples are numbered as the user numbers them.
    names = np.flatnonzero(used)
    numbers = less.history_["sample"]
    expected = np.where(numbers < 0, numbers, names[numbers])
    assert_array_equal(some.history_["sample"], expected)
    if "init" not in parameters:
        assert_array_equal(some.prototypes_, names[less.prototypes_])


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


# -- the mean ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["dense", "sgd"])
def test_mean_objective_lowers_the_mean_loss(cloud, engine):
    parameters = {"objective": "mean", "engine": engine, "step": "constant", "n_hidden": 20}
    clf = lmm(**parameters, max_iter=900, learning_rate=0.3).fit(*cloud)
    assert clf.mean_loss_ < 0.8 * initial(cloud, n_hidden=20).mean_loss_
    assert clf.mean_loss_ == pytest.approx(losses(clf, *cloud).mean())


@pytest.mark.parametrize("seed", range(5))
def test_sgd_never_ends_above_its_start(cloud, seed):
    """Even with steps far too long."""
    clf = lmm(objective="mean", learning_rate=50.0, step="constant", random_state=seed)
    start = initial(cloud, random_state=seed)
    assert clf.fit(*cloud).mean_loss_ <= start.mean_loss_
    assert clf.set_params(keep="last").fit(*cloud).mean_loss_ > start.mean_loss_


def test_maximum_objective_selects_sparse_by_default(cloud):
    auto, dense = (lmm(engine=e).fit(*cloud) for e in ("auto", "dense"))
    assert_same(auto, dense)


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
    """Large enough for the parallel kernels: 500·128·25 products, or 2,500 samples' trees."""
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


@pytest.mark.parametrize("several", [False, True])
def test_callbacks_receive_progress(cloud, several):
    progress_calls = []
    callbacks = [progress_calls.append, progress_calls.append] if several else progress_calls.append
    clf = lmm(max_iter=500, callbacks=callbacks).fit(*cloud)
    assert all(isinstance(progress, Progress) for progress in progress_calls)
    assert progress_calls[-1].iteration == progress_calls[-1].max_iter == 500
    assert progress_calls[-1].best_loss == clf.max_loss_
    assert len(progress_calls) < 100


@MAX_ENGINES
def test_callback_stops_training(cloud, engine):
    clf = lmm(engine=engine, max_iter=10**9, callbacks=lambda p: p.iteration > 10).fit(*cloud)
    assert "callback" in clf.status_
    assert 10 < clf.n_iter_ < 1000
    assert clf.max_loss_ == clf.history_["loss"].min()


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
    assert "interrupted" in clf.status_
    assert 20 < clf.n_iter_ < 1000
    assert_same_but_for_the_status(clf, lmm(engine=engine, step="polyak", keep=keep), cloud)


def assert_same_but_for_the_status(clf, other, data):
    """What ``other`` becomes when it ends by itself after as many iterations."""
    other.set_params(max_iter=clf.n_iter_).fit(*data)
    other.status_ = clf.status_
    assert_same(clf, other)


@MAX_ENGINES
def test_ctrl_c_during_training_keeps_best_weights(cloud, engine):
    """From outside, at a moment that the training does not choose."""
    timer = threading.Timer(0.5, press_ctrl_c)
    callbacks = [lambda p: p.seconds > 60, KeepBestOnInterrupt()]
    clf = lmm(engine=engine, max_iter=10**9, callbacks=callbacks)
    timer.start()
    with pytest.warns(UserWarning, match="interrupted"):
        clf.fit(*cloud)
    assert "interrupted" in clf.status_
    assert clf.max_loss_ == clf.history_["loss"].min()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
