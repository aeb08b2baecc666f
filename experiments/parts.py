"""Finished parts of a long experiment, kept as files until the whole is done."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from maxplus._files import write_whole

Part = dict[str, NDArray]


class Parts:
    """Remembers parts by name: in a folder, or, without one, not at all."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def get(self, name: str, make: Callable[[], Part]) -> Part:
        """The part as it was kept, or made now; written whole or not at all."""
        if self._folder is None:
            return make()
        path = self._folder / f"{name}.npz"
        kept = _read(path) if path.is_file() else None
        if kept is not None:
            return kept
        part = make()
        content = BytesIO()
        np.savez_compressed(content, **part)  # type: ignore[arg-type]
        self._folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, content.getvalue())
        return part

    def forget(self) -> None:
        """Remove all parts."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _read(path: Path) -> Part | None:
    """The part in a file; None when it is damaged."""
    try:
        # From bytes: given a path, NumPy leaves a damaged file open.
        with np.load(BytesIO(path.read_bytes()), allow_pickle=False) as file:
            return dict(file)
    # A damaged file fails in as many ways as it has layers (zip, deflate, the header of an array,
    # a size that no memory holds), and each has errors of its own. Whatever it is: make it anew.
    except Exception:
        return None
