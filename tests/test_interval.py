"""Interval training: soft margins, gradients, and certified accuracies."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from maxplus.certify import certified_at
from maxplus.certify.margins import term_margins
from maxplus.models import AdditiveLMM, FeatureMap
from maxplus.training.smooth.annealing import Annealing
from maxplus.training.smooth.interval import (
    TABLE_ANNEALING,
    _lowest_margins,
    _margin_gradient,
    interval_buffers,
    train_interval,
)
from maxplus.training.smooth.soft_terms import TermState, softmax_gradient, train_terms
from maxplus.training.smooth.structures import (
    Structure,
    image_windows,
    initial_terms,
    window_terms,
)

REACH = np.full(5, 0.07)
STRUCTURE = Structure(units=2, boxes=2, box_units=2, size=2.0)


def three_classes(n=64, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, 5))
    return X, (X[:, 0] + X[:, 1] > 1).astype(int) + (X[:, 2] > 0.8)


def untrained(X, y, structure=STRUCTURE, pairs=((0, 1), (2, 3))):
    feature_map = FeatureMap.clip(X)
    start = initial_terms(
        structure, feature_map(X), y, int(y.max()) + 1, pairs, np.random.default_rng(0)
    )
    intercept = np.linspace(-0.2, 0.1, int(y.max()) + 1)
    return AdditiveLMM(start.model.terms, X.shape[1], feature_map, intercept), start.scale


class SoftMargins:
    """Soft margins, loss and gradient of a model, computed by the training kernels."""

    def __init__(self, model, X, y, reach):
        self.model, self.y = model, y.astype(np.int64)
        self.state = TermState.from_model(model, np.float32)
        self.buffers = interval_buffers(self.state.layout, X.shape[1], model.n_classes, len(y))
        self.buffers.U_low[:] = model.feature_map(X - reach).T
        self.buffers.U_high[:] = model.feature_map(X + reach).T

    def margins(self, tau):
        layout, weights = self.state.layout, self.state.weights
        for t in range(len(self.model.terms)):
            _lowest_margins(self.y, layout, weights, np.float32(1 / tau), self.buffers, t)
        b = self.model.intercept
        soft = -tau * np.log(self.buffers.Q.astype(np.float64)).sum(axis=0)
        return soft + b[self.y] - b[:, None]

    def loss(self, tau):
        z, own = -self.margins(tau), (self.y, np.arange(self.y.size))
        z[own] = 0.0
        loss = softmax_gradient(z, self.y, np.full(self.y.size, 1 / self.y.size))
        z[own] = 0.0
        self.derivatives = z
        return loss

    def gradient(self, tau):
        self.loss(tau)
        layout, gradient = self.state.layout, self.state.gradient
        for t in range(len(self.model.terms)):
            _margin_gradient(self.y, self.derivatives, layout, self.buffers, True, gradient, t)
        return gradient


@pytest.mark.parametrize("layer", ["W0", "W1", "W2"])
def test_gradient_is_the_derivative_of_the_loss(layer):
    X, y = three_classes()
    soft = SoftMargins(untrained(X, y)[0], X, y, REACH)
    computed = getattr(soft.gradient(0.2), layer).ravel().copy()
    weights, step = getattr(soft.state.weights, layer).reshape(-1), 2e-3
    for i in np.random.default_rng(1).choice(weights.size, 30, replace=False):
        here = weights[i]
        weights[i] = here + step
        above = soft.loss(0.2)
        weights[i] = here - step
        below = soft.loss(0.2)
        weights[i] = here
        assert computed[i] == pytest.approx((above - below) / (2 * step), abs=2e-5)


def test_soft_margins_converge_to_the_certified_margins_without_caps():
    X, y = three_classes()
    model, _ = untrained(X, y)
    low, high = model.feature_map(X - REACH), model.feature_map(X + REACH)
    hard = model.intercept[y][:, None] - model.intercept
    for features, lmm in model.terms:
        no_caps = np.full(lmm.n_hidden, np.inf)
        hard = hard + term_margins(lmm, no_caps, low[:, features], high[:, features], y)
    others = np.arange(3)[:, None] != y
    soft = SoftMargins(model, X, y, REACH)
    # The error of a soft minimum over n values is at most τ·log n.
    size = sum(2 * np.log(2 * f.size) + 2 * np.log(lmm.n_hidden) for f, lmm in model.terms)
    for tau in (0.1, 0.03):
        assert np.abs(soft.margins(tau) - hard.T)[others].max() <= tau * size


def test_soft_margins_for_a_reach_of_zero_are_differences_of_soft_scores():
    X, y = three_classes()
    model, _ = untrained(X, y)
    tau = 0.1
    margins = SoftMargins(model, X, y, np.zeros(5)).margins(tau)
    U = model.mapped(X)
    scores = np.tile(model.intercept, (len(X), 1))
    for features, lmm in model.terms:
        lam = np.repeat(U[:, features], 2, axis=1) * lmm.W0
        g = -tau * np.log(np.exp(-(lam[:, :, None] + lmm.W1) / tau).sum(axis=1))
        scores += tau * np.log(np.exp((g[:, :, None] + lmm.W2) / tau).sum(axis=1))
    expected = scores[np.arange(len(y)), y] - scores.T
    others = np.arange(3)[:, None] != y
    assert_allclose(margins[others], expected[others], atol=2e-5)


def certified_share(model, X, y, reach):
    right = model.scores(X).argmax(axis=1) == y
    return (right & certified_at(model, X, 1.0, reach)).mean()


def test_interval_training_certifies_more_samples_than_ordinary_training():
    rng = np.random.default_rng(0)
    X = rng.random((600, 4))
    y = (X[:, 0] > 0.5).astype(int)
    # The second feature separates the classes by less than the reach.
    X[:, 1] = 0.5 + 0.05 * (2 * y - 1) + 0.01 * rng.normal(size=600)
    reach = np.full(4, 0.1)
    start, scale = untrained(X[:300], y[:300], Structure(boxes=2), ())
    annealing = TABLE_ANNEALING._replace(scale=scale)
    plain = train_terms(start, start.mapped(X[:300]), y[:300], annealing, rng)
    robust = train_interval(start, X[:300], y[:300], reach, annealing, rng)
    assert certified_share(robust, X[300:], y[300:], reach) >= 0.7
    assert certified_share(plain, X[300:], y[300:], reach) < 0.5


def trained(n=200, annealing=TABLE_ANNEALING, labels=lambda y: y, reach=REACH, **options):
    """Return a model that was trained on n samples."""
    X, y = three_classes(n)
    start, scale = untrained(X, y)
    annealing = annealing._replace(scale=scale)
    return train_interval(
        start, X, labels(y), reach, annealing, np.random.default_rng(0), **options
    )


def test_training_does_not_depend_on_threads():
    X, _ = three_classes(200)
    annealing = TABLE_ANNEALING._replace(n_epochs=3)
    parallel, serial = (trained(annealing=annealing, is_parallel=p) for p in (True, False))
    assert_allclose(parallel.scores(X), serial.scores(X), rtol=1e-4, atol=1e-5)


def test_training_stops_if_the_callback_returns_true():
    seen = []

    def on_epoch(epoch, loss, now):
        seen.append((epoch, loss))
        assert isinstance(now(), AdditiveLMM)
        return epoch == 1

    trained(on_epoch=on_epoch)
    assert [epoch for epoch, _ in seen] == [0, 1]
    assert np.isfinite([loss for _, loss in seen]).all()


def test_samples_of_weight_zero_are_ignored():
    X, y = three_classes(200)
    weight = (np.arange(200) % 2).astype(float)
    model = trained(
        labels=lambda y: np.where(weight, y, (y + 1) % 3), reach=np.zeros(5), weight=weight
    )
    assert (model.scores(X).argmax(axis=1) == y).mean() > 0.85


def test_long_training_keeps_weights_within_limits():
    annealing = Annealing(hot=0.1, cold=0.03, rate=0.5, n_epochs=60)
    model = trained(100, annealing)
    _, scale = untrained(*three_classes(100))
    for _, lmm in model.terms:
        assert np.abs(lmm.W1).max() <= 40 * 0.03 * scale * (1 + 1e-6)
        assert (lmm.W0[::2] >= 0).all()
        assert (lmm.W0[1::2] <= 0).all()


def test_augment_is_called_with_raw_samples():
    shapes = []

    def augment(rows, rng):
        shapes.append(rows.shape)
        return rows + 0.01 * rng.random(rows.shape)

    trained(120, TABLE_ANNEALING._replace(n_epochs=2, batch_size=60), augment=augment)
    assert shapes == [(120, 5)] * 2


@pytest.mark.parametrize(
    ("shape", "side", "stride", "n"),
    [((28, 28), 14, 5, 16), ((28, 28), 28, 1, 1), ((8, 8), 14, 5, 1), ((6, 4), 4, 2, 2)],
)
def test_windows_cover_the_image(shape, side, stride, n):
    windows = image_windows(shape, side, stride)
    assert len(windows) == n
    assert_array_equal(np.unique(np.concatenate(windows)), np.arange(np.prod(shape)))
    assert all((np.diff(window) > 0).all() for window in windows)


def test_window_terms_have_units_of_each_class():
    rng = np.random.default_rng(0)
    X, y = rng.random((60, 36)), np.arange(60) % 3
    model, scale = window_terms(image_windows((6, 6), 4, 2), X - 0.5, y, 3, 2, 4.0, rng)
    assert [lmm.n_hidden for _, lmm in model.terms] == [6] * 4
    assert scale == 2.0
    assert np.abs(model.terms[0].lmm.W0).max() == 2.0
