"""Whether a launcher of MPI has started this process beside others, by its environment."""

from __future__ import annotations

import os

# How launchers of MPI, SLURM's among them, tell a process how many there are.
COUNTS = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PMIX_SIZE", "MV2_COMM_WORLD_SIZE")
# And which one it is.
NUMBERS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK")


def is_launched() -> bool:
    """Whether a launcher of MPI has started this process beside others."""
    # With PMIx, SLURM tells the number of ranks in a variable of its own.
    by_slurm = "PMIX_RANK" in os.environ and _number("SLURM_STEP_NUM_TASKS") > 1
    return by_slurm or any(_number(name) > 1 for name in COUNTS)


def launched_rank() -> int:
    """Which of them this process is."""
    return max(_number(name) for name in NUMBERS)


def _number(name: str) -> int:
    found = os.environ.get(name, "")
    return int(found) if found.isdigit() else 0
