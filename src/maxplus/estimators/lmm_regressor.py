"""Linear-Min-Max regressor."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from maxplus.certify.margins import Margins
from maxplus.estimators._additive import MAX_PAIRS, Choice, PreparedData, TermTraining
from maxplus.estimators._base import BaseMaxPlusRegressor, StatusMixin
from maxplus.estimators._cross_validation import Search, SearchBudget
from maxplus.estimators._parameters import (
    MONOTONIC,
    TRAINED,
    Parameters,
    as_callbacks,
    check_value,
    integer,
    progress_bar,
    real,
    reject_checkpoints,
    threads,
    warn_user,
)
from maxplus.estimators._training_data import (
    ROUNDING,
    Scaling,
    TrainingData,
    check_magnitude,
    predict_in_batches,
    validate_samples,
)
from maxplus.explain import (
    Domain,
    PredictionContributions,
    feature_importances,
    prediction_contributions,
    term_means,
)
from maxplus.models import LMM, AdditiveLMM, FeatureMap
from maxplus.models._checks import feature_values
from maxplus.training import Status, TrainingMonitor
from maxplus.training.result import TrainingOverflowError
from maxplus.training.smooth.soft_terms import TERM_ANNEALING
from maxplus.training.smooth.structures import Structure, best_pairs

# Only these coverages are stored, because all quantiles together would reveal the residuals.
COVERAGES = np.array([*range(50, 1000, 50), 975, 990, 995, 999]) / 1000
# Rounding tolerance in comparisons with COVERAGES.
TOLERANCE = 1e-9
STAGE = "terms"
SQUARED = "squared_error"
# Values of the parameter ``loss``, and the corresponding names in `train_terms`.
LOSSES = {SQUARED: "squared", "absolute_error": "absolute"}
# The squares of larger targets would overflow.
MAX_TARGET = 1e150
# Extension of ``bounds_`` on each side, as a fraction of the range of the training targets.
MARGIN = 0.05
# Longer training with larger steps, for shape functions with many jumps, such as those of
# integer-coded categories.
DETAILED = Structure(pairs_per_feature=1.0, size=2.0, rate=0.1, min_steps=1_500)
# Candidate structures in order of capacity, from shape functions with few units to many boxes.
STRUCTURES = (
    Structure(units=1, size=0.5),
    Structure(units=1, size=1.5),
    Structure(units=2, size=1.0),
    Structure(units=2, pairs_per_feature=1.0, size=1.0),
    Structure(units=2, pairs_per_feature=1.0, boxes=4, size=1.0),
    Structure(units=3, pairs_per_feature=1.0, boxes=8, box_units=3, size=2.0),
    DETAILED._replace(units=16),
    DETAILED._replace(units=8, boxes=8, box_units=8),
    DETAILED._replace(units=16, boxes=8, box_units=16, size=4.0),
)
BUDGET = SearchBudget(survivors=3, first=1.0, others=1.0, min_samples=3_000, fraction=1 / 8)
# Length of the training run for the selection of pairs, as a fraction of the full length.
PAIRS_LENGTH = 0.5
# Number of standard deviations at which residuals are clipped for the selection of pairs.
CLIP = 4.0


class LMMRegressor(StatusMixin, BaseMaxPlusRegressor):
    """Linear-Min-Max regressor: a sum of piecewise-linear terms.

    Predictions are h(x) = z_1(x) − z_0(x), clipped to ``bounds_``. The scores z of a
    `maxplus.models.AdditiveLMM` are sums of small max-min terms of one, two or all features. The
    structure of the sum is chosen by cross-validation, and all terms are trained jointly. For data
    without noise, see `LipschitzInterpolator`.

    Parameters
    ----------
    loss : {"squared_error", "absolute_error"}, default="squared_error"
        Loss to minimise. "squared_error" estimates the conditional mean, and "absolute_error" the
        conditional median, which is robust to outliers in the targets.
    epochs : int or "auto", default="auto"
        Number of passes over the samples in each training run. "auto" uses 10, or more if 10
        epochs have fewer than 500 batches (1,500 for the three most detailed structures).
    monotonic_cst : array of 1, 0 and -1, or dict that maps column names to these numbers, optional
        Monotonicity constraint of each column: 1 for increasing, -1 for decreasing, 0 for no
        constraint. Constraints hold for all inputs by construction.
    n_jobs : int, optional
        Number of threads. None and −1 use all threads.
    random_state : int, RandomState or None, default=None
        Seed for folds, batches and the initialisation of units.
    verbose : int, default=0
        If nonzero, show progress bars for the search and for training.
    callbacks : callable or list of callables, optional
        Functions called with a `maxplus.training.Progress` after each training run of the search
        and each epoch of the final training run. Returning True stops training.

    Attributes
    ----------
    model_ : AdditiveLMM
        Fitted sum of terms with two outputs.
    n_hidden_ : int
        Number of hidden units of all terms.
    bounds_ : ndarray of shape (2,)
        Lower and upper bound of the predictions: the range of the training targets, widened by 5 %
        of its length on each side.
    feature_importances_ : ndarray of shape (n_features,)
        Mean absolute contribution of each feature to the predictions on the training set,
        normalised to sum to 1.
    term_means_ : ndarray of shape (n_terms, 2)
        Mean scores of each term on the training set, the reference of contributions in `explain`.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features seen during `fit`, if X has feature names that are all strings.
    search_ : dict
        Results of the structure search: the "candidates" as text, the held-out "losses" of shape
        (n_candidates, n_folds) with inf for skipped folds, and the index of the "chosen" candidate.
    residuals_ : ndarray
        Absolute errors on held-out samples in ascending order. They are saved only with
        ``save(path, remember_rows=True)``.
    residual_quantiles_ : ndarray
        Quantiles of ``residuals_`` for the coverages 0.05, 0.1, …, 0.95, 0.975, 0.99, 0.995 and
        0.999: the half-widths of prediction intervals.
    training_summary_ : dict
        Number of training samples ("n_rows"), and "mean" and standard "deviation" of their
        targets.
    loss_curve_ : ndarray of shape (n_iter_,)
        Mean smoothed loss of each epoch, for standardised targets.
    n_iter_ : int
        Number of epochs.
    status_ : str
        Reason why training stopped (`maxplus.training.Status`).
    status_message_ : str
        Description of ``status_``.

    Notes
    -----
    A training run costs O(epochs·N·Σ_t H_t·m_t), where term t has H_t hidden units and m_t
    features. The search evaluates all nine structures on the first of three folds and the best
    three on the other folds. It uses a subsample of large data sets. The chosen structure is
    trained on all samples. Each feature is transformed monotonically, with outliers clipped
    (`maxplus.models.FeatureMap`).

    Examples
    --------
    >>> import numpy as np
    >>> from maxplus import LMMRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (300, 1))
    >>> y = np.abs(X[:, 0]) + rng.normal(0, 0.2, 300)
    >>> reg = LMMRegressor(random_state=0).fit(X, y)
    >>> bool(abs(reg.predict([[2.0]])[0] - 2.0) < 0.2)
    True
    >>> lower, upper = reg.predict_interval([[2.0]], coverage=0.9)
    >>> bool(lower[0] < 2.0 < upper[0])
    True
    """

    model_: AdditiveLMM
    encoder_: Any
    n_iter_: int
    bounds_: NDArray
    term_means_: NDArray
    feature_importances_: NDArray
    residuals_: NDArray
    residual_quantiles_: NDArray
    loss_curve_: NDArray
    _model_class = LMM
    _parameters: ClassVar[Parameters] = {
        **TRAINED,
        "loss": (*LOSSES,),
        "epochs": (integer(1), "auto"),
        "monotonic_cst": (MONOTONIC, None),
    }

    def __init__(
        self,
        *,
        loss: str = SQUARED,
        epochs: int | str = "auto",
        monotonic_cst: ArrayLike | Mapping[str, int] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        self.loss = loss
        self.epochs = epochs
        self.monotonic_cst = monotonic_cst
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    @property
    def n_hidden_(self) -> int:
        """Number of hidden units of all terms."""
        return self.model_.n_hidden

    def _check_parameters(self) -> None:
        super()._check_parameters()
        reject_checkpoints(self.callbacks, "a regressor")

    def _fitted_attributes(self, data: TrainingData) -> dict[str, Any]:
        signs = data.monotonic_signs(self.monotonic_cst)
        if data.weight is not None:
            data = data.part(np.flatnonzero(data.weight))
        n_epochs = None if isinstance(self.epochs, str) else int(self.epochs)
        training = RegressionTraining(
            annealing=TERM_ANNEALING._replace(n_epochs=n_epochs),
            monotonic_signs=signs,
            loss=LOSSES[self.loss],
        )
        seed = int(check_random_state(self.random_state).randint(2**31))
        with ExitStack() as stack:
            callbacks = as_callbacks(self.callbacks)
            if self.verbose:
                callbacks.append(stack.enter_context(progress_bar(self)))
            monitor = stack.enter_context(TrainingMonitor(callbacks))
            return self._search_and_train(training, data, seed, monitor)

    def _search_and_train(
        self, training: RegressionTraining, data: TrainingData, seed: int, monitor: TrainingMonitor
    ) -> dict[str, Any]:
        """Choose a structure by held-out loss, train it, and return the fitted attributes.

        If a callback stopped the search, the best structure so far is trained. Residuals are empty
        in this case, and if there are too few samples for cross-validation.
        """
        check_magnitude(data.X)
        X, y, weight = data.X, data.y.astype(np.float64), data.weight
        if not (largest := float(np.abs(y).max())) < MAX_TARGET:
            raise ValueError(
                f"y reaches {largest:g}, but training supports at most {MAX_TARGET:g}; divide y by "
                "its maximum"
            )
        data = TrainingData(X, y, weight)
        monitor.begin("choice", is_last=False)
        candidates = training.candidates(outputs=training.predictions, losses=training.losses)
        search = Search(candidates, data, BUDGET, seed, is_stratified=False)
        if search.run(monitor) is Status.INTERRUPTED:
            raise KeyboardInterrupt("interrupted during the structure search")
        chosen, residuals = search.best_candidate(), np.empty(0)
        if search.evaluated.all():
            residuals = np.sort(np.abs(search.data.y - search.outputs[chosen, :, 0]))
        monitor.begin(STAGE, is_last=True)
        trained, losses, status = training.train_on_all(chosen, data, seed, monitor)
        with np.errstate(over="ignore"):
            model, bounds = trained.astype(X.dtype), bounds_of(y).astype(X.dtype)
        if not all(np.isfinite(W).all() for W in (*model.weights_by_name().values(), bounds)):
            raise TrainingOverflowError(
                f"training overflowed: the weights exceed the range of {X.dtype}; scale y"
            )
        choice = Choice(training.structures, search.losses, None, chosen, 1.0)
        return {
            "model_": model,
            "bounds_": bounds,
            "term_means_": term_means(model, X, weight),
            "feature_importances_": feature_importances(model, X, weight=weight),
            "residuals_": residuals,
            "residual_quantiles_": residual_quantiles(residuals),
            "loss_curve_": losses,
            "n_iter_": losses.size,
            "status_": status.value,
            **choice.fitted_attributes,
        }

    def _warn_after_fit(self) -> None:
        if self.status_ == Status.INTERRUPTED.value:
            warn_user(
                f"training was interrupted after {self.n_iter_} epochs; the model so far is kept"
            )

    def predict(self, X: Any) -> NDArray:
        """Predict the target of each sample, within ``bounds_``.

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
        return predict_in_batches(self, X, self.model_, lambda Z: difference(Z, self.bounds_))

    def explain(self, X: Any, domain: Domain | None = None) -> PredictionContributions:
        """Decompose each prediction into the mean prediction and contributions of feature groups.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or a data frame
            Samples.
        domain : Domain, optional
            Names and columns of the features. By default, those of the training data.

        Returns
        -------
        PredictionContributions
            Exact additive decomposition of each prediction. Use ``print`` to display it.

        Examples
        --------
        >>> import numpy as np
        >>> from maxplus import LMMRegressor
        >>> X = np.random.default_rng(0).uniform(-3, 3, (200, 2))
        >>> reg = LMMRegressor(random_state=0).fit(X, np.abs(X[:, 0]) + X[:, 1])
        >>> found = reg.explain(X)
        >>> total = found.baseline + found.contribution.sum(axis=1)
        >>> bool(np.allclose(np.clip(total, *reg.bounds_), reg.predict(X)))
        True
        """
        check_is_fitted(self, "model_")
        X = validate_samples(self, X, self.model_)
        if domain is None and hasattr(self, "encoder_"):
            domain = self.encoder_.domain()
        elif domain is None:
            P = self.model_.n_features
            names = getattr(self, "feature_names_in_", [f"x{p}" for p in range(P)])
            domain = Domain.unrestricted(P, names=names)
        with threads(self.n_jobs):
            return prediction_contributions(self.model_, X, self.term_means_, self.bounds_, domain)

    def certified_bounds(
        self, X: Any, eps: ArrayLike, scale: ArrayLike = 1.0
    ) -> tuple[NDArray, NDArray]:
        """Return bounds of the prediction if each feature p changes by at most eps·scale_p.

        The bounds are guaranteed. They are exact up to rounding if every term depends on a single
        feature.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or a data frame
            Samples.
        eps : number >= 0, or an array of shape (n_samples,)
            Size of the change.
        scale : number >= 0, or an array of shape (n_features,), default=1.0
            Unit of the change for each feature.

        Returns
        -------
        lower, upper : arrays of shape (n_samples,)
            Bounds of the predictions.

        Examples
        --------
        >>> import numpy as np
        >>> from maxplus import LMMRegressor
        >>> X = np.random.default_rng(0).uniform(-3, 3, (200, 2))
        >>> reg = LMMRegressor(random_state=0).fit(X, np.abs(X[:, 0]) + X[:, 1])
        >>> lower, upper = reg.certified_bounds(X, 0.1)
        >>> moved = reg.predict(X + 0.1)
        >>> bool(((lower <= moved) & (moved <= upper)).all())
        True
        """
        check_is_fitted(self, "model_")
        X = validate_samples(self, X, self.model_).astype(np.float64)
        factors = feature_values("scale", scale, self.model_.n_features)
        reach = np.asarray(eps, np.float64)
        if reach.shape not in ((), (len(X),)) or not (reach >= 0.0).all():
            raise ValueError(
                "eps must be a number >= 0, or an array with a number for each sample; "
                f"got {eps!r:.80}"
            )
        if not (factors >= 0.0).all():
            raise ValueError(f"scale must hold numbers >= 0; got {scale!r:.80}")
        index, reach = np.arange(len(X)), np.broadcast_to(reach, len(X))
        with threads(self.n_jobs):
            lower, negated_upper = (
                Margins(self.model_, X, np.full(len(X), d), factors).lower_bounds(index, reach).gap
                for d in (1, 0)
            )
        low, high = self.bounds_.astype(np.float64)
        return np.clip(lower, low, high), np.clip(-negated_upper, low, high)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[NDArray, NDArray]:
        """Return a prediction interval for each sample.

        The interval is h(x) ± q, where q is the ⌈(n + 1)·coverage⌉-th smallest of the n held-out
        ``residuals_`` (conformal prediction with cross-validation). The coverage is rounded up to
        one of the coverages of ``residual_quantiles_``. For new samples from the distribution of
        the training set, the marginal coverage is approximately ``coverage`` or higher, because
        the residuals are computed with models trained on fewer samples. With too few residuals, the
        interval is infinite.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or a data frame
            Samples.
        coverage : float, default=0.9
            Desired fraction of targets inside their interval, > 0 and <= 1.

        Returns
        -------
        lower, upper : arrays of shape (n_samples,)
            Bounds of the intervals.
        """
        check_value("coverage", coverage, real(above=0.0, maximum=1.0))
        predictions = self.predict(X)
        # Coverages above the largest one have an infinite interval.
        quantiles = np.append(self.residual_quantiles_, math.inf)
        half_width = float(quantiles[np.searchsorted(COVERAGES, coverage - TOLERANCE)])
        return predictions - half_width, predictions + half_width


def residual_quantiles(residuals: NDArray) -> NDArray:
    """Return the ⌈(n + 1)·c⌉-th of n sorted residuals, or inf, for each coverage c."""
    orders = np.ceil((residuals.size + 1) * COVERAGES - TOLERANCE).astype(int)
    return np.append(residuals, math.inf)[np.minimum(orders, residuals.size + 1) - 1]


def bounds_of(y: NDArray) -> NDArray:
    """Return the range of the targets, widened by 5 % of its length on each side."""
    low, high = float(y.min()), float(y.max())
    return np.array([low - MARGIN * (high - low), high + MARGIN * (high - low)])


def difference(Z: NDArray, bounds: NDArray) -> NDArray:
    """Return the predictions z_1 − z_0 for scores of shape (N, 2), clipped to the bounds."""
    return np.clip(Z[:, 1] - Z[:, 0], bounds[0], bounds[1])


@dataclass(frozen=True)
class RegressionTraining(TermTraining):
    """Training of a sum of terms whose score difference z_1 − z_0 predicts a target."""

    n_classes: int = 2
    structures: Sequence[Structure] = STRUCTURES
    loss: str = LOSSES[SQUARED]

    @property
    def _is_squared(self) -> bool:
        return self.loss == LOSSES[SQUARED]

    def prepare(self, data: TrainingData, rng: np.random.Generator) -> PreparedData:
        """Transform features, standardise targets, and select pairs of features; O(N·P²).

        Units are initialised at samples with targets below and above the median.
        """
        feature_map = FeatureMap.fit(data.X)
        U = feature_map(data.X)
        centre, spread = self._location_and_scale(data.y, data.weight)
        y, P = (data.y - centre) / spread, U.shape[1]
        labels, bounds = (y > np.median(y)).astype(np.int64), bounds_of(data.y)
        prepared = PreparedData(
            feature_map, U, y, labels, data.weight, range(P), (), centre, spread, bounds
        )
        if P < 2:
            return prepared
        annealing = self.annealing._replace(length=PAIRS_LENGTH)
        signs = self.monotonic_signs
        shapes = self.train_mapped(Structure(size=1.0), prepared, annealing, rng, signs=signs)
        residuals = _residuals(shapes, prepared)
        size = float(np.sqrt(np.average(residuals**2, weights=data.weight))) or 1.0
        residuals = np.clip(residuals / size, -CLIP, CLIP)[:, None]
        weight = np.ones((len(U), 1)) if data.weight is None else data.weight[:, None]
        weight = weight / weight.mean()
        return prepared._replace(
            pairs=best_pairs(U, weight * residuals, weight**2, min(P, MAX_PAIRS))
        )

    def _location_and_scale(self, y: NDArray, weight: NDArray | None) -> tuple[float, float]:
        """Return the location and scale of the targets.

        These are the mean and standard deviation for the squared loss, and robust estimates for
        the absolute loss.
        """
        if self._is_squared:
            centre = float(np.average(y, weights=weight))
            spread = math.sqrt(float(np.average((y - centre) ** 2, weights=weight)))
            return centre, spread if spread > ROUNDING * abs(centre) else 1.0
        (centre,), (spread,) = Scaling.from_rows(y[:, None])
        return float(centre), float(spread)

    def to_raw_features(self, model: AdditiveLMM, prepared: PreparedData) -> AdditiveLMM:
        """Return the model that takes raw features, with z_1 − z_0 in the unit of the targets.

        The intercept is chosen such that training residuals have mean 0, or median 0 for the
        absolute loss.
        """
        residuals = _residuals(model, prepared)
        if self._is_squared:
            shift = float(np.average(residuals, weights=prepared.weight))
        else:
            shift = weighted_median(residuals, prepared.weight)
        terms = model.scaled(prepared.spread).terms
        intercept = np.array([0.0, prepared.centre + prepared.spread * shift])
        return AdditiveLMM(terms, model.n_features, prepared.feature_map, intercept)

    def predictions(self, model: AdditiveLMM, prepared: PreparedData, X: NDArray) -> NDArray:
        """Return the predictions for held-out samples, of shape (n, 1)."""
        assert prepared.bounds is not None
        return difference(model.scores(X), prepared.bounds)[:, None]

    def losses(self, predictions: NDArray, data: TrainingData) -> NDArray:
        """Return the squared or absolute error of each sample."""
        residuals = data.y - predictions[:, 0]
        return residuals**2 if self._is_squared else np.abs(residuals)


def _residuals(model: AdditiveLMM, prepared: PreparedData) -> NDArray:
    """Return the residuals of the standardised targets."""
    Z = model.scores(prepared.U)
    return prepared.y - (Z[:, 1] - Z[:, 0])


def weighted_median(values: NDArray, weight: NDArray | None) -> float:
    """Return the median.

    With weights, it is the smallest value at which the cumulative weight reaches half of the total.
    """
    if weight is None:
        return float(np.median(values))
    order = np.argsort(values)
    total = np.cumsum(weight[order])
    return float(values[order][np.searchsorted(total, 0.5 * total[-1])])
