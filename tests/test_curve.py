"""Regression from noisy data: the soft model's gradient, the choice, intervals that hold."""

import math
import signal

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsRegressor
from sklearn.preprocessing import StandardScaler

from maxplus import LMMRegressor
from maxplus.estimators._regression import CANDIDATES, candidates, one_way
from maxplus.estimators._scaling import Scaling
from maxplus.models import LMM
from maxplus.training.smooth import SoftRegression

pytestmark = pytest.mark.slow


def soft_loss(W0, X, target, D, W1, W2, tau, loss, weight):
    """The soft loss straight from its definition."""
    total = 0.0
    for x, t, w in zip(X, target, weight, strict=True):
        lam = [W0[i] * float(D[i // 2] @ x) for i in range(len(W0))]
        terms = 0.0
        for h in range(len(W2)):
            g = -tau * math.log(sum(math.exp(-(lam[i] + W1[h, i]) / tau) for i in range(len(W0))))
            terms += math.exp((g + W2[h]) / tau)
        error = tau * math.log(terms) - t
        total += w * (math.sqrt(error**2 + tau**2) - tau if loss == "absolute" else error**2 / 2)
    return total / len(X)


@pytest.fixture(scope="module")
def small():
    rng = np.random.default_rng(0)
    M, P, H, n = 4, 3, 5, 12
    W0 = np.tile([1.0, -1.0], M) * rng.uniform(0.5, 2.0, 2 * M)
    weights = [rng.normal(size=shape) for shape in ((M, P), (H, 2 * M), (H,))]
    return W0, rng.normal(size=(n, P)), rng.normal(size=n), weights, rng.uniform(0.1, 2.0, n)


@pytest.mark.parametrize("loss", ["squared", "absolute"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_gradient_is_the_derivative_of_the_soft_loss(small, loss, weighted):
    W0, X, target, weights, weight = small
    tau = 0.5
    own = weight if weighted else np.ones(len(X))
    found = SoftRegression(W0, loss).gradient(
        X, target, *weights, tau, weight if weighted else None
    )
    assert found.loss == pytest.approx(soft_loss(W0, X, target, *weights, tau, loss, own))
    h = 1e-5
    for k, gradient in enumerate((found.directions, found.W1, found.W2)):
        for index in np.ndindex(weights[k].shape):
            ends = []
            for step in (h, -h):
                moved = [W.copy() for W in weights]
                moved[k][index] += step
                ends.append(soft_loss(W0, X, target, *moved, tau, loss, own))
            assert gradient[index] == pytest.approx((ends[0] - ends[1]) / (2 * h), abs=1e-7)


def test_next_to_no_temperature_it_is_the_hard_model(small):
    W0, X, target, (D, W1T, W2), _ = small
    hard = LMM(W0, W1T.T, W2[:, None], D).scores(X)[:, 0]
    for loss, size in (("squared", lambda e: e**2 / 2), ("absolute", np.abs)):
        found = SoftRegression(W0, loss).gradient(X, target, D, W1T, W2, 1e-12)
        assert found.loss == pytest.approx(size(hard - target).mean(), rel=1e-9)
        assert np.isfinite(found.W1).all()


# -- what is learned ----------------------------------------------------------------------------


def noisy(f, n_features=2, n=600, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, n_features))
    return X, f(X) + rng.normal(0, noise, n)


def waves(X):
    return np.sin(2 * X[:, 0]) * np.cos(X[:, 1])


@pytest.fixture(scope="module")
def learned():
    X, y = noisy(waves)
    return X, y, LMMRegressor(random_state=0).fit(X, y)


def test_it_is_better_than_neighbours_on_waves(learned):
    X, y, reg = learned
    new, truth = noisy(waves, seed=1)
    others = KNeighborsRegressor(10).fit(X, y)
    assert reg.score(new, truth) > max(0.6, others.score(new, truth))
    assert reg.n_iter_ == reg.curve_losses_.size
    assert (reg.status_, reg.status_message_) == ("max_iter", "all iterations done")
    assert reg.loss_curve_ is reg.curve_losses_


def test_noisy_tables_are_not_memorised():
    X, y = load_diabetes(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=0)
    linear = Ridge(1.0).fit(StandardScaler().fit(X).transform(X), y)
    bar = linear.score(StandardScaler().fit(X).transform(X_test), y_test)
    reg = LMMRegressor(random_state=0).fit(X, y)
    assert reg.score(X_test, y_test) > bar - 0.06
    lower, upper = reg.predict_interval(X_test)
    assert ((lower <= y_test) & (y_test <= upper)).mean() > 0.84


def test_it_finds_what_ten_features_add_up_to():
    X, y = make_friedman1(600, noise=1.0, random_state=0)
    new, truth = make_friedman1(600, noise=1.0, random_state=1)
    score = LMMRegressor(random_state=0).fit(X, y).score(new, truth)
    assert score > max(0.75, KNeighborsRegressor(10).fit(X, y).score(new, truth))


def test_neither_offset_nor_scale_of_anything_matters():
    X, y = noisy(waves, n=300)
    moved = X * [1e3, 1e-4] + [5e3, 7.0]
    one, other = (LMMRegressor(8, slope=1.0, epochs=40, random_state=0) for _ in range(2))
    expected = one.fit(X, y).predict(X)
    found = other.fit(moved, 1e5 * y - 3e6).predict(moved)
    assert_allclose((found + 3e6) / 1e5, expected, atol=0.02)


def test_views_that_count_one_way_are_the_same_curve():
    rng = np.random.default_rng(0)
    D, W1, W2 = rng.normal(size=(3, 4)), rng.normal(size=(6, 5)), rng.normal(size=(5, 1))
    model, X = LMM(np.tile([1.0, -1.0], 3), W1, W2, D), rng.normal(size=(50, 4))
    assert_allclose(one_way(model).scores(X), model.scores(X), atol=1e-12)


def test_the_absolute_loss_is_about_the_median():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (500, 1))
    y = X[:, 0] + 3.0 * rng.exponential(1.0, 500)
    options = {"n_hidden": 2, "slope": 0.5, "random_state": 0}
    mean, median = (LMMRegressor(loss=w, **options).fit(X, y) for w in ("squared", "absolute"))
    assert mean.predict(X).mean() == pytest.approx(y.mean(), abs=0.3)
    assert (y > median.predict(X)).mean() == pytest.approx(0.5, abs=0.05)


def test_no_prediction_changes_faster_than_the_slope(learned):
    X, _, reg = learned
    rng = np.random.default_rng(2)
    a, b = X[rng.permutation(600)], X[rng.permutation(600)]
    run = np.abs(a - b).max(axis=1)
    rise = np.abs(reg.predict(a) - reg.predict(b))
    assert (rise <= reg.slope_ * run + 1e-9).all()


def test_without_directions_every_view_is_a_feature():
    X, y = noisy(waves, n=200)
    reg = LMMRegressor(directions=None, epochs=30, random_state=0).fit(X, y)
    views = reg.model_.directions
    assert views is None or (np.count_nonzero(views, axis=1) == 1).all()
    assert set(reg.search_["views"]) == {"features"}


# -- intervals ----------------------------------------------------------------------------------


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.95])
def test_intervals_hold_what_they_say(learned, coverage):
    _, _, reg = learned
    new, truth = noisy(waves, n=2000, seed=3)
    lower, upper = reg.predict_interval(new, coverage)
    assert (lower < upper).all()
    assert abs(((lower <= truth) & (truth <= upper)).mean() - coverage) < 0.06


def test_the_interval_is_a_quantile_of_what_was_held_out(learned):
    X, y, reg = learned
    assert reg.residuals_.shape == y.shape
    assert (np.diff(reg.residuals_) >= 0).all()
    lower, upper = reg.predict_interval(X, 0.9)
    assert_allclose((upper - lower) / 2, reg.residuals_[math.ceil(601 * 0.9) - 1])
    assert np.isposinf(reg.predict_interval(X[:1], 1.0)[1]).all()


def test_few_rows_promise_nothing():
    reg = LMMRegressor(epochs=3, random_state=0).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    lower, upper = reg.predict_interval([[1.0]])
    assert (lower[0], upper[0]) == (-math.inf, math.inf)


def test_envelopes_that_cross_are_reported():
    with pytest.warns(ConvergenceWarning, match="no function with slope 0.5"):
        reg = LMMRegressor(slope=0.5, method="interpolate").fit([[0.0], [1.0]], [0.0, 3.0])
    with pytest.warns(ConvergenceWarning, match="envelopes cross at 1 of 1 rows"):
        lower, upper = reg.predict_interval([[0.5]])
    assert lower[0] > upper[0]


@pytest.mark.parametrize("coverage", [0.0, 1.5, "all", None])
def test_a_coverage_that_cannot_be(learned, coverage):
    X, _, reg = learned
    with pytest.raises(ValueError, match="coverage must be a finite number > 0 and <= 1"):
        reg.predict_interval(X, coverage)


# -- the choice ---------------------------------------------------------------------------------


def test_the_lowest_loss_is_chosen(learned):
    *_, reg = learned
    search = reg.search_
    losses = search["losses"]
    seen = np.isfinite(losses).all(axis=1)
    assert np.isfinite(losses[:, 0]).all()
    assert seen.sum() == 3
    means = np.where(seen, losses.mean(axis=1), np.inf)
    assert search["chosen"] == means.argmin()
    assert reg.n_hidden_ == search["units"][search["chosen"]]
    assert len(search["candidates"]) == len(CANDIDATES)


def test_numbers_that_are_given_are_taken():
    assert candidates(7, 2.0, True) == [("features and line", 7, 2.0)]
    assert candidates(7, 2.0, False) == [("features", 7, 2.0)]
    assert {c.units for c in candidates(7, "auto", True)} == {7}
    some = candidates("auto", 2.0, True)
    assert {c.slope for c in some} == {2.0}
    assert len(set(some)) == len(some)
    X, y = noisy(waves, n=100)
    reg = LMMRegressor(7, slope=2.0, epochs=3, random_state=0).fit(X, y)
    assert reg.n_hidden_ == 7
    assert not hasattr(reg, "search_")


def test_the_seed_alone_decides():
    X, y = noisy(waves, n=150)
    one, two, three = (LMMRegressor(epochs=4, random_state=s).fit(X, y) for s in (0, 0, 1))
    assert_array_equal(one.predict(X), two.predict(X))
    assert not np.array_equal(one.predict(X), three.predict(X))


def test_weights_matter():
    X, y = noisy(lambda X: X[:, 0], n=200)
    weight = np.r_[np.zeros(100), np.ones(100)]
    y[:100] += 50.0
    options = {"epochs": 20, "random_state": 0}
    some = LMMRegressor(**options).fit(X, y, weight)
    assert_array_equal(some.predict(X), LMMRegressor(**options).fit(X[100:], y[100:]).predict(X))
    heavy = LMMRegressor(2, slope=0.5, **options).fit(X, y, np.r_[np.ones(100), 50 * np.ones(100)])
    light = LMMRegressor(2, slope=0.5, **options).fit(X, y)
    assert heavy.predict(X).mean() < light.predict(X).mean() - 5.0


def test_far_values_do_not_set_the_scale():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=100), np.zeros(100), rng.random(100) < 0.02])
    X[0, 0] = 1e6
    scale = Scaling.of(X)
    assert 0.5 < scale.spread[0] < 3.0
    assert scale.spread[1] == 1.0
    assert scale.spread[2] == pytest.approx(X[:, 2].std())


# -- odd data and ends --------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_constant_targets_stay_constant(n):
    reg = LMMRegressor(epochs=2, random_state=0).fit(np.arange(n)[:, None] * 1.0, np.full(n, 4.0))
    assert np.abs(reg.predict(np.arange(n)[:, None]) - 4.0).max() < 0.6


def test_float32_stays_float32():
    X, y = noisy(waves, n=100)
    reg = LMMRegressor(epochs=2, random_state=0).fit(X.astype(np.float32), y)
    assert reg.predict(X.astype(np.float32)).dtype == np.float32


def test_callbacks_hear_of_choice_and_training_and_may_end_both():
    X, y = noisy(waves, n=100)
    told = []
    reg = LMMRegressor(epochs=4, random_state=0, callbacks=told.append).fit(X, y)
    stages = [p.stage for p in told]
    assert stages == ["choice"] * 12 + ["curve"] * 4
    assert [p.iteration for p in told[:12]] == list(range(1, 13))
    assert told[0].max_iter == 12
    reg = LMMRegressor(epochs=4, random_state=0, callbacks=lambda p: p.stage == "choice")
    reg.fit(X, y)
    assert np.isfinite(reg.search_["losses"]).sum() == 1
    assert reg.residuals_.size == 0
    reg = LMMRegressor(8, slope=1.0, epochs=4, callbacks=lambda p: p.stage == "curve").fit(X, y)
    assert (reg.n_iter_, reg.status_) == (1, "callback")


def test_ctrl_c_keeps_the_curve_so_far_but_no_half_of_a_choice():
    X, y = noisy(waves, n=100)

    def press(stage):
        return lambda p: signal.raise_signal(signal.SIGINT) if p.stage == stage else None

    reg = LMMRegressor(8, slope=1.0, epochs=50, callbacks=press("curve"))
    with pytest.warns(UserWarning, match="interrupted after .* epochs"):
        reg.fit(X, y)
    assert reg.n_iter_ < 50
    before = dict(vars(reg))
    with pytest.raises(KeyboardInterrupt):
        reg.set_params(callbacks=press("choice")).fit(X, y)
    assert {n: v for n, v in vars(reg).items() if n != "callbacks"} == {
        n: v for n, v in before.items() if n != "callbacks"
    }


def test_targets_that_are_too_large_are_refused():
    X, y = noisy(waves, n=50)
    with pytest.raises(ValueError, match="y reaches"):
        LMMRegressor(epochs=2).fit(X, y * 1e200)
