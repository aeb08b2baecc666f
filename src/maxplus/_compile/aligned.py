"""Arrays that begin where a line of memory does.

The widest vectors are as long as a line. NumPy's arrays begin somewhere inside one, so that each
vector of them is in two lines: kernels that write such vectors take up to twice as long.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

LINE = 64


def empty(shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray:
    """`numpy.empty`, from the beginning of a line on."""
    return _placed(np.empty, shape, dtype)


def zeros(shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray:
    """`numpy.zeros`, from the beginning of a line on."""
    return _placed(np.zeros, shape, dtype)


def copied(array: NDArray) -> NDArray:
    """A copy in C order, from the beginning of a line on."""
    copy = empty(array.shape, array.dtype)
    copy[...] = array
    return copy


def count_bytes(shape: tuple[int, ...], dtype: DTypeLike) -> int:
    """What such an array takes."""
    return np.dtype(dtype).itemsize * math.prod(shape) + LINE


def _placed(make: Any, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray:
    extents = shape if isinstance(shape, tuple) else (shape,)
    memory = make(count_bytes(extents, dtype), np.uint8)
    first = -memory.ctypes.data % LINE
    return memory[first : memory.size - LINE + first].view(dtype).reshape(extents)
