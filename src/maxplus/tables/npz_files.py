"""NPZ files: NumPy's arrays X, maybe y and feature_names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from maxplus.tables.table import Cells, TableError
from maxplus.tables.words import Words


def npz_batches(path: Path) -> Iterator[dict[str, Cells]]:
    """All rows at once: NumPy reads whole arrays."""
    columns = columns_of(path, read_arrays(path))
    if columns and len(next(iter(columns.values()))):
        yield columns


def read_arrays(path: Path) -> dict[str, NDArray]:
    """All arrays of the file."""
    with open(path, "rb") as file:
        try:
            content = np.load(file, allow_pickle=False)
            return {name: np.asarray(content[name]) for name in content.files}
        # Whatever is wrong with a file, NumPy and zipfile have an error of their own for it.
        except Exception as error:
            raise TableError(
                f"{path} is not a readable NPZ file of plain arrays: {error}"
            ) from None


def columns_of(path: Path, arrays: Mapping[str, NDArray]) -> dict[str, Cells]:
    """X, y and feature_names as columns, checked."""
    X = arrays.get("X")
    if X is None or X.ndim != 2 or X.dtype.kind not in "biuf":
        raise TableError(
            f"{path} must hold an array X of numbers with a row for each sample, and y with the "
            f"labels; it holds {', '.join(sorted(arrays)) or 'nothing'}"
        )
    words = [f"feature {p}" for p in range(X.shape[1])]
    if "feature_names" in arrays:
        names = arrays["feature_names"]
        words = [str(name) for name in names] if names.ndim == 1 else []
    if len(words) != X.shape[1] or len(set(words)) != len(words):
        raise TableError(f"{path}: feature_names must be {X.shape[1]} different names")
    columns: dict[str, Cells] = {word: X[:, p].astype(np.float64) for p, word in enumerate(words)}
    y = arrays.get("y")
    if y is not None:
        if y.shape != (len(X),):
            raise TableError(f"{path}: y must hold {len(X)} labels, one for each row of X")
        if "y" in columns:
            raise TableError(f"{path}: a feature is named 'y', as the labels are; rename it")
        numbers = y.dtype.kind in "biuf"
        columns["y"] = y.astype(np.float64) if numbers else Words.of(map(str, y))
    return columns
