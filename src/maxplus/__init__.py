"""Max-plus neural networks with the scikit-learn API.

Submodules are imported when one of their names is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from maxplus import algebra as algebra
    from maxplus import certify as certify
    from maxplus import datasets as datasets
    from maxplus import distributed as distributed
    from maxplus import estimators as estimators
    from maxplus import evaluation as evaluation
    from maxplus import explain as explain
    from maxplus import export as export
    from maxplus import images as images
    from maxplus import io as io
    from maxplus import metrics as metrics
    from maxplus import models as models
    from maxplus import plots as plots
    from maxplus import report as report
    from maxplus import tables as tables
    from maxplus import training as training
    from maxplus import trees as trees
    from maxplus.estimators import (
        LinearMaxPlusClassifier,
        LipschitzInterpolator,
        LMMClassifier,
        LMMEnsembleClassifier,
        LMMRegressor,
        MaxPlusClassifier,
        SubgradientLMMClassifier,
        from_pipeline,
    )
    from maxplus.evaluation import compare, validate
    from maxplus.export import export_onnx, to_torch
    from maxplus.io import load, resume
    from maxplus.tables import TableEncoder

__all__ = [
    "LMMClassifier",
    "LMMEnsembleClassifier",
    "LMMRegressor",
    "LinearMaxPlusClassifier",
    "LipschitzInterpolator",
    "MaxPlusClassifier",
    "SubgradientLMMClassifier",
    "TableEncoder",
    "compare",
    "export_onnx",
    "from_pipeline",
    "load",
    "resume",
    "to_torch",
    "validate",
]

# The first packages define the names of `__all__`, which are looked up in this order.
_PACKAGES = (
    "estimators",
    "io",
    "tables",
    "export",
    "evaluation",
    "algebra",
    "certify",
    "datasets",
    "distributed",
    "explain",
    "images",
    "metrics",
    "models",
    "plots",
    "report",
    "training",
    "trees",
)


# Hidden from type checkers, which would otherwise accept any name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _PACKAGES:
            return importlib.import_module(f"maxplus.{name}")
        if name in __all__:
            modules = (importlib.import_module(f"maxplus.{package}") for package in _PACKAGES)
            return next(getattr(module, name) for module in modules if name in module.__all__)
        raise AttributeError(f"module 'maxplus' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, *_PACKAGES])
