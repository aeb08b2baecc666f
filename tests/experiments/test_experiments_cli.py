"""Command line of the experiments: the default command, mistakes and JSON."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from experiments.__main__ import app

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = {"list": ("--list",), "demo": ("demo", "--iterations", 5)}


def run(*arguments):
    """Return the outcome of a command, printed wide enough that no line is broken."""
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(a) for a in arguments])


def test_module_runs_from_the_root_of_the_repository():
    command = [sys.executable, "-m", "experiments", "--list"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "iris" in done.stdout


@pytest.mark.parametrize("arguments", [(), ("--list",), ("run",), ("run", "--list")])
def test_experiments_are_listed(arguments):
    result = run(*arguments)
    assert result.exit_code == 0
    assert "zero-hidden" in result.output


def test_help_has_an_example_of_every_command():
    commands = typer.main.get_command(app).commands
    assert set(commands) == {"run", "demo"}
    assert all(name in run("--help").output for name in commands)
    for name, command in commands.items():
        assert "Example: python -m experiments" in " ".join(run(name, "--help").output.split())
        for option in command.params:
            assert option.name == "help" or option.help.endswith("."), f"{name} --{option.name}"


MISTAKES = {
    "a number out of range": (("iris", "--seeds", 0), "Invalid value for '--seeds'", "run"),
    "an unknown name": (("everything",), "no experiment 'everything'", "run"),
    "an unknown option": (("demo", "--no-such"), "No such option: --no-such", "demo"),
}


@pytest.mark.parametrize(("arguments", "words", "command"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_in_options_are_one_line(arguments, words, command):
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert re.fullmatch(rf"Error: .*{re.escape(words)}.*; see .*{command} --help", line)


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_commands_print_json_and_can_be_quiet(arguments, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    result = run(*arguments, "--json", "--quiet")
    assert result.exit_code == 0, result.output
    assert isinstance(json.loads(result.stdout, parse_constant=pytest.fail), dict)
    assert result.stderr == ""
    result = run(*arguments, "--quiet")
    assert (result.exit_code, result.output) == (0, "")
