"""`LMMClassifier(robust_eps=...)`: parameters, data frames, certificates and saved files."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits

import maxplus
from maxplus import LMMClassifier, LMMEnsembleClassifier
from maxplus.certify import certified_at
from maxplus.estimators import NoEffectWarning
from maxplus.models import LMM, AdditiveLMM

QUICK = {"robust_training": 1.5, "structure": "shapes", "warmup_epochs": 15, "random_state": 0}
# With a search over factors and the constant.
CHOSEN = QUICK | {"robust_training": "auto", "structure": "auto"}


def blobs(n=160, seed=0):
    """An informative and a weakly informative feature, in units of 1 and 100."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = np.column_stack([2.0 * y + 0.4 * rng.normal(size=n), 5.0 * y + 100 * rng.random(n)])
    return X, y


@pytest.fixture(scope="module")
def fitted():
    return LMMClassifier(robust_eps=0.3, **CHOSEN).fit(*blobs())


def test_certified_accuracy_is_at_least_that_of_the_default_training():
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, :4]
    train, test = slice(0, None, 2), slice(1, None, 2)
    robust = LMMClassifier(robust_eps=0.4, robust_training=1.5, random_state=0)
    robust.fit(X[train], y[train])
    plain = LMMClassifier(random_state=0).fit(X[train], y[train])
    own = robust.certified_accuracy(X[test], y[test])
    assert own >= plain.certified_accuracy(X[test], y[test], 1.0, robust.robust_eps_)
    assert own >= np.bincount(y[test]).max() / len(y[test])


def test_fitted_attributes(fitted):
    X, y = blobs(seed=1)
    assert isinstance(fitted.model_, AdditiveLMM)
    assert_allclose(fitted.robust_eps_, 0.3 * fitted.scale_)
    assert_array_equal(fitted.robust_eps_, 0.3 * fitted.certificate_scale())
    right = fitted.predict(X) == y
    share = (right & certified_at(fitted.model_, X, 1.0, fitted.robust_eps_)).mean()
    assert fitted.certified_accuracy(X, y) == share > 0.8
    assert fitted.certified_accuracy(X, y, 0.3, fitted.scale_) == pytest.approx(share, abs=0.02)
    radius = fitted.certified_radius(X, fitted.robust_eps_)
    assert (right & (radius >= 1.0)).mean() == pytest.approx(share, abs=0.01)
    search = fitted.search_
    assert search["candidates"][-1] == "a constant"
    assert search["losses"].shape == search["scores"].shape == (5, 5)
    assert search["chosen"] == search["scores"].mean(axis=1).argmax()


def test_robust_eps_array_has_one_number_per_feature():
    X, y = blobs()
    clf = LMMClassifier(robust_eps=[0.5, 0.0], **QUICK).fit(X, y)
    assert_array_equal(clf.robust_eps_, [0.5 * clf.scale_[0], 0.0])
    with pytest.raises(
        ValueError, match=r"number for each of the 2 features; got an array of shape"
    ):
        LMMClassifier(robust_eps=[0.5, 0.0, 1.0], **QUICK).fit(X, y)


def test_robust_eps_dict_uses_the_units_of_the_columns():
    X, y = blobs()
    frame = pd.DataFrame(X, columns=["age", "income"])
    clf = LMMClassifier(robust_eps={"age": 0.5}, **QUICK).fit(frame, y)
    assert_array_equal(clf.robust_eps_, [0.5, 0.0])
    assert clf.certified_accuracy(frame, y) > 0.8
    with pytest.raises(
        ValueError,
        match="has the column 'aeg', which does not exist; X has the columns age, income",
    ):
        clone(clf).set_params(robust_eps={"aeg": 1}).fit(frame, y)
    with pytest.raises(ValueError, match="X has no column names; pass a data frame"):
        clone(clf).fit(X, y)


def test_categorical_columns_of_a_frame_do_not_change():
    X, y = blobs()
    frame = pd.DataFrame({"word": np.where(np.arange(len(y)) % 3, "a", "b"), "age": X[:, 0]})
    clf = LMMClassifier(robust_eps={"age": 0.5}, **QUICK).fit(frame, y)
    names = clf.encoder_.feature_names
    assert clf.robust_eps_[names.index("age")] == 0.5
    assert clf.robust_eps_.sum() == 0.5
    assert clf.certified_accuracy(frame, y) > 0.8
    scaled = clone(clf).set_params(robust_eps=0.2).fit(frame, y)
    assert_allclose(scaled.robust_eps_, 0.2 * scaled.certificate_scale())
    with pytest.raises(ValueError, match="'word', which holds categories; set it to 'any'"):
        clone(clf).set_params(robust_eps={"word": 1}).fit(frame, y)
    with pytest.raises(ValueError, match="'age', which holds numbers; set it to a number"):
        clone(clf).set_params(robust_eps={"age": "any"}).fit(frame, y)


def frame_of_categories(n=240, seed=0):
    rng = np.random.default_rng(seed)
    colour, size = rng.integers(0, 3, n), rng.integers(0, 4, n)
    age = rng.uniform(0, 10, n)
    y = (age + 2.0 * (colour == 1) + 0.5 * size > 6.0).astype(int)
    frame = pd.DataFrame(
        {
            "colour": np.array(["red", "green", "blue"])[colour],
            "age": age,
            "size": pd.Categorical.from_codes(size, ["S", "M", "L", "XL"], ordered=True),
        }
    )
    return frame, y


def test_any_category_may_change_in_certified_training():
    frame, y = frame_of_categories()
    options = {"robust_eps": {"age": 0.5, "colour": "any", "size": "any"}, **QUICK}
    clf = LMMClassifier(**options).fit(frame, y)
    radius = dict(zip(clf.encoder_.feature_names, clf.robust_eps_, strict=True))
    assert radius["age"] == 0.5
    assert radius["size"] == 3.0
    assert [radius[f"colour = {name}"] for name in ("blue", "green", "red")] == [1.0] * 3
    certified = clf.is_certified(frame)
    assert certified.any()
    # The box contains all combinations of categories.
    predicted = clf.predict(frame)
    for colour in ("red", "green", "blue"):
        for size in ("S", "M", "L", "XL"):
            moved = frame.assign(
                colour=colour, size=pd.Categorical([size] * len(y), ["S", "M", "L", "XL"])
            )
            assert_array_equal(clf.predict(moved)[certified], predicted[certified])


def test_joint_certificates_cover_numbers_and_one_category():
    frame, y = frame_of_categories()
    clf = LMMClassifier(structure="shapes", warmup_epochs=20, random_state=0).fit(frame, y)
    scale = np.array([float(name == "age") for name in clf.encoder_.feature_names])
    alone = clf.is_certified(frame, 0.4, scale)
    joint = clf.is_certified(frame, 0.4, scale, change_one_of=["colour", "size"])
    assert joint.any()
    assert not (joint & ~alone).any()
    assert (joint != alone).any()
    predicted, ages = clf.predict(frame), np.linspace(-0.4, 0.4, 9)
    changes = [("colour", name) for name in ("red", "green", "blue")]
    changes += [("size", name) for name in ("S", "M", "L", "XL")]
    flips = np.zeros(len(y), int)
    for column, value in changes:
        for step in ages:
            same = [value] * len(y)
            values = pd.Categorical(same, ["S", "M", "L", "XL"]) if column == "size" else same
            moved = frame.assign(age=frame["age"] + step, **{column: values})
            flips += clf.predict(moved) != predicted
    assert not flips[joint].any()
    # Rows that lose their certificate are flipped by one of these changes, or nearly so.
    assert (flips[alone & ~joint] > 0).mean() > 0.5
    correct = predicted == y
    assert clf.certified_accuracy(
        frame, y, 0.4, scale, change_one_of=["colour", "size"]
    ) == pytest.approx((joint & correct).mean())
    for column in ("age", "weight"):
        with pytest.raises(ValueError, match=f"change_one_of contains '{column}', which is not a"):
            clf.is_certified(frame, 0.4, scale, change_one_of=[column])
    with pytest.raises(ValueError, match="eps must be a finite number >= 0; got"):
        clf.is_certified(frame, [0.1, 0.2], scale)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"robust_eps": [0.1, 0.1], "n_hidden": 9}, "robust_eps must be a number for a single"),
        ({"scoring": "certified"}, "scoring='certified' requires robust_eps above 0"),
        ({"robust_eps": 0.1, "monotonic_cst": [1, 0]}, "remove one of them"),
    ],
)
def test_invalid_combinations_of_parameters_raise(options, message):
    with pytest.raises(ValueError, match=message):
        LMMClassifier(**options).fit(*blobs(20))


def test_ensemble_rejects_certified_training_of_sums():
    with pytest.raises(ValueError, match="an ensemble does not support; set n_hidden"):
        LMMEnsembleClassifier(LMMClassifier(robust_eps=0.1)).fit(*blobs(20))


@pytest.mark.parametrize("options", [{"max_features": 1}, {"scoring": "roc_auc"}])
def test_parameters_without_effect_cause_a_warning(options):
    with pytest.warns(NoEffectWarning, match="has no effect unless robust_eps is 0"):
        LMMClassifier(robust_eps=0.1, **QUICK, **options).fit(*blobs(60))


def test_n_hidden_selects_a_single_network_trained_with_a_margin():
    clf = LMMClassifier(8, robust_eps=0.1, warmup_epochs=3, random_state=0).fit(*blobs())
    assert isinstance(clf.model_, LMM)
    assert not hasattr(clf, "robust_eps_")
    with pytest.raises(ValueError, match="eps is required, unless"):
        clf.certified_accuracy(*blobs())


def test_raw_units_and_clip_levels():
    X, y = blobs()
    options = QUICK | {"standardize": False, "clip": ((-2.0, 0.5), (1.5, 4.0))}
    clf = LMMClassifier(robust_eps=0.4, scoring="certified", **options).fit(X, y)
    assert_array_equal(clf.robust_eps_, [0.4, 0.4])
    x, u = clf.model_.feature_map.knots(0)
    assert_array_equal(x, [-2.0, 0.5, 1.5, 4.0])
    assert_array_equal(u, [-0.5, 0.0, 0.0, 0.5])


def test_saved_classifier_equals_the_original(fitted, tmp_path):
    X, y = blobs(seed=1)
    options = {"robust_eps": np.array([0.2, 0.1]), "clip": ((-2.0, 0.5), (1.5, 200.0))}
    for clf in (fitted, clone(fitted).set_params(**options).fit(X, y)):
        clf.save(tmp_path / "model")
        again = maxplus.load(tmp_path / "model")
        assert_array_equal(again.robust_eps_, clf.robust_eps_)
        assert_array_equal(again.decision_function(X), clf.decision_function(X))
        assert again.certified_accuracy(X, y) == clf.certified_accuracy(X, y)
        assert again.clip == clf.clip
        assert_array_equal(again.robust_eps, clf.robust_eps)
        again.set_params(n_jobs=1).fit(X, y)


def test_fold_scales_robust_eps(fitted):
    X, y = blobs()
    folded = clone(fitted).fit((X - 3.0) / [2.0, 10.0], y)
    before = folded.certified_accuracy((X - 3.0) / [2.0, 10.0], y)
    radius = folded.robust_eps_
    folded.fold(3.0, [2.0, 10.0])
    assert_allclose(folded.robust_eps_, radius * [2.0, 10.0])
    assert folded.certified_accuracy(X, y) == pytest.approx(before, abs=0.02)


def test_constant_is_chosen_if_nothing_can_be_certified():
    rng = np.random.default_rng(0)
    X, y = rng.random((90, 3)), np.repeat([0, 1, 1], 30)
    clf = LMMClassifier(robust_eps=2.0, **CHOSEN).fit(X, y)
    assert clf.search_["chosen"] == len(clf.search_["candidates"]) - 1
    assert_array_equal(clf.predict(X), 1)
    assert clf.certified_accuracy(X, y) == pytest.approx(2 / 3)
    assert_allclose(clf.predict_proba(X)[:, 1], 2 / 3, atol=0.01)
    assert np.isinf(clf.certified_radius(X)).all()


def test_square_images_are_trained_with_windows():
    X, y = load_digits(return_X_y=True)
    few = y < 2
    X, y = X[few][:150], y[few][:150]
    options = {"robust_eps": 2.0, "clip": (6.0, 10.0), "robust_training": 1.0}
    clf = LMMClassifier(**options, warmup_epochs=10, random_state=0).fit(X, y)
    assert {term.features.size for term in clf.model_.terms} == {16}
    assert clf.certified_accuracy(X, y) > 0.9
    assert not hasattr(clf, "search_")


@pytest.mark.slow
def test_million_attacks_change_no_certified_prediction():
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, :4]
    clf = LMMClassifier(robust_eps=0.4, **CHOSEN).fit(X[::2], y[::2])
    rows = X[certified_at(clf.model_, X, 1.0, clf.robust_eps_)]
    own, rng = clf.predict(rows), np.random.default_rng(0)
    assert np.unique(own).size == 2
    n_attacks = 0
    while n_attacks < 1_000_000:
        # Ends of intervals, where piecewise-linear scores are extreme, and points between them.
        move = rng.uniform(-1.0, 1.0, (50, *rows.shape))
        move = np.where(rng.random(move.shape) < 0.6, np.sign(move), move)
        moved = rows + move * clf.robust_eps_
        found = clf.predict(moved.reshape(-1, X.shape[1])).reshape(len(move), -1)
        assert_array_equal(found, np.broadcast_to(own, found.shape))
        n_attacks += found.size
