"""Model files of sums of terms: round trips, and refusals of damaged ones."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import maxplus
from file_mutations import mutations, write
from maxplus import LipschitzInterpolator
from maxplus.certify.margins import Margins
from maxplus.explain import contributions, shape_function
from maxplus.io import FileError
from maxplus.io.models import KIND, describe
from maxplus.models import AdditiveLMM
from sums import classifier, mapped_sum, random_sum, regressor

DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def assert_same_sum(got, expected):
    assert isinstance(got, AdditiveLMM)
    assert got.feature_map == expected.feature_map
    for own, other in zip(got.terms, expected.terms, strict=True):
        assert_array_equal(own.features, other.features, strict=True)
    weights = got.weights_by_name()
    for name, W in expected.weights_by_name().items():
        assert_array_equal(weights[name], W, strict=True)


@DTYPES
@pytest.mark.parametrize("is_mapped", [True, False])
def test_classifier_with_a_sum_round_trips(dtype, is_mapped, tmp_path):
    model, X = mapped_sum(dtype=dtype)
    if not is_mapped:
        model = random_sum(dtype=dtype)
    clf = classifier(model, X, ["a", "b", "c"])
    clf.save(tmp_path / "sum")
    again = maxplus.load(tmp_path / "sum")
    assert_same_sum(again.model_, model)
    assert_array_equal(again.model_.scores(X), model.scores(X), strict=True)
    for name in (
        "term_means_",
        "scale_",
        "unit_activation_counts_",
        "feature_importances_",
        "loss_curve_",
    ):
        assert_array_equal(getattr(again, name), getattr(clf, name), strict=True)
    assert again.temperature_ == clf.temperature_
    assert_array_equal(again.search_["candidates"], clf.search_["candidates"], strict=True)
    assert again.search_["chosen"] == 1
    assert_array_equal(again.search_["losses"], clf.search_["losses"], strict=True)
    assert not hasattr(again, "slope_")


@DTYPES
def test_regressor_with_a_sum_round_trips(dtype, tmp_path):
    model, X = mapped_sum(n_classes=2, dtype=dtype)
    reg = regressor(model, X)
    reg.save(tmp_path / "sum")
    again = maxplus.load(tmp_path / "sum")
    assert_same_sum(again.model_, model)
    assert_array_equal(again.bounds_, reg.bounds_, strict=True)
    assert_array_equal(again.residual_quantiles_, reg.residual_quantiles_)


def test_number_of_arrays_in_file_does_not_depend_on_terms(tmp_path):
    model, X = mapped_sum()
    many = AdditiveLMM.mean([model] * 40)
    few, lots = (describe(classifier(m, X))[1] for m in (model, many))
    assert few.keys() == lots.keys()
    clf = classifier(many, X)
    clf.save(tmp_path / "sum")
    assert_same_sum(maxplus.load(tmp_path / "sum").model_, many)


DAMAGE = {
    "no starts": ("model.feature_start", lambda A: A[:0], "'feature_start' does not divide"),
    "terms without units": ("model.unit_start", lambda A: 0 * A, "'unit_start' does not divide"),
    "huge start": ("model.unit_start", lambda A: A + 10**15, "'unit_start' does not divide"),
    "fewer terms with units": (
        "model.unit_start",
        lambda A: A[[*range(len(A) - 2), -1]],
        "not as many as those with units",
    ),
    "units moved": ("model.unit_start", lambda A: A - (np.arange(len(A)) == 8), "not as many as"),
    "features out of range": ("model.features", lambda A: A + 1, "increasing numbers 0..4"),
    "negative features": ("model.features", lambda A: A - 1, "increasing numbers 0..4"),
    "features of another type": ("model.features", lambda A: A * 1.0, "of another type"),
    "too many slopes": ("model.W0", lambda A: np.append(A, A), "W0 and W1 are not as many"),
    "too few walls": ("model.W1", lambda A: A[:-1], "W0 and W1 are not as many"),
    "weights of two types": ("model.W1", lambda A: A.astype(np.float32), "of another type"),
    "weights of halves": ("model.W0", lambda A: A.astype(np.float16), "of another type"),
    "no classes": ("model.W2", lambda A: A[:, :0], "C and the other sizes >= 1"),
    "another class": ("model.W2", lambda A: np.c_[A, A[:, 0]], "intercept must hold 4"),
    "weight NaN": ("model.W1", lambda A: np.append(A[1:], np.nan), "not all finite"),
    "large weights": ("model.W2", lambda A: A + 1e305, "so large that scores overflow"),
    "large intercept": ("model.intercept", lambda A: A + 1e305, "so large that scores overflow"),
    "intercept NaN": ("model.intercept", lambda A: A * np.nan, "3 finite numbers"),
    "no knots of a feature": (
        "model.knot_start",
        lambda A: np.where(np.arange(len(A)) == 1, 0, A),
        "does not divide",
    ),
    "knots in no order": ("model.knot_x", lambda A: -A, "must have increasing positions"),
    "knot infinite": ("model.knot_x", lambda A: A * np.inf, "must be finite"),
    "values in no order": ("model.knot_u", lambda A: -A, "do not decrease"),
    "values missing": ("model.knot_u", lambda A: A[:-1], "differ in length"),
    "large values": ("model.knot_u", lambda A: A * 1e306, "knots .* so large"),
    "distant knots": ("model.knot_x", lambda A: A * 1e305, "knots .* so large"),
    "term means of other terms": ("term_means", lambda A: A[1:], "'term_means' is not of shape"),
    "term means NaN": ("term_means", lambda A: A * np.nan, "'term_means' is not finite"),
    "no term means": ("term_means", lambda A: None, "term_means_ is missing"),
    "wins of other units": (
        "unit_activation_counts",
        lambda A: A[1:],
        "'unit_activation_counts' has shape",
    ),
}


def check_refused(folder, document, arrays, message):
    """Write a file and check that loading it fails with a message of one line."""
    write(folder / "damaged", KIND, document, arrays)
    with pytest.raises(FileError, match=message) as refusal:
        maxplus.load(folder / "damaged")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(("name", "change", "message"), DAMAGE.values(), ids=DAMAGE)
def test_load_refuses_damaged_sum(name, change, message, tmp_path):
    document, arrays = describe(classifier(*mapped_sum()))
    with np.errstate(invalid="ignore"):
        changed = change(arrays.pop(name))
    if changed is not None:
        arrays[name] = changed
    check_refused(tmp_path, document, arrays, message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bounds": np.array([1.0, 0.0])}, "'bounds' does not hold two finite numbers in order"),
        ({"bounds": np.array([0.0, np.inf])}, "'bounds' does not hold"),
        ({"bounds": np.zeros(3)}, "'bounds' has shape"),
        ({"bounds": np.zeros(2, np.float32)}, "'bounds' is missing or of another type"),
        ({}, "bounds_ is missing"),
    ],
)
def test_load_refuses_wrong_bounds(change, message, tmp_path):
    document, arrays = describe(regressor(*mapped_sum(n_classes=2)))
    del arrays["bounds"]
    check_refused(tmp_path, document, arrays | change, message)


def test_load_refuses_regression_with_three_outputs(tmp_path):
    document, arrays = describe(regressor(*mapped_sum(n_classes=2)))
    wide = describe(classifier(*mapped_sum(n_classes=3)))[1]
    arrays |= {name: A for name, A in wide.items() if name.startswith("model.")}
    check_refused(tmp_path, document, arrays, "cannot have 3 outputs")


def test_load_refuses_interpolator_with_a_sum(tmp_path):
    document, arrays = describe(regressor(*mapped_sum(n_classes=2)))
    document |= {
        "estimator": "LipschitzInterpolator",
        "parameters": {},
        "attributes": {"interpolates_": True, "lipschitz_": 1.0, "slope_": 1.0},
    }
    check_refused(tmp_path, document, arrays, "damaged")


def test_load_refuses_regressor_with_a_single_network(tmp_path):
    X = np.arange(5.0)[:, None]
    model = LipschitzInterpolator().fit(X, X[:, 0])
    document, arrays = describe(model)
    sum_document, sum_arrays = describe(regressor(*mapped_sum(n_classes=2)))
    document |= {name: sum_document[name] for name in ("estimator", "parameters", "attributes")}
    arrays |= {name: A for name, A in sum_arrays.items() if not name.startswith("model.")}
    check_refused(tmp_path, document, arrays, "damaged")


def test_load_refuses_sum_in_a_subgradient_classifier(tmp_path):
    document, arrays = describe(classifier(*mapped_sum()))
    document |= {"estimator": "SubgradientLMMClassifier", "parameters": {}}
    check_refused(tmp_path, document, arrays, "damaged")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"candidates": ["a"]}, "the chosen candidate cannot be 1"),
        ({"candidates": []}, "the candidates cannot be"),
        ({"candidates": [1, 2]}, "the candidates cannot be"),
        ({"losses": [[0.5], [0.5, 0.25]]}, "the losses of candidates cannot be"),
        ({"losses": [[], []]}, "the losses of candidates cannot be"),
        ({"losses": [[0.5], [float("nan")]]}, "the losses of candidates cannot be"),
        ({"scores": [[0.5]]}, "the scores of candidates cannot be"),
        ({"other": 1}, "what was searched cannot be"),
    ],
)
def test_load_refuses_invalid_search_results(change, message, tmp_path):
    document, arrays = describe(classifier(*mapped_sum()))
    document["search"] |= change
    check_refused(tmp_path, document, arrays, message)


def use(estimator, X, path):
    """Everything that is made of the model and its attributes."""
    model = estimator.model_
    assert np.isfinite(model.scores(X)).all()
    assert model.wins(X).shape == (model.n_hidden,)
    margins = Margins(model, X[:5], np.zeros(5, int), np.ones(model.n_features))
    assert not np.isnan(margins.lowest(np.arange(5), np.full(5, 0.1))).any()
    if hasattr(estimator, "classes_"):
        found = contributions(model, X[:3], estimator.term_means_)
        assert np.isfinite(found.contribution).all()
        str(found)
        shape_function(model, 0, estimator.term_means_)
    estimator.save(path)
    maxplus.load(path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classifier", "regressor", "without map"])
def test_mutated_sum_is_refused_or_loads_a_model_that_works(kind, tmp_path):
    model, X = mapped_sum(n_classes=2)
    if kind == "without map":
        model = random_sum(n_classes=2)
    estimator = (regressor if kind == "regressor" else classifier)(model, X)
    use(estimator, X, tmp_path / "whole")
    document, arrays = describe(estimator)
    refused = 0
    for what, changed, own in mutations(document, arrays):
        write(tmp_path / "mutated", KIND, changed, own)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                again = maxplus.load(tmp_path / "mutated")
            except FileError:
                refused += 1
                continue
            try:
                use(again, X, tmp_path / "again")
            except Exception as error:
                raise AssertionError(f"{what}: {error!r}") from error
    assert refused > 100
