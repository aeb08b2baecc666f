"""What a command is given as DATA: a file, standard input, or a built-in data set's name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from maxplus import datasets
from maxplus.distributed import Communicator, current
from maxplus.tables.bytes_of import STDIN
from maxplus.tables.choices import AUTOMATIC, EVERYTHING, ColumnChoices
from maxplus.tables.deciding import decide
from maxplus.tables.encoding import Encoding
from maxplus.tables.kinds import Number
from maxplus.tables.reading import read_batches, read_table
from maxplus.tables.samples import Samples, has_no_labels, no_labels, samples_of
from maxplus.tables.shares import open_share, reopen_share
from maxplus.tables.strangers import Strangers
from maxplus.tables.table import Cells, RawTable, TableError

if TYPE_CHECKING:
    from maxplus.tables.preparation import Preparation

SMALL = ("iris", "digits", "wine", "breast_cancer")
IMAGES = ("mnist", "fashion_mnist")
SHAPES = {"digits": (8, 8), "mnist": (28, 28), "fashion_mnist": (28, 28)}
# Rows that a stream gives at a time.
ROWS_AT_ONCE = 1 << 16


def open_source(
    data: str,
    choices: ColumnChoices = AUTOMATIC,
    *,
    preparation: Preparation | None = None,
    labelled: bool | None = None,
    strict: bool = False,
) -> Samples:
    """Read DATA; with a model's preparation for prediction, without one for training.

    A built-in name is iris, digits, wine, breast_cancer, mnist or fashion_mnist; the last two
    mean the training images, and mnist:test and fashion_mnist:test the others. A file of
    such a name has to be written with its folder: ./iris. A dash is standard input.

    Parameters
    ----------
    data : str
        A built-in name, a file's path, or a dash.
    choices : what the user overrules about the columns, for training
    preparation : a model's
    labelled : whether rows without a label are of no use; in training they are not
    strict : whether words that training never saw are refused

    Returns
    -------
    Samples

    Examples
    --------
    >>> from maxplus.tables import open_source
    >>> open_source("iris").X.shape
    (150, 4)
    """
    comm = current()
    if not comm.is_alone and not is_built_in(data):
        if preparation is None:
            return open_share(data, choices, comm)
        return reopen_share(data, preparation, comm, strict=strict)
    name, _, part = data.partition(":")
    if name in IMAGES and part in ("", "train", "test"):
        return _dealt(_images(name, part or "train"), comm)
    shape = SHAPES.get(data) if data in SMALL else None
    if data in SMALL:
        table = _built_in(data)
        choices = choices._replace(keep=[EVERYTHING])
    else:
        _check_file(data)
        table = read_table(data, None if preparation is None else preparation.encoding.read_as)
    if preparation is not None:
        strangers = Strangers(strict=strict)
        found = samples_of(
            table, preparation.encoding, shape, labelled=bool(labelled), strangers=strangers
        )
        strangers.warn(table.name)
        return found
    encoding, decisions = decide(table, choices)
    samples = samples_of(
        table, encoding, shape, labelled=labelled in (None, True), decisions=decisions,
        strangers=Strangers(),
    )  # fmt: skip
    return _dealt(samples, comm)


def is_built_in(data: str) -> bool:
    """Whether DATA names a data set of the library's."""
    return data in SMALL or data.partition(":")[0] in IMAGES


def _dealt(samples: Samples, comm: Communicator) -> Samples:
    """A rank's part of a built-in data set."""
    if comm.is_alone:
        return samples
    n = len(samples.X)
    return samples.take(np.arange(comm.rank * n // comm.size, (comm.rank + 1) * n // comm.size))


def stream_source(
    data: str,
    preparation: Preparation,
    rows_at_once: int = ROWS_AT_ONCE,
    *,
    labelled: bool = False,
    strict: bool = False,
    also: Sequence[str] = (),
) -> Iterator[Samples]:
    """DATA for a model in parts, one after the other: memory does not grow with the table.

    Only columns that the model needs, its target and those named in ``also`` are read. Values
    that training never saw are counted over all parts, and told in one warning at the end. With
    ``labelled``, a part without any label is left out, as rows without one are.

    Parameters
    ----------
    data : str
        As in `open_source`.
    preparation : Preparation
        A model's.
    rows_at_once : int, default=65536
    labelled : bool, default=False
    strict : bool, default=False
        Whether words that training never saw are refused.
    also : names of columns
        Read beside those that the model needs.

    Yields
    ------
    Samples
        A part of the rows.

    Examples
    --------
    >>> import os, tempfile
    >>> import pandas as pd
    >>> from maxplus import LMMClassifier
    >>> from maxplus.tables import stream_source
    >>> frame = pd.DataFrame({"size": [1.0, 2.5, 3.0] * 4, "colour": ["red", "blue", "red"] * 4})
    >>> y = ["small", "large", "large"] * 4
    >>> clf = LMMClassifier(4, slope=2.0, warmup_epochs=2, random_state=0).fit(frame, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "new.csv")
    ...     frame.to_csv(path, index=False)
    ...     [len(part.X) for part in stream_source(path, clf.preparation_, rows_at_once=5)]
    [5, 5, 2]
    """
    if is_built_in(data):
        yield open_source(data, preparation=preparation, labelled=labelled)
        return
    _check_file(data)
    encoding = preparation.encoding
    strangers = Strangers(strict=strict)
    first_row, name, n_parts = 0, data, 0
    for table in read_batches(data, encoding.read_as, also=also):
        for k in range(0, table.n_rows, rows_at_once):
            part = table.part(k, k + rows_at_once)
            if labelled and has_no_labels(part, encoding):
                continue
            n_parts += 1
            yield samples_of(
                part, encoding, preparation.image_shape, labelled=labelled, strangers=strangers,
                first_row=first_row + k,
            )  # fmt: skip
        first_row, name = first_row + table.n_rows, table.name
    if not n_parts:
        raise no_labels(name, encoding)
    strangers.warn(name)


def _check_file(data: str) -> None:
    if not (data == STDIN or Path(data).exists() or Path(data).suffix):
        raise TableError(
            f"{data!r} is neither a file nor a built-in data set; there are "
            f"{', '.join(SMALL + IMAGES)}"
        )


def _built_in(name: str) -> RawTable:
    data = getattr(datasets, f"load_{name}")()
    columns: dict[str, Cells] = dict(zip(data.feature_names, data.X.T, strict=True))
    words = [str(word) for word in data.class_names]
    if all(word.isdigit() for word in words):
        columns["class"] = data.y.astype(np.float64)
    else:
        columns["class"] = np.array([words[code] for code in data.y], object)
    return RawTable(name, columns)


def _images(name: str, part: str) -> Samples:
    """Images stay in float32: as columns of a table they would take twice the memory."""
    data = getattr(datasets, f"load_{name}")()
    X, y = (data.X_train, data.y_train) if part == "train" else (data.X_test, data.y_test)
    height, width = SHAPES[name]
    names = [f"pixel {r},{c}" for r in range(height) for c in range(width)]
    encoding = Encoding("class", tuple(Number(pixel) for pixel in names))
    return Samples(f"{name}:{part}", X, y, encoding, (height, width))
