"""All tables of a folder, as a user has them: raw numbers, words as 0 and 1."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.datasets import DataNotFoundError
from maxplus.tables import TableEncoder, TableError, read_table, split_target

FOLDER, DATA = "MAXPLUS_TABLES", "MAXPLUS_DATA"
ENDINGS = (".csv", ".csv.gz")


class LabelledTable(NamedTuple):
    """Features (N, P), and classes 0..C−1."""

    name: str
    X: NDArray
    y: NDArray


def find_folder() -> Path:
    """Return the folder of tables: MAXPLUS_TABLES, or the folder ``tables`` of MAXPLUS_DATA."""
    named, data = os.environ.get(FOLDER), os.environ.get(DATA)
    if not named and not data:
        raise DataNotFoundError(
            "this experiment needs a folder of tables, CSV files whose last column is the class: "
            f"name it in the environment variable {FOLDER}, or put it into the folder of {DATA} "
            "under the name 'tables'"
        )
    folder = Path(named) if named else Path(str(data), "tables")
    if not folder.is_dir():
        said = f"{FOLDER}={named}" if named else f"{DATA}={data}"
        raise DataNotFoundError(f"{said}: {folder} is no folder; name one with CSV files")
    return folder


def read_folder(folder: Path, names: Collection[str] = ()) -> list[LabelledTable]:
    """Read every .csv and .csv.gz file, or those of the given names; few rows first."""
    paths = {_name(path): path for path in sorted(folder.iterdir()) if path.name.endswith(ENDINGS)}
    missing = [name for name in names if name not in paths]
    if missing:
        raise DataNotFoundError(
            f"{folder} has no table {', '.join(missing)}; add {missing[0]}.csv or .csv.gz"
        )
    if not paths:
        raise DataNotFoundError(f"{folder} holds no file that ends in {' or '.join(ENDINGS)}")
    found = [_read(paths[name]) for name in names or paths]
    return sorted(found, key=lambda table: (len(table.y), table.name))


def _name(path: Path) -> str:
    return path.name.split(".")[0]


def _read(path: Path) -> LabelledTable:
    table = read_table(path)
    *features, target = table.columns
    words = [name for name in features if table.columns[name].dtype == object]
    try:
        # Fill-ins would be found from all rows, those that are held out included.
        encoder = TableEncoder(categorical=words, missing="error")
        data = split_target(table, target, "classification").encoded(encoder)
        X, labels = data.X, data.y
        assert labels is not None
    except TableError as error:
        raise DataNotFoundError(f"{error}; or take the table out of {path.parent}") from error
    return LabelledTable(_name(path), X, np.unique(labels, return_inverse=True)[1])
