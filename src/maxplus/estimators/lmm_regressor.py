"""Regression by the approximation theorem's network."""

from __future__ import annotations

import os
from copy import copy
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from maxplus.estimators._data import FLOATS, as_dense, check_sample_weight, within_range
from maxplus.estimators._lmm import LMMWeights
from maxplus.estimators._parameters import (
    COMMON,
    NOTHING,
    Parameters,
    check_parameters,
    one_of,
    real,
    whole,
)
from maxplus.estimators._threads import threads
from maxplus.models import LMM
from maxplus.models.lipschitz import lipschitz_constant


class LMMRegressor(LMMWeights, RegressorMixin, BaseEstimator):
    """Lipschitz interpolation: a pyramid of slope K at each chosen training point.

    h(x) = max_j (y_j − K·‖x − x_j‖∞), the network of the paper's approximation
    theorem. If f is K-Lipschitz and y_j = f(x_j), then h ≤ f, h = f at the
    chosen points, and f − h ≤ 2Kδ where no x is farther than δ from one of them.

    Parameters
    ----------
    n_hidden : int, optional
        Number of pyramids, at random training points; all points by default.
    slope : float or "auto"
        K. "auto" is the Lipschitz constant of the training data, with a margin
        of √eps against rounding.
    n_jobs : int, optional
        Threads; None and −1 are all.
    random_state : int, RandomState or None
        Chooses points when there are more than ``n_hidden``.

    Attributes
    ----------
    slope_ : K
    lipschitz_ : Lipschitz constant of the training data in the L∞ norm
    interpolates_ : whether h passes through all chosen points. It does when K is at
        least their Lipschitz constant, unless K·x is so much larger than the
        differences of targets that rounding shows: then centre the features.
    prototypes_ : indices of the chosen points in the training set
    W0_, W1_, W2_, n_hidden_, model_ : the network
    n_features_in_, feature_names_in_

    Notes
    -----
    Fitting costs O(N²·P): it looks at all pairs for ``lipschitz_``. Samples at the
    same point become one, with the (weighted) mean of their
    targets. Targets with noise have a large Lipschitz constant: set the slope.

    Examples
    --------
    >>> import numpy as np
    >>> from maxplus import LMMRegressor
    >>> x = np.linspace(0, 6, 50)[:, None]
    >>> reg = LMMRegressor(slope=1.0).fit(x, np.sin(x[:, 0]))
    >>> lower, upper = reg.predict_interval([[2.0]])
    >>> bool(lower[0] <= np.sin(2.0) <= upper[0])
    True
    """

    model_: LMM
    _model_class = LMM
    _parameters: ClassVar[Parameters] = {
        **COMMON,
        "n_hidden": (whole(1), NOTHING),
        "slope": (real(above=0.0), one_of("auto")),
    }

    def __init__(
        self,
        n_hidden: int | None = None,
        *,
        slope: float | str = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_hidden = n_hidden
        self.slope = slope
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> LMMRegressor:
        """Put a pyramid at each chosen training point.

        ``sample_weight`` of 0 leaves a sample out; other weights count where
        several samples share a point. A fit that is refused leaves the estimator as it was.
        """
        self._check_parameters()
        witness = copy(self)
        X, y = validate_data(witness, X, y, accept_sparse="csr", dtype=FLOATS, y_numeric=True)
        X = np.ascontiguousarray(as_dense(X))
        weight = check_sample_weight(sample_weight, len(y))
        points, targets, index = _merge_equal_points(X, y, weight)
        with threads(self.n_jobs):
            witness._interpolate(points, targets, index)
        self.__dict__ = dict(vars(witness))
        return self

    def _interpolate(self, points: NDArray, targets: NDArray, index: NDArray) -> None:
        """Set all fitted attributes."""
        self.lipschitz_ = lipschitz_constant(points, targets)
        if self.slope == "auto":
            self.slope_ = self.lipschitz_ * (1.0 + float(np.finfo(points.dtype).eps) ** 0.5)
        else:
            self.slope_ = float(self.slope)
        reach = max(1.0, float(np.abs(points).max())) * self.slope_
        if not reach < np.finfo(points.dtype).max / 8:
            raise ValueError(
                f"slope {self.slope_:g} times X does not fit into {points.dtype}: samples that "
                "nearly coincide have different targets; set slope, or merge such samples"
            )
        if self.n_hidden is not None and self.n_hidden < len(points):
            rng = check_random_state(self.random_state)
            chosen = np.sort(rng.choice(len(points), self.n_hidden, replace=False))
            points, targets, index = points[chosen], targets[chosen], index[chosen]
        self.prototypes_ = index
        self.model_ = LMM.of_boxes(points, 0.0, targets[:, None], self.slope_)
        heights = self.model_.scores(points)
        self.interpolates_ = bool(np.array_equal(heights, self.model_.W2))

    def _check_parameters(self) -> None:
        check_parameters(self, self._parameters)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to one file; `maxplus.load` reads it back, exactly."""
        from maxplus.io import save

        save(self, path)

    def predict(self, X: Any) -> NDArray:
        """h(x), the largest function below all K-Lipschitz functions through the points."""
        check_is_fitted(self, "model_")
        return self._envelope(X, self.model_)

    def predict_interval(self, X: Any) -> tuple[NDArray, NDArray]:
        """Lower and upper envelope: every K-Lipschitz f with f(x_j) = y_j lies between.

        lower = max_j (y_j − K·‖x − x_j‖∞) = `predict`, and
        upper = min_j (y_j + K·‖x − x_j‖∞), which is −lower of the negated targets.
        """
        check_is_fitted(self, "model_")
        mirror = LMM(self.model_.W0, self.model_.W1, -self.model_.W2)
        return self._envelope(X, self.model_), -self._envelope(X, mirror)

    def _envelope(self, X: Any, model: LMM) -> NDArray:
        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, reset=False)
        X = within_range(as_dense(X), model, ("W0",))
        with threads(self.n_jobs):
            return model.scores(X)[:, 0]

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that CSR input is welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        # A lower envelope of a few points lies far below the others.
        tags.regressor_tags.poor_score = self.n_hidden is not None
        return tags


def _merge_equal_points(
    X: NDArray, y: NDArray, weight: NDArray | None
) -> tuple[NDArray, NDArray, NDArray]:
    """Different points, the mean target at each, and where each occurs first."""
    weight = np.ones(len(y)) if weight is None else weight
    used = np.flatnonzero(weight)
    points, first, group = np.unique(X[used], axis=0, return_index=True, return_inverse=True)
    group = group.ravel()
    total = np.bincount(group, weights=weight[used])
    targets = np.bincount(group, weights=weight[used] * y[used]) / total
    # A point of one sample keeps its target to the last bit.
    alone = np.bincount(group) == 1
    targets[alone] = y[used[first[alone]]]
    order = np.argsort(first)
    return points[order], targets[order], used[first[order]]
