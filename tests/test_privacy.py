"""Privacy: model files contain nothing about single training rows without `remember_rows`."""

import itertools
import json

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

import maxplus
from commands import good, settings
from maxplus import LMMClassifier, LMMEnsembleClassifier, LMMRegressor, SubgradientLMMClassifier
from maxplus.tables import row_hashes

# A prime that differs from all other sizes in these tests.
N = 137
AGES, STAGES = range(40, 60), range(1, 6)
BRIEF = {"slope": 2.0, "warmup_epochs": 3, "random_state": 0}
ESTIMATORS = [
    LMMClassifier(9, polish="log2", max_suspects=N, **BRIEF),
    LMMClassifier(warmup_epochs=3, random_state=0),
    LMMEnsembleClassifier(
        LMMClassifier(5, slope=2.0, warmup_epochs=3), 2, bootstrap=True, random_state=0
    ),
    SubgradientLMMClassifier(9, max_iter=40, random_state=0),
    LMMRegressor(epochs=3, random_state=0),
]
COMMANDS = {
    "sum": settings("warmup_epochs=3"),
    "boxes": settings("n_hidden=9", "slope=2", "warmup_epochs=3"),
    "ensemble": settings("n_hidden=5", "slope=2", "warmup_epochs=3", "n_estimators=2"),
    "paper": ("--algorithm", "subgradient", *settings("n_hidden=9", "max_iter=40")),
    "regression": ("--task", "regression", *settings("epochs=3")),
}


@pytest.fixture(scope="module")
def patients(tmp_path_factory):
    """Return a table of N rows with few different values, and its file."""
    rng = np.random.default_rng(3)
    age, stage, smoker = rng.choice(AGES, N), rng.choice(STAGES, N), rng.integers(0, 2, N)
    outcome = (age > 50).astype(int) ^ (rng.random(N) < 0.2)
    path = tmp_path_factory.mktemp("patients") / "patients.csv"
    rows = np.column_stack([age, stage, smoker, outcome])
    lines = [",".join(map(str, row)) for row in rows.tolist()]
    path.write_text("age,stage,smoker,outcome\n" + "\n".join(lines) + "\n")
    return path, rows


def contents(path):
    """Return the arrays and the JSON document of a model file."""
    with safe_open(path, "np") as file:
        return load_file(path), json.loads(file.metadata()["document"])


def lists_of(value, name="document"):
    """Yield all lists of a JSON document and their paths."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from lists_of(item, f"{name}.{key}")
    elif isinstance(value, list):
        yield name, value
        for k, item in enumerate(value):
            yield from lists_of(item, f"{name}[{k}]")


def per_row(path, n=N):
    """Return the names of arrays and lists with one or more entries per training row."""
    arrays, document = contents(path)
    found = [name for name, array in arrays.items() if any(s and s % n == 0 for s in array.shape)]
    return found + [name for name, items in lists_of(document) if items and len(items) % n == 0]


def train(patients, path, kind, *options):
    target = "age" if kind == "regression" else "outcome"
    return good("train", patients[0], "--target", target, "-o", path, *COMMANDS[kind], *options)


def guesses():
    """Return all rows that such a table can have."""
    return np.array(list(itertools.product(AGES, STAGES, (0, 1))), float)


def recovered(path):
    """Return the guesses whose hashes are in the file."""
    arrays, document = contents(path)
    known = dict(zip(row_hashes(guesses()).tolist(), guesses().tolist(), strict=True))
    numbers = {name: array.ravel().tolist() for name, array in arrays.items()}
    numbers |= dict(lists_of(document))
    found = []
    for items in numbers.values():
        found += [known[item] for item in items if type(item) is int and item in known]
    return np.array(found)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
def test_saved_estimator_has_no_entry_per_training_row(tmp_path, patients, estimator):
    X, y = patients[1][:, :3].astype(float), patients[1][:, 3]
    estimator.fit(X, y)
    path = tmp_path / "model"
    estimator.save(path)
    assert per_row(path) == []
    estimator.save(path, remember_rows=True)
    assert per_row(path) != []


@pytest.mark.slow
@pytest.mark.parametrize("kind", COMMANDS)
def test_train_writes_no_entry_per_training_row(tmp_path, patients, kind):
    train(patients, tmp_path / "model", kind, "--validate", 3)
    assert per_row(tmp_path / "model") == []
    if kind == "boxes":
        record = maxplus.load(tmp_path / "model").validation_
        assert record["metrics"]["accuracy"] > 0.5
        assert record["metrics"]["worst"] is None
        assert not {"least_confident", "highest_loss"} & set(record)


@pytest.mark.slow
def test_model_file_does_not_reveal_guessed_rows(tmp_path, patients):
    path = tmp_path / "model"
    train(patients, path, "boxes", "--validate", 3)
    assert len(recovered(path)) == 0
    printed = train(patients, path, "boxes", "--validate", 3, "--remember-rows")
    assert "anyone with the file can test whether a given row was in" in " ".join(printed.split())
    # With remembered rows, the attack finds every row with its label, in order.
    np.testing.assert_array_equal(recovered(path), patients[1][:, :3])
    clf = maxplus.load(path)
    np.testing.assert_array_equal(clf.training_labels_, patients[1][:, 3])
    # The record of the validation lists single rows.
    assert len(clf.validation_["least_confident"]) == 25
    assert clf.validation_["metrics"]["worst"] >= 1


def test_model_file_has_no_cells_of_text_columns(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    lines = [
        f"{v:.3f},secret of patient {n} who came in,19{n + 10}-01-02,{int(v > 0)}"
        for n, v in enumerate(x)
    ]
    table = tmp_path / "t.csv"
    table.write_text("x,remark,born,ill\n" + "\n".join(lines) + "\n")
    options = (*settings("n_hidden=4", "slope=2", "warmup_epochs=1"), "--validate", "none")
    good("train", table, "-o", tmp_path / "m", *options)
    assert "dropped 'remark': free text" in str(maxplus.load(tmp_path / "m").encoder_.decisions_)
    stored = (tmp_path / "m").read_bytes()
    assert b"secret" not in stored
    assert b"-01-02" not in stored


def test_history_names_no_sample_unless_rows_are_remembered(tmp_path, iris):
    clf = SubgradientLMMClassifier(6, max_iter=20, random_state=0).fit(iris.X, iris.y)
    clf.save(tmp_path / "model")
    again = maxplus.load(tmp_path / "model")
    assert (again.history_["sample"] == -1).all()
    np.testing.assert_array_equal(again.history_["loss"], clf.history_["loss"])
    clf.save(tmp_path / "model", remember_rows=True)
    again = maxplus.load(tmp_path / "model")
    np.testing.assert_array_equal(again.history_["sample"], clf.history_["sample"])


def test_errors_about_missing_rows_name_remember_rows(tmp_path, iris):
    clf = LMMClassifier(6, polish="log2", max_suspects=150, **BRIEF).fit(iris.X, iris.y)
    clf.save(tmp_path / "model")
    again = maxplus.load(tmp_path / "model")
    clf.save(tmp_path / "remembered", remember_rows=True)
    remembered = maxplus.load(tmp_path / "remembered")
    for name in ("training_losses_", "training_labels_", "suspects_"):
        assert not hasattr(again, name)
        with pytest.raises(AttributeError, match=rf"{name} .* remember_rows=True"):
            getattr(again, name)
        np.testing.assert_array_equal(getattr(remembered, name), getattr(clf, name))
    with pytest.raises(AttributeError, match="remember_rows=True"):
        again.worst_samples()
    with pytest.raises(AttributeError, match="remember_rows=True"):
        again.fold(np.zeros(4), np.ones(4), iris.X)
    assert again.fold(np.zeros(4), np.ones(4)) is again


def test_intervals_are_saved_without_residuals(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2))
    reg = LMMRegressor(epochs=3, random_state=0).fit(X, X[:, 0] + rng.normal(size=N))
    reg.save(tmp_path / "model")
    again = maxplus.load(tmp_path / "model")
    for coverage in (0.5, 0.62, 0.9, 0.93, 0.99, 1.0):
        lower, upper = reg.predict_interval(X, coverage)
        np.testing.assert_array_equal(again.predict_interval(X, coverage), (lower, upper))
        # Intervals are at least as wide as the exact quantile of all residuals.
        rank = int(np.ceil((N + 1) * coverage - 1e-9))
        exact = reg.residuals_[rank - 1] if rank <= N else np.inf
        assert (upper[0] - lower[0]) / 2 >= exact * (1 - 1e-12)
