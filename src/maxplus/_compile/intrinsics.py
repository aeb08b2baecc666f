"""LLVM instructions that Numba does not generate.

Numba compiles ``min(a, b)`` and ``if b < a: a = b`` to code that LLVM cannot vectorise (numba
#5139), because NaN and the sign of zero have defined results. Calls of ``llvm.minnum`` and
``llvm.maxnum`` with flags that ignore both are vectorised. The flags apply to single calls, not to
functions: minima and maxima are exact in any order, and additions keep their IEEE semantics, so
that all engines give bit-identical results.
"""

import platform
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

SAFE_FLAGS = ("nnan", "nsz")


def _target_features() -> str:
    """Return the processor features that Numba compiles for; NUMBA_CPU_FEATURES has precedence."""
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


def call_intrinsic(
    builder: Any, name: str, args: Sequence[Any], flags: tuple[str, ...] = ()
) -> Any:
    """Emit a call of the LLVM intrinsic ``name(T, …) -> T`` for numbers or vectors."""
    kind = args[0].type
    is_vector = isinstance(kind, ir.VectorType)
    number = kind.element.intrinsic_name if is_vector else kind.intrinsic_name
    suffix = f"v{kind.count}{number}" if is_vector else number
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(kind, [kind] * len(args)), f"{name}.{suffix}"
    )
    return builder.call(function, list(args), fastmath=flags)


def generator(emit: Callable[..., Any]) -> Any:
    """Return the code generator of an intrinsic, from a function of the builder and the arguments.

    The result of the intrinsic is that of ``emit``, or nothing if it returns None.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        result = emit(builder, *args)
        return context.get_dummy_value() if result is None else result

    return codegen


@intrinsic
def fmin(typingctx, a, b):
    """Return the smaller of two floats of one type (neither is NaN)."""
    return a(a, b), generator(
        lambda builder, *ab: call_intrinsic(builder, "llvm.minnum", ab, SAFE_FLAGS)
    )


@intrinsic
def fmax(typingctx, a, b):
    """Return the larger of two floats of one type (neither is NaN)."""
    return a(a, b), generator(
        lambda builder, *ab: call_intrinsic(builder, "llvm.maxnum", ab, SAFE_FLAGS)
    )


@intrinsic
def imin(typingctx, a, b):
    """Return the smaller of two signed integers of one type."""
    return a(a, b), generator(lambda builder, *ab: call_intrinsic(builder, "llvm.smin", ab))


def hidden_one(builder: Any, kind: Any) -> Any:
    """Emit the number 1 with its value hidden from LLVM: see `plus`."""
    one = ir.Constant(kind, 1.0)
    if _REGISTER is None:
        return one
    same = ir.InlineAsm(ir.FunctionType(kind, [kind]), "", f"={_REGISTER},0")
    return builder.call(same, [one])


def fused_sum(builder: Any, a: Any, b: Any, one: Any) -> Any:
    """Emit a sum of numbers or vectors as a fused multiply-add: see `plus`."""
    if _REGISTER is None:
        return builder.fadd(a, b)
    return call_intrinsic(builder, "llvm.fma", [a, one, b])


@intrinsic
def one_like(typingctx, x):
    """Return the float 1 of the type of x, for `plus`; called once, before a loop."""
    return x(x), generator(lambda builder, x: hidden_one(builder, x.type))


@intrinsic
def plus(typingctx, a, b, one):
    """Return a + b, computed as a·1 + b, which is rounded once.

    Many processors execute sums and minima on the same ports, and fused multiply-adds on other
    ports, so that a loop of both takes half the time. LLVM would simplify a visible factor 1.
    """
    return a(a, b, one), generator(fused_sum)


@intrinsic
def select(typingctx, condition, a, b):
    """Return ``a if condition else b`` of two computed values, without a branch.

    Numba compiles a conditional expression to branches, which LLVM may convert to several masked
    stores to one address, which are slow on some processors.
    """
    return a(types.boolean, a, a), generator(lambda builder, *args: builder.select(*args))


@intrinsic
def use_widest_vectors(typingctx):
    """Allow LLVM to vectorise the enclosing function with 512-bit registers.

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


# -- memory shared by threads, and calls of Python -----------------------------------------------


def _element_generator(emit: Callable[..., Any]) -> Any:
    """Return the code generator of an intrinsic that uses the address of array[index]."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array, index, *others = args
        data = make_array(signature.args[0])(context, builder, array).data
        result = emit(builder, builder.gep(data, [index]), *others)
        return context.get_dummy_value() if result is None else result

    return codegen


@intrinsic
def prefetch(typingctx, array, index):
    """Prefetch the cache line of array[index] (one dimension)."""

    def emit(builder: Any, pointer: Any) -> None:
        pointer, number = builder.bitcast(pointer, ir.IntType(8).as_pointer()), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
        read, keep_in_all_levels, data_cache = number(0), number(3), number(1)
        builder.call(function, [pointer, read, keep_in_all_levels, data_cache])

    return types.void(array, types.intp), _element_generator(emit)


@intrinsic
def atomic_load(typingctx, array, index):
    """Return array[index] with acquire semantics (one dimension, eight-byte items)."""

    def emit(builder: Any, pointer: Any) -> Any:
        return builder.load_atomic(pointer, "acquire", 8)

    return array.dtype(array, types.intp), _element_generator(emit)


@intrinsic
def atomic_store(typingctx, array, index, value):
    """Store array[index] = value with release semantics."""

    def emit(builder: Any, pointer: Any, number: Any) -> None:
        builder.store_atomic(number, pointer, "release", 8)

    return types.void(array, types.intp, array.dtype), _element_generator(emit)


@intrinsic
def call_python(typingctx, address, argument):
    """Call the function at an address, a ctypes callback with one integer argument."""

    def emit(builder: Any, address: Any, argument: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64)])
        return builder.call(builder.inttoptr(address, kind.as_pointer()), [argument])

    return types.int64(types.int64, types.int64), generator(emit)
