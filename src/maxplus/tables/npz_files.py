"""Readers for NPZ files with arrays X, y and feature_names, and for NPY files."""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from maxplus.tables.categorical import Categorical
from maxplus.tables.table import Cells, NoRowsError, TableError

# Maximum size of the arrays in an archive, absolute in bytes and relative to the size of the
# archive, as a protection against zip bombs. The larger limit applies.
MAX_BYTES, MAX_RATIO = 100_000_000, 100
# Number of rows per batch of a memory-mapped array.
BATCH_ROWS = 1 << 16

HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def npz_batches(path: Path) -> Iterator[dict[str, Cells]]:
    """Yield an NPZ file as one batch, or a memory-mapped NPY file in batches of rows."""
    if path.suffix.lower() == ".npy":
        X = _load_npy(path)
        for start in range(0, len(X), BATCH_ROWS):
            yield columns_of(path, {"X": X[start : start + BATCH_ROWS]})
        return
    arrays = read_arrays(path)
    # An array without rows may declare a huge number of columns.
    has_rows = arrays.get("X", np.ones(1)).shape[:1] != (0,)
    columns = columns_of(path, arrays) if has_rows else {}
    if columns:
        yield columns


def npz_rows(path: Path, rank: int, size: int) -> dict[str, Cells]:
    """Return the columns of the rows [rank·N / size, (rank + 1)·N / size)."""
    arrays = read_arrays(path)
    X = arrays.get("X")
    n = 0 if X is None or not X.ndim else len(X)
    if X is not None and not n:
        raise NoRowsError(path)
    rows = slice(rank * n // size, (rank + 1) * n // size)
    parts = {
        name: array[rows] if name in ("X", "y") and array.shape[:1] == (n,) else array
        for name, array in arrays.items()
    }
    return columns_of(path, parts)


def columns_of(path: Path, arrays: Mapping[str, NDArray]) -> dict[str, Cells]:
    """Validate X, y and feature_names, and convert them to columns."""
    X = arrays.get("X")
    if X is None or X.ndim != 2 or X.dtype.kind not in "biuf":
        raise TableError(
            f"{path} must hold an array X of numbers with a row for each sample, and y with the "
            f"labels; it holds {', '.join(sorted(arrays)) or 'nothing'}"
        )
    names = [f"feature {p}" for p in range(X.shape[1])]
    if "feature_names" in arrays:
        given = arrays["feature_names"]
        names = [str(name) for name in given] if given.shape == X.shape[1:] else []
    if len(names) != X.shape[1] or len(set(names)) != len(names):
        raise TableError(f"{path}: feature_names must be {X.shape[1]} different names")
    columns: dict[str, Cells] = {name: X[:, p].astype(np.float64) for p, name in enumerate(names)}
    y = arrays.get("y")
    if y is not None:
        if y.shape != (len(X),):
            raise TableError(f"{path}: y must hold {len(X)} labels, one for each row of X")
        if "y" in columns:
            raise TableError(f"{path}: a feature is named 'y', as the labels are; rename it")
        is_numeric = y.dtype.kind in "biuf"
        columns["y"] = y.astype(np.float64) if is_numeric else Categorical.of(map(str, y))
    return columns


def read_arrays(path: Path) -> dict[str, NDArray]:
    """Return the arrays by name; raise TableError for an invalid file or a zip bomb."""
    if path.suffix.lower() == ".npy":
        return {"X": _load_npy(path)}
    with open(path, "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                members = [m for m in archive.infolist() if m.filename.endswith(".npy")]
                _check_size(path, os.fstat(file.fileno()).st_size, members)
                return {
                    member.filename.removesuffix(".npy"): _read_array(path, archive, member)
                    for member in members
                }
        except TableError:
            raise
        # NumPy and zipfile raise various exceptions for damaged files.
        except Exception:
            raise TableError(
                f"{path} is no NPZ file, or a damaged one; write it anew with "
                "np.savez(path, X=X, y=y)"
            ) from None


def _load_npy(path: Path) -> NDArray:
    """Return the memory-mapped array of an NPY file."""
    try:
        X = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise
    except Exception:
        raise TableError(
            f"{path} is no NPY file of numbers, or a damaged one; write it anew with "
            "np.save(path, np.column_stack([X, y]))"
        ) from None
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise TableError(
            f"{path} must hold an array of numbers with a row for each sample and a column for "
            f"each feature and the labels; it has the shape {X.shape} and the type {X.dtype}"
        )
    return X


def _check_size(path: Path, size: int, members: list[zipfile.ZipInfo]) -> None:
    n_bytes = sum(member.file_size for member in members)
    if n_bytes > max(MAX_BYTES, MAX_RATIO * size):
        raise TableError(
            f"{path} has {size:,} bytes, but unpacks to {n_bytes:,}, more than {MAX_RATIO} times "
            "as many; if that is right, write it unpacked with np.savez"
        )


def _read_array(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray:
    """Read an array; raise an error if its size differs from the size in the archive."""
    with archive.open(member) as stream:
        shape, is_fortran, dtype = HEADERS[np.lib.format.read_magic(stream)](stream)
        if dtype.hasobject:
            raise TableError(
                f"{path}: the array {member.filename.removesuffix('.npy')!r} holds Python objects, "
                "which are not read; save numbers, or words as with astype(str)"
            )
        n_bytes = math.prod(shape) * dtype.itemsize
        if n_bytes != member.file_size - stream.tell():
            raise ValueError("its shape does not fit its bytes")
        flat = np.frombuffer(stream.read(n_bytes), dtype, count=math.prod(shape))
        return flat.reshape(shape, order="F" if is_fortran else "C")
