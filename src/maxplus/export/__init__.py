"""Export of fitted estimators to other frameworks: ONNX files and PyTorch modules.

Importing this package imports neither onnx nor torch; a function that needs one imports it when
it is called.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

if TYPE_CHECKING:
    from torch import nn

    from maxplus.estimators import LipschitzInterpolator, LMMRegressor
    from maxplus.estimators._lmm import BaseLMMClassifier
    from maxplus.models import LMM, AdditiveLMM

__all__ = ["export_onnx", "to_torch"]


def export_onnx(
    clf: BaseLMMClassifier | LMMRegressor | LipschitzInterpolator, path: str | os.PathLike[str]
) -> None:
    """Write a fitted LMM classifier or regressor as an ONNX model; it needs ``maxplus[onnx]``.

    Inputs and outputs of the file are described in ``maxplus.export.onnx.export_onnx``.

    Parameters
    ----------
    clf : fitted LMMClassifier, LMMEnsembleClassifier, SubgradientLMMClassifier, LMMRegressor or \
LipschitzInterpolator
    path : str or path
        Where; a file that exists is replaced, whole, at the end.

    Examples
    --------
    >>> import os, tempfile
    >>> import maxplus
    >>> from sklearn.datasets import load_iris
    >>> from maxplus import LMMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = LMMClassifier(6, slope=4.0, warmup_epochs=2, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     maxplus.export_onnx(clf, os.path.join(folder, "iris.onnx"))
    ...     os.listdir(folder)
    ['iris.onnx']
    """
    import_module("maxplus.export.onnx").export_onnx(clf, path)


def to_torch(clf: BaseLMMClassifier | LMMRegressor | LipschitzInterpolator) -> nn.Module:
    """Return a fitted LMM classifier or regressor as a PyTorch module; needs ``maxplus[torch]``.

    ``maxplus.export.torch`` has the layers ``MinPlus`` and ``MaxPlus``.

    Parameters
    ----------
    clf : fitted LMMClassifier, LMMEnsembleClassifier, SubgradientLMMClassifier, LMMRegressor or \
LipschitzInterpolator

    Returns
    -------
    torch.nn.Module
        Its output are the scores, or the predictions of a regressor.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import maxplus
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = maxplus.LMMClassifier(6, slope=4.0, warmup_epochs=2, random_state=0).fit(X, y)
    >>> module = maxplus.to_torch(clf)
    >>> sum(weights.numel() for weights in module.parameters()) == 8 + 8 * 6 + 6 * 3
    True
    """
    return import_module("maxplus.export.torch").to_torch(clf)


def fitted_network(clf: Any) -> LMM | AdditiveLMM:
    """Return the network of a fitted LMM estimator; TypeError for anything else."""
    from maxplus.estimators import LipschitzInterpolator, LMMRegressor
    from maxplus.estimators._lmm import BaseLMMClassifier

    if not isinstance(clf, (BaseLMMClassifier, LMMRegressor, LipschitzInterpolator)):
        raise TypeError(
            "clf must be a fitted LMMRegressor or LMMClassifier; "
            f"got {type(clf).__name__}. Of a pipeline or a "
            "search, give the estimator inside (pipeline[-1], search.best_estimator_)"
        )
    check_is_fitted(clf, "model_")
    return clf.model_
