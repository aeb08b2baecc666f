"""maxplus: Max-Plus neural networks, trained by exploiting the sparsity of their subgradients.

Importing this package imports nothing heavy and compiles nothing; names are
loaded when they are first used.
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

_MODULE_OF = {
    "LMMClassifier": "maxplus.estimators",
    "LMMEnsembleClassifier": "maxplus.estimators",
    "LMMRegressor": "maxplus.estimators",
    "LinearMaxPlusClassifier": "maxplus.estimators",
    "LipschitzInterpolator": "maxplus.estimators",
    "MaxPlusClassifier": "maxplus.estimators",
    "SubgradientLMMClassifier": "maxplus.estimators",
    "TableEncoder": "maxplus.tables",
    "compare": "maxplus.evaluation",
    "export_onnx": "maxplus.export",
    "from_pipeline": "maxplus.estimators",
    "load": "maxplus.io",
    "resume": "maxplus.io",
    "to_torch": "maxplus.export",
    "validate": "maxplus.evaluation",
}
_PACKAGES = (
    "algebra",
    "certify",
    "datasets",
    "distributed",
    "estimators",
    "evaluation",
    "explain",
    "export",
    "images",
    "io",
    "metrics",
    "models",
    "plots",
    "report",
    "tables",
    "training",
    "trees",
)

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


# Hidden from type checkers, for which every name would exist then, without a type.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _MODULE_OF:
            return getattr(importlib.import_module(_MODULE_OF[name]), name)
        if name in _PACKAGES:
            return importlib.import_module(f"maxplus.{name}")
        raise AttributeError(f"module 'maxplus' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULE_OF, *_PACKAGES])
