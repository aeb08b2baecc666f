"""Users' data: files read into columns, and columns turned into features and labels."""

from maxplus.tables.columns import Column, Encoding
from maxplus.tables.reading import RawTable, TableError, read_table
from maxplus.tables.sources import Samples, open_source

__all__ = [
    "Column",
    "Encoding",
    "RawTable",
    "Samples",
    "TableError",
    "open_source",
    "read_table",
]
