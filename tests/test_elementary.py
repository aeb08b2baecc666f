"""Exponential and logarithm that vectorise."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from maxplus._compile.elementary import exp64, log64
from maxplus._compile.jit import njit

FLAGS = [False, {"reassoc", "contract", "arcp", "nsz"}]


@pytest.mark.parametrize("fastmath", FLAGS)
def test_exp64_agrees_with_numpy_whatever_flags_the_caller_has(fastmath):
    @njit(fastmath=fastmath)
    def apply(x, y):
        for i in range(x.size):
            y[i] = exp64(x[i])

    x = np.concatenate([np.linspace(-700.0, 700.0, 20_001), np.linspace(-1.0, 1.0, 20_001), [0.0]])
    y = np.empty_like(x)
    apply(x, y)
    assert_allclose(y, np.exp(x), rtol=3e-14)
    assert y[-1] == 1.0


@pytest.mark.parametrize("fastmath", FLAGS)
def test_log64_agrees_with_numpy_whatever_flags_the_caller_has(fastmath):
    @njit(fastmath=fastmath)
    def apply(x, y):
        for i in range(x.size):
            y[i] = log64(x[i])

    x = np.concatenate([np.geomspace(1e-300, 1e300, 20_001), np.linspace(0.5, 2.0, 20_001), [1.0]])
    y = np.empty_like(x)
    apply(x, y)
    assert_allclose(y, np.log(x), rtol=1e-15, atol=1e-15)
    assert y[-1] == 0.0
