"""LMMRegressor: gradient, bounds, structure search, intervals, explanations, certificates."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsRegressor
from sklearn.preprocessing import StandardScaler

from maxplus import LMMRegressor
from maxplus.estimators.lmm_regressor import STRUCTURES
from maxplus.models import LMM, AdditiveLMM, Term
from maxplus.training import KeepBestOnInterrupt
from maxplus.training.result import TrainingOverflowError
from maxplus.training.smooth.soft_terms import (
    FlatWeights,
    empty_buffers,
    pack,
    regression_gradient,
    soft_gradient,
    soft_scores,
)
from trainings import press_ctrl_c

pytestmark = pytest.mark.slow


def soft_loss(U, target, share, is_absolute, layout, weights, tau):
    buffers = empty_buffers(layout, 2, U.shape[1])
    soft_scores(U, layout, weights, np.zeros(2), tau, buffers)
    return regression_gradient(buffers.z, target, share, is_absolute, tau), buffers


@pytest.mark.parametrize("is_absolute", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_gradient_agrees_with_finite_differences(seed, is_absolute):
    rng = np.random.default_rng(seed)
    slopes = np.tile([1.0, -1.0], 2)
    terms = [
        Term([p], LMM(slopes[:2], rng.normal(size=(2, 3)), rng.normal(size=(3, 2)))) for p in (0, 1)
    ]
    terms.append(Term([0, 1], LMM(slopes, rng.normal(size=(4, 2)), rng.normal(size=(2, 2)))))
    layout, weights = pack(AdditiveLMM(terms, 2))
    U, target, share = rng.normal(size=(2, 7)), 3 * rng.normal(size=7), rng.dirichlet(np.ones(7))
    fixed = U, target, share, is_absolute, layout
    _, buffers = soft_loss(*fixed, weights, 0.4)
    gradient = FlatWeights(*(np.empty_like(W) for W in weights))
    soft_gradient(U, layout, buffers, gradient)
    h = 1e-6
    for W, found in zip(weights, gradient, strict=True):
        for place in np.ndindex(W.shape):
            before, losses = W[place], []
            for step in (h, -h):
                W[place] = before + step
                losses.append(soft_loss(*fixed, weights, 0.4)[0])
            W[place] = before
            assert found[place] == pytest.approx((losses[0] - losses[1]) / (2 * h), abs=1e-7)


# -- predictions --------------------------------------------------------------------------------


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


def test_regressor_predicts_waves_better_than_neighbours(learned):
    X, y, reg = learned
    new, truth = noisy(waves, seed=1)
    others = KNeighborsRegressor(10).fit(X, y)
    assert reg.score(new, truth) > max(0.6, others.score(new, truth))
    assert reg.n_iter_ == reg.loss_curve_.size
    assert (reg.status_, reg.status_message_) == ("max_iter", "all iterations done")


def test_regressor_does_not_memorise_noise():
    X, y = load_diabetes(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=0)
    linear = Ridge(1.0).fit(StandardScaler().fit(X).transform(X), y)
    bar = linear.score(StandardScaler().fit(X).transform(X_test), y_test)
    reg = LMMRegressor(random_state=0).fit(X, y)
    assert reg.score(X_test, y_test) > bar - 0.04
    lower, upper = reg.predict_interval(X_test)
    assert ((lower <= y_test) & (y_test <= upper)).mean() > 0.84


def test_regressor_predicts_additive_targets_better_than_boosting():
    X, y = make_friedman1(600, noise=1.0, random_state=0)
    new, truth = make_friedman1(600, noise=1.0, random_state=1)
    boosting = HistGradientBoostingRegressor(random_state=0).fit(X, y)
    reg = LMMRegressor(random_state=0).fit(X, y)
    assert reg.score(new, truth) > boosting.score(new, truth)
    # Only the first five features are relevant.
    assert reg.feature_importances_.sum() == pytest.approx(1.0)
    assert set(np.argsort(-reg.feature_importances_)[:5]) == set(range(5))


def test_regressor_fits_effects_of_group_codes():
    """The code of a group has an arbitrary effect, so that the shape function has many jumps."""
    rng = np.random.default_rng(0)
    effect, group, t = rng.normal(size=20), rng.integers(0, 20, 1200), rng.uniform(size=1200)
    X, y = np.column_stack([group, t]), effect[group] * (1 + t) + rng.normal(0, 0.1, 1200)
    reg = LMMRegressor(random_state=0).fit(X[:800], y[:800])
    boosting = HistGradientBoostingRegressor(random_state=0).fit(X[:800], y[:800])
    assert reg.score(X[800:], y[800:]) > boosting.score(X[800:], y[800:]) > 0.97


def test_regressor_is_invariant_to_offsets_and_scales():
    X, y = noisy(waves, n=300)
    moved = X * [1e3, 1e-4] + [5e3, 7.0]
    expected = LMMRegressor(random_state=0).fit(X, y).predict(X)
    found = LMMRegressor(random_state=0).fit(moved, 1e5 * y - 3e6).predict(moved)
    assert_allclose((found + 3e6) / 1e5, expected, atol=1e-3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_regressor_predictions_stay_within_bounds(dtype):
    rng = np.random.default_rng(0)
    X, y = noisy(lambda X: 5 * X[:, 0] - X[:, 1] ** 3, n=200)
    reg = LMMRegressor(random_state=0).fit(X.astype(dtype), y)
    margin = 0.05 * np.ptp(y)
    assert_allclose(reg.bounds_, [y.min() - margin, y.max() + margin], rtol=1e-5)
    assert reg.bounds_.dtype == dtype
    far = rng.normal(size=(500, 2)) * 10.0 ** rng.uniform(0, 300, (500, 1))
    for rows in (far, np.array([[1e300, -1e300]]), np.full((1, 2), np.finfo(np.float64).max)):
        found = reg.predict(rows)
        assert (found >= reg.bounds_[0]).all()
        assert (found <= reg.bounds_[1]).all()
    assert reg.predict(X.astype(dtype)).dtype == dtype


def test_regressor_does_not_depend_on_distance_of_outlier():
    X, y = noisy(waves, n=300)
    found = []
    for distance in (1e4, 1e6, 1e12):
        moved = X.copy()
        moved[7, 0] = distance
        found.append(LMMRegressor(epochs=30, random_state=0).fit(moved, y).predict(X))
    assert_array_equal(found[0], found[1])
    assert_array_equal(found[0], found[2])
    without = LMMRegressor(epochs=30, random_state=0).fit(np.delete(X, 7, 0), np.delete(y, 7))
    assert np.sqrt(np.mean((found[0] - without.predict(X)) ** 2)) < 0.2


def test_absolute_error_predicts_the_median():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (500, 1))
    y = X[:, 0] + 3.0 * rng.exponential(1.0, 500)
    mean, median = (
        LMMRegressor(loss=w, random_state=0).fit(X, y) for w in ("squared_error", "absolute_error")
    )
    assert mean.predict(X).mean() == pytest.approx(y.mean(), abs=1e-9)
    assert (y > median.predict(X)).mean() == pytest.approx(0.5, abs=0.05)


def test_absolute_error_is_robust_to_target_outliers():
    X, y = noisy(waves, n=400)
    new, truth = noisy(waves, seed=1)
    y[::100] += 1e5
    assert LMMRegressor(loss="absolute_error", random_state=0).fit(X, y).score(new, truth) > 0.5


# -- intervals ----------------------------------------------------------------------------------


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.95])
def test_prediction_intervals_have_nominal_coverage(learned, coverage):
    _, _, reg = learned
    new, truth = noisy(waves, n=2000, seed=3)
    lower, upper = reg.predict_interval(new, coverage)
    assert (lower < upper).all()
    assert abs(((lower <= truth) & (truth <= upper)).mean() - coverage) < 0.06


def test_prediction_interval_is_a_quantile_of_held_out_residuals(learned):
    X, y, reg = learned
    assert reg.residuals_.shape == y.shape
    assert (np.diff(reg.residuals_) >= 0).all()
    lower, upper = reg.predict_interval(X, 0.9)
    assert_allclose((upper - lower) / 2, reg.residuals_[math.ceil(601 * 0.9) - 1])
    assert np.isposinf(reg.predict_interval(X[:1], 1.0)[1]).all()


def test_prediction_intervals_of_few_samples_are_infinite():
    reg = LMMRegressor(epochs=3, random_state=0).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    lower, upper = reg.predict_interval([[1.0]])
    assert (lower[0], upper[0]) == (-math.inf, math.inf)


@pytest.mark.parametrize("coverage", [0.0, 1.5, "all", None])
def test_predict_interval_rejects_invalid_coverage(learned, coverage):
    X, _, reg = learned
    with pytest.raises(ValueError, match="coverage must be a finite number > 0 and <= 1"):
        reg.predict_interval(X, coverage)


# -- structure search ---------------------------------------------------------------------------


def test_regressor_search_tries_all_structures(learned):
    *_, reg = learned
    losses, chosen = reg.search_["losses"], reg.search_["chosen"]
    seen = np.isfinite(losses).all(axis=1)
    assert np.isfinite(losses[:, 0]).all()
    assert seen.sum() == 3
    assert seen[chosen]
    assert losses[chosen].mean() < 1.1 * losses[seen].mean(axis=1).min()
    assert len(reg.search_["candidates"]) == len(STRUCTURES)


def test_regressor_depends_on_seed_and_not_n_jobs():
    X, y = noisy(waves, n=150)
    one, two, three, other = (
        LMMRegressor(epochs=4, random_state=s, n_jobs=n).fit(X, y)
        for s, n in ((0, 1), (0, 1), (0, 2), (1, 1))
    )
    assert_array_equal(one.predict(X), two.predict(X))
    assert_array_equal(one.predict(X), three.predict(X))
    assert_array_equal(one.search_["losses"], three.search_["losses"])
    assert not np.array_equal(one.predict(X), other.predict(X))


def test_regressor_uses_sample_weights():
    X, y = noisy(lambda X: X[:, 0], n=200)
    weight = np.r_[np.zeros(100), np.ones(100)]
    y[:100] += 50.0
    options = {"epochs": 20, "random_state": 0}
    some = LMMRegressor(**options).fit(X, y, weight)
    assert_array_equal(some.predict(X), LMMRegressor(**options).fit(X[100:], y[100:]).predict(X))
    for loss in ("squared_error", "absolute_error"):
        heavy, light = (
            LMMRegressor(loss=loss, **options).fit(X, y, np.r_[np.ones(100), w * np.ones(100)])
            for w in (50, 0.02)
        )
        assert heavy.predict(X).mean() < light.predict(X).mean() - 5.0


# -- explanations and certificates --------------------------------------------------------------


def test_contributions_add_up_to_predictions(learned):
    X, _, reg = learned
    found = reg.explain(X)
    total = found.baseline + found.contribution.sum(axis=1)
    assert_allclose(total, found.margin, atol=1e-9)
    assert_array_equal(found.prediction, reg.predict(X))
    assert_allclose(found.baseline, found.margin.mean(), atol=1e-9)
    assert found.text(0).startswith(f"{found.prediction[0]:.4g}")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("eps", [0.0, 0.05, 1.0, 100.0])
def test_certified_change_holds_against_attacks(eps, dtype):
    rng = np.random.default_rng(0)
    X, y = noisy(waves, n=200)
    reg = LMMRegressor(epochs=20, random_state=0).fit(X.astype(dtype), y)
    rows, scale = X[:40].astype(dtype), np.array([1.0, 0.5])
    lower, upper = reg.certified_bounds(rows, eps, scale)
    assert (lower >= reg.bounds_[0]).all()
    assert (upper <= reg.bounds_[1]).all()
    exact = rows.astype(np.float64)
    for k in range(300):
        step = rng.uniform(-1, 1, rows.shape) if k % 2 else rng.choice([-1.0, 0.0, 1.0], rows.shape)
        moved = exact + eps * scale * step
        if dtype == np.float32:
            moved = np.clip(moved.astype(dtype), exact - eps * scale, exact + eps * scale)
        found = reg.predict(moved)
        assert (lower <= found).all()
        assert (found <= upper).all()


def test_certified_change_of_shape_functions_is_exact():
    X, y = noisy(lambda X: np.abs(X[:, 0]), n_features=1, n=300)
    reg = LMMRegressor(random_state=0).fit(X, y)
    lower, upper = reg.certified_bounds(X[:30], 0.5)
    grid = X[:30] + np.linspace(-0.5, 0.5, 2001)
    found = reg.predict(grid.reshape(-1, 1)).reshape(grid.shape)
    assert_allclose(lower, found.min(axis=1), atol=0.01)
    assert_allclose(upper, found.max(axis=1), atol=0.01)


@pytest.mark.parametrize(
    ("eps", "scale", "match"),
    [
        (-0.1, 1.0, "eps must be"),
        ([0.1, 0.2], 1.0, "eps must be"),
        (0.1, [-1.0, 1.0], "scale must"),
    ],
)
def test_certified_change_rejects_invalid_arguments(learned, eps, scale, match):
    X, _, reg = learned
    with pytest.raises(ValueError, match=match):
        reg.certified_bounds(X, eps, scale)


# -- extreme data, callbacks, interruption ------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_regressor_predicts_constant_targets(n):
    reg = LMMRegressor(epochs=2, random_state=0).fit(np.arange(n)[:, None] * 1.0, np.full(n, 4.0))
    assert_array_equal(reg.predict(np.arange(n)[:, None]), np.full(n, 4.0))


def test_regressor_callbacks_report_and_stop_search_and_training():
    X, y = noisy(waves, n=100)
    result = []
    reg = LMMRegressor(epochs=4, random_state=0, callbacks=result.append).fit(X, y)
    stages = [p.stage for p in result]
    assert stages == ["choice"] * 15 + ["terms"] * 4
    assert [p.iteration for p in result[:15]] == list(range(1, 16))
    assert result[0].max_iter == 15
    assert isinstance(result[-1].model, AdditiveLMM)
    reg = LMMRegressor(epochs=4, random_state=0, callbacks=lambda p: p.stage == "choice")
    reg.fit(X, y)
    assert np.isfinite(reg.search_["losses"]).sum() == 1
    assert reg.residuals_.size == 0
    reg = LMMRegressor(epochs=4, callbacks=lambda p: p.stage == "terms").fit(X, y)
    assert (reg.n_iter_, reg.status_) == (1, "callback")


def interrupts_in(stage):
    """Return callbacks that send Ctrl-C in a stage and keep the best model."""
    return [lambda p: press_ctrl_c() if p.stage == stage else None, KeepBestOnInterrupt()]


def test_interrupt_keeps_trained_model_but_not_unfinished_search():
    X, y = noisy(waves, n=100)
    reg = LMMRegressor(epochs=50, callbacks=interrupts_in("terms"))
    with pytest.warns(UserWarning, match="interrupted after .* epochs"):
        reg.fit(X, y)
    assert reg.n_iter_ < 50
    before = dict(vars(reg))
    with pytest.raises(KeyboardInterrupt):
        reg.set_params(callbacks=interrupts_in("choice")).fit(X, y)
    assert all(vars(reg)[name] is value for name, value in before.items() if name != "callbacks")


def test_regressor_rejects_too_large_targets():
    X, y = noisy(waves, n=50)
    with pytest.raises(ValueError, match="y reaches"):
        LMMRegressor(epochs=2).fit(X, y * 1e200)
    with pytest.raises(TrainingOverflowError, match="exceed the range of float32; scale y"):
        LMMRegressor(epochs=2).fit(X.astype(np.float32), y * 1e60)
