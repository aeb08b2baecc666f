"""Cache-line-aligned arrays."""

import numpy as np
import pytest

from maxplus._compile import aligned


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.int8])
@pytest.mark.parametrize("shape", [(7,), (3, 5), (0, 4), (2, 300, 77), ()])
def test_aligned_arrays_begin_at_a_cache_line(shape, dtype):
    arrays = [aligned.empty(shape, dtype) for _ in range(5)]
    for array in arrays:
        assert array.size == 0 or array.ctypes.data % 64 == 0
        assert (array.shape, array.dtype) == (np.empty(shape).shape, dtype)
        assert array.flags.c_contiguous
        assert array.flags.writeable
        assert array.flags.aligned
        assert array.base.nbytes == aligned.count_bytes(array.shape, dtype)
    for k, array in enumerate(arrays):
        array[...] = k
    assert all((array == k).all() for k, array in enumerate(arrays))
