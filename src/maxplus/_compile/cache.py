"""Compiled kernels on the disk, for later processes; without them, each compiles its own."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from functools import cache as once
from typing import Any

from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.sigutils import normalize_signature


class KernelCache(FunctionCache):
    """Numba's cache of one kernel on the disk; an entry that is no good is compiled anew.

    Numba numbers the files of a kernel's signatures. Two processes that compile different ones
    at once can both take the next number, and what a third one loads is the wrong machine code.
    Here a file is named after its signature, and after the ``variant`` where a function is compiled
    in several ways.
    """

    def __init__(self, function: Callable, variant: str = "") -> None:
        super().__init__(function)
        self._cache_file = _FilesByKey(
            cache_path=self._cache_path,
            filename_base=self._impl.filename_base + variant,
            source_stamp=self._impl.locator.get_source_stamp(),
        )

    @property
    def has_entries(self) -> bool:
        """Whether anything that this version of the kernel compiled to is on the disk."""
        try:
            return bool(self._cache_file._load_index())
        except Exception:
            return False  # Damaged, in whatever way: to be compiled anew.

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled kernel; None if there is none, it is damaged or for other arguments."""
        # What is wrong with a pickle or with machine code can be any error.
        try:
            found = super().load_overload(sig, target_context)
            wanted, _ = normalize_signature(sig)
            return found if found is None or tuple(found.signature.args) == wanted else None
        except Exception:
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled kernel, if the disk has room for it."""
        try:
            self._keep(sig, data)
        except OSError:
            say_uncached()

    def _keep(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError:
            raise
        except Exception:
            # The index is damaged: begin a new one.
            self.flush()
            super().save_overload(sig, data)


class _FilesByKey(IndexDataCacheFile):
    """Files of a kernel's signatures that are named after them."""

    def save(self, key: Any, data: Any) -> None:
        name = f"{self._index_name}.{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.nbc"
        # The index comes second: what it names is there.
        self._save_data(name, data)
        self._save_index(self._load_index() | {key: name})


@once
def say_uncached() -> None:
    """Warn, once, that kernels are not kept, and say what helps."""
    warnings.warn(
        "compiled kernels cannot be kept on the disk, so every process compiles its own; name a "
        "folder that can be written to in the environment variable NUMBA_CACHE_DIR",
        RuntimeWarning,
        stacklevel=2,
    )
