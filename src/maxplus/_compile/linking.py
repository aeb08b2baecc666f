"""Kernels within kernels: code that is only ever linked into other kernels.

Numba optimises what it compiles, together with all that it calls, and makes machine code of it;
and does so again with every caller, however indirect. Only the code of the outermost function is
ever run. So here a function that others call stays as it was lowered, and whoever is called from
Python optimises the whole and translates it, once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


class _Part(JITCodeLibrary):
    """A function's code, to be linked; it has no address.

    Loops that ask for wide vectors (`use_widest_vectors`) are optimised here all the same: the
    width is the function's, and would be lost where it is inlined before its loops are vectors.
    """

    has_wide_vectors = False

    def _optimize_final_module(self) -> None:
        if self.has_wide_vectors:
            super()._optimize_final_module()

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> Any:
        """For those who ask for an address, and get none."""
        return _Nowhere


class _Nowhere:
    @staticmethod
    def set_env(name: str, environment: Any) -> None:
        """What is not in memory has no pointer to its constants, and parts have no use for one."""


class PartCompiler(Compiler):
    """Numba's compiler, whose result is a part."""

    def compile_extra(self, func: Callable) -> Any:
        """Compile a function of Python."""
        self.state.library = _Part(self.state.targetctx.codegen(), func.__qualname__)
        return super().compile_extra(func)


# Options of `numba.njit`; without wrappers for Python there is less to compile.
AS_PART: dict[str, Any] = {
    "pipeline_class": PartCompiler,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
