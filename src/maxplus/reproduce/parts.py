"""Finished parts of a long experiment, kept as files until the whole is done."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

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
        try:
            with np.load(path, allow_pickle=False) as file:
                return dict(file)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile):
            pass
        part = make()
        self._folder.mkdir(parents=True, exist_ok=True)
        temporary = self._folder / f".{name}.npz"
        np.savez_compressed(temporary, **part)  # type: ignore[arg-type]
        os.replace(temporary, path)
        return part

    def forget(self) -> None:
        """Remove all parts."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
