"""Conversion of data frames of pandas, polars, pyarrow and others to tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from maxplus.tables.categorical import Categorical
from maxplus.tables.table import Cells, RawTable, TableError, check_different

if TYPE_CHECKING:
    import pyarrow


def is_frame(data: Any) -> bool:
    """Return whether an object is a data frame of any library.

    Parameters
    ----------
    data : object
        Object to check.

    Returns
    -------
    bool
        True for objects with named columns.

    Examples
    --------
    >>> import pandas as pd
    >>> from maxplus.tables import is_frame
    >>> is_frame(pd.DataFrame({"a": [1]})), is_frame([[1.0]])
    (True, False)
    """
    if isinstance(data, RawTable):
        return True
    named = hasattr(data, "columns") or hasattr(data, "column_names")
    return named and any(
        hasattr(data, name) for name in ("__arrow_c_stream__", "__dataframe__", "dtypes")
    )


def table_of(frame: Any, name: str = "the data frame") -> RawTable:
    """Convert a data frame to a table.

    Parameters
    ----------
    frame : data frame of pandas, polars or pyarrow
        Data frame to convert.
    name : str, default="the data frame"
        Name in messages.

    Returns
    -------
    RawTable
        Columns of the data frame.

    Examples
    --------
    >>> import pandas as pd
    >>> from maxplus.tables import table_of
    >>> table_of(pd.DataFrame({"a": [1.0, 2.0]})).n_rows
    2
    """
    if isinstance(frame, RawTable):
        return frame
    import pyarrow

    if hasattr(frame, "iloc"):
        # The index of a pandas data frame is ignored. Columns of objects may have mixed types.
        columns = {
            str(key): _cells_from_pandas(frame.iloc[:, k]) for k, key in enumerate(frame.columns)
        }
        check_different(name, [str(key) for key in frame.columns])
        return RawTable(name, columns)
    try:
        table = frame if isinstance(frame, pyarrow.Table) else pyarrow.table(frame)
    except (TypeError, pyarrow.ArrowException) as error:
        raise TableError(
            f"{name}, a {type(frame).__name__}, cannot be read by pyarrow: {error}"
        ) from None
    check_different(name, table.column_names)
    return RawTable(name, dict(zip(table.column_names, map(cells_of, table.columns), strict=True)))


def is_plain(table: RawTable) -> bool:
    """Return whether a table has only numbers and no missing values.

    Parameters
    ----------
    table : RawTable
        Table to check.

    Returns
    -------
    bool
        False if a column has text or missing values.

    Examples
    --------
    >>> import pandas as pd
    >>> from maxplus.tables import is_plain, table_of
    >>> is_plain(table_of(pd.DataFrame({"a": [1.0, 2.0]})))
    True
    >>> is_plain(table_of(pd.DataFrame({"a": [1.0, None]})))
    False
    """
    return all(
        not isinstance(cells, Categorical) and not np.isnan(cells).any()
        for cells in table.columns.values()
    )


def cells_of(column: pyarrow.Array | pyarrow.ChunkedArray) -> Cells:
    """Convert a pyarrow column of numbers or booleans to floats, and other columns to text.

    Dates are converted to ISO format.
    """
    import pyarrow
    from pyarrow import types

    kind = column.type
    if types.is_decimal(kind):
        return column.cast(pyarrow.float64()).to_numpy(zero_copy_only=False)
    numbers = (types.is_boolean, types.is_integer, types.is_floating, types.is_null)
    if any(is_type(kind) for is_type in numbers):
        floats = column.cast(pyarrow.float64(), safe=False)
        if isinstance(floats, pyarrow.ChunkedArray):
            return floats.to_numpy()
        return floats.to_numpy(zero_copy_only=False)
    if isinstance(column, pyarrow.ChunkedArray):
        column = _combine_chunks(column)
    if not types.is_dictionary(kind):
        if types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind):
            return Categorical.of(column.to_pylist())
        column = column.cast(pyarrow.string()).dictionary_encode()
    codes = column.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
    values = ["" if value is None else str(value) for value in column.dictionary.to_pylist()]
    return Categorical.tidy(codes, values, bool(column.type.ordered))


def _combine_chunks(column: pyarrow.ChunkedArray) -> pyarrow.Array:
    import pyarrow

    if pyarrow.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    chunk = column.combine_chunks()
    return chunk.chunk(0) if isinstance(chunk, pyarrow.ChunkedArray) else chunk


def _cells_from_pandas(column: Any) -> Cells:
    import pyarrow

    try:
        return cells_of(pyarrow.Array.from_pandas(column))
    except (TypeError, ValueError, pyarrow.ArrowException):
        return Categorical.of(column.tolist())
