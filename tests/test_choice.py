"""Choices by cross-validation: structure, scaling, inverse temperature, and whether to polish."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from safetensors.numpy import load_file
from sklearn.model_selection import StratifiedKFold, cross_val_score

import maxplus
from maxplus import LMMClassifier
from maxplus.estimators._additive import BUDGET, STRUCTURES
from maxplus.estimators._cross_validation import (
    assign_folds,
    inverse_temperature,
    limit_inverse_temperature,
    losses_of,
    stratified_subsample,
)
from maxplus.estimators._lmm import automatic_n_hidden
from maxplus.estimators._training_data import Scaling, looks_like_pixels
from maxplus.io import Checkpoint
from maxplus.io.container import FileError
from maxplus.models import LMM, AdditiveLMM
from maxplus.training import KeepBestOnInterrupt, Status
from maxplus.training.smooth import soft_terms
from trainings import press_ctrl_c

pytestmark = pytest.mark.slow


# Few epochs, for tests that do not depend on the quality of the choice.
QUICK = {"warmup_epochs": 15, "random_state": 0}


@pytest.fixture(scope="module")
def noisy():
    """Two linearly separable classes with 20 % wrong labels, and features of different scales."""
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(240, 5))
    y = (Z @ [1.0, -1.0, 0.5, 0.0, 0.0] > 0).astype(int)
    y = np.where(rng.random(240) < 0.2, 1 - y, y)
    return Z * [1e3, 1e-3, 1.0, 50.0, 1.0] + [1e4, 0.0, 7.0, 0.0, -3.0], y


@pytest.fixture(scope="module")
def chosen(noisy):
    return LMMClassifier(**QUICK).fit(*noisy)


def assert_same(a, b):
    """Assert that two classifiers have bit-identical weights and search results."""
    weights, others = a.model_.weights_by_name(), b.model_.weights_by_name()
    assert list(weights) == list(others)
    for name, W in weights.items():
        assert_array_equal(W, others[name], strict=True)
    assert a.inverse_temperature_ == b.inverse_temperature_
    assert hasattr(a, "search_") == hasattr(b, "search_")
    for name, value in getattr(a, "search_", {}).items():
        assert_array_equal(value, b.search_[name])


# -- the search -------------------------------------------------------------------------------


def test_structure_search_is_reported(chosen):
    search = chosen.search_
    assert search["losses"].shape == (len(STRUCTURES), 3)
    assert not np.isnan(search["losses"]).any()
    assert np.isfinite(search["losses"][:, 0]).all()
    assert np.isfinite(search["losses"]).all(axis=1).sum() == BUDGET.survivors
    assert np.isfinite(search["losses"][search["chosen"]]).all()
    assert len(search["candidates"]) == len(STRUCTURES)


@pytest.mark.parametrize(("structure", "most"), [("shapes", 1), ("pairs", 2)])
def test_structure_parameter_limits_the_terms(noisy, structure, most):
    X, y = noisy
    product = (X[:, 2] - 7.0) * (X[:, 4] + 3.0) > 0
    clf = LMMClassifier(structure=structure, **QUICK).fit(X, product)
    assert max(term.features.size for term in clf.model_.terms) == most
    assert len(clf.search_["candidates"]) < len(STRUCTURES)
    with pytest.raises(ValueError, match="structure must be"):
        LMMClassifier(structure="boxes").fit(X, y)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "options",
    [
        {"n_hidden": 8},
        {"slope": 2.0},
        {"polish": "log2"},
        {"early_stopping": True},
        {"init_margin": 3.0},
        {"standardize": False},
        {"augment": lambda rows, rng: rows},
    ],
)
def test_single_network_parameters_select_an_lmm(iris, options):
    clf = LMMClassifier(warmup_epochs=2, random_state=0, **options).fit(*iris)
    assert isinstance(clf.model_, LMM)
    assert not hasattr(clf, "search_")
    assert clf.inverse_temperature_ == 1.0
    slope = options.get("slope", clf.slope_)
    assert_allclose(np.abs(clf.W0_), np.repeat(slope / clf.scale_, 2))
    assert isinstance(LMMClassifier(warmup_epochs=2).fit(*iris).model_, AdditiveLMM)


def test_structure_search_depends_only_on_random_state(noisy, chosen):
    for n_jobs in (1, 2):
        assert_same(chosen, LMMClassifier(**QUICK, n_jobs=n_jobs).fit(*noisy))
    other = LMMClassifier(**QUICK | {"random_state": 1}).fit(*noisy)
    assert not np.array_equal(other.search_["losses"], chosen.search_["losses"])


def test_structure_search_does_not_memorise_noise(noisy):
    X, y = noisy
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    fixed, chosen = (
        cross_val_score(clf, X, y, cv=folds, scoring="neg_log_loss").mean()
        for clf in (LMMClassifier(30, random_state=0), LMMClassifier(random_state=0))
    )
    assert chosen > fixed + 0.1


@pytest.mark.parametrize("counts", [(1, 1), (1, 9), (2, 2), (3, 1, 8), (2, 3, 4), (5, 5)])
@pytest.mark.parametrize("n_features", [1, 3])
def test_fit_accepts_few_samples(counts, n_features):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(len(counts)), counts)
    X = rng.normal(size=(len(y), n_features)) + y[:, None]
    clf = LMMClassifier(warmup_epochs=4, random_state=0).fit(X, y)
    assert np.isfinite(clf.predict_proba(X)).all()
    assert not np.isnan(clf.search_["losses"]).any()
    assert 0 < clf.inverse_temperature_ < np.inf


def test_fit_accepts_constant_and_repeated_columns(noisy):
    X, y = noisy
    wide = np.column_stack([np.full(len(y), 1e6), X, np.zeros(len(y)), X[:, 0]])
    clf = LMMClassifier(**QUICK).fit(wide, y)
    assert clf.score(wide, y) > 0.7
    assert clf.scale_[0] == clf.scale_[6] == 1.0
    everywhere = LMMClassifier(**QUICK).fit(np.ones((20, 3)), np.arange(20) % 2)
    assert np.isfinite(everywhere.predict_proba(np.ones((2, 3)))).all()


def test_probabilities_of_repeated_samples_are_their_class_rates():
    """The table has 14 distinct rows with random labels."""
    rng = np.random.default_rng(0)
    X = np.array([[a, b] for a in range(7) for b in range(2)], float)[rng.integers(14, size=600)]
    rate = 0.1 + 0.1 * X[:, 0]
    y = (rng.random(600) < rate).astype(int)
    p = LMMClassifier(random_state=0).fit(X, y).predict_proba(X)[:, 1]
    assert p.max() - p.min() > 0.4
    assert np.abs(p - rate).mean() < 0.1
    assert automatic_n_hidden(X, 2) == 14


def test_folds_keep_every_class():
    y = np.repeat([0, 1, 2, 3], [400, 30, 2, 1])
    rng = np.random.default_rng(0)
    fold = assign_folds(y, 3, rng)
    assert fold[-1] == -1
    for i in range(3):
        assert set(y[fold != i]) == {0, 1, 2, 3}
        assert 9 <= (y[fold == i] == 1).sum() <= 11
    part = stratified_subsample(y, 100, rng)
    assert_array_equal(np.bincount(y[part]), [92, 7, 2, 1])
    assert_array_equal(stratified_subsample(y, 1000, rng), np.arange(433))


# -- callbacks, interruption, checkpoints -----------------------------------------------------


def test_progress_reports_structure_search(noisy):
    progress_calls = []
    LMMClassifier(
        **QUICK, callbacks=lambda p: progress_calls.append((p.stage, p.iteration, p.max_iter))
    ).fit(*noisy)
    choice = [(iteration, of) for stage, iteration, of in progress_calls if stage == "choice"]
    total = len(STRUCTURES) + 2 * BUDGET.survivors
    assert choice == [(k, total) for k in range(1, total + 1)]
    assert list(dict.fromkeys(stage for stage, _, _ in progress_calls)) == ["choice", "warm-up"]
    assert progress_calls[-1] == ("warm-up", 15, 15)


def test_callback_ends_search_and_training(noisy):
    clf = LMMClassifier(**QUICK, callbacks=lambda p: p.iteration == 3).fit(*noisy)
    assert clf.status_ == Status.CALLBACK.value
    assert clf.loss_curve_.size == clf.n_iter_ == 0
    assert not hasattr(clf, "search_")
    assert clf.predict(noisy[0]).shape == (240,)


def test_ctrl_c_ends_the_search(noisy):
    def press(progress):
        if progress.stage == "choice" and progress.iteration == 2:
            press_ctrl_c()

    with pytest.warns(UserWarning, match="interrupted after 0 epochs of the warm-up"):
        clf = LMMClassifier(**QUICK, callbacks=[press, KeepBestOnInterrupt()]).fit(*noisy)
    assert clf.status_ == Status.INTERRUPTED.value
    assert clf.loss_curve_.size == 0


def test_interrupted_search_ends_running_trainings(noisy, monkeypatch):
    """Other training runs of the fold stop after an epoch."""
    epochs = []
    train_epoch = soft_terms.train_epoch

    def count(*arguments):
        epochs.append(1)
        return train_epoch(*arguments)

    monkeypatch.setattr(soft_terms, "train_epoch", count)
    options = {"warmup_epochs": 2_000, "random_state": 0, "n_jobs": 2}
    with pytest.warns(UserWarning, match="interrupted"):
        LMMClassifier(**options, callbacks=[press_ctrl_c, KeepBestOnInterrupt()]).fit(*noisy)
    # Each structure has 1,000 epochs. Two are complete, and the third has just started.
    assert len(epochs) < 2_400


def test_checkpoints_are_rejected_for_sums_of_terms(tmp_path, noisy):
    with pytest.raises(ValueError, match=r"sum of terms has no state to save; .* set n_hidden"):
        LMMClassifier(callbacks=Checkpoint(tmp_path / "checkpoint")).fit(*noisy)


def test_resumed_warm_up_keeps_temperature_and_class_weight(tmp_path, noisy):
    weight = {0: 1.0, 1: 2.5}
    options = {"n_hidden": 10, "random_state": 3, "warmup_epochs": 30, "class_weight": weight}
    whole = LMMClassifier(**options, calibrate=True).fit(*noisy)
    path = tmp_path / "checkpoint"
    stop = [Checkpoint(path, every=0.0), lambda p: p.stage == "warm-up" and p.iteration == 12]
    LMMClassifier(**options, calibrate=True, callbacks=stop).fit(*noisy)
    for _ in range(2):
        again = maxplus.resume(path, *noisy, Checkpoint(path))
        assert_same(again, whole)
        assert again.max_loss_ == whole.max_loss_
        assert again.class_weight == weight


def test_resume_checks_results_of_earlier_stages(tmp_path, noisy):
    path = tmp_path / "checkpoint"
    stop = [Checkpoint(path, every=0.0), lambda p: p.stage == "warm-up"]
    LMMClassifier(10, calibrate=True, **QUICK, callbacks=stop).fit(*noisy)
    arrays = load_file(path)
    names = [n for n in arrays if n.startswith("before.")]
    assert {"before.inverse_temperature", "before.centre"} <= set(names)
    document, _ = maxplus.io.container.read_container(path, "maxplus-checkpoint")
    for name in names:
        for damage in (None, arrays[name][None], np.full_like(arrays[name], -7)):
            if name == "before.centre" and damage is not None and damage.ndim == 1:
                continue  # Any mean is valid.
            broken = {n: A for n, A in arrays.items() if n != name}
            if damage is not None:
                broken[name] = damage
            maxplus.io.container.write_container(path, "maxplus-checkpoint", document, broken)
            with pytest.raises(FileError, match="is damaged"):
                maxplus.resume(path, *noisy)


# -- scaling ----------------------------------------------------------------------------------


def test_scaling_is_robust_and_folded_into_weights(noisy):
    X, y = noisy
    wild = X.copy()
    wild[0, 2] = 1e9
    clf = LMMClassifier(20, random_state=0).fit(wild, y)
    assert_allclose(clf.scale_, X.std(axis=0), rtol=0.25)
    assert_allclose(np.abs(clf.W0_), np.repeat(clf.slope_ / clf.scale_, 2), rtol=1e-12)
    assert clf.score(wild, y) > 0.7
    plain = LMMClassifier(20, standardize=False, random_state=0).fit(X, y)
    assert_array_equal(plain.scale_, 1.0)
    assert_allclose(np.abs(plain.W0_), plain.slope_, rtol=1e-12)


def test_rare_values_are_not_outliers():
    rare = (np.arange(100)[:, None] < 2) * 1.0
    assert Scaling.from_rows(rare).spread[0] == pytest.approx(rare.std())


def test_image_features_are_not_rescaled(digits):
    for X in (digits.X, digits.X / 16, digits.X * 17.0):
        assert looks_like_pixels(X)
        assert Scaling.from_rows(X).is_identity
    rng = np.random.default_rng(0)
    assert not looks_like_pixels(rng.random((50, 60)))  # few zeros
    assert not looks_like_pixels(digits.X[:, :40])
    assert not looks_like_pixels(np.column_stack([digits.X, np.full(500, 1e4)]))
    assert_array_equal(LMMClassifier(20, random_state=0).fit(*digits).scale_, 1.0)


def test_augmentation_receives_raw_features(noisy):
    X, y = noisy
    batches = []

    def augment(rows, rng):
        batches.append(rows.copy())
        return rows

    options = {"n_hidden": 10, "warmup_epochs": 2, "random_state": 0}
    clf = LMMClassifier(augment=augment, **options).fit(X, y)
    rows = np.concatenate(batches)
    assert_allclose(np.sort(rows[:, 1])[[0, -1]], np.sort(X[:, 1])[[0, -1]], rtol=1e-6)
    plain = LMMClassifier(**options).fit(X, y)
    assert_allclose(clf.predict_proba(X), plain.predict_proba(X), atol=1e-2)


# -- temperature ------------------------------------------------------------------------------


def test_temperature_changes_no_prediction_and_no_radius(noisy, chosen):
    X, y = noisy
    cold = LMMClassifier(**QUICK, calibrate=False).fit(X, y)
    assert cold.inverse_temperature_ == 1.0 != chosen.inverse_temperature_
    assert_array_equal(cold.predict(X), chosen.predict(X))
    Z, scaled = cold.decision_function(X), chosen.decision_function(X)
    assert_allclose(Z * chosen.inverse_temperature_, scaled, rtol=1e-9, atol=1e-9)
    assert_allclose(cold.certified_radius(X[:20]), chosen.certified_radius(X[:20]), rtol=1e-4)


def test_temperature_minimises_weighted_loss():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(4000, 3)) * 2
    p = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) > rng.random((4000, 1))).argmax(axis=1)
    assert inverse_temperature(Z * 5, y) == pytest.approx(0.2, rel=0.08)
    weight = np.where(y == 0, 3.0, 1.0)
    t = inverse_temperature(Z, y, weight)
    best = np.average(losses_of(t * Z, y), weights=weight)
    for other in (0.8 * t, 1.25 * t):
        assert np.average(losses_of(other * Z, y), weights=weight) > best
    # All predictions are correct, but the inverse temperature stays finite.
    assert inverse_temperature(np.eye(3)[[0, 1, 2] * 10], np.arange(30) % 3) < 10


def test_temperature_preserves_perfect_fit(iris):
    clf = LMMClassifier(30, calibrate=True, polish="log2", random_state=0).fit(*iris)
    assert clf.perfect_fit_
    assert clf.inverse_temperature_ != 1.0
    Z = np.array([[1.0, 0.2, 0.2], [0.1, 1.0, 0.0]])
    y = np.array([0, 1])
    level = losses_of(0.9 * Z, y).max()
    t = limit_inverse_temperature(0.1, Z, y, level)
    assert t == pytest.approx(0.9, rel=1e-6)
    assert losses_of(t * Z, y).max() < level
    assert limit_inverse_temperature(3.0, Z, y, level) == 3.0


def test_suspects_of_a_sum_are_misclassified_samples(noisy, chosen):
    assert chosen.status_ == Status.MAX_ITER.value
    wrong = np.flatnonzero(chosen.predict(noisy[0]) != noisy[1])
    assert_array_equal(chosen.suspects_, wrong)


# -- weights ----------------------------------------------------------------------------------


def test_balanced_class_weights_find_rare_class():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 4))
    y = np.zeros(1500, int)
    y[:15] = 1
    X[:15] += [1.6, 1.6, 0.0, 0.0]
    test = rng.normal(size=(400, 4)) + np.repeat([[0.0] * 4, [1.6, 1.6, 0.0, 0.0]], 200, axis=0)
    unweighted, balanced = (
        LMMClassifier(random_state=0, class_weight=weight).fit(X, y).predict(test)
        for weight in (None, "balanced")
    )
    assert balanced[200:].mean() > 0.6 > unweighted[200:].mean()
    assert balanced[:200].mean() < 0.35


def test_class_weights_equal_sample_weights(noisy):
    X, y = noisy
    labels = np.array(["no", "yes"])[y]
    options = {"n_hidden": 10, "warmup_epochs": 5, "random_state": 0, "calibrate": True}
    weight = np.where(y == 1, 3.0, 0.5)
    by_sample = LMMClassifier(**options).fit(X, labels, weight)
    by_class = LMMClassifier(class_weight={"no": 0.5, "yes": 3.0}, **options).fit(X, labels)
    both = LMMClassifier(class_weight={"yes": 6.0}, **options).fit(X, labels, np.full(240, 0.5))
    assert_array_equal(by_class.W1_, by_sample.W1_)
    assert_array_equal(both.W1_, by_sample.W1_)
    share = np.where(y == 1, 120 / (y == 1).sum(), 120 / (y == 0).sum())
    balanced = LMMClassifier(class_weight="balanced", **options).fit(X, labels)
    assert_allclose(balanced.W1_, LMMClassifier(**options).fit(X, labels, share).W1_, rtol=1e-5)
    with pytest.raises(ValueError, match="class_weight has the label 'maybe'"):
        LMMClassifier(class_weight={"maybe": 2.0, "yes": 1.0}, **options).fit(X, labels)
    with pytest.raises(ValueError, match="class_weight must be a dict that maps labels to finite"):
        LMMClassifier(class_weight={"yes": 0.0}, **options).fit(X, labels)


# -- scoring ----------------------------------------------------------------------------------


def test_custom_scorer_selects_structure(noisy):
    X, y = noisy

    def few_units(estimator, rows, labels):
        assert rows.shape[1] == X.shape[1]
        assert set(labels) <= set(y)
        return -float(estimator.n_hidden_)

    clf = LMMClassifier(scoring=few_units, warmup_epochs=4, random_state=0).fit(X, y)
    scores = clf.search_["scores"]
    assert_array_equal(np.isfinite(scores), np.isfinite(clf.search_["losses"]))
    assert clf.search_["chosen"] == 0
    assert_array_equal(scores[0], -clf.n_hidden_)


def test_named_scorer_weights_held_out_samples(noisy):
    X, y = noisy
    weight = np.where(np.arange(len(y)) % 2, 5.0, 1.0)
    options = {"scoring": "balanced_accuracy", "warmup_epochs": 4, "random_state": 0}
    clf = LMMClassifier(**options).fit(X, y, weight)
    scores = clf.search_["scores"]
    assert ((scores[np.isfinite(scores)] >= 0) & (scores[np.isfinite(scores)] <= 1)).all()
    seen = np.isfinite(scores).all(axis=1)
    means = np.where(seen, scores.mean(axis=1), -np.inf)
    assert means[clf.search_["chosen"]] == means.max()
    unweighted = LMMClassifier(**options).fit(X, y)
    assert not np.array_equal(unweighted.search_["scores"], scores)


def test_failing_or_unknown_scorer_is_rejected(noisy):
    def broken(estimator, X, y):
        raise RuntimeError("injected")

    with pytest.raises(RuntimeError, match="injected"):
        LMMClassifier(scoring=broken, warmup_epochs=1).fit(*noisy)
    with pytest.raises(ValueError, match=r"scoring must be the name of a scorer.*'auc'"):
        LMMClassifier(scoring="auc").fit(*noisy)
    clf = LMMClassifier(scoring=lambda *_: np.nan, warmup_epochs=1, random_state=0).fit(*noisy)
    assert (clf.search_["scores"] == -np.inf).all()
