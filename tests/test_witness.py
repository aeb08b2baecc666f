"""The witness of a machine's ranks: who is told of, who is not, and what is left behind."""

import os
import select
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from maxplus.distributed import witness
from maxplus.distributed.witness import DONE, TOLD, Line

pytestmark = pytest.mark.skipif(
    not (hasattr(socket, "AF_UNIX") and hasattr(select, "epoll")), reason="needs Linux's sockets"
)
# Nobody waits longer than this: a witness that does not end is a failure.
PATIENCE = 20.0


class Near:
    """The communicator of a machine's ranks, which are threads."""

    def __init__(self, size):
        self.size = size
        self._barrier = threading.Barrier(size, timeout=PATIENCE)
        self._thing = None

    def of(self, rank):
        """As that rank sees it."""
        seen = type("Seen", (), {"size": self.size, "rank": rank, "Barrier": self._barrier.wait})
        seen.bcast = lambda _, thing: self._told(rank, thing)
        return seen()

    def _told(self, rank, thing):
        if rank == 0:
            self._thing = thing
        self._barrier.wait()
        return self._thing


def lines_of(ranks, size):
    """Lines of the ranks of one machine to its witness, out of ranks of that size in all."""
    near, lines = Near(len(ranks)), {}

    def call(place):
        lines[ranks[place]] = Line(near.of(place), ranks[place], size)

    callers = [threading.Thread(target=call, args=(place,)) for place in range(len(ranks))]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(PATIENCE)
    assert set(lines) == set(ranks)
    return lines


@pytest.fixture
def watched(monkeypatch, tmp_path):
    """Start witnesses as ranks do, but with what they say in a file, and wait for their end."""
    started, popen = [], subprocess.Popen
    said = tmp_path / "said"
    monkeypatch.setattr(witness.tempfile, "mkdtemp", lambda prefix: str(_folder(tmp_path / prefix)))

    def start(command, **options):
        assert options["start_new_session"]
        with said.open("wb") as file:
            started.append(popen(command, stderr=file, **options))
        return started[-1]

    monkeypatch.setattr(witness.subprocess, "Popen", start)

    def ended():
        (process,) = started
        assert process.wait(PATIENCE) == 0
        return said.read_text()

    return ended


def _folder(path):
    path.mkdir()
    return path


def say_to_nobody(line, last):
    """The witness has gone; a last word that nobody hears is no error."""
    with line._line:
        line.hang_up(last)
    assert line._line is None


def test_ranks_that_are_done_are_not_told_of(watched, tmp_path):
    lines = lines_of([0, 1, 2], 3)
    assert not (tmp_path / "ranks-").exists()
    for line in lines.values():
        line.hang_up()
        line.hang_up()  # a second time there is nothing to say any more
    assert watched() == ""


def test_a_line_that_breaks_is_that_of_a_killed_rank(watched):
    """Ranks 4 and 5 of 6 are on this machine; 4 is done, and then 5 is killed."""
    lines = lines_of([4, 5], 6)
    lines[4].hang_up(DONE)
    lines[5]._line.close()
    assert watched() == witness.message(5, 6) + "\n"
    assert witness.message(5, 6).startswith("rank 5 of 6 was killed or crashed")


def test_only_the_first_that_dies_is_told_of(watched):
    lines = lines_of([0, 1, 2], 3)
    lines[1]._line.close()
    assert watched() == witness.message(1, 3) + "\n"
    say_to_nobody(lines[0], DONE)
    say_to_nobody(lines[2], TOLD)


def test_a_rank_that_told_its_trouble_ends_the_watch_in_silence(watched):
    lines = lines_of([0, 1], 2)
    lines[1].hang_up(TOLD)
    assert watched() == ""
    say_to_nobody(lines[0], DONE)


def test_a_rank_alone_has_no_witness(monkeypatch):
    monkeypatch.setattr(witness.subprocess, "Popen", None)
    line = Line(Near(1).of(0), 0, 1)
    line.hang_up()


def test_ranks_work_without_a_witness_that_cannot_be_started(monkeypatch):
    def refuse(*arguments, **options):
        raise OSError("no more processes")

    monkeypatch.setattr(witness.subprocess, "Popen", refuse)
    for line in lines_of([0, 1], 2).values():
        assert line._line is None
        line.hang_up()


def test_ranks_do_not_wait_for_ever_for_a_witness_that_never_listens(monkeypatch, tmp_path):
    monkeypatch.setattr(witness, "PATIENCE", 0.05)
    monkeypatch.setattr(witness, "_start", lambda n, size: str(tmp_path))
    for line in lines_of([0, 1], 2).values():
        assert line._line is None


# Its own ends of the lines are open until the program ends.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_watch_itself_counts_last_words(capsys, tmp_path):
    """In this process: two are done, and the third one's line breaks."""
    watch = threading.Thread(target=witness.watch, args=(str(tmp_path), 3, 9))
    watch.start()
    lines = [witness._call(str(tmp_path)) for _ in range(3)]
    for rank, line in zip((2, 7, 8), lines, strict=True):
        line.sendall(b"%d\n" % rank)
    for line, word in zip(lines, (DONE, b"", DONE), strict=True):
        if word:
            line.sendall(word)
    assert watch.is_alive()
    lines[1].close()
    watch.join(PATIENCE)
    assert not watch.is_alive()
    assert capsys.readouterr().err == witness.message(7, 9) + "\n"
    for line in lines[::2]:
        line.close()


def test_a_witness_nobody_calls_ends_by_itself(monkeypatch, tmp_path):
    monkeypatch.setattr(witness, "PATIENCE", 0.05)
    with pytest.raises(OSError, match="timed out"):
        witness.watch(str(tmp_path), 2, 2)


def test_the_program_needs_nothing_but_pythons_own_library(tmp_path):
    """It starts with neither site-packages nor the package, and a folder that is none ends it."""
    path = Path(witness.__file__)
    done = subprocess.run(
        [sys.executable, "-I", "-S", path, tmp_path / "none", "1", "2"],
        capture_output=True, text=True, timeout=PATIENCE, cwd=os.sep,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
