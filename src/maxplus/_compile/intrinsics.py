"""LLVM instructions that Numba does not generate, and kernels that use them.

Numba compiles ``min(a, b)`` and ``if b < a: a = b`` to code that LLVM cannot vectorise (numba
#5139), because NaN and the sign of zero have defined results. Calls of ``llvm.minnum`` and
``llvm.maxnum`` with flags that ignore both are vectorised. The flags apply to single calls, not to
functions: minima and maxima are exact in any order, and additions keep their IEEE semantics, so
that all engines give bit-identical results.
"""

import platform
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from maxplus._compile.jit import njit

SAFE_FLAGS = ("nnan", "nsz")


def _target_features() -> str:
    """Return the processor features that Numba compiles for, or the setting of the user."""
    if config.CPU_FEATURES is not None:  # type: ignore[attr-defined]
        return config.CPU_FEATURES  # type: ignore[attr-defined]
    try:
        from numba.core.codegen import get_host_cpu_features
    except ImportError:
        return ""  # Without features, products are slower and have the same results.
    return get_host_cpu_features()


FEATURES = _target_features()
# Constraint of float registers in inline assembly; None without a fused multiply-add.
_REGISTER = (
    "w" if platform.machine() in ("aarch64", "arm64") else "x" if "+fma" in FEATURES else None
)


def call(builder: Any, name: str, args: list[Any], flags: tuple[str, ...] = ()) -> Any:
    """Emit a call of the LLVM intrinsic ``name(T, …) -> T`` for numbers or vectors."""
    kind = args[0].type
    is_vector = isinstance(kind, ir.VectorType)
    number = kind.element.intrinsic_name if is_vector else kind.intrinsic_name
    suffix = f"v{kind.count}{number}" if is_vector else number
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(kind, [kind] * len(args)), f"{name}.{suffix}"
    )
    return builder.call(function, args, fastmath=flags)


def _binary_call(name: str, flags: tuple[str, ...]) -> Any:
    """Return the code generator of a call of the LLVM intrinsic ``name(T, T) -> T``."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return call(builder, name, args, flags)

    return codegen


@intrinsic
def fmin(typingctx, a, b):
    """Return the smaller of two floats of one type (neither is NaN)."""
    return a(a, b), _binary_call("llvm.minnum", SAFE_FLAGS)


@intrinsic
def fmax(typingctx, a, b):
    """Return the larger of two floats of one type (neither is NaN)."""
    return a(a, b), _binary_call("llvm.maxnum", SAFE_FLAGS)


def hidden_one(builder: Any, kind: Any) -> Any:
    """Emit the number 1 without showing its value to LLVM: see `plus`."""
    one = ir.Constant(kind, 1.0)
    if _REGISTER is None:
        return one
    same = ir.InlineAsm(ir.FunctionType(kind, [kind]), "", f"={_REGISTER},0")
    return builder.call(same, [one])


def fused_sum(builder: Any, a: Any, b: Any, one: Any) -> Any:
    """Emit a sum of numbers or vectors as a fused multiply-add: see `plus`."""
    if _REGISTER is None:
        return builder.fadd(a, b)
    return call(builder, "llvm.fma", [a, one, b])


@intrinsic
def one_like(typingctx, x):
    """Return the float 1 of the type of x, for `plus`; called once, before a loop."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return hidden_one(builder, args[0].type)

    return x(x), codegen


@intrinsic
def plus(typingctx, a, b, one):
    """Return a + b, computed as a·1 + b, which is rounded once.

    Many processors execute sums and minima on the same ports, and fused multiply-adds on other
    ports, so that a loop of both takes half the time. LLVM would simplify a visible factor 1.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return fused_sum(builder, *args)

    return a(a, b, one), codegen


@intrinsic
def imin(typingctx, a, b):
    """Return the smaller of two signed integers of one type."""
    return a(a, b), _binary_call("llvm.smin", ())


@intrinsic
def select(typingctx, condition, a, b):
    """Return ``a if condition else b`` of two computed values, without a branch.

    Numba compiles a conditional expression to branches, which LLVM may convert to several masked
    stores to one address, which are slow on some processors.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(*args)

    return a(types.boolean, a, a), codegen


@intrinsic
def use_widest_vectors(typingctx):
    """Let LLVM vectorise the enclosing function with 512-bit registers.

    By default LLVM uses 256 bits even if the processor has more (llvm-project #102047), which costs
    a tenth of the throughput of the min-plus product. Without such registers the hint has no
    effect.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        attributes = builder.function.attributes
        if isinstance(attributes, set):
            # `add` of llvmlite accepts only attributes without a value.
            set.add(attributes, '"prefer-vector-width"="512"')
        context.active_code_library.has_wide_vectors = True
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def prefetch(typingctx, array, index):
    """Prefetch the cache line of array[index] (one dimension)."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        element = _element(context, builder, signature.args[0], args[0], args[1])
        place = builder.bitcast(element, ir.IntType(8).as_pointer())
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


# -- memory shared by threads, and calls of Python -----------------------------------------------


def _element(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    """Emit the address of array[index]."""
    return builder.gep(make_array(array_type)(context, builder, array).data, [index])


@intrinsic
def atomic_load(typingctx, array, index):
    """Return array[index] with acquire semantics (one dimension, eight-byte items)."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _element(context, builder, signature.args[0], args[0], args[1])
        return builder.load_atomic(place, "acquire", 8)

    return array.dtype(array, types.intp), codegen


@intrinsic
def atomic_store(typingctx, array, index, value):
    """Store array[index] = value with release semantics."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _element(context, builder, signature.args[0], args[0], args[1])
        builder.store_atomic(args[2], place, "release", 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, array.dtype), codegen


@intrinsic
def call_python(typingctx, address, argument):
    """Call the function at an address, a ctypes callback with one integer argument."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64)])
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), [args[1]])

    return types.int64(types.int64, types.int64), codegen


# -- the exponential function in float32 --------------------------------------------------------

_LOG2E = np.float32(1.44269504)
# log 2 in two parts; the first has few digits, so that its multiples are exact.
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
_C2, _C3, _C4, _C5, _C6 = (np.float32(1 / n) for n in (2, 6, 24, 120, 720))
_ONE, _HALF = np.float32(1.0), np.float32(0.5)
_BIAS, _MANTISSA_BITS = np.int32(127), np.int32(23)


@intrinsic
def _as_float(typingctx, bits):
    """Return the float32 with these 32 bits."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), codegen


@njit(cache=True, inline="always")
def exp32(x):
    """Return exp(x) of a float32 with |x| ≤ 87, with a relative error below 3e-7.

    Unlike the exponential of the C library, it is vectorised. exp(x) = 2ⁿ·exp(r) with
    |r| ≤ log(2)/2, for which six terms of the series are sufficient.
    """
    n = np.floor(x * _LOG2E + _HALF)
    r = x - n * _LN2_HIGH - n * _LN2_LOW
    series = _ONE + r * (_ONE + r * (_C2 + r * (_C3 + r * (_C4 + r * (_C5 + r * _C6)))))
    return series * _as_float((np.int32(n) + _BIAS) << _MANTISSA_BITS)
