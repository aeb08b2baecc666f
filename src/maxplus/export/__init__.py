"""Fitted classifiers for other frameworks: ONNX files and PyTorch modules.

Importing this room imports neither onnx nor torch; each is loaded with the
name that needs it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxplus.export.onnx import export_onnx
    from maxplus.export.torch import to_torch

_HOMES = {"export_onnx": "maxplus.export.onnx", "to_torch": "maxplus.export.torch"}

__all__ = ["export_onnx", "to_torch"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'maxplus.export' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
