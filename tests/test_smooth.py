"""The soft model of the warm-up, initial boxes, and the polish."""

import math
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

import maxplus
from maxplus import LMMClassifier
from maxplus.distributed import SERIAL, current
from maxplus.explain import unit_boxes
from maxplus.models import LMM
from maxplus.models.initialization import box_lmm, class_distance
from maxplus.training import Status
from maxplus.training.smooth.soft_lmm import LIMIT, Rescaling, SoftLMM
from maxplus.training.stages import Annealing
from thread_communicator import run_ranks
from trainings import polish, warm_up

LOG2 = math.log(2.0)


@pytest.fixture(scope="module")
def small():
    """Return a model of three classes with its samples, in float32."""
    rng = np.random.default_rng(0)
    P, H, C = 5, 7, 3
    model = LMM(
        np.tile([3.0, -3.0], P).astype(np.float32),
        rng.normal(size=(2 * P, H)).astype(np.float32),
        rng.normal(size=(H, C)).astype(np.float32),
    )
    X = rng.random((40, P), np.float32)
    return model, X, rng.integers(C, size=40)


def soft_gradient(X, y, model, *options, size=1.0):
    """Return the loss and its derivatives by W1 and W2."""
    soft = SoftLMM(SERIAL, model.W0, model.W1, model.W2, size)
    loss = soft.loss(X, y, *options)
    return loss, *soft.layers(soft.gradient())


def soft_loss(model, X, y, W1, W2, tau, margin=0.0, weight=None, size=1.0):
    """Return the soft loss in float64, by its definition."""
    lam = np.repeat(X.astype(float), 2, axis=1) * model.W0.astype(float)
    g = -tau * np.log(np.exp(-(lam[:, :, None] + W1) / tau).sum(axis=1))
    z = tau * np.log(np.exp((g[:, :, None] + W2) / tau).sum(axis=1))
    z = size * (z + margin * (np.arange(z.shape[1]) != y[:, None]))
    return np.average(np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(y)), y], weights=weight)


@pytest.mark.parametrize(
    ("margin", "weighted", "size"), [(0.0, False, 1.0), (0.7, False, 2.5), (0.3, True, 1.0)]
)
def test_soft_gradient_is_the_derivative_of_soft_loss(small, margin, weighted, size):
    model, X, y = small
    tau = 0.4
    weight = np.random.default_rng(1).random(len(y)) if weighted else None
    loss, *gradients = soft_gradient(X, y, model, tau, margin, weight, size=size)
    W1, W2 = model.W1.astype(float), model.W2.astype(float)
    assert loss == pytest.approx(
        soft_loss(model, X, y, W1, W2, tau, margin, weight, size), rel=1e-5
    )
    h = 1e-6
    for W, gradient in zip((W1, W2), gradients, strict=True):
        for index in np.ndindex(W.shape):
            values = []
            for sign in (h, -h):
                moved = [V.copy() for V in (W1, W2)]
                moved[0 if W is W1 else 1][index] += sign
                values.append(soft_loss(model, X, y, *moved, tau, margin, weight, size))
            slope = (values[0] - values[1]) / (2 * h)
            assert gradient[index] == pytest.approx(slope, rel=2e-3, abs=2e-6)


def test_soft_losses_at_low_temperature_are_close_to_hard_losses(small):
    model, X, y = small
    tau = 0.1
    found, _, _ = soft_gradient(X, y, model, tau)
    off = 2 * tau * (math.log(model.W0.size) + math.log(model.n_hidden))
    assert abs(found - model.losses(X, y).mean()) <= off


def test_soft_gradients_are_finite_at_every_temperature(small):
    model, X, y = small
    for scale in (1e-6, 1.0, 50.0, 1e6):
        for tau in (1e-3, 0.1, 10.0):
            scaled = (X * scale).astype(np.float32)
            loss, *gradients = soft_gradient(scaled, y, model, tau)
            assert math.isfinite(loss)
            assert all(np.isfinite(gradient).all() for gradient in gradients)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_warm_up_is_invariant_to_rescaling(small, dtype):
    """The conversion to the units of the data and back returns the same model."""
    model, X, _ = small
    model = LMM(*(W.astype(dtype) for W in (model.W0, model.W1, model.W2)))
    X = X.astype(dtype) + 3
    scaling = Rescaling.from_model(model, X, size=4.5)
    again = scaling.to_lmm(model, *scaling.rescaled_weights(model))
    assert again.dtype == dtype
    assert np.allclose(again.scores(X), model.scores(X), atol=1e-4)
    rows = scaling.transform(X)
    assert rows.dtype == np.float32
    assert np.abs(rows).max() * np.abs(scaling.W0).max() / scaling.coldest == pytest.approx(
        LIMIT, rel=0.02
    )


@pytest.mark.slow
def test_warm_up_is_robust_to_an_outlier(digits):
    X, y = digits
    accuracies = []
    for value in (0.0, 1e3, 1e6):
        dirty = X[:350].copy()
        dirty[0, 0] = value
        clf = LMMClassifier(60, polish=None, random_state=0).fit(dirty, y[:350])
        accuracies.append(clf.score(X[350:], y[350:]))
    assert min(accuracies) > accuracies[0] - 0.04


@pytest.mark.slow
@pytest.mark.parametrize(("offset", "scale"), [(1e9, 1.0), (-1e7, 1.0), (0.0, 1e50), (0.0, 1e-50)])
def test_warm_up_keeps_precision_with_offsets_and_scales(iris, offset, scale):
    X = iris.X * scale + offset
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf = LMMClassifier(30, polish=None, random_state=0).fit(X, iris.y)
    plain = LMMClassifier(30, polish=None, random_state=0).fit(*iris)
    assert clf.score(X, iris.y) >= plain.score(*iris) - 0.02


def test_box_initialization_is_clusters_with_a_deviation(iris):
    rng = np.random.default_rng(0)
    model = box_lmm(iris.X, iris.y, 3, 3, slope=4.0, drop=2.0, rng=rng)
    boxes = unit_boxes(model)
    for d in range(3):
        own = iris.X[iris.y == d]
        assert boxes.label[d] == d
        assert np.allclose(boxes.low[d], own.mean(axis=0) - own.std(axis=0))
        assert np.allclose(boxes.high[d], own.mean(axis=0) + own.std(axis=0))
    assert np.array_equal(model.W2, np.where(np.eye(3), 0.0, -2.0))


@pytest.mark.parametrize("n_hidden", [1, 2, 7, 40, 1000])
def test_box_initialization_uses_as_many_units_as_possible(iris, n_hidden):
    X, y = np.concatenate([iris.X[:60], iris.X[100:103]]), np.r_[iris.y[:60], [2] * 3]
    model = box_lmm(X, y, n_hidden, 3, 1.0, 1.0, np.random.default_rng(1))
    assert model.n_hidden <= n_hidden
    counts = np.bincount(unit_boxes(model).label, minlength=3)
    assert (counts <= np.bincount(y)).all()
    assert model.n_hidden == min(n_hidden, len(y))
    # Unless a class has too few samples, the numbers of units differ by at most one.
    free = counts < np.bincount(y)
    if free.any():
        assert counts.max() - counts[free].min() <= 1
    assert np.isfinite(model.W1).all()


def test_warm_up_learns_and_depends_only_on_seed(digits):
    X, y = digits
    rng = np.random.default_rng(0)
    unit = class_distance(X, y, rng)
    start = box_lmm(X, y, 40, 10, 15 / unit, 15.0, rng)
    before = start.W1.copy()
    results = [
        warm_up(start, X, y, Annealing(15.0, n_epochs=8, batch_size=50), np.random.default_rng(s))
        for s in (3, 3, 4)
    ]
    assert np.array_equal(start.W1, before)
    assert np.array_equal(results[0].model.W1, results[1].model.W1)
    assert not np.array_equal(results[0].model.W1, results[2].model.W1)
    assert results[0].losses[-1] < 0.5 * results[0].losses[0]
    right = [(m.scores(X).argmax(axis=1) == y).mean() for m in (start, results[0].model)]
    assert right[1] > max(0.97, right[0])
    assert np.array_equal(results[0].model.W0, start.W0)


def test_early_stopping_keeps_best_epoch_of_warm_up(digits):
    X, y = digits
    rng = np.random.default_rng(0)
    start = box_lmm(X, y, 40, 10, 1.0, 15.0, rng)
    annealing = Annealing(15.0, n_epochs=30, batch_size=50)
    result = warm_up(start, X, y, annealing, rng, hold_out=0.2, patience=2)
    held = X[result.held_out], y[result.held_out]
    assert np.array_equal(np.bincount(held[1]), np.round(0.2 * np.bincount(y)))
    assert len(result.validation) == len(result.losses) < 30
    assert len(result.validation) - 1 - np.argmax(result.validation) == 2
    assert result.status is Status.VALIDATION
    accuracy = (result.model.scores(held[0]).argmax(axis=1) == held[1]).mean()
    assert accuracy == max(result.validation)
    printed = []
    result = warm_up(
        start,
        X[:400],
        y[:400],
        annealing,
        rng,
        callbacks=[lambda p: printed.append((p.iteration, p.stage)) or p.iteration == 2],
    )
    assert printed == [(1, "warm-up"), (2, "warm-up")]
    assert result.status is Status.CALLBACK


def test_polish_ignores_samples_of_weight_zero(iris):
    X, y = iris.X[:100].copy(), iris.y[:100].copy()
    X[7], y[7] = X[60], 0  # equal rows with different labels
    weight = np.ones(100)
    weight[7] = 0.0
    clf = LMMClassifier(20, polish="log2", random_state=0).fit(X, y, weight)
    assert clf.perfect_fit_
    assert clf.suspects_.size == 0


@pytest.mark.slow
def test_polish_brings_every_loss_below_its_level(digits):
    X, y = digits
    clf = LMMClassifier(60, warmup_epochs=1, polish=None, random_state=0).fit(X, y)
    assert clf.max_loss_ > LOG2
    before = clf.model_.W1.copy()
    polished = polish(clf.model_, X, y, np.random.default_rng(0), level=LOG2)
    assert np.array_equal(clf.model_.W1, before)
    assert polished.succeeded
    assert polished.model.losses(X, y).max() < LOG2
    assert np.array_equal(polished.losses, polished.model.losses(X, y))
    assert polished.n_iter >= 1
    assert polished.steps >= 1
    again = polish(polished.model, X, y, np.random.default_rng(0), level=LOG2)
    assert (again.n_iter, again.steps) == (0, 0)


def test_estimator_runs_warm_up_and_polish(tmp_path):
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    clf = LMMClassifier(30, warmup_epochs=30, polish="log2", random_state=0).fit(X, y)
    assert clf.perfect_fit_
    assert clf.max_loss_ == clf.model_.losses(X, y).max() < LOG2
    assert not hasattr(clf, "prototypes_")
    clf.save(tmp_path / "m", remember_rows=True)
    again = maxplus.load(tmp_path / "m")
    assert again.get_params() == clf.get_params()
    assert np.array_equal(again.predict_proba(X), clf.predict_proba(X))
    assert np.array_equal(again.suspects_, clf.suspects_)
    assert clf.n_iter_ == 30 + len(clf.polish_losses_) - 1


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"warmup_epochs": 0}, "warmup_epochs must be an integer >= 1 or 'auto'; got 0"),
        (
            {"polish": "log3"},
            "polish must be a finite number > 0, one of 'auto', 'log2' or None; got 'log3'",
        ),
        (
            {"polish": 0.0},
            "polish must be a finite number > 0, one of 'auto', 'log2' or None; got 0.0",
        ),
    ],
)
def test_warm_up_rejects_invalid_options(iris, parameters, words):
    with pytest.raises(ValueError, match=words):
        LMMClassifier(**parameters).fit(iris.X, iris.y)


# -- distributed soft weights ----------------------------------------------------------------------


STEPS, BATCHES = 4, 5


@pytest.fixture
def layers():
    rng = np.random.default_rng(2)
    return [rng.normal(size=shape).astype(np.float32) for shape in ((6, 5), (5, 2))]


@pytest.fixture
def pushes(layers):
    """Return integer gradients of each step and batch, whose sums are not rounded."""
    rng = np.random.default_rng(3)
    shapes = [(STEPS, BATCHES, *layer.shape) for layer in layers]
    return [rng.integers(-3, 4, shape).astype(np.float32) for shape in shapes]


def course(comm, layers, pushes):
    """Return the weights and the state after some steps, each resumed from a saved state."""
    W0, nothing = np.ones(6), np.empty((0, 3), np.float32)
    soft = SoftLMM(comm, W0, *layers)
    for k in range(STEPS):
        soft.loss(nothing, np.empty(0, int), 0.3 - 0.05 * k)
        for own, push in zip(soft.layers(soft._derivatives), pushes, strict=True):
            own[:] = push[k].sum(axis=0)
        soft.move(0.1)
        state, soft = soft.state(), SoftLMM(comm, W0, *layers)
        soft.restore(state)
    return soft.layers(soft.theta)[0], *soft.state().values()


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_distributed_soft_steps_equal_one_process(layers, pushes, size):
    alone = course(SERIAL, layers, pushes)
    assert not np.array_equal(alone[0], layers[0])
    owners = np.arange(BATCHES) % size
    found = run_ranks(
        size, lambda r: course(current(), layers, [push[:, owners == r] for push in pushes])
    )
    for rank in found:
        for one, several in zip(alone, rank, strict=True):
            np.testing.assert_array_equal(one, several)
