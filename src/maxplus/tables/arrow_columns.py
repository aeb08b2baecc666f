"""Columns of pyarrow, which Parquet files and data frames come in, as numbers or words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from maxplus.tables.table import Cells
from maxplus.tables.words import Words

if TYPE_CHECKING:
    import pyarrow


def cells_of(column: pyarrow.Array | pyarrow.ChunkedArray) -> Cells:
    """Numbers and truth values are numbers; all else is words, dates as ISO writes them."""
    import pyarrow
    from pyarrow import types

    kind = column.type
    if types.is_decimal(kind):
        return column.cast(pyarrow.float64()).to_numpy(zero_copy_only=False)
    numbers = (types.is_boolean, types.is_integer, types.is_floating, types.is_null)
    if any(is_kind(kind) for is_kind in numbers):
        floats = column.cast(pyarrow.float64(), safe=False)
        if isinstance(floats, pyarrow.ChunkedArray):
            return floats.to_numpy()
        return floats.to_numpy(zero_copy_only=False)
    if isinstance(column, pyarrow.ChunkedArray):
        column = _one_chunk(column)
    if not types.is_dictionary(kind):
        if types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind):
            return Words.of(column.to_pylist())
        column = column.cast(pyarrow.string()).dictionary_encode()
    codes = column.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
    words = ["" if value is None else str(value) for value in column.dictionary.to_pylist()]
    return Words.tidy(codes, words, bool(column.type.ordered))


def _one_chunk(column: pyarrow.ChunkedArray) -> pyarrow.Array:
    import pyarrow

    if pyarrow.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    chunk = column.combine_chunks()
    return chunk.chunk(0) if isinstance(chunk, pyarrow.ChunkedArray) else chunk
