"""Communicators: collective operations of the ranks of a fit.

The same code runs on one or several ranks: it uses a `Communicator`, by default `SERIAL`, which is
a single process.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)


class DifferentRanksError(ValueError):
    """Error raised if arguments, data types or software versions differ between ranks."""


class Communicator:
    """Collective operations of the ranks 0..size−1 of a fit, each of which has a part of the rows.

    This base class is for a single process: its operations return their arguments. A subclass for
    several ranks overrides them. All ranks call the same methods in the same order. Rows are
    numbered consecutively, those of rank 0 first. Weights, random generators and histories are the
    same on all ranks.
    """

    rank: int = 0
    size: int = 1
    # Number of processors for each rank; None for a single process.
    cores: int | None = None
    # Rank of this process among the ranks on its machine.
    local_rank: int = 0

    @property
    def is_root(self) -> bool:
        """True on rank 0, which writes files and prints."""
        return self.rank == 0

    @property
    def is_serial(self) -> bool:
        """True for a single rank."""
        return self.size == 1

    # -- operations that subclasses override -----------------------------------------------------

    def allgather(self, obj: T) -> list[T]:
        """Return the objects of all ranks, in their order."""
        return [obj]

    def bcast(self, obj: T) -> T:
        """Return the object of rank 0."""
        return obj

    def allgatherv(self, rows: NDArray) -> NDArray:
        """Return the rows of all ranks, concatenated in their order."""
        return rows

    def gather(self, rows: NDArray) -> NDArray:
        """Return the rows of all ranks on rank 0, and an empty array on other ranks."""
        return rows

    def sum(self, array: NDArray) -> NDArray:
        """Return the sum over all ranks, added in their order: bit-identical on all ranks."""
        return array

    def allgather_into(self, own: NDArray, received: NDArray) -> None:
        """Fill ``received`` (size, …) with ``own`` of each rank; fast for short messages."""
        received[0] = own

    def allreduce_or(self, values: NDArray) -> None:
        """Set ``values`` to the bitwise OR over all ranks; each is 0 on all ranks except one."""

    def allgather_local(self, n: int) -> list[int]:
        """Return ``n`` of each rank that shares memory with this rank."""
        return [n]

    def shared_memory(self, shape: tuple[int, ...]) -> NDArray:
        """Return a float64 array that the ranks of this machine share; one array per shape."""
        return np.zeros(shape)

    def is_collective_error(self, error: BaseException) -> bool:
        """Return whether all ranks have raised this error, so that no rank waits for another."""
        return True

    # -- derived operations ----------------------------------------------------------------------

    def total(self, n: int) -> int:
        """Return the sum of an integer over all ranks."""
        return sum(self.allgather(n))

    def exscan(self, n: int) -> int:
        """Return the sum over the ranks before this one: the number of its first row."""
        return sum(self.allgather(n)[: self.rank])

    def largest(self, value: float) -> float:
        """Return the maximum over all ranks; NaN if any value is NaN."""
        return float(np.max(self.allgather(value)))

    def mean(self, values: NDArray) -> float:
        """Return the mean of the values of all ranks."""
        if self.is_serial:
            return float(values.mean())
        total, n = self.sum(np.array([values.sum(dtype=np.float64), len(values)]))
        return float(total / n)

    def any(self, truth: bool) -> bool:
        """Return whether ``truth`` holds on any rank."""
        return any(self.allgather(truth))

    def require_equal(self, settings: Mapping[str, Any]) -> None:
        """Raise DifferentRanksError, on all ranks, if their values of ``settings`` differ."""
        if self.is_serial:
            return
        by_rank = self.allgather(tuple(settings.values()))
        for name, values in zip(settings, zip(*by_rank, strict=True), strict=True):
            for rank, value in enumerate(values):
                if value != values[0]:
                    raise mark_collective(
                        DifferentRanksError(
                            f"ranks must have the same {name}; rank 0 has {values[0]!r:.80}, rank "
                            f"{rank} has {value!r:.80}"
                        )
                    )

    @contextmanager
    def raise_on_all_ranks(self) -> Iterator[None]:
        """Raise an error of any rank on all ranks; no collective operations are allowed inside."""
        if self.is_serial:
            yield
            return
        own: Exception | None = None
        try:
            yield
        except Exception as error:
            own = error
        pickled = self.allgather(None if own is None else _pickled(own))
        errors: list[Any] = [None if error is None else pickle.loads(error) for error in pickled]
        failed = [rank for rank, error in enumerate(errors) if error is not None]
        if not failed:
            return
        reason: Exception = errors[failed[0]]
        if len({str(errors[rank]) for rank in failed}) > 1 or len(failed) < self.size:
            message = f"rank {failed[0]} of {self.size}: {reason}"
            reason = type(reason)(message) if _has_only_a_message(reason) else ValueError(message)
        raise mark_collective(reason) from own

    def root_only(self, work: Callable[[Any], T], rows: Any) -> T:
        """Run ``work(all rows)`` on rank 0 and return its result, or raise its error, on all ranks.

        In a single process, ``work`` gets ``rows``. Otherwise it gets a `SharedRows` (or, if
        ``rows`` is a ``Share``, its ``whole``), which requests rows from other ranks.
        """
        if self.is_serial:
            return work(rows)
        from maxplus.distributed.shared_rows import RowsShare, run_root_only

        share = RowsShare(rows) if isinstance(rows, np.ndarray) else rows
        return run_root_only(self, work, share)


SERIAL = Communicator()


def mark_collective(error: E) -> E:
    """Mark an error as raised on all ranks, so that the other ranks need not be aborted."""
    error.is_collective = True  # type: ignore[attr-defined]
    return error


def _pickled(error: Exception) -> bytes:
    """Pickle an error; one that cannot be pickled becomes a RuntimeError."""
    try:
        data = pickle.dumps(error)
        pickle.loads(data)
    except Exception:
        data = pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return data


def _has_only_a_message(error: Exception) -> bool:
    return len(error.args) == 1 and isinstance(error.args[0], str)


# -- the current communicator --------------------------------------------------------------------

_CURRENT: ContextVar[Communicator] = ContextVar("communicator", default=SERIAL)


def current() -> Communicator:
    """Return the current communicator: a single process unless `use_mpi` is active.

    Returns
    -------
    Communicator

    Examples
    --------
    >>> from maxplus.distributed import current
    >>> current().rank, current().size
    (0, 1)
    """
    return _CURRENT.get()


@contextmanager
def using(communicator: Communicator) -> Iterator[Communicator]:
    """Make a communicator the current one inside a ``with`` block.

    Parameters
    ----------
    communicator : Communicator

    Yields
    ------
    Communicator
        The given communicator.

    Examples
    --------
    >>> from maxplus.distributed import SERIAL, current, using
    >>> with using(SERIAL):  # also inside `use_mpi`
    ...     current().is_serial
    True
    """
    token = _CURRENT.set(communicator)
    try:
        yield communicator
    finally:
        _CURRENT.reset(token)


@contextmanager
def use_mpi(comm: Any = None) -> Iterator[Communicator]:
    """Train with all ranks of an MPI communicator, each of which passes a part of the rows.

    Every rank makes the same calls inside. Classifiers are fitted on the rows of all ranks, those
    of rank 0 first. Afterwards every rank has the fitted model; attributes of training rows
    (``training_losses_``) refer to the rows of this rank. An error on some but not all
    ranks is printed and aborts all ranks.

    Parameters
    ----------
    comm : mpi4py communicator, optional
        By default ``MPI.COMM_WORLD``, all ranks of the program.

    Yields
    ------
    Communicator
        The communicator, with the attributes ``rank`` and ``size``.

    Raises
    ------
    ImportError
        If mpi4py is not installed, or was built for another MPI than the launcher.
    DifferentRanksError
        If the ranks run different versions of maxplus, Python, NumPy or Numba.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import maxplus
    >>> X, y = load_iris(return_X_y=True)
    >>> with maxplus.distributed.use_mpi() as comm:  # mpiexec -n 4: each has every fourth row
    ...     clf = maxplus.SubgradientLMMClassifier(12, max_iter=5, random_state=0)
    ...     clf = clf.fit(X[comm.rank :: comm.size], y[comm.rank :: comm.size])
    >>> clf.n_features_in_
    4
    """
    from maxplus.distributed.mpi import MPICommunicator

    communicator = MPICommunicator.from_comm(comm)
    try:
        with using(communicator):
            communicator.check_software()
            yield communicator
    except BaseException as error:
        if not communicator.is_collective_error(error):
            communicator.abort(error)
        if not communicator.is_root:
            _suppress_traceback(error)
        raise
    finally:
        communicator.close()


def _suppress_traceback(error: BaseException) -> None:
    """Suppress the traceback of an error that ends this program, because rank 0 prints it."""
    usual = sys.excepthook

    def hook(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        if value is not error:
            usual(kind, value, trace)

    sys.excepthook = hook


# -- launchers -----------------------------------------------------------------------------------

# Environment variables in which MPI launchers, including SLURM, pass the number of processes.
SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PMIX_SIZE", "MV2_COMM_WORLD_SIZE")
# Environment variables in which they pass the rank of the process.
RANKS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK")


def is_launched() -> bool:
    """Return whether an MPI launcher has started this process together with others."""
    # With PMIx, SLURM passes the number of ranks in another variable.
    by_slurm = "PMIX_RANK" in os.environ and _number("SLURM_STEP_NUM_TASKS") > 1
    return by_slurm or any(_number(name) > 1 for name in SIZES)


def launched_rank() -> int:
    """Return the rank that the launcher gave this process."""
    return max(_number(name) for name in RANKS)


def _number(name: str) -> int:
    found = os.environ.get(name, "")
    return int(found) if found.isdigit() else 0
