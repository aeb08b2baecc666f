"""Loading and encoding of datasets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import sklearn.datasets
from numpy.typing import NDArray
from sklearn.base import clone

from maxplus import datasets
from maxplus.distributed import current
from maxplus.distributed.communicator import mark_collective
from maxplus.tables.columns import UnknownValues
from maxplus.tables.csv_files import STDIN
from maxplus.tables.encoder import TableEncoder
from maxplus.tables.files import NUMPY, PARQUET, read_batches, read_part, read_table
from maxplus.tables.schema import AUTO, Target, infer_target
from maxplus.tables.table import (
    Categorical,
    Cells,
    NoRowsError,
    RawTable,
    TableError,
    is_missing,
    on_all_rows,
    require,
    row_text,
    rows_of_rank,
)

BUILT_IN_TABLES = ("iris", "digits", "wine", "breast_cancer")
BUILT_IN_IMAGES = ("mnist", "fashion_mnist")
IMAGE_SHAPES = {"digits": (8, 8), "mnist": (28, 28), "fashion_mnist": (28, 28)}
# Default number of rows in each part of a stream.
PART_ROWS = 1 << 16

T = TypeVar("T")


@dataclass(frozen=True)
class Dataset:
    """Rows of a table, with optional labels and encoded features.

    Attributes
    ----------
    table : RawTable
        Columns. In training data, the target and the groups are excluded.
    target : Target
        Target column.
    y : ndarray of shape (n_rows,) or None
        Labels, or targets of a regression.
    rows : ndarray of shape (n_rows,)
        Zero-based row numbers in the file.
    groups : ndarray of shape (n_rows,) or None
        Group of each row.
    decisions : tuple of str
        Log of decisions about the target, rows and columns.
    encoder : TableEncoder or None
        Fitted encoder.
    X : ndarray of shape (n_rows, n_features) or None
        Encoded features.
    missing : ndarray of bool of shape (n_rows, n_columns) or None
        Mask of missing values.
    all_rows : RawTable or None
        Columns of all rows, if rows without a label were dropped.
    """

    table: RawTable
    target: Target
    y: NDArray | None
    rows: NDArray
    groups: NDArray | None = None
    decisions: tuple[str, ...] = ()
    encoder: TableEncoder | None = None
    X: Any = None
    missing: NDArray | None = None
    all_rows: RawTable | None = None

    @property
    def name(self) -> str:
        """Name of the file or dataset."""
        return self.table.name

    @property
    def image_shape(self) -> tuple[int, int] | None:
        """Height and width if the features are pixels."""
        return None if self.encoder is None else self.encoder.image_shape_

    @property
    def frame(self) -> RawTable:
        """Table with its encoder and features, as input to ``fit`` of an estimator."""
        return replace(self.table, encoder=self.encoder, encoded=self.X)

    def take(self, rows: NDArray) -> Dataset:
        """Return a subset of the rows.

        Parameters
        ----------
        rows : ndarray of int
            Indices of the rows in this dataset.

        Returns
        -------
        Dataset
            Selected rows, with their original row numbers.
        """
        parts: dict[str, Any] = {
            name: None if (values := getattr(self, name)) is None else values[rows]
            for name in ("y", "groups", "X", "missing")
        }
        # Rows that are not selected must not affect the encoder, so ``all_rows`` is reset.
        return replace(
            self, table=self.table.take(rows), rows=self.rows[rows], all_rows=None, **parts
        )

    def encoded(self, encoder: TableEncoder) -> Dataset:
        """Fit a clone of an encoder to the table and encode it.

        A dataset that is already encoded is returned unchanged.

        Parameters
        ----------
        encoder : TableEncoder
            Encoder, which is not modified.

        Returns
        -------
        Dataset
            Dataset with features.
        """
        if self.encoder is not None:
            return self
        shape = IMAGE_SHAPES.get(self.name) if self.name in BUILT_IN_TABLES else None
        fitted = clone(encoder)
        table = fitted._table(self.table, reset=True)
        X, missing = fitted._fit(table, self.target, shape, self.all_rows)
        X = fitted.standardized(X)
        fitted.decisions_ = self.decisions + fitted.decisions_
        return replace(self, encoder=fitted, X=X, missing=missing, decisions=fitted.decisions_)


def load_training(
    data: str, target: str | None = None, task: str = AUTO, groups: str | None = None
) -> Dataset:
    """Load training data; tables are not encoded.

    Built-in datasets are iris, digits, wine, breast_cancer, mnist and fashion_mnist, and
    mnist:test and fashion_mnist:test for the test images. With several MPI ranks, each rank reads a
    part of a Parquet, NPZ or NPY file.

    Parameters
    ----------
    data : str
        Name of a built-in dataset or of a file, or "-" for standard input. Use ./iris for a file
        with the name of a built-in dataset.
    target, task, groups
        As in `split_target`.

    Returns
    -------
    Dataset
        Rows and labels.

    Examples
    --------
    >>> from maxplus.tables import TableEncoder, load_training
    >>> load_training("iris").encoded(TableEncoder()).X.shape
    (150, 4)
    """
    if is_images(data):
        return _load_images(data)
    return split_target(_read_rows(data), target, task, groups)


def split_target(
    table: RawTable, target: str | None = None, task: str = AUTO, groups: str | None = None
) -> Dataset:
    """Separate the target from the other columns, and drop rows without a label.

    Parameters
    ----------
    table : RawTable
        Table, or the rows of this rank.
    target : str, optional
        Name of the target column. By default, the only column named target, label, class or y, or
        else the last column.
    task : {"auto", "classification", "regression"}, default="auto"
        Type of the target. "auto" is regression for fractional or many distinct numbers.
    groups : str, optional
        Name of a column that defines the groups for cross-validation. It is not a feature.

    Returns
    -------
    Dataset
        Rows and labels.

    Examples
    --------
    >>> import pandas as pd
    >>> from maxplus.tables import split_target, table_of
    >>> frame = pd.DataFrame({"size": [1.0, 2.5, 3.0], "label": ["small", "large", "large"]})
    >>> split_target(table_of(frame)).target.name
    'label'
    """
    comm = current()
    inferred, lines = on_all_rows(lambda whole: infer_target(whole, target, task), table)
    lines = (*table.notes, *lines)
    if groups is not None:
        require(table, groups, "groups")
        if groups == inferred.name:
            raise TableError(
                f"{table.name}: {groups!r} is the target and cannot be in `groups` as well"
            )
        lines += (f"dropped {groups!r}: it defines the groups of rows (`groups`)",)
    missing = inferred.missing(table)
    n, first = int(missing.sum()), table.locate(int(missing.argmax())) if missing.any() else None
    counts = comm.allgather((table.n_rows, n, first))
    n = sum(count for _, count, _ in counts)
    if n == sum(n_rows for n_rows, _, _ in counts):
        raise mark_collective(inferred.no_labels_error(table.name))
    rows, first_row, all_rows = np.arange(table.n_rows), comm.exscan(table.n_rows), None
    if n:
        first = next(where for _, _, where in counts if where is not None)
        lines += (inferred.unlabelled_message(n, first),)
        rows = np.flatnonzero(~missing)
        all_rows, table = table.without(inferred.name, groups), table.take(rows)
    with comm.raise_on_all_ranks():
        y = inferred.labels(table)
        codes = None if groups is None else _group_codes(table, groups)
    features = table.without(inferred.name, groups)
    return Dataset(features, inferred, y, rows + first_row, codes, lines, all_rows=all_rows)


def _group_codes(table: RawTable, name: str) -> NDArray:
    cells = table.columns[name]
    n_missing = int(np.count_nonzero(is_missing(cells)))
    if n_missing:
        raise TableError(
            f"{table.name}: {name!r} (`groups`) has {n_missing:,} missing "
            f"value{'s' * (n_missing > 1)}; fill them in"
        )
    return cells.codes if isinstance(cells, Categorical) else cells


def load_dataset(
    data: str, encoder: TableEncoder, *, labelled: bool = False, strict: bool = False
) -> Dataset:
    """Load data and encode it with the encoder of a fitted model.

    Parameters
    ----------
    data : str
        Data to load, as in `load_training`.
    encoder : TableEncoder
        Encoder of the model.
    labelled : bool, default=False
        If True, drop rows without a label, with a warning. If False, the labels are omitted unless
        all rows have one.
    strict : bool, default=False
        If True, raise an error for unknown categories.

    Returns
    -------
    Dataset
        Rows, features and, if available, labels.

    Examples
    --------
    >>> from maxplus.tables import TableEncoder, load_dataset, load_training
    >>> encoder = load_training("wine").encoded(TableEncoder()).encoder
    >>> load_dataset("wine", encoder).X.shape
    (178, 13)
    """
    if is_images(data):
        return replace(_load_images(data), encoder=encoder)
    table, unknown = _read_rows(data, encoder), UnknownValues(strict=strict)
    comm, target = current(), encoder.target_
    first_row = comm.exscan(table.n_rows)
    n_missing = comm.total(int(target.missing(table).sum()))
    if labelled and n_missing and n_missing == comm.total(table.n_rows):
        raise mark_collective(target.no_labels_error(table.name))
    with comm.raise_on_all_ranks():
        dataset = _encoded(table, encoder, labelled, unknown, first_row)
    unknown.sum_over_ranks(comm)
    if comm.is_root:
        unknown.warn(table.name)
    return dataset


def stream_dataset(
    data: str,
    encoder: TableEncoder,
    batch_size: int = PART_ROWS,
    *,
    labelled: bool = False,
    strict: bool = False,
    extra_columns: Sequence[str] = (),
) -> Iterator[Dataset]:
    """Load and encode data in parts, for tables that do not fit into memory.

    Only the columns of the model, its target and the columns in ``extra_columns`` are read from CSV
    and Parquet files. One warning at the end reports the unknown categories, unexpected missing
    values and dropped rows of all parts.

    Parameters
    ----------
    data : str
        Data to load, as in `load_training`.
    encoder : TableEncoder
        Encoder of the model.
    batch_size : int, default=65536
        Maximum number of rows in each part. A built-in dataset is a single part.
    labelled : bool, default=False
        If True, drop rows without a label, and parts without any labels. If False, the labels of a
        part are omitted unless all of its rows have one.
    strict : bool, default=False
        If True, raise an error for unknown categories.
    extra_columns : sequence of str, default=()
        Names of additional columns to read.

    Yields
    ------
    Dataset
        Part of the rows.

    Examples
    --------
    >>> import os, tempfile
    >>> import pandas as pd
    >>> from maxplus.tables import TableEncoder, stream_dataset
    >>> frame = pd.DataFrame({"size": [1.0, 2.5, 3.0] * 4, "colour": ["red", "blue", "red"] * 4})
    >>> encoder = TableEncoder().fit(frame)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "new.csv")
    ...     frame.to_csv(path, index=False)
    ...     [len(part.X) for part in stream_dataset(path, encoder, batch_size=5)]
    [5, 5, 2]
    """
    if is_built_in(data):
        yield load_dataset(data, encoder, labelled=labelled, strict=strict)
        return
    _check_file(data)
    target, unknown = encoder.target_, UnknownValues(strict=strict)
    first_row, name, n_parts = 0, data, 0
    for table in read_batches(data, encoder.read_as, extra_columns=extra_columns):
        for k in range(0, table.n_rows, batch_size):
            part = table.part(k, k + batch_size)
            if labelled and target.name in part.columns and target.missing(part).all():
                unknown.count_unlabelled(target.name, part.n_rows)
                continue
            n_parts += 1
            yield _encoded(part, encoder, labelled, unknown, first_row + k)
        first_row, name = first_row + table.n_rows, table.name
    if not n_parts:
        raise target.no_labels_error(name)
    unknown.warn(name)


def _encoded(
    table: RawTable, encoder: TableEncoder, labelled: bool, unknown: UnknownValues, first_row: int
) -> Dataset:
    """Encode a table with a fitted encoder, including its labels if available."""
    target, rows = encoder.target_, np.arange(table.n_rows)
    lines: tuple[str, ...] = ()
    has_labels = target.name in table.columns
    if has_labels:
        unlabelled = target.missing(table)
        if labelled and unlabelled.any():
            n, first = int(unlabelled.sum()), table.locate(int(unlabelled.argmax()))
            lines = (target.unlabelled_message(n, first),)
            unknown.count_unlabelled(target.name, n)
            rows = np.flatnonzero(~unlabelled)
            table = table.take(rows)
        elif unlabelled.any():
            has_labels = False
    y = target.labels(table) if has_labels else None
    X, missing = encoder.encode(table, unknown)
    return Dataset(table, target, y, rows + first_row, None, lines, encoder, X, missing)


def is_built_in(data: str) -> bool:
    """Return whether ``data`` is the name of a built-in dataset."""
    return data in BUILT_IN_TABLES or is_images(data)


def is_images(data: str) -> bool:
    """Return whether ``data`` is the name of a built-in dataset of images."""
    name, _, part = data.partition(":")
    return name in BUILT_IN_IMAGES and part in ("", "train", "test")


def _read_rows(data: str, encoder: TableEncoder | None = None) -> RawTable:
    """Read the rows of this rank; ``encoder`` determines the types of the columns."""
    comm = current()
    if data in BUILT_IN_TABLES:
        table = _load_built_in(data)
        rows = rows_of_rank(table.n_rows, comm.rank, comm.size)
        return table.part(rows.start, rows.stop)
    _check_file(data)
    if comm.is_serial:
        return read_table(data, None if encoder is None else encoder.read_as)
    require_partitionable(data)
    with comm.raise_on_all_ranks():
        table = read_part(Path(data), comm.rank, comm.size)
    types = tuple(isinstance(cells, Categorical) for cells in table.columns.values())
    comm.require_equal({"columns": tuple(table.columns), "types of columns": types})
    if not comm.total(table.n_rows):
        raise mark_collective(NoRowsError(table.name))
    return replace(table, locate=partial(row_text, first_row=comm.exscan(table.n_rows)))


def require_partitionable(data: str) -> None:
    """Raise TableError on all ranks if a file format cannot be read in parts."""
    path = Path(data)
    if not (path.is_dir() or path.suffix.lower() in (*PARQUET, *NUMPY)):
        raise mark_collective(
            TableError(
                f"{data} cannot be read in parts by several ranks; convert it to Parquet, NPY or "
                "NPZ, or run the command without mpiexec"
            )
        )


def _check_file(data: str) -> None:
    if not (data == STDIN or Path(data).exists() or Path(data).suffix):
        raise TableError(
            f"{data!r} is neither a file nor a built-in dataset; the built-in datasets are "
            f"{', '.join(BUILT_IN_TABLES + BUILT_IN_IMAGES)}"
        )


def _load_built_in(name: str) -> RawTable:
    data = getattr(sklearn.datasets, f"load_{name}")()
    names = map(str, data.feature_names)
    columns: dict[str, Cells] = dict(zip(names, data.data.astype(float).T, strict=True))
    texts = [str(text) for text in data.target_names]
    if all(text.isdigit() for text in texts):
        columns["class"] = data.target.astype(np.float64)
    else:
        columns["class"] = np.array([texts[code] for code in data.target], object)
    return RawTable(name, columns)


def _load_images(data: str) -> Dataset:
    """Load images as float32, to save memory."""
    name, _, part = data.partition(":")
    images = getattr(datasets, f"load_{name}")()
    is_test = part == "test"
    X, y = (images.X_test, images.y_test) if is_test else (images.X_train, images.y_train)
    comm = current()
    rows = np.array(rows_of_rank(len(y), comm.rank, comm.size))
    if not comm.is_serial:
        X, y = X[rows], y[rows]
    title = f"{name}:{part or 'train'}"
    encoder = TableEncoder.from_images(X, title, IMAGE_SHAPES[name])
    return Dataset(RawTable(title, {}, encoded=X), encoder.target_, y, rows, encoder=encoder, X=X)


def row_hashes(X: NDArray) -> NDArray:
    """Return a 63-bit hash of each row.

    Hashes do not depend on the float dtype. Two different rows collide with probability 2^−63.
    Hashing is not anonymisation: rows can be recovered if all possible rows can be enumerated.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Rows.

    Returns
    -------
    array of int64 of shape (n_samples,)
        Hashes.

    Examples
    --------
    >>> import numpy as np
    >>> from maxplus.tables import row_hashes
    >>> a, b, c = row_hashes(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -0.0]]))
    >>> bool(a == c), bool(a == b)
    (True, False)
    """
    digests = b"".join(
        # Adding 0.0 converts −0.0 to 0.0.
        blake2b((row.astype(np.float64) + 0.0).tobytes(), digest_size=8).digest()
        for row in X
    )
    return (np.frombuffer(digests, "<u8") >> 1).astype(np.int64)


def prefetch(parts: Iterable[T]) -> Iterator[T]:
    """Yield parts in order while a background thread reads the next part.

    A thread suffices, because reading files releases the GIL.
    """
    iterator, end = iter(parts), object()
    with ThreadPoolExecutor(1) as reader:
        future = reader.submit(next, iterator, end)
        while (part := future.result()) is not end:
            future = reader.submit(next, iterator, end)
            yield part  # type: ignore[misc]
