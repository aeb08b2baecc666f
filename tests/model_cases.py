"""The three models with their oracles, and small examples of each."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import oracles
from maxplus.models import LMM, LinearMaxPlus, ZeroHidden
from strategies import DTYPES, SEEDS, SIZES, SIZES_OR_ZERO, grid_array

# Default numbers of features, units and classes.
P, H, C = 4, 6, 3


class Case(NamedTuple):
    """A model class, the shapes of its weights for (P, H, C), and its oracles."""

    model: type
    shapes: Callable
    path: Callable
    subgradient: Callable

    def draw(self, sample, P, H, C):
        """Return a model whose weights come from sample(shape)."""
        return self.model(*(sample(shape) for shape in self.shapes(P, H, C)))


CASES = {
    "LMM": Case(
        LMM,
        lambda P, H, C: [(2 * P,), (2 * P, H), (H, C)],
        lambda x, m: oracles.lmm_path(x, m.W0.tolist(), m.W1.tolist(), m.W2.tolist()),
        lambda x, y, m: oracles.lmm_subgradient(x, y, m.W0, m.W1, m.W2),
    ),
    "ZeroHidden": Case(
        ZeroHidden,
        lambda P, H, C: [(C, P)],
        lambda x, m: oracles.zero_hidden_path(x, m.W.tolist()),
        lambda x, y, m: oracles.zero_hidden_subgradient(x, y, m.W),
    ),
    "LinearMaxPlus": Case(
        LinearMaxPlus,
        lambda P, H, C: [(P, H), (H,), (H, C)],
        lambda x, m: oracles.linear_max_plus_path(x, m.A.tolist(), m.b.tolist(), m.W.tolist()),
        lambda x, y, m: oracles.linear_max_plus_subgradient(x, y, m.A, m.b, m.W),
    ),
}
EVERY_MODEL = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
FLOATS = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@st.composite
def problems(draw):
    """Draw a generator for the weights, the sizes (P, H, C), X and labels."""
    P, H, C = (draw(SIZES) for _ in range(3))
    rng, dtype = np.random.default_rng(draw(SEEDS)), draw(DTYPES)
    n = draw(SIZES_OR_ZERO)
    return rng, (P, H, C), grid_array(rng, (n, P), dtype), rng.integers(C, size=n)


def grid_model(case, rng, shape, dtype=np.float64):
    return case.draw(lambda s: grid_array(rng, s, dtype), *shape)


def normal_model(case, rng, shape, dtype=np.float64):
    return case.draw(lambda s: rng.normal(size=s).astype(dtype), *shape)


def score_model(n_classes, dtype=np.float64):
    """Return a model whose scores are its inputs."""
    return ZeroHidden(np.where(np.eye(n_classes, dtype=bool), 0, -np.inf).astype(dtype))


def paths(case, X, model):
    """Return z and the winners of each sample, by the oracle."""
    return [case.path(x.tolist(), model) for x in X]


def table(rows, n_classes, dtype):
    return np.array(rows, dtype).reshape(-1, n_classes)


def dense(model, subgradient):
    """Return the subgradient as dense arrays; check that no entry occurs twice."""
    full = {}
    for name, entries in subgradient.items():
        named = list(zip(*(i.tolist() for i in entries.index), strict=True))
        assert len(named) == len(set(named)) == len(entries.value)
        full[name] = np.zeros(getattr(model, name).shape)
        full[name][entries.index] = entries.value
    return full


def assert_same_layers(got, expected, **tolerance):
    assert got.keys() == expected.keys()
    for name in got:
        assert_allclose(got[name], expected[name], err_msg=name, **tolerance)
