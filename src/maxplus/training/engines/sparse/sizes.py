"""The sizes that the sparse engine's arrays are declared in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxplus.models import LMM
from maxplus.training.engines.sparse.layout import count_chunks, count_leaves, lanes_per_chunk
from maxplus.training.problem import TopKLoss, TrainingProblem
from maxplus.trees._kernels import level_offsets

# Iterations whose events are remembered if each steps on one sample; a chunk that
# missed more is rebuilt.
RING = 512
# Numbers of a class in a sample's path, and of a sample that was found.
PATH, FOUND = 4, 2


class Sizes(NamedTuple):
    """One letter for each extent, as in the declarations, and two types."""

    K: int  # chunks
    B: int  # lanes of a chunk
    P: int  # features
    H: int  # units
    C: int  # classes
    W: int  # workers
    S: int  # workers that see each other's thresholds
    T: int  # ranks
    k: int  # samples that an iteration steps on
    Q: int  # k / S, rounded up
    E: int  # entries of a layer that an iteration moves at most
    R: int  # iterations that the ring of events holds
    leaves: int  # of a tree: the most chunks of one class that a worker has
    nodes: int  # of such a tree
    bounds: int  # of its levels: where each begins and the last one ends
    path: int  # numbers that tell a sample's path
    told: int  # numbers that a rank tells the others first
    F: np.dtype  # the model's float type
    ROW: np.dtype  # holds row numbers and "no row"

    @classmethod
    def of(
        cls, model: LMM, problem: TrainingProblem, n_workers: int, n_seats: int | None = None
    ) -> Sizes:
        """The sizes of a training shared by so many workers, of how many in all; O(N)."""
        B = lanes_per_chunk(problem.y)
        k = samples_per_step(problem)
        S = n_workers if n_seats is None else n_seats
        path = 1 + PATH * model.n_classes
        offsets = level_offsets(count_leaves(problem.y, B, n_workers))
        return cls(
            K=count_chunks(problem.y, B), B=B,
            P=model.n_features, H=model.n_hidden, C=model.n_classes,
            W=n_workers, S=S, T=problem.team.size, k=k, Q=-(-k // S),
            E=entries_per_step(model, problem), R=ring_length(k),
            leaves=int(offsets[1]), nodes=int(offsets[-1]), bounds=offsets.size,
            path=path, told=FOUND + path if k == 1 else FOUND * k,
            F=model.dtype, ROW=np.dtype(_index_type(2 * model.n_features)),
        )  # fmt: skip


def samples_per_step(problem: TrainingProblem) -> int:
    """k: how many samples an iteration steps on."""
    objective = problem.objective
    return objective.count(problem.n_samples) if isinstance(objective, TopKLoss) else 1


def entries_per_step(model: LMM, problem: TrainingProblem) -> int:
    """E: C for each sample, but no more than the larger layer has."""
    largest = model.n_hidden * max(2 * model.n_features, model.n_classes)
    return min(samples_per_step(problem) * model.n_classes, largest)


def ring_length(n_samples: int) -> int:
    """R: iterations that the ring holds if each steps on so many samples; a power of two."""
    return 1 << max(1, (RING // n_samples).bit_length() - 1)


def _index_type(n: int) -> type[np.signedinteger]:
    """The smallest integer type for numbers below n and −1."""
    return np.int16 if n < np.iinfo(np.int16).max else np.int32
