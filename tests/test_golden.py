"""Golden records: iterates, scores, certificates and explanations compared with stored values.

Exact results are stored as SHA-256 digests, and explanations as text. Results that depend on BLAS
or on the processor in their last digits are stored as a few numbers and compared with a tolerance.
To renew the records after an intended change of results::

    python tests/test_golden.py
"""

import hashlib
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris

from maxplus import LMMClassifier, LMMRegressor, SubgradientLMMClassifier
from maxplus.certify import box_bounds, certified_radius
from maxplus.explain import Domain, nearest_counterfactuals
from sums import classifier, mapped_sum

RECORDS = Path(__file__).with_name("golden.json")
TOLERANCE = 1e-4


def digest(*arrays):
    """Return the SHA-256 digest of the bytes of arrays."""
    content = hashlib.sha256()
    for array in map(np.ascontiguousarray, arrays):
        content.update(f"{array.dtype.str}{array.shape}".encode() + array.tobytes())
    return content.hexdigest()


def digits(dtype):
    """Return rows on a coarse grid, so that many values tie."""
    rng = np.random.default_rng(7)
    return rng.integers(0, 8, (120, 6)).astype(dtype) / 4, np.arange(120) % 3


ENGINES = [
    (engine, step, objective, interval, dtype)
    for engine, step, objective, interval, dtype in itertools.product(
        ("dense", "tree", "sparse", "sgd"),
        ("two-phase", "polyak", "constant", "level"),
        ("max", "top-k", "mean"),
        (0, 1, 7),
        ("float32", "float64"),
    )
    if {"dense": True, "tree": objective == "max", "sparse": objective != "mean"}.get(
        engine, objective == "mean" and step == "constant"
    )
]


def engine_record(engine, step, objective, interval, dtype):
    X, y = digits(dtype)
    clf = SubgradientLMMClassifier(
        9,
        engine=engine,
        step=step,
        objective=objective,
        w0_update_interval=interval,
        max_iter=60,
        top_k=5,
        random_state=3,
        slope=2.0,
        n_jobs=1,
    ).fit(X, y)
    history = (clf.history_[name] for name in ("loss", "sample", "step"))
    return digest(clf.W0_, clf.W1_, clf.W2_, *history)


def sum_record(dtype):
    model, X = mapped_sum(seed=5, dtype=np.dtype(dtype).type)
    scale = np.linspace(0.5, 1.5, model.n_features)
    bounds = box_bounds(model.terms[-1].lmm, model.mapped(X), 0.25, scale)
    flips = nearest_counterfactuals(model, X[:20])
    values = [getattr(flips, name) for name in flips._fields]
    return digest(
        model.scores(X),
        certified_radius(model, X, scale),
        bounds.low,
        bounds.high,
        *(value for value in values if isinstance(value, np.ndarray) and value.dtype != object),
    )


def text_record():
    model, X = mapped_sum(seed=6)
    clf = classifier(model, X)
    texts = [
        str(clf.explain(X[:5])),
        str(clf.smallest_change(X[0], low=X.min(axis=0), high=X.max(axis=0))),
        str(clf.rules(X, clf.predict(X), domain=Domain.unrestricted(5))),
    ]
    return "\n".join(texts).splitlines()


def fitted_record(name):
    X, y = load_iris(return_X_y=True)
    if name == "regression":
        model = LMMRegressor(epochs=5, random_state=0).fit(X[:, :3], X[:, 3])
        return model.predict(X[::15, :3]).round(6).tolist()
    options = {
        "sum": {"warmup_epochs": 10},
        "single": {"n_hidden": 6, "polish": None, "warmup_epochs": 5},
        "polish": {"n_hidden": 6, "polish": "log2", "warmup_epochs": 5},
    }[name]
    clf = LMMClassifier(random_state=0, n_jobs=1, **options).fit(X, y)
    return clf.predict_proba(X[::15]).round(6).ravel().tolist()


def results():
    """Return all records by kind and name."""
    exact = {" ".join(map(str, case)): engine_record(*case) for case in ENGINES}
    exact |= {f"sum {dtype}": sum_record(dtype) for dtype in ("float32", "float64")}
    close = {name: fitted_record(name) for name in ("sum", "single", "polish", "regression")}
    return {"exact": exact, "close": close, "text": text_record()}


@pytest.fixture(scope="module")
def golden():
    return json.loads(RECORDS.read_text("utf-8"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("engine", ["dense", "tree", "sparse", "sgd"])
def test_iterates_equal_golden_records(golden, engine):
    for case in ENGINES:
        if case[0] == engine:
            assert engine_record(*case) == golden["exact"][" ".join(map(str, case))], case


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scores_certificates_and_flips_equal_golden_records(golden, dtype):
    assert sum_record(dtype) == golden["exact"][f"sum {dtype}"]


def test_texts_equal_golden_records(golden):
    assert text_record() == golden["text"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["sum", "single", "polish", "regression"])
def test_fits_are_close_to_golden_records(golden, name):
    np.testing.assert_allclose(
        fitted_record(name), golden["close"][name], rtol=TOLERANCE, atol=TOLERANCE
    )


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")
    content = json.dumps(results(), indent=1, ensure_ascii=False)
    RECORDS.write_text(content + "\n", encoding="utf-8")
