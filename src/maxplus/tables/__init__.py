"""Users' data: files and data frames read into columns, columns turned into features and labels."""

from maxplus.tables.choices import EVERYTHING, ColumnChoices
from maxplus.tables.deciding import Decided, decide, label_name
from maxplus.tables.domain import FeatureValues
from maxplus.tables.encoding import Encoding
from maxplus.tables.fingerprints import row_fingerprints
from maxplus.tables.frames import is_frame, is_plain, table_of
from maxplus.tables.kinds import Category, Column, Number, Ranks
from maxplus.tables.preparation import Preparation
from maxplus.tables.reading import read_batches, read_table
from maxplus.tables.samples import Samples, samples_of
from maxplus.tables.sources import open_source, stream_source
from maxplus.tables.table import RawTable, TableError
from maxplus.tables.words import Words

__all__ = [
    "EVERYTHING",
    "Category",
    "Column",
    "ColumnChoices",
    "Decided",
    "Encoding",
    "FeatureValues",
    "Number",
    "Preparation",
    "Ranks",
    "RawTable",
    "Samples",
    "TableError",
    "Words",
    "decide",
    "is_frame",
    "is_plain",
    "label_name",
    "open_source",
    "read_batches",
    "read_table",
    "row_fingerprints",
    "samples_of",
    "stream_source",
    "table_of",
]
