"""Fitted classifiers for other frameworks: ONNX files and PyTorch modules.

Importing this room imports neither onnx nor torch; a function that needs one says so when it is
called.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maxplus.estimators._lmm import BaseLMMClassifier
    from maxplus.export.torch import CommitteeNetwork, LMMNetwork

__all__ = ["export_onnx", "to_torch"]


def export_onnx(clf: BaseLMMClassifier, path: str | os.PathLike[str]) -> None:
    """Write a fitted LMM classifier, or a committee, as an ONNX model; it needs ``maxplus[onnx]``.

    See `maxplus.export.onnx.export_onnx`.
    """
    import_module("maxplus.export.onnx").export_onnx(clf, path)


def to_torch(clf: BaseLMMClassifier) -> LMMNetwork | CommitteeNetwork:
    """A fitted LMM classifier, or a committee, as a PyTorch module; it needs ``maxplus[torch]``.

    See `maxplus.export.torch.to_torch`.
    """
    return import_module("maxplus.export.torch").to_torch(clf)
