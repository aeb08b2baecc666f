"""Distributed training over MPI ranks, each holding part of the rows."""

from maxplus.distributed.communicator import (
    SERIAL,
    Communicator,
    DifferentRanksError,
    current,
    use_mpi,
    using,
)
from maxplus.distributed.shared_rows import SharedRows

__all__ = [
    "SERIAL",
    "Communicator",
    "DifferentRanksError",
    "SharedRows",
    "current",
    "use_mpi",
    "using",
]
