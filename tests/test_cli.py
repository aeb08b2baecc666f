"""The command line as a whole: help, mistakes, machines."""

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer

import maxplus
from commands import BRIEF, IRIS, ORCHARD, bad, good, run, settings
from maxplus.cli.app import app

pytestmark = pytest.mark.slow


def test_help_fits_on_a_screen_and_every_command_has_an_example():
    top = run("--help").output
    assert len(top.splitlines()) <= 30
    names = re.findall(r"^│ (\w+) ", top, re.MULTILINE)
    for name in [
        "train",
        "compare",
        "predict",
        "evaluate",
        "explain",
        "rules",
        "certify",
        "export",
        "report",
        "compile",
    ]:
        assert name in names
    for name in names:
        assert f"Example: maxplus {name}" in " ".join(run(name, "--help").output.split())


def test_help_states_defaults():
    commands = typer.main.get_command(app).commands
    for name, command in commands.items():
        for option in command.params:
            if option.name == "help":
                continue
            text = option.help or ""
            assert text.endswith("."), f"{name} --{option.name}: {text!r}"
            # Other defaults are shown behind the text.
            is_shown = not (option.default is None or option.default is False)
            is_told = is_shown or option.required or option.secondary_opts or "default" in text
            assert is_told or option.name == "names", f"{name} --{option.name}: {text!r}"


def test_version():
    result = run("--version")
    assert result.exit_code == 0
    assert result.stdout == f"maxplus {maxplus.__version__}\n"


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from maxplus.cli.app import app; app(['--help'], standalone_mode=False);"
        "sys.exit(bool({'numpy', 'numba', 'sklearn', 'matplotlib'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_python_m_maxplus_runs_the_command():
    command = [sys.executable, "-m", "maxplus", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"maxplus {maxplus.__version__}\n"


def test_commands_read_compressed_tables(orchard_model, tmp_path):
    packed = tmp_path / "orchard.csv.gz"
    packed.write_bytes(gzip.compress(Path(ORCHARD).read_bytes()))
    assert (
        good("evaluate", orchard_model, packed).splitlines()[1:]
        == (good("evaluate", orchard_model, ORCHARD).splitlines()[1:])
    )


def test_export_command_writes_onnx(orchard_model, tmp_path):
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    good("export", orchard_model, tmp_path / "m.onnx")
    onnx.checker.check_model(str(tmp_path / "m.onnx"))
    assert "does not end in .onnx" in bad("export", orchard_model, tmp_path / "m.pb")


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


MISTAKES = {
    "an unknown option": (("train", IRIS, "--no-such"), "No such option: --no-such", "train"),
    "no word for a number": (
        ("train", IRIS, "--seed", "many"),
        "Invalid value for '--seed'",
        "train",
    ),
    "a number out of range": (
        ("explain", "m", IRIS, "--max-columns", 0),
        "Invalid value for '--max-columns'",
        "explain",
    ),
    "a missing argument": (("predict",), "Missing argument 'MODEL'", "predict"),
    "an unknown command": (("forecast",), "No such command 'forecast'", ""),
}


@pytest.mark.parametrize(("arguments", "words", "command"), MISTAKES.values(), ids=MISTAKES)
def test_option_errors_are_one_line(arguments, words, command):
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert re.fullmatch(rf"Error: .*{re.escape(words)}.*; see .*{command}\w* --help", line)


def test_command_without_arguments_prints_help():
    result = run()
    assert "train" in result.output
    assert "Error" not in result.output


def test_warning_is_printed_once_for_all_folds(tmp_path):
    result = run(
        "train",
        IRIS,
        *BRIEF[:-2],
        "--validate",
        2,
        *settings("polish=none", "max_suspects=3"),
        "-o",
        tmp_path / "model",
    )
    assert result.exit_code == 0
    warned = [line for line in result.stderr.splitlines() if "max_suspects=3 has no effect" in line]
    assert len(warned) == 1
    assert warned[0].startswith("Warning: ")


def test_command_errors_are_one_line(orchard_model, digits_model, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("a,b,c\n1,x,0\n,y,1\n3,x,1\n")
    assert "no column 'z' (--target)" in bad("train", table, "--target", "z")
    assert "neither a file nor a built-in data set" in bad("train", "flowers")
    assert "nothing.csv: No such file" in bad("train", tmp_path / "nothing.csv")
    assert f"is it {table}?" in bad("train", tmp_path / "tt.csv")
    assert f"look for it in {tmp_path}" in bad("predict", tmp_path / "nothing", table)
    assert f"there is no folder {tmp_path / 'no'}" in bad("train", tmp_path / "no" / "t.csv")
    (tmp_path / "names.csv").write_text("a,b,c\n")
    assert "it needs a row of names, and one for each" in bad("train", tmp_path / "names.csv")
    assert "objective must be one of" in bad(
        "train", IRIS, "--algorithm", "subgradient", *settings("objective=sum")
    )
    assert "does not exist; make it first" in bad("train", IRIS, "-o", tmp_path / "no" / "m")
    assert "is a folder; name a file" in bad("train", IRIS, "-o", tmp_path)
    assert "does not exist" in bad("train", IRIS, "--checkpoint", tmp_path / "no" / "c")
    assert "does not exist" in bad("train", IRIS, "--suspects-out", tmp_path / "no" / "s")
    assert "is not a readable maxplus-model file" in bad("predict", table, IRIS)
    assert "lacks columns 'variety', 'weight g'" in bad("predict", orchard_model, IRIS)
    assert "has no row 999" in bad("explain", orchard_model, ORCHARD, "--row", 999)
    assert "eps must be a finite number >= 0" in bad("certify", orchard_model, ORCHARD, "--eps", -1)
    new = tmp_path / "new.csv"
    new.write_text("variety,weight g,sugar %,bruise mm,goes to\nGala,150,12,3,attic\n")
    assert "labels that the model does not know: 'attic' (1)" in bad("evaluate", orchard_model, new)
    # Longer than any known label, and beginning like one.
    new.write_text("variety,weight g,sugar %,bruise mm,goes to\nGala,150,12,3,compost heap\n")
    assert "does not know: 'compost heap' (1)" in bad("evaluate", orchard_model, new)
    new.write_text("variety,weight g,sugar %,bruise mm\nGala,150,12,3\n")
    assert "no column 'goes to' with the true labels" in bad("evaluate", orchard_model, new)
    assert "is a maxplus-model file" in bad("train", IRIS, "--resume", orchard_model)
    assert "lacks" in bad("predict", digits_model, IRIS)


CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@pytest.fixture(scope="module")
def escaped(tmp_path_factory):
    """Return a table with terminal escape sequences in its names and words, and a model of it."""
    folder = tmp_path_factory.mktemp("escaped")
    rng = np.random.default_rng(0)
    size, colour = rng.normal(size=120), rng.choice(["re\x1b[31md", "blue\x07"], 120)
    label = np.where(size + (colour == "blue\x07") > 0.5, "ye\x1b]0;title\x07s", "n\x9b2Jo")
    lines = ["size\x1b[2J,col\x9bour,class"]
    lines += [f"{s:.3f},{c},{d}" for s, c, d in zip(size, colour, label, strict=True)]
    table, model = folder / "t\x1bable.csv", folder / "model.maxplus"
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = run(
        "train",
        table,
        "--out",
        model,
        *settings("n_hidden=6", "slope=3", "warmup_epochs=3"),
        color=True,
    )
    assert done.exit_code == 0, done.output
    return table, model, done.output


def test_train_prints_no_control_characters(escaped):
    assert "recall of n2Jo" in escaped[2]
    assert CONTROLS.search(escaped[2]) is None


@pytest.mark.parametrize("command", ["explain", "rules", "evaluate", "certify"])
def test_commands_print_no_control_characters(command, escaped):
    table, model, _ = escaped
    done = run(command, model, table, color=True)
    assert done.exit_code == 0, done.output
    assert CONTROLS.search(done.output) is None
    given = run(command, model, table, "--json", color=True)
    assert CONTROLS.search(given.stdout) is None
    if command != "certify":
        assert "n2Jo" in done.output
        assert r"n\x9b2Jo" in repr(json.loads(given.stdout))


def test_errors_print_no_control_characters(escaped):
    table, _, _ = escaped
    for done in (run("explain", table, table), run("train", table, "--target", "a\x1b[2Jb")):
        assert done.exit_code == 2
        assert CONTROLS.search(done.output) is None


# -- JSON output -----------------------------------------------------------------------------------


@pytest.fixture
def commands(orchard_model, tmp_path):
    """Every command, short."""
    pytest.importorskip("matplotlib")
    pytest.importorskip("onnx")
    return {
        "train": (IRIS, *BRIEF, "-o", tmp_path / "m"),
        "compare": (IRIS, "--models", "kNN", "--validate", 2),
        "predict": (orchard_model, ORCHARD),
        "evaluate": (orchard_model, ORCHARD, "--plot", tmp_path / "e.svg"),
        "explain": (orchard_model, ORCHARD),
        "rules": (orchard_model, ORCHARD),
        "certify": (orchard_model, ORCHARD, "--eps", 0.1, "--plot", tmp_path / "c.svg"),
        "report": (orchard_model, ORCHARD, "-o", tmp_path / "r.html"),
        "export": (orchard_model, tmp_path / "m.onnx"),
    }


def test_every_command_has_json_and_quiet_options(commands):
    for name, arguments in commands.items():
        result = run(name, *arguments, "--json", "--quiet")
        assert result.exit_code == 0, (name, result.output)
        document = json.loads(result.stdout, parse_constant=pytest.fail)
        assert isinstance(document, dict), name
        assert result.stderr == "", name


def test_quiet_commands_print_nothing(commands):
    # Without an output file, predict prints the predictions themselves.
    for name in set(commands) - {"predict"}:
        result = run(name, *commands[name], "--quiet")
        assert (result.exit_code, result.output) == (0, ""), name


def test_errors_leave_standard_output_empty(tmp_path):
    result = run("train", tmp_path / "nothing.csv", "--json", "--quiet")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "nothing.csv: No such file" in result.stderr
