"""Threads that walk in step: a search is shared without leaving compiled code.

An iteration may take a few hundred microseconds and there are hundreds of
thousands of them. So the helpers are started once per block and wait, spinning,
for the iteration's number; the leader waits for theirs. Numba's own parallel
loops start a team per call and, with the engine's many arrays, take several
times as long to compile as all kernels together.
"""

import os

from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from maxplus._compile.jit import inner

# flags[0] is what the leader says, flags[8·w] what helper w answers: a cache line each.
LINE = 8
# No iteration has this number.
STOP = -(2**62)


def _element(context, builder, array_type, array, index):
    data = make_array(array_type)(context, builder, array).data
    return builder.gep(data, [index])


@intrinsic
def atomic_load(typingctx, array, index):
    """array[index] as other threads have left it (one dimension, eight bytes an item)."""

    def codegen(context, builder, signature, args):
        place = _element(context, builder, signature.args[0], args[0], args[1])
        return builder.load_atomic(place, "acquire", 8)

    return array.dtype(array, types.intp), codegen


@intrinsic
def atomic_store(typingctx, array, index, value):
    """array[index] = value, seen by other threads after everything written before."""

    def codegen(context, builder, signature, args):
        place = _element(context, builder, signature.args[0], args[0], args[1])
        builder.store_atomic(args[2], place, "release", 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, array.dtype), codegen


if hasattr(os, "sched_yield"):
    _offer_processor = types.ExternalFunction("sched_yield", types.int32())
else:  # Windows: only spin

    @inner
    def _offer_processor():
        return 0


# Spins before the processor is offered to others, about 20 µs.
_PATIENCE = 20_000


@inner
def wait_for(flags, index, value):
    """Until flags[index] is ``value``, or `STOP`; returns which."""
    spins = 0
    while True:
        seen = atomic_load(flags, index)
        if seen in (value, STOP):
            return seen
        spins += 1
        if spins > _PATIENCE:
            _offer_processor()
