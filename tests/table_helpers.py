"""Helpers for tests of tables."""

import json
from contextlib import contextmanager
from dataclasses import fields

import numpy as np
import pytest

from maxplus.tables import TableEncoder, TableError, load_training, split_target, table_of
from maxplus.tables.dataset import BUILT_IN_TABLES


def opened(source, target=None, *, task="auto", groups=None, drop=(), **parameters):
    """Return the dataset of a name, a path or a table, encoded as the command line does."""
    if isinstance(source, str):
        found = load_training(source, target, task, groups)
    else:
        found = split_target(table_of(source), target, task, groups)
    if found.name not in BUILT_IN_TABLES:
        drop = ("auto", *drop)
    return found.encoded(TableEncoder(**parameters, drop=drop))


def decided(table, target=None, **parameters):
    """Return the encoder that is inferred from a table, and the log of decisions."""
    found = opened(table, target, **parameters)
    return found.encoder, found.decisions


def encoder_of(table, target=None, **parameters):
    """Return the encoder that is inferred from a table."""
    return opened(table, target, **parameters).encoder


@contextmanager
def refused(*words):
    """Expect a one-line TableError that contains all these strings."""
    with pytest.raises(TableError) as caught:
        yield caught
    assert "\n" not in str(caught.value)
    for word in words:
        assert str(word) in str(caught.value)


def same(found, expected):
    """Check the names, order, values and types of columns: numbers or text."""
    assert list(found.columns) == list(expected)
    assert found.n_rows == len(next(iter(expected.values())))
    for name, values in expected.items():
        column = found.columns[name]
        assert column.dtype == (object if isinstance(values[0], str) else np.float64)
        np.testing.assert_array_equal(column, np.array(values, column.dtype))


def restored(encoder):
    """Return the encoder that is read from the JSON text of an encoder."""
    record = json.loads(json.dumps(encoder.to_json()))
    again = TableEncoder.from_json(record)
    assert again.to_json() == record
    assert again.columns_ == encoder.columns_
    assert again.decisions_ == encoder.decisions_
    assert again.image_shape_ == encoder.image_shape_
    for field in fields(again.ranges_):
        one, other = getattr(again.ranges_, field.name), getattr(encoder.ranges_, field.name)
        assert np.array_equal(one, other)
        assert one.dtype == other.dtype
    return again
