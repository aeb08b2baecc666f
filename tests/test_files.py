"""Atomic writing of files."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from maxplus._files import write_atomically

NEEDS_POSIX = pytest.mark.skipif(os.name == "nt", reason="needs POSIX's kinds of files")

# A process that is killed after writing and before renaming the temporary file.
KILLED = """
import os, signal, sys
from maxplus._files import write_atomically
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
write_atomically(sys.argv[1], b"content")
"""


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def make_socket(path):
    # Addresses of sockets must be short, so that a relative path is bound.
    before = os.getcwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(before)


@NEEDS_POSIX
@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize(
    ("make", "kind"),
    [(Path.mkdir, "a folder"), (os.mkfifo, "a pipe"), (make_socket, "a socket")],
    ids=["folder", "pipe", "socket"],
)
def test_atomic_write_replaces_only_files(tmp_path, make, kind, linked):
    path = tmp_path / "special"
    make(path)
    before = path.lstat()
    if linked:
        (tmp_path / "link").symlink_to(path)
        path = tmp_path / "link"
    there = names(tmp_path)
    with pytest.raises(OSError, match=f"(?s){re.escape(str(path))}.*{kind}.*another path"):
        write_atomically(path, b"content")
    after = (tmp_path / "special").lstat()
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert names(tmp_path) == there


@NEEDS_POSIX
@pytest.mark.parametrize("exists", [False, True])
def test_atomic_write_to_link_replaces_its_target_and_keeps_permissions(tmp_path, exists):
    target, link = tmp_path / "target", tmp_path / "link"
    if exists:
        target.write_bytes(b"old")
        target.chmod(0o640)
    link.symlink_to(target)
    write_atomically(link, b"content")
    assert target.read_bytes() == b"content"
    assert link.is_symlink()
    assert not exists or target.stat().st_mode & 0o777 == 0o640


@NEEDS_POSIX
def test_atomic_write_removes_old_files_of_killed_processes(tmp_path):
    path = tmp_path / "model [1].maxplus"  # with special characters of patterns
    path.write_bytes(b"old")
    subprocess.run([sys.executable, "-c", KILLED, path], check=False, timeout=60)
    assert path.read_bytes() == b"old"
    (part,) = {*tmp_path.iterdir()} - {path}
    (tmp_path / "other.part-a").touch()
    write_atomically(path, b"new")
    # A process that is running may write the file.
    assert part.exists()
    for other in (part, tmp_path / "other.part-a"):
        hours_ago = other.stat().st_mtime - 7200
        os.utime(other, (hours_ago, hours_ago))
    write_atomically(path, b"newer")
    assert names(tmp_path) == [path.name, "other.part-a"]
    assert path.read_bytes() == b"newer"
