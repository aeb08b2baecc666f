"""Cross-validation and comparison, checked with scikit-learn and simple loops."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LinearRegression
from sklearn.metrics import log_loss, r2_score, recall_score, roc_auc_score
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

import maxplus
from maxplus.evaluation import compare, default_models, make_splits, validate
from maxplus.evaluation.comparison import SKLEARN_REGRESSORS
from maxplus.evaluation.validation import as_dataset
from strategies import SEEDS, quick


@given(SEEDS)
@quick(60)
def test_validation_predicts_every_row_once_by_a_model_with_its_class(seed):
    rng = np.random.default_rng(seed)
    y = rng.choice(list("abcde"), size=int(rng.integers(6, 60)), p=[0.5, 0.3, 0.1, 0.07, 0.03])
    counts = {label: int((y == label).sum()) for label in np.unique(y)}
    single = [label for label, n in counts.items() if n == 1]
    plan = make_splits(y, int(rng.integers(2, 6)), seed=seed)
    tested = np.concatenate([test for _, test in plan.pairs])
    assert sorted(tested) == [n for n in range(len(y)) if y[n] not in single]
    assert plan.n_untested == len(single)
    for training, test in plan.pairs:
        assert not set(training) & set(test)
        assert len(training) + len(test) == len(y)
        assert set(y[test]) <= set(y[training])


def test_validation_plan_depends_on_number_of_rows():
    y = np.arange(20_000) % 2
    for n, n_splits, words in (
        (100, 5, "5-fold cross-validation"),
        (2_000, 5, "5-fold cross-validation"),
        (2_001, 3, "3-fold cross-validation"),
        (10_001, 1, "20% of the rows held out"),
    ):
        plan = make_splits(y[:n])
        assert (len(plan.pairs), plan.description) == (n_splits, words)
    held = make_splits(y[:1000], 0.3).pairs[0][1]
    assert len(held) == 300
    assert y[held].mean() == 0.5
    assert len(make_splits(y[:30], 7).pairs) == 7
    assert len(make_splits(y[:20_000], "cv").pairs) == 3
    assert len(make_splits(y[:30], np.int64(7)).pairs) == 7


@pytest.mark.parametrize("cv", ["half", 1, 0, 1.5, -0.2, True, 0.0])
def test_invalid_cv_is_rejected(cv):
    with pytest.raises(ValueError, match="cv must be 'auto', 'cv', a number of folds"):
        make_splits(np.arange(10) % 2, cv)


def test_validation_needs_enough_rows():
    with pytest.raises(ValueError, match="because each class has one row"):
        make_splits(np.array(["a", "b", "c"]))
    with pytest.raises(ValueError, match="because the number of rows is 1"):
        make_splits(np.array([0.5]), classification=False)
    with pytest.raises(ValueError, match="6 rows cannot be validated with 10% of the rows"):
        make_splits(np.array(list("abcabc")), 0.1)
    with pytest.raises(ValueError, match=r"with 99\.9% of the rows"):
        make_splits(np.array(list("abcabc")), 0.999)


def test_validation_metrics_equal_scikit_learn(iris):
    model = GaussianNB()
    found = validate(model, *iris, cv="cv", random_state=3)
    folds = StratifiedKFold(5, shuffle=True, random_state=3)
    P = cross_val_predict(model, *iris, cv=folds, method="predict_proba")
    predicted = P.argmax(axis=1)
    metrics = found.metrics
    assert metrics.accuracy == (predicted == iris.y).mean()
    assert metrics.log_loss == pytest.approx(log_loss(iris.y, P))
    assert metrics.auc == pytest.approx(roc_auc_score(iris.y, P, multi_class="ovr"))
    recalls = recall_score(iris.y, predicted, average=None)
    assert [one.recall for one in metrics.classes] == pytest.approx(recalls.tolist())
    assert metrics.balanced_accuracy == pytest.approx(recalls.mean())
    assert found.baseline.accuracy == pytest.approx(1 / 3)
    assert found.baseline.log_loss == pytest.approx(np.log(3))
    assert found.baseline.auc == 0.5
    assert found.certified is None
    document = found.to_json()
    # The number of the worst row starts at 1 and does not depend on its fold.
    worst = int(np.argmin(P[np.arange(150), iris.y]))
    assert document["metrics"]["worst"] == worst + 1
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_validation_accepts_regression():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = X @ [1.0, 2.0, 0.0] + rng.normal(size=60)
    found = validate(LinearRegression(), X, y, random_state=1)
    predicted = cross_val_predict(
        LinearRegression(), X, y, cv=KFold(5, shuffle=True, random_state=1)
    )
    assert found.metrics.r2 == pytest.approx(r2_score(y, predicted))
    assert found.baseline.r2 == pytest.approx(0.0, abs=1e-12)
    assert found.baseline.mae == pytest.approx(np.abs(y - y.mean()).mean())
    assert np.isnan(found.metrics.coverage)
    ours = validate(maxplus.LMMRegressor(epochs=5, random_state=0), X, y, cv=2)
    assert 0.5 < ours.metrics.coverage <= 1
    assert ours.to_json()["nominal_coverage"] == 0.9


class Recorder(ClassifierMixin, BaseEstimator):
    """Classifier that records its inputs in a list that clones share."""

    inputs: list = []  # noqa: RUF012

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.inputs.append(X)
        return self

    def predict_proba(self, X):
        self.inputs.append(X)
        return np.full((len(X), len(self.classes_)), 1 / len(self.classes_))


def test_validation_never_trains_on_held_out_rows():
    Recorder.inputs.clear()
    X = np.arange(40.0)[:, None]
    y = np.r_[np.zeros(39, int), 1]  # the only row of a class is never held out
    result = []
    found = validate(Recorder(), X, y, cv=4, on_progress=result.append)
    assert result == [0, 1, 2, 3, 4]
    assert found.n_untested == 1
    held = []
    for fitted, tested in zip(Recorder.inputs[::2], Recorder.inputs[1::2], strict=True):
        assert not set(fitted.ravel()) & set(tested.ravel())
        assert 39.0 in fitted
        held += tested.ravel().tolist()
    assert sorted(held) == list(range(39))


def test_validation_counts_certified_accuracy_on_held_out_rows(iris):
    model = maxplus.SubgradientLMMClassifier(9, max_iter=60, random_state=0)
    found = validate(model, *iris, cv=2)
    kept = 0
    for training, test in make_splits(iris.y, 2, seed=0).pairs:
        X = iris.X[training]
        fitted = maxplus.SubgradientLMMClassifier(9, max_iter=60, random_state=0)
        fitted.fit(X, iris.y[training])
        right = fitted.predict(iris.X[test]) == iris.y[test]
        kept += (right & (fitted.certified_radius(iris.X[test], X.std(axis=0)) >= 0.1)).sum()
    assert found.certified == pytest.approx(kept / 150, abs=1e-12)
    assert found.to_json()["certified"] == {"eps": 0.1, "accuracy": found.certified}


def test_groups_of_a_data_frame_are_a_column_or_an_array(iris):
    frame = pd.DataFrame(iris.X, columns=list("abcd")).assign(ward=np.arange(150) % 7)
    y = np.where(np.arange(150) == 3, None, iris.y.astype(str))
    named = validate(GaussianNB(), frame, y, groups="ward", cv=3)
    given = validate(GaussianNB(), frame.drop(columns="ward"), y, groups=frame["ward"], cv=3)
    assert given.to_json()["metrics"] == named.to_json()["metrics"]
    assert "groups kept together" in given.description
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        validate(GaussianNB(), frame, y, groups=frame["ward"][:9])


def test_validation_warns_that_the_encoder_does_not_standardize(iris):
    frame = pd.DataFrame(iris.X, columns=list("abcd"))
    encoder = maxplus.TableEncoder(standardize=True)
    model, options = KNeighborsClassifier(), {"cv": 2}
    expected = validate(model, frame, iris.y, **options).metrics.log_loss
    for X, given_encoder in ((encoder.attach(frame), None), (frame, encoder)):
        with pytest.warns(UserWarning, match="ignore the parameter standardize=True"):
            result = validate(model, X, iris.y, encoder=given_encoder, **options)
        assert result.metrics.log_loss == expected


def test_ctrl_c_ends_validation(iris):
    def press(progress):
        import signal

        signal.raise_signal(signal.SIGINT)

    model = maxplus.SubgradientLMMClassifier(5, max_iter=10_000, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        validate(model, *iris, cv=2, callbacks=[press])


def test_comparison_uses_the_same_rows(iris):
    models = {"near": KNeighborsClassifier(), "far": KNeighborsClassifier(60)}
    result = []
    rows = as_dataset(*iris)
    found = compare(
        rows, models=models, cv=3, random_state=2, on_progress=lambda *now: result.append(now)
    ).validations
    assert result == [(name, k) for name in models for k in range(4)]
    assert np.array_equal(found["near"].held_out.row_numbers, found["far"].held_out.row_numbers)
    for name, model in models.items():
        again = validate(model, rows, cv=3, random_state=2)
        assert found[name].metrics.accuracy == again.metrics.accuracy
    assert found["near"].metrics.log_loss < found["far"].metrics.log_loss


@pytest.mark.parametrize("models", [{}, [GaussianNB()], {"a": 3}], ids=str)
def test_comparison_rejects_other_models(iris, models):
    with pytest.raises(TypeError, match=r"^models must be a dict that maps names to estimators"):
        compare(iris.X, iris.y, models)


def test_comparison_includes_standard_baselines():
    names = ["LMM", "ensemble", "logistic", "kNN", "forest", "boosting", "MLP", "SVC"]
    assert list(default_models()) == names
    assert list(default_models(regression=True)) == ["LMM", *SKLEARN_REGRESSORS]
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) * [1.0, 1000.0] + 50.0
    y = 1e4 + 1e3 * (X[:, 0] + X[:, 1] / 1000.0)
    for name in ("ridge", "MLP", "SVR"):
        # The scale of the target has no effect.
        assert SKLEARN_REGRESSORS[name](0).fit(X, y).score(X, y) > 0.8, name
