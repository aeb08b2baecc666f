"""``maxplus train``: options, validation, Ctrl-C and kill -9."""

import io
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    log_loss,
    mean_absolute_error,
    r2_score,
    recall_score,
    roc_auc_score,
)
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict

import maxplus
from commands import BRIEF, IRIS, ORCHARD, bad, document, good, read_csv, settings
from maxplus.training import Progress
from maxplus.training.progress import ProgressBar
from table_helpers import opened

pytestmark = pytest.mark.slow


def test_train_reports_result_and_stores_scaling_in_model(orchard_model):
    model = maxplus.load(orchard_model)
    samples = opened(ORCHARD, "goes to")
    codes = np.searchsorted(model.classes_, samples.y)
    losses = -model.predict_log_proba(samples.X)[np.arange(len(codes)), codes]
    assert model.max_loss_ == pytest.approx(losses.max(), rel=1e-12)
    assert np.allclose(model.training_losses_, losses, rtol=1e-12)
    # Training saw scaled features: folding the scaling in changes no more than rounding.
    assert model.loss_curve_.min() == pytest.approx(model.max_loss_, rel=1e-9)


def test_train_without_scaling_equals_estimator(tmp_path):
    samples = opened(IRIS)
    for recipe, options in (
        (
            maxplus.LMMClassifier(9, slope=5.0, warmup_epochs=3, standardize=False, random_state=0),
            settings("n_hidden=9", "slope=5", "warmup_epochs=3"),
        ),
        (
            maxplus.SubgradientLMMClassifier(20, max_iter=300, random_state=0),
            ("--algorithm", "subgradient", *settings("n_hidden=20", "max_iter=300")),
        ),
    ):
        printed = good(
            "train",
            IRIS,
            *settings("standardize=false"),
            *options,
            "--validate",
            "none",
            "-o",
            tmp_path / "m",
        )
        model = maxplus.load(tmp_path / "m")
        again = recipe.fit(samples.X, samples.y)
        assert np.array_equal(model.W1_, again.W1_)
        assert f"{again.max_loss_:.4f}" in printed
    assert "150 rows, 4 features, target 'species' with 3 classes" in printed


def test_train_options_reach_the_estimator(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    both = (
        "--validate",
        "none",
        "--seed",
        5,
        *settings("n_hidden=7", "slope=3.0", "init_margin=2.0", "n_jobs=1"),
    )
    own = settings(
        "max_suspects=0.1",
        "warmup_epochs=3",
        "robust_eps=0.01",
        "early_stopping=true",
        "polish=0.6",
        "class_weight=balanced",
        "calibrate=true",
    )
    good("train", IRIS, "-o", tmp_path / "m", *both, *own)
    assert (
        maxplus.load(tmp_path / "m").get_params()
        == maxplus.LMMClassifier(
            7,
            random_state=5,
            slope=3.0,
            init_margin=2.0,
            max_suspects=0.1,
            warmup_epochs=3,
            robust_eps=0.01,
            early_stopping=True,
            polish=0.6,
            n_jobs=1,
            class_weight="balanced",
            calibrate=True,
        ).get_params()
    )
    own = settings(
        "max_iter=11",
        "top_k=5",
        "init=uniform",
        "objective=max",
        "step=polyak",
        "polyak_target=0.1",
        "polyak_fraction=0.3",
        "learning_rate=0.2",
        "w0_update_interval=4",
        "engine=dense",
        "keep=last",
    )
    good("train", IRIS, "-o", tmp_path / "m", *both, "--algorithm", "subgradient", *own)
    assert (
        maxplus.load(tmp_path / "m").get_params()
        == maxplus.SubgradientLMMClassifier(
            7,
            max_iter=11,
            random_state=5,
            slope=3.0,
            init_margin=2.0,
            init="uniform",
            top_k=5,
            objective="max",
            step="polyak",
            polyak_target=0.1,
            polyak_fraction=0.3,
            learning_rate=0.2,
            w0_update_interval=4,
            engine="dense",
            keep="last",
            n_jobs=1,
        ).get_params()
    )
    good(
        "train",
        IRIS,
        "-o",
        tmp_path / "m",
        "--algorithm",
        "subgradient",
        *settings("max_iter=5"),
        "--validate",
        "none",
    )
    recipe = maxplus.SubgradientLMMClassifier(max_iter=5, random_state=0)
    assert maxplus.load(tmp_path / "m").get_params() == recipe.get_params()
    good(
        "train",
        IRIS,
        "-o",
        tmp_path / "m",
        *BRIEF,
        *settings("polish=none", "calibrate=false", "class_weight=none"),
    )
    assert (
        maxplus.load(tmp_path / "m").get_params()
        == maxplus.LMMClassifier(
            9, slope=5.0, warmup_epochs=3, polish=None, calibrate=False, random_state=0
        ).get_params()
    )
    good("train", IRIS, "-o", tmp_path / "m", *BRIEF, *settings("polish=log2"))
    assert maxplus.load(tmp_path / "m").polish == "log2"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--algorithm", "subgradient", "--set", "robust_eps=1"), "has no parameter 'robust_eps'"),
        (("--set", "polyak_target=1"), "LMMClassifier has no parameter 'polyak_target'; it has"),
        (("--set", "bootstrap=true"), "--set bootstrap=True: LMMClassifier has no parameter"),
        (("--set", "loss=squared"), "LMMClassifier has no parameter 'loss'"),
        (("--set", "warmup_epoch=3"), "is it warmup_epochs?"),
        (("--set", "polish=shoes"), "polish must be"),
        (("--set", "slope=-1"), "slope must be"),
        (("--set", "slope"), "--set slope: write NAME=VALUE"),
        (("--set", "n_hidden=0"), "n_hidden must be"),
        (("--set", "random_state=3"), "use --seed for random_state"),
        (("--algorithm", "magic"), "--algorithm must be one of smooth, subgradient; got 'magic'"),
        (
            ("--algorithm", "subgradient", *settings("n_estimators=2")),
            "SubgradientLMMClassifier has no parameter 'n_estimators'",
        ),
    ],
)
def test_train_rejects_unknown_parameters(options, message):
    assert message in bad("train", IRIS, *options)


@pytest.mark.skipif(
    "scoring" not in maxplus.LMMClassifier().get_params(), reason="LMMClassifier has no scoring"
)
def test_train_scorer_reaches_the_estimator(tmp_path):
    good("train", IRIS, *BRIEF, *settings("scoring=balanced_accuracy"), "-o", tmp_path / "m")
    assert maxplus.load(tmp_path / "m").scoring == "balanced_accuracy"


def test_train_and_predict_ensemble(tmp_path):
    path = tmp_path / "m"
    result = document(
        "train",
        IRIS,
        "-o",
        path,
        *settings("n_estimators=2", "bootstrap=true", "n_hidden=6", "warmup_epochs=2"),
        "--validate",
        "none",
    )
    assert (result["estimator"], result["validation"]) == ("LMMEnsembleClassifier", None)
    model = maxplus.load(path)
    assert (model.n_estimators, model.bootstrap, len(model.model_.terms)) == (2, True, 2)
    X = opened(IRIS).X
    good("predict", path, IRIS, "-o", tmp_path / "p.csv")
    assert [row["predicted"] for row in read_csv(tmp_path / "p.csv")] == model.predict(X).tolist()
    assert "Row 150:" in good("explain", path, IRIS, "--row", 150)


def test_train_scaling_and_structure_reach_the_estimator(tmp_path):
    path = tmp_path / "m"
    good("train", IRIS, *BRIEF, *settings("standardize=false"), "-o", path)
    assert maxplus.load(path).standardize is False
    good("train", IRIS, *BRIEF, *settings("standardize=auto"), "-o", path)
    assert maxplus.load(path).standardize == "auto"
    good(
        "train",
        IRIS,
        *settings("structure=shapes", "max_features=3", "warmup_epochs=2"),
        "--validate",
        "none",
        "-o",
        path,
    )
    model = maxplus.load(path)
    assert (model.structure, model.standardize) == ("shapes", "auto")
    assert model.max_features == 3
    assert len(model.model_.terms) <= 3
    assert all(features.size == 1 for features, _ in model.model_.terms)


# -- rows that a model has not seen ----------------------------------------------------------------


def test_train_reports_cross_validated_accuracy(tmp_path):
    """The whole encoder is made anew in every fold: here by hand, with scikit-learn."""
    rng = np.random.default_rng(4)
    n = 90
    town = rng.choice(["Ulm", "Bonn", "Kiel"], n)
    size = rng.normal(size=n)
    y = np.where(size + (town == "Ulm") + rng.normal(0, 0.7, n) > 0.4, "yes", "no")
    holes = rng.random(n) < 0.15
    lines = [
        f"{'' if hole else s},{t},{c}" for hole, s, t, c in zip(holes, size, town, y, strict=True)
    ]
    table = tmp_path / "t.csv"
    table.write_text("size,town,ill\n" + "\n".join(lines) + "\n")
    result = document(
        "train",
        table,
        "-o",
        tmp_path / "m",
        *settings("n_hidden=8", "slope=4", "warmup_epochs=3"),
        "--seed",
        3,
        "--validate",
        4,
        "--remember-rows",
    )
    P = np.zeros((n, 2))
    for training, test in StratifiedKFold(4, shuffle=True, random_state=3).split(y, y):
        known = size[training][~holes[training]]
        median = np.sort(known)[(known.size - 1) // 2]
        values = np.where(holes, median, size)
        towns = np.unique(town[training])
        X = np.column_stack([values, holes, town[:, None] == towns])
        clf = maxplus.LMMClassifier(8, slope=4.0, warmup_epochs=3, random_state=3)
        P[test] = clf.fit(X[training], y[training]).predict_proba(X[test])
    predicted = np.array(["no", "yes"])[P.argmax(axis=1)]
    figures = result["validation"]["figures"]
    assert figures["accuracy"] == pytest.approx(accuracy_score(y, predicted))
    assert figures["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(y, predicted))
    assert figures["log_loss"] == pytest.approx(log_loss(y, P), rel=1e-6)
    assert figures["auc"] == pytest.approx(roc_auc_score(y, P[:, 1]))
    recalls = recall_score(y, predicted, average=None, labels=["no", "yes"])
    assert [one["recall"] for one in figures["classes"]] == pytest.approx(recalls.tolist())
    assert result["validation"]["baseline"]["accuracy"] == max(
        (y == "yes").mean(), (y == "no").mean()
    )
    # The model itself has all rows, and its file remembers how good it is.
    model = maxplus.load(tmp_path / "m")
    assert len(model.training_labels_) == n
    assert model.validation_ == result["validation"]


def test_train_prints_validation_metrics_before_training_fit(tmp_path):
    printed = good("train", IRIS, *BRIEF[:-2], "-o", tmp_path / "m", "--validate", 3)
    unseen, fit = printed.index("held-out rows"), printed.index("training rows: ")
    assert unseen < fit
    assert re.search(r"accuracy +\d\d\.\d % +33\.3 %", printed)
    assert re.search(r"95 % confidence interval +\d\d\.\d % to \d\d\.\d %", printed)
    assert re.search(r"95 % of new tables with 150 rows have an accuracy of \d\d\.\d % to", printed)
    for words in (
        "balanced accuracy",
        "log loss",
        "AUC",
        "recall of setosa, 50 rows",
        "always setosa",
        "Validated by 3-fold cross-validation",
        "trained on all rows",
        "not an estimate for new rows",
    ):
        assert words in printed
    assert "proof" not in printed
    assert "prov" not in printed
    assert "not seen" not in good("train", IRIS, *BRIEF, "-o", tmp_path / "m")
    assert "Validated by 30% of the rows held out" in good(
        "train", IRIS, *BRIEF[:-2], "-o", tmp_path / "m", "--validate", 0.3
    )


def test_train_validation_exposes_memorised_ids(tmp_path):
    rng = np.random.default_rng(0)
    numbers, labels = rng.permutation(10_000)[:80], rng.choice(["a", "b"], 80)
    table = tmp_path / "t.csv"
    rows = [f"{n},{label}" for n, label in zip(numbers, labels, strict=True)]
    table.write_text("id,label\n" + "\n".join(rows) + "\n")
    assert "left out 'id'" in bad("train", table)
    result = document(
        "train",
        table,
        "--keep",
        "id",
        "-o",
        tmp_path / "m",
        *settings("n_hidden=80", "polish=log2", "slope=20"),
    )
    assert result["training_fit"]["right"] > 70
    validation = result["validation"]
    assert validation["figures"]["accuracy"] < validation["baseline"]["accuracy"] + 0.1
    assert validation["figures"]["log_loss"] > validation["baseline"]["log_loss"]


def test_train_accepts_tables_too_small_for_validation(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("a,b,label\n1.5,2,x\n2,1,y\n3,5,z\n")
    printed = good(
        "train", table, *settings("n_hidden=3", "slope=1", "warmup_epochs=1"), "-o", tmp_path / "m"
    )
    assert "Not validated: no row can be held out for validation" in printed
    assert maxplus.load(tmp_path / "m").classes_.tolist() == ["x", "y", "z"]
    for value in ("half", "1", "0", "1.5", "-3"):
        assert "--validate must be auto, cv, a number of folds" in bad(
            "train", IRIS, f"--validate={value}"
        )


def test_validation_does_not_hold_out_the_only_row_of_a_class(tmp_path):
    table = tmp_path / "t.csv"
    rows = [f"{k + 0.5},{k % 3},{'xy'[k % 2]}" for k in range(20)]
    for lonely, words, whose in (
        (("z",), "1 row", "its class"),
        (("z", "w"), "2 rows", "their classes"),
    ):
        lines = [*rows, *(f"{50 + k},9,{name}" for k, name in enumerate(lonely))]
        table.write_text("a,b,label\n" + "\n".join(lines) + "\n")
        printed = good("train", table, *BRIEF[:-2], "--validate", 2, "-o", tmp_path / "m")
        expected = f" {words} could not be held out: no other row or group has {whose}."
        assert expected in " ".join(printed.split())


def test_ctrl_c_during_validation_keeps_the_model(tmp_path, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("maxplus.cli._training.validate", interrupted)
    printed = good("train", IRIS, *BRIEF[:-2], "--validate", 2, "-o", tmp_path / "m")
    assert "Validation was interrupted; the model is complete." in printed
    assert maxplus.load(tmp_path / "m").score(*_iris_table()) > 0.8


def _iris_table():
    samples = opened(IRIS)
    return samples.X, samples.y


def test_suspects_are_numbered_by_row_of_the_file(tmp_path):
    lines = Path(IRIS).read_text(encoding="utf-8").splitlines()
    for row in (7, 60):  # wrong labels, in lines 8 and 61 of the file
        lines[row] = lines[row].rpartition(",")[0] + ",virginica"
    # A row without a label is left out, and counts all the same.
    lines[3] = lines[3].rpartition(",")[0] + ","
    table = tmp_path / "t.csv"
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    out = tmp_path / "s.csv"
    good(
        "train",
        table,
        "-o",
        tmp_path / "m",
        *BRIEF,
        *settings("max_suspects=5"),
        "--suspects-out",
        out,
        "--remember-rows",
    )
    rows = read_csv(out)
    assert {"7", "60"} <= {row["row"] for row in rows}
    model = maxplus.load(tmp_path / "m")
    assert len(rows) == len(model.suspects_)
    losses = [float(row["loss"]) for row in rows]
    assert losses == sorted(losses, reverse=True)
    for row in rows:
        assert row["label"] == lines[int(row["row"])].rpartition(",")[2]
        k = int(row["row"]) - 1 - (int(row["row"]) > 3)
        assert float(row["loss"]) == pytest.approx(model.training_losses_[k], abs=1e-6)


def test_train_fits_regressors(tmp_path):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(60, 2))
    y = x[:, 0] - np.abs(x[:, 1]) + rng.normal(0, 0.1, 60)
    table = tmp_path / "t.csv"
    np.savetxt(table, np.c_[x, y], delimiter=",", header="u,v,height", comments="")
    brief = (*settings("epochs=30"), "--validate", 3)
    result = document("train", table, "-o", tmp_path / "m", *brief)
    assert (result["task"], result["estimator"]) == ("regression", "LMMRegressor")
    assert any("--task classification" in line for line in result["decisions"])
    predicted = cross_val_predict(
        maxplus.LMMRegressor(epochs=30, random_state=0),
        x,
        y,
        cv=KFold(3, shuffle=True, random_state=0),
    )
    figures = result["validation"]["figures"]
    assert figures["r2"] == pytest.approx(r2_score(y, predicted))
    assert figures["mae"] == pytest.approx(mean_absolute_error(y, predicted))
    assert 0 < figures["covered"] <= 1
    # The file's numbers are those of the data, so that its model is the estimator's.
    model = maxplus.load(tmp_path / "m")
    again = maxplus.LMMRegressor(epochs=30, random_state=0).fit(x, y)
    np.testing.assert_allclose(model.predict(x), again.predict(x))
    intervals = tmp_path / "p.csv"
    good("predict", tmp_path / "m", table, "--intervals", "-o", intervals)
    found = np.array(
        [
            [float(row[name]) for name in ("predicted", "lower", "upper")]
            for row in read_csv(intervals)
        ]
    )
    np.testing.assert_allclose(found.T, [model.predict(x), *model.predict_interval(x, 0.9)])
    printed = good("evaluate", tmp_path / "m", table)
    assert f"{r2_score(y, model.predict(x)):.4f}" in printed
    assert "--probabilities is for classes" in bad(
        "predict", tmp_path / "m", table, "--probabilities"
    )
    assert "regressors support predict, evaluate, explain, report and export" in bad(
        "certify", tmp_path / "m", table
    )
    for setting in ("polish=log2", "standardize=false", "n_hidden=3", "n_estimators=2"):
        assert "LMMRegressor has no parameter" in bad("train", table, "--set", setting)
    for options in (
        ("--algorithm", "subgradient", "--task", "regression"),
        ("--suspects-out", tmp_path / "s.csv"),
        ("--checkpoint", tmp_path / "c"),
    ):
        message = bad("train", table, *options)
        assert f"{options[0]} " in message
        assert "is for classes, " in message
        assert "the target is a number" in message


def test_train_column_options_reach_the_encoder(tmp_path):
    table = tmp_path / "t.csv"
    rows = [f"{k},{k % 3},w{k % 4},{k % 5 + 0.5},{'ab'[k % 2]}" for k in range(40)]
    table.write_text('id,code,word,"x, y",label\n' + "\n".join(rows) + "\n")

    def features(*options):
        good("train", table, "-o", tmp_path / "m", *BRIEF, *options)
        return maxplus.load(tmp_path / "m").encoder_.feature_names

    plain = features()
    assert plain == ["code", "word = w0", "word = w1", "word = w2", "word = w3", "x, y"]
    assert features("--drop", 'word,"x, y"') == ["code"]
    assert features("--drop", "word", "--keep", "id")[0] == "id"
    assert features("--categorical", "code", "--drop", "word")[:3] == [
        "code = 0",
        "code = 1",
        "code = 2",
    ]
    assert features("--numeric", "word")[1] == "word"
    table.write_text("a,b,label\n1.5,2,x\n,1,y\n3,5,x\n4,4,y\n")
    assert "missing values: 1 in 'a'" in bad("train", table, *settings("missing=error"))
    assert "--task must be one of" in bad("train", IRIS, "--task", "guessing")


def test_resumed_train_validates_with_the_same_columns(tmp_path):
    checkpoint = tmp_path / "c"
    brief = (*BRIEF[:-2], "--drop", "sepal length")
    whole = document(
        "train", IRIS, *brief, "--validate", 2, "--checkpoint", checkpoint, "-o", tmp_path / "m"
    )
    again = document("train", IRIS, "--resume", checkpoint, "--validate", 2, "-o", tmp_path / "n")
    assert again["features"] == 3
    assert again["validation"]["figures"] == whole["validation"]["figures"]


# -- interruptions and progress --------------------------------------------------------------------


def wait_for(path, seconds=120):
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"{path} was not written"
        time.sleep(0.02)


LONG = {
    "warm-up and polish": settings("n_hidden=20", "warmup_epochs=400"),
    "paper": (
        "--algorithm",
        "subgradient",
        *settings("n_hidden=20", "max_iter=30000", "w0_update_interval=7"),
    ),
}


@pytest.fixture(scope="module", params=LONG)
def uninterrupted(request, tmp_path_factory):
    """Options of a long training, and what it gives: the first epoch or block is interrupted."""
    path, options = tmp_path_factory.mktemp("whole") / "m", LONG[request.param]
    good("train", IRIS, *options, "--validate", "none", "-o", path)
    return options, maxplus.load(path)


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_resumed_train_ends_with_the_same_weights(tmp_path, uninterrupted, how):
    model, checkpoint = tmp_path / "m", tmp_path / "c"
    # A checkpoint after every block, instead of every minute.
    code = (
        "from maxplus.cli import _training\n_training.EVERY_MINUTE = 0.0\n"
        "from maxplus.cli import main; main()"
    )
    options, whole = uninterrupted
    arguments = [
        "train",
        IRIS,
        *options,
        "-o",
        model,
        "--checkpoint",
        checkpoint,
        "--validate",
        "none",
    ]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(checkpoint)
    process.send_signal(how)
    _, message = process.communicate()
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert "--resume" in message
        assert maxplus.load(model).n_iter_ < 30_000
        assert "Traceback" not in message
    else:
        assert process.returncode == -signal.SIGKILL
        assert not model.exists()
    good("train", IRIS, "--resume", checkpoint, "-o", model, "--validate", "none")
    again = maxplus.load(model)
    assert again.n_iter_ == whole.n_iter_
    courses = () if "subgradient" in options else ("polish_losses_",)
    for name in ("W0_", "W1_", "W2_", "loss_curve_", *courses):
        assert np.array_equal(getattr(again, name), getattr(whole, name))
    assert again.max_loss_ == whole.max_loss_


def test_resumed_train_rejects_other_data(tmp_path):
    checkpoint = tmp_path / "c"
    good("train", IRIS, *BRIEF, "--checkpoint", checkpoint, "-o", tmp_path / "m")
    other = tmp_path / "other.csv"
    other.write_text(Path(IRIS).read_text().replace("5.1,3.5", "5.2,3.5", 1))
    assert "on other data" in bad("train", other, "--resume", checkpoint, "-o", tmp_path / "m")


def report(stage, iteration, max_iter, loss=0.5):
    return Progress(stage, iteration, max_iter, loss, loss, 0.0, None, False, None)


def drawn(bar_of):
    """Return the final content of the terminal."""
    screen = io.StringIO()
    console = Console(file=screen, width=120, force_terminal=False)
    with ProgressBar("training", console) as bar:
        bar_of(bar)
    return screen.getvalue()


def test_progress_bar_shows_distance_to_target():
    assert ProgressBar._gap(math.log(2) + 0.25) == " (0.250 to log 2)"
    assert ProgressBar._gap(0.5) == " (certified)"


def test_progress_bar_ends_with_completed_work():
    def course(bar):
        bar(report("choice", 3, 17))
        bar(report("warm-up", 10, 10, loss=math.nan))
        bar(report("polish", 0, 30))
        bar(report("polish", 2, 30))

    lines = drawn(course).splitlines()
    assert [line.split()[0] for line in lines] == ["training:", "warm-up", "polish"]
    # A search that needed less than it had planned is over; rounds of a polish are a limit.
    assert " 3/3 " in lines[0]
    assert " 10/10 " in lines[1]
    assert " 2/2 " in lines[2]
    assert "nan" not in "".join(lines)


def test_stage_without_work_shows_no_progress_bar():
    def nothing_to_polish(bar):
        bar(report("warm-up", 10, 10))
        bar(report("polish", 0, 30))

    assert "polish" not in drawn(nothing_to_polish)
    assert not drawn(lambda bar: None).strip()
