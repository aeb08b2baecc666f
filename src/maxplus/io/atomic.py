"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Put ``content`` at ``path``; whatever happens, the old file or the new one is there.

    It is written beside its place, forced to the disk and then renamed, which no
    crash can cut in half.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"path is {str(path)!r}, but there is no folder {str(target.parent)!r}; create it first"
        )
    # Through a link, the file it points to is replaced, as with ordinary writing.
    target = target.resolve() if target.is_symlink() else target
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, _mode(target))
        os.replace(name, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
    _force(target.parent)


def _mode(target: Path) -> int:
    """The old file's permissions, or those of a new one."""
    try:
        return target.stat().st_mode & 0o777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def _force(folder: Path) -> None:
    """Have the rename itself on the disk, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
