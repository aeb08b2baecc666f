"""Atomic writing of files."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

# Seconds without changes after which a temporary file is considered to be left by a killed process.
_STALE = 3600.0


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write ``content`` to ``path`` atomically; after a failure, the old file is unchanged."""
    with open_atomically(path) as file:
        file.write(content)


@contextmanager
def open_atomically(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing that replaces ``path`` when the block ends without an error.

    A temporary file in the same folder is flushed to disk and then renamed, which is atomic. If the
    process is killed, writes to the same path more than an hour later remove the temporary file.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"path is {str(path)!r}, but there is no folder {str(target.parent)!r}; create it first"
        )
    # The target of a symbolic link is replaced, as with `open`.
    target = target.resolve() if target.is_symlink() else target
    if target.exists() and not target.is_file():
        kind = "a folder" if target.is_dir() else "a device, a pipe or a socket"
        raise OSError(
            f"path is {str(path)!r}, which is {kind}; only files can be replaced, so choose "
            "another path"
        )
    prefix = f".{target.name}.part-"
    _remove_stale(target.parent, prefix)
    handle, name = tempfile.mkstemp(prefix=prefix, dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, _mode(target))
        os.replace(name, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
    _flush_folder(target.parent)


def _remove_stale(folder: Path, prefix: str) -> None:
    """Remove the temporary files of killed processes."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.name.startswith(prefix) and time.time() - entry.stat().st_mtime > _STALE:
                    os.unlink(entry.path)


def _mode(target: Path) -> int:
    """Return the permissions of the old file, or the default ones."""
    try:
        return target.stat().st_mode & 0o777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def _flush_folder(folder: Path) -> None:
    """Flush the rename to disk, if the system supports it."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
