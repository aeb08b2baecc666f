"""Hand-vectorised tiles of min-plus and max-plus products with the index of the winner.

A tile consists of 4 rows of A and a panel of columns of B, a few vectors wide. Its best sums so far
are in registers: each step j loads one number of each row and the vectors of the panel, and
computes a sum and a minimum of each pair. There is no reduction across the lanes of a vector, so
that a tile can stop at any j and mark the improved cells with one comparison each. Numba does not
generate such code from loops.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from maxplus._compile.intrinsics import FEATURES, SAFE_FLAGS, call_intrinsic, fused_sum, hidden_one

ROWS = 4
# 16 of the 32 registers of 64 bytes hold a tile, or 8 of the 16 that are smaller.
_BYTES, _VECTORS = (64, 4) if "+avx512f" in FEATURES else (32, 2)
PANEL_BYTES = _BYTES * _VECTORS
# Columns of a block in which a winner is searched.
BLOCK = 64

_INT64, _INT32 = ir.IntType(64), ir.IntType(32)
# Bytes of the supported element types.
_SIZES = {ir.FloatType(): 4, ir.DoubleType(): 8, _INT32: 4}


def _load(builder: Any, pointer: Any, index: Any, vector: Any) -> Any:
    """Load a vector from any index of an array, with the alignment of its elements."""
    loaded = builder.load(builder.bitcast(builder.gep(pointer, [index]), vector.as_pointer()))
    loaded.align = _SIZES[vector.element]
    return loaded


def _store(builder: Any, value: Any, pointer: Any, index: Any) -> None:
    target = builder.bitcast(builder.gep(pointer, [index]), value.type.as_pointer())
    builder.store(value, target).align = _SIZES[value.type.element]


def _broadcast(builder: Any, number: Any, vector: Any) -> Any:
    """Broadcast a number to all lanes."""
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, number, _INT32(0))
    zeros = ir.Constant(ir.VectorType(_INT32, vector.count), None)
    return builder.shuffle_vector(first, undefined, zeros)


def _row_pointers(builder: Any, array: Any, first: Any) -> list[Any]:
    """Return pointers to the rows ``first`` … ``first + ROWS − 1`` of an array."""
    stride = cgutils.unpack_tuple(builder, array.strides, 2)[0]
    begin = builder.ptrtoint(array.data, _INT64)
    offsets = [builder.mul(builder.add(first, _INT64(r)), stride) for r in range(ROWS)]
    return [builder.inttoptr(builder.add(begin, at), array.data.type) for at in offsets]


def _tile(name: str, better: str) -> Any:
    """Return the code generator of a tile.

    ``name`` is the LLVM intrinsic that reduces two vectors, ``better`` the comparison of new and
    old values.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        A, panel, best, block = (
            make_array(signature.args[k])(context, builder, args[k]) for k in (0, 4, 5, 6)
        )
        row, lo, hi, mark = args[1], args[2], args[3], args[7]
        kind = A.data.type.pointee
        lanes = _BYTES // _SIZES[kind]
        vector = ir.VectorType(kind, lanes)
        cells = [(r, v) for r in range(ROWS) for v in range(_VECTORS)]
        offsets = [_INT64((r * _VECTORS + v) * lanes) for r, v in cells]
        one = _broadcast(builder, hidden_one(builder, kind), vector)
        rows = _row_pointers(builder, A, row)
        before = [_load(builder, best.data, offset, vector) for offset in offsets]
        # A loop that runs at least once.
        entry, loop = builder.block, builder.append_basic_block("columns")
        done = builder.append_basic_block("end_of_columns")
        builder.branch(loop)
        builder.position_at_end(loop)
        j = builder.phi(_INT64)
        j.add_incoming(lo, entry)
        now = [builder.phi(vector) for _ in cells]
        for phi, value in zip(now, before, strict=True):
            phi.add_incoming(value, entry)
        begin = builder.mul(j, _INT64(_VECTORS * lanes))
        columns = [
            _load(builder, panel.data, builder.add(begin, _INT64(v * lanes)), vector)
            for v in range(_VECTORS)
        ]
        numbers = [_broadcast(builder, builder.load(builder.gep(at, [j])), vector) for at in rows]
        after = [
            call_intrinsic(
                builder, name, [phi, fused_sum(builder, numbers[r], columns[v], one)], SAFE_FLAGS
            )
            for phi, (r, v) in zip(now, cells, strict=True)
        ]
        for phi, value in zip(now, after, strict=True):
            phi.add_incoming(value, loop)
        following = builder.add(j, _INT64(1))
        j.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed("<", following, hi), loop, done)
        builder.position_at_end(done)
        marks = _broadcast(builder, builder.trunc(mark, _INT32), ir.VectorType(_INT32, lanes))
        for offset, old, new in zip(offsets, before, after, strict=True):
            _store(builder, new, best.data, offset)
            kept = _load(builder, block.data, offset, marks.type)
            is_better = builder.fcmp_ordered(better, new, old)
            _store(builder, builder.select(is_better, marks, kept), block.data, offset)
        return context.get_dummy_value()

    return codegen


def _tile_signature(A: Any, panel: Any, best: Any, block: Any) -> Any:
    number = types.intp
    return types.void(A, number, number, number, panel, best, block, number)


@intrinsic
def minplus_tile(typingctx, A, row, lo, hi, panel, best, block, mark):
    """Update ``best`` with the minima of A[row + r, j] + panel[j] over lo ≤ j < hi; lo < hi.

    ``best`` (4, width of the panel), ``panel`` and the int32 ``block`` are contiguous; ``block``
    is set to ``mark`` where ``best`` has decreased. No number may be NaN.
    """
    return _tile_signature(A, panel, best, block), _tile("llvm.minnum", "<")


@intrinsic
def maxplus_tile(typingctx, A, row, lo, hi, panel, best, block, mark):
    """Update ``best`` with maxima, as `minplus_tile` does with minima."""
    return _tile_signature(A, panel, best, block), _tile("llvm.maxnum", ">")


@intrinsic
def first_of_block(typingctx, a, b, lo, value):
    """Return the lowest j < BLOCK with a[lo + j] + b[lo + j] == value; else BLOCK."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        first, second = (make_array(signature.args[k])(context, builder, args[k]) for k in (0, 1))
        vector = ir.VectorType(first.data.type.pointee, BLOCK)
        sums = builder.fadd(
            _load(builder, first.data, args[2], vector),
            _load(builder, second.data, args[2], vector),
        )
        equal = builder.fcmp_ordered("==", sums, _broadcast(builder, args[3], vector))
        bits = builder.bitcast(equal, ir.IntType(BLOCK))
        return builder.cttz(bits, ir.Constant(ir.IntType(1), 0))

    return types.int64(a, b, types.intp, value), codegen
