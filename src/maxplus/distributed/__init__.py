"""Distributed training over MPI ranks, each holding part of the rows."""

from maxplus.distributed.current import current, use_mpi, using
from maxplus.distributed.shared_rows import SharedRows
from maxplus.distributed.team import ALONE, DifferentRanksError, Team

__all__ = ["ALONE", "DifferentRanksError", "SharedRows", "Team", "current", "use_mpi", "using"]
