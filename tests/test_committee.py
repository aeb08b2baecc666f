"""Committees: mean scores, their certificates, explanations, files and exports."""

import os
import signal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks
from typer.testing import CliRunner

import maxplus
from maxplus import LMMClassifier, LMMCommittee
from maxplus.certify import box_bounds, certified_at, certified_radius
from maxplus.cli.app import app
from maxplus.estimators.lmm_committee import bag
from maxplus.explain import Domain, explain_committee
from maxplus.io import FileError
from maxplus.models import LMM, LOG2, Committee
from maxplus.report.content import report_content
from maxplus.report.page import render_page
from maxplus.training.result import Status, TrainingOverflowError
from model_files import tamper
from strategies import DTYPES, SEEDS, grid_array, quick

QUICK = {"n_hidden": 9, "warmup_epochs": 3, "random_state": 0}
WORDS = np.array(["setosa", "versicolor", "virginica"])


def random_lmm(rng, P, H, C, M=None, dtype=np.float64, values=None):
    """Weights on a grid, so that sums are exact, or any; M directions, if a number is given."""
    draw = grid_array if values is None else values
    D = None if M is None else draw(rng, (M, P)).astype(dtype)
    rows = 2 * (P if M is None else M)
    W0, W1, W2 = (draw(rng, shape).astype(dtype) for shape in ((rows,), (rows, H), (H, C)))
    return LMM(W0, W1, W2, D)


@st.composite
def committees(draw, most=4):
    """Small committees whose members see features, or directions of their own, and some rows."""
    P, C, N, K = (draw(st.integers(low, most)) for low in (1, 2, 1, 1))
    rng = np.random.default_rng(draw(SEEDS))
    values = draw(st.sampled_from([grid_array, lambda rng, shape: rng.normal(size=shape)]))
    dtype = draw(DTYPES)
    members = [
        random_lmm(
            rng, P, draw(st.integers(1, 4)), C, draw(st.sampled_from([None, 1, 3])), dtype, values
        )
        for _ in range(K)
    ]  # fmt: skip
    return Committee(members), values(rng, (N, P)).astype(dtype)


@pytest.fixture(scope="module")
def flowers(iris):
    """A committee of three on the iris flowers with words for classes."""
    return LMMCommittee(3, **QUICK).fit(iris.X, WORDS[iris.y])


@pytest.fixture(scope="module")
def mixed(iris):
    """A committee whose members see different things: features, two sums, and three."""
    rng = np.random.default_rng(5)
    members = [random_lmm(rng, 4, H, 3, M) for H, M in ((5, None), (4, 2), (6, 3))]
    return Committee(members)


# -- the model --------------------------------------------------------------------------------


@given(committees())
@quick(60)
def test_scores_are_the_mean_in_the_order_of_the_members(case):
    committee, X = case
    expected = np.zeros((len(X), committee.n_classes), committee.dtype)
    for n in range(len(X)):
        for d in range(committee.n_classes):
            total = committee.members[0].scores(X)[n, d]
            for member in committee.members[1:]:
                total = total + member.scores(X)[n, d]
            expected[n, d] = total / total.dtype.type(len(committee.members))
    assert_array_equal(committee.scores(X), expected, strict=True)
    one = Committee(committee.members[:1])
    assert_array_equal(one.scores(X), committee.members[0].scores(X), strict=True)


@given(committees(), st.integers(0, 1))
@quick(40)
def test_a_loss_is_at_most_the_mean_of_the_members(case, label):
    committee, X = case
    y = np.full(len(X), label)
    most = np.mean([member.losses(X, y) for member in committee.members], axis=0)
    assert (committee.losses(X, y) <= most + 1e-5 * (1 + most)).all()


def test_members_must_fit_each_other():
    rng = np.random.default_rng(0)
    one = random_lmm(rng, 3, 4, 2)
    with pytest.raises(ValueError, match="at least one member"):
        Committee([])
    with pytest.raises(ValueError, match="the same n_features; got 3, 2"):
        Committee([one, random_lmm(rng, 2, 4, 2)])
    with pytest.raises(ValueError, match="the same n_classes; got 2, 3"):
        Committee([one, random_lmm(rng, 3, 4, 3)])
    with pytest.raises(ValueError, match="the same dtype; got float64, float32"):
        Committee([one, one.astype(np.float32)])


def test_affine_maps_and_factors_go_into_the_members(mixed, iris):
    centre, spread = iris.X.mean(axis=0), iris.X.std(axis=0)
    Z = mixed.scores((iris.X - centre) / spread)
    assert_allclose(mixed.folded(centre, spread).scores(iris.X), Z, atol=1e-10)
    D = np.diag(1 / spread)
    assert_allclose(mixed.through(D, centre).scores(iris.X), Z, atol=1e-10)
    assert_array_equal(mixed.scaled(2.0).scores(iris.X), 2.0 * mixed.scores(iris.X))
    assert mixed.astype(np.float32).dtype == np.float32
    assert mixed.n_hidden == 15
    assert mixed.first_units.tolist() == [0, 5, 9, 15]
    expected = [member.wins(iris.X) for member in mixed.members]
    assert_array_equal(mixed.wins(iris.X), np.concatenate(expected))
    assert len(mixed.weights_by_name()) == 3 * 3 + 2
    assert mixed.weights_by_name()["2.W1"] is mixed.members[2].W1


# -- certificates -----------------------------------------------------------------------------


@given(committees(), st.sampled_from([0.0, 0.25, 1.0]), SEEDS)
@quick(80)
def test_bounds_are_means_of_the_members_and_hold(case, eps, seed):
    committee, X = case
    rng = np.random.default_rng(seed)
    scale = rng.choice([0.0, 0.5, 2.0], size=X.shape[1])
    low, high = box_bounds(committee, X, eps, scale)
    own = [box_bounds(member, X, eps, scale) for member in committee.members]
    for side, sign, found in ((0, 1, low), (1, -1, high)):
        for n, d in np.ndindex(*found.shape):
            mean = sum(Fraction(bounds[side][n, d]) for bounds in own) / len(own)
            # Outside the mean of the members' bounds, by no more than rounding.
            assert 0 <= sign * (mean - Fraction(found[n, d])) <= 1e-4 * (1 + abs(mean))
    for _ in range(20):
        steps = eps * scale * rng.choice([-1.0, 1.0, rng.uniform(-1, 1)], size=X.shape)
        Z = committee.scores(np.nextafter((X + steps).astype(X.dtype), X))
        assert (low <= Z).all()
        assert (high >= Z).all()


def attack(model, X, radius, rng, rounds=30):
    """Whether a point in some row's box is classified differently: corners, and greedy walks."""
    y, rows = model.scores(X).argmax(axis=1), np.arange(len(X))
    best = X.copy()

    def lead(points):
        Z = model.scores(points).astype(float)
        own = Z[rows, y]
        Z[rows, y] = -np.inf
        return own - Z.max(axis=1)

    low, high = X - radius[:, None], X + radius[:, None]
    for _ in range(rounds):
        corner = np.where(rng.random(X.shape) < 0.5, low, high)
        walk = np.where(rng.random(X.shape) < 0.3, corner, best)
        for points in (corner, walk):
            better = lead(points) < lead(best)
            best[better] = points[better]
    return model.scores(best).argmax(axis=1) != y


@pytest.mark.parametrize("bagging", [False, True])
def test_no_attack_inside_the_radius(iris, bagging):
    X, rng = iris.X.astype(np.float32), np.random.default_rng(0)
    clf = LMMCommittee(3, bagging=bagging, **QUICK).fit(X, iris.y)
    radius = clf.certified_radius(X)
    assert (radius > 0).mean() > 0.9
    inside = np.nextafter(radius.astype(np.float32), np.float32(0))
    assert not attack(clf.model_, X, inside, rng).any()
    assert certified_at(clf.model_, X, radius).all()
    assert not certified_at(clf.model_, X, radius * (1 + 1e-5)).any()
    # An attack that finds nothing anywhere would prove nothing.
    assert attack(clf.model_, X, 20 * inside, rng).mean() > 0.5


def test_certificates_hold_for_members_that_see_different_sums(mixed, iris):
    radius = certified_radius(mixed, iris.X)
    certain = radius > 0
    assert certain.mean() > 0.9
    rng = np.random.default_rng(1)
    assert not attack(mixed, iris.X[certain], 0.999999 * radius[certain], rng).any()
    assert attack(mixed, iris.X, 30 * radius, rng).mean() > 0.3


def test_certified_accuracy(flowers, iris):
    shares = flowers.certify(iris.X, WORDS[iris.y], [0.0, 0.05, 5.0])
    right = flowers.predict(iris.X) == WORDS[iris.y]
    assert shares[0] == right.mean()
    assert shares[1] == (right & certified_at(flowers.model_, iris.X, 0.05)).mean()
    assert shares[0] >= shares[1] > 0.5 > shares[2]


# -- training ---------------------------------------------------------------------------------


def test_scores_probabilities_and_labels_are_the_committees(flowers, iris):
    Z = Committee.mean([member.decision_function(iris.X) for member in flowers.members_])
    assert_array_equal(flowers.decision_function(iris.X), Z)
    assert_array_equal(flowers.predict(iris.X), WORDS[Z.argmax(axis=1)])
    assert_allclose(flowers.predict_proba(iris.X).sum(axis=1), 1.0)
    assert flowers.score(iris.X, WORDS[iris.y]) > 0.93
    assert flowers.estimators_ is flowers.members_
    assert flowers.n_hidden_ == 27
    for member, network in zip(flowers.members_, flowers.model_.members, strict=True):
        assert type(member) is LMMClassifier
        assert member.model_ is network
        assert member.slope_ == flowers.slope_
        assert_array_equal(member.classes_, flowers.classes_)
    W1 = [member.W1_ for member in flowers.members_]
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
    assert calls == [9, 9]
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


# -- afterwards: folding, pruning, units ------------------------------------------------------


def test_folding_takes_the_members_along(iris):
    centre, spread = iris.X.mean(axis=0), iris.X.std(axis=0)
    clf = LMMCommittee(2, **QUICK).fit((iris.X - centre) / spread, iris.y)
    Z = clf.decision_function((iris.X - centre) / spread)
    own = clf.members_[0].decision_function((iris.X - centre) / spread)
    clf.fold(centre, spread, iris.X)
    assert_allclose(clf.decision_function(iris.X), Z, atol=1e-10)
    assert_allclose(clf.members_[0].decision_function(iris.X), own, atol=1e-10)
    assert clf.members_[0].model_ is clf.model_.members[0]
    assert_array_equal(clf.training_losses_, clf.model_.losses(*iris))
    before = clf.model_
    with pytest.raises(ValueError, match="spread must be finite"):
        clf.fold(0.0, 0.0)
    assert clf.model_ is before


def test_pruning_changes_no_score_of_a_training_row(iris):
    """Also where a member has not been trained on the row."""
    clf = LMMCommittee(3, bagging=True, **QUICK | {"n_hidden": 60}).fit(*iris)
    before = clf.decision_function(iris.X)
    pruned = clf.prune()
    assert pruned.dropped > 0
    assert pruned.dropped + pruned.left == 180
    assert clf.n_hidden_ == pruned.left == clf.unit_wins_.size
    assert_array_equal(clf.decision_function(iris.X), before)
    assert clf.members_[2].model_ is clf.model_.members[2]
    assert_array_equal(clf.unit_wins_, clf.model_.wins(iris.X))


def test_units_are_numbered_through(flowers):
    table = flowers.units(level=-1.0)
    assert list(table.columns[:2]) == ["member", "unit"]
    assert_array_equal(table["unit"].unique(), np.arange(27))
    own = table[table["member"] == 2]
    alone = flowers.members_[2].units(level=-1.0)
    assert_array_equal(own["unit"] - 18, alone["unit"])
    assert_array_equal(own["low"], alone["low"])


# -- explanations -----------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["flowers", "mixed"])
def test_every_member_score_is_its_box(request, iris, which):
    model = request.getfixturevalue(which)
    model = model.model_ if which == "flowers" else model
    why = explain_committee(model, iris.X, list(WORDS), Domain.free(4, names=list("abcd")))
    first = model.first_units
    for k, (member, own) in enumerate(zip(model.members, why.members, strict=True)):
        unit = own.paths.unit - first[k]
        lam = np.take_along_axis(own.views, own.paths.view, 1) * own.slopes[own.paths.row]
        z = lam + member.W1[own.paths.row, unit] + member.W2[unit, np.arange(3)]
        assert_allclose(z, member.scores(iris.X), atol=1e-9)
    Z = model.scores(iris.X)
    assert_array_equal(why.score, Z)
    assert_array_equal(why.predicted, Z.argmax(axis=1))
    ranked = np.sort(Z, axis=1)
    assert_allclose(why.weight.sum(axis=1), ranked[:, -1] - ranked[:, -2], atol=1e-9)
    scores = np.stack([member.scores(iris.X) for member in model.members])
    assert_array_equal(why.leader, scores.argmax(axis=0))
    for n, d in ((0, 0), (70, 2), (149, 1)):
        own = why.members[why.leader[n, d]]
        assert why.paths.unit[n, d] == own.paths.unit[n, d]
        assert why.paths.row[n, d] == own.paths.row[n, d]


def test_an_explanation_can_be_read(flowers, iris):
    why = flowers.explain(iris.X[[0, 70]], feature_names=["sl", "sw", "pl", "pw"])
    assert len(why) == 2
    text = why.text(1)
    assert text == str(why).split("\n\n")[1]
    lines = text.splitlines()
    assert lines[0].startswith(f"Row 2: {flowers.predict(iris.X[[70]])[0]} (probability 0.")
    assert len(lines) == 1 + 3 + 1 + 3 + 1
    # Members come by weight.
    weights = [float(line.split()[0]) for line in lines[-4:-1]]
    assert weights == sorted(weights, reverse=True)
    assert f"by member {why.weight[1].argmax()}: " in lines[-4]
    assert lines[-1].startswith("  flips to ")
    table = why.to_table()
    assert len(table) == 2 * 3 * 3
    record = table[(table["row"] == 1) & (table["class"] == "virginica") & (table["member"] == 2)]
    assert (
        record["member_score"].item() == flowers.members_[2].decision_function(iris.X[[70]])[0, 2]
    )
    assert record["score"].item() == flowers.decision_function(iris.X[[70]])[0, 2]
    assert record["feature"].item() in ("sl", "sw", "pl", "pw")
    with pytest.raises(ValueError, match="class_names must name the 3 classes"):
        flowers.explain(iris.X, class_names=["a"])
    with pytest.raises(ValueError, match="feature_names must name 4 features; got 1"):
        flowers.explain(iris.X, feature_names=["a"])


def test_what_flips_a_committee_flips_it(flowers, iris):
    why = flowers.explain(iris.X[::10], fixed=[3])
    flips = why.flips
    found = np.flatnonzero(flips.feature >= 0)
    assert found.size > 5
    assert not (flips.feature == 3).any()
    for n in found:
        for value in (flips.value[n], flips.shown[n]):
            x = why.X[n].copy()
            x[flips.feature[n]] = value
            assert flowers.predict(x[None])[0] == WORDS[flips.becomes[n]]
    # Nothing flips inside the certified radius of the same unit.
    radius = flowers.certified_radius(why.X, flowers.scale_)
    assert (flips.distance[found] >= 0.999 * radius[found]).all()
    table = why.to_records()
    assert set(table["flip_class"]) <= {"", *WORDS}
    with pytest.raises(ValueError, match="not known for committees"):
        flowers.smallest_change(iris.X[0])


def test_the_report_page(flowers, iris):
    content = report_content(flowers, iris.X, WORDS[iris.y], name="flowers")
    assert content["model"]["n_members"] == 3
    row = content["rows"][0]
    assert row["flip"]["becomes"] in ("versicolor", "virginica")
    best = row["classes"][0]
    assert best["class"] == "setosa"
    assert best["score"] == flowers.decision_function(iris.X[:1])[0, 0]
    page = render_page(content)
    assert "A committee of 3 Linear-Min-Max classifiers with" in page
    assert "the mean of 3 members" in page


def test_the_report_of_images_draws_the_leading_units(few_digits):
    clf = LMMCommittee(2, **QUICK | {"n_hidden": 10}).fit(*few_digits)
    content = report_content(
        clf, few_digits.X[:20], few_digits.y[:20], name="digits", image_shape=(8, 8)
    )
    units = {str(entry["unit"]) for row in content["rows"] for entry in row["classes"]}
    assert units == set(content["units"])
    assert max(int(unit) for unit in units) >= 10
    from maxplus.plots import plot_explanation

    figure = plot_explanation(clf.explain(few_digits.X[:1]), 0, (8, 8))
    assert len(figure.axes) == 6


# -- files ------------------------------------------------------------------------------------


def test_a_file_holds_all_of_a_committee(tmp_path, iris):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(iris.X.astype(np.float32), columns=list("abcd"))
    weight = np.ones(150)
    weight[3] = 0.0
    clf = LMMCommittee(2, warmup_epochs=4, random_state=0).fit(X, WORDS[iris.y], weight)
    clf.save(tmp_path / "model")
    again = maxplus.load(tmp_path / "model")
    assert type(again) is LMMCommittee
    assert again.get_params() == clf.get_params()
    assert {*vars(again)} == {*vars(clf)} - {"_rng"}
    assert_array_equal(again.predict_proba(X), clf.predict_proba(X), strict=True)
    assert_array_equal(again.certified_radius(X), clf.certified_radius(X))
    assert_array_equal(again.training_losses_, clf.training_losses_)
    assert str(again.explain(X[:2])) == str(clf.explain(X[:2]))
    assert_array_equal(again.search_["losses"], clf.search_["losses"])
    for mine, other in zip(again.members_, clf.members_, strict=True):
        assert {*vars(mine)} == {*vars(other)}
        assert_array_equal(mine.W1_, other.W1_)
        assert_array_equal(mine.training_losses_, other.training_losses_)
        assert mine.model_.dtype == np.float32
    again.prune()
    again.save(tmp_path / "model")
    assert maxplus.load(tmp_path / "model").n_hidden_ == again.n_hidden_


@pytest.fixture(scope="module")
def saved(flowers, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model"
    flowers.save(path)
    return path.read_bytes()


DAMAGE = {
    "no members": lambda d, a: d.update(members=[]),
    "members": lambda d, a: d.update(members="three"),
    "missing members": lambda d, a: d.pop("members"),
    "a member": lambda d, a: d["members"].__setitem__(1, 7),
    "a member's kind": lambda d, a: d["members"][0].update(estimator="LMMRegressor"),
    "a committee inside": lambda d, a: d["members"][0].update(estimator="LMMCommittee"),
    "a member's parameter": lambda d, a: d["members"][0]["parameters"].update(n_hidden=-1),
    "a member's fact": lambda d, a: d["members"][2]["facts"].update(n_iter_=-1),
    "a member's classes": lambda d, a: d["members"][2]["classes"].update(values=list("abc")),
    "a member's features": lambda d, a: d["members"][2].update(n_features=5),
    "a member's names": lambda d, a: d["members"][2].update(feature_names=list("abcd")),
    "a member's weights": lambda d, a: a.pop("member.1.model.W1"),
    "a member's shape": lambda d, a: a.update(
        {"member.1.model.W2": a["member.1.model.W2"][:-1]}
    ),
    "a member's type": lambda d, a: a.update(
        {n: a[n].astype(np.float32) for n in a if n.startswith("member.1.model.")}
    ),
    "a member's NaN": lambda d, a: a["member.0.model.W1"].__setitem__((0, 0), np.nan),
    "a member's labels": lambda d, a: a["member.0.training.labels"].__setitem__(0, 2),
    "a member's losses": lambda d, a: a.pop("member.0.training.losses"),
    "a member's wins": lambda d, a: a["member.0.unit_wins"].__setitem__(0, 1 << 40),
    "a member's suspects": lambda d, a: a.update({"member.0.suspects": np.array([150])}),
    "wins": lambda d, a: a.update(unit_wins=a["unit_wins"][:-1]),
    "missing wins": lambda d, a: a.pop("unit_wins"),
    "n_members": lambda d, a: d["parameters"].update(n_members=0),
    "bagging": lambda d, a: d["parameters"].update(bagging="yes"),
    "temperature": lambda d, a: d["facts"].update(temperature_=-1.0),
    "classes": lambda d, a: d["classes"].update(values=list("abc")),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_every_damaged_field_is_refused(tmp_path, saved, damage):
    path = tmp_path / "model"
    path.write_bytes(saved)
    tamper(path, DAMAGE[damage])
    with pytest.raises(FileError, match="is damaged"):
        maxplus.load(path)


# -- exports ----------------------------------------------------------------------------------


def run_onnx(path, X):
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {"X": X})


def with_model(flowers, model):
    """A committee classifier with another committee's networks."""
    clf = clone(flowers)
    clf.__dict__ |= vars(flowers) | {"model_": model}
    return clf


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("which", ["flowers", "mixed", "one"])
def test_one_onnx_graph_has_the_mean_score(request, tmp_path, flowers, iris, dtype, which):
    pytest.importorskip("onnx", reason="onnx is not installed")
    model = request.getfixturevalue("mixed") if which == "mixed" else flowers.model_
    model = Committee(model.members[:1]) if which == "one" else model
    clf = with_model(flowers, model.astype(dtype))
    maxplus.export_onnx(clf, tmp_path / "m.onnx")
    X = iris.X.astype(dtype)
    labels, probabilities = run_onnx(tmp_path / "m.onnx", X)
    assert probabilities.dtype == dtype
    assert_allclose(
        probabilities, clf.predict_proba(X), atol=1e-5 if dtype == np.float32 else 1e-12
    )
    certain = np.sort(probabilities, axis=1)[:, -2:] @ [-1, 1] > 1e-5
    assert certain.mean() > 0.8
    assert_array_equal(np.array(labels)[certain], clf.predict(X)[certain])


@pytest.mark.parametrize("which", ["flowers", "mixed"])
def test_a_torch_module_has_the_mean_score(request, flowers, iris, which):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    model = request.getfixturevalue("mixed") if which == "mixed" else flowers.model_
    network = maxplus.to_torch(with_model(flowers, model))
    scores = network(torch.tensor(iris.X))
    if which == "flowers" and all(member.directions is None for member in model.members):
        assert_array_equal(scores.detach().numpy(), model.scores(iris.X))
    else:
        assert_allclose(scores.detach().numpy(), model.scores(iris.X), atol=1e-10)
    assert_allclose(
        network.probabilities(torch.tensor(iris.X)).detach().numpy(),
        model.probabilities(iris.X), atol=1e-10,
    )  # fmt: skip
    scores.sum().backward()
    assert all(member.minplus.weight.grad is not None for member in network.members)


# -- scikit-learn -----------------------------------------------------------------------------

REPEATED = "clusters begin at random samples; repeated ones change them"


# A check sets n_iter_no_change whether or not that counts.
@pytest.mark.filterwarnings("ignore::maxplus.estimators.NoEffectWarning")
@pytest.mark.slow
@parametrize_with_checks(
    [LMMCommittee(2, n_hidden=12, warmup_epochs=8)],
    expected_failed_checks=lambda _: {
        f"check_sample_weight_equivalence_on_{kind}_data": REPEATED for kind in ("dense", "sparse")
    },
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("command", ["evaluate", "explain", "certify", "predict", "report"])
def test_commands_take_a_committee(flowers, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    flowers.save("model")
    done = CliRunner().invoke(app, [command, "model", "iris"])
    assert done.exit_code == 0, done.output


def test_huge_inputs_do_not_overflow(flowers):
    X = np.full((1, 4), 1e300)
    assert np.isfinite(flowers.decision_function(X)).all()
    assert np.isfinite(flowers.decision_function(-X)).all()
