"""Memory use of calls and arrays."""

import tracemalloc

import numpy as np

from maxplus.training.engines.sparse._state import aligned_bytes


def most_memory(call):
    """Return the peak number of bytes that a call allocates."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def arrays_of(thing):
    """Return all arrays that are reachable through tuples."""
    if isinstance(thing, tuple):
        return [array for part in thing for array in arrays_of(part)]
    return [thing] if isinstance(thing, np.ndarray) else []


def own_bytes(array):
    """Return the bytes of an array with its alignment, or None for a view of another array."""
    if array.base is None:
        return array.nbytes
    with_place = aligned_bytes(array.shape, array.dtype)
    return with_place if array.base.nbytes == with_place else None
