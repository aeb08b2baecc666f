"""``maxplus compare``, compared with cross-validation by scikit-learn."""

import re

import numpy as np
import pytest
from sklearn.metrics import log_loss, r2_score
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict

from commands import IRIS, bad, document, good, read_csv
from maxplus.evaluation.comparison import SKLEARN_CLASSIFIERS, SKLEARN_REGRESSORS
from table_helpers import opened

pytestmark = pytest.mark.slow


def test_compare_scores_equal_scikit_learn(tmp_path):
    out = tmp_path / "c.csv"
    result = document("compare", IRIS, "--models", "logistic,KNN", "--validate", 3, "--csv", out)
    samples = opened(IRIS)
    y = np.unique(samples.y, return_inverse=True)[1]
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    rows = {row["model"]: row for row in read_csv(out)}
    assert list(result["models"]) == list(rows) == ["logistic", "kNN"]
    for name, found in result["models"].items():
        P = cross_val_predict(
            SKLEARN_CLASSIFIERS[name](0), samples.X, y, cv=folds, method="predict_proba"
        )
        accuracy = (P.argmax(axis=1) == y).mean()
        assert found["metrics"]["accuracy"] == pytest.approx(accuracy)
        assert float(rows[name]["accuracy"]) == pytest.approx(accuracy)
        error = np.sqrt(accuracy * (1 - accuracy) / 150)
        assert float(rows[name]["standard error"]) == pytest.approx(error)
        assert float(rows[name]["log loss"]) == pytest.approx(
            log_loss(y, np.clip(P, 1e-15, 1)), rel=1e-6
        )
        assert rows[name]["certified"] == ""


def test_compare_reports_certificates_and_explanations_of_our_models():
    printed = good("compare", IRIS, "--models", "lmm,forest", "--validate", 2, width=80)
    assert max(map(len, printed.splitlines())) <= 100
    assert re.search(
        r"LMM +9\d\.\d % ± \d\.\d +0\.\d+ +0\.\d+ +\d+\.\d\d +\d\d\.\d % +exact", printed
    )
    assert re.search(r"forest +9\d.* – +no", printed)
    assert "Validated by 2-fold cross-validation, with the same splits for all" in printed
    assert "Always predicting setosa: 33.3 %" in printed


def test_compare_accepts_regression(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 2))
    y = x[:, 0] + rng.normal(size=50)
    table = tmp_path / "t.csv"
    np.savetxt(table, np.c_[x, y], delimiter=",", header="a,b,y", comments="")
    result = document("compare", table, "--models", "ridge,kNN")
    for name, found in result["models"].items():
        predicted = cross_val_predict(
            SKLEARN_REGRESSORS[name](0), x, y, cv=KFold(5, shuffle=True, random_state=0)
        )
        assert found["metrics"]["r2"] == pytest.approx(r2_score(y, predicted))
    printed = good("compare", table, "--models", "ridge", width=80)
    assert "Always predicting the mean: R² 0.000" in printed.replace("-0.000", "0.000")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--models", "oracle"), "unknown model 'oracle'; choose from LMM, ensemble"),
        (("--validate", "none"), "--validate none: a comparison needs held-out rows"),
    ],
)
def test_compare_rejects_invalid_options(options, message):
    assert message in bad("compare", IRIS, *options)
