"""Commands that an MPI launcher has started on several ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, NoReturn, TypeVar

import typer

if TYPE_CHECKING:
    from maxplus.distributed import Communicator


B = TypeVar("B")
R = TypeVar("R")


@contextmanager
def all_ranks() -> Iterator[Communicator]:
    """Use the communicator of all ranks that a launcher has started; `SERIAL` without one."""
    from maxplus.distributed import SERIAL, use_mpi
    from maxplus.distributed.communicator import is_launched

    if not is_launched():
        yield SERIAL
        return
    left: typer.Exit | None = None
    with use_mpi() as comm:
        try:
            yield comm
        except typer.Exit as leaving:
            # Everybody leaves, as it should be: no failure of one rank.
            left = leaving
    if left is not None:
        raise left


def in_turns(comm: Communicator, blocks: Iterable[B], work: Callable[[B], R]) -> Iterator[R]:
    """What ``work`` makes of each block, in their order, on rank 0.

    All ranks read the same blocks, and each works on every size-th of them. What fails on one
    rank fails on all, with its error.
    """
    from maxplus.distributed import SERIAL, using

    left = iter(blocks)
    while True:
        # Each rank reads by itself what the others read as well.
        with using(SERIAL):
            some = list(islice(left, comm.size))
        own = None
        with comm.raise_on_all_ranks(), using(SERIAL):
            own = work(some[comm.rank]) if comm.rank < len(some) else None
        done = comm.allgather(own)[: len(some)]
        if not some:
            return
        if comm.is_first:
            yield from done  # type: ignore[misc]


def leave_to_first() -> None:
    """End this process if another one of the launcher's runs the command for all."""
    from maxplus.distributed.communicator import is_launched, launched_rank

    if is_launched() and launched_rank() > 0:
        raise typer.Exit


def refuse_over_ranks(option: str, remedy: str) -> NoReturn:
    """ValueError for an option that is for one process, on all ranks."""
    from maxplus.distributed.communicator import mark_collective

    raise mark_collective(
        ValueError(f"{option} is for one process; leave it out over several ranks, and {remedy}")
    )


def require_file(comm: Communicator, data: str) -> None:
    """ValueError for standard input over several ranks, which one of them alone has."""
    from maxplus.tables.bytes_of import STDIN

    if not comm.is_alone and data == STDIN:
        refuse_over_ranks("standard input", "name a file for DATA")
