"""The message that kernels are being compiled, and the command ``maxplus compile``."""

import io
import json

import numba
import pytest
from numba.core import event
from rich.console import Console

from commands import bad, good, run
from maxplus.cli import compile as command
from maxplus.cli._console import open_console
from maxplus.training import monitor
from maxplus.training.monitor import COMPILING, announce_compilation
from maxplus.training.progress import ProgressBar


@pytest.fixture
def _fresh_process():
    """Reset the message to its state in a new process."""
    monitor._announced.clear()
    yield
    monitor._announced.set()


def compile_kernel():
    """Trigger the events of a compilation with a nested one."""
    with event.trigger_event("numba:compile"), event.trigger_event("numba:compile"):
        pass


@pytest.mark.usefixtures("_fresh_process")
def test_compilation_is_announced_once_per_process():
    written = []
    for _ in range(2):
        with announce_compilation(written.append):
            compile_kernel()
            compile_kernel()
    assert written == [COMPILING]


@pytest.mark.usefixtures("_fresh_process")
def test_compiled_kernels_are_not_announced():
    @numba.njit
    def twice(x):
        return 2 * x

    twice(1)
    written = []
    with announce_compilation(written.append):
        twice(2)
    compile_kernel()
    assert not written


@pytest.mark.usefixtures("_fresh_process")
def test_progress_bar_announces_compilation():
    text = io.StringIO()
    with ProgressBar("training", Console(file=text, width=120)):
        compile_kernel()
    assert text.getvalue().count(COMPILING) == 1


@pytest.mark.usefixtures("_fresh_process")
@pytest.mark.parametrize("quiet", [False, True])
def test_commands_announce_compilation_unless_quiet(capsys, quiet):
    with open_console(False, quiet):
        compile_kernel()
    assert capsys.readouterr() == ("", "" if quiet else f"{COMPILING}\n")


@pytest.fixture
def recorded_parts(monkeypatch):
    """Replace the parts by functions that record their arguments."""
    used = []

    def part(name):
        return lambda X, y: used.append((name, X.dtype.name, X.shape, y.max()))

    monkeypatch.setattr(
        command,
        "PARTS",
        {name: (name, part(name)) for name in ("default", "subgradient")},
    )
    return used


def test_all_parts_are_compiled_in_both_float_types(recorded_parts):
    printed = good("compile")
    assert [(name, dtype) for name, dtype, *_ in recorded_parts] == [
        ("default", "float64"),
        ("default", "float32"),
        ("subgradient", "float64"),
        ("subgradient", "float32"),
    ]
    assert [line.split()[0] for line in printed.splitlines()] == ["default", "subgradient"]


def test_parts_are_chosen_by_name(recorded_parts):
    result = run("compile", "subgradient", "subgradient", "--json", "--quiet")
    assert (
        {name for name, *_ in recorded_parts}
        == set(json.loads(result.stdout)["seconds"])
        == {"subgradient"}
    )
    assert len(recorded_parts) == 2
    assert "no part 'subgradients'; choose from default, subgradient" in bad(
        "compile", "subgradients"
    )


@pytest.mark.slow
def test_parts_can_be_compiled():
    for name in ("engines", "products"):
        command.compile_part(name)
