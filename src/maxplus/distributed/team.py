"""What ranks tell each other; alone, every question answers itself."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from maxplus._compile.aligned import LINE

# Of fewer numbers for each rank, whole lines would be many more.
LONG = 16 * LINE

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)


class DifferentRanksError(ValueError):
    """Ranks that are to train one model have come with different things."""


class Team:
    """Ranks 0..size−1 with the same weights and rows of their own; this one is alone.

    All ranks call the same methods in the same order. Rows are numbered through: those of rank 0
    come first. A larger team has a subclass that carries messages (`every`, `first`, `gather`,
    `collect`, `add_up`, `spread`, `meet`, `unite`, `nearby` and `shared`); the rest follows.
    """

    rank: int = 0
    size: int = 1
    # Processors for each rank, where several share a machine.
    cores: int | None = None
    # Where this rank is among those that share memory.
    place: int = 0

    @property
    def is_first(self) -> bool:
        """Whether this rank is the one that writes and speaks."""
        return self.rank == 0

    @property
    def is_alone(self) -> bool:
        """Whether nobody else is there."""
        return self.size == 1

    # -- messages --------------------------------------------------------------------------------

    def every(self, thing: T) -> list[T]:
        """What each rank has, in order."""
        return [thing]

    def first(self, thing: T) -> T:
        """What rank 0 has."""
        return thing

    def gather(self, rows: NDArray) -> NDArray:
        """The rows of all ranks, one rank's after the other's."""
        return rows

    def collect(self, rows: NDArray) -> NDArray:
        """`gather` for rank 0 alone; the others get none of them."""
        return rows

    def sum(self, array: NDArray) -> NDArray:
        """The sum over all ranks, added in their order: everywhere the same to the last bit."""
        if not self.is_alone:
            whole = np.zeros(self._padded_if_long(array.size), array.dtype)
            whole[: array.size] = np.ravel(array)
            self.part(whole)[:] = self.add_up(whole)
            self.spread(whole)
            array = whole[: array.size].reshape(np.shape(array))
        return array

    def padded(self, n: int) -> int:
        """So many, or some more: each rank's part of them is whole lines of memory.

        As many numbers as a line has bytes are whole lines, whatever their type.
        """
        return n if self.is_alone else n + -n % (LINE * self.size)

    def _padded_if_long(self, n: int) -> int:
        """As `padded`, where the lines that are added to are many more than those added."""
        return self.padded(n) if n > LONG * self.size else n + -n % self.size

    def part(self, numbers: NDArray) -> NDArray:
        """Those that are this rank's, of numbers in a row with as many for each."""
        return numbers.reshape(self.size, -1)[self.rank]

    def add_up(self, numbers: NDArray) -> NDArray:
        """The part of this rank in the sum over all ranks; the next call may write over it."""
        return numbers

    def spread(self, numbers: NDArray) -> None:
        """Fill in the parts of the others, each as its rank has it; in place."""

    def meet(self, own: NDArray, everybody: NDArray) -> None:
        """Fill ``everybody`` (size, …) with what each rank has in ``own``: small and soon."""
        everybody[0] = own

    def unite(self, numbers: NDArray) -> None:
        """Each number, which is 0 on all ranks but one, everywhere; in place, to the last bit."""

    def nearby(self, n: int) -> list[int]:
        """What each rank has that shares memory with this one."""
        return [n]

    def shared(self, shape: tuple[int, ...]) -> NDArray:
        """Numbers that all of those see; the same memory for the same shape."""
        return np.zeros(shape)

    # -- what follows ----------------------------------------------------------------------------

    def total(self, n: int) -> int:
        """The sum of a whole number."""
        return n if self.is_alone else sum(self.every(n))

    def before(self, n: int) -> int:
        """The sum over the ranks before this one: where its n rows begin."""
        return 0 if self.is_alone else sum(self.every(n)[: self.rank])

    def largest(self, value: float) -> float:
        """The largest of a number; NaN if any is."""
        return value if self.is_alone else float(np.max(self.every(value)))

    def mean(self, values: NDArray) -> float:
        """The mean over the values of all ranks."""
        if self.is_alone:
            return float(values.mean())
        total, n = self.sum(np.array([values.sum(dtype=np.float64), len(values)]))
        return float(total / n)

    def any(self, truth: bool) -> bool:
        """Whether it is true anywhere."""
        return truth if self.is_alone else any(self.every(truth))

    def agree(self, facts: Mapping[str, Any]) -> None:
        """DifferentRanksError, on all ranks, if they come with different facts."""
        if self.is_alone:
            return
        for name, told in zip(facts, zip(*self.every(tuple(facts.values())), strict=True),
                              strict=True):  # fmt: skip
            for rank, value in enumerate(told):
                if value != told[0]:
                    raise agreed(
                        DifferentRanksError(
                            f"ranks must have the same {name}; rank 0 has {told[0]!r:.80}, rank "
                            f"{rank} has {value!r:.80}"
                        )
                    )

    @contextmanager
    def together(self) -> Iterator[None]:
        """What fails on one rank inside fails on all of them, with its error."""
        if self.is_alone:
            yield
            return
        own: Exception | None = None
        try:
            yield
        except Exception as error:
            own = error
        told: list[Any] = [None if failure is None else pickle.loads(failure)
                for failure in self.every(None if own is None else _packed(own))]  # fmt: skip
        failed = [rank for rank, error in enumerate(told) if error is not None]
        if not failed:
            return
        reason: Exception = told[failed[0]]
        if len({str(told[rank]) for rank in failed}) > 1 or len(failed) < self.size:
            message = f"rank {failed[0]} of {self.size}: {reason}"
            reason = type(reason)(message) if _is_plain(reason) else ValueError(message)
        raise agreed(reason) from own

    def on_first(self, work: Callable[[Any], T], rows: Any) -> T:
        """What ``work`` makes of all rows; it runs on rank 0, which asks the others for theirs.

        ``work`` is given the rows themselves where nobody else is there, else a `SharedRows`, or
        what the whole is of another ``Share``.
        """
        if self.is_alone:
            return work(rows)
        from maxplus.distributed.asking import work_on_first
        from maxplus.distributed.shared_rows import RowsShare

        share = RowsShare(rows) if isinstance(rows, np.ndarray) else rows
        return work_on_first(self, work, share)

    def fails_alike(self, error: BaseException) -> bool:
        """Whether all ranks have come to this error: then none of them waits for another."""
        return True

    def end(self, error: BaseException) -> None:
        """One rank has failed by itself: no other may wait for it."""


def agreed(error: E) -> E:
    """An error that all ranks raise: none of them waits for another."""
    error.agreed = True  # type: ignore[attr-defined]
    return error


def _packed(error: Exception) -> bytes:
    """An error as others can read it; one that cannot travel becomes a RuntimeError."""
    try:
        data = pickle.dumps(error)
        pickle.loads(data)
    except Exception:
        data = pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return data


def _is_plain(error: Exception) -> bool:
    """Whether it can be made of a message."""
    return len(error.args) == 1 and isinstance(error.args[0], str)


ALONE = Team()
