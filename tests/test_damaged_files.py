"""Model files with a valid digest and one wrong value: `load` refuses them, or the model works."""

import copy
import re
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

import maxplus
import sums
from file_mutations import SURROGATE, mutations, write
from maxplus import (
    LipschitzInterpolator,
    LMMClassifier,
    LMMEnsembleClassifier,
    LMMRegressor,
    MaxPlusClassifier,
    SubgradientLMMClassifier,
)
from maxplus.certify.margins import Margins
from maxplus.explain import shape_function
from maxplus.io import FileError
from maxplus.io.models import KIND, serialize
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


def regression():
    X, _ = flowers()
    return X[:, 1:], X[:, 0]


BRIEF = {"slope": 2.0, "warmup_epochs": 2, "random_state": 0}
FITTED = {
    "lmm": (LMMClassifier(6, early_stopping=True, **BRIEF), flowers),
    "frame": (LMMClassifier(4, **BRIEF), frame),
    "ensemble": (
        LMMEnsembleClassifier(LMMClassifier(4, slope=2.0, warmup_epochs=2), 2, random_state=0),
        flowers,
    ),
    "sum": (LMMClassifier(scoring="accuracy", warmup_epochs=2, random_state=0), flowers),
    "regression": (LMMRegressor(epochs=2, random_state=0), regression),
    "interpolation": (LipschitzInterpolator(), regression),
    "subgradient": (SubgradientLMMClassifier(4, max_iter=5, random_state=0), flowers),
    "max-plus": (MaxPlusClassifier(max_iter=5, random_state=0), flowers),
}
# Estimators with weights that were not trained: sums with and without a feature map.
MADE = {
    "made": lambda: (sums.classifier(*sums.mapped_sum()), sums.mapped_sum()[1]),
    "made regression": lambda: (
        sums.regressor(*sums.mapped_sum(n_classes=2)),
        sums.mapped_sum()[1],
    ),
    "made without map": lambda: (
        sums.classifier(sums.random_sum(), sums.mapped_sum()[1]),
        sums.mapped_sum()[1],
    ),
}


@cache
def estimator_and_rows(name):
    if name in MADE:
        return MADE[name]()
    model, data = FITTED[name]
    X, y = data()
    return clone(model).fit(X, y), X


def use(estimator, X, path):
    """Call all methods that use fitted attributes."""
    repr(estimator)
    predicted = estimator.predict(X)
    if hasattr(estimator, "predict_interval"):
        # An interval is infinite if there are too few rows for its coverage.
        assert not np.isnan(estimator.predict_interval(X)).any()
    if hasattr(estimator, "classes_"):
        assert np.isfinite(estimator.predict_proba(X)).all()
        assert estimator.status_message_
    if hasattr(estimator, "certified_accuracy"):
        scale = estimator.certificate_scale()
        estimator.certified_accuracy(X, predicted, [0.0, 0.1], scale=scale)
        assert not np.isnan(estimator.certified_radius(X, scale=scale)).any()
        str(estimator.explain(X[:2]))
    if hasattr(estimator, "units"):
        estimator.units()
    model = estimator.model_
    if getattr(model, "is_sum", False) and isinstance(X, np.ndarray):
        assert np.isfinite(model.scores(X)).all()
        assert model.activation_counts(X).shape == (model.n_hidden,)
        margins = Margins(model, X[:5], np.zeros(5, int), np.ones(model.n_features))
        assert not np.isnan(margins.lower_bounds(np.arange(5), np.full(5, 0.1))).any()
        if hasattr(estimator, "term_means_"):
            shape_function(model, 0, estimator.term_means_)
    estimator.save(path)
    maxplus.load(path)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*FITTED, *MADE])
def test_mutated_file_is_refused_or_loads_a_model_that_works(name, tmp_path):
    estimator, X = estimator_and_rows(name)
    use(estimator, X, tmp_path / "whole")
    document, arrays = serialize(estimator)
    refused = 0
    for what, changed, own in mutations({**document, "notes": ["a note"]}, arrays):
        write(tmp_path / "mutated", KIND, changed, own)
        try:
            again = maxplus.load(tmp_path / "mutated")
        except FileError:
            refused += 1
            continue
        if name == "frame" and changed.get("encoder") is None:
            continue  # The model takes encoded rows, as if it had been fitted on an array.
        if what.endswith(".name = ''") and "target" not in what:
            with pytest.raises(TableError, match="lacks column ''"):
                again.predict(X)
            continue
        try:
            use(again, X, tmp_path / "again")
        except Exception as error:
            raise AssertionError(f"{what}: {error!r}") from error
    assert refused > 100


def without(name):
    """Return a change that removes an array."""
    return lambda document, arrays: arrays.pop(name)


def array(name, change):
    """Return a change of an array; values that are not arrays replace it."""
    return lambda document, arrays: arrays.update(
        {name: change(arrays[name]) if callable(change) else np.array(change, np.float64)}
    )


def field(path, value):
    """Return a change of a value of the document; "encoder.ranges" is a path."""

    def change(document, arrays):
        *above, name = path.split(".")
        for part in above:
            document = document[part]
        document[name] = value

    return change


def take_from(other, names, prefix=None):
    """Return a change that takes fields, and arrays with a prefix, from another estimator."""

    def change(document, arrays):
        foreign, own = serialize(estimator_and_rows(other)[0])
        document.update({name: foreign[name] for name in names})
        if prefix is not None:
            arrays.update({name: A for name, A in own.items() if name.startswith(prefix)})

    return change


def shorten_columns(document, arrays):
    encoder = document["encoder"]
    encoder["columns"] = encoder["columns"][:-1]
    encoder["ranges"] = {name: values[:-1] for name, values in encoder["ranges"].items()}


# Estimator, change and message.
DAMAGE = {
    # Names, parameters and attributes.
    "estimator": ("lmm", field("estimator", "os.system"), "unknown estimator 'os.system'"),
    "parameter": ("subgradient", field("parameters.engine", "x"), "engine must be"),
    "unknown parameter": ("lmm", field("parameters.nonsense", 1), "parameters are invalid"),
    "parameters": ("lmm", field("parameters", [1]), r"parameters cannot be \[1\]"),
    "unknown attribute": ("lmm", field("attributes.__class__", "x"), "no attribute '__class__'"),
    "attribute": ("lmm", field("attributes.n_iter_", -1), "n_iter_ cannot be -1"),
    "status": ("lmm", field("attributes.status_", "x"), "status_ cannot be 'x'"),
    "missing attribute": ("lmm", lambda d, a: d["attributes"].pop("max_loss_"), "max_loss_ is mis"),
    "n_features": ("lmm", field("n_features", 5), "number of features cannot be 5"),
    "feature names": ("lmm", field("feature_names", ["a"]), "feature_names must have 4"),
    # Classes and training rows.
    "two classes": ("lmm", field("classes.values", ["a", "b"]), "2 classes, but its model has 3"),
    "class order": ("lmm", field("classes.values", ["c", "bb", "a"]), "in ascending order"),
    "class type": ("lmm", field("classes.type", "|O"), "classes.type cannot be"),
    "no class type": ("lmm", field("classes.type", None), "classes.type cannot be None"),
    "long class type": ("lmm", field("classes.type", "<U" + "9" * 50), "classes.type cannot be"),
    "class memory": ("lmm", field("classes.type", "<U99999999"), "take too much memory"),
    "list of classes": ("lmm", field("classes", ["a", "b", "c"]), "classes cannot be"),
    "nested classes": ("lmm", field("classes.values", [["a"], ["b"], ["c"]]), "<U2'"),
    "mixed classes": ("lmm", field("classes", {"type": "object", "values": ["a", 1]}), "cannot be"),
    "large class": ("lmm", field("classes", {"type": "|i1", "values": [1, 300]}), r"\|i1"),
    "class 2.5": ("lmm", field("classes", {"type": "<i8", "values": [1, 2.5]}), "different type"),
    "history": ("subgradient", array("history.loss", lambda A: A[:-1]), "differ in length"),
    "label": ("lmm", array("training.labels", lambda A: A + 3), "not one of the classes"),
    "losses": ("lmm", array("training.losses", lambda A: A[:-1]), "has shape"),
    # Summary of the training rows.
    "no summary": ("lmm without rows", lambda d, a: d.pop("training"), ": training"),
    "36 rows": ("lmm without rows", field("training.n_rows", 35), ": training"),
    "half a row": ("lmm without rows", field("training.n_rows", 1.5), ": training"),
    "two counts": ("lmm without rows", field("training.class_counts", [1, 2]), ": training"),
    "count < 0": ("lmm without rows", field("training.class_counts", [12, 12, -1]), ": training"),
    "37 rows below log 2": ("lmm without rows", field("training.n_below_log2", 37), ": training"),
    "word as mean": ("lmm without rows", field("training.mean_loss", "low"), ": training"),
    "mean < 0": ("lmm without rows", field("training.mean_loss", -1.0), ": training"),
    # Weights of single networks.
    "no weights": ("lmm", without("model.W1"), "W1"),
    "odd rows": (
        "lmm",
        lambda d, a: a.update({f"model.{W}": a[f"model.{W}"][:-1] for W in ("W0", "W1")}),
        "is damaged",
    ),
    "NaN": ("lmm", array("model.W1", lambda A: A * np.nan), "W1 are not all finite"),
    "infinity": ("lmm", array("model.W1", lambda A: A + np.inf), "W1 are not all finite"),
    "overflow": ("lmm", array("model.W1", lambda A: 0 * A - 1e308), "W1 are so large that scores"),
    # Attributes that are arrays.
    "no scale": ("lmm", without("scale"), "scale_ is missing"),
    "negative scale": ("lmm", array("scale", lambda A: -A), "finite numbers > 0"),
    "type of scale": ("lmm", array("scale", lambda A: A.astype(np.float32)), "wrong type"),
    "no term means": ("sum", without("term_means"), "term_means_ is missing"),
    "importances": ("lmm", array("feature_importances", [0.5] * 4), "array 'feature_importances'"),
    "importance < 0": (
        "lmm",
        array("feature_importances", [-0.1, 0.3, 0.5, 0.3]),
        "array 'feature_importances'",
    ),
    "importance NaN": ("lmm", array("feature_importances", [np.nan] * 4), "array 'feature_imp"),
    "one importance": ("lmm", array("feature_importances", [1.0]), "array 'feature_importances'"),
    "term means NaN": ("made", array("term_means", lambda A: A * np.nan), "not finite"),
    "no quantiles": ("regression", without("residual_quantiles"), "residual_quantiles_ is missing"),
    "too few quantiles": ("regression", array("residual_quantiles", [0.1]), "does not contain"),
    "quantile NaN": ("regression", array("residual_quantiles", [np.nan] * 23), "does not contain"),
    "no residuals": ("regression", array("residuals", []), "does not contain"),
    "residual < 0": ("regression", array("residuals", [-0.1, 0.1]), "does not contain"),
    "residual order": ("regression", array("residuals", [0.2, 0.1]), "does not contain"),
    "no bounds": ("made regression", without("bounds"), "bounds_ is missing"),
    "order of bounds": ("made regression", array("bounds", [1.0, 0.0]), "in ascending order"),
    "infinite bound": ("made regression", array("bounds", [0.0, np.inf]), "two finite numbers"),
    "type of bounds": (
        "made regression",
        array("bounds", lambda A: A.astype(np.float32)),
        "wrong type",
    ),
    # Terms and feature map of a sum.
    "no starts": ("made", array("model.feature_start", lambda A: A[:0]), "does not divide"),
    "no units": ("made", array("model.unit_start", lambda A: 0 * A), "does not divide"),
    "terms": (
        "made",
        array("model.unit_start", lambda A: A[[*range(len(A) - 2), -1]]),
        "different numbers of terms",
    ),
    "units moved": (
        "made",
        array("model.unit_start", lambda A: A - (np.arange(len(A)) == 8)),
        "'W1' does not divide",
    ),
    "features": ("made", array("model.features", lambda A: A + 1), "increasing integers 0..4"),
    "type of features": ("made", array("model.features", lambda A: A * 1.0), "wrong type"),
    "offsets": ("made", array("model.W1", lambda A: A[:-1]), "'W1' does not divide"),
    "type of offsets": (
        "made",
        array("model.W1", lambda A: A.astype(np.float32)),
        "wrong type",
    ),
    "no outputs": ("made", array("model.W2", lambda A: A[:, :0]), "sizes >= 1"),
    "more outputs": ("made", array("model.W2", lambda A: np.c_[A, A[:, 0]]), "intercept must hold"),
    "intercept": ("made", array("model.intercept", lambda A: A + 1e305), "scores could overflow"),
    "intercept NaN": ("made", array("model.intercept", lambda A: A * np.nan), "3 finite numbers"),
    "knot order": ("made", array("model.knot_x", lambda A: -A), "increasing positions"),
    "infinite knots": ("made", array("model.knot_x", lambda A: A * np.inf), "must be finite"),
    "values decrease": ("made", array("model.knot_u", lambda A: -A), "do not decrease"),
    "values missing": ("made", array("model.knot_u", lambda A: A[:-1]), "does not divide"),
    "large values": ("made", array("model.knot_u", lambda A: A * 1e306), "knots .* so large"),
    "distant knots": ("made", array("model.knot_x", lambda A: A * 1e305), "knots .* so large"),
    # Models of other estimators.
    "regression with three outputs": (
        "made regression",
        take_from("made", [], "model."),
        "with 3 outputs",
    ),
    "interpolation with a sum": (
        "interpolation",
        take_from("made regression", ["n_features", "n_columns"], "model."),
        "is damaged",
    ),
    "regression with a single network": (
        "made regression",
        take_from("interpolation", ["n_features", "n_columns"], "model."),
        "is damaged",
    ),
    "subgradient classifier with a sum": (
        "made",
        take_from("subgradient", ["estimator", "parameters"]),
        "is damaged",
    ),
    # Candidates of a search.
    "one candidate": ("made", field("search.candidates", ["a"]), "search.chosen cannot be 1"),
    "no candidates": ("made", field("search.candidates", []), "search.chosen cannot be 1"),
    "candidates": ("made", field("search.candidates", [1, 2]), r"candidates\[0\] cannot be 1"),
    "ragged losses": ("made", field("search.losses", [[0.5], [0.5, 0.25]]), "same number of"),
    "loss NaN": ("made", field("search.losses", [[0.5], [np.nan]]), r"losses\[1\]\[0\] cannot be"),
    "scores": ("made", field("search.scores", [[0.5]]), "search.scores does not have"),
    # Encoders.
    "encoder": ("frame", field("encoder", "x"), "is damaged"),
    "ranges": ("frame", lambda d, a: d["encoder"].pop("ranges"), "is damaged"),
    "a column less": ("frame", shorten_columns, "is damaged"),
}
# Texts that are not Unicode.
SURROGATES = {
    "notes": lambda d, a: d.update(notes={"by": SURROGATE}),
    "key of notes": lambda d, a: d.update(notes={SURROGATE: 1}),
    "class": lambda d, a: d["classes"]["values"].__setitem__(-1, f"yes{SURROGATE}"),
    "target": field("encoder.target.name", SURROGATE),
    "decision": lambda d, a: d["encoder"]["decisions"].append(SURROGATE),
    "parameter": field("parameters.random_state", SURROGATE),
}
DAMAGE |= {
    f"surrogate in {what}": ("frame", change, "a lone surrogate")
    for what, change in SURROGATES.items()
}


@pytest.mark.parametrize(("name", "change", "message"), DAMAGE.values(), ids=DAMAGE)
def test_load_refuses_damaged_value(name, change, message, tmp_path):
    document, arrays = described(name)
    change(document, arrays)
    write(tmp_path / "damaged", KIND, document, arrays)
    with pytest.raises(FileError, match=message) as refusal:
        maxplus.load(tmp_path / "damaged")
    text = str(refusal.value)
    assert "is damaged" in text
    assert "\n" not in text
    assert len(text) < 400
    assert re.search(r"[\ud800-\udfff]", text) is None


def described(name):
    """Return copies of the document and the arrays of an estimator, with training rows or not."""
    own = name.removesuffix(" without rows")
    document, arrays = serialize(estimator_and_rows(own)[0], remember_rows=name == own)
    return copy.deepcopy(document), dict(arrays)
