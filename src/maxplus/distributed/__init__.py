"""Distributed training over MPI ranks, each holding part of the rows."""

from maxplus.distributed.communicator import (
    ALONE,
    DifferentRanksError,
    Team,
    current,
    use_mpi,
    using,
)
from maxplus.distributed.shared_rows import SharedRows

__all__ = ["ALONE", "DifferentRanksError", "SharedRows", "Team", "current", "use_mpi", "using"]
