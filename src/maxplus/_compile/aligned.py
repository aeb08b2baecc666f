"""Cache-line-aligned NumPy arrays.

The widest vectors have the size of a cache line. NumPy aligns arrays to 16 bytes (numpy #5312), so
that each such vector extends over two lines: iterations of the sparse engine would take up to 15 %
longer.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import DTypeLike, NDArray

LINE_BYTES = 64


def empty(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray:
    """Return an uninitialised array that begins at a cache line."""
    memory = np.empty(count_bytes(shape, dtype), np.uint8)
    first = -memory.ctypes.data % LINE_BYTES
    return memory[first : memory.size - LINE_BYTES + first].view(dtype).reshape(shape)


def count_bytes(shape: tuple[int, ...], dtype: DTypeLike) -> int:
    """Return the memory of such an array in bytes."""
    return np.dtype(dtype).itemsize * math.prod(shape) + LINE_BYTES
