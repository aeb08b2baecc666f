"""Helpers for tests of tables."""

from contextlib import contextmanager

import numpy as np
import pytest

from maxplus.tables import TableEncoder, TableError, load_training, split_target, table_of
from maxplus.tables.dataset import SMALL


def opened(source, target=None, *, task="auto", groups=None, **parameters):
    """Return the data set of a name, a path or a table, encoded as the command line does."""
    if isinstance(source, str):
        found = load_training(source, target, task, groups)
    else:
        found = split_target(table_of(source), target, task, groups)
    drop = parameters.pop("drop", ())
    drop = (drop,) if isinstance(drop, str) else tuple(drop or ())
    if source not in SMALL if isinstance(source, str) else True:
        drop = ("auto", *drop)
    return found.encoded(TableEncoder(**parameters, drop=drop))


def decided(table, target=None, **parameters):
    """Return the encoder that is inferred from a table, and the lines about it."""
    found = opened(table, target, **parameters)
    return found.encoder, found.decisions


def encoder_of(table, target=None, **parameters):
    """Return the encoder that is inferred from a table."""
    return opened(table, target, **parameters).encoder


@contextmanager
def refused(*words):
    """Expect a one-line TableError that contains the file name and all these strings."""
    with pytest.raises(TableError) as caught:
        yield caught
    assert "\n" not in str(caught.value)
    for word in words:
        assert str(word) in str(caught.value)


def same(found, expected):
    """Check names, their order, values and kinds of columns: numbers or words."""
    assert list(found.columns) == list(expected)
    assert found.n_rows == len(next(iter(expected.values())))
    for name, values in expected.items():
        column = found.columns[name]
        if isinstance(values[0], str):
            assert column.dtype == object
            assert column.tolist() == values
        else:
            assert column.dtype == np.float64
            np.testing.assert_array_equal(column, np.array(values, np.float64))
