"""A line says that kernels are being compiled: once, and only where it takes a while."""

import io
import json
import threading
import time
from types import SimpleNamespace
from unittest.mock import Mock

import numba
import pytest
from numba.core import event
from rich.console import Console

from commands import bad, good, run
from maxplus.cli import compile as command
from maxplus.cli._common import plain_errors
from maxplus.training import compiling
from maxplus.training.progress import ProgressBar


@pytest.fixture
def patience(monkeypatch):
    """As in a new process that nobody has told anything, with less patience."""
    monkeypatch.setattr(compiling, "PATIENCE", 0.05)
    compiling._SAID.clear()
    yield
    compiling._SAID.set()


def compiles(heard=None):
    """As if a kernel, and one within it, took long: a moment, or until somebody has heard of it."""
    with event.trigger_event("numba:compile"), event.trigger_event("numba:compile"):
        end = time.monotonic() + (0.1 if heard is None else 60.0)
        while time.monotonic() < end and not (heard and heard()):
            time.sleep(0.01)


def test_what_takes_long_is_said_once(patience):
    said = []
    with compiling.telling_of_compilation(said.append):
        compiles(lambda: said)
        compiles()
    with compiling.telling_of_compilation(said.append):
        compiles()
    assert said == [compiling.MESSAGE]


def test_short_compilations_add_up(monkeypatch):
    waits, now = [], [0.0]
    monkeypatch.setattr(compiling, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(compiling, "Timer", lambda seconds, say: waits.append(seconds) or Mock())
    with compiling.telling_of_compilation(print):
        for _ in range(4):
            with event.trigger_event("numba:compile"):
                now[0] += 0.4
    assert waits == pytest.approx([1.0, 0.6, 0.2, 0.0])


def test_a_moment_is_not_worth_a_line(patience, monkeypatch):
    monkeypatch.setattr(compiling, "PATIENCE", 60.0)
    said = []
    with compiling.telling_of_compilation(said.append):
        numba.njit(lambda x: 2 * x)(1)
    assert not said


def test_kernels_that_are_there_are_not_compiled(patience):
    @numba.njit
    def twice(x):
        return 2 * x

    twice(1)
    said = []
    with compiling.telling_of_compilation(said.append):
        twice(2)
        time.sleep(0.1)
    assert not said


def test_who_listens_no_more_is_not_told(patience):
    said = []
    with compiling.telling_of_compilation(said.append):
        pass
    compiles()
    assert not said


def test_a_progress_bar_says_it(patience):
    text = io.StringIO()
    with ProgressBar("training", Console(file=text, width=120)):
        compiles(text.getvalue)
    assert text.getvalue().count(compiling.MESSAGE) == 1


@pytest.mark.parametrize("quiet", [False, True])
def test_commands_say_it_unless_they_are_quiet(patience, capsys, quiet):
    with plain_errors(quiet):
        compiles(compiling._SAID.is_set)
        for thread in threading.enumerate():
            if isinstance(thread, threading.Timer):
                thread.join()
    assert capsys.readouterr() == ("", "" if quiet else f"{compiling.MESSAGE}\n")


@pytest.fixture
def few_parts(monkeypatch):
    """Parts that only note what they are given."""
    used = []

    def part(name):
        return lambda X, y: used.append((name, X.dtype.name, X.shape, y.max()))

    monkeypatch.setattr(command, "PARTS", {name: part(name) for name in ("default", "paper")})
    return used


def test_all_parts_are_compiled_in_both_float_types(few_parts):
    printed = good("compile")
    assert [(name, dtype) for name, dtype, *_ in few_parts] == [
        ("default", "float64"), ("default", "float32"), ("paper", "float64"), ("paper", "float32"),
    ]  # fmt: skip
    assert [line.split()[0] for line in printed.splitlines()] == ["default", "paper"]


def test_parts_are_chosen_by_name(few_parts):
    result = run("compile", "paper", "paper", "--json", "--quiet")
    assert (
        {name for name, *_ in few_parts} == set(json.loads(result.stdout)["seconds"]) == {"paper"}
    )
    assert len(few_parts) == 2
    assert "no part 'papers'; choose from default, paper" in bad("compile", "papers")


@pytest.mark.slow
def test_every_part_has_a_summary_and_runs():
    assert set(command.SUMMARIES) == set(command.PARTS)
    for name in ("engines", "products"):
        command.compile_part(name)
