"""Model files in which one value is missing or wrong: refused, or the model works in full."""

import re
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

import maxplus
from file_mutations import SURROGATE, mutations, write
from maxplus import (
    LipschitzInterpolator,
    LMMClassifier,
    LMMEnsembleClassifier,
    LMMRegressor,
    MaxPlusClassifier,
    SubgradientLMMClassifier,
)
from maxplus.io import FileError
from maxplus.io.models import KIND, describe
from maxplus.tables import TableError

pytestmark = pytest.mark.filterwarnings("ignore")


def flowers():
    X, y = load_iris(return_X_y=True)
    some = np.r_[0:12, 50:62, 100:112]
    return X[some], np.array(["a", "bb", "c"])[y[some]]


def frame():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.integers(20, 80, 60).astype(float),
            "colour": rng.choice(["red", "blue"], 60),
            "size": rng.choice(["low", "medium", "high"], 60),
            "x": rng.normal(size=60),
        }
    )
    return table, np.where(table["age"] + 20.0 * (table["colour"] == "red") > 55.0, "yes", "no")


def numbers():
    X, _ = flowers()
    return X[:, 1:], X[:, 0]


BOXES = {"slope": 2.0, "warmup_epochs": 2, "random_state": 0}
CASES = {
    "lmm": (LMMClassifier(6, early_stopping=True, **BOXES), flowers),
    "frame": (LMMClassifier(4, **BOXES), frame),
    "ensemble": (
        LMMEnsembleClassifier(LMMClassifier(4, slope=2.0, warmup_epochs=2), 2, random_state=0),
        flowers,
    ),
    "sum": (LMMClassifier(scoring="accuracy", warmup_epochs=2, random_state=0), flowers),
    "regression": (LMMRegressor(epochs=2, random_state=0), numbers),
    "interpolation": (LipschitzInterpolator(), numbers),
    "paper": (SubgradientLMMClassifier(4, max_iter=5, random_state=0), flowers),
    "max-plus": (MaxPlusClassifier(max_iter=5, random_state=0), flowers),
}


@cache
def fitted(name):
    """(The estimator, the rows it was fitted on.)"""
    model, data = CASES[name]
    X, y = data()
    return clone(model).fit(X, y), X


def use(model, X, path):
    """Everything that needs a fitted attribute."""
    repr(model)
    answers = model.predict(X)
    if hasattr(model, "predict_interval"):
        # An interval is infinite where few rows cannot bear out its coverage.
        assert not np.isnan(model.predict_interval(X)).any()
    if hasattr(model, "classes_"):
        assert np.isfinite(model.predict_proba(X)).all()
        assert model.status_message_
    if hasattr(model, "certified_accuracy"):
        scale = model.certificate_scale()
        model.certified_accuracy(X, answers, [0.0, 0.1], scale=scale)
        assert not np.isnan(model.certified_radius(X, scale=scale)).any()
        str(model.explain(X[:2]))
    if hasattr(model, "units"):
        model.units()
    model.save(path)
    maxplus.load(path)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_mutated_file_is_refused_or_loads_a_model_that_works(name, tmp_path):
    model, X = fitted(name)
    use(model, X, tmp_path / "whole")
    document, arrays = describe(model)
    refused = 0
    for what, changed, own in mutations({**document, "notes": ["a note"]}, arrays):
        write(tmp_path / "mutated", KIND, changed, own)
        try:
            again = maxplus.load(tmp_path / "mutated")
        except FileError:
            refused += 1
            continue
        if name == "frame" and changed.get("encoder") is None:
            continue  # A model for rows of numbers, as if it had been fitted on an array.
        if what.endswith(".name = ''") and "target" not in what:
            with pytest.raises(TableError, match="lacks column ''"):
                again.predict(X)
            continue
        try:
            use(again, X, tmp_path / "again")
        except Exception as error:
            raise AssertionError(f"{what}: {error!r}") from error
    assert refused > 100


DAMAGE = {
    "ensemble without scale": ("ensemble", "scale", None, "scale_ is missing"),
    "sum without term means": ("sum", "term_means", None, "term_means_ is missing"),
    "classifier without scale": ("lmm", "scale", None, "scale_ is missing"),
    "regression without quantiles": ("regression", "residual_quantiles", None, "is missing"),
    "too few quantiles": ("regression", "residual_quantiles", [0.1], "'residual_quantiles'"),
    "quantile NaN": ("regression", "residual_quantiles", [np.nan] * 23, "'residual_quantiles'"),
    "quantile below 0": ("regression", "residual_quantiles", [-0.1] * 23, "'residual_quantiles'"),
    "no residuals": ("regression", "residuals", [], "'residuals' does not hold"),
    "residual NaN": ("regression", "residuals", [0.1, np.nan], "'residuals' does not hold"),
    "residual below 0": ("regression", "residuals", [-0.1, 0.1], "'residuals' does not hold"),
    "residuals not in order": ("regression", "residuals", [0.2, 0.1], "'residuals' does not hold"),
}


@pytest.mark.parametrize(("name", "array", "value", "message"), DAMAGE.values(), ids=DAMAGE)
def test_load_refuses_missing_or_wrong_fitted_attribute(name, array, value, message, tmp_path):
    document, arrays = describe(fitted(name)[0], remember_rows=True)
    assert array in arrays
    arrays = {key: A for key, A in arrays.items() if key != array}
    if value is not None:
        arrays[array] = np.array(value, np.float64)
    write(tmp_path / "damaged", KIND, document, arrays)
    with pytest.raises(FileError, match=message):
        maxplus.load(tmp_path / "damaged")


def test_load_refuses_weights_whose_scores_overflow(tmp_path):
    document, arrays = describe(fitted("lmm")[0])
    arrays["model.W1"] = np.full_like(arrays["model.W1"], -1e308)
    write(tmp_path / "large", KIND, document, arrays)
    with pytest.raises(FileError, match="the weights W1 are so large that scores overflow"):
        maxplus.load(tmp_path / "large")


TEXTS = {
    "notes": lambda d: d.update(notes={"by": SURROGATE}),
    "key of notes": lambda d: d.update(notes={SURROGATE: 1}),
    "class": lambda d: d["classes"]["values"].__setitem__(-1, f"yes{SURROGATE}"),
    "target": lambda d: d["encoder"]["target"].update(name=SURROGATE),
    "decision": lambda d: d["encoder"]["decisions"].append(SURROGATE),
    "parameter": lambda d: d["parameters"].update(random_state=SURROGATE),
}


@pytest.mark.parametrize("change", TEXTS.values(), ids=TEXTS)
def test_load_refuses_text_with_half_of_a_surrogate_pair(change, tmp_path):
    document, arrays = describe(fitted("frame")[0])
    change(document)
    write(tmp_path / "text", KIND, document, arrays)
    with pytest.raises(FileError, match="half of a surrogate pair") as refusal:
        maxplus.load(tmp_path / "text")
    assert re.search(r"[\ud800-\udfff]", str(refusal.value)) is None


def test_load_accepts_text_with_a_whole_surrogate_pair(tmp_path):
    """JSON writes characters beyond 16 bits as two escapes."""
    document, arrays = describe(fitted("lmm")[0])
    write(tmp_path / "text", KIND, document | {"notes": "🙂"}, arrays)
    assert b"ud83d" in (tmp_path / "text").read_bytes()
    maxplus.load(tmp_path / "text")
