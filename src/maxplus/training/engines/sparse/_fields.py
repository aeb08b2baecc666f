"""Arrays that are declared once: shape, type and first value stand as defaults of a NamedTuple.

    class Minima(NamedTuple):
        g: Array = field("K H B", F)

From there `allocate` makes the tuple for given sizes, `refill` lets it begin anew, and
`count_bytes` says exactly what it will take. Fields without a declaration belong to
somebody else, or are no arrays.
"""

import re
from typing import Any, NamedTuple

import numpy as np

from maxplus._compile import aligned

# What a declared field is in a tuple that has been allocated.
Array = np.ndarray
_EXTENT = re.compile(r"(\d*)([A-Za-z]*)")


class Field(NamedTuple):
    """An array in terms of sizes that are not known yet."""

    shape: str  # an extent per axis, each a number, a symbol or a multiple of one: "K 2P 4"
    dtype: Any  # a type, or the symbol of one
    fill: float | None  # None: whatever the memory holds


def field(shape: str, dtype: Any, fill: float | None = None) -> Any:
    """Declare an array as the default of a NamedTuple's field."""
    return Field(shape, dtype, fill)


def _extent(word, sizes):
    factor, symbol = _EXTENT.fullmatch(word).groups()
    return int(factor or 1) * (getattr(sizes, symbol) if symbol else 1)


def _shape(declared, sizes):
    return tuple(_extent(word, sizes) for word in declared.shape.split())


def _dtype(declared, sizes):
    kind = declared.dtype
    return np.dtype(getattr(sizes, kind) if isinstance(kind, str) else kind)


def allocate(kind, sizes, **others):
    """A tuple of ``kind`` with new arrays in all declared fields, and ``others`` as given."""
    declared = kind._field_defaults
    arrays = {
        name: aligned.empty(_shape(d, sizes), _dtype(d, sizes)) for name, d in declared.items()
    }
    group = kind(**arrays, **others)
    refill(group)
    return group


def refill(group):
    """Every array that has a first value gets it again, in place."""
    for name, declared in group._field_defaults.items():
        if declared.fill is not None:
            getattr(group, name).fill(declared.fill)


def count_bytes(kind, sizes) -> int:
    """What `allocate` takes."""
    declared = kind._field_defaults.values()
    return sum(aligned.count_bytes(_shape(d, sizes), _dtype(d, sizes)) for d in declared)
