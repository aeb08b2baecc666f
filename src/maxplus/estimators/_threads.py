"""``n_jobs`` for kernels that Numba runs in parallel, and for matrix products."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import numba
from threadpoolctl import threadpool_limits

from maxplus.distributed import current
from maxplus.estimators._parameters import THREADS, check_value


@contextmanager
def threads(n_jobs: int | None) -> Iterator[None]:
    """Run kernels on ``n_jobs`` threads; −1 is all that Numba has, −2 all but one.

    None leaves Numba's own setting, which is all unless the user changed it; ranks that share a
    machine's cores divide them.

    Kernels give the same results with any number of threads; matrix products, which only a
    warm-up has, may differ in their last digits.
    """
    available = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    if n_jobs is None:
        wanted = numba.get_num_threads()
        shared = current().cores
        if shared is not None:
            wanted, n_jobs = min(wanted, shared), shared
    else:
        jobs = int(check_value("n_jobs", n_jobs, THREADS))
        wanted = min(jobs, available) if jobs > 0 else available + 1 + jobs
    before = numba.get_num_threads()
    numba.set_num_threads(max(1, wanted))
    try:
        with nullcontext() if n_jobs is None else threadpool_limits(max(1, wanted), "blas"):
            yield
    finally:
        numba.set_num_threads(before)
