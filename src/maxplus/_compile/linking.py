"""Compilation of kernels that are only linked into other kernels.

Numba optimises each function together with its callees and generates machine code for it, and
repeats this for each caller (with numba #9566, the compile time of a chain of calls is quadratic).
Only the code of the outermost function is run. Here a callee remains unoptimised LLVM code, which
is optimised and translated once, in the kernel that Python calls.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


def require(kind: type, *names: str) -> None:
    """Raise ImportError unless a private class of Numba has these attributes."""
    missing = [name for name in names if not hasattr(kind, name)]
    if missing:
        raise ImportError(f"{kind.__name__} of this Numba has no {', '.join(missing)}")


require(
    JITCodeLibrary,
    "_optimize_final_module",
    "_finalize_final_module",
    "_finalize_dynamic_globals",
    "_ensure_finalized",
    "codegen",
)
require(Compiler, "compile_extra")


class _LinkedLibrary(JITCodeLibrary):
    """Code of a function that is linked into its callers and has no address.

    A function with `use_widest_vectors` is optimised nevertheless: the width is an attribute of the
    function, which would be lost if it were inlined before its loops are vectorised.
    """

    has_wide_vectors = False
    # Numba stores the constants of a function at an address, which linked code does not have.
    codegen = SimpleNamespace(set_env=lambda name, environment: None)

    def _optimize_final_module(self) -> None:
        if self.has_wide_vectors:
            super()._optimize_final_module()

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0


class LinkOnlyCompiler(Compiler):
    """Numba compiler whose result is only linked into other kernels."""

    def compile_extra(self, func: Callable) -> Any:
        """Compile a Python function."""
        self.state.library = _LinkedLibrary(self.state.targetctx.codegen(), func.__qualname__)
        return super().compile_extra(func)
