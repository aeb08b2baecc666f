"""Content of the report: new rows, errors, certificates, explanations, what-if data."""

import base64
import copy
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from clinics import patients, prepared, trained
from maxplus import LMMClassifier, LMMRegressor
from maxplus.explain import active_paths
from maxplus.io import load, save
from maxplus.metrics import classification_metrics, regression_metrics
from maxplus.metrics._intervals import wilson_interval
from maxplus.models import LMM, AdditiveLMM, FeatureMap, Term
from maxplus.report import regression_content, render_page, report_content
from maxplus.report.content import training_certificate
from maxplus.report.data import editable_columns
from maxplus.report.model import MAX_WEIGHTS, model_data, n_weights
from maxplus.report.performance import compare_accuracy, headline
from maxplus.tables import RawTable, UnknownValues, row_hashes
from maxplus.tables.dataset import _encoded
from report_pages import sum_report

pytestmark = pytest.mark.slow
matplotlib = pytest.importorskip("matplotlib")
pytest.importorskip("matplotlib.image")


@pytest.fixture(scope="module")
def clinic():
    """Return a model trained on the first 90 patients, and all patients."""
    clf = trained(patients())
    table = patients(120)
    # The same generator draws other patients for another number of them.
    samples, old = _encoded(table, clf.encoder_, False, UnknownValues(), 0), prepared(patients())[1]
    X, y = np.concatenate([old.X, samples.X]), np.concatenate([old.y, samples.y])
    return clf, X, y


def about(clf, X, y, **options):
    return report_content(
        clf, X, y, name="all.csv", feature_names=clf.encoder_.feature_names, **options
    )


def test_all_rows_of_a_labelled_table_are_evaluated(clinic):
    clf, X, y = clinic
    content = about(clf, X, y)
    equal = np.array([(row == X[:90]).all(axis=1).any() for row in X])
    assert equal.sum() >= 90
    remark = f"{equal.sum()} of the 210 rows of all.csv have the same values as a training row"
    assert content["where"].startswith(remark)
    assert remark in content["headline"]["text"]
    (source,) = content["sources"]
    expected = classification_metrics(
        np.searchsorted(clf.classes_, y), clf.predict_proba(X), clf.classes_
    ).to_json()
    assert source["metrics"]["n_rows"] == 210
    for name in ("n_rows", "accuracy", "balanced_accuracy", "log_loss", "auc"):
        assert source["metrics"][name] == pytest.approx(expected[name])
    assert source["metrics"]["confusion"] == expected["confusion"]
    assert content["evaluated"]["metrics"] == source["metrics"]
    labels, counts = np.unique(clf.training_labels_, return_counts=True)
    assert source["baseline"]["label"] == labels[counts.argmax()]
    assert source["baseline"]["accuracy"] == pytest.approx(np.mean(y == labels[counts.argmax()]))


def test_least_confident_and_highest_loss_rows_are_listed(clinic):
    clf, X, y = clinic
    ids = [f"id {n}" for n in range(len(X))]
    listed = about(clf, X, y, ids=ids, row_numbers=np.arange(len(X)) + 11)["listed"]
    P, codes = clf.predict_proba(X), np.searchsorted(clf.classes_, y)
    for kind, by in (
        ("least_confident", P.max(axis=1)),
        ("highest_loss", P[np.arange(len(y)), codes]),
    ):
        rows = [one["row"] - 11 for one in listed[kind]]
        assert [one["id"] for one in listed[kind]] == [ids[n] for n in rows]
        assert (np.diff(by[rows]) >= 0).all()
        others = np.setdiff1d(np.arange(90, len(X)), rows)
        assert by[others].min() >= by[rows].max() - 1e-12
        key = "probability" if kind == "least_confident" else "own_probability"
        np.testing.assert_allclose([one[key] for one in listed[kind]], by[rows])


def test_explorer_contains_all_listed_rows(clinic, monkeypatch):
    monkeypatch.setattr("maxplus.report.content.MAX_EXPLORER_ROWS", 80)
    clf, X, y = clinic
    content = about(clf, X, y)
    listed = content["listed"]["least_confident"] + content["listed"]["highest_loss"]
    shown = [row["row"] for row in content["rows"]]
    assert {row["row"] for row in listed} <= set(shown)
    assert len(shown) <= 80
    assert shown == sorted(set(shown))


@pytest.mark.parametrize("has_row_hashes", [True, False])
def test_training_table_is_not_test_data(clinic, has_row_hashes):
    clf, X, y = clinic
    if not has_row_hashes:
        clf = trained(patients(), has_row_hashes=False)
    content = about(clf, X[:90], y[:90])
    assert content["sources"] == []
    assert content["headline"]["holds"] is None
    assert "Not measured" in content["headline"]["title"]
    assert "The model was trained on the 90 rows of all.csv." in content["headline"]["text"]
    assert not content["evaluated"]["is_new"]
    correct = int((clf.predict(X[:90]) == y[:90]).sum())
    assert content["fit"] == {"correct": correct, "rows": 90, "exact": True}
    page = render_page(content)
    assert "✓" not in page
    assert "Errors on new rows were not measured." in page


def test_table_of_the_same_length_is_test_data(clinic):
    clf, X, y = clinic
    content = about(clf, X[-90:], y[-90:])
    assert content["sources"][0]["metrics"]["n_rows"] == 90
    assert "was trained on" not in content["where"]


def test_test_data_are_evaluated_without_stored_rows():
    clf = trained(patients(), has_row_hashes=False)
    samples = prepared(patients(120))[1]
    content = about(clf, samples.X, samples.y)
    assert content["evaluated"]["is_new"]
    assert content["evaluated"]["metrics"]["n_rows"] == 120
    assert content["headline"]["text"].startswith("The accuracy on 120 rows of all.csv is ")
    assert "has no hashes of training rows" in content["where"]


def test_test_data_come_before_validation(clinic, monkeypatch):
    clf, X, y = clinic
    record = _validation(clf)
    record["metrics"]["n_rows"] = 900
    monkeypatch.setattr(clf, "validation_", record, raising=False)
    both = about(clf, X, y)
    same = about(clf, X[:90], y[:90], ids=[f"id {n}" for n in range(90)])
    # Also if the validation has more rows.
    assert [source["metrics"]["n_rows"] for source in both["sources"]] == [210, 900]
    assert both["evaluated"]["title"] == both["listed"]["title"] == "all.csv"
    assert both["headline"]["text"].startswith("The accuracy on 210 rows of all.csv is ")
    assert same["evaluated"]["title"] == "20% of the rows held out"
    assert same["evaluated"]["is_new"]
    # The page shows the table of the validation, so that its rows have identifiers.
    (row,) = same["listed"]["least_confident"]
    assert (row["row"], row["id"], row["of_data"]) == (3, "id 2", True)


def test_listed_training_rows_are_not_attributed_to_the_validation(clinic, monkeypatch):
    clf, X, y = clinic
    record = _validation(clf) | {"least_confident": [], "highest_loss": []}
    monkeypatch.setattr(clf, "validation_", record, raising=False)
    content = about(clf, X[:90], y[:90])
    assert content["evaluated"]["title"] == "20% of the rows held out"
    remark = "those of the model of this page. The model was trained on the 90 rows of all.csv."
    assert " ".join(render_page(content).split()).count(remark) == 2


def headline_of(metrics, baseline):
    """Return the headline for metrics on new rows."""
    source = {
        "metrics": metrics,
        "baseline": {"accuracy": baseline, "label": "well"},
        "whose": "of t.csv",
        "on": "t.csv",
    }
    return headline([source], "", False, compare_accuracy)


@pytest.mark.parametrize(
    ("accuracy", "auc", "holds"),
    [(0.8, 0.9, True), (0.62, 0.7, False), (0.62, 0.504, False), (0.5, None, False)],
)
def test_headline_requires_significant_improvement(accuracy, auc, holds):
    metrics = {
        "accuracy": accuracy,
        "n_rows": 100,
        "auc": auc,
        "classes": [{"auc": auc, "n_rows": n} for n in (40, 60)],
        "interval": wilson_interval(accuracy, 100),
    }
    found = headline_of(metrics, 0.6)
    assert found["holds"] is holds
    assert f"{100 * accuracy:.1f} %" in found["text"]
    assert ("ROC AUC" in found["text"]) == (auc == 0.7)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_auc_of_random_scores_is_not_significant(n_classes):
    rng = np.random.default_rng(0)
    n_significant = 0
    for _ in range(200):
        codes, P = np.arange(120) % n_classes, rng.dirichlet(np.ones(n_classes), 120)
        metrics = classification_metrics(codes, P, list("abc")[:n_classes]).to_json()
        n_significant += "ROC AUC" in headline_of(metrics | {"interval": (0.0, 1.0)}, 0.6)["text"]
    assert n_significant <= 12


@given(n=st.integers(1, 500), data=st.data())
def test_intervals_equal_wilson_intervals(n, data):
    k = data.draw(st.integers(0, n))
    expected = binomtest(k, n).proportion_ci(0.95, "wilson")
    assert wilson_interval(k / n, n) == pytest.approx((expected.low, expected.high), abs=1e-4)
    assert wilson_interval(0.5, 0) is None


def test_certificate_states_rows_and_columns(clinic):
    clf, X, y = clinic
    scale = clf.certificate_scale()
    certified = about(clf, X, y, scale=scale, unit="deviations")["certified"]
    share = clf.certified_accuracy(X, y, 0.1, scale)
    assert certified["n_rows"] == 210
    assert certified["n_certified"] == round(share * 210)
    assert certified["whose"] == "the 210 rows of all.csv"
    np.testing.assert_allclose(
        certified["accuracy"], clf.certified_accuracy(X, y, certified["eps"], scale), atol=0.011
    )
    assert {"smoker", "ward"} <= set(certified["fixed"])
    assert "dose" not in certified["fixed"]
    free = about(clf, X, y)["certified"]
    assert free["fixed"] == []


def test_what_if_choices_equal_encoder(clinic):
    encoder, table = clinic[0].encoder_, patients()
    columns = editable_columns(encoder, encoder.feature_names)
    kinds = {column["name"]: column["choices"] is not None for column in columns}
    assert kinds == {"age": False, "dose": False, "smoker": True, "ward": True, "pain": True}
    for column in columns:
        name, first = column["name"], column["first"]
        cells = [(choice["text"], choice["values"]) for choice in column["choices"] or []]
        if column["choices"] is None:
            cells.append((str(column["high"]), [column["high"], *column["rest"]]))
        if column["missing"] is not None:
            cells.append((None, column["missing"]))
        for text, values in cells:
            row = {other: old[:1] for other, old in table.columns.items()}
            if isinstance(table.columns[name], np.ndarray):
                row[name] = np.array([np.nan if text is None else float(text)])
            else:
                row[name] = np.array([text or ""], object)
            x = encoder.encode(RawTable("one row", row)).X[0]
            assert x[first : first + len(values)].tolist() == values


@pytest.fixture(scope="module")
def flowers(iris):
    return LMMClassifier(8, slope=2.0, warmup_epochs=3, random_state=0).fit(iris.X, iris.y)


def test_what_if_features_without_encoder_are_numbers(iris, flowers):
    content = report_content(flowers, iris.X, iris.y, name="iris", feature_names=list("abcd"))
    assert [column["name"] for column in content["columns"]] == list("abcd")
    assert all(column["low"] is None and column["choices"] is None for column in content["columns"])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_page_contains_exact_weights(flowers, iris, dtype):
    lmm = flowers.model_.astype(dtype)
    terms = [Term([0, 1, 2, 3], lmm), Term([0, 1, 2, 3], lmm.scaled(2.0))]
    feature_map = FeatureMap.fit(iris.X)
    data = model_data(AdditiveLMM(terms, 4, feature_map), np.ones(4))

    def unpacked(text, kind):
        return np.frombuffer(base64.b64decode(text), np.dtype(kind).newbyteorder("<"))

    for (_, own), packed in zip(terms, data["terms"], strict=True):
        for name, array in (("W0", own.W0), ("W1", own.W1.T), ("W2", own.W2.T)):
            np.testing.assert_array_equal(unpacked(packed[name], dtype), array.ravel())
    for name, key in (("x", "x"), ("u", "u"), ("slopes", "slopes")):
        np.testing.assert_array_equal(
            unpacked(data["map"][key], np.float64), getattr(feature_map, name)
        )
    assert data["single"] == (dtype is np.float32)


def test_large_model_is_not_embedded(iris):
    clf = LMMClassifier(6, slope=2.0, warmup_epochs=2, random_state=0).fit(iris.X, iris.y)
    n = 500
    model, rng = clf.model_, np.random.default_rng(0)
    H = MAX_WEIGHTS // 8
    clf.model_ = LMM(model.W0, rng.normal(size=(model.W0.size, H)), rng.normal(size=(H, 3)) - 5)
    assert n_weights(clf.model_) > MAX_WEIGHTS
    X = rng.normal(size=(n, 4)) + 5
    content = report_content(clf, X[:3], clf.predict(X[:3]), name="large")
    assert content["network"] is None
    page = render_page(content)
    assert "too many for this page to compute with" in page
    assert 'id="reset"' not in page
    assert len(page) < 1_000_000


def test_content_contains_active_walls(flowers, iris):
    content = report_content(flowers, iris.X, iris.y, name="iris", feature_names=list("abcd"))
    assert content["features"] == list("abcd")
    paths, model = active_paths(flowers.model_, iris.X), flowers.model_
    for n, row in enumerate(content["rows"]):
        assert row["reasons"] is None
        for entry in row["classes"]:
            d = content["labels"].index(entry["class"])
            i, h = paths.row[n, d], paths.unit[n, d]
            assert (entry["unit"], entry["feature_index"]) == (h, i // 2)
            assert entry["feature"] == "abcd"[i // 2]
            assert entry["value"] == iris.X[n, i // 2]
            # At the wall the unit's line is 0.
            line = model.W0[i] * entry["wall"] + model.W1[i, h]
            assert abs(line) < 1e-9 * abs(model.W1[i, h]) + 1e-12
    render_page(content)


def test_contributions_of_a_sum_add_up_to_the_margin():
    content = sum_report()
    groups = content["contributions"]["groups"]
    assert {"age", "dose", "smoker", "ward", "pain"} <= {group["name"] for group in groups}
    for row in content["rows"]:
        reasons, (first, second) = row["reasons"], row["classes"][:2]
        assert reasons["rival"] == second["class"]
        assert reasons["margin"] == first["score"] - second["score"]
        total = reasons["baseline"] + sum(reasons["amounts"])
        assert total == pytest.approx(reasons["margin"], abs=1e-9)


def test_importances_are_of_columns(clinic):
    clf, X, y = clinic
    found = about(clf, X, y)["importances"]
    assert found["on_training"]
    shares = {one["name"]: one["share"] for one in found["columns"]}
    assert set(shares) <= {"age", "dose", "smoker", "ward", "pain"}
    assert sum(shares.values()) == pytest.approx(1.0)
    assert list(shares.values()) == sorted(shares.values(), reverse=True)


def test_regression_is_evaluated_on_new_rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (80, 1))
    y = np.abs(X[:, 0]) + rng.normal(0, 0.1, 80)
    reg = LMMRegressor(epochs=30, random_state=0).fit(X[:60], y[:60])
    own = regression_content(reg, X[:60], y[:60], name="curve")
    assert own["headline"]["holds"] is None
    assert "was trained on the 60 rows" in own["where"]
    reg.training_rows_ = row_hashes(X[:60])
    content = regression_content(reg, X, y, name="curve")
    (source,) = content["sources"]
    bounds = reg.predict_interval(X, 0.9)
    assert source["metrics"] == regression_metrics(y, reg.predict(X), *bounds).to_json()
    baseline = regression_metrics(y, np.full(80, y[:60].mean()))
    assert source["baseline"]["mae"] == pytest.approx(baseline.mae)
    assert content["headline"]["holds"] is True
    assert "60 of the 80 rows of curve have the same values" in content["headline"]["text"]
    off = [abs(one["off"]) for one in content["rows"]]
    assert off == sorted(off, reverse=True)
    assert off[0] == pytest.approx(np.abs(y - reg.predict(X)).max())
    assert "mean absolute error" in render_page(content)


def test_regression_worse_than_the_mean():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (60, 1))
    reg = LMMRegressor(epochs=5, random_state=0).fit(X, 9000 * X[:, 0])
    content = regression_content(reg, X, -9000 * X[:, 0], name="curve")
    text = content["headline"]["text"]
    r2 = content["sources"][0]["metrics"]["r2"]
    assert r2 < -1
    assert "0.0 %" not in text
    assert f"R² is −{-r2:.2f}" in text
    assert content["headline"]["holds"] is False
    # Large numbers are not in scientific notation.
    for page in (text, render_page(content)):
        assert "e+0" not in page.partition("<svg")[0]
    assert re.search(r"mean absolute error is \d\d,\d00 ± [\d,]+ \(95 % interval\)", text)


def test_report_without_labels_has_predictions_and_no_metrics(clinic):
    clf, X, _ = clinic
    content = about(clf, X, None, ids=[f"id {n}" for n in range(210)])
    assert content["sources"] == []
    assert content["evaluated"] is content["headline"]["holds"] is None
    assert "has no true labels" in content["headline"]["text"]
    predicted, top = clf.predict(X), clf.predict_proba(X).max(axis=1)
    labels, counts = np.unique(predicted, return_counts=True)
    found = {one["label"]: one["rows"] for one in content["predicted"]}
    assert found == dict(zip(labels, counts, strict=True))
    assert content["certified"]["n_certified"] == int((clf.certified_radius(X) >= 0.1).sum())
    for row in content["rows"]:
        assert (row["label"], row["predicted"]) == (None, predicted[row["row"] - 1])
    assert content["listed"]["least_confident"][0]["row"] == top.argmin() + 1
    page = render_page(content)
    assert "provably keep their prediction" in page
    assert "Predicted classes" in page
    for words in ("Error analysis", "probability of the true label", "recall", "calibration"):
        assert words not in page.partition("</style>")[2].partition("<script")[0]


def test_regression_report_without_target_values_has_predictions():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (60, 1))
    reg = LMMRegressor(epochs=5, random_state=0).fit(X, X[:, 0])
    content = regression_content(reg, X[:30], None, name="curve")
    assert content["headline"]["holds"] is None
    np.testing.assert_allclose(
        [one["predicted"] for one in content["rows"]], reg.predict(X[: len(content["rows"])])
    )
    page = render_page(content)
    assert "Predictions of the first rows" in page
    assert "mean absolute error" not in page


def test_training_certificate_heading(clinic):
    clf, X, y = clinic
    heading = "Training certificate"
    content = about(clf, X, y)
    content["certificate"] = training_certificate(clf)
    assert (heading in render_page(content)) == clf.perfect_fit_
    for loss, proven in ((0.5, True), (0.9, False)):
        other = copy.copy(clf)
        other.max_loss_ = loss
        content["certificate"] = training_certificate(other)
        assert (heading in render_page(content)) == proven


# Hashes of rows, and validations in files.


@settings(max_examples=50)
@given(
    st.lists(st.lists(st.integers(-3, 3), min_size=3, max_size=3), min_size=2, max_size=30),
    st.sampled_from([np.float32, np.float64]),
)
def test_row_hashes_are_equal_for_equal_rows(rows, dtype):
    X = np.array(rows) / 4
    hashes = row_hashes(X.astype(dtype))
    assert hashes.dtype == np.int64
    assert (hashes >= 0).all()
    same = (X[:, None] == X[None]).all(axis=2)
    np.testing.assert_array_equal(hashes[:, None] == hashes[None], same)


def test_validation_and_row_hashes_are_saved(clinic, tmp_path, monkeypatch):
    clf = clinic[0]
    monkeypatch.setattr(clf, "validation_", _validation(clf), raising=False)
    save(clf, tmp_path / "model.maxplus", remember_rows=True)
    loaded = load(tmp_path / "model.maxplus")
    assert loaded.validation_ == clf.validation_
    np.testing.assert_array_equal(loaded.training_rows_, clf.training_rows_)


def _validation(clf):
    metrics = classification_metrics([0, 1], [[0.9, 0.1], [0.8, 0.2]], clf.classes_).to_json()
    row = {"row": 3, "label": "ill", "predicted": "well"}
    row |= {"probability": 0.7, "own_probability": 0.3}
    return {
        "description": "20% of the rows held out",
        "metrics": metrics,
        "baseline": {"accuracy": 0.6, "balanced_accuracy": 0.5, "log_loss": 0.7, "label": "well"},
        "rows_never_held_out": 0,
        "seconds": 1.0,
        "certified": {"eps": 0.1, "accuracy": 0.5},
        "reliability": {"count": [0, 2], "confidence": [None, 0.9], "accuracy": [None, 0.5]},
        "least_confident": [row],
        "highest_loss": [row],
    }


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("description",), 3),
        (("seconds",), -1.0),
        (("metrics",), []),
        (("metrics", "accuracy"), 1.5),
        (("metrics", "n_rows"), 0),
        (("metrics", "classes"), []),
        (("metrics", "classes", 0, "label"), "another"),
        (("metrics", "confusion"), [[1, 2]]),
        (("metrics", "confusion", 0, 0), -1),
        (("baseline", "label"), None),
        (("certified", "eps"), "much"),
        (("reliability", "count"), [0.5]),
        (("least_confident", 0, "row"), 0),
        (("highest_loss", 0, "probability"), None),
    ],
)
def test_damaged_validation_is_rejected(clinic, tmp_path, monkeypatch, path, value):
    clf = clinic[0]
    record = _validation(clf)
    *steps, last = path
    place = record
    for step in steps:
        place = place[step]
    place[last] = value
    monkeypatch.setattr(clf, "validation_", record, raising=False)
    save(clf, tmp_path / "model.maxplus", remember_rows=True)
    with pytest.raises(ValueError, match=r"is damaged: .*validation"):
        load(tmp_path / "model.maxplus")


def test_rules_of_large_tables_use_a_sample(clinic, monkeypatch):
    monkeypatch.setattr("maxplus.report.content.MAX_SAMPLED_ROWS", 50)
    clf, X, y = clinic
    assert about(clf, X, y)["rules"]["n_rows"] == 50
