"""Status, history and resumable state of training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

# Prefix of the arrays of a state with the results of earlier stages.
BEFORE = "before."


class TrainingOverflowError(ArithmeticError, ValueError):
    """Error raised if a loss or a weight is not finite, so that training has no result."""


class Signal(IntEnum):
    """Reason why a block of iterations ended; CONTINUE if the block is complete."""

    CONTINUE = 0
    TARGET = 1
    STATIONARY = 2
    OVERFLOW = 3


class Status(Enum):
    """Reason why training ended: the value is a short code, ``message`` a sentence."""

    MAX_ITER = "max_iter", "all iterations done"
    TARGET = "target", "the objective reached the target"
    STATIONARY = "stationary", "the subgradient is zero, or its squared norm overflows"
    OVERFLOW = "overflow", "a score overflowed: scale the features or take smaller steps"
    VALIDATION = "validation", "the validation accuracy stopped improving"
    POLISHED = "polished", "every training loss is below the polish's level"
    SKIPPED = "skipped", "all losses except those of allowed suspects are below the polish's level"
    GIVEN_UP = "given_up", "the polish could not bring all samples below its level: see suspects_"
    UNFIT = "unfit", "some training losses are not below the polish's level: see suspects_"
    CALLBACK = "callback", "stopped by a callback"
    INTERRUPTED = "interrupted", "interrupted by the user"

    message: str

    def __new__(cls, code: str, message: str) -> Status:
        """Create a member whose value is the code."""
        status = object.__new__(cls)
        status._value_, status.message = code, message
        return status

    @classmethod
    def from_text(cls, text: str) -> Status:
        """Return the status with a code or a message; ValueError for any other text."""
        for status in cls:
            if text in (status.value, status.message):
                return status
        raise ValueError(f"there is no status {text!r:.60}")

    @property
    def is_failure(self) -> bool:
        """True if a score overflowed, or if the polish gave up on samples."""
        return self in (Status.GIVEN_UP, Status.OVERFLOW)

    @property
    def ends_training(self) -> bool:
        """True if Ctrl-C or a callback ended training, so that no other stage follows."""
        return self in (Status.INTERRUPTED, Status.CALLBACK)


class Block:
    """Buffers for the history of a block of iterations, of which the first ``n`` are done."""

    def __init__(self, size: int) -> None:
        self.loss = np.empty(size)
        self.sample = np.empty(size, np.int64)
        self.step = np.empty(size)
        self.n = 0
        self.signal = Signal.CONTINUE

    def record(self, loss: float, sample: int, step: float) -> None:
        """Append one iteration."""
        self.loss[self.n], self.sample[self.n], self.step[self.n] = loss, sample, step
        self.n += 1

    def end(self, loss: float, sample: int, signal: Signal) -> None:
        """Append the last iteration, in which no step is taken."""
        self.record(loss, sample, 0.0)
        self.signal = signal


class History(Mapping[str, NDArray]):
    """Arrays with an entry per iteration: ``loss``, ``sample`` and ``step``.

    ``loss`` is the objective before the step, ``sample`` the index of the sample that determines
    it, or −1, and ``step`` the step size. The engine "sgd" records the drawn sample and its loss,
    and a step of 0 if the loss is at most the target. For all engines, the last step is 0 if the
    target was reached, the subgradient is zero or a score overflowed.
    """

    columns: ClassVar[dict[str, type]] = {
        "loss": np.float64,
        "sample": np.int64,
        "step": np.float64,
    }

    def __init__(self) -> None:
        # Each change is one append or one assignment, so that an interrupt cannot split it.
        self._blocks: list[dict[str, NDArray]] = [
            {name: np.empty(0, dtype) for name, dtype in self.columns.items()}
        ]

    @classmethod
    def from_columns(cls, columns: Mapping[str, NDArray]) -> History:
        """Return a history with the arrays ``columns``, which must contain ``History.columns``."""
        history = cls()
        history._blocks = [{name: columns[name] for name in cls.columns}]
        return history

    def append(self, block: Block) -> None:
        """Append the iterations of a block."""
        self._blocks.append({name: getattr(block, name)[: block.n].copy() for name in self.columns})

    def extend(self, other: History) -> None:
        """Append another history."""
        self._blocks.append(dict(other))

    def map_samples(self, index: NDArray) -> None:
        """Replace sample numbers n ≥ 0 by index[n], in place."""
        old = self["sample"]
        self._blocks = [{**self._blocks[0], "sample": np.where(old >= 0, index[old], old)}]

    def __getitem__(self, name: str) -> NDArray:
        """Return one column over all iterations."""
        if len(self._blocks) > 1:
            blocks = self._blocks
            self._blocks = [{n: np.concatenate([b[n] for b in blocks]) for n in self.columns}]
        return self._blocks[0][name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the column names."""
        return iter(self.columns)

    def __len__(self) -> int:
        """Return the number of columns."""
        return len(self.columns)

    def __repr__(self) -> str:
        """Return the class name and the number of iterations."""
        return f"History({self['loss'].size} iterations)"


class StateError(ValueError):
    """Error about a state from which training cannot resume."""


@dataclass(frozen=True)
class TrainingState:
    """State to resume training from: the arrays of a stage and the state of the generator.

    Only the stage that wrote a state validates and reads it; other code uses the arrays whose names
    begin with `BEFORE`.
    """

    stage: str
    arrays: Mapping[str, NDArray]
    generator: Mapping[str, Any] | None

    @property
    def before(self) -> dict[str, NDArray]:
        """The results of earlier stages."""
        return self.part(BEFORE)

    def part(self, prefix: str) -> dict[str, NDArray]:
        """Return the arrays whose names begin with ``prefix``, keyed by the rest of their names."""
        return {
            name.removeprefix(prefix): array
            for name, array in self.arrays.items()
            if name.startswith(prefix)
        }

    def with_earlier_results(self, before: Mapping[str, NDArray]) -> TrainingState:
        """Return the same state with the results of earlier stages."""
        return replace(self, arrays={**self.arrays, **prefixed(BEFORE, before)})

    def array(
        self, name: str, dtype: type, shape: tuple[int | None, ...], *, finite: bool = True
    ) -> NDArray:
        """Return an array; StateError if it is missing or invalid.

        None in ``shape`` stands for any length.
        """
        array = self.arrays.get(name)
        if array is None:
            raise StateError(f"the {self.stage}'s {name} is missing")
        fits = len(shape) == array.ndim and all(
            n in (None, m) for n, m in zip(shape, array.shape, strict=True)
        )
        if array.dtype != dtype or not fits:
            expected = f"{np.dtype(dtype)} of shape {shape}"
            raise StateError(
                f"the {self.stage}'s {name} is {array.dtype} of shape {array.shape}, not {expected}"
            )
        if finite and not np.isfinite(array).all():
            raise StateError(f"the {self.stage}'s {name} contains values that are not finite")
        return array

    def restore_generator(self, rng: np.random.Generator | None) -> None:
        """Set ``rng`` to the saved state, unless one of them is None.

        Raise StateError if the saved state is invalid.
        """
        if rng is None or self.generator is None:
            return
        try:
            rng.bit_generator.state = self.generator
        except (TypeError, ValueError, KeyError, OverflowError) as error:
            raise StateError(f"the state of the random generator is invalid: {error!r}") from None


def prefixed(prefix: str, arrays: Mapping[str, NDArray]) -> dict[str, NDArray]:
    """Return the arrays under names that begin with ``prefix``."""
    return {prefix + name: array for name, array in arrays.items()}


def generator_state(rng: np.random.Generator | None) -> Mapping[str, Any] | None:
    """Return the state of a generator for `TrainingState.restore_generator`; None without one."""
    return None if rng is None else rng.bit_generator.state
