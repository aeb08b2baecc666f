"""Synchronisation of threads in compiled code: atomic loads and stores, and a spin wait.

An iteration may take a few hundred microseconds and there are hundreds of
thousands of them. So helper threads are started once per block and spin until the
number of the next iteration is published; the leader spins until all helpers have
published it. Numba's own parallel loops start threads at every call and, with the
engine's many arrays, take several times as long to compile as all kernels together.
"""

import os

from numba import types

from maxplus._compile.intrinsics import atomic_load
from maxplus._compile.jit import inner

# flags[0] is the leader's iteration, flags[8·w] that of helper w: a cache line each.
LINE = 8
# No iteration has this number.
STOP = -(2**62)


if hasattr(os, "sched_yield"):
    _yield_processor = types.ExternalFunction("sched_yield", types.int32())
else:  # Windows: only spin

    @inner
    def _yield_processor():
        return 0


# Spins before the processor is yielded, about 20 µs.
_MAX_SPINS = 20_000


@inner
def wait_for(flags, index, value):
    """Wait until flags[index] is ``value`` or `STOP`; return which."""
    spins = 0
    while True:
        seen = atomic_load(flags, index)
        if seen in (value, STOP):
            return seen
        spins += 1
        if spins > _MAX_SPINS:
            _yield_processor()
