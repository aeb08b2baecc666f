"""All commands on a user's table, checked by independent computations."""

import csv
import io

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import balanced_accuracy_score, log_loss, roc_auc_score

import maxplus
from clinics import patients
from commands import document, good, read_csv, run, settings
from maxplus import LMMClassifier, LMMEnsembleClassifier, LMMRegressor
from maxplus.io import Checkpoint
from maxplus.tables import TableEncoder, read_table, stream_dataset, table_of
from table_helpers import decided

QUICK = settings("n_hidden=6", "slope=3", "warmup_epochs=2")


def clinic():
    """Return names and rows as in a German spreadsheet: decimal commas and umlauts."""
    columns = {name: cells.tolist() for name, cells in patients(120).columns.items()}
    for name in ("age", "smoker"):
        columns[name] = ["NA" if cell != cell else f"{cell:.0f}" for cell in columns[name]]
    columns["dose"] = [f"{cell:.2f}".replace(".", ",") for cell in columns["dose"]]
    columns["ward"] = [cell.replace("south", "Süd") for cell in columns["ward"]]
    return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]


def write_clinic(path, names, rows):
    """Write the table with semicolons, in Latin-1."""
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=";", lineterminator="\r\n").writerows([names, *rows])
    path.write_bytes(text.getvalue().encode("latin-1"))
    return path


@pytest.fixture(scope="module")
def labels():
    return np.array([row[-1] for row in clinic()[1]])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return the model file, the table, and the output of the training."""
    folder = tmp_path_factory.mktemp("clinic")
    path = write_clinic(folder / "clinic.csv", *clinic())
    return folder / "m", path, document("train", path, *QUICK, "-o", folder / "m", "--quiet")


def scores_by_hand(clf, X):
    """z_d = max_h (min_i (W⁰_i x_{p(i)} + W¹_ih) + W²_hd), literally."""
    model = clf.model_
    lam = np.repeat(X, 2, axis=1) * model.W0
    hidden = (lam[:, :, None] + model.W1[None]).min(axis=1)
    return (hidden[:, :, None] + model.W2[None]).max(axis=1)


def predicted(model, path, folder):
    good("predict", model, path, "-o", folder / "p.csv")
    return [row["predicted"] for row in read_csv(folder / "p.csv")]


def test_command_metrics_equal_independent_computation(trained, labels, tmp_path):
    model, path, training = trained
    clf = maxplus.load(model)
    Z = scores_by_hand(clf, clf.encoder_.transform(read_table(path)))
    P = np.exp(Z - Z.max(axis=1, keepdims=True))
    P /= P.sum(axis=1, keepdims=True)
    guess = np.array(["ill", "well"])[Z.argmax(axis=1)]
    assert predicted(model, path, tmp_path) == guess.tolist()
    result = document("evaluate", model, path)
    assert result["accuracy"] == pytest.approx(np.mean(guess == labels))
    assert result["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(labels, guess))
    assert result["log_loss"] == pytest.approx(log_loss(labels, P), abs=1e-6)
    assert result["auc"] == pytest.approx(roc_auc_score(labels == "well", P[:, 1]))
    # The accuracy of held-out rows is higher than that of the most frequent class.
    unseen = training["validation"]
    assert unseen["baseline"]["accuracy"] < unseen["figures"]["accuracy"] <= 1.0


def test_command_certificates_survive_corner_attacks(trained, labels):
    model, path, _ = trained
    clf = maxplus.load(model)
    result = document("certify", model, path, "--eps", 0.1)
    X = clf.encoder_.transform(read_table(path))
    step = 0.1 * X.std(axis=0) * np.isin(clf.encoder_.feature_names, ["age", "dose", "pain"])
    stays = clf.predict(X) == labels
    rng = np.random.default_rng(0)
    for _ in range(200):
        stays &= clf.predict(X + step * rng.choice([-1.0, 1.0], X.shape)) == labels
    assert 0.3 < result["certified_accuracy"][0] <= np.mean(stays)


def test_printed_counterfactuals_change_predictions_of_edited_file(trained, tmp_path):
    model, path, _ = trained
    names, rows = clinic()
    good("explain", model, path, "--table", tmp_path / "why.csv")
    why = {int(line["row"]): line for line in read_csv(tmp_path / "why.csv")}
    edited, becomes, columns = [], [], set()
    for number, row in enumerate(rows, 1):
        column, to = why[number]["flip_feature"], why[number]["flip_to"]
        if not column:
            continue
        place = names.index(column)
        seen = {r[place] for r in rows}
        cell = to.strip("'") if to.startswith("'") else to.replace(".", ",")
        if column in ("smoker", "ward", "pain"):
            assert cell in seen
        else:
            found = [float(s.replace(",", ".")) for s in seen if s[:1].isdigit()]
            assert min(found) <= float(to) <= max(found)
            assert column != "age" or float(to).is_integer()
        edited.append([*row[:place], cell, *row[place + 1 :]])
        becomes.append(why[number]["flip_class"])
        columns.add(column)
    assert len(edited) > 90
    assert len(columns) > 1
    assert predicted(model, write_clinic(tmp_path / "e.csv", names, edited), tmp_path) == becomes


def test_all_commands_accept_the_same_file(trained, tmp_path):
    model, path, _ = trained
    assert "Row 3:" in good("explain", model, path)
    assert "→ ill" in good("rules", model, path)
    assert "Report:" in good("report", model, path, "-o", tmp_path / "r.html")
    assert "Süd" in (tmp_path / "r.html").read_text(encoding="utf-8")


# -- the same in Python ---------------------------------------------------------------------------


def frame_of_clinic(library):
    """Return the table as a data frame."""
    names, rows = clinic()
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    columns["dose"] = [float(cell.replace(",", ".")) for cell in columns["dose"]]
    return pytest.importorskip(library).DataFrame(columns)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_model_of_train_command_accepts_data_frames(trained, tmp_path, labels, library):
    model, path, _ = trained
    clf, frame = maxplus.load(model), frame_of_clinic(library)
    assert clf.predict(frame).tolist() == predicted(model, path, tmp_path)
    result = good("explain", model, path)
    assert str(clf.explain(frame[:3])) == result.strip().replace("\n\n\n", "\n\n")
    why = clf.explain(frame)
    assert any("was missing" in why.text(n) for n in range(len(frame)))
    table, raw, encoder = read_table(path), table_of(frame), clf.encoder_
    assert np.array_equal(encoder.transform(frame), encoder.transform(table))
    assert np.array_equal(encoder.encode(raw).missing, encoder.encode(table).missing)
    assert encoder.target_.labels(raw).tolist() == labels.tolist()
    scale = clf.certificate_scale()
    (share,) = np.atleast_1d(clf.certified_accuracy(frame, frame["outcome"], [0.1], scale))
    certified = document("certify", model, path, "--eps", 0.1)["certified_accuracy"]
    assert certified == [pytest.approx(share)]


def test_column_overrides_apply_to_data_frame(labels):
    frame = frame_of_clinic("pandas").drop(columns=["outcome", "patient"])
    choices = TableEncoder(categorical=["pain", "smoker"], drop=["age"])
    clf = LMMClassifier(6, slope=3.0, warmup_epochs=2, random_state=0)
    clf.fit(choices.attach(frame), labels)
    names = clf.encoder_.feature_names
    assert {"pain = high", "smoker = 0", "smoker = 1", "dose"} <= set(names)
    assert "age" not in names
    X = clf.encoder_.transform(choices.attach(frame))
    assert np.array_equal(clf.predict_proba(frame), clf.predict_proba(X))
    numbers = frame[["dose", "smoker"]].astype(float)
    clf.fit(TableEncoder(categorical=["smoker"]).attach(numbers), labels)
    assert clf.encoder_.feature_names == ["dose", "smoker = 0", "smoker = 1"]
    with pytest.raises(ValueError, match="has no column 'size'"):
        clf.fit(TableEncoder(drop=["size"]).attach(frame), labels)
    attached, passed = (
        maxplus.validate(clf, data, labels, cv=2, encoder=encoder).figures.accuracy
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
    with pytest.raises(ValueError, match=r"callbacks has a Checkpoint, but .* has no state"):
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
# A file, options of train, and what the error contains: place, value, remedy.
BAD_FILES = {
    "no rows": ("a,b,class\n", [], ["data.csv", "no rows"]),
    "one class": (ROWS.replace("y\n", "x\n"), [], ["data.csv", "'class'", "('x')", "--target"]),
    "no labels": (ROWS.replace("x\n", "\n").replace("y\n", "?\n"), [], ["'class'", "no values"]),
    "all columns dropped": (ROWS, ["--drop", "a,b"], ["data.csv", "--drop"]),
    "short row": (ROWS + "3,4\n", [], ["line 32", "2 values", "3 columns", "'3,4'", "quotes"]),
    "open quote": (ROWS + '3,"4,x\n5,6,x\n', [], ["line 32", "columns", "a quote that is not"]),
    "text": (ROWS + "3,abc,x\n", [], ["line 32", "'b'", "'abc'", "--categorical b"]),
    "infinite": (ROWS + "3,1e400,x\n", [], ["line 32", "'b'", "inf", "empty"]),
    "checkpoint": (ROWS, [*ENSEMBLE, "--checkpoint", "c"], ["--checkpoint", "n_estimators"]),
    "resume": (ROWS, [*ENSEMBLE, "--resume", "c"], ["--resume", "n_estimators"]),
}


@pytest.mark.parametrize(("text", "options", "parts"), BAD_FILES.values(), ids=BAD_FILES)
def test_invalid_file_error_is_one_line(write, tmp_path, text, options, parts):
    line = refused("train", write(text), *QUICK, *options, "-o", tmp_path / "m")
    for part in parts:
        assert part in line


def test_checkpoint_of_a_regressor_is_rejected(write):
    path = write("a,y\n" + "".join(f"{k / 4},{k * 1.37 % 5}\n" for k in range(60)))
    result = run("train", path, "--checkpoint", "c")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: --checkpoint is for classes")


def test_invalid_binary_files_and_folders_are_rejected(tmp_path):
    for name in ("data.xlsx", "data.parquet"):
        (tmp_path / name).write_bytes(b"abc")
        line = refused("train", tmp_path / name)
        assert name in line
        assert "or as CSV" in line
    (tmp_path / "data.csv").mkdir()
    assert "data.csv is a folder" in refused("train", tmp_path / "data.csv")


def test_command_error_names_invalid_argument(trained, tmp_path):
    model, path, _ = trained
    away = tmp_path / "no" / "f.png"
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
        ("size=0:1", "no column 'size'"),
        ("ward=0:1", "--fixed ward"),
        ("pain=0:1", "--fixed pain"),
    ):
        assert part in refused("explain", model, path, "--range", text)
    names, rows = clinic()
    row = [*rows[0]]
    row[names.index("ward")] = "Ost"
    unknown = write_clinic(tmp_path / "s.csv", names, [row])
    for command in ("predict", "evaluate", "explain", "certify", "rules", "report"):
        line = refused(command, model, unknown, "--strict")
        assert "'Ost'" in line
        assert "line 2" in line


def test_classes_that_differ_by_case_are_reported():
    frame = pd.DataFrame({"a": np.arange(30) % 7, "class": ["yes", "Yes", "no"] * 10})
    _, decisions = decided(frame)
    assert "'yes' and 'Yes' of the target 'class' differ by upper and lower case" in decisions[0]


def test_stream_batches_may_have_no_labels(trained, tmp_path):
    names, rows = clinic()
    some = [[*row[:-1], "?" if k < 20 or k == 33 else row[-1]] for k, row in enumerate(rows)]
    path = write_clinic(tmp_path / "some.csv", names, some)
    encoder = maxplus.load(trained[0]).encoder_
    parts = list(stream_dataset(str(path), encoder, 10, labelled=True))
    found = np.concatenate([part.rows for part in parts]).tolist()
    assert found == [k for k in range(len(rows)) if k >= 20 and k != 33]
    none = write_clinic(tmp_path / "none.csv", names, [[*row[:-1], ""] for row in rows])
    with pytest.raises(ValueError, match="'outcome' has no values"):
        list(stream_dataset(str(none), encoder, 10, labelled=True))
