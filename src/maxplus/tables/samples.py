"""Rows as a model takes them, and what they were made of."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from maxplus.tables.encoding import Encoding, is_missing
from maxplus.tables.strangers import Strangers
from maxplus.tables.table import RawTable, TableError


@dataclass(frozen=True)
class Samples:
    """Features, labels if there are any, and what is known about both.

    Attributes
    ----------
    name : of the file or data set
    X : array of shape (N, P)
    y : labels of shape (N,), or None
    encoding : how the columns became features
    image_shape : (height, width) if the features are an image's pixels
    table : the raw columns of the same rows; empty for images
    rows : which rows of the file these are, counted from 0, shape (N,)
    missing : which values were filled in, shape (N, columns of the encoding)
    decisions : a line for each decision about the columns, in training
    """

    name: str
    X: NDArray
    y: NDArray | None
    encoding: Encoding
    image_shape: tuple[int, int] | None = None
    table: RawTable = field(default_factory=lambda: RawTable("", {}))
    rows: NDArray = field(default_factory=lambda: np.arange(0))
    missing: NDArray | None = None
    decisions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not len(self.rows):
            object.__setattr__(self, "rows", np.arange(len(self.X)))

    def take(self, rows: NDArray) -> Samples:
        """Return some of the rows, which keep their numbers.

        Parameters
        ----------
        rows : positions among these rows

        Returns
        -------
        Samples
        """
        return replace(
            self, X=self.X[rows], y=None if self.y is None else self.y[rows],
            table=self.table.take(rows), rows=self.rows[rows],
            missing=None if self.missing is None else self.missing[rows],
        )  # fmt: skip


def has_no_labels(table: RawTable, encoding: Encoding) -> bool:
    """Whether there is a column for labels, and nothing in it."""
    return encoding.has_labels(table) and bool(is_missing(encoding.label_cells(table)).all())


def no_labels(name: str, encoding: Encoding) -> TableError:
    """The error for a whole table of that kind."""
    return TableError(
        f"{name}: the target {encoding.target!r} has no values; fill them in, or name another "
        "column with --target when you train"
    )


def left_out(n: int, first: str, encoding: Encoding) -> str:
    """The decision about n rows without a label."""
    return (
        f"left out {n:,} row{'s' * (n > 1)} without a value of the target {encoding.target!r}, the "
        f"first in {first}"
    )


def samples_of(
    table: RawTable,
    encoding: Encoding,
    image_shape: tuple[int, int] | None = None,
    *,
    labelled: bool = False,
    decisions: tuple[str, ...] = (),
    strangers: Strangers | None = None,
    first_row: int = 0,
) -> Samples:
    """A table's features, and its labels if it has them.

    With ``labelled``, rows without a label are left out, if there are labels at all; else
    labels are those of all rows or none. What is unexpected is counted in ``strangers``, or
    else told in a warning.

    Parameters
    ----------
    table : RawTable
    encoding : Encoding
    image_shape : (height, width), optional
    labelled : bool, default=False
    decisions : tuple of str
        What was decided about the columns, in words.
    strangers : Strangers, optional
    first_row : int, default=0
        The number of the table's first row.

    Returns
    -------
    Samples

    Examples
    --------
    >>> import pandas as pd
    >>> from maxplus.tables import decide, samples_of, table_of
    >>> frame = pd.DataFrame({"size": [1.0, 2.5, 3.0] * 4, "colour": ["red", "blue", "red"] * 4})
    >>> table = table_of(frame)
    >>> samples_of(table, decide(table).encoding).X.shape
    (12, 1)
    """
    rows = np.arange(table.n_rows)
    has_labels = encoding.has_labels(table)
    if labelled and has_labels:
        unknown = is_missing(encoding.label_cells(table))
        if len(unknown) and unknown.all():
            raise no_labels(table.name, encoding)
        if unknown.any():
            n, first = int(np.count_nonzero(unknown)), table.where(int(unknown.argmax()))
            decisions += (left_out(n, first, encoding),)
            rows = np.flatnonzero(~unknown)
            table = table.take(rows)
    elif has_labels:
        has_labels = not is_missing(encoding.label_cells(table)).any()
    y = encoding.labels(table) if has_labels else None
    found = Strangers() if strangers is None else strangers
    X, missing = encoding.encode(table, found)
    if strangers is None:
        found.warn(table.name)
    return Samples(
        table.name, X, y, encoding, image_shape, table, rows + first_row, missing, decisions
    )
