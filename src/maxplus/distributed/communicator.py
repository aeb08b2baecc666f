"""Communicators: the messages that the ranks of a training exchange.

Code is written once, for a `Communicator`. Usually that is `SERIAL`, a single process, where every
message is returned as it is, at no cost.
"""

from __future__ import annotations

import os
import pickle
import sys
from abc import ABC, abstractmethod
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
    """Ranks that are to train one model were called with different arguments."""


class Communicator(ABC):
    """Messages among the ranks 0..size−1 of a training; each has rows of its own.

    All ranks call the same methods in the same order. Rows are numbered consecutively, those of
    rank 0 first. Weights, random generators and histories are the same on all ranks.
    """

    rank: int
    size: int
    # Processors for each rank, where several share a machine.
    cores: int | None = None
    # Index of this rank among those on its machine.
    place: int = 0

    @property
    def is_first(self) -> bool:
        """True on rank 0, which writes files and prints."""
        return self.rank == 0

    @property
    def is_alone(self) -> bool:
        """True for a single rank."""
        return self.size == 1

    # -- messages --------------------------------------------------------------------------------

    @abstractmethod
    def allgather(self, thing: T) -> list[T]:
        """Return the objects of all ranks, in their order."""

    @abstractmethod
    def bcast(self, thing: T) -> T:
        """Return the object of rank 0."""

    @abstractmethod
    def allgatherv(self, rows: NDArray) -> NDArray:
        """Return the rows of all ranks, concatenated in their order."""

    @abstractmethod
    def gather(self, rows: NDArray) -> NDArray:
        """Return the rows of all ranks on rank 0, and none of them on the others."""

    @abstractmethod
    def sum(self, array: NDArray) -> NDArray:
        """Return the sum over all ranks, added in their order: the same bits on all of them."""

    @abstractmethod
    def meet(self, own: NDArray, received: NDArray) -> None:
        """Fill ``received`` (size, …) with each rank's ``own``: few numbers, low latency."""

    @abstractmethod
    def allreduce_or(self, numbers: NDArray) -> None:
        """Combine numbers each of which is 0 on all ranks but one; in place, bit by bit."""

    @abstractmethod
    def nearby(self, n: int) -> list[int]:
        """Return the numbers of the ranks that share memory with this one."""

    @abstractmethod
    def shared(self, shape: tuple[int, ...]) -> NDArray:
        """Return float64 numbers in memory that those ranks share, one array for each shape."""

    # -- derived operations ----------------------------------------------------------------------

    def total(self, n: int) -> int:
        """Return the sum of an integer over all ranks."""
        return n if self.is_alone else sum(self.allgather(n))

    def before(self, n: int) -> int:
        """Return the sum over the ranks before this one: the number of its first row."""
        return 0 if self.is_alone else sum(self.allgather(n)[: self.rank])

    def largest(self, value: float) -> float:
        """Return the maximum over all ranks; NaN if any value is."""
        return value if self.is_alone else float(np.max(self.allgather(value)))

    def mean(self, values: NDArray) -> float:
        """Return the mean of the values of all ranks."""
        if self.is_alone:
            return float(values.mean())
        total, n = self.sum(np.array([values.sum(dtype=np.float64), len(values)]))
        return float(total / n)

    def any(self, truth: bool) -> bool:
        """Return whether it is true on any rank."""
        return truth if self.is_alone else any(self.allgather(truth))

    def agree(self, facts: Mapping[str, Any]) -> None:
        """Raise DifferentRanksError, on all ranks, if their facts differ."""
        if self.is_alone:
            return
        by_rank = self.allgather(tuple(facts.values()))
        for name, values in zip(facts, zip(*by_rank, strict=True), strict=True):
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
        """Raise an error of any rank inside on all ranks; no messages may be sent inside."""
        if self.is_alone:
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

        A single process passes its rows themselves; otherwise ``work`` gets a `SharedRows`, or the
        ``whole`` of another ``Share``, which requests the rows it needs from the other ranks.
        """
        if self.is_alone:
            return work(rows)
        from maxplus.distributed.shared_rows import RowsShare, run_root_only

        share = RowsShare(rows) if isinstance(rows, np.ndarray) else rows
        return run_root_only(self, work, share)

    def raised_on_all_ranks(self, error: BaseException) -> bool:
        """Return whether all ranks have raised this error: then none waits for another."""
        return True


class SerialCommunicator(Communicator):
    """A single process, whose messages are returned as they are."""

    rank = 0
    size = 1

    def allgather(self, thing: T) -> list[T]:
        """Return a list of the object."""
        return [thing]

    def bcast(self, thing: T) -> T:
        """Return the object."""
        return thing

    def allgatherv(self, rows: NDArray) -> NDArray:
        """Return the rows."""
        return rows

    def gather(self, rows: NDArray) -> NDArray:
        """Return the rows."""
        return rows

    def sum(self, array: NDArray) -> NDArray:
        """Return the array."""
        return array

    def meet(self, own: NDArray, received: NDArray) -> None:
        """Copy the numbers."""
        received[0] = own

    def allreduce_or(self, numbers: NDArray) -> None:
        """Do nothing."""

    def nearby(self, n: int) -> list[int]:
        """Return a list of the number."""
        return [n]

    def shared(self, shape: tuple[int, ...]) -> NDArray:
        """Return new numbers."""
        return np.zeros(shape)


SERIAL = SerialCommunicator()


def mark_collective(error: E) -> E:
    """Mark an error as raised by all ranks, so that the other ranks need not be ended."""
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
    """Return the communicator of trainings; a single process unless `use_mpi` is active.

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
    """Use a communicator for the trainings inside.

    Parameters
    ----------
    communicator : Communicator

    Yields
    ------
    Communicator
        The same.

    Examples
    --------
    >>> from maxplus.distributed import SERIAL, current, using
    >>> with using(SERIAL):  # also inside `use_mpi`
    ...     current().is_alone
    True
    """
    token = _CURRENT.set(communicator)
    try:
        yield communicator
    finally:
        _CURRENT.reset(token)


@contextmanager
def use_mpi(comm: Any = None) -> Iterator[Communicator]:
    """Let all ranks of an MPI communicator train one model, each with rows of its own.

    Every rank makes the same calls inside. Classifiers are then fitted on the rows of all ranks,
    those of rank 0 first. Afterwards every rank has the fitted model, and what belongs to training
    rows (``training_losses_``) for its own rows. An error on one rank ends all of them.

    Parameters
    ----------
    comm : mpi4py communicator, optional
        All ranks that the program was started with by default.

    Yields
    ------
    Communicator
        The communicator: ``rank`` of ``size``, and the messages among the ranks.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import maxplus
    >>> X, y = load_iris(return_X_y=True)
    >>> with maxplus.distributed.use_mpi() as comm:  # of mpiexec -n 4: each has every fourth flower
    ...     clf = maxplus.SubgradientLMMClassifier(12, max_iter=5, random_state=0)
    ...     clf = clf.fit(X[comm.rank :: comm.size], y[comm.rank :: comm.size])
    >>> clf.n_features_in_
    4
    """
    from maxplus.distributed.mpi import MPICommunicator

    communicator = MPICommunicator.of(comm)
    try:
        with using(communicator):
            communicator.check_software()
            yield communicator
    except BaseException as error:
        if not communicator.raised_on_all_ranks(error):
            communicator.end(error)
        if not communicator.is_first:
            _print_on_first_only(error)
        raise
    finally:
        communicator.close()


def _print_on_first_only(error: BaseException) -> None:
    """Suppress the traceback of an error that ends this program: rank 0 prints the same one."""
    usual = sys.excepthook

    def hook(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        if value is not error:
            usual(kind, value, trace)

    sys.excepthook = hook


# -- launchers -----------------------------------------------------------------------------------

# Environment variables in which MPI launchers, SLURM's among them, pass the number of processes.
SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PMIX_SIZE", "MV2_COMM_WORLD_SIZE")
# And the rank of the process.
RANKS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK")


def is_launched() -> bool:
    """Return whether an MPI launcher has started this process together with others."""
    # With PMIx, SLURM passes the number of ranks in a variable of its own.
    by_slurm = "PMIX_RANK" in os.environ and _number("SLURM_STEP_NUM_TASKS") > 1
    return by_slurm or any(_number(name) > 1 for name in SIZES)


def launched_rank() -> int:
    """Return the rank that the launcher gave this process."""
    return max(_number(name) for name in RANKS)


def _number(name: str) -> int:
    found = os.environ.get(name, "")
    return int(found) if found.isdigit() else 0
