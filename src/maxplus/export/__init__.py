"""Export of fitted estimators to other frameworks: ONNX files and PyTorch modules.

Importing this package imports neither onnx nor torch; a function that needs one imports it when
it is called.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from maxplus._files import write_whole

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

    The file computes ``predict`` and ``predict_proba`` with ai.onnx operators, with the same sums
    in the same float type. A runtime may add the terms of a sum in another order, so that scores
    are equal up to rounding.

    Parameters
    ----------
    clf : fitted LMMClassifier, LMMEnsembleClassifier, SubgradientLMMClassifier, LMMRegressor or \
LipschitzInterpolator
    path : str or path
        File to write; an existing one is replaced atomically.

    Notes
    -----
    Input ``X`` (N, P) has the type of ``clf.model_.dtype``; N is free. For a classifier, output
    ``label`` (N,) holds strings, or int64 if labels are integers or booleans;
    ``probabilities`` (N, C) has its columns in the order of ``clf.classes_``. For a regressor,
    output ``value`` (N,) holds the predictions. Names of features, if clf has them, are stored as
    metadata: "feature_names", a JSON list.

    Hidden units are computed in tiles of 8192 sums per sample, or of one unit. A runtime needs
    4·8192 bytes per sample (float32) besides λ (N, 2P), g (N, H) and z (N, C); there are about
    2PH / 8192 tiles of two nodes each. Terms with equal numbers of features and units are computed
    together, and the feature map by a binary search for the segments of all features at once.

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
    serialize = import_module("maxplus.export.onnx").serialize
    write_whole(path, serialize(clf, _fitted_network(clf)))


def to_torch(clf: BaseLMMClassifier | LMMRegressor | LipschitzInterpolator) -> nn.Module:
    """Return a fitted LMM classifier or regressor as a PyTorch module; needs ``maxplus[torch]``.

    Scores of a single network are equal to the last bit, those of a sum of terms up to rounding,
    because PyTorch adds in another order. ``maxplus.export.torch`` has the layers ``MinPlus`` and
    ``MaxPlus``.

    Parameters
    ----------
    clf : fitted LMMClassifier, LMMEnsembleClassifier, SubgradientLMMClassifier, LMMRegressor or \
LipschitzInterpolator
        Its weights are copied: training the module does not change it.

    Returns
    -------
    torch.nn.Module
        An ``LMMNetwork`` or ``AdditiveNetwork`` of the same float type. Its output (N, C) are the
        scores, with columns in the order of ``clf.classes_``. Of a regressor, a
        ``RegressionNetwork``, whose output (N,) are the predictions.

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
    module_of = import_module("maxplus.export.torch").module_of
    return module_of(clf, _fitted_network(clf))


def _fitted_network(clf: Any) -> LMM | AdditiveLMM:
    """Return the network of a fitted LMM estimator; TypeError for anything else."""
    from maxplus.estimators import LipschitzInterpolator, LMMRegressor
    from maxplus.estimators._lmm import BaseLMMClassifier

    if not isinstance(clf, (BaseLMMClassifier, LMMRegressor, LipschitzInterpolator)):
        raise TypeError(
            "clf must be a fitted LMMRegressor or LMMClassifier; "
            f"got {type(clf).__name__}. For a pipeline or a search, pass the estimator inside "
            "(pipeline[-1], search.best_estimator_)"
        )
    check_is_fitted(clf, "model_")
    return clf.model_
