"""A rank's rows of an NPZ or NPY file: arrays stored as they are, are mapped into memory."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from maxplus.tables.npz_files import columns_of, read_arrays
from maxplus.tables.table import NoRowsError, RawTable, TableError

# A zip file's local header: 26 bytes, then the lengths of the name and of the extra field.
LOCAL_HEADER, LENGTHS_AT = 30, 26


def npz_part(path: Path, rank: int, size: int) -> RawTable:
    """Rows [rank·N / size, (rank + 1)·N / size) of X and y."""
    arrays = (_mapped(path) if path.suffix.lower() == ".npz" else None) or read_arrays(path)
    X = arrays.get("X")
    n = 0 if X is None or not X.ndim else len(X)
    if X is not None and not n:
        raise NoRowsError(path)
    begin, end = rank * n // size, (rank + 1) * n // size
    own = {
        name: np.array(array[begin:end])
        if name in ("X", "y") and array.shape[:1] == (n,)
        else array
        for name, array in arrays.items()
    }
    return RawTable(str(path), columns_of(path, own))


def _mapped(path: Path) -> dict[str, NDArray] | None:
    """All arrays as maps of the file; None if one of them is packed or not plain."""
    arrays: dict[str, NDArray] = {}
    try:
        with zipfile.ZipFile(path) as content, open(path, "rb") as file:
            for item in content.infolist():
                if item.compress_type != zipfile.ZIP_STORED or not item.filename.endswith(".npy"):
                    return None
                file.seek(item.header_offset + LENGTHS_AT)
                lengths = struct.unpack("<HH", file.read(LOCAL_HEADER - LENGTHS_AT))
                file.seek(item.header_offset + LOCAL_HEADER + sum(lengths))
                read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
                shape, is_fortran, dtype = read_header[npy.read_magic(file)](file)
                if dtype.hasobject or is_fortran:
                    return None
                arrays[item.filename.removesuffix(".npy")] = (
                    np.memmap(file, dtype, "r", file.tell(), shape)
                    if np.prod(shape) else np.empty(shape, dtype)
                )  # fmt: skip
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise
        return None
    except (zipfile.BadZipFile, ValueError, KeyError, struct.error):
        return None
    if not arrays:
        raise TableError(f"{path} holds no arrays")
    return arrays
