"""Disk cache of compiled kernels that tolerates concurrent writers and damaged files.

Numba numbers the files of the signatures of a kernel. Two processes that compile different
signatures at the same time can use the same number, and a third process then loads the wrong
machine code (numba #4807 and #10128). Here the name of a file is derived from its signature. A file
that cannot be loaded is compiled again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.sigutils import normalize_signature

from maxplus._compile.linking import require

require(FunctionCache, "load_overload", "save_overload", "flush", "enable")
require(IndexDataCacheFile, "_save_data", "_save_index", "_load_index")


class KernelCache(FunctionCache):
    """Numba's disk cache of one kernel.

    Parameters
    ----------
    function : callable
    variant : str
        Suffix of the file names, for a function that is compiled in several ways.
    on_write_error : callable
        Called when a compiled kernel cannot be written.

    Raises
    ------
    RuntimeError
        If Numba finds no folder that it can write to.
    """

    def __init__(
        self, function: Callable, variant: str, on_write_error: Callable[[], None]
    ) -> None:
        super().__init__(function)
        self._on_write_error = on_write_error
        self._cache_file = _FilesBySignature(
            cache_path=self._cache_path,
            filename_base=self._impl.filename_base + variant,
            source_stamp=self._impl.locator.get_source_stamp(),
        )

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled kernel; None if it is missing, damaged or has another signature."""
        # A damaged pickle or damaged machine code can raise any error.
        try:
            found = super().load_overload(sig, target_context)
            wanted, _ = normalize_signature(sig)
            return found if found is None or tuple(found.signature.args) == wanted else None
        except Exception:
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write a compiled kernel; call ``on_write_error`` if that fails."""
        try:
            try:
                super().save_overload(sig, data)
            except OSError:
                raise
            except Exception:
                # The index is damaged: start a new one.
                self.flush()
                super().save_overload(sig, data)
        except OSError:
            self._on_write_error()


class _FilesBySignature(IndexDataCacheFile):
    """Cache files whose names are derived from the signatures."""

    def save(self, key: Any, data: Any) -> None:
        name = f"{self._index_name}.{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.nbc"
        # The index is written last, so that all files it lists exist.
        self._save_data(name, data)
        self._save_index(self._load_index() | {key: name})
