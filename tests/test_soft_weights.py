"""Weights of a soft model that several ranks move together."""

import numpy as np
import pytest

from maxplus.distributed import SERIAL, current
from maxplus.training.smooth import SoftWeights
from thread_communicator import run_ranks

STEPS, BATCHES = 4, 5


@pytest.fixture
def layers():
    rng = np.random.default_rng(2)
    return [rng.normal(size=shape).astype(np.float32) for shape in ((6, 5), (5, 2))]


@pytest.fixture
def pushes(layers):
    """Of each step and batch: whole numbers, so that no sum of them is rounded."""
    rng = np.random.default_rng(3)
    shapes = [(STEPS, BATCHES, *layer.shape) for layer in layers]
    return [rng.integers(-3, 4, shape).astype(np.float32) for shape in shapes]


def course(comm, layers, pushes):
    """All that there is to see after some steps, each of which begins with what was kept."""
    weights = SoftWeights(comm, *layers)
    for k in range(STEPS):
        shown = [layer.copy() for layer in weights.show(np.float32(0.3 - 0.05 * k))]
        for sums, push in zip(weights.sums(), pushes, strict=True):
            sums[:] = push[k].sum(axis=0)
        weights.move(0.1)
        weights = SoftWeights(comm, *weights.whole(), weights.memory(), weights.steps)
    means, squares = weights.memory()
    return [*shown, *weights.whole(), *means, *squares]


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_ranks_take_the_steps_of_a_single_process(layers, pushes, size):
    alone = course(SERIAL, layers, pushes)
    assert not np.array_equal(alone[2], layers[0])
    owners = np.arange(BATCHES) % size
    found = run_ranks(
        size, lambda r: course(current(), layers, [push[:, owners == r] for push in pushes])
    )
    for rank in found:
        for one, several in zip(alone, rank, strict=True):
            np.testing.assert_array_equal(one, several)


def test_what_is_shown_are_exponentials(layers):
    W1, W2 = layers
    shown = SoftWeights(SERIAL, W1, W2).show(np.float32(0.5))
    np.testing.assert_allclose(shown.W1, np.exp(-W1 / 0.5), rtol=1e-5)
    np.testing.assert_array_equal(shown.W2, W2)
