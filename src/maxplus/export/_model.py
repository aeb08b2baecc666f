"""The network inside a fitted estimator, as exports need it."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from maxplus.estimators import LMMRegressor
from maxplus.estimators._lmm import BaseLMMClassifier
from maxplus.models import LMM, AdditiveLMM, FeatureMap, Term


def fitted_model(clf: Any) -> LMM | AdditiveLMM:
    """Return the network of a fitted LMM estimator; TypeError for anything else."""
    if not isinstance(clf, (BaseLMMClassifier, LMMRegressor)):
        raise TypeError(
            "clf must be a fitted LMMRegressor or LMMClassifier; "
            f"got {type(clf).__name__}. Of a pipeline or a "
            "search, give the estimator inside (pipeline[-1], search.best_estimator_)"
        )
    check_is_fitted(clf, "model_")
    return clf.model_


def terms_by_shape(model: AdditiveLMM) -> list[list[Term]]:
    """Return the terms in groups with equal numbers of features and units."""
    groups: dict[tuple[int, ...], list[Term]] = {}
    for term in model.terms:
        groups.setdefault(term.lmm.W1.shape, []).append(term)
    return list(groups.values())


class Segments(NamedTuple):
    """Segments of each feature's map, arrays of shape (P, width) in float64.

    From ``knots`` on, up to the next one, φ is min(values + rises·(x − knots), ends). Rows are
    padded by knots at infinity.
    """

    knots: NDArray
    values: NDArray
    rises: NDArray
    ends: NDArray


def segments(feature_map: FeatureMap, width: int) -> Segments:
    """Return the segments of a map, with rows of some width."""
    starts = feature_map.starts
    is_segment = np.arange(width) < np.diff(starts)[:, None]
    ends = np.append(feature_map.u[1:], 0.0)
    ends[starts[1:] - 1] = feature_map.u[starts[1:] - 1]

    def table(values: NDArray, fill: float) -> NDArray:
        padded = np.full(is_segment.shape, fill)
        padded[is_segment] = values
        return padded

    return Segments(
        table(feature_map.x, np.inf), table(feature_map.u, 0.0), table(feature_map.rises, 0.0),
        table(ends, 0.0),
    )  # fmt: skip
