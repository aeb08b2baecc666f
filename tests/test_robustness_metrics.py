"""Certified, attacked and constant errors of classifiers trained with ``robust_eps``."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

import maxplus
from commands import IRIS, document, good, settings
from maxplus.metrics import attack, robust_errors
from table_helpers import opened

BRIEF = settings("robust_eps=0.3", "structure=shapes", "robust_training=1.0", "warmup_epochs=4")


@pytest.fixture(scope="module")
def robust_model(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "robust.maxplus"
    good("train", IRIS, *BRIEF, "--validate", "none", "-o", path)
    return path


def test_robust_errors_are_ordered_and_exact_where_known(robust_model):
    clf, rows = maxplus.load(robust_model), opened(IRIS)
    found = robust_errors(clf, rows.X, rows.y)
    assert found.clean == pytest.approx(1.0 - clf.score(rows.X, rows.y))
    assert found.certified == pytest.approx(1.0 - clf.certified_accuracy(rows.X, rows.y))
    assert found.clean <= found.attack <= found.certified
    assert (found.n_rows, found.constant) == (150, pytest.approx(2 / 3))


def test_robust_errors_accepts_data_frames():
    rng = np.random.default_rng(0)
    loans = pd.DataFrame(
        {"age": rng.uniform(20, 70, 60), "job": rng.choice(["clerk", "nurse"], 60)}
    )
    repaid = np.where(loans["age"] + 8 * (loans["job"] == "nurse") > 48, "yes", "no")
    clf = maxplus.LMMClassifier(
        structure="shapes",
        robust_eps={"age": 2},
        robust_training=1.0,
        warmup_epochs=2,
        random_state=0,
    ).fit(loans, repaid)
    found = robust_errors(clf, loans, repaid)
    assert found.certified == pytest.approx(1.0 - clf.certified_accuracy(loans, repaid))
    assert found == robust_errors(clf, clf.encoder_.transform(loans), repaid)


def test_robust_errors_counts_unknown_labels_as_errors(robust_model):
    clf, rows = maxplus.load(robust_model), opened(IRIS)
    unknown = np.where(rows.y == "setosa", "tulip", rows.y)
    found = robust_errors(clf, rows.X, unknown)
    assert found.clean == pytest.approx(np.mean(clf.predict(rows.X) != unknown))
    assert found.certified == pytest.approx(1.0 - clf.certified_accuracy(rows.X, unknown))
    assert found.constant == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match=r"y must have shape \(3,\)"):
        robust_errors(clf, rows.X[:3], unknown[:2])


def test_attack_finds_points_inside_the_box_and_never_a_certified_row():
    X, y = load_iris(return_X_y=True)
    clf = maxplus.LMMClassifier(6, slope=4.0, warmup_epochs=2, random_state=0).fit(X, y)
    radius = clf.certified_radius(X)
    right = clf.predict(X) == y
    for eps in (0.1, 0.5):
        found = attack(clf.model_, X, y, np.full(4, eps))
        assert not found[right & (radius >= eps)].any()
        assert found[~right].all()
    # A large box reaches other classes; no box reaches none.
    assert attack(clf.model_, X, y, np.full(4, 8.0)).all()
    np.testing.assert_array_equal(attack(clf.model_, X, y, np.zeros(4)), ~right)


def test_evaluate_and_report_show_certified_error(robust_model, tmp_path):
    clf, rows = maxplus.load(robust_model), opened(IRIS)
    expected = robust_errors(clf, rows.X, rows.y)
    found = document("evaluate", robust_model, IRIS)["robust"]
    assert found == pytest.approx(vars(expected))
    printed = good("evaluate", robust_model, IRIS)
    rates = [expected.clean, expected.attack, expected.certified, expected.constant]
    shown = " +".join(f"{100 * rate:.1f} %" for rate in rates)
    assert re.search(f"this model +{shown}", printed)
    page = tmp_path / "report.html"
    good("report", robust_model, IRIS, "-o", page)
    text = page.read_text(encoding="utf-8")
    assert "certified: upper bound" in text
    assert f">{100 * expected.certified:.1f} %<" in text


def test_train_shows_certified_error_of_robust_models(tmp_path):
    printed = good("train", IRIS, *BRIEF, "--validate", 2, "-o", tmp_path / "m")
    assert "error within robust_eps" in printed
    assert maxplus.load(tmp_path / "m").validation_["robust"]["n_rows"] == 150


def test_compare_shows_certified_error_of_robust_models():
    options = (*BRIEF, "--models", "LMM,logistic", "--validate", 2)
    models = document("compare", IRIS, *options)["models"]
    assert models["LMM"]["robust"]["n_rows"] == 150
    assert "robust" not in models["logistic"]
    json.dumps(models)
    assert "error within robust_eps" in good("compare", IRIS, *options)


def test_models_without_robust_training_have_no_certified_error(orchard_model):
    from commands import ORCHARD

    assert "robust" not in document("evaluate", orchard_model, ORCHARD)
