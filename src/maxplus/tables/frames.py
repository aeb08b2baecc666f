"""Data frames of pandas, polars, pyarrow and others as tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxplus.tables.arrow_columns import cells_of
from maxplus.tables.table import Cells, RawTable, TableError, check_different
from maxplus.tables.words import Words


def is_frame(data: Any) -> bool:
    """Whether data has named columns, as data frames of any library have.

    Parameters
    ----------
    data : object

    Returns
    -------
    bool

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
    """The columns of a data frame, as a file of the same content would have them.

    Parameters
    ----------
    frame : data frame
        Of pandas, polars or pyarrow.
    name : str, default="the data frame"
        What messages call it.

    Returns
    -------
    RawTable

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
        # pandas: its index is no column, and its columns of objects may hold anything.
        columns = {str(key): _of_pandas(frame.iloc[:, k]) for k, key in enumerate(frame.columns)}
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
    """Whether there are numbers only, and all of them.

    Parameters
    ----------
    table : RawTable

    Returns
    -------
    bool

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
        not isinstance(cells, Words) and not np.isnan(cells).any()
        for cells in table.columns.values()
    )


def _of_pandas(column: Any) -> Cells:
    import pyarrow

    try:
        return cells_of(pyarrow.Array.from_pandas(column))
    except (TypeError, ValueError, pyarrow.ArrowException):
        return Words.of(column.tolist())
