"""Whether work is done before a kernel for it would be compiled.

Who scores a few rows once should not wait for a compiler; who does so for ever should not do
without. So NumPy and Python do what is small, with the kernels' very results, as long as all that
they have done costs less than a compilation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from maxplus._compile.jit import interpreted, is_compiled

# So many additions of NumPy's, or what takes as long (half a second here), are less than a
# compilation.
PATIENCE = 100_000_000


class _Tally:
    """Additions that were done without kernels, more or less: threads may count at once."""

    additions = 0


def is_sooner(additions: int, kernel: Any) -> bool:
    """Whether so many additions are done before a kernel is, which nobody has compiled yet."""
    total = _Tally.additions + additions
    if total > PATIENCE or _is_at_hand(kernel):
        return False
    _Tally.additions = total
    return True


def soonest(additions: int, kernel: Any, **instead: Callable) -> Callable:
    """A kernel, or the same `interpreted`, which takes as long as so many additions."""
    return _interpreted(kernel, **instead) if is_sooner(additions, kernel) else kernel


def use_kernels() -> None:
    """From now on kernels do all work of this process, however small."""
    _Tally.additions = PATIENCE


def _is_at_hand(kernel: Any) -> bool:
    return bool(getattr(kernel, "signatures", True)) or _is_on_disk(kernel)


@cache
def _is_on_disk(kernel: Any) -> bool:
    return is_compiled(kernel)


@cache
def _interpreted(kernel: Any, **instead: Callable) -> Callable:
    run = interpreted(kernel, **instead)

    def call(*arguments: Any) -> Any:
        # Compiled code does not warn of what overflows, either.
        with np.errstate(all="ignore"):
            return run(*arguments)

    return call
