"""Lipschitz interpolation by the network of the paper's approximation theorem."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from maxplus.estimators._base import BaseMaxPlusRegressor, WeightsMixin
from maxplus.estimators._parameters import COMMON, Parameters, integer, real, warn_user
from maxplus.estimators._training_data import TrainingData, predict_in_batches
from maxplus.models import LMM
from maxplus.models.initialization import lipschitz_constant, prototype_lmm_bytes
from maxplus.training import memory


class LipschitzInterpolator(WeightsMixin, BaseMaxPlusRegressor):
    """Lipschitz interpolation by a max-min network, for targets without noise.

    The model is the network of the paper's approximation theorem: a maximum of pyramids at training
    points, h(x) = max_j (y_j − K·‖x − x_j‖∞). If f is K-Lipschitz and y_j = f(x_j), then h ≤ f, and
    h = f at the selected points. If every x is within δ of a selected point, f − h ≤ 2Kδ.
    `envelopes` also returns an upper bound of f. For noisy data, see `LMMRegressor`.

    Parameters
    ----------
    n_hidden : int or "auto", default="auto"
        Number of pyramids, at random training points. "auto" uses all training points.
    slope : float or "auto", default="auto"
        Lipschitz constant K. "auto" uses ``lipschitz_``, increased by a factor of 1 + √ε to allow
        for rounding, where ε is the machine epsilon.
    n_jobs : int, optional
        Number of threads. None and −1 use all threads.
    random_state : int, RandomState or None, default=None
        Seed for the selection of points.

    Attributes
    ----------
    model_ : LMM
        Fitted network with one output.
    n_hidden_ : int
        Number of pyramids.
    slope_ : float
        Lipschitz constant K of the model.
    W0_, W1_, W2_ : ndarray
        Weights of the network.
    lipschitz_ : float
        Lipschitz constant of the training data in the L∞ norm.
    interpolates_ : bool
        True if h passes through all selected points. This holds if K is at least their Lipschitz
        constant, unless the rounding of K·x exceeds the differences between targets. In that case,
        centre the features.
    training_summary_ : dict
        Number of training samples ("n_rows"), and "mean" and standard "deviation" of their
        targets.
    prototypes_ : ndarray of shape (n_hidden_,)
        Indices of the selected training samples.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features seen during `fit`, if X has feature names that are all strings.

    Notes
    -----
    Fitting costs O(N²·P), because ``lipschitz_`` is computed from all pairs of samples. Samples at
    the same point are merged, and their targets are averaged. Noisy targets have a large Lipschitz
    constant.

    Examples
    --------
    >>> import numpy as np
    >>> from maxplus import LipschitzInterpolator
    >>> x = np.linspace(0, 6, 50)[:, None]
    >>> reg = LipschitzInterpolator(slope=1.0).fit(x, np.sin(x[:, 0]))
    >>> lower, upper = reg.envelopes([[2.0]])
    >>> bool(lower[0] <= np.sin(2.0) <= upper[0])
    True
    """

    model_: LMM
    slope_: float
    lipschitz_: float
    interpolates_: bool
    prototypes_: NDArray
    _model_class = LMM
    _parameters: ClassVar[Parameters] = {
        **COMMON,
        "n_hidden": (integer(1), "auto"),
        "slope": (real(above=0.0), "auto"),
    }

    def __init__(
        self,
        n_hidden: int | str = "auto",
        *,
        slope: float | str = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_hidden = n_hidden
        self.slope = slope
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fitted_attributes(self, data: TrainingData) -> dict[str, Any]:
        points, targets, index = _merge_equal_points(data.X, data.y, data.weight)
        lipschitz = lipschitz_constant(points, targets)
        margin = 1.0 + float(np.finfo(points.dtype).eps) ** 0.5
        K = lipschitz * margin if isinstance(self.slope, str) else float(self.slope)
        reach = max(1.0, float(np.abs(points).max())) * K
        if not reach < np.finfo(points.dtype).max / 8:
            raise ValueError(
                f"the product of slope {K:g} and X overflows {points.dtype}; use a smaller slope, "
                "or merge samples that nearly coincide but have different targets"
            )
        if not isinstance(self.n_hidden, str) and int(self.n_hidden) < len(points):
            rng = check_random_state(self.random_state)
            chosen = np.sort(rng.choice(len(points), int(self.n_hidden), replace=False))
            points, targets, index = points[chosen], targets[chosen], index[chosen]
        needed = prototype_lmm_bytes(len(points), points.shape[1], 1, points.dtype)
        memory.require(needed, f"{len(points):,} pyramids", memory.FEWER_UNITS)
        model = LMM.from_boxes(points, 0.0, targets[:, None], K)
        return {
            "model_": model,
            "slope_": K,
            "lipschitz_": lipschitz,
            "prototypes_": index,
            "interpolates_": bool(np.array_equal(model.scores(points), model.W2)),
        }

    def _warn_after_fit(self) -> None:
        if not self.interpolates_ and self.slope_ < self.lipschitz_:
            warn_user(
                f"no function with slope {self.slope_:g} passes through the training points, whose "
                f"Lipschitz constant is {self.lipschitz_:g}: predictions differ from some targets, "
                "and the envelopes cross; use a larger slope",
                ConvergenceWarning,
            )

    def predict(self, X: Any) -> NDArray:
        """Predict h(x), the lower bound of all K-Lipschitz functions through the selected points.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or a data frame
            Samples.

        Returns
        -------
        array of shape (n_samples,)
            Predicted targets.
        """
        check_is_fitted(self, "model_")
        return self._predict(X, self.model_)

    def envelopes(self, X: Any) -> tuple[NDArray, NDArray]:
        """Return the bounds of all K-Lipschitz functions through the selected points.

        The lower bound is max_j (y_j − K·‖x − x_j‖∞), the result of `predict`. The upper bound is
        min_j (y_j + K·‖x − x_j‖∞). If K is too small for the targets, no such function exists and
        the bounds cross at some samples. A ConvergenceWarning is issued in this case.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or a data frame
            Samples.

        Returns
        -------
        lower, upper : arrays of shape (n_samples,)
            Bounds of the function values.
        """
        lower = self.predict(X)
        upper = -self._predict(X, LMM(self.model_.W0, self.model_.W1, -self.model_.W2))
        rounding = float(np.finfo(lower.dtype).eps) ** 0.5 * float(np.abs(lower).max(initial=0.0))
        crossed = lower - upper > rounding
        if crossed.any():
            warn_user(
                f"the envelopes cross at {crossed.sum()} of {len(lower)} samples: no function with "
                f"slope {self.slope_:g} passes through the training points; use a larger slope, "
                "or LMMRegressor for noisy targets",
                ConvergenceWarning,
            )
        # Differences within the rounding error do not count as crossings.
        return lower, np.where(crossed, upper, np.maximum(lower, upper))

    def _predict(self, X: Any, model: LMM) -> NDArray:
        return predict_in_batches(self, X, model, lambda Z: Z[:, 0])

    def __sklearn_tags__(self) -> Any:
        """Return the estimator tags; the training score may be low."""
        tags = super().__sklearn_tags__()
        # The lower envelope of a few points is far below the other targets.
        tags.regressor_tags.poor_score = self.n_hidden != "auto"
        return tags


def _merge_equal_points(
    X: NDArray, y: NDArray, weight: NDArray | None
) -> tuple[NDArray, NDArray, NDArray]:
    """Return the distinct points, their mean targets, and the indices of their first samples."""
    weight = np.ones(len(y)) if weight is None else weight
    used = np.flatnonzero(weight)
    points, first, group = np.unique(X[used], axis=0, return_index=True, return_inverse=True)
    group = group.ravel()
    total = np.bincount(group, weights=weight[used])
    targets = np.bincount(group, weights=weight[used] * y[used]) / total
    # Division by the weight would round the target of a point with a single sample.
    is_single = np.bincount(group) == 1
    targets[is_single] = y[used[first[is_single]]]
    order = np.argsort(first)
    return points[order], targets[order], used[first[order]]
