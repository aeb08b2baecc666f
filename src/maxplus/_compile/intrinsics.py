"""The few LLVM instructions that Numba does not reach from Python.

Numba turns ``min(a, b)`` and ``if b < a: a = b`` into code that LLVM cannot
vectorise, because both must do something definite with NaN and with the sign
of zero. Calls of ``llvm.minnum`` / ``llvm.maxnum`` that are told to ignore
these two vectorise at once. The flags sit on the single call, never on a whole
function: minimum and maximum are exact in any order, so no value can change,
while additions around them keep their IEEE meaning (infinities included) and
every engine computes the same bits.
"""

import platform
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

SAFE_FLAGS = ("nnan", "nsz")

# What Numba compiles for: the user's word comes before what the processor says.
_TOLD = config.CPU_FEATURES  # type: ignore[attr-defined]
FEATURES = get_host_cpu_features() if _TOLD is None else _TOLD
# What assembly calls the registers of floats, where a product and a sum are one instruction.
_REGISTER = (
    "w" if platform.machine() in ("aarch64", "arm64") else "x" if "+fma" in FEATURES else None
)


def call(builder: Any, name: str, args: list[Any], flags: tuple[str, ...] = ()) -> Any:
    """A call of the LLVM intrinsic ``name(T, …) -> T`` for numbers, or vectors of them."""
    kind = args[0].type
    is_vector = isinstance(kind, ir.VectorType)
    number = kind.element.intrinsic_name if is_vector else kind.intrinsic_name
    suffix = f"v{kind.count}{number}" if is_vector else number
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(kind, [kind] * len(args)), f"{name}.{suffix}"
    )
    return builder.call(function, args, fastmath=flags)


def _binary_call(name: str, flags: tuple[str, ...]) -> Any:
    """Code generator for a call of the LLVM intrinsic ``name(T, T) -> T``."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return call(builder, name, args, flags)

    return codegen


@intrinsic
def fmin(typingctx, a, b):
    """Smaller of two floats of one type (neither is NaN)."""
    return a(a, b), _binary_call("llvm.minnum", SAFE_FLAGS)


@intrinsic
def fmax(typingctx, a, b):
    """Larger of two floats of one type (neither is NaN)."""
    return a(a, b), _binary_call("llvm.maxnum", SAFE_FLAGS)


def hidden_one(builder: Any, kind: Any) -> Any:
    """The number 1, which no compiler may know: see `plus`."""
    one = ir.Constant(kind, 1.0)
    if _REGISTER is None:
        return one
    same = ir.InlineAsm(ir.FunctionType(kind, [kind]), "", f"={_REGISTER},0")
    return builder.call(same, [one])


def fused_sum(builder: Any, a: Any, b: Any, one: Any) -> Any:
    """Of numbers or vectors: see `plus`."""
    if _REGISTER is None:
        return builder.fadd(a, b)
    return call(builder, "llvm.fma", [a, one, b])


@intrinsic
def one_like(typingctx, x):
    """The float 1 of x's type, for `plus`; to be asked for once, before a loop."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return hidden_one(builder, args[0].type)

    return x(x), codegen


@intrinsic
def plus(typingctx, a, b, one):
    """The sum a + b as a·1 + b, rounded once: the same number, from where products are made.

    Many processors make sums and minima in the same place, and products in another: there a loop
    of both takes half the time. A compiler that knew of the 1 would make a sum of it again.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return fused_sum(builder, *args)

    return a(a, b, one), codegen


@intrinsic
def imin(typingctx, a, b):
    """Smaller of two signed integers of one type."""
    return a(a, b), _binary_call("llvm.smin", ())


@intrinsic
def select(typingctx, condition, a, b):
    """``a if condition else b`` of two values at hand, without a branch.

    What Numba makes of a conditional expression are branches, and LLVM may turn those of a loop
    into several stores to one place, each with a mask, which are slow on some processors.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(*args)

    return a(types.boolean, a, a), codegen


@intrinsic
def use_widest_vectors(typingctx):
    """Let LLVM vectorise the enclosing function with 512-bit registers.

    By default it stays at 256 bits even where the processor has more; on the
    min-plus product that costs a tenth of the throughput. Where there are no
    such registers the hint does nothing.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        # llvmlite only knows attributes without a value, so its own check is passed by.
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        context.active_code_library.has_wide_vectors = True
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def prefetch(typingctx, array, index):
    """Ask for the cache line of array[index] (one dimension) ahead of its use."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = make_array(signature.args[0])(context, builder, args[0]).data
        place = builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        function = builder.module.declare_intrinsic(
            "llvm.prefetch",
            [place.type],
            ir.FunctionType(ir.VoidType(), [place.type, number, number, number]),
        )
        read, keep_in_all_levels, data_cache = number(0), number(3), number(1)
        builder.call(function, [place, read, keep_in_all_levels, data_cache])
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen
