"""Export of fitted estimators to other frameworks: ONNX files and PyTorch modules.

The packages onnx and torch are imported when the functions are called.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from maxplus._files import write_atomically

if TYPE_CHECKING:
    from torch import nn

    from maxplus.estimators import LipschitzInterpolator, LMMRegressor
    from maxplus.estimators._lmm import BaseLMMClassifier
    from maxplus.models import LMM, AdditiveLMM

__all__ = ["export_onnx", "to_torch"]


def export_onnx(
    clf: BaseLMMClassifier | LMMRegressor | LipschitzInterpolator, path: str | os.PathLike[str]
) -> None:
    """Export a fitted LMM classifier or regressor to ONNX; requires ``maxplus[onnx]``.

    The file computes ``predict`` and ``predict_proba`` with standard operators in the float type of
    the model. Scores of a single network are bit-identical. Scores of a sum of terms, which a
    runtime may add in a different order, and probabilities are equal up to rounding.

    Parameters
    ----------
    clf : LMMClassifier, LMMEnsembleClassifier, SubgradientLMMClassifier, LMMRegressor or \
LipschitzInterpolator
        Fitted estimator to export.
    path : str or path
        Name of the file. An existing file is replaced atomically.

    Notes
    -----
    The input ``X`` (N, P) has the dtype ``clf.model_.dtype`` and any number of rows N. For an
    estimator fitted on a data frame, it contains the encoded features (``clf.encoder_``). For a
    classifier, the output ``label`` (N,) contains strings, or int64 for integral and boolean
    labels, and the columns of the output ``probabilities`` (N, C) are in the order of
    ``clf.classes_``. For a regressor, the output ``value`` (N,) contains the predictions. Feature
    names are stored in the metadata "feature_names" as a JSON list.

    Hidden units are computed in tiles of at most 8192 sums per sample, or of one unit if it has
    more sums. In addition to λ (N, 2P), g (N, H) and z (N, C), a runtime requires 4·8192 bytes per
    sample for float32. There are about 2PH / 8192 tiles with two nodes each. Terms with equal
    numbers of features and units are computed together. The feature map is computed by a binary
    search for the segments of all features at once.

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
    write_atomically(path, serialize(clf, _fitted_network(clf)))


def to_torch(clf: BaseLMMClassifier | LMMRegressor | LipschitzInterpolator) -> nn.Module:
    """Return a fitted LMM classifier or regressor as a PyTorch module; requires ``maxplus[torch]``.

    Scores of a single network are bit-identical. Scores of a sum of terms are equal up to rounding,
    because PyTorch adds the terms in a different order. ``maxplus.export.torch`` defines the layers
    ``MinPlus`` and ``MaxPlus``.

    Parameters
    ----------
    clf : LMMClassifier, LMMEnsembleClassifier, SubgradientLMMClassifier, LMMRegressor or \
LipschitzInterpolator
        Fitted estimator to export. Its weights are copied, so training the module does not change
        it.

    Returns
    -------
    torch.nn.Module
        ``LMMNetwork`` or ``AdditiveNetwork`` of the same dtype. Its output (N, C) contains the
        scores, with columns in the order of ``clf.classes_``. For a regressor,
        ``RegressionNetwork``, whose output (N,) contains the predictions.

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
    """Return the network of a fitted LMM estimator; raise TypeError for other objects."""
    from maxplus.estimators import LipschitzInterpolator, LMMRegressor
    from maxplus.estimators._lmm import BaseLMMClassifier

    if not isinstance(clf, (BaseLMMClassifier, LMMRegressor, LipschitzInterpolator)):
        raise TypeError(
            "clf must be a fitted LMM classifier, LMMRegressor or LipschitzInterpolator; "
            f"got {type(clf).__name__}. For a pipeline or a search, pass pipeline[-1] or "
            "search.best_estimator_"
        )
    check_is_fitted(clf, "model_")
    return clf.model_
