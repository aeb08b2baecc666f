"""A training in the middle: all that is needed to go on as if it had never stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

# What was settled before the stage began, such as how earlier stages went.
BEFORE = "before."


class StateError(ValueError):
    """A state that no training can go on from; the message says what is wrong with it."""


@dataclass(frozen=True)
class TrainingState:
    """Whose state it is, its arrays, weights among them, and the random generator's state.

    The stage that wrote it is the one that checks and reads it; nobody else looks into its
    arrays, but for those that begin with `BEFORE`.
    """

    stage: str
    arrays: Mapping[str, NDArray]
    generator: Mapping[str, Any] | None

    @property
    def before(self) -> dict[str, NDArray]:
        """What was settled before the stage began."""
        return self.part(BEFORE)

    def part(self, prefix: str) -> dict[str, NDArray]:
        """The arrays whose names begin with ``prefix``, by the rest of their names."""
        return {
            name.removeprefix(prefix): array
            for name, array in self.arrays.items()
            if name.startswith(prefix)
        }

    def after(self, before: Mapping[str, NDArray]) -> TrainingState:
        """The same state with what was settled before it."""
        return replace(self, arrays={**self.arrays, **prefixed(BEFORE, before)})

    def array(
        self, name: str, dtype: type, shape: tuple[int | None, ...], *, finite: bool = True
    ) -> NDArray:
        """One of the arrays, checked; None in ``shape`` is any length."""
        array = self.arrays.get(name)
        if array is None:
            raise StateError(f"the {self.stage}'s {name} is missing")
        fits = len(shape) == array.ndim and all(
            n in (None, m) for n, m in zip(shape, array.shape, strict=True)
        )
        if array.dtype != dtype or not fits:
            wanted = f"{np.dtype(dtype)} of shape {shape}"
            raise StateError(
                f"the {self.stage}'s {name} is {array.dtype} of shape {array.shape}, not {wanted}"
            )
        if finite and not np.isfinite(array).all():
            raise StateError(f"the {self.stage}'s {name} holds numbers that are not finite")
        return array

    def restore_generator(self, rng: np.random.Generator | None) -> None:
        """Have ``rng`` go on where it was."""
        if rng is None or self.generator is None:
            return
        try:
            rng.bit_generator.state = self.generator
        except (TypeError, ValueError, KeyError, OverflowError) as error:
            raise StateError(f"the state of the random generator cannot be: {error!r}") from None


def prefixed(prefix: str, arrays: Mapping[str, NDArray]) -> dict[str, NDArray]:
    """The arrays under names that begin with ``prefix``."""
    return {prefix + name: array for name, array in arrays.items()}


def generator_state(rng: np.random.Generator | None) -> Mapping[str, Any] | None:
    """What `TrainingState.restore_generator` needs."""
    return None if rng is None else rng.bit_generator.state
