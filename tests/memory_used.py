"""How much memory calls and arrays take."""

import tracemalloc

import numpy as np

from maxplus._compile import aligned


def most_memory(call):
    """Bytes that a call has at once, beyond those before it."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def arrays_of(thing):
    """All arrays that are reachable through tuples."""
    if isinstance(thing, tuple):
        return [array for part in thing for array in arrays_of(part)]
    return [thing] if isinstance(thing, np.ndarray) else []


def own_bytes(array):
    """What an array takes, its place in a line included; None where it is a part of another."""
    if array.base is None:
        return array.nbytes
    with_place = aligned.count_bytes(array.shape, array.dtype)
    return with_place if array.base.nbytes == with_place else None
