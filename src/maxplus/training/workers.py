"""Trainings side by side, in threads that use one core each."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import TypeVar

import numba
from threadpoolctl import threadpool_limits

from maxplus.distributed import ALONE, current, using
from maxplus.training.conductor import Conductor

# How soon somebody who asks for the end is heard, in seconds.
HEARD_WITHIN = 0.05

R = TypeVar("R")


def workers(n: int) -> ThreadPoolExecutor:
    """A pool of n threads; what is done there does not depend on n.

    Call it, and use it, inside ``threadpool_limits(1)``: some libraries for matrix products have
    one setting for all threads.
    """
    return ThreadPoolExecutor(n, initializer=_use_one_core)


def as_they_end(
    jobs: Sequence[Callable[[], R]], n: int, conductor: Conductor, quiet: Conductor
) -> Generator[tuple[int, R], None, None]:
    """Do jobs in n threads; each one's number and result, as soon as it is there.

    Ends early when somebody interrupts the conductor, or the caller asks for no more. Jobs that
    are still at work then hear of it from ``quiet``. Ranks that all have the same jobs share them,
    and hear of results together, in their order.
    """
    team = current()
    if not team.is_alone:
        with team.together(), using(ALONE):
            own = range(team.rank, len(jobs), team.size)
            ended = as_they_end([jobs[k] for k in own], n, conductor, quiet)
            mine = {own[k]: result for k, result in ended}
        told = team.every(mine)
        results = {k: result for part in told for k, result in part.items()}
        yield from sorted(results.items(), key=lambda item: item[0])
        return
    pool = workers(n)
    left = {}
    try:
        left = {pool.submit(job): k for k, job in enumerate(jobs)}
        while left and not conductor.interrupted:
            wait(left, HEARD_WITHIN, FIRST_COMPLETED)
            for future in [future for future in left if future.done()]:
                yield left.pop(future), future.result()
    finally:
        quiet.interrupted = bool(left)
        pool.shutdown(cancel_futures=True)


def _use_one_core() -> None:
    numba.set_num_threads(1)
    threadpool_limits(1)
