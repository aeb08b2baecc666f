"""What a training over ranks will take, before it is begun: memory by formula, time by a model.

Memory is what the sparse engine declares for a rank's rows (`engines/sparse/_state.py`), the rows
themselves and the libraries. Time is that of the slowest rank's search, which grows with its rows,
and of one meeting of all ranks, which grows with the logarithm of their number.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from maxplus.distributed import ALONE
from maxplus.models import LMM
from maxplus.training.engines.sparse import SparseEngine
from maxplus.training.objectives import MaxLoss
from maxplus.training.task import Task

# Core-seconds that an iteration takes for each sample, with 784 features and 500 units: measured
# with a million images (results/million), where two cores share the search.
POLYAK_PER_SAMPLE, CONSTANT_PER_SAMPLE = 1.84e-7, 6.5e-8
# Seconds of an iteration that no rank shares: the winners of the worst sample, and the step. An
# estimate, too.
STEP = 60e-6
# Seconds of a meeting for each doubling of the ranks, on one machine and between machines:
# estimates, with a few microseconds for a message over a network of low latency.
MEETING_NEAR, MEETING_FAR = 8e-6, 15e-6
# Python and the libraries, kernels included.
LIBRARIES = 330_000_000
# Rows that the engine's memory is counted for; it grows with them.
MOST_COUNTED = 4_000_000


class Forecast(NamedTuple):
    """Bytes of a rank, and seconds of an iteration with Polyak and with constant steps."""

    rows: int
    data: int
    engine: int
    libraries: int
    polyak: float
    constant: float

    @property
    def memory(self) -> int:
        """All of a rank."""
        return self.data + self.engine + self.libraries


def forecast(
    rows: int, features: int, units: int, classes: int, ranks: int, *, threads: int = 1,
    machines: int = 1, dtype: str = "float32",
) -> Forecast:  # fmt: skip
    """What exact subgradient iterations on so many rows take, spread evenly.

    Parameters
    ----------
    rows : of all ranks
    features, units, classes : the model's
    ranks, threads : processes, and threads of each
    machines : how many the ranks are spread over: messages between them take longer
    """
    share = -(-rows // ranks)
    kind = np.dtype(dtype)
    model = LMM(
        np.zeros(2 * features, kind), np.zeros((2 * features, units), kind),
        np.zeros((units, classes), kind),
    )  # fmt: skip
    # One number for all rows: nothing of this size is allocated.
    counted = min(share, MOST_COUNTED)
    X = np.broadcast_to(np.zeros(1, kind), (counted, features))
    task = Task(X, np.arange(counted) % classes, MaxLoss(), team=ALONE)
    engine = SparseEngine.bytes_needed(model, task) * share // counted
    doublings = math.ceil(math.log2(ranks)) if ranks > 1 else 0
    meeting = doublings * (MEETING_FAR if machines > 1 else MEETING_NEAR)
    polyak, constant = (
        share * cost / threads + STEP + meeting for cost in (POLYAK_PER_SAMPLE, CONSTANT_PER_SAMPLE)
    )
    return Forecast(
        share, share * (features * kind.itemsize + 8), engine, LIBRARIES, polyak, constant,
    )  # fmt: skip
