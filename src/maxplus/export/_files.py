"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Write under another name in the same folder, then rename: no reader sees half a file."""
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"path is {str(path)!r}, but there is no folder {str(path.parent)!r}; create it first"
        )
    temporary = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
