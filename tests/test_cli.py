"""The command line from a table to a report; mistakes, Ctrl-C and kill -9."""

import csv
import gzip
import html
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
from typer.testing import CliRunner

import maxplus
from maxplus.cli.app import app
from maxplus.tables import open_source

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
ORCHARD = str(EXAMPLES / "orchard.csv")
IRIS = str(EXAMPLES / "iris.csv")


def run(*arguments):
    """The command's outcome; wide enough that nothing is broken into lines."""
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(a) for a in arguments])


def good(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.output


def bad(*arguments, code=2):
    """What a refused command says; never a traceback."""
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return " ".join(result.output.split())


@pytest.fixture(scope="module")
def orchard(tmp_path_factory):
    """A model file trained on the table with a word in it."""
    path = tmp_path_factory.mktemp("models") / "orchard.maxplus"
    good("train", ORCHARD, "--categorical", "variety", "--paper", "-H", 30, "-n", 2000,
         "-o", path)  # fmt: skip
    return path


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "digits.maxplus"
    good("train", "digits", "--paper", "-H", 30, "-n", 300, "-o", path)
    return path


def test_help_fits_on_a_screen_and_every_command_has_an_example():
    top = run("--help").output
    assert len(top.splitlines()) <= 30
    names = re.findall(r"^│ (\w+) ", top, re.MULTILINE)
    for name in [
        "train",
        "predict",
        "evaluate",
        "explain",
        "certify",
        "export",
        "report",
        "reproduce",
        "bench",
    ]:
        assert name in names
    for name in names:
        assert f"Example: maxplus {name}" in " ".join(run(name, "--help").output.split())


def test_training_says_what_it_reached_and_scales_inside_the_model(orchard):
    model = maxplus.load(orchard)
    samples = open_source(ORCHARD, target="goes to", categorical=["variety"])
    codes = np.searchsorted(model.classes_, samples.y)
    losses = -model.predict_log_proba(samples.X)[np.arange(len(codes)), codes]
    assert model.max_loss_ == pytest.approx(losses.max(), rel=1e-12)
    assert np.allclose(model.training_losses_, losses, rtol=1e-12)
    # Training saw scaled features: folding the scaling in changes no more than rounding.
    assert model.loss_curve_.min() == pytest.approx(model.max_loss_, rel=1e-9)


def test_training_without_scaling_is_the_estimator_itself(tmp_path):
    samples = open_source(IRIS)
    for recipe, options in (
        (maxplus.LMMClassifier(scale=False, random_state=0), ()),
        (
            maxplus.SubgradientLMMClassifier(20, max_iter=300, random_state=0),
            ("--paper", "-H", 20, "-n", 300),
        ),
    ):
        printed = good("train", IRIS, "--no-scale", *options, "-o", tmp_path / "m")
        model = maxplus.load(tmp_path / "m")
        again = recipe.fit(samples.X, samples.y)
        assert np.array_equal(model.W1_, again.W1_)
        assert f"{again.max_loss_:.4f}" in printed
    assert "150 rows, 4 features, target 'species' with 3 classes" in printed


def test_all_training_options_reach_the_estimator(tmp_path):
    both = ("--hidden", 7, "--seed", 5, "--slope", 3, "--confidence", 2, "--jobs", 1)
    good(
        "train", IRIS, "-o", tmp_path / "m", *both, "--max-suspects", 0.1, "--epochs", 3,
        "--robust-eps", 0.01, "--early-stopping", "--polish", 0.6,
    )  # fmt: skip
    assert maxplus.load(tmp_path / "m").get_params() == maxplus.LMMClassifier(
        7, random_state=5, slope=3.0, confidence=2.0, max_suspects=0.1, warmup_epochs=3,
        robust_eps=0.01, early_stopping=True, polish=0.6, n_jobs=1,
    ).get_params()  # fmt: skip
    good(
        "train", IRIS, "-o", tmp_path / "m", *both, "--paper", "--iterations", 11, "--top-k", 5,
        "--init", "uniform", "--objective", "max", "--step", "polyak", "--polyak-target", 0.1,
        "--polyak-fraction", 0.3, "--learning-rate", 0.2, "--linear-every", 4, "--engine", "dense",
        "--keep", "last",
    )  # fmt: skip
    assert maxplus.load(tmp_path / "m").get_params() == maxplus.SubgradientLMMClassifier(
        7, max_iter=11, random_state=5, slope=3.0, confidence=2.0, init="uniform", top_k=5,
        objective="max", step="polyak", polyak_target=0.1, polyak_fraction=0.3,
        learning_rate=0.2, linear_every=4, engine="dense", keep="last", n_jobs=1,
    ).get_params()  # fmt: skip
    good("train", IRIS, "-o", tmp_path / "m", "--paper", "-n", 5)
    recipe = maxplus.SubgradientLMMClassifier(max_iter=5, random_state=0)
    assert maxplus.load(tmp_path / "m").get_params() == recipe.get_params()
    good("train", IRIS, "-o", tmp_path / "m", "--no-polish", "--epochs", 2)
    assert maxplus.load(tmp_path / "m").polish is None
    for option in ("--epochs", "--robust-eps", "--polish", "--max-suspects"):
        assert f"{option} is not the paper's; leave it out" in bad(
            "train", IRIS, "--paper", option, 1
        )
    for option in ("--iterations", "--top-k", "--polyak-target", "--learning-rate"):
        assert f"{option} is for --paper; add --paper" in bad("train", IRIS, option, 1)


def test_predictions_are_the_models_own(orchard, tmp_path):
    out = tmp_path / "p.csv"
    good("predict", orchard, ORCHARD, "--probabilities", "--radius", "--raw-units", "-o", out)
    with open(out, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    model = maxplus.load(orchard)
    X = open_source(ORCHARD, target="goes to", categorical=["variety"]).X
    assert [row["predicted"] for row in rows] == model.predict(X).tolist()
    p = np.array([[float(row[f"probability of {c}"]) for c in model.classes_] for row in rows])
    assert np.allclose(p, model.predict_proba(X), atol=1e-6)
    radius = np.array([float(row["certified radius"]) for row in rows])
    assert np.allclose(radius, model.certified_radius(X), rtol=1e-5)


def test_evaluating_measures_and_draws_the_calibration(orchard, tmp_path):
    model = maxplus.load(orchard)
    samples = open_source(ORCHARD, target="goes to", categorical=["variety"])
    codes = np.searchsorted(model.classes_, samples.y)
    P = model.predict_proba(samples.X)
    error = maxplus.metrics.expected_calibration_error(codes, P)
    picture = tmp_path / "reliability.svg"
    printed = good("evaluate", orchard, ORCHARD, "--plot", picture)
    assert f"calibration    {error:.4f}" in printed
    assert f"log loss       {maxplus.metrics.log_losses(codes, P).mean():.4f}" in printed
    assert "<svg" in picture.read_text(encoding="utf-8")
    assert "'tiger' is not supported" in bad(
        "evaluate", orchard, ORCHARD, "--plot", tmp_path / "a.tiger"
    )
    assert "no-such" in bad("evaluate", orchard, ORCHARD, "--plot", tmp_path / "no-such" / "a.png")


def test_prediction_needs_no_labels_and_any_order_of_columns(orchard, tmp_path):
    path = tmp_path / "new.csv"
    path.write_text("note,bruise mm,sugar %,weight g,variety\nhi,20,12,150,Gala\n")
    assert good("predict", orchard, path).splitlines() == ["row,predicted", "0,compost"]


def test_evaluation_explanation_and_certificates_agree_with_python(orchard):
    model = maxplus.load(orchard)
    samples = open_source(ORCHARD, target="goes to", categorical=["variety"])
    accuracy = model.score(samples.X, samples.y)
    assert f"right          {accuracy:.2%}" in good("evaluate", orchard, ORCHARD)
    why = good("explain", orchard, ORCHARD, "--row", 5, "--row", 0)
    assert why.index("Row 5:") < why.index("Row 0:")
    assert "decided by" in why
    assert "like training row" in why
    printed = good("certify", orchard, ORCHARD, "--eps", 0.1, "--raw-units")
    assert f"{model.certify(samples.X, samples.y, 0.1):.2%}" in printed
    scale = samples.X.std(axis=0)
    printed = good("certify", orchard, ORCHARD, "--eps", 0.1)
    assert f"{model.certify(samples.X, samples.y, 0.1, scale):.2%}" in printed


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_certificates_count_in_deviations_of_the_training_data(orchard, tmp_path):
    model = maxplus.load(orchard)
    samples = open_source(ORCHARD, target="goes to", categorical=["variety"])
    deviations = samples.X.std(axis=0)
    assert np.array_equal(model.preparation_.deviations, deviations)
    out, unit = tmp_path / "p.csv", "standard deviations of the training data"
    good("predict", orchard, ORCHARD, "--radius", "-o", out)
    radius = [float(row[f"certified radius in {unit}"]) for row in read(out)]
    assert np.allclose(radius, model.certified_radius(samples.X, deviations), rtol=1e-5)
    # One row of the same table: its own deviations are 0, and must not matter.
    lines = Path(ORCHARD).read_text(encoding="utf-8").splitlines()
    for row in (0, 7):
        one = tmp_path / "one.csv"
        one.write_text("\n".join([lines[0], lines[1 + row]]) + "\n", encoding="utf-8")
        printed = good("certify", orchard, one, "--eps", 0, "--eps", 1000)
        assert f"ε and radii are in {unit}." in printed
        assert f"median certified radius {radius[row]:.4g}, least {radius[row]:.4g}" in printed
        assert re.search(r"1000 +0\.00%", printed)
        good("predict", orchard, one, "--radius", "-o", out)
        assert float(read(out)[0][f"certified radius in {unit}"]) == radius[row]


@pytest.fixture(scope="module")
def constant(tmp_path_factory):
    """A model of a table with a column that is always 0.1, and the table."""
    folder = tmp_path_factory.mktemp("constant")
    rows = ["a,b,same,label"] + [f"{k},{k % 3},0.1,{'u' if k < 20 else 'v'}" for k in range(40)]
    (folder / "t.csv").write_text("\n".join(rows) + "\n")
    good("train", folder / "t.csv", "-o", folder / "m", "--epochs", 3)
    return folder / "m", folder / "t.csv"


def test_a_constant_column_certifies_nothing_for_ever(constant, tmp_path):
    path, table = constant
    model = maxplus.load(path)
    assert model.preparation_.deviations[2] == 1.0
    assert model.scale_[2] == 1.0
    printed = good("certify", path, table, "--eps", 1e9)
    assert "0.00%" in printed
    assert "inf" not in printed
    samples = open_source(str(table))
    # A column that is constant in the evaluated file only is not held fixed either.
    still = tmp_path / "still.csv"
    still.write_text("a,b,same,label\n5,1,0.1,u\n5,2,0.1,u\n")
    printed = good("certify", path, still)
    expected = model.certified_radius(
        np.array([[5.0, 1.0, 0.1], [5.0, 2.0, 0.1]]), model.preparation_.deviations
    )
    assert np.isfinite(expected).all()
    assert np.allclose(model.preparation_.deviations[:2], samples.X.std(axis=0)[:2])
    assert f"least {expected.min():.4g}" in printed


def test_raw_units_and_models_without_deviations_say_so(orchard, tmp_path):
    printed = good("certify", orchard, ORCHARD, "--raw-units")
    assert "ε and radii are in the features' own units." in printed
    samples = open_source(IRIS)
    clf = maxplus.SubgradientLMMClassifier(8, max_iter=20, random_state=0).fit(samples.X, samples.y)
    clf.save(tmp_path / "m")
    printed = good("certify", tmp_path / "m", IRIS, "--eps", 0.1)
    assert "own units (the model file has no deviations of its training data)" in printed
    assert f"{clf.certify(samples.X, samples.y, 0.1):.2%}" in printed
    out = tmp_path / "p.csv"
    said = good("predict", tmp_path / "m", IRIS, "--radius", "-o", out)
    assert "no deviations of its training data" in said
    radius = [float(row["certified radius"]) for row in read(out)]
    assert np.allclose(radius, clf.certified_radius(samples.X), rtol=1e-5)


def test_the_report_names_the_unit_of_its_radii(orchard, tmp_path):
    pytest.importorskip("matplotlib")
    page = tmp_path / "r.html"
    for options, unit in (
        ((), "standard deviations of the training data"),
        (("--raw-units",), "the features' own units"),
    ):
        good("report", orchard, ORCHARD, "-o", page, *options)
        text = html.unescape(page.read_text(encoding="utf-8"))
        assert f"while all features move by less, in {unit}" in text
        assert f'"radius_unit":"{unit}"' in text.replace("\\u0027", "'")


def test_packed_tables_are_read(orchard, tmp_path):
    packed = tmp_path / "orchard.csv.gz"
    packed.write_bytes(gzip.compress(Path(ORCHARD).read_bytes()))
    assert (
        good("evaluate", orchard, packed).splitlines()[1:]
        == (good("evaluate", orchard, ORCHARD).splitlines()[1:])
    )


def test_a_category_is_never_changed_beyond_yes_and_no(orchard, tmp_path):
    rows = [word for n in range(40) for word in ("--row", n)]
    good("explain", orchard, ORCHARD, "--table", tmp_path / "t.csv", *rows)
    with open(tmp_path / "t.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 40 * 3
    assert {row["row"] for row in rows} == {str(n) for n in range(40)}
    values = [float(r["flip_value"]) for r in rows if r["flip_feature"].startswith("variety")]
    assert all(0 <= value <= 1 for value in values)


def test_images_get_a_picture_and_tables_do_not(digits, orchard, tmp_path):
    pytest.importorskip("matplotlib")
    good("explain", digits, "digits", "--picture", tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    assert "--picture is for models of images" in bad(
        "explain", orchard, ORCHARD, "--picture", tmp_path / "q.png"
    )


def test_the_report_is_one_page(digits, orchard, tmp_path):
    pytest.importorskip("matplotlib")
    for model, data in ((orchard, ORCHARD), (digits, "digits")):
        good("report", model, data, "-o", tmp_path / "r.html")
        page = (tmp_path / "r.html").read_text(encoding="utf-8")
        assert "<!doctype html>" in page.lower()
        assert not re.search(r'(src|href)="https?:', page)
        for word in ("Certificate", "Confusion", "Worst samples", "Explorer"):
            assert word in page
        assert "How far probabilities can be trusted" in page
        assert "Calibration error" in page


def test_export_writes_onnx(orchard, tmp_path):
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    good("export", orchard, tmp_path / "m.onnx")
    onnx.checker.check_model(str(tmp_path / "m.onnx"))
    assert "does not end in .onnx" in bad("export", orchard, tmp_path / "m.pb")


@pytest.mark.parametrize(
    ("package", "arguments", "extra"),
    [
        ("onnx", ("export", "m.onnx"), "maxplus[onnx]"),
        ("matplotlib", ("report", ORCHARD, "-o", "r.html"), "maxplus[plot]"),
        ("matplotlib", ("certify", ORCHARD, "--plot", "c.png"), "maxplus[plot]"),
        ("matplotlib", ("evaluate", ORCHARD, "--plot", "e.png"), "maxplus[plot]"),
    ],
)
def test_a_missing_package_is_named_without_a_traceback(
    orchard, tmp_path, monkeypatch, package, arguments, extra
):
    for name in [m for m in sys.modules if m == package or m.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "maxplus.export.onnx", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.chdir(tmp_path)
    command, *rest = arguments
    assert f"pip install '{extra}'" in bad(command, orchard, *rest)


def test_bench_times_every_engine():
    printed = good("bench", "--samples", 60, "--features", 4, "--hidden", 8, "--seconds", 0.1)
    for engine in ("dense", "tree", "sparse"):
        assert re.search(rf"{engine} +[\d.e-]+ +[\d.e-]+ +[\d.]+ \w?B", printed)


def test_mistakes_are_one_line(orchard, digits, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("a,b,c\n1,x,0\n,y,1\n3,x,1\n")
    missing = "has missing values: 1 in 'a'"
    assert "column 'b' does not hold numbers" in bad("train", table)
    assert "--categorical b" in bad("train", table)
    assert missing in bad("train", table, "--categorical", "b")
    assert "no column 'z' (--target)" in bad("train", table, "--target", "z")
    assert "neither a file nor a built-in data set" in bad("train", "flowers")
    assert "nothing.csv: No such file" in bad("train", tmp_path / "nothing.csv")
    assert "objective must be one of" in bad("train", IRIS, "--paper", "--objective", "sum")
    assert "does not exist; make it first" in bad("train", IRIS, "-o", tmp_path / "no" / "m")
    assert "is a folder; name a file" in bad("train", IRIS, "-o", tmp_path)
    assert "does not exist" in bad("train", IRIS, "--checkpoint", tmp_path / "no" / "c")
    assert "is not a readable maxplus-model file" in bad("predict", table, IRIS)
    assert "lacks columns 'variety', 'weight g'" in bad("predict", orchard, IRIS)
    assert "has no row 999" in bad("explain", orchard, ORCHARD, "--row", 999)
    assert "eps must be a finite number >= 0" in bad("certify", orchard, ORCHARD, "--eps", -1)
    new = tmp_path / "new.csv"
    new.write_text("variety,weight g,sugar %,bruise mm,goes to\nFuji,150,12,3,shop\n")
    assert "'variety' holds 'Fuji', which the model has never seen" in bad("predict", orchard, new)
    new.write_text("variety,weight g,sugar %,bruise mm,goes to\nGala,150,12,3,attic\n")
    assert "has the label 'attic', which the model does not know" in bad("evaluate", orchard, new)
    # Longer than any known label, and beginning like one.
    new.write_text("variety,weight g,sugar %,bruise mm,goes to\nGala,150,12,3,compost heap\n")
    assert "has the label 'compost heap'" in bad("evaluate", orchard, new)
    new.write_text("variety,weight g,sugar %,bruise mm\nGala,150,12,3\n")
    assert "no column 'goes to' with the true labels" in bad("evaluate", orchard, new)
    assert "is a maxplus-model file" in bad("train", IRIS, "--resume", orchard)
    assert "lacks" in bad("predict", digits, IRIS)


def wait_for(path, seconds=120):
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"{path} was not written"
        time.sleep(0.02)


LONG = {
    "warm-up and polish": ("-H", 20, "--epochs", 400),
    "paper": ("-H", 20, "--paper", "-n", 30_000, "--linear-every", 7),
}


@pytest.fixture(scope="module", params=LONG)
def uninterrupted(request, tmp_path_factory):
    """Options of a long training, and what it gives: the first epoch or block is interrupted."""
    path, options = tmp_path_factory.mktemp("whole") / "m", LONG[request.param]
    good("train", IRIS, *options, "-o", path)
    return options, maxplus.load(path)


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_an_ended_training_goes_on_to_the_same_bits(tmp_path, uninterrupted, how):
    model, checkpoint = tmp_path / "m", tmp_path / "c"
    # A checkpoint after every block, instead of every minute.
    code = (
        "from maxplus.cli import train\ntrain.EVERY_MINUTE = 0.0\n"
        "from maxplus.cli import main; main()"
    )
    options, whole = uninterrupted
    arguments = ["train", IRIS, *options, "-o", model, "--checkpoint", checkpoint]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for(checkpoint)
    process.send_signal(how)
    _, said = process.communicate()
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert "--resume" in said
        assert maxplus.load(model).n_iter_ < 30_000
        assert "Traceback" not in said
    else:
        assert process.returncode == -signal.SIGKILL
        assert not model.exists()
    good("train", IRIS, "--resume", checkpoint, "-o", model)
    again = maxplus.load(model)
    assert again.n_iter_ == whole.n_iter_
    courses = () if "--paper" in options else ("warmup_losses_", "polish_losses_")
    for name in ("W0_", "W1_", "W2_", "loss_curve_", *courses):
        assert np.array_equal(getattr(again, name), getattr(whole, name))
    assert again.max_loss_ == whole.max_loss_


def test_resuming_on_other_data_is_refused(tmp_path):
    checkpoint = tmp_path / "c"
    good("train", IRIS, "--epochs", 5, "-H", 5, "--checkpoint", checkpoint, "-o", tmp_path / "m")
    other = tmp_path / "other.csv"
    other.write_text(Path(IRIS).read_text().replace("5.1,3.5", "5.2,3.5", 1))
    assert "on other data" in bad("train", other, "--resume", checkpoint, "-o", tmp_path / "m")


def test_the_progress_bar_tells_the_way_to_the_certificate():
    from maxplus.training.progress import ProgressBar

    assert ProgressBar._gap(math.log(2) + 0.25) == " (0.250 to log 2)"
    assert ProgressBar._gap(0.5) == " (certified)"
