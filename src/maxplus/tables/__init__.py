"""Reading and encoding of tables from files and data frames."""

from maxplus.tables.columns import Category, Column, Number, Ordinal, UnknownValues
from maxplus.tables.dataset import (
    Dataset,
    load_dataset,
    load_training,
    row_hashes,
    split_target,
    stream_dataset,
)
from maxplus.tables.encoder import Ranges, TableEncoder
from maxplus.tables.files import read_batches, read_table
from maxplus.tables.schema import Target
from maxplus.tables.table import Categorical, RawTable, TableError, is_frame, table_of

__all__ = [
    "Categorical",
    "Category",
    "Column",
    "Dataset",
    "Number",
    "Ordinal",
    "Ranges",
    "RawTable",
    "TableEncoder",
    "TableError",
    "Target",
    "UnknownValues",
    "is_frame",
    "load_dataset",
    "load_training",
    "read_batches",
    "read_table",
    "row_hashes",
    "split_target",
    "stream_dataset",
    "table_of",
]
