"""Explanations of classifiers: tables, texts and validation of arguments."""

import re
import sys

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from clinics import patients, prepared, trained
from explained import FLOWERS, MEASURES, flips_within, path_of
from maxplus import LMMClassifier, SubgradientLMMClassifier
from maxplus.explain import Explanation, nearest_counterfactuals

pytestmark = pytest.mark.slow

FIELDS = [
    *("row", "class", "predicted", "score", "probability", "unit", "prototype", "feature"),
    *("value", "slope", "cancels", "runner_up", "margin"),
    *("counterfactual_feature", "counterfactual_from", "counterfactual_to"),
    *("counterfactual_value", "counterfactual_distance", "counterfactual_class"),
]


@pytest.fixture(scope="module")
def why(fitted, iris):
    return fitted.explain(iris.X[::10], class_names=FLOWERS, feature_names=MEASURES)


def check_records(clf, X, explanation, classes, features):
    """Assert that every field of every record equals the oracle."""
    records = explanation.to_records()
    assert records.dtype.names == tuple(FIELDS)
    assert len(records) == len(X) * len(classes)
    model, proba = clf.model_, clf.predict_proba(X)
    winners = clf.predict(X)
    prototypes = getattr(clf, "prototypes_", np.full(model.n_hidden, -1))
    flips = nearest_counterfactuals(model, X)
    for k, record in enumerate(records):
        n, d = divmod(k, len(classes))
        score, unit, row, runner_up, margin = path_of(X[n], model, d)
        assert record["row"] == n
        assert record["class"] == classes[d]
        assert record["predicted"] == (clf.classes_[d] == winners[n])
        np.testing.assert_allclose(record["score"], score, rtol=1e-12)
        np.testing.assert_allclose(record["probability"], proba[n, d], rtol=1e-12)
        assert record["unit"] == unit
        assert record["prototype"] == prototypes[unit]
        assert record["feature"] == features[row // 2]
        assert record["value"] == X[n, row // 2]
        assert record["slope"] == model.W0[row]
        assert record["runner_up"] == runner_up
        np.testing.assert_allclose(record["margin"], margin, atol=1e-12)
        if flips.feature[n] < 0:
            assert (record["counterfactual_feature"], record["counterfactual_class"]) == ("", "")
            assert np.isnan(record["counterfactual_value"])
        else:
            assert record["counterfactual_feature"] == features[flips.feature[n]]
            assert record["counterfactual_value"] == flips.value[n]
            assert record["counterfactual_class"] == classes[flips.new_class[n]]


def test_explanation_records_match_the_oracle(fitted, why, iris):
    assert isinstance(why, Explanation)
    assert len(why) == 15
    assert why.predicted.tolist() == fitted.predict(iris.X[::10]).tolist()
    assert why.prototype.shape == (15, 3)
    check_records(fitted, iris.X[::10], why, FLOWERS, MEASURES)


def test_explanation_of_random_weights_has_no_prototypes(without_prototypes, iris):
    explanation = without_prototypes.explain(iris.X[::10])
    assert "training row" not in str(explanation)
    names = [f"feature {p}" for p in range(4)]
    check_records(without_prototypes, iris.X[::10], explanation, FLOWERS, names)


def test_explanation_of_single_unit_and_two_classes(iris):
    X, y = iris.X[:100:10], iris.y[:100:10] > 0
    clf = SubgradientLMMClassifier(1, max_iter=5, random_state=0).fit(X, y)
    explanation = clf.explain(X)
    names = [f"feature {p}" for p in range(4)]
    check_records(clf, X, explanation, ["False", "True"], names)
    for text in ("unit -1", "nan", "ahead of"):
        assert text not in str(explanation)


def test_explanations_as_data_frames(why, fitted, monkeypatch):
    pandas = pytest.importorskip("pandas")
    table, records = why.to_frame(), why.to_records()
    assert isinstance(table, pandas.DataFrame)
    assert list(table.columns) == FIELDS
    for name in FIELDS:
        assert table[name].tolist() == pytest.approx(records[name].tolist(), nan_ok=True)
    # Record arrays do not require pandas.
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"to_frame needs pandas.* to_records"):
        why.to_frame()
    assert all(isinstance(t, np.recarray) for t in (why.to_records(), fitted.units()))


def test_explanation_text_lists_best_class_first(fitted, why, iris):
    records = why.to_records().reshape(len(why), 3)
    X = iris.X[::10]
    for n in range(len(why)):
        first, *between, last = why.text(n).splitlines()
        classes = [line for line in between if line.startswith("  class ")]
        order = sorted(range(3), key=lambda d: -records[n, d]["score"])
        winner = records[n, order[0]]
        assert first.startswith(f"Row {n + 1}: {winner['class']}")
        assert why.text(n) in str(why)
        assert f"{winner['probability']:.3f}" in first
        assert len(classes) == 3
        for d, line in zip(order, classes, strict=True):
            record = records[n, d]
            assert re.search(rf"\bclass {record['class']}\b", line)
            assert re.search(rf"\bunit {record['unit']}\b", line)
            assert re.search(rf"\binitialised at training row {record['prototype'] + 1}\b", line)
            assert f"{record['feature']} = {record['value']:g} " in line
            assert re.search(rf"\bunit {record['runner_up']}\b", line)
            (score,) = re.findall(r"score (\S+),", line)
            assert float(score) == pytest.approx(record["score"], rel=1e-3)
        found = re.search(r"changes to (.+) if (.+) goes from (\S+) to ([-+.e\d]+)", last)
        word, feature, old, new = found.groups()
        assert (word, feature) == (record["counterfactual_class"], record["counterfactual_feature"])
        assert float(old) == X[n, MEASURES.index(feature)]
        assert (old, new) == (record["counterfactual_from"], record["counterfactual_to"])
        # The printed value flips the prediction and is at most 0.1 farther than the exact one.
        typed = X[n].copy()
        typed[MEASURES.index(feature)] = float(new)
        assert FLOWERS[fitted.predict(typed[None])[0]] == word
        farther = abs(float(new) - float(old)) - record["counterfactual_distance"]
        assert 0.0 <= farther <= 0.1


def test_explanation_text_without_counterfactual(fitted, iris):
    x = iris.X[0]
    fixed_row = fitted.explain(x[None], low=x, high=x)
    assert "no change of a single feature changes the prediction" in str(fixed_row)
    assert "changes to" not in str(fixed_row)
    assert np.isnan(fixed_row.to_records()["counterfactual_value"]).all()
    assert "no change of a single feature" not in str(fitted.explain(x[None]))


def test_explain_bounds_limit_counterfactuals(fitted, iris):
    X = iris.X[::10]
    low, high = iris.X.min(axis=0), iris.X.max(axis=0)
    flips = fitted.explain(X, low=low, high=high).counterfactuals
    expected = flips_within(fitted.model_, X, low, high)
    for one, other in zip(flips, expected, strict=True):
        assert np.array_equal(one, other, equal_nan=True)


def test_explanation_names_come_from_data_or_indices(iris):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(iris.X, columns=MEASURES)
    clf = SubgradientLMMClassifier(5, max_iter=5, random_state=0).fit(X, iris.y)
    assert set(clf.explain(X[:9]).to_records()["feature"]) <= set(MEASURES)
    assert set(clf.units()["feature"]) == set(MEASURES)
    assert set(clf.explain(X[:9]).to_records()["class"]) == {"0", "1", "2"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("class_names", ["a", "b"]),
        ("class_names", list("abcd")),
        ("feature_names", []),
        ("low", np.nan),
        ("high", [1.0, np.nan, 1.0, 1.0]),
        ("low", [1.0, 2.0]),
        ("high", np.ones((4, 1))),
    ],
    ids=str,
)
def test_explain_rejects_invalid_arguments(fitted, iris, name, value):
    with pytest.raises(ValueError, match=f"^{name} "):
        fitted.explain(iris.X[:2], **{name: value})


def margin_depends_on_sample(model, x, d, rival):
    """Return whether z_d − z_rival of row x depends on any feature, by finite differences."""
    steps = 1e-6 * np.eye(len(x))
    up, down = (model.scores(x + sign * steps) for sign in (1.0, -1.0))
    return bool((np.abs((up - down)[:, d] - (up - down)[:, rival]) > 1e-9).any())


def test_explanation_omits_cancelled_columns(iris):
    clf = LMMClassifier(12, slope=2.0, warmup_epochs=3, random_state=0).fit(iris.X, iris.y)
    why = clf.explain(iris.X, class_names=FLOWERS, feature_names=MEASURES)
    Z = clf.model_.scores(iris.X)
    order = np.argsort(-Z, axis=1, kind="stable")
    offsets_decide = "the margin depends on the offsets of the units, not on a column"
    cancelled = 0
    for n, x in enumerate(iris.X):
        lines = dict(re.findall(r"^  class (\w+): (.*)$", why.text(n), re.MULTILINE))
        first, second = order[n, :2]
        for d, rival in ((first, second), (second, first), (order[n, 2], first)):
            moves = margin_depends_on_sample(clf.model_, x, d, rival)
            assert ("decided by" in lines[FLOWERS[d]]) == moves
            assert (f"cancels against class {FLOWERS[rival]}" in lines[FLOWERS[d]]) != moves
        cancels = not margin_depends_on_sample(clf.model_, x, first, second)
        assert (offsets_decide in why.text(n)) == cancels
        cancelled += cancels
    assert 0 < cancelled < len(iris.X)
    records = why.to_records()
    assert records["cancels"][records["predicted"]].sum() == cancelled


def test_certified_accuracy_accepts_name_and_iterator_of_columns():
    clf, samples = trained(patients()), prepared(patients())[1]
    X, y, scale, eps = samples.X, samples.y, clf.certificate_scale(), [0.0, 0.01, 0.02]
    expected = [clf.certified_accuracy(X, y, e, scale, change_one_of=["ward"]) for e in eps]
    assert expected < clf.certified_accuracy(X, y, eps, scale).tolist()
    for columns in ("ward", iter(["ward"])):
        found = clf.certified_accuracy(X, y, eps, scale, change_one_of=columns)
        assert found.tolist() == expected
    certified = clf.is_certified(X, 0.01, scale, change_one_of="ward")
    assert np.mean(certified & (clf.predict(X) == y)) == pytest.approx(expected[1])


def test_explain_rejects_invalid_rows_and_unfitted_classifiers(fitted, iris):
    with pytest.raises(ValueError, match="features"):
        fitted.explain(iris.X[:2, :3])
    with pytest.raises(ValueError, match="NaN"):
        fitted.explain(np.full((1, 4), np.nan))
    for call in ("explain", "units", "worst_samples"):
        with pytest.raises(NotFittedError):
            getattr(LMMClassifier(), call)(*([iris.X] if call == "explain" else []))
