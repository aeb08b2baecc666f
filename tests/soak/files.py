"""Damaged files: what loads is what was saved; everything else is one line of ours."""

import json
from contextlib import suppress
from functools import cache

import numpy as np
import pyarrow
import pyarrow.parquet
from sklearn.datasets import load_iris

import maxplus
from damage import damaged
from maxplus import LMMClassifier, LMMEnsembleClassifier, LMMRegressor, SubgradientLMMClassifier
from maxplus.io import Checkpoint, FileError
from maxplus.tables import TableError, read_table

X, y = load_iris(return_X_y=True)
PER_TRIAL = 30


@cache
def saved_models():
    """Bytes of model files, with what each says of the flowers."""
    brief = {"slope": 3.0, "random_state": 0}
    models = [
        LMMClassifier(9, warmup_epochs=3, **brief).fit(X, y),
        LMMEnsembleClassifier(LMMClassifier(6, warmup_epochs=3), 2, **brief).fit(X, y),
        SubgradientLMMClassifier(8, max_iter=30, engine="dense", **brief).fit(X, y),
        LMMRegressor(epochs=3, random_state=0).fit(X[:, :3], X[:, 3]),
    ]
    return [(model, model.predict(X[:, : model.n_features_in_])) for model in models]


def models(rng, folder):
    """A damaged model file is refused, or gives the very predictions."""
    model, expected = saved_models()[rng.integers(4)]
    path = folder / "model"
    model.save(path)
    content = path.read_bytes()
    for _ in range(PER_TRIAL):
        path.write_bytes(_spoilt(rng, content))
        with suppress(FileError):
            again = maxplus.load(path)
            assert np.array_equal(again.predict(X[:, : model.n_features_in_]), expected)
    return {"files": PER_TRIAL}


def checkpoints(rng, folder):
    """A damaged checkpoint is refused, or training goes on from it to the same bits."""
    path = folder / "checkpoint"
    kinds = [
        LMMClassifier(9, slope=3.0, warmup_epochs=4, random_state=0),
        SubgradientLMMClassifier(8, max_iter=30, engine="dense", random_state=0),
    ]
    whole = kinds[rng.integers(2)]
    stops = [Checkpoint(path, every=0.0), lambda progress: progress.iteration >= 2]
    whole.set_params(callbacks=stops).fit(X, y)
    expected = whole.set_params(callbacks=None).fit(X, y).W1_
    content = path.read_bytes()
    for _ in range(PER_TRIAL):
        path.write_bytes(_spoilt(rng, content))
        with suppress(FileError):
            assert np.array_equal(maxplus.resume(path, X, y).W1_, expected)
    return {"files": PER_TRIAL}


def _spoilt(rng, content):
    """Damaged bytes, or a header whose numbers and words are others."""
    if rng.random() < 0.6:
        return damaged(rng, content)
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    place, key = _some_place(rng, header)
    place[key] = [None, -1, 10**30, "x", [], {}, 1e308, True][rng.integers(8)]
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content[8 + length :]


def _some_place(rng, value):
    """A container inside a JSON value, and one of its keys."""
    while True:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = keys[rng.integers(len(keys))]
        inner = value[key]
        if not (isinstance(inner, (dict, list)) and inner) or rng.random() < 0.2:
            return value, key
        value = inner


@cache
def written_tables():
    """Bytes of tables by their ending."""
    rows = [f"{a},{b},{'xyz'[int(c)]}" for (a, b), c in zip(X[:60, :2], y[:60], strict=True)]
    return {".csv": ("a,b,c\n" + "\n".join(rows)).encode()}


def tables(rng, folder):
    """A damaged table is read, or refused with the file's name."""
    ending = str(rng.choice([".csv", ".npz", ".parquet"]))
    path = folder / f"table{ending}"
    if ending == ".csv":
        path.write_bytes(written_tables()[ending])
    elif ending == ".npz":
        save = np.savez if rng.random() < 0.5 else np.savez_compressed
        save(path, X=X[:40], y=np.array(list("abc"))[y[:40]])
    else:
        columns = {"a": X[:40, 0], "b": X[:40, 1], "c": np.array(list("abc"))[y[:40]]}
        pyarrow.parquet.write_table(pyarrow.table(columns), path)
    content = path.read_bytes()
    for _ in range(PER_TRIAL):
        path.write_bytes(damaged(rng, content))
        said = f"{path}"
        try:
            read_table(path)
        except TableError as error:
            said = str(error)
        assert str(path) in said
        assert "\n" not in said
    return {"files": PER_TRIAL}
