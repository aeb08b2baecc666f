"""Invalid input of estimators: errors that give the argument, the value and the remedy."""

import re
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import pytest

from maxplus import (
    LinearMaxPlusClassifier,
    LipschitzInterpolator,
    LMMClassifier,
    LMMRegressor,
    MaxPlusClassifier,
    SubgradientLMMClassifier,
)
from maxplus.estimators import NoEffectWarning
from maxplus.training import MaxLoss
from processes import run_fresh

LMMS = [LMMClassifier, SubgradientLMMClassifier]
STEPPED = [SubgradientLMMClassifier, MaxPlusClassifier, LinearMaxPlusClassifier]
CLASSIFIERS = [LMMClassifier, *STEPPED]
ALL = [*CLASSIFIERS, LMMRegressor, LipschitzInterpolator]
NAN, INF = float("nan"), float("inf")


def quick(estimator, **parameters):
    """Return an estimator whose training is short."""
    few = {
        LMMRegressor: {"epochs": 2},
        LMMClassifier: {"warmup_epochs": 2},
        LipschitzInterpolator: {},
    }
    return estimator(**few.get(estimator, {"max_iter": 5}) | parameters)


def assert_rejected(call, *parts, error=(ValueError, TypeError)):
    """Assert that ``call`` raises an error whose message contains all parts."""
    with pytest.raises(error) as caught:
        call()
    for part in parts:
        assert re.search(part, str(caught.value)), f"{part!r} is not in {caught.value}"


# -- hyper-parameters -------------------------------------------------------------------------

WHOLE = [0, -3, 1.5, "5", True, NAN]
POSITIVE = [0, 0.0, -1.0, NAN, INF, "much", True, [1.0]]

# Estimators, argument, invalid values, and parts of the message about valid values.
PARAMETERS = [
    (STEPPED, "objective", ["median", None, 1], ["'max', 'mean'"]),
    (STEPPED, "step", ["big", None, 0.1], ["'two-phase', 'polyak', 'constant', 'level'"]),
    (STEPPED, "engine", ["warp", None, 1], ["'auto'", "'dense'", "'tree'", "'sgd'"]),
    (STEPPED[:1], "objective", [MaxLoss], [r"'trimmed-max' or an Objective \(maxplus.training\)"]),
    (STEPPED[:1], "step", [abs], [r"'level' or a StepRule \(maxplus.training\)"]),
    (STEPPED, "keep", ["worst", None], ["'best', 'last'"]),
    (STEPPED, "polyak_target", [-0.1, NAN, INF, "low"], [">= 0"]),
    (STEPPED, "polyak_fraction", [-0.1, 1.1, NAN, "half"], [">= 0", "<= 1"]),
    (STEPPED, "learning_rate", POSITIVE, ["> 0"]),
    (STEPPED, "max_iter", WHOLE, ["integer >= 1"]),
    (STEPPED, "warm_start", [None, 1, "yes"], ["True or False"]),
    (CLASSIFIERS, "verbose", [-1, "loud", None, 1.5], ["True, False", "integer >= 0"]),
    (CLASSIFIERS, "callbacks", [3, ["print"], "print"], ["callable"]),
    (ALL, "n_jobs", [0, 1.0, 1.5, "2", True], ["None or a nonzero integer .number of threads, -1"]),
    (STEPPED[:1], "init", ["zeros", None], ["'prototypes', 'gaussian', 'uniform'"]),
    (STEPPED[1:], "init", ["zeros", None], ["'glorot', 'gaussian', 'uniform'"]),
    (STEPPED[1:], "scale", POSITIVE, ["> 0"]),
    ([*LMMS, LinearMaxPlusClassifier], "n_hidden", WHOLE, ["integer >= 1"]),
    ([LipschitzInterpolator], "n_hidden", WHOLE, ["integer >= 1"]),
    ([*LMMS, LipschitzInterpolator], "slope", [0, -1.0, NAN, INF, None, True], ["> 0 or 'auto'"]),
    ([*LMMS, LipschitzInterpolator], "slope", ["steep"], ["'auto'"]),
    ([LMMRegressor], "loss", ["cubed", "squared", None], ["'squared_error', 'absolute_error'"]),
    ([LMMRegressor], "epochs", [*WHOLE, "many"], ["integer >= 1"]),
    (LMMS, "init_margin", POSITIVE, ["> 0"]),
    (STEPPED[1:], "objective", ["top-k"], ["'max', 'mean'"]),
    (STEPPED[:1], "top_k", [0, -2, 1.0, 1.5, 0.0, -0.1, NAN, INF], ["integer >= 1", "< 1"]),
    (STEPPED[:1], "top_k", ["all", None, True, [2]], ["integer >= 1", "fraction"]),
    ([LMMClassifier], "warmup_epochs", [*WHOLE, "many"], ["integer >= 1"]),
    ([LMMClassifier], "batch_size", [*WHOLE, "many"], ["integer >= 1"]),
    (
        [LMMClassifier],
        "robust_eps",
        [-0.1, NAN, INF, "far", None, True, [0.1, -0.1], {"age": -1}],
        [">= 0, an array with such", "a dict that maps column names to finite"],
    ),
    ([LMMClassifier], "robust_training", POSITIVE, ["a finite number > 0 or 'auto'"]),
    ([LMMClassifier], "clip", [(2.0, 1.0), "all"], ["'range'", "low < high"]),
    ([LMMClassifier], "augment", ["shift", 3], ["callable"]),
    ([LMMClassifier], "early_stopping", [None, 1, "yes"], ["True or False"]),
    ([LMMClassifier], "validation_fraction", [0, 0.0, -0.1, 0.95, NAN, "some"], ["> 0"]),
    ([LMMClassifier], "n_iter_no_change", WHOLE, ["integer >= 1"]),
    ([LMMClassifier], "max_suspects", [-1, 1.5, NAN, "few", True, None], ["integer >= 0"]),
    ([LMMClassifier], "polish", ["log3"], ["'log2'"]),
    (
        [LMMClassifier],
        "polish",
        [0, -1.0, NAN, INF, True, False],
        ["> 0", "'auto', 'log2' or None"],
    ),
    (STEPPED[:1], "w0_update_interval", [-1, 2.5, "7", None], ["integer >= 0"]),
]
CASES = [
    pytest.param(estimator, name, values, allowed, id=f"{estimator.__name__}-{name}-{values[0]}")
    for estimators, name, values, allowed in PARAMETERS
    for estimator in estimators
]


@pytest.mark.parametrize(("estimator", "name", "values", "allowed"), CASES)
def test_fit_rejects_invalid_parameters(iris, estimator, name, values, allowed):
    for value in values:
        fit = partial(quick(estimator, **{name: value}).fit, *iris)
        assert_rejected(fit, rf"\b{name}\b", re.escape(repr(value)), *allowed)


@pytest.mark.parametrize(
    ("estimator", "parameters", "parts"),
    [
        *[
            (
                SubgradientLMMClassifier,
                {"engine": engine, "objective": objective},
                [engine, f"objective='{objective}'"],
            )
            for engine, objective in product(("tree", "sgd"), ("mean", "top-k", "max"))
            if (engine, objective) not in (("tree", "max"), ("sgd", "mean"))
        ],
        (MaxPlusClassifier, {"engine": "tree"}, ["engine='tree'", "MaxPlusClassifier"]),
        (MaxPlusClassifier, {"engine": "sgd"}, ["sgd", "objective='max'"]),
        (
            LinearMaxPlusClassifier,
            {"engine": "tree", "objective": "max"},
            ["engine='tree'", "LinearMaxPlusClassifier"],
        ),
    ],
)
def test_unsuitable_engine_warns_and_is_replaced(iris, estimator, parameters, parts):
    parameters = {"random_state": 0, **parameters}
    model = quick(estimator, **parameters)
    with pytest.warns(NoEffectWarning) as caught:
        model.fit(*iris)
    (message,) = (str(one.message) for one in caught)
    assert all(re.search(part, message) for part in parts), message
    automatic = quick(estimator, **parameters | {"engine": "auto"}).fit(*iris)
    assert re.search(rf"; '{automatic._engine_class().name}' is used", message)
    assert np.array_equal(model.loss_curve_, automatic.loss_curve_)


def test_fit_rejects_iterator_of_callbacks(iris):
    """Validation would exhaust an iterator, so that no callback is called."""
    model = quick(SubgradientLMMClassifier, callbacks=iter([print]))
    assert_rejected(lambda: model.fit(*iris), "callbacks must be None or a callable or a list")


# -- samples and labels -----------------------------------------------------------------------
# The checks of scikit-learn cover sparse matrices, missing and infinite values, and shapes of X.


# Estimators, y, sample weights (None: those of iris), and parts of the message.
WEIGHTS = {
    "short weights": (np.ones(149), [r"\(149,\)", r"\(150,\)"]),
    "column of weights": (np.ones((150, 1)), [r"\(150, 1\)", r"\(150,\)"]),
    "one weight": (2.0, [r"\(\)", r"\(150,\)"]),
    "negative weights": (np.full(150, -1.0), ["-1", ">= 0"]),
    "nan weights": (np.full(150, NAN), ["nan", "finite"]),
    "infinite weights": (np.full(150, INF), ["inf", "finite"]),
    "zero weights": (np.zeros(150), ["zero"]),
    "text weights": (["heavy"] * 150, ["heavy"]),
}
TWO_CLASSES = np.arange(150) // 75
INVALID_DATA = {
    "fewer targets": (ALL, TWO_CLASSES[:149], None, ["150"]),
    "class 0 only": (CLASSIFIERS, np.zeros(150, int), None, ["class", "0", "two"]),
    "one text class": (CLASSIFIERS, np.full(150, "only"), None, ["class", "only", "two"]),
    "weights of one class": (CLASSIFIERS, TWO_CLASSES, TWO_CLASSES, ["one class"]),
    "continuous labels": (CLASSIFIERS, np.linspace(0, 1, 150), None, ["continuous"]),
    **{
        name: (ALL, None, weight, ["sample_weight", *parts])
        for name, (weight, parts) in WEIGHTS.items()
    },
}


@pytest.mark.parametrize(
    ("estimator", "y", "weight", "parts"),
    [
        pytest.param(estimator, *data, id=f"{estimator.__name__}-{name}")
        for name, (estimators, *data) in INVALID_DATA.items()
        for estimator in estimators
    ],
)
def test_fit_rejects_invalid_data(iris, estimator, y, weight, parts):
    fit, y = quick(estimator).fit, iris.y if y is None else y
    assert_rejected(lambda: fit(iris.X, y, sample_weight=weight), *parts, error=ValueError)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("slope", ["auto", 1.0])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_fit_rejects_features_beyond_float_range(iris, slope, dtype, sign):
    X = (sign * iris.X / iris.X.max() * 0.9).astype(dtype) * np.finfo(dtype).max
    model = quick(LMMClassifier, slope=slope)
    assert_rejected(
        lambda: model.fit(X, iris.y), "X reaches", "scale", np.dtype(dtype).name, error=ValueError
    )


@pytest.mark.slow
def test_overflowing_training_is_rejected_or_finite():
    """Steps may overflow W0. The fits run in a new process, because they may crash."""
    result = run_fresh(
        """
import json
from itertools import product
import numpy as np
from sklearn.datasets import load_iris
from maxplus import SubgradientLMMClassifier

X, y = load_iris(return_X_y=True)
is_valid = {}
for engine, (dtype, scale) in product(("dense", "tree"), (("float64", 1e160), ("float32", 1e30))):
    model = SubgradientLMMClassifier(10, engine=engine, max_iter=300, keep="last", random_state=0)
    try:
        model.fit((X * scale).astype(dtype), y)
        arrays = (model.W0_, model.W1_, model.W2_, model.history_["loss"])
        is_valid[f"{engine}, {dtype}"] = all(bool(np.isfinite(W).all()) for W in arrays)
    except ValueError as error:
        is_valid[f"{engine}, {dtype}"] = "X" in str(error) and "scale" in str(error)
print(json.dumps(is_valid))
"""
    )
    assert len(result) == 4
    assert all(result.values()), result


@pytest.mark.parametrize("estimator", STEPPED)
def test_partial_fit_rejects_unknown_labels_and_classes(iris, estimator):
    call = quick(estimator).partial_fit
    assert_rejected(lambda: call(*iris, classes=[0, 1]), "label.*2", r"\[0, 1\]", error=ValueError)
    model = quick(estimator).fit(iris.X[:100], iris.y[:100])
    assert_rejected(lambda: model.partial_fit(*iris), "label.*2", r"\[0, 1\]", error=ValueError)
    assert_rejected(
        lambda: model.partial_fit(*iris, classes=[0, 1, 2]),
        r"classes is \[0, 1, 2\]",
        r"continues with the classes \[0, 1\]",
        error=ValueError,
    )
    model.partial_fit(iris.X[:100], iris.y[:100], classes=[1, 0])


# -- parameters without effect ----------------------------------------------------------------


# Estimators, parameters, the parameter without effect, and the condition in the message.
UNUSED = [
    (
        STEPPED,
        {"step": "polyak", "learning_rate": 0.5},
        "learning_rate=0.5",
        "'two-phase' or 'const",
    ),
    (STEPPED, {"step": "level", "learning_rate": 0.5}, "learning_rate=0.5", "step is"),
    (STEPPED, {"step": "constant", "polyak_fraction": 0.2}, "polyak_fraction=0.2", "'two-phase'"),
    (STEPPED[:1], {"top_k": 3}, "top_k=3", "objective is 'top-k'"),
    (STEPPED[1:], {"scale": 2.0}, "scale=2.0", "'gaussian' or 'uniform'"),
    ([LMMClassifier], {"polish": None, "max_suspects": 3}, "max_suspects=3", "is polished"),
    ([LMMClassifier], {"n_iter_no_change": 2}, "n_iter_no_change=2", "early_stopping is True"),
    ([LMMClassifier], {"validation_fraction": 0.2}, "validation_fraction=0.2", "early_stopping"),
    ([LMMClassifier], {"clip": "range"}, "clip='range'", "robust_eps is above 0"),
    ([LMMClassifier], {"robust_training": 2.0}, "robust_training=2.0", "robust_eps is above 0"),
    (
        [LMMClassifier],
        {"n_hidden": 6, "scoring": "accuracy"},
        "scoring='accuracy'",
        "a sum of terms",
    ),
]
UNUSED_CASES = [
    pytest.param(estimator, parameters, what, when, id=f"{estimator.__name__}-{what}")
    for estimators, parameters, what, when in UNUSED
    for estimator in estimators
]


@pytest.mark.parametrize(("estimator", "parameters", "what", "when"), UNUSED_CASES)
def test_parameters_without_effect_warn(iris, estimator, parameters, what, when):
    few = {"n_hidden": 6, "slope": 3.0} if estimator is LMMClassifier else {}
    model = quick(estimator, **few | parameters)
    with pytest.warns(NoEffectWarning, match=f"{what} has no effect unless .*{when}") as caught:
        model.fit(*iris)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    # No warning for the default.
    name = what.partition("=")[0]
    model.set_params(**{name: getattr(type(model)(), name)}).fit(*iris)


def test_late_constant_steps_warn(iris):
    """The best weights precede the constant steps, so that learning_rate has no effect."""
    model = SubgradientLMMClassifier(
        8, engine="dense", max_iter=20, polyak_fraction=1.0, learning_rate=0.5, random_state=0
    )
    with pytest.warns(NoEffectWarning, match=r"learning_rate=0.5 has no effect here.*begin at 20"):
        model.fit(*iris)
    model.set_params(polyak_fraction=0.0, keep="last").fit(*iris)


def test_integer_parameters_accept_zero_as_float():
    LMMClassifier(max_suspects=0.0, verbose=0.0)._check_parameters()
    SubgradientLMMClassifier(w0_update_interval=0.0)._check_parameters()
    with pytest.raises(ValueError, match="top_k must be"):
        SubgradientLMMClassifier(top_k=0.0)._check_parameters()


@pytest.mark.parametrize("estimator", ALL)
@pytest.mark.parametrize("missing", [None, NAN, pd.NA, pd.NaT], ids=str)
def test_fit_rejects_missing_labels(iris, estimator, missing):
    y = pd.Series(["1", "2"] * 75, dtype=object)
    y[[3, 4]] = missing
    for labels in (y, y.to_numpy(), y.tolist()):
        with pytest.raises(ValueError, match=r"^y has missing values \(2 of 150\); remove"):
            quick(estimator).fit(iris.X, labels)


@pytest.mark.parametrize("estimator", [LMMRegressor, LipschitzInterpolator])
def test_regressors_reject_text_labels(iris, estimator):
    for dtype in (object, str):
        y = np.array(["1.5", "high"] * 75, dtype)
        with pytest.raises(ValueError, match=r"^y must hold numbers in a regression; got 'high';"):
            quick(estimator).fit(iris.X, y)
    assert np.isfinite(quick(LMMRegressor).fit(iris.X, iris.X[:, 0].astype(str)).bounds_).all()


def test_arrays_of_text_are_rejected_with_a_remedy():
    rows = [[1.0, "a"], [2.0, "b"], [3.0, "a"], [4.0, "b"]]
    for X in (rows, np.array(rows, object), np.array(rows)):
        with pytest.raises(ValueError, match=r"^X contains text, such as 'a'; pass a data frame"):
            quick(LMMClassifier).fit(X, [0, 1, 0, 1])
    frame = pd.DataFrame(rows, columns=["number", "word"])
    clf = quick(LMMClassifier).fit(frame, [0, 1, 0, 1])
    for call in (clf.predict, clf.explain, clf.smallest_change):
        with pytest.raises(ValueError, match=r"^X contains text.*frame\.iloc\[\[0\]\]"):
            call(frame.to_numpy()[:1])
    # Numbers as text are accepted.
    assert quick(LMMClassifier).fit([["1"], ["2"]], [0, 1]).n_features_in_ == 1


def test_empty_data_frames_are_rejected():
    frame = pd.DataFrame({"number": [1.0, 2.0], "word": ["a", "b"]})
    with pytest.raises(ValueError, match=r"^the data frame has no rows"):
        quick(LMMClassifier).fit(frame[:0], [])
    with pytest.raises(ValueError, match=r"^the data frame has no columns"):
        quick(LMMClassifier).fit(frame[[]], [0, 1])
