"""Users' data: files read into columns, columns turned into features and labels and prepared."""

from maxplus.tables.columns import Column, Encoding
from maxplus.tables.preparation import Preparation
from maxplus.tables.reading import read_batches, read_table
from maxplus.tables.sources import Samples, open_source, samples_of
from maxplus.tables.table import RawTable, TableError

__all__ = [
    "Column",
    "Encoding",
    "Preparation",
    "RawTable",
    "Samples",
    "TableError",
    "open_source",
    "read_batches",
    "read_table",
    "samples_of",
]
