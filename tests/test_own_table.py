"""All commands on a user's table, checked by independent computations."""

import csv
import io
import json

import numpy as np
import pytest

import maxplus
from commands import good, read_csv, run, settings
from maxplus import LMMClassifier, LMMEnsembleClassifier, LMMRegressor
from maxplus.io import Checkpoint
from maxplus.tables import TableEncoder, stream_dataset

QUICK = settings("n_hidden=6", "slope=3", "warmup_epochs=2")
PAIN = ["low", "medium", "high"]
# Decimal commas, umlauts in Latin-1, Windows' line ends.
DIALECT = {"delimiter": ";", "lineterminator": "\r\n"}
ENCODING = "latin-1"


def clinic(n=120, seed=0):
    """Return names and rows: id, date, missing values, integers, floats, categories, ordinals."""
    rng = np.random.default_rng(seed)
    rows = []
    for k in range(n):
        age, dose = int(rng.integers(30, 80)), round(float(rng.gamma(2.0, 1.5)), 2)
        smoker, ward = int(rng.integers(2)), str(rng.choice(["Süd", "Nord", "West"]))
        pain = int(rng.integers(3))
        risk = (age - 55) / 20 + 0.3 * dose + smoker + 1.5 * (pain - 1) - (ward == "Nord")
        row = [str(age), f"{dose:.2f}".replace(".", ","), str(smoker), ward, PAIN[pain]]
        for j in (0, 3, 4):
            if rng.random() < 0.08:
                row[j] = str(rng.choice(["", "?", "NA", "<null>", "n/a"]))
        day = f"2021-{1 + k % 12:02d}-{1 + k % 28:02d}"
        ill = "krank" if risk + rng.normal(0, 0.4) > 1 else "gesund"
        rows.append([f"P{7 * k + 1000}", day, *row, ill])
    return ["patient", "Besuch", "age", "dose", "smoker", "ward", "pain", "class"], rows


def write_clinic(path, names, rows):
    """Write the table as a German spreadsheet does: semicolons, decimal commas, Latin-1."""
    text = io.StringIO(newline="")
    csv.writer(text, **DIALECT).writerows([names, *rows])
    path.write_bytes(text.getvalue().encode(ENCODING))
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return the folder with the table, the model, and the output of the training."""
    folder = tmp_path_factory.mktemp("clinic")
    path = write_clinic(folder / "clinic.csv", *clinic())
    document = json.loads(good("train", path, *QUICK, "-o", folder / "m", "--json", "--quiet"))
    return folder, document


def scores_by_hand(clf, X):
    """z_d = max_h (min_i (W⁰_i x_{p(i)} + W¹_ih) + W²_hd), literally."""
    model = clf.model_
    lam = np.repeat(X, 2, axis=1) * model.W0
    hidden = (lam[:, :, None] + model.W1[None]).min(axis=1)
    return (hidden[:, :, None] + model.W2[None]).max(axis=1)


def test_command_metrics_equal_independent_computation(trained):
    from sklearn.metrics import balanced_accuracy_score, log_loss, roc_auc_score

    folder, document = trained
    path, model = folder / "clinic.csv", folder / "m"
    _, rows = clinic()
    y = np.array([row[-1] for row in rows])
    clf = maxplus.load(model)
    Z = scores_by_hand(clf, clf.encoder_.transform(maxplus.tables.read_table(path)))
    P = np.exp(Z - Z.max(axis=1, keepdims=True))
    P /= P.sum(axis=1, keepdims=True)
    guess = np.array(["gesund", "krank"])[Z.argmax(axis=1)]
    good("predict", model, path, "-o", folder / "p.csv")
    assert [row["predicted"] for row in read_csv(folder / "p.csv")] == guess.tolist()
    result = json.loads(good("evaluate", model, path, "--json"))
    assert result["accuracy"] == pytest.approx(np.mean(guess == y))
    assert result["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(y, guess))
    assert result["log_loss"] == pytest.approx(log_loss(y, P), abs=1e-6)
    assert result["auc"] == pytest.approx(roc_auc_score(y == "krank", P[:, 1]))
    # Rows that were held out are worse than those of the training, and better than guessing.
    unseen = document["validation"]
    assert unseen["baseline"]["accuracy"] < unseen["figures"]["accuracy"] <= 1.0


def test_command_certificates_survive_corner_attacks(trained):
    folder, _ = trained
    path, clf = folder / "clinic.csv", maxplus.load(folder / "m")
    result = json.loads(good("certify", folder / "m", path, "--eps", 0.1, "--json"))
    y = np.array([row[-1] for row in clinic()[1]])
    X = clf.encoder_.transform(maxplus.tables.read_table(path))
    names = clf.encoder_.feature_names
    step = 0.1 * X.std(axis=0) * np.isin(names, ["age", "dose", "pain"])
    stays = clf.predict(X) == y
    rng = np.random.default_rng(0)
    for _ in range(200):
        stays &= clf.predict(X + step * rng.choice([-1.0, 1.0], X.shape)) == y
    assert 0.3 < result["certified_accuracy"][0] <= np.mean(stays)


def test_printed_counterfactuals_change_predictions_of_edited_file(trained):
    folder, _ = trained
    names, rows = clinic()
    good("explain", folder / "m", folder / "clinic.csv", "--table", folder / "why.csv")
    why = {int(line["row"]): line for line in read_csv(folder / "why.csv")}
    typed, becomes, columns = [], [], set()
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
        typed.append([*row[:place], cell, *row[place + 1 :]])
        becomes.append(why[number]["flip_class"])
        columns.add(column)
    assert len(typed) > 90
    assert columns >= {"age", "pain"}
    edited = write_clinic(folder / "edited.csv", names, typed)
    good("predict", folder / "m", edited, "-o", folder / "p.csv")
    assert [row["predicted"] for row in read_csv(folder / "p.csv")] == becomes


def test_all_commands_accept_the_same_file(trained):
    folder, _ = trained
    arguments = folder / "m", folder / "clinic.csv"
    assert "Row 3:" in good("explain", *arguments)
    assert "→ krank" in good("rules", *arguments)
    assert "Report:" in good("report", *arguments, "-o", folder / "r.html")
    page = (folder / "r.html").read_text(encoding="utf-8")
    assert "ward" in page
    assert "Süd" in page


# -- the same in Python ---------------------------------------------------------------------------


def frame_of_clinic(library):
    """Return the table as a data frame."""
    names, rows = clinic()
    columns = {
        name: list(cells) for name, cells in zip(names, zip(*rows, strict=True), strict=True)
    }
    columns["dose"] = [float(cell.replace(",", ".")) for cell in columns["dose"]]
    return pytest.importorskip(library).DataFrame(columns)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_model_of_train_command_accepts_data_frames(trained, library):
    folder, _ = trained
    clf, frame = maxplus.load(folder / "m"), frame_of_clinic(library)
    good("predict", folder / "m", folder / "clinic.csv", "-o", folder / "p.csv")
    result = [row["predicted"] for row in read_csv(folder / "p.csv")]
    assert clf.predict(frame).tolist() == result
    result = good("explain", folder / "m", folder / "clinic.csv")
    assert "was missing" in result
    assert str(clf.explain(frame[:3])) == result.strip().replace("\n\n\n", "\n\n")
    table = maxplus.tables.read_table(folder / "clinic.csv")
    encoder = clf.encoder_
    assert np.array_equal(encoder.transform(frame), encoder.transform(table))
    raw = maxplus.tables.table_of(frame)
    assert np.array_equal(encoder.encode(raw).missing, encoder.encode(table).missing)
    assert encoder.target_.labels(raw).tolist() == [row[-1] for row in clinic()[1]]
    scale = clf.certificate_scale()
    (share,) = np.atleast_1d(clf.certified_accuracy(frame, frame["class"], [0.1], scale))
    document = json.loads(
        good("certify", folder / "m", folder / "clinic.csv", "--eps", 0.1, "--json")
    )
    assert share == pytest.approx(document["certified_accuracy"][0])


def test_column_overrides_apply_to_data_frame(trained):
    frame = frame_of_clinic("pandas").drop(columns=["class", "patient", "Besuch"])
    y = [row[-1] for row in clinic()[1]]
    choices = TableEncoder(categorical=["pain", "smoker"], drop=["age"])
    clf = LMMClassifier(6, slope=3.0, warmup_epochs=2, random_state=0).fit(choices.attach(frame), y)
    names = clf.encoder_.feature_names
    assert {"pain = high", "smoker = 0", "smoker = 1", "dose"} <= set(names)
    assert "age" not in names
    assert np.array_equal(
        clf.predict_proba(frame), clf.predict_proba(clf.encoder_.transform(choices.attach(frame)))
    )
    numbers = frame[["dose", "smoker"]].astype(float)
    clf.fit(TableEncoder(categorical=["smoker"]).attach(numbers), y)
    assert clf.encoder_.feature_names == ["dose", "smoker = 0", "smoker = 1"]
    with pytest.raises(ValueError, match="has no column 'size'"):
        clf.fit(TableEncoder(drop=["size"]).attach(frame), y)
    unseen = [
        maxplus.validate(clf, data, y, cv=2, encoder=own).figures.accuracy
        for data, own in ((choices.attach(frame), None), (frame, choices))
    ]
    assert unseen[0] == unseen[1]


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


# -- what cannot be -------------------------------------------------------------------------------


def refused(*arguments):
    """Return the one-line error message of a command."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("Error: ")
    return line


ROWS = "a,b,class\n" + "".join(f"{k % 7},{k % 5}.5,{'xy'[k % 2]}\n" for k in range(30))
# A file, options of train, and what the line must hold: place, value, remedy.
BAD_FILES = {
    "nothing": ("", [], ["data.csv is empty", "a line of names"]),
    "names only": ("a,b,class\n", [], ["data.csv", "no rows"]),
    "one class": (ROWS.replace("y\n", "x\n"), [], ["data.csv", "'class'", "('x')", "--target"]),
    "no labels": (ROWS.replace("x\n", "\n").replace("y\n", "?\n"), [], ["'class'", "no values"]),
    "everything dropped": (ROWS, ["--drop", "a,b"], ["data.csv", "--drop"]),
    "short row": (ROWS + "3,4\n", [], ["line 32", "2 values", "3 columns", "'3,4'", "quotes"]),
    "open quote": (ROWS + '3,"4,x\n5,6,x\n', [], ["line 32", "columns", "is a quote not closed?"]),
    "word": (ROWS + "3,abc,x\n", [], ["line 32", "'b'", "'abc'", "--categorical b"]),
    "endless": (ROWS + "3,1e400,x\n", [], ["line 32", "'b'", "inf", "empty"]),
    "same names": ("a,a,class\n1,2,x\n", [], ["'a'", "rename them"]),
    "UTF-16": (ROWS.encode("utf-16"), [], ["data.csv", "UTF-16", "save it as UTF-8"]),
    "numbers for names": ("1,2,3\n4,5,6\n", [], ["header", "names"]),
    "zeros": ("a,b,class\n1,\0,x\n", [], ["data.csv", "UTF-8"]),
    "checkpoint": (
        ROWS,
        [*settings("n_estimators=2"), "--checkpoint", "c"],
        ["--checkpoint", "n_estimators"],
    ),
    "resume": (ROWS, [*settings("n_estimators=2"), "--resume", "c"], ["--resume", "n_estimators"]),
}


@pytest.mark.parametrize(("text", "options", "parts"), BAD_FILES.values(), ids=BAD_FILES)
def test_invalid_file_error_is_one_line(write, tmp_path, text, options, parts):
    line = refused("train", write(text), *QUICK, *options, "-o", tmp_path / "m")
    for part in parts:
        assert part in line


def test_invalid_workbook_and_parquet_errors_name_remedy(tmp_path):
    for name in ("data.xlsx", "data.parquet"):
        path = tmp_path / name
        path.write_bytes(b"abc")
        line = refused("train", path)
        assert str(path) in line
        assert "or as CSV" in line


def test_train_rejects_checkpoints_of_regressors(write, tmp_path):
    path = write("a,y\n" + "".join(f"{k / 4},{k * 1.37 % 5}\n" for k in range(60)))
    result = run("train", path, "--checkpoint", tmp_path / "c", "-o", tmp_path / "m")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: --checkpoint is for classes")


def test_folder_is_rejected_as_table(tmp_path):
    (tmp_path / "data.csv").mkdir()
    for path in (tmp_path, tmp_path / "data.csv"):
        assert f"{path} is a folder" in refused("train", path)


def test_command_error_names_invalid_argument(trained, tmp_path):
    folder, _ = trained
    model, path, away = folder / "m", folder / "clinic.csv", tmp_path / "no" / "f.png"
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
    names, rows = clinic()
    strange = write_clinic(tmp_path / "s.csv", names, [[*rows[0][:5], "Ost", *rows[0][6:]]])
    for command in ("predict", "evaluate", "explain", "certify", "rules", "report"):
        line = refused(command, model, strange, "--strict")
        assert "'Ost'" in line
        assert "line 2" in line


def test_classes_that_differ_by_case_warn(write, tmp_path):
    text = "a,b,class\n" + "".join(
        f"{k % 7},{k % 5}.5,{['yes', 'Yes', 'no'][k % 3]}\n" for k in range(30)
    )
    message = good("train", write(text), *QUICK, "--validate", "none", "-o", tmp_path / "m")
    assert "'yes' and 'Yes' of the target 'class' differ by upper and lower case only" in message


def test_stream_batches_may_have_no_labels(trained, tmp_path):
    folder, _ = trained
    names, rows = clinic()
    some = [[*row[:-1], "?" if k < 20 or k == 33 else row[-1]] for k, row in enumerate(rows)]
    path = write_clinic(tmp_path / "some.csv", names, some)
    encoder = maxplus.load(folder / "m").encoder_
    parts = list(stream_dataset(str(path), encoder, 10, labelled=True))
    found = np.concatenate([part.rows for part in parts]).tolist()
    assert found == [k for k in range(len(rows)) if k >= 20 and k != 33]
    none = write_clinic(tmp_path / "none.csv", names, [[*row[:-1], ""] for row in rows])
    with pytest.raises(ValueError, match="'class' has no values"):
        list(stream_dataset(str(none), encoder, 10, labelled=True))
