"""LMMEnsembleClassifier: mean scores, training, interruption, certificates."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from certified import assess, inside
from maxplus import LMMClassifier, LMMEnsembleClassifier
from maxplus.certify import certified_at, certified_radius
from maxplus.estimators import NoEffectWarning
from maxplus.estimators._training_data import TrainingData
from maxplus.estimators.lmm_ensemble_classifier import EnsembleTraining, draw_bootstrap
from maxplus.models import LOG2, AdditiveLMM
from maxplus.training import KeepBestOnInterrupt, Status
from model_cases import CASES, normal_model
from strategies import SEEDS, quick
from trainings import press_ctrl_c

WORDS = np.array(["setosa", "versicolor", "virginica"])
# Single networks, and sums of terms.
SINGLE = {"n_hidden": 9, "warmup_epochs": 3, "random_state": 0}
SUM = {"structure": "shapes", "warmup_epochs": 30, "random_state": 0}
# Parameters of the ensemble; all others are those of its networks.
OWN = ("bootstrap", "n_jobs", "random_state", "verbose", "callbacks")
BOTH = pytest.mark.parametrize("options", [SINGLE, SUM], ids=["single", "sum"])


def ensemble(n_estimators, **options):
    own = {name: options.pop(name) for name in OWN if name in options}
    return LMMEnsembleClassifier(LMMClassifier(**options), n_estimators, **own)


@pytest.fixture
def networks(monkeypatch):
    """Record the networks that ensembles train from now on, in the order of their seeds."""
    found = {}

    def recorded(train):
        def run(self, *arguments):
            trained = train(self, *arguments)
            seed = next(tuple(a) for a in arguments if isinstance(a, list))
            found[seed] = trained[0]
            return trained

        return run

    for name in ("_train_single", "_train_sum"):
        monkeypatch.setattr(EnsembleTraining, name, recorded(getattr(EnsembleTraining, name)))
    return lambda: [found[seed] for seed in sorted(found)]


# -- scores -----------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("n_estimators", [1, 3])
def test_ensemble_scores_are_mean_of_networks(networks, iris, options, n_estimators):
    clf = ensemble(n_estimators, **options).fit(iris.X, WORDS[iris.y])
    assert len(networks()) == n_estimators
    Z = [model.scores(iris.X) for model in networks()]
    assert n_estimators == 1 or not np.array_equal(Z[0], Z[1])
    mean = clf.inverse_temperature_ * np.mean(Z, axis=0)
    assert_allclose(clf.decision_function(iris.X), mean, rtol=1e-6, atol=1e-6)
    assert_array_equal(clf.predict(iris.X), WORDS[clf.decision_function(iris.X).argmax(axis=1)])
    assert clf.score(iris.X, WORDS[iris.y]) > 0.93
    assert isinstance(clf.model_, AdditiveLMM)
    n_hidden = sum(model.n_hidden for model in networks())
    assert clf.n_hidden_ == n_hidden == len(clf.unit_activation_counts_)
    assert np.isfinite(clf.decision_function(np.full((1, 4), 1e300))).all()


@given(SEEDS, st.integers(1, 4), st.integers(0, 2))
@quick(60)
def test_ensemble_loss_is_at_most_mean_loss_of_networks(seed, K, label):
    rng = np.random.default_rng(seed)
    networks = [normal_model(CASES["LMM"], rng, (2, 3, 3)) for _ in range(K)]
    X, y = rng.normal(size=(20, 2)), np.full(20, label)
    mean = np.mean([model.losses(X, y) for model in networks], axis=0)
    assert (AdditiveLMM.mean(networks).losses(X, y) <= mean + 1e-9 * (1 + mean)).all()


@BOTH
def test_ensemble_fitted_attributes_cover_all_training_samples(iris, options):
    clf = ensemble(3, bootstrap=True, **options).fit(*iris)
    losses = clf.model_.losses(iris.X, iris.y)
    assert_array_equal(clf.training_losses_, losses)
    assert clf.max_loss_ == losses.max()
    assert clf.mean_loss_ == pytest.approx(losses.mean())
    assert clf.perfect_fit_ == (losses.max() < LOG2)
    assert_array_equal(clf.unit_activation_counts_, clf.model_.activation_counts(iris.X))
    assert clf.loss_curve_.shape == (options["warmup_epochs"],)
    assert np.isfinite(clf.loss_curve_).all()
    assert clf.feature_importances_.sum() == pytest.approx(1.0)


def test_pruned_ensemble_keeps_training_scores(iris):
    """The scores also stay the same for rows outside the bootstrap sample of a network."""
    clf = ensemble(3, bootstrap=True, **SINGLE | {"n_hidden": 60}).fit(*iris)
    before = clf.decision_function(iris.X)
    pruned = clf.prune()
    assert pruned.dropped > 0
    assert pruned.dropped + pruned.remaining == 180
    assert clf.n_hidden_ == pruned.remaining == clf.unit_activation_counts_.size
    assert_array_equal(clf.decision_function(iris.X), before)
    assert_array_equal(clf.unit_activation_counts_, clf.model_.activation_counts(iris.X))


@BOTH
def test_folded_ensemble_folds_all_networks(iris, options):
    centre, spread = iris.X.mean(axis=0), iris.X.std(axis=0)
    scaled = (iris.X - centre) / spread
    clf = ensemble(2, **options).fit(scaled, iris.y)
    Z = clf.decision_function(scaled)
    clf.fold(centre, spread, iris.X)
    assert_allclose(clf.decision_function(iris.X), Z, atol=1e-10)
    assert_array_equal(clf.training_losses_, clf.model_.losses(*iris))


# -- training ---------------------------------------------------------------------------------


@pytest.mark.parametrize("bootstrap", [False, True])
@BOTH
def test_ensemble_does_not_depend_on_n_jobs(iris, bootstrap, options):
    def scores(**other):
        clf = ensemble(3, bootstrap=bootstrap, **options | other).fit(*iris)
        return clf.decision_function(iris.X)

    expected = scores(n_jobs=1)
    for n_jobs in (2, None):
        assert_array_equal(scores(n_jobs=n_jobs), expected)
    assert not np.array_equal(scores(random_state=1), expected)


def test_ensemble_searches_structure_and_temperature_once(iris):
    clf = ensemble(2, **SUM).fit(*iris)
    alone = LMMClassifier(**SUM).fit(*iris)
    assert clf.search_["chosen"] == alone.search_["chosen"]
    assert_array_equal(clf.search_["losses"], alone.search_["losses"])
    assert clf.inverse_temperature_ == alone.inverse_temperature_ != 1.0


def test_ensemble_temperature_changes_no_prediction_and_no_radius(iris):
    clf = ensemble(2, calibrate=True, **SINGLE).fit(*iris)
    assert (
        clf.inverse_temperature_
        != 1.0
        == ensemble(2, calibrate=False, **SINGLE).fit(*iris).inverse_temperature_
    )
    uncalibrated = clf.model_.scaled(1 / clf.inverse_temperature_)
    assert_array_equal(uncalibrated.scores(iris.X).argmax(axis=1), clf.predict(iris.X))
    assert_allclose(certified_radius(uncalibrated, iris.X), clf.certified_radius(iris.X), rtol=1e-5)


@pytest.mark.parametrize("calibrate", [False, True])
def test_ensemble_polishes_single_networks(iris, calibrate):
    options = SINGLE | {"n_hidden": 30, "calibrate": calibrate}
    clf = ensemble(2, polish=0.5, **options).fit(*iris)
    assert_array_equal(clf.suspects_, np.flatnonzero(~(clf.training_losses_ < 0.5)))
    assert clf.status_ == (Status.GIVEN_UP if clf.suspects_.size else Status.POLISHED).value
    rough = ensemble(2, polish=None, early_stopping=True, **options).fit(*iris)
    assert rough.status_ == Status.MAX_ITER.value
    assert not hasattr(rough, "suspects_")
    assert clf.max_loss_ < rough.max_loss_


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), SEEDS, st.booleans())
@quick(50)
def test_bootstrap_draws_as_many_samples_of_each_class_as_there_are(labels, seed, has_weight):
    y = np.array(labels)
    X, weight = np.arange(len(y))[:, None] + 0.5, np.full(len(y), 2.0) if has_weight else None
    sample = draw_bootstrap(TrainingData(X, y, weight), np.random.default_rng(seed))
    times = sample.weight / (2.0 if has_weight else 1.0)
    assert (times >= 1).all()
    assert_array_equal(y[sample.X[:, 0].astype(int)], sample.y)
    assert_array_equal(np.bincount(sample.y, times, minlength=4), np.bincount(y, minlength=4))


@BOTH
def test_ensemble_sample_and_class_weights(iris, options):
    weight = np.ones(150)
    weight[:5] = 0.0
    plain = ensemble(2, **options).fit(iris.X[5:], iris.y[5:])
    even = ensemble(2, **options).fit(iris.X, iris.y, weight)
    assert np.isnan(even.training_losses_[:5]).all()
    assert_allclose(even.predict_proba(iris.X), plain.predict_proba(iris.X), rtol=1e-6)
    heavy = ensemble(2, class_weight={0: 5.0, 1: 1.0, 2: 1.0}, **options)
    heavy.fit(iris.X, iris.y, weight)
    assert not np.array_equal(heavy.decision_function(iris.X), plain.decision_function(iris.X))


def test_ensemble_parameters_include_those_of_estimator():
    clf = ensemble(2, n_hidden=9).set_params(estimator__n_hidden=5)
    assert clf.estimator.n_hidden == clf.get_params()["estimator__n_hidden"] == 5
    for bad, message in (
        (LMMEnsembleClassifier(n_estimators=0), "n_estimators must be an integer >= 1; got 0"),
        (LMMEnsembleClassifier(bootstrap=0.5), r"bootstrap must be True or False; got 0\.5"),
        (LMMEnsembleClassifier(4), "estimator must be an LMMClassifier or None; got 4"),
        (ensemble(2, n_hidden=0), "n_hidden must be an integer >= 1"),
    ):
        with pytest.raises(ValueError, match=message):
            bad.fit([[0.0], [1.0]], [0, 1])


def test_ensemble_does_not_fit_given_estimator_or_use_its_seed(iris):
    own = LMMClassifier(9, warmup_epochs=3, random_state=7)
    with pytest.warns(NoEffectWarning, match="random_state=7 of the estimator has no effect"):
        clf = LMMEnsembleClassifier(own, 2, random_state=0).fit(*iris)
    assert set(vars(own)) == set(own.get_params())
    expected = ensemble(2, **SINGLE).fit(*iris)
    assert_array_equal(clf.decision_function(iris.X), expected.decision_function(iris.X))


# -- callbacks and interruption ---------------------------------------------------------------


@BOTH
def test_ensemble_callbacks_count_networks(iris, options):
    seen = []
    ensemble(3, callbacks=seen.append, **options).fit(*iris)
    own = [progress for progress in seen if progress.stage == "ensemble"]
    assert {progress.stage for progress in seen} <= {"choice", "ensemble"}
    assert [(progress.iteration, progress.max_iter) for progress in own] == [(1, 3), (2, 3), (3, 3)]
    assert all(progress.state is None for progress in own)
    best = [progress.best_loss for progress in own]
    assert best == sorted(best, reverse=True)


@BOTH
def test_ensemble_stopped_by_callback_keeps_finished_networks(iris, options):
    def stops(progress):
        return progress.stage == "ensemble"

    clf = ensemble(6, n_jobs=1, callbacks=stops, **options).fit(*iris)
    assert clf.status_ == Status.CALLBACK.value
    one = ensemble(1, n_jobs=1, **options).fit(*iris)
    assert one.n_hidden_ <= clf.n_hidden_ < 6 * one.n_hidden_
    assert clf.score(*iris) > 0.8
    # A search that is stopped leaves the initial model.
    clf = ensemble(2, callbacks=lambda progress: True, random_state=0).fit(*iris)
    assert clf.status_ == Status.CALLBACK.value
    assert clf.predict(iris.X).shape == (150,)


def snapshot(clf):
    return {name: value for name, value in vars(clf).items() if name != "callbacks"}


def ctrl_c_in(stage):
    """Return a callback that sends Ctrl-C once, in the given stage."""
    sent = []

    def callback(progress):
        if progress.stage == stage and not sent:
            sent.append(press_ctrl_c())

    return callback


@pytest.mark.parametrize("stage", ["choice", "ensemble"])
@BOTH
def test_interrupted_ensemble_is_unchanged(iris, stage, options):
    if options is SINGLE and stage == "choice":
        options = options | {"calibrate": True}
    clf = ensemble(3, n_jobs=1, **options).fit(iris.X[:, :2], iris.y)
    before = snapshot(clf)
    with pytest.raises(KeyboardInterrupt):
        clf.set_params(callbacks=ctrl_c_in(stage)).fit(*iris)
    assert all(value is snapshot(clf)[name] for name, value in before.items())


@BOTH
def test_keep_best_on_interrupt_keeps_finished_networks(iris, options):
    clf = ensemble(3, n_jobs=1, callbacks=[ctrl_c_in("ensemble"), KeepBestOnInterrupt()], **options)
    with pytest.warns(UserWarning, match="interrupted after .* epochs of the ensemble"):
        clf.fit(*iris)
    assert clf.status_ == Status.INTERRUPTED.value
    assert clf.score(*iris) > 0.8


# -- certificates -----------------------------------------------------------------------------


def attack(model, X, radius, rng):
    """Return whether any of 100 random points in the box of each row is misclassified."""
    reach, shape = radius[:, None, None], (len(X), 50, X.shape[1])
    steps = [reach * rng.choice([-1.0, 1.0], shape), reach * rng.uniform(-1.0, 1.0, shape)]
    points = inside(X[:, None], np.concatenate(steps, axis=1))
    lost, _ = assess(model, points, model.scores(X).argmax(axis=1))
    return lost.any(axis=1)


@pytest.mark.parametrize("bootstrap", [False, True])
@BOTH
def test_ensemble_certified_radius_survives_attacks(iris, bootstrap, options):
    X, rng = iris.X.astype(np.float32), np.random.default_rng(0)
    clf = ensemble(3, bootstrap=bootstrap, **options).fit(X, iris.y)
    radius = clf.certified_radius(X)
    finite = np.isfinite(radius)
    assert (radius > 0).mean() > 0.9
    assert finite.mean() > 0.5
    X, radius = X[finite], radius[finite]
    assert not attack(clf.model_, X, radius, rng).any()
    assert certified_at(clf.model_, X, radius).all()
    assert not certified_at(clf.model_, X, radius * (1 + 1e-5)).any()
    # The attack is strong enough to succeed outside the certified boxes.
    assert attack(clf.model_, X, 20 * radius, rng).mean() > 0.5


@BOTH
def test_ensemble_certified_accuracy(iris, options):
    clf = ensemble(2, **options).fit(iris.X, WORDS[iris.y])
    shares = clf.certified_accuracy(iris.X, WORDS[iris.y], [0.0, 0.05, 5.0])
    right = clf.predict(iris.X) == WORDS[iris.y]
    assert shares[0] == right.mean()
    assert shares[1] == (right & certified_at(clf.model_, iris.X, 0.05)).mean()
    assert shares[0] >= shares[1] > 0.5 > shares[2]
