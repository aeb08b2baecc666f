"""Command line: help, error messages, control characters, JSON output."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer

import maxplus
from commands import IRIS, ORCHARD, SMALL, bad, good, run, settings, train
from maxplus.cli._console import with_options
from maxplus.cli.app import app
from table_helpers import opened

pytestmark = pytest.mark.slow


def test_help_fits_on_a_screen_and_every_command_has_an_example():
    top = run("--help").output
    assert len(top.splitlines()) <= 30
    names = re.findall(r"^│ (\w+) ", top, re.MULTILINE)
    assert len(names) == 10
    for name in names:
        assert f"Example: maxplus {name}" in " ".join(run(name, "--help").output.split())


def test_help_paragraphs_are_wrapped_to_the_terminal():
    for name, command in typer.main.get_command(app).commands.items():
        *paragraphs, example = command.help.split("\n\n")
        assert "\n" not in "".join(paragraphs)
        assert re.fullmatch(f"Example: maxplus {name}( .*)?", example)


def test_help_states_defaults():
    commands = typer.main.get_command(app).commands
    for name, command in commands.items():
        for option in command.params:
            if option.name in ("help", "names"):
                continue
            text = option.help or ""
            assert text.endswith("."), f"{name} --{option.name}: {text!r}"
            # Other defaults are shown behind the text.
            has_default = not (option.default is None or option.default is False)
            is_stated = has_default or option.required or "default" in text
            assert is_stated, f"{name} --{option.name}: {text!r}"


def test_module_and_command_print_the_same_version():
    expected = f"maxplus {maxplus.__version__}\n"
    assert run("--version").stdout == expected
    command = [sys.executable, "-m", "maxplus", "--version"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == expected


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from maxplus.cli.app import app; app(['--help'], standalone_mode=False);"
        "sys.exit(bool({'numba', 'pyarrow', 'sklearn', 'matplotlib'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_command_without_arguments_prints_help():
    result = run()
    assert "train" in result.output
    assert "Error" not in result.output


def test_export_command_writes_onnx(orchard_model, tmp_path):
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    good("export", orchard_model, tmp_path / "m.onnx")
    onnx.checker.check_model(str(tmp_path / "m.onnx"))
    assert "does not end in .onnx" in bad("export", orchard_model, tmp_path / "m.pb")


# -- errors and warnings ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("package", "arguments", "extra"),
    [
        ("onnx", ("export", "m.onnx"), "maxplus[onnx]"),
        ("matplotlib", ("report", ORCHARD, "-o", "r.html"), "maxplus[plot]"),
        ("matplotlib", ("certify", ORCHARD, "--plot", "c.png"), "maxplus[plot]"),
        ("matplotlib", ("evaluate", ORCHARD, "--plot", "e.png"), "maxplus[plot]"),
    ],
)
def test_missing_package_error_has_no_traceback(
    orchard_model, tmp_path, monkeypatch, package, arguments, extra
):
    for name in [m for m in sys.modules if m == package or m.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "maxplus.export.onnx", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.chdir(tmp_path)
    command, *rest = arguments
    assert f"pip install '{extra}'" in bad(command, orchard_model, *rest)


@pytest.mark.parametrize(
    ("arguments", "message", "command"),
    [
        (("train", IRIS, "--no-such"), "No such option: --no-such", "train"),
        (("train", IRIS, "--seed", "many"), "Invalid value for '--seed'", "train"),
        (("train", IRIS, "--seed", "-1"), "Invalid value for '--seed'", "train"),
        (("export", "m", "no/m.onnx"), "does not exist; create it first", "export"),
        (
            ("explain", "m", IRIS, "--max-columns", 0),
            "Invalid value for '--max-columns'",
            "explain",
        ),
        (("train", IRIS, "-o", "no/m"), "does not exist; create it first", "train"),
        (("train", IRIS, "--checkpoint", "."), "'--checkpoint': . is a folder", "train"),
        (("predict",), "Missing argument 'MODEL'", "predict"),
        (("forecast",), "No such command 'forecast'", ""),
        (("trian",), "No such command 'trian'", ""),
    ],
)
def test_option_errors_are_one_line(arguments, message, command):
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    see = r"(; see|\? See)"
    assert re.fullmatch(rf"Error: .*{re.escape(message)}.*{see} .*{command}\w* --help", line)


def test_folder_that_is_not_writable_is_rejected_at_the_start(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    assert f"{tmp_path} is not writable" in bad("train", IRIS, "-o", tmp_path / "m")


def test_output_file_that_is_an_input_is_rejected(orchard_model, tmp_path):
    table = Path(shutil.copy(ORCHARD, tmp_path / "table.csv"))
    before = table.read_bytes()
    for arguments in (("train", table), ("predict", orchard_model, table)):
        assert f"{table} is an input and would be replaced" in bad(*arguments, "-o", table)
    assert f"{orchard_model} is an input" in bad(
        "report", orchard_model, ORCHARD, "-o", orchard_model
    )
    assert table.read_bytes() == before


def test_command_errors_have_no_traceback(orchard_model, digits_model, write, tmp_path):
    table, names = write("a,b,c\n1,x,0\n,y,1\n3,x,1\n", "t.csv"), write("a,b,c\n", "names.csv")
    for arguments, message in (
        (("train", table, "--target", "z"), "no column 'z' (--target)"),
        (("train", IRIS, "--task", "guessing"), "--task must be one of"),
        (("train", "flowers"), "neither a file nor a built-in dataset"),
        (("train", tmp_path / "nothing.csv"), "nothing.csv: No such file"),
        (("train", tmp_path / "tt.csv"), f"did you mean {table}?"),
        (("train", tmp_path / "t.cvs"), f"did you mean {table}?"),
        (("train", tmp_path / "mean.csv"), f"no file in the folder {tmp_path} has a similar name"),
        (("predict", tmp_path / "nothing", table), f"no file in the folder {tmp_path} has a sim"),
        (("train", tmp_path / "no" / "t.csv"), f"the folder {tmp_path / 'no'} does not exist"),
        (("train", names), "contains no rows; it needs a header"),
        (("train", IRIS, "--resume", orchard_model), "is a maxplus-model file"),
        (("predict", table, IRIS), "is not a readable maxplus-model file"),
        (("predict", orchard_model, IRIS), "lacks columns 'variety', 'weight g'"),
        (("predict", digits_model, IRIS), "lacks"),
        (("predict", orchard_model, ORCHARD, "--intervals"), "--intervals requires a regressor"),
        (("explain", orchard_model, ORCHARD, "--row", 999), "has no row 999"),
        (("certify", orchard_model, ORCHARD, "--eps", -1), "--eps must be a finite number >= 0"),
    ):
        assert message in bad(*arguments), arguments


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (
            "Gala,150,12,3,attic",
            "data.csv has a label that is not a class of the model: 'attic' (1); its classes are "
            "compost, juice, shop; correct it, or train with such rows",
        ),
        (
            "Gala,150,12,3,attic\nGala,150,12,3,cellar",
            "data.csv have labels that are not classes of the model: 'attic' (1), 'cellar' (1)",
        ),
        # A label that is longer than all classes and begins with one of them.
        ("Gala,150,12,3,compost heap", "is not a class of the model: 'compost heap' (1)"),
        ("Gala,150,12,3", "no column 'goes to' with the true labels"),
    ],
)
def test_evaluate_rejects_tables_without_known_labels(orchard_model, write, cells, message):
    n_columns = cells.splitlines()[0].count(",") + 1
    names = ["variety", "weight g", "sugar %", "bruise mm", "goes to"][:n_columns]
    assert message in bad("evaluate", orchard_model, write(f"{','.join(names)}\n{cells}\n"))


def test_parameters_in_messages_are_printed_as_options():
    for message, printed in (
        ("(`keep=['id']` to use it)", "(--keep id to use it)"),
        ('(`drop=["it\'s"]`)', '(--drop "it\'s")'),
        ("`numeric` or `categorical=['a b']`", '--numeric or --categorical "a b"'),
        ("`missing='error'`, `task='regression'`", "--set missing=error, --task regression"),
        ("no column 'x' (`extra_columns`)", "no column 'x' (--keep-columns)"),
        ("`strict`, `n_hidden`, 'keep'", "--strict, `n_hidden`, 'keep'"),
        ("monotonic_cst requires two classes", "--increasing or --decreasing requires two classes"),
        ("change_one_of contains 'change_one_of'", "--change-one-of contains 'change_one_of'"),
        ("use eps and scale for other columns", "use --eps for other columns"),
        ("fixed: column 'a' does not exist", "--fixed: column 'a' does not exist"),
    ):
        assert with_options(message) == printed


def test_missing_mpi4py_error_has_no_traceback(monkeypatch):
    monkeypatch.setenv("PMI_SIZE", "2")
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    assert 'pip install "maxplus[mpi]"' in bad("train", IRIS)


def test_warning_is_printed_once_for_all_folds(tmp_path):
    options = settings("polish=none", "max_suspects=3")
    result = run(*train(IRIS, tmp_path / "m", *options, validate=2, **SMALL))
    assert result.exit_code == 0
    (warning,) = [line for line in result.stderr.splitlines() if "max_suspects=3 has no" in line]
    assert warning.startswith("Warning: ")


def test_model_without_encoder_requires_a_target_column(write, tmp_path):
    samples = opened(IRIS)
    clf = maxplus.SubgradientLMMClassifier(8, max_iter=5, random_state=0)
    clf.fit(samples.X, samples.y).save(tmp_path / "m")
    message = bad("predict", tmp_path / "m", write("a,b,c,d\n1,2,3,4\n5,6,7,8\n"))
    assert "has 3 features and the target 'd', but the model needs 4 features" in message
    regressor = maxplus.LipschitzInterpolator().fit(samples.X, samples.X[:, 0])
    regressor.save(tmp_path / "r")
    assert "or SubgradientLMMClassifier" in bad("predict", tmp_path / "r", IRIS)


# -- control characters ----------------------------------------------------------------------------

CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@pytest.fixture(scope="module")
def escaped(tmp_path_factory):
    """Table with terminal escape sequences in its names and labels, a model, and the output."""
    folder = tmp_path_factory.mktemp("escaped")
    rng = np.random.default_rng(0)
    size, colour = rng.normal(size=120), rng.choice(["re\x1b[31md", "blue\x07"], 120)
    label = np.where(size + (colour == "blue\x07") > 0.5, "ye\x1b]0;title\x07s", "n\x9b2Jo")
    lines = ["size\x1b[2J,col\x9bour,class"]
    lines += [f"{s:.3f},{c},{d}" for s, c, d in zip(size, colour, label, strict=True)]
    table, model = folder / "t\x1bable.csv", folder / "model.maxplus"
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return table, model, good(*train(table, model, validate="auto", **SMALL), color=True)


def test_train_prints_no_control_characters(escaped):
    assert "recall of n2Jo" in escaped[2]
    assert CONTROLS.search(escaped[2]) is None


@pytest.mark.parametrize("command", ["explain", "rules", "evaluate", "certify"])
def test_commands_print_no_control_characters(command, escaped):
    table, model, _ = escaped
    text = good(command, model, table, color=True)
    json_text = run(command, model, table, "--json", color=True).stdout
    assert CONTROLS.search(text) is None
    assert CONTROLS.search(json_text) is None
    if command != "certify":
        assert "n2Jo" in text
        assert r"n\x9b2Jo" in repr(json.loads(json_text))


def test_errors_print_no_control_characters(escaped):
    table, _, _ = escaped
    for result in (run("explain", table, table), run("train", table, "--target", "a\x1b[2Jb")):
        assert result.exit_code == 2
        assert CONTROLS.search(result.output) is None


# -- JSON output -----------------------------------------------------------------------------------


def test_json_and_quiet_print_the_document_only(orchard_model, tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("onnx")
    data = (orchard_model, ORCHARD)
    for arguments in (
        train(IRIS, tmp_path / "m", **SMALL),
        ("compare", IRIS, "--models", "kNN", "--validate", 2),
        ("predict", *data),
        ("evaluate", *data, "--plot", tmp_path / "e.svg"),
        ("explain", *data),
        ("rules", *data),
        ("certify", *data, "--eps", 0.1, "--plot", tmp_path / "c.svg"),
        ("report", *data, "-o", tmp_path / "r.html"),
        ("export", orchard_model, tmp_path / "m.onnx"),
    ):
        result = run(*arguments, "--json", "--quiet")
        assert (result.exit_code, result.stderr) == (0, ""), arguments
        assert isinstance(json.loads(result.stdout, parse_constant=pytest.fail), dict)
        # Without an output file, predict prints the predictions themselves.
        if arguments[0] != "predict":
            result = run(*arguments, "--quiet")
            assert (result.exit_code, result.output) == (0, ""), arguments


def test_errors_leave_standard_output_empty(tmp_path):
    result = run("train", tmp_path / "nothing.csv", "--json", "--quiet")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "nothing.csv: No such file" in result.stderr


def test_closed_output_pipe_is_no_error(orchard_model):
    """Check ``maxplus evaluate … | head -1``."""
    command = [sys.executable, "-m", "maxplus", "evaluate", str(orchard_model), ORCHARD]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.close()
        message = process.stderr.read()
    assert "Error" not in message
    assert "Traceback" not in message
