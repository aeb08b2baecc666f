"""What tests of tables share."""

from contextlib import contextmanager

import numpy as np
import pytest

from maxplus.tables import ColumnChoices, TableError, decide


def encoding_of(table, target=None, **choices):
    """What is decided about the columns of a table."""
    return decide(table, ColumnChoices(target, **choices)).encoding


@contextmanager
def refused(*words):
    """Expect a TableError that says all these words; the file's name among them."""
    with pytest.raises(TableError) as caught:
        yield
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
