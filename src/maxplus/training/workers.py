"""Trainings side by side, in threads that use one core each."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numba
from threadpoolctl import threadpool_limits

# How soon somebody who asks for the end is heard, in seconds.
HEARD_WITHIN = 0.05


def workers(n: int) -> ThreadPoolExecutor:
    """A pool of n threads; what is done there does not depend on n.

    Call it, and use it, inside ``threadpool_limits(1)``: some libraries for matrix products have
    one setting for all threads.
    """
    return ThreadPoolExecutor(n, initializer=_use_one_core)


def _use_one_core() -> None:
    numba.set_num_threads(1)
    threadpool_limits(1)
