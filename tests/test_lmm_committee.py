"""LMMCommittee: how it is trained, told of and ended."""

import os
import signal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from committees import QUICK, WORDS
from maxplus import LMMClassifier, LMMCommittee
from maxplus.certify import certified_radius
from maxplus.estimators.lmm_committee import bag
from maxplus.models import LOG2, Committee
from maxplus.training.result import Status, TrainingOverflowError
from strategies import SEEDS, quick


def test_scores_probabilities_and_labels_are_the_committees(trio, iris):
    Z = Committee.mean([member.decision_function(iris.X) for member in trio.members_])
    assert_array_equal(trio.decision_function(iris.X), Z)
    assert_array_equal(trio.predict(iris.X), WORDS[Z.argmax(axis=1)])
    assert_allclose(trio.predict_proba(iris.X).sum(axis=1), 1.0)
    assert trio.score(iris.X, WORDS[iris.y]) > 0.93
    assert trio.estimators_ is trio.members_
    assert trio.n_hidden_ == 27
    for member, network in zip(trio.members_, trio.model_.members, strict=True):
        assert type(member) is LMMClassifier
        assert member.model_ is network
        assert member.slope_ == trio.slope_
        assert_array_equal(member.classes_, trio.classes_)
    W1 = [member.W1_ for member in trio.members_]
    assert not any(np.array_equal(W1[0], other) for other in W1[1:])


def test_facts_are_about_all_training_rows(iris):
    clf = LMMCommittee(3, bagging=True, **QUICK).fit(*iris)
    losses = clf.model_.losses(iris.X, iris.y)
    assert_array_equal(clf.training_losses_, losses)
    assert clf.max_loss_ == losses.max()
    assert clf.mean_loss_ == pytest.approx(losses.mean())
    assert clf.certified_ == (losses.max() < LOG2)
    assert_array_equal(clf.suspects_, np.flatnonzero(~(losses < LOG2)))
    assert_array_equal(clf.unit_wins_, clf.model_.wins(iris.X))
    for member in clf.members_:
        assert_array_equal(member.training_losses_, member.model_.losses(iris.X, iris.y))
        # Suspects of its own bag, numbered as all rows are.
        assert (member.training_losses_[member.suspects_] >= LOG2).all()
    assert clf.n_iter_ == sum(member.n_iter_ for member in clf.members_)
    assert_array_equal(clf.loss_curve_, np.mean([m.loss_curve_ for m in clf.members_], axis=0))


@pytest.mark.parametrize("bagging", [False, True])
def test_the_outcome_does_not_depend_on_n_jobs(iris, bagging):
    fits = [LMMCommittee(3, bagging=bagging, n_jobs=n, **QUICK).fit(*iris) for n in (1, 2, 3, None)]
    for other in fits[1:]:
        assert_array_equal(other.decision_function(iris.X), fits[0].decision_function(iris.X))
    again = LMMCommittee(3, bagging=bagging, **QUICK | {"random_state": 1}).fit(*iris)
    assert not np.array_equal(again.decision_function(iris.X), fits[0].decision_function(iris.X))


def test_the_capacity_is_searched_once(iris, monkeypatch):
    from maxplus.estimators import lmm_classifier

    calls = []
    choose = lmm_classifier.choose

    def counted(rows, candidates, *others):
        calls.append(len(candidates))
        return choose(rows, candidates, *others)

    monkeypatch.setattr(lmm_classifier, "choose", counted)
    clf = LMMCommittee(2, warmup_epochs=4, random_state=0).fit(*iris)
    alone = LMMClassifier(warmup_epochs=4, random_state=0).fit(*iris)
    assert calls == [12, 12]
    assert clf.search_["chosen"] == alone.search_["chosen"]
    assert_array_equal(clf.search_["losses"], alone.search_["losses"])
    assert clf.temperature_ == alone.temperature_ != 1.0
    assert not hasattr(clf.members_[0], "search_")
    assert clf.members_[0].temperature_ == clf.temperature_


def test_a_temperature_changes_no_prediction_and_no_radius(iris):
    plain, warm = (
        LMMCommittee(2, calibrate=calibrate, **QUICK).fit(*iris) for calibrate in (False, True)
    )
    assert plain.temperature_ == 1.0 != warm.temperature_
    # The generator has drawn once more, so that the members differ.
    scaled = Committee(m.scaled(1 / warm.temperature_) for m in warm.model_.members)
    assert_array_equal(scaled.scores(iris.X).argmax(axis=1), warm.predict(iris.X))
    assert_allclose(certified_radius(scaled, iris.X), warm.certified_radius(iris.X), rtol=1e-5)


def test_a_polish_that_was_asked_for_survives_the_temperature(iris):
    clf = LMMCommittee(2, polish=0.5, calibrate=True, **QUICK | {"n_hidden": 30}).fit(*iris)
    fine = np.delete(clf.training_losses_, clf.suspects_)
    assert fine.max() < 0.5
    ended = Status.GIVEN_UP if clf.suspects_.size else Status.POLISHED
    assert clf.status_ == ended.value


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), SEEDS)
@quick(50)
def test_a_bag_draws_as_many_of_each_class_as_there_are(labels, seed):
    y = np.array(labels)
    counts = bag(y, np.random.default_rng(seed))
    assert (counts >= 0).all()
    assert_array_equal(np.bincount(y, counts), np.bincount(y))


def test_bags_differ_and_leave_rows_out():
    y = np.arange(1000) % 2
    bags = [bag(y, np.random.default_rng(seed)) for seed in range(2)]
    assert not np.array_equal(*bags)
    assert 0.55 < np.mean(bags[0] > 0) < 0.71


def test_weights_of_classes_and_samples(iris):
    weight = np.ones(150)
    weight[:5] = 0.0
    clf = LMMCommittee(2, class_weight={0: 5.0, 1: 1.0, 2: 1.0}, **QUICK)
    clf.fit(iris.X, iris.y, weight)
    plain = LMMCommittee(2, **QUICK).fit(iris.X[5:], iris.y[5:])
    assert np.isnan(clf.training_losses_[:5]).all()
    assert np.isnan(clf.members_[1].training_losses_[:5]).all()
    assert not np.array_equal(clf.decision_function(iris.X), plain.decision_function(iris.X))
    even = LMMCommittee(2, **QUICK).fit(iris.X, iris.y, weight)
    assert_allclose(even.predict_proba(iris.X), plain.predict_proba(iris.X), rtol=1e-6)


def test_early_stopping_and_no_polish(iris):
    clf = LMMCommittee(2, early_stopping=True, polish=None, **QUICK).fit(*iris)
    assert not hasattr(clf, "suspects_")
    assert clf.members_[0].validation_scores_.size == 3
    assert clf.status_ == Status.MAX_ITER.value


def test_parameters_are_those_of_a_classifier():
    own = LMMCommittee().get_params()
    assert own.pop("n_members") == 4
    assert own.pop("bagging") is False
    assert own == LMMClassifier().get_params()
    with pytest.raises(ValueError, match="n_members must be an integer >= 1; got 0"):
        LMMCommittee(0).fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match=r"bagging must be True or False; got 0\.5"):
        LMMCommittee(bagging=0.5).fit([[0.0], [1.0]], [0, 1])


# -- how it is told, and ended ----------------------------------------------------------------


def test_one_bar_counts_the_epochs_of_all_members(iris):
    seen = []
    LMMCommittee(3, callbacks=seen.append, **QUICK).fit(*iris)
    assert {progress.stage for progress in seen} == {"members"}
    done = [progress.iteration for progress in seen]
    assert done == sorted(done)
    assert done[-1] == 9 == seen[-1].max_iter
    assert all(progress.state is None for progress in seen)
    assert isinstance(seen[-1].model, Committee)
    assert len(seen[-1].model.members) == 3
    best = [progress.best_loss for progress in seen]
    assert best == sorted(best, reverse=True)


def test_a_callback_may_end_the_training(iris):
    """Members that have begun are kept, the others left out."""
    clf = LMMCommittee(3, n_jobs=1, callbacks=lambda progress: progress.iteration >= 1, **QUICK)
    clf.set_params(warmup_epochs=500).fit(*iris)
    assert clf.status_ == Status.CALLBACK.value
    assert 1 <= len(clf.members_) < 3
    assert clf.members_[0].n_iter_ < 500
    assert clf.predict(iris.X).shape == (150,)


def test_a_callback_that_ends_the_search_keeps_the_boxes(iris):
    clf = LMMCommittee(2, callbacks=lambda progress: True, random_state=0).fit(*iris)
    assert clf.status_ == Status.CALLBACK.value
    assert len(clf.members_) == 2
    assert clf.n_iter_ == 0
    assert clf.score(*iris) > 0.6


def snapshot(clf):
    return {name: value for name, value in vars(clf).items() if name != "callbacks"}


def test_an_interruption_leaves_the_committee_as_it_was(iris):
    clf = LMMCommittee(2, **QUICK).fit(iris.X[:, :2], iris.y)
    before = snapshot(clf)

    def ctrl_c(progress):
        if progress.iteration == 2:
            os.kill(os.getpid(), signal.SIGINT)

    clf.set_params(callbacks=ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(*iris)
    assert all(value is snapshot(clf)[name] for name, value in before.items())
    clf.set_params(n_hidden="auto")
    with pytest.raises(KeyboardInterrupt):
        clf.fit(*iris)
    assert clf.n_features_in_ == clf.model_.n_features == 2


def test_an_error_in_a_member_ends_all_and_changes_nothing(iris, monkeypatch):
    from maxplus.training.stages import warm_up

    clf = LMMCommittee(3, n_jobs=2, polish=None, **QUICK).fit(iris.X[:, :2], iris.y)
    before = snapshot(clf)
    kept, calls = warm_up._Run.kept, []

    def broken(run, model):
        hard = kept(run, model)
        calls.append(hard)
        if len(calls) == 2:
            hard.W1[0, 0] = np.inf
        return hard

    monkeypatch.setattr(warm_up._Run, "kept", broken)
    with pytest.raises(TrainingOverflowError, match="weights W1 left the range"):
        clf.fit(*iris)
    assert all(value is snapshot(clf)[name] for name, value in before.items())
