"""Helpers that run commands in the test process."""

import csv
import json
from pathlib import Path

from typer.testing import CliRunner

from maxplus.cli.app import app

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
ORCHARD = str(EXAMPLES / "orchard.csv")
IRIS = str(EXAMPLES / "iris.csv")


def settings(*pairs):
    """Return the options --set for NAME=VALUE pairs."""
    return tuple(part for pair in pairs for part in ("--set", pair))


# Parameters of a network that trains quickly.
SMALL = {"n_hidden": 9, "slope": 5, "warmup_epochs": 3}
# Options of a short training without validation.
BRIEF = (*settings("n_hidden=9", "slope=5", "warmup_epochs=3"), "--validate", "none")


def train(data, out, *options, validate="none", **parameters):
    """Return the arguments of ``maxplus train``; parameters become options --set."""
    pairs = settings(*(f"{name}={value}" for name, value in parameters.items()))
    return ("train", data, "-o", out, "--validate", validate, *pairs, *options)


def run(*arguments, width=200, **options):
    """Run a command in a terminal wide enough that no line is wrapped, and return its result."""
    runner = CliRunner(env={"COLUMNS": str(width)})
    return runner.invoke(app, [str(a) for a in arguments], **options)


def good(*arguments, **options):
    """Return the output of a command, which must succeed."""
    result = run(*arguments, **options)
    assert result.exit_code == 0, result.output
    return result.output


def bad(*arguments, code=2):
    """Return the error message of a command, which must fail without a traceback."""
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return " ".join(result.output.split())


def document(*arguments):
    """Return the JSON document of a command, which must print nothing else."""
    return json.loads(good(*arguments, "--json", "--quiet"))


def read_csv(path):
    """Return the rows of a CSV file."""
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
