"""Chunks: samples of one class, side by side, so that loops run over lanes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Lanes of a chunk, where there are enough samples: its columns fit into the first-level cache.
MAX_LANES = 256
# A vector register holds sixteen float32.
LANE_STEP = 16


class Layout(NamedTuple):
    """Which sample sits where, and who searches it."""

    sample: NDArray  # (K, B)
    lanes: NDArray  # (K,)
    label: NDArray  # (K,)
    worker: NDArray  # (K,)
    leaf: NDArray  # (K,): position among the worker's chunks of the class


def lanes_per_chunk(y: NDArray) -> int:
    """B: a multiple of the vector length, no larger than the largest class needs."""
    largest = int(np.bincount(y).max(initial=1))
    return min(MAX_LANES, -(-largest // LANE_STEP) * LANE_STEP)


def count_chunks(y: NDArray, n_lanes: int) -> int:
    """K: each class fills whole chunks of its own."""
    return int((-(-np.bincount(y) // n_lanes)).sum())


def count_leaves(y: NDArray, n_lanes: int, n_workers: int) -> int:
    """The most chunks of one class that `arrange` gives to one worker, or 1 if there are none."""
    largest = -(-int(np.bincount(y).max(initial=1)) // n_lanes)
    return -(-largest // n_workers)


def arrange(y: NDArray, order: NDArray, n_lanes: int, n_workers: int) -> Layout:
    """Cut each class's samples, taken in ``order``, into chunks.

    Chunks of a class go to the workers in turn: neighbours in the order are
    about equally hard, so everybody gets the same share of hard ones.
    """
    samples, lanes, labels, workers, leaves = [], [], [], [], []
    for label in range(int(y.max(initial=-1)) + 1):
        members = order[y[order] == label]
        for rank, lo in enumerate(range(0, len(members), n_lanes)):
            part = members[lo : lo + n_lanes]
            samples.append(np.pad(part, (0, n_lanes - len(part)), mode="edge"))
            lanes.append(len(part))
            labels.append(label)
            workers.append(rank % n_workers)
            leaves.append(rank // n_workers)
    return Layout(
        np.array(samples, np.int64).reshape(-1, n_lanes), np.array(lanes, np.int64),
        np.array(labels, np.int64), np.array(workers, np.int64), np.array(leaves, np.int64),
    )  # fmt: skip
