"""Results for programs: one JSON document on standard output, or nothing at all."""

import json

import pytest

from commands import BRIEF, IRIS, ORCHARD, run

pytestmark = pytest.mark.slow


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
