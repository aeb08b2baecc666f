"""Writing for other processors: past the caches, which hold what they have read last.

A line of memory that another processor has in its cache costs a question to it before it can be
written, and those that do not share a cache take long to answer: longer than what is computed in
it takes. Lines that are written past the caches are not waited for.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from maxplus._compile.aligned import LINE
from maxplus._compile.jit import njit

_LANES = LINE // 4


@intrinsic
def _stream_line(typingctx, source, target, i):
    """The line that begins with target[i], which has the address of a line, past the caches."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        line = ir.VectorType(ir.FloatType(), _LANES).as_pointer()
        kinds = signature.args[:2]
        here, there = (
            builder.bitcast(
                builder.gep(make_array(kind)(context, builder, array).data, [args[2]]), line
            )
            for kind, array in zip(kinds, args, strict=False)
        )
        store = builder.store(builder.load(here, align=4), there, align=LINE)
        once = builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)])
        store.set_metadata("nontemporal", once)
        return context.get_dummy_value()

    return types.void(source, target, types.intp), codegen


@intrinsic
def _finish(typingctx):
    """Nobody sees what is written from here on before what was written so far."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), codegen


@njit(cache=True)
def stream(source, target):
    """Copy whole lines of float32, from anywhere to where a line begins; O(size)."""
    for i in range(0, source.size, _LANES):
        _stream_line(source, target, i)
    _finish()
