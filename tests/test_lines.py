"""Arrays that begin where a line of memory does."""

import numpy as np
import pytest

from maxplus._compile import aligned


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.int8])
@pytest.mark.parametrize("shape", [7, (7,), (3, 5), (0, 4), (2, 300, 77), ()])
@pytest.mark.parametrize("make", [aligned.empty, aligned.zeros])
def test_they_are_numpys_but_for_their_place(make, shape, dtype):
    arrays = [make(shape, dtype) for _ in range(5)]
    for array in arrays:
        assert array.size == 0 or array.ctypes.data % 64 == 0
        assert (array.shape, array.dtype) == (np.empty(shape).shape, dtype)
        assert array.flags.c_contiguous
        assert array.flags.writeable
        assert array.flags.aligned
        assert array.base.nbytes == aligned.count_bytes(array.shape, dtype)
    if make is aligned.zeros:
        assert not any(array.any() for array in arrays)
    for k, array in enumerate(arrays):
        array[...] = k
    assert all((array == k).all() for k, array in enumerate(arrays))


def test_a_copy_is_one():
    whole = np.arange(24.0).reshape(4, 6)
    for array in (whole, whole.T, whole[::2, 1:]):
        copy = aligned.copied(array)
        np.testing.assert_array_equal(copy, array)
        assert copy.flags.c_contiguous
        copy += 1.0
        np.testing.assert_array_equal(copy, array + 1.0)
