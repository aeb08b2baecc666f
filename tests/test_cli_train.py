"""``maxplus train``: options, validation, Ctrl-C and kill -9."""

import io
import math
import os
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
from commands import IRIS, ORCHARD, SMALL, bad, document, good, read_csv, run, settings, train
from maxplus.training import Progress
from maxplus.training.progress import ProgressBar
from table_helpers import opened

pytestmark = pytest.mark.slow
SUBGRADIENT = ("--algorithm", "subgradient")


# -- options ---------------------------------------------------------------------------------------


def test_train_reports_result_and_stores_scaling_in_model(orchard_model):
    model = maxplus.load(orchard_model)
    samples = opened(ORCHARD, "goes to")
    codes = np.searchsorted(model.classes_, samples.y)
    losses = -model.predict_log_proba(samples.X)[np.arange(len(codes)), codes]
    assert model.max_loss_ == pytest.approx(losses.max(), rel=1e-12)
    assert np.allclose(model.training_losses_, losses, rtol=1e-12)
    # Folding the scaling into the weights changes the losses by rounding errors only.
    assert model.loss_curve_.min() == pytest.approx(model.max_loss_, rel=1e-9)


@pytest.mark.parametrize(
    ("estimator", "options", "parameters"),
    [
        (maxplus.LMMClassifier, (), SMALL),
        (maxplus.SubgradientLMMClassifier, SUBGRADIENT, {"n_hidden": 20, "max_iter": 300}),
    ],
)
def test_train_without_scaling_equals_estimator(tmp_path, estimator, options, parameters):
    samples = opened(IRIS)
    unscaled = settings("standardize=false")
    printed = good(*train(IRIS, tmp_path / "m", *options, *unscaled, **parameters))
    expected = estimator(**parameters, random_state=0)
    if not options:
        expected.set_params(standardize=False)
    expected.fit(samples.X, samples.y)
    assert np.array_equal(maxplus.load(tmp_path / "m").W1_, expected.W1_)
    assert f"{expected.max_loss_:.4f}" in printed
    assert "150 rows, 4 features, target 'species' with 3 classes" in printed


NETWORK = {"n_hidden": 7, "slope": 3.0, "init_margin": 2.0, "n_jobs": 1}


@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        (
            (),
            NETWORK
            | {
                "max_suspects": 0.1,
                "warmup_epochs": 3,
                "robust_eps": 0.01,
                "early_stopping": True,
                "polish": 0.6,
                "class_weight": "balanced",
                "calibrate": True,
                "scoring": "balanced_accuracy",
            },
        ),
        ((), SMALL | {"polish": None, "calibrate": False, "class_weight": None}),
        ((), SMALL | {"polish": "log2", "standardize": False}),
        ((), {"structure": "shapes", "max_features": 3, "warmup_epochs": 2, "standardize": "auto"}),
        (
            SUBGRADIENT,
            NETWORK
            | {
                "max_iter": 11,
                "top_k": 5,
                "init": "uniform",
                "objective": "max",
                "step": "polyak",
                "polyak_target": 0.1,
                "polyak_fraction": 0.3,
                "learning_rate": 0.2,
                "w0_update_interval": 4,
                "engine": "dense",
                "keep": "last",
            },
        ),
        (SUBGRADIENT, {"max_iter": 5}),
    ],
)
def test_train_options_reach_the_estimator(tmp_path, options, parameters):
    good(*train(IRIS, tmp_path / "m", "--seed", 5, *options, **parameters))
    estimator = maxplus.SubgradientLMMClassifier if options else maxplus.LMMClassifier
    expected = estimator(**parameters, random_state=5).get_params()
    assert maxplus.load(tmp_path / "m").get_params() == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((*SUBGRADIENT, "--set", "robust_eps=1"), "has no parameter 'robust_eps'"),
        ((*SUBGRADIENT, "--set", "objective=sum"), "objective must be one of"),
        ((*SUBGRADIENT, "--set", "n_estimators=2"), "SubgradientLMMClassifier has no parameter"),
        (("--set", "polyak_target=1"), "LMMClassifier has no parameter 'polyak_target'; it has"),
        (("--set", "warmup_epoch=3"), "did you mean 'warmup_epochs'?"),
        (("--set", "polish=shoes"), "polish must be"),
        (("--set", "slope"), "--set slope: must be NAME=VALUE"),
        (("--set", "n_hidden=0"), "n_hidden must be"),
        (("--set", "random_state=3"), "random_state=3: use --seed instead"),
        (("--algorithm", "magic"), "--algorithm must be one of smooth, subgradient; got 'magic'"),
        (("--validate", "half"), "--validate must be auto, cv, a number of folds"),
        (("--validate", "1"), "--validate must be auto, cv, a number of folds"),
        (("--validate", "1.5"), "--validate must be auto, cv, a number of folds"),
        (("--validate=-3",), "--validate must be auto, cv, a number of folds"),
    ],
)
def test_train_rejects_invalid_options(options, message):
    assert message in bad("train", IRIS, *options)


def test_train_column_options_reach_the_encoder(write, tmp_path):
    rows = [f"{k},{k % 3},w{k % 4},{k % 5 + 0.5},{'ab'[k % 2]}" for k in range(40)]
    table = write("\n".join(['id,code,word,"x, y",label', *rows, ""]))

    def features(*options):
        good(*train(table, tmp_path / "m", *options, **SMALL))
        return maxplus.load(tmp_path / "m").encoder_.feature_names

    words = [f"word = w{k}" for k in range(4)]
    assert features() == ["code", *words, "x, y"]
    assert features("--drop", 'word,"x, y"') == ["code"]
    assert features("--drop", "word", "--keep", "id")[0] == "id"
    codes = features("--categorical", "code", "--drop", "word")[:3]
    assert codes == ["code = 0", "code = 1", "code = 2"]
    assert features("--numeric", "word")[1] == "word"
    table.write_text("a,b,label\n1.5,2,x\n,1,y\n3,5,x\n4,4,y\n")
    assert "missing values: 1 in 'a'" in bad("train", table, *settings("missing=error"))


def test_train_fits_regressors(tmp_path):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(60, 2))
    y = x[:, 0] - np.abs(x[:, 1]) + rng.normal(0, 0.1, 60)
    table, path, out = tmp_path / "t.csv", tmp_path / "m", tmp_path / "p.csv"
    np.savetxt(table, np.c_[x, y], delimiter=",", header="u,v,height", comments="")
    result = document(*train(table, path, validate=3, epochs=30))
    assert (result["task"], result["estimator"]) == ("regression", "LMMRegressor")
    assert any("--task classification" in line for line in result["decisions"])
    expected = maxplus.LMMRegressor(epochs=30, random_state=0)
    predicted = cross_val_predict(expected, x, y, cv=KFold(3, shuffle=True, random_state=0))
    metrics = result["validation"]["metrics"]
    assert metrics["r2"] == pytest.approx(r2_score(y, predicted))
    assert metrics["mae"] == pytest.approx(mean_absolute_error(y, predicted))
    assert 0 < metrics["covered"] <= 1
    model = maxplus.load(path)
    np.testing.assert_allclose(model.predict(x), expected.fit(x, y).predict(x))
    good("predict", path, table, "--intervals", "-o", out)
    found = [[float(row[n]) for n in ("predicted", "lower", "upper")] for row in read_csv(out)]
    np.testing.assert_allclose(np.transpose(found), [model.predict(x), *model.predict_interval(x)])
    assert f"{r2_score(y, model.predict(x)):.4f}" in good("evaluate", path, table)
    message = "--probabilities requires a classifier"
    assert message in bad("predict", path, table, "--probabilities")
    message = "regressors support predict, evaluate, explain, report and export"
    assert message in bad("certify", path, table)
    for setting in ("polish=log2", "standardize=false", "n_hidden=3", "n_estimators=2"):
        assert "LMMRegressor has no parameter" in bad("train", table, "--set", setting)
    for options in (
        (*SUBGRADIENT, "--task", "regression"),
        ("--suspects-out", tmp_path / "s.csv"),
        ("--checkpoint", tmp_path / "c"),
    ):
        message = bad("train", table, *options)
        assert f"{options[0]} " in message
        assert "requires a categorical target, but the target is numeric" in message


def test_suspects_are_numbered_by_row_of_the_file(write, tmp_path):
    lines = Path(IRIS).read_text(encoding="utf-8").splitlines()
    for row in (7, 60):  # Two wrong labels.
        lines[row] = lines[row].rpartition(",")[0] + ",virginica"
    # A row without a label is not used, but it is counted.
    lines[3] = lines[3].rpartition(",")[0] + ","
    table, out = write("\n".join([*lines, ""])), tmp_path / "s.csv"
    options = ("--suspects-out", out, "--remember-rows")
    good(*train(table, tmp_path / "m", *options, **SMALL, max_suspects=5))
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


# -- validation ------------------------------------------------------------------------------------


def test_train_reports_cross_validated_metrics(write, tmp_path):
    """Encoder and model are fitted in each fold; compare with scikit-learn."""
    rng = np.random.default_rng(4)
    n = 90
    town = rng.choice(["Ulm", "Bonn", "Kiel"], n)
    size = rng.normal(size=n)
    y = np.where(size + (town == "Ulm") + rng.normal(0, 0.7, n) > 0.4, "yes", "no")
    missing = rng.random(n) < 0.15
    lines = [f"{'' if m else s},{t},{c}" for m, s, t, c in zip(missing, size, town, y, strict=True)]
    table = write("\n".join(["size,town,ill", *lines, ""]))
    parameters = {"n_hidden": 8, "slope": 4.0, "warmup_epochs": 3}
    options = ("--seed", 3, "--remember-rows")
    result = document(*train(table, tmp_path / "m", *options, validate=4, **parameters))
    P = np.zeros((n, 2))
    for training, test in StratifiedKFold(4, shuffle=True, random_state=3).split(y, y):
        known = size[training][~missing[training]]
        median = np.sort(known)[(known.size - 1) // 2]
        values = np.where(missing, median, size)
        X = np.column_stack([values, missing, town[:, None] == np.unique(town[training])])
        clf = maxplus.LMMClassifier(**parameters, random_state=3)
        P[test] = clf.fit(X[training], y[training]).predict_proba(X[test])
    predicted = np.array(["no", "yes"])[P.argmax(axis=1)]
    metrics = result["validation"]["metrics"]
    assert metrics["accuracy"] == pytest.approx(accuracy_score(y, predicted))
    assert metrics["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(y, predicted))
    assert metrics["log_loss"] == pytest.approx(log_loss(y, P), rel=1e-6)
    assert metrics["auc"] == pytest.approx(roc_auc_score(y, P[:, 1]))
    recalls = recall_score(y, predicted, average=None, labels=["no", "yes"])
    assert [one["recall"] for one in metrics["classes"]] == pytest.approx(recalls.tolist())
    most_frequent = max((y == "yes").mean(), (y == "no").mean())
    assert result["validation"]["baseline"]["accuracy"] == most_frequent
    # The model is trained on all rows, and its file contains the validation.
    model = maxplus.load(tmp_path / "m")
    assert len(model.training_labels_) == n
    assert model.validation_ == result["validation"]


def test_train_accepts_tables_too_small_for_validation(write, tmp_path):
    table = write("a,b,label\n1.5,2,x\n2,1,y\n3,5,z\n")
    parameters = {"n_hidden": 3, "slope": 1, "warmup_epochs": 1}
    printed = good(*train(table, tmp_path / "m", validate="auto", **parameters))
    assert "Not validated: " in printed
    assert maxplus.load(tmp_path / "m").classes_.tolist() == ["x", "y", "z"]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("z", "1 row could not be held out: no other row or group has its class."),
        ("zw", "2 rows could not be held out: no other row or group has their classes."),
    ],
)
def test_validation_does_not_hold_out_the_only_row_of_a_class(write, tmp_path, labels, message):
    rows = [f"{k + 0.5},{k % 3},{'xy'[k % 2]}" for k in range(20)]
    rows += [f"{50 + k},9,{label}" for k, label in enumerate(labels)]
    table = write("\n".join(["a,b,label", *rows, ""]))
    printed = " ".join(good(*train(table, tmp_path / "m", validate=2, **SMALL)).split())
    assert f" {message}" in printed
    assert "Estimated accuracy on 20 new rows: " in printed
    assert "(95 % prediction interval)" in printed


def test_ctrl_c_during_validation_keeps_the_model(tmp_path, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("maxplus.cli._training.validate", interrupted)
    printed = good(*train(IRIS, tmp_path / "m", validate=2, **SMALL))
    assert "Validation was interrupted; the model is complete." in printed
    samples = opened(IRIS)
    assert maxplus.load(tmp_path / "m").score(samples.X, samples.y) > 0.8


# -- checkpoints and interruptions -----------------------------------------------------------------


def test_resumed_train_validates_with_the_same_columns(tmp_path):
    checkpoint = tmp_path / "c"
    options = ("--drop", "sepal length", "--checkpoint", checkpoint)
    whole = document(*train(IRIS, tmp_path / "m", *options, validate=2, **SMALL))
    resumed = document(*train(IRIS, tmp_path / "n", "--resume", checkpoint, validate=2))
    assert resumed["features"] == 3
    assert resumed["validation"]["metrics"] == whole["validation"]["metrics"]


def test_checkpoint_requires_a_single_network(tmp_path):
    message = bad(*train(IRIS, tmp_path / "m", "--checkpoint", tmp_path / "c"))
    assert "--checkpoint requires a single network, but the model is a sum of terms" in message
    assert "--set n_hidden=50" in message


def test_resumed_train_names_options_without_effect(tmp_path):
    model, checkpoint = tmp_path / "m", tmp_path / "c"
    good(*train(IRIS, model, "--drop", "sepal length", "--checkpoint", checkpoint, **SMALL))
    result = run(*train(IRIS, model, "--resume", checkpoint))
    assert (result.exit_code, "no effect" in result.stderr) == (0, False)
    options = ("--seed", 0, "--task", "auto", "--drop", "petal width", "--remember-rows")
    result = run(*train(IRIS, model, *options, "--resume", checkpoint, slope=2))
    assert result.exit_code == 0, result.output
    assert (
        "--resume uses the options of the checkpoint, so these have no effect: --seed, --task, "
        "--drop, --set\n"
    ) in result.stderr
    assert maxplus.load(model).encoder_.feature_names == [
        "sepal width",
        "petal length",
        "petal width",
    ]


def test_resumed_train_rejects_other_data(tmp_path):
    checkpoint, other = tmp_path / "c", tmp_path / "other.csv"
    good(*train(IRIS, tmp_path / "m", "--checkpoint", checkpoint, **SMALL))
    other.write_text(Path(IRIS).read_text().replace("5.1,3.5", "5.2,3.5", 1))
    assert "to other data" in bad("train", other, "--resume", checkpoint, "-o", tmp_path / "m")


def wait_for(path, seconds=120):
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"{path} was not written"
        time.sleep(0.02)


LONG = {
    "warm-up and polish": settings("n_hidden=20", "warmup_epochs=400"),
    "subgradient": (
        *SUBGRADIENT,
        *settings("n_hidden=20", "max_iter=30000", "w0_update_interval=7"),
    ),
}


@pytest.fixture(scope="module", params=LONG)
def uninterrupted(request, tmp_path_factory):
    """Options of a long training, and its model."""
    path, options = tmp_path_factory.mktemp("whole") / "m", LONG[request.param]
    good(*train(IRIS, path, *options))
    return options, maxplus.load(path)


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_resumed_train_ends_with_the_same_weights(tmp_path, uninterrupted, number):
    model, checkpoint = tmp_path / "m", tmp_path / "c"
    # Write a checkpoint after every block instead of every minute.
    code = (
        "from maxplus.cli import _training\n_training.CHECKPOINT_INTERVAL = 0.0\n"
        "from maxplus.cli import main; main()"
    )
    options, whole = uninterrupted
    arguments = train(IRIS, model, *options, "--checkpoint", checkpoint)
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(checkpoint)
    process.send_signal(number)
    _, message = process.communicate()
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert f"continue with --resume {checkpoint}" in message
        assert maxplus.load(model).n_iter_ < 30_000
        assert "Traceback" not in message
    else:
        assert process.returncode == -signal.SIGKILL
        assert not model.exists()
    good(*train(IRIS, model, "--resume", checkpoint))
    resumed = maxplus.load(model)
    assert resumed.n_iter_ == whole.n_iter_
    curves = () if "subgradient" in options else ("polish_losses_",)
    for name in ("W0_", "W1_", "W2_", "loss_curve_", *curves):
        assert np.array_equal(getattr(resumed, name), getattr(whole, name))
    assert resumed.max_loss_ == whole.max_loss_


# -- progress bar ----------------------------------------------------------------------------------


def drawn(*reports):
    """Return the lines of a progress bar after reports (stage, iteration, max_iter, loss)."""
    screen = io.StringIO()
    console = Console(file=screen, width=120, force_terminal=False)
    with ProgressBar("training", console) as bar:
        for stage, iteration, max_iter, loss in reports:
            bar(Progress(stage, iteration, max_iter, loss, loss, 0.0, None, False, None))
    return screen.getvalue().splitlines()


def test_progress_bar_shows_distance_to_target():
    assert ProgressBar._gap(math.log(2) + 0.25) == " (0.250 to log 2)"
    assert ProgressBar._gap(0.5) == " (perfect fit)"


def test_progress_bar_ends_with_completed_work():
    lines = drawn(
        ("choice", 3, 17, 0.5),
        ("warm-up", 10, 10, math.nan),
        ("polish", 0, 30, 0.5),
        ("polish", 2, 30, 0.5),
    )
    assert [line.split()[0] for line in lines] == ["training:", "warm-up", "polish"]
    # The maximum numbers of a search and of a polish are limits; stages may end earlier.
    for line, count in zip(lines, (" 3/3 ", " 10/10 ", " 2/2 "), strict=True):
        assert count in line
    assert "nan" not in "".join(lines)


def test_stage_without_work_shows_no_progress_bar():
    lines = drawn(("warm-up", 10, 10, 0.5), ("polish", 0, 30, 0.5))
    assert "polish" not in "".join(lines)
