"""Objectives: definitions, subgradients, and classifiers that minimise them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import maxplus
from maxplus import SubgradientLMMClassifier
from maxplus.estimators import NoEffectWarning
from maxplus.models import LMM, LinearMaxPlus, ZeroHidden
from maxplus.models.base import SparseUpdate, Subgradient
from maxplus.models.initialization import random_lmm
from maxplus.training import (
    MaxLoss,
    ObjectiveValue,
    Status,
    TopKLoss,
    TrainingProblem,
    TrimmedMaxLoss,
    constant,
    polyak,
    train,
    two_phase,
)
from maxplus.training.engines import DenseEngine, SparseEngine
from strategies import SEEDS, quick
from trainings import LAYERS, assert_same_training, start_at, worst_first

# -- the definition ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objective", "n_samples", "count"),
    [
        *((TopKLoss(k), 7, k) for k in (1, 3, 7)),
        (TopKLoss(8), 7, 7),
        (TopKLoss(0.1), 7, 1),
        (TopKLoss(0.5), 7, 4),
        (TopKLoss(0.999), 7, 7),
        (TopKLoss(0.07), 100, 7),
        (TopKLoss(0.29), 100, 29),
        (TopKLoss(1e-9), 100, 1),
        (TopKLoss(np.int64(2)), 7, 2),
        (TopKLoss(np.float32(0.1)), 30, 3),
        *((TrimmedMaxLoss(k), 7, int(k)) for k in (0, 0.0, 3)),
        # At least one sample remains.
        (TrimmedMaxLoss(7), 7, 6),
        (TrimmedMaxLoss(0.99), 2, 1),
        (TrimmedMaxLoss(0.1), 7, 1),
        (TrimmedMaxLoss(0.07), 100, 7),
    ],
)
def test_number_of_samples_of_an_objective(objective, n_samples, count):
    """Fractions are rounded up exactly: 0.07·100 is 7.000000000000001 in floating point."""
    assert objective.count(n_samples) == count


@pytest.mark.parametrize(
    ("kind", "k", "message"),
    [
        *((TopKLoss, k, "integer >= 1 or a fraction") for k in (0, 0.0)),
        *((TopKLoss, k, "integer >= 1") for k in (-1, 1.0, 1.5, -0.5, math.nan, math.inf)),
        *(
            (TrimmedMaxLoss, k, "n_trimmed must be an integer >= 0 or a fraction")
            for k in (-1, 1.0, 1.5, -0.5, math.nan, math.inf)
        ),
    ],
)
def test_objectives_reject_invalid_number_of_samples(kind, k, message):
    with pytest.raises(ValueError, match=message):
        kind(k)


@given(levels=st.integers(1, 6), n_samples=st.integers(1, 30), k=st.integers(1, 30), seed=SEEDS)
@quick(100)
def test_top_k_objective_is_mean_of_worst_losses(levels, n_samples, k, seed):
    losses = np.random.default_rng(seed).integers(0, levels, n_samples) / 4
    worst = worst_first(losses, k)
    at = TopKLoss(k).value(losses, None)
    assert at.worst == tuple(worst)
    assert at.sample == worst[0] == MaxLoss().value(losses, None).sample
    assert_allclose(at.loss, np.mean(losses[worst]), rtol=1e-15)


def test_top_k_sums_losses_from_the_worst():
    """In another order, the two small losses would change the sum."""
    losses = np.array([1.0, 1e16, 1.0])
    assert TopKLoss(3).value(losses, None).loss == 1e16 / 3
    assert 1e16 / 3 != (1.0 + 1.0 + 1e16) / 3


def test_top_k_treats_overflow_as_worst():
    at = TopKLoss(2).value(np.array([1.0, np.nan, np.inf, 2.0]), None)
    assert math.isnan(at.loss)
    assert at.worst == (1, 2)


@given(levels=st.integers(1, 6), n_samples=st.integers(1, 30), k=st.integers(0, 35), seed=SEEDS)
@quick(100)
def test_trimmed_max_objective_is_next_largest_loss(levels, n_samples, k, seed):
    losses = np.random.default_rng(seed).integers(0, levels, n_samples) / 4
    at = TrimmedMaxLoss(k).value(losses, None)
    (expected,) = worst_first(losses, k + 1)[-1:]
    assert at == (losses[expected], expected, ())
    assert at.loss == np.sort(losses)[::-1][min(k, n_samples - 1)]


@pytest.mark.parametrize("largest", [math.nan, math.inf])
def test_trimmed_max_does_not_ignore_overflow(largest):
    at = TrimmedMaxLoss(2).value(np.array([1.0, largest, 2.0, 3.0]), None)
    assert_array_equal(at.loss, largest)


def test_top_k_merges_subgradient_entries_at_first_occurrence():
    """Parts are added in their order: 1 + 1e16 − 1e16 is 0, and 1e16 − 1e16 + 1 would be 1."""

    def part(rows, values):
        return Subgradient(W=SparseUpdate((np.array(rows), np.array(rows) + 1), np.array(values)))

    mean = Subgradient.mean(
        [part([4, 2], [1.0, 3.0]), part([0, 4], [5.0, 1e16]), part([4, 2], [-1e16, 1.0])]
    )
    rows, columns = mean["W"].index
    assert_array_equal(rows, [4, 2, 0])
    assert_array_equal(columns, [5, 3, 1])
    assert_array_equal(mean["W"].value, np.array([0.0, 4.0, 5.0]) / 3)


def test_mean_subgradient_of_empty_layers_is_empty():
    empty = Subgradient(A=SparseUpdate((np.empty(0, int), np.empty(0, int)), np.empty(0)))
    mean = Subgradient.mean([empty, empty])
    assert [part.size for part in (*mean["A"].index, mean["A"].value)] == [0, 0, 0]


# -- the subgradient --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "objective", [TopKLoss(1), TopKLoss(3), TopKLoss(45), TrimmedMaxLoss(3), TrimmedMaxLoss(7)]
)
def test_subgradient_matches_finite_differences(cloud, objective):
    """At random weights there are no ties, so that the objective is differentiable."""
    X, y = cloud
    model = random_lmm("gaussian", (4, 5, 3), 1.0, 1.0, X.dtype, np.random.default_rng(5))
    at = objective.value(model.losses(X, y), None)
    G = objective.subgradient(model, TrainingProblem(X, y), at, model.layers)
    for name in LAYERS:
        W, step = getattr(model, name), 1e-6
        expected = np.zeros(W.shape)
        expected[G[name].index] = G[name].value
        slopes = np.empty(W.shape)
        for place in np.ndindex(W.shape):
            ends = []
            for change in (step, -step):
                moved = model.copy()
                getattr(moved, name)[place] += change
                ends.append(objective.value(moved.losses(X, y), None).loss)
            slopes[place] = (ends[0] - ends[1]) / (2 * step)
        assert_allclose(slopes, expected, atol=1e-7, err_msg=name)
        assert np.abs(expected).max() > 0.01


# -- trainings --------------------------------------------------------------------------------


def any_model(kind, X, y):
    rng, C = np.random.default_rng(0), int(y.max()) + 1
    if kind is LMM:
        return start_at(X, y)
    if kind is ZeroHidden:
        return ZeroHidden(rng.normal(size=(C, X.shape[1])).astype(X.dtype))
    A, b, W = rng.normal(size=(X.shape[1], 6)), rng.normal(size=6), rng.normal(size=(6, C))
    return LinearMaxPlus(A.astype(X.dtype), b.astype(X.dtype), W.astype(X.dtype))


@pytest.mark.parametrize("kind", [LMM, ZeroHidden, LinearMaxPlus])
@pytest.mark.parametrize("objective", [TopKLoss(1), TrimmedMaxLoss(0)])
def test_top_1_and_untrimmed_maximum_equal_the_maximum(cloud, objective, kind):
    X, y = cloud.astype(np.float32)
    engines = [
        DenseEngine(
            any_model(kind, X, y),
            TrainingProblem(X, y, objective, two_phase(polyak(), constant(0.02), 20), 3),
        )
        for objective in (MaxLoss(), objective)
    ]
    expected, got = (train(engine, 200) for engine in engines)
    assert expected.history["loss"].size == 200
    assert_same_training(engines[1], got, engines[0], expected)


def test_top_k_rounds_each_weight_once_per_iteration(cloud):
    """Twenty samples change the same float32 entries, with a single rounding."""
    X, y = cloud.astype(np.float32)
    model, alpha = start_at(X, y, 3), 0.37
    once, in_turn = model.W2.astype(float), model.W2.copy()
    worst = TopKLoss(20).value(model.losses(X, y), None).worst
    parts = [model.subgradient(X[n], int(y[n]), ("W2",))["W2"] for n in worst]
    mean = np.zeros_like(once)
    for part in parts:
        mean[part.index] += part.value
        in_turn[part.index] -= alpha * part.value / 20
    once = (once - alpha * (mean / 20)).astype(np.float32)
    train(DenseEngine(model, TrainingProblem(X, y, TopKLoss(20), constant(alpha))), 1)
    assert_array_equal(model.W2, once, strict=True)
    assert not np.array_equal(in_turn, once)


@pytest.mark.parametrize("objective", [TopKLoss(9), TrimmedMaxLoss(5)])
def test_training_ends_at_the_target(cloud, objective):
    X, y = cloud
    engine = DenseEngine(start_at(X, y, 30), TrainingProblem(X, y, objective, polyak(1.0)))
    assert train(engine, 2000).status is Status.TARGET
    losses = engine.model.losses(X, y)
    assert objective.value(losses, None).loss <= 1.0 < losses.max()


# -- the classifier ---------------------------------------------------------------------------


def fitted(iris, weight=None, **options):
    options = {"n_hidden": 8, "max_iter": 100, "random_state": 0, "objective": "top-k", **options}
    return SubgradientLMMClassifier(**options).fit(iris.X, iris.y, weight)


def assert_same_fit(a, b):
    assert_array_equal(a.history_["loss"], b.history_["loss"])
    for name in ("W0_", "W1_", "W2_"):
        assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


@pytest.mark.parametrize(
    "options",
    [
        *({"objective": "top-k", "top_k": k} for k in (1, 4, 0.2)),
        *({"objective": "trimmed-max", "n_trimmed": k} for k in (0, 4, 0.2)),
    ],
)
def test_classifier_selects_sparse_engine_and_equals_dense(iris, options):
    model = fitted(iris, **options)
    assert model._engine_class() is SparseEngine
    assert_same_fit(model, fitted(iris, **options, engine="dense"))
    kind = TopKLoss if options["objective"] == "top-k" else TrimmedMaxLoss
    objective = kind([*options.values()][1])
    assert_same_fit(model, fitted(iris, objective=objective, engine="sparse"))
    expected = objective.value(model.training_losses_, None).loss
    assert_allclose(expected, model.loss_curve_.min(), rtol=1e-9)


def test_top_k_default_is_one_in_ten(iris):
    assert_same_fit(fitted(iris), fitted(iris, top_k=15))
    assert not np.array_equal(fitted(iris).W2_, fitted(iris, top_k=16).W2_)


def test_trimmed_max_ignores_wrong_labels(iris):
    """Equal samples with different labels keep the maximum above log 2."""
    twice = [0, 60, 120]
    X, y = np.vstack([iris.X, iris.X[twice]]), np.append(iris.y, (iris.y[twice] + 1) % 3)
    options = {"n_hidden": 100, "max_iter": 3000, "random_state": 0}
    maximum = SubgradientLMMClassifier(**options).fit(X, y)
    trimmed = SubgradientLMMClassifier(**options, objective="trimmed-max", n_trimmed=3).fit(X, y)
    assert maximum.max_loss_ >= math.log(2)
    assert np.sort(trimmed.training_losses_)[-4] < math.log(2)
    assert trimmed.score(*iris) > maximum.score(*iris)


class Median:
    """Custom objective: the median loss."""

    name = "median"

    def value(self, losses, weight):
        n = int(np.argsort(losses)[len(losses) // 2])
        return ObjectiveValue(float(losses[n]), n)

    def subgradient(self, model, problem, at, layers):
        return model.subgradient(problem.X[at.sample], int(problem.y[at.sample]), layers)


def test_classifier_minimises_custom_objective_with_custom_step_rule(iris, tmp_path):
    clf = SubgradientLMMClassifier(
        8, max_iter=50, objective=Median(), step=constant(0.02), random_state=0
    )
    clf = clone(clf).fit(iris.X, iris.y)
    assert clf._engine_class() is DenseEngine
    assert {*clf.history_["step"]} == {0.02}
    assert_allclose(np.sort(clf.training_losses_)[75], clf.loss_curve_.min(), rtol=1e-9)
    with pytest.raises(ValueError, match=r"objective=.*pickle, or .*set_params\(objective='max'\)"):
        clf.save(tmp_path / "model.mplus")
    clf.set_params(objective="max", step="polyak").save(tmp_path / "model.mplus")
    loaded = maxplus.load(tmp_path / "model.mplus")
    assert_array_equal(loaded.predict_proba(iris.X), clf.predict_proba(iris.X))
    clf.set_params(objective=Median(), engine="sparse", max_iter=3)
    with pytest.warns(NoEffectWarning, match="'sparse' has no effect with objective=.*dense"):
        clf.fit(*iris)


def test_top_k_ignores_positive_sample_weights(iris):
    """Only samples of weight 0 are excluded, also when k is a fraction."""
    weight = 1.0 + np.arange(150) % 4
    assert_same_fit(fitted(iris, weight), fitted(iris))
    weight[::3] = 0.0
    assert_same_fit(fitted(iris, weight, init="uniform"), fitted(iris, weight > 0, init="uniform"))
    assert_same_fit(
        fitted(iris, weight, init="uniform"), fitted(iris, weight, init="uniform", top_k=10)
    )
