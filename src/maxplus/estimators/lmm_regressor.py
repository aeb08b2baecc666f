"""Regression: a sum of Linear-Min-Max terms for noisy data, or the theorem's interpolation."""

from __future__ import annotations

from contextlib import ExitStack
from copy import copy
from typing import Any, ClassVar

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from maxplus.certify.margins import Margins
from maxplus.estimators._data import FLOATS, check_sample_weight, checked_rows, within_range
from maxplus.estimators._effects import Effect, warn_of_no_effect
from maxplus.estimators._endings import Ended, warn_of_shortfall
from maxplus.estimators._frames import COLUMNS, prepared
from maxplus.estimators._interpolation import interpolate
from maxplus.estimators._intervals import interval_width
from maxplus.estimators._lmm import LMMWeights
from maxplus.estimators._parameters import (
    TRAINED,
    Parameters,
    as_callbacks,
    check_parameters,
    check_value,
    one_of,
    real,
    refuse_checkpoints,
    refuse_ranks,
    whole,
)
from maxplus.estimators._progress import progress_bar
from maxplus.estimators._regression import difference, fit_regression
from maxplus.estimators._saving import Saved
from maxplus.estimators._scoring import answers
from maxplus.estimators._threads import threads
from maxplus.estimators._training_summary import targets_summary
from maxplus.estimators._warning import warn_user
from maxplus.explain import Domain, PredictionContributions, prediction_contributions
from maxplus.models import LMM, AdditiveLMM
from maxplus.models._checks import feature_values
from maxplus.training import Status, TrainingMonitor

LEARN, INTERPOLATE = "learn", "interpolate"


class LMMRegressor(Ended, Saved, LMMWeights, RegressorMixin, BaseEstimator):
    """Piecewise-linear regression: a sum of terms, or the interpolation of the paper's theorem.

    ``method="learn"`` is for noisy data: h(x) = z_1(x) − z_0(x), within ``bounds_``, where z are
    the scores of a `maxplus.models.AdditiveLMM`, a sum of small max-min terms over one, two or all
    features. All terms are trained jointly on the squared or the absolute loss, and which terms
    there are is chosen by cross-validation.

    ``method="interpolate"`` is the network of the paper's approximation theorem, a pyramid
    of slope K at each chosen training point: h(x) = max_j (y_j − K·‖x − x_j‖∞). If f
    is K-Lipschitz and y_j = f(x_j), then h ≤ f, h = f at the chosen points, and f − h ≤ 2Kδ where
    no x is farther than δ from one of them.

    Parameters
    ----------
    n_hidden : int or "auto", default="auto"
        To interpolate: pyramids stand at so many random training points; "auto" is all of them.
    slope : float or "auto", default="auto"
        To interpolate: K; "auto" is the Lipschitz constant of the training data, with a margin of
        √eps against rounding.
    method : "learn" or "interpolate", default="learn"
    loss : "squared" or "absolute", default="squared"
        What is minimised to learn: predictions follow the mean of the targets, or their median.
        Take "absolute" where a few targets are far from all others.
    epochs : int or "auto", default="auto"
        Passes over the samples in each training; "auto" is 10, and more where that would be fewer
        than 500 steps.
    n_jobs : int, optional
        Threads; None and −1 are all.
    random_state : int, RandomState or None, default=None
        Chooses folds, batches, and where units begin.
    verbose : int, default=0
        1 shows progress bars: of the choice, then of the training.
    callbacks : callable or list of callables, optional
        Called with a `maxplus.training.Progress` after each training of the choice, and after
        each epoch; one that returns True ends it.

    Attributes
    ----------
    model_ : AdditiveLMM with two outputs; to interpolate, an LMM with one
    n_hidden_ : hidden units of the model
    bounds_ : array of two numbers that no learned prediction leaves: the range of the training
        targets, 5 % of it wider on either side
    feature_importances_ : array of shape (P,), mean |contribution| of each feature to learned
        predictions on the training rows, as shares
    term_means_ : array of shape (T, 2), mean scores of each term over training rows; what
        `explain` compares with
    n_features_in_, feature_names_in_
    search_ : what was tried to learn and how it did: "candidates" in words, "losses" of shape
        (candidates, folds) on rows held out, inf where a fold was left out, and which was "chosen"
    residuals_ : how far predictions were off on rows held out, ascending; only in the process
        that trained, or with ``save(path, remember_rows=True)``
    residual_quantiles_ : their quantiles for the coverages 0.05, 0.1, …, 0.95, 0.975, 0.99, 0.995
        and 0.999; what the interval is made from
    curve_losses_, loss_curve_ : mean soft loss of each epoch, of standardised targets
    n_iter_ : epochs
    status_, status_message_ : why learning ended, as a code (`maxplus.training.Status`) and as a
        sentence
    slope_, W0_, W1_, W2_ : to interpolate: K, and the weights
    lipschitz_ : to interpolate: the Lipschitz constant of the training data in the L∞ norm
    interpolates_ : whether h passes through all chosen points. It does when K is at
        least their Lipschitz constant, unless K·x is so much larger than the
        differences of targets that rounding shows: then centre the features
    prototypes_ : to interpolate: indices of the chosen points in the training set

    Notes
    -----
    To learn costs O(epochs·N·Σ_t H_t·m_t) for each training: seven structures on the first of three
    folds, the best three on the others, and the last; of many rows, a part is for choosing. Each
    feature has a monotone map (`maxplus.models.FeatureMap`), constant far out.

    To interpolate costs O(N²·P): it looks at all pairs for ``lipschitz_``. Samples at the
    same point become one, with the (weighted) mean of their targets. Targets with noise
    have a large Lipschitz constant.

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

    Without noise, the theorem:

    >>> x = np.linspace(0, 6, 50)[:, None]
    >>> exact = LMMRegressor(slope=1.0, method="interpolate").fit(x, np.sin(x[:, 0]))
    >>> lower, upper = exact.predict_interval([[2.0]])
    >>> bool(lower[0] <= np.sin(2.0) <= upper[0])
    True
    """

    model_: Any
    bounds_: NDArray
    term_means_: NDArray
    feature_importances_: NDArray
    residuals_: NDArray
    residual_quantiles_: NDArray
    curve_losses_: NDArray
    slope_: float
    interpolates_: bool
    lipschitz_: float
    _model_class = LMM
    _effects = (
        Effect(
            ("loss", "epochs", "verbose", "callbacks"),
            lambda own: own.method == LEARN, "method is 'learn'",
        ),
        Effect(
            ("n_hidden", "slope"), lambda own: own.method == INTERPOLATE, "method is 'interpolate'",
        ),
    )  # fmt: skip
    _parameters: ClassVar[Parameters] = {
        **TRAINED,
        "n_hidden": (whole(1), one_of("auto")),
        "slope": (real(above=0.0), one_of("auto")),
        "method": (one_of(LEARN, INTERPOLATE),),
        "loss": (one_of("squared", "absolute"),),
        "epochs": (whole(1), one_of("auto")),
    }

    def __init__(
        self,
        n_hidden: int | str = "auto",
        *,
        slope: float | str = "auto",
        method: str = LEARN,
        loss: str = "squared",
        epochs: int | str = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        self.n_hidden = n_hidden
        self.slope = slope
        self.method = method
        self.loss = loss
        self.epochs = epochs
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> LMMRegressor:
        """Learn from samples X with targets y, or interpolate them.

        ``sample_weight`` of 0 leaves a sample out; other weights count in the mean loss, or
        where several samples share a point. A fit that is refused leaves the estimator as it was.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or a data frame
        y : array of shape (n_samples,)
            Targets.
        sample_weight : array of shape (n_samples,), optional
            Weights, >= 0.

        Returns
        -------
        self
        """
        self._check_parameters()
        refuse_ranks("a regression", "train it in one process")
        warn_of_no_effect(self, self._effects)
        X, preparation = prepared(self, X, y, "regression")
        # scikit-learn notes the columns on the estimator that it is given.
        witness = copy(self)
        X, y = validate_data(witness, X, y, dtype=FLOATS, y_numeric=True)
        fitted = preparation or {n: v for n, v in vars(witness).items() if n in COLUMNS}
        fitted["training_summary_"] = targets_summary(np.asarray(y, np.float64))
        X = np.ascontiguousarray(X)
        weight = check_sample_weight(sample_weight, len(y))
        with threads(self.n_jobs):
            if self.method == INTERPOLATE:
                fitted |= interpolate(X, y, weight, self.n_hidden, self.slope, self.random_state)
            else:
                fitted |= self._learn(X, y, weight)
        # One assignment: an interruption finds the old facts or the new ones, never some of both.
        self.__dict__ = {n: v for n, v in vars(self).items() if not n.endswith("_")} | fitted
        if fitted.get("status_") == Status.INTERRUPTED.value:
            warn_user(
                f"training was interrupted after {self.n_iter_} epochs; the model so far is kept"
            )
        elif self.method == INTERPOLATE and self._crosses:
            warn_of_shortfall(
                f"no function with slope {self.slope_:g} passes through the training points, whose "
                f"Lipschitz constant is {self.lipschitz_:g}: the curve misses some of them, and "
                "bounds cross; take a larger slope",
            )
        return self

    @property
    def _crosses(self) -> bool:
        """Whether pyramids are too flat for the points that they stand at."""
        return not self.interpolates_ and self.slope_ < self.lipschitz_

    @property
    def loss_curve_(self) -> NDArray:
        """The mean soft loss of each epoch; pyramids have none, as nothing is trained."""
        return self.curve_losses_

    def _learn(self, X: NDArray, y: NDArray, weight: NDArray | None) -> dict[str, Any]:
        """Return the fitted attributes of a sum of terms."""
        if weight is not None:
            used = np.flatnonzero(weight)
            X, y, weight = X[used], y[used], weight[used]
        seed = int(check_random_state(self.random_state).randint(2**31))
        with ExitStack() as stack:
            callbacks = as_callbacks(self.callbacks)
            if self.verbose:
                callbacks.append(stack.enter_context(progress_bar(self)))
            monitor = stack.enter_context(TrainingMonitor(callbacks))
            return fit_regression(
                X, y, weight, seed, monitor, numba.get_num_threads(), loss=self.loss,
                epochs=self.epochs,
            )  # fmt: skip

    def _check_parameters(self) -> None:
        check_parameters(self, self._parameters)
        refuse_checkpoints(self.callbacks, "the training of a regression")

    def predict(self, X: Any) -> NDArray:
        """Return h(x); of pyramids, the largest function below all K-Lipschitz ones through points.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or a data frame

        Returns
        -------
        array of shape (n_samples,)
            The prediction for each row; a learned one is within ``bounds_``.
        """
        check_is_fitted(self, "model_")
        return self._curve(X, self.model_)

    def explain(self, X: Any, domain: Domain | None = None) -> PredictionContributions:
        """Explain learned predictions: the mean, and what each group of features adds to it.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or a data frame
        domain : Domain, optional
            The columns that features belong to, with names; those of the training by default.

        Returns
        -------
        PredictionContributions
            An exact sum for each row; ``print`` shows it in words.

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
        self._check_learned("explain")
        rows = self._rows(X)
        prepared: Any = getattr(self, "preparation_", None)
        if domain is None and hasattr(prepared, "domain"):
            domain = Domain.of(prepared.domain())
        if domain is None:
            words = getattr(prepared, "feature_names", getattr(self, "feature_names_in_", None))
            P = self.model_.n_features
            domain = Domain.free(P, names=[f"x{p}" for p in range(P)] if words is None else words)
        with threads(self.n_jobs):
            return prediction_contributions(
                self.model_, rows, self.term_means_, self.bounds_, domain
            )

    def certified_change(
        self, X: Any, eps: ArrayLike, scale: ArrayLike = 1.0
    ) -> tuple[NDArray, NDArray]:
        """Return bounds of learned predictions where features move by at most eps·scale_p each.

        Bounds are sound: `predict` of any such x lies between them. They are exact for a sum of
        terms over one feature each, up to rounding.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or a data frame
        eps : number >= 0, or an array of shape (n_samples,)
        scale : number >= 0, or an array of shape (n_features,), default=1.0

        Returns
        -------
        lower, upper : arrays of shape (n_samples,)

        Examples
        --------
        >>> import numpy as np
        >>> from maxplus import LMMRegressor
        >>> X = np.random.default_rng(0).uniform(-3, 3, (200, 2))
        >>> reg = LMMRegressor(random_state=0).fit(X, np.abs(X[:, 0]) + X[:, 1])
        >>> lower, upper = reg.certified_change(X, 0.1)
        >>> moved = reg.predict(X + 0.1)
        >>> bool(((lower <= moved) & (moved <= upper)).all())
        True
        """
        self._check_learned("certified_change")
        rows = self._rows(X).astype(np.float64)
        factors = feature_values("scale", scale, self.model_.n_features)
        reach = np.asarray(eps, np.float64)
        if reach.shape not in ((), (len(rows),)) or not (reach >= 0.0).all():
            raise ValueError(
                "eps must be a number >= 0, or an array with one for each row of X; "
                f"got {eps!r:.80}"
            )
        if not (factors >= 0.0).all():
            raise ValueError(f"scale must hold numbers >= 0; got {scale!r:.80}")
        every, reach = np.arange(len(rows)), np.broadcast_to(reach, len(rows))
        with threads(self.n_jobs):
            lower, below = (
                Margins(self.model_, rows, np.full(len(rows), d), factors)
                .lowest(every, reach).gap
                for d in (1, 0)
            )  # fmt: skip
        low, high = self.bounds_.astype(np.float64)
        return np.clip(lower, low, high), np.clip(-below, low, high)

    def _check_learned(self, name: str) -> None:
        check_is_fitted(self, "model_")
        if hasattr(self, "interpolates_"):
            raise ValueError(f"{name} is for method='learn'; this model interpolates")

    def _rows(self, X: Any) -> NDArray:
        return within_range(checked_rows(self, X), self.model_, ("W0",), self)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[NDArray, NDArray]:
        """Lower and upper bounds, for each row of X.

        A learned model: h(x) ± q, where q is the ⌈(n + 1)·coverage⌉-th smallest of the n
        ``residuals_`` of rows held out (split conformal prediction, over the folds). A coverage
        between two of those that ``residual_quantiles_`` are for counts as the larger. New
        rows that come from where the training rows came from lie between in about ``coverage`` of
        all cases, on average over x; rows held out were predicted by a model that had seen fewer,
        so rather in more. With too few residuals for that the bounds are infinite.

        Pyramids: lower = max_j (y_j − K·‖x − x_j‖∞) = `predict` and
        upper = min_j (y_j + K·‖x − x_j‖∞), which is −lower of the negated targets. Every
        K-Lipschitz f with f(x_j) = y_j lies between, everywhere; ``coverage`` is not used.
        Where K is too small for the targets they cross, lower > upper, and there is no such f: a
        ConvergenceWarning says at how many rows.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or a data frame
        coverage : float, default=0.9
            The share of new rows that a learned model's intervals are to cover, > 0 and <= 1.

        Returns
        -------
        lower, upper : arrays of shape (n_samples,)
        """
        check_is_fitted(self, "model_")
        check_value("coverage", coverage, real(above=0.0, maximum=1.0))
        curve = self._curve(X, self.model_)
        if not hasattr(self, "interpolates_"):
            width = interval_width(self.residual_quantiles_, coverage)
            return curve - width, curve + width
        mirror = LMM(self.model_.W0, self.model_.W1, -self.model_.W2)
        upper = -self._curve(X, mirror)
        rounding = float(np.finfo(curve.dtype).eps) ** 0.5 * float(np.abs(curve).max(initial=0.0))
        crossed = curve - upper > rounding
        if crossed.any():
            warn_of_shortfall(
                f"the envelopes cross at {crossed.sum()} of {len(curve)} rows: no function with "
                f"slope {self.slope_:g} passes through the training points; take a larger slope, "
                'or method="learn" where targets are noisy',
            )
        # Where they cross by rounding alone, they meet.
        return curve, np.where(crossed, upper, np.maximum(curve, upper))

    def _curve(self, X: Any, model: LMM | AdditiveLMM) -> NDArray:
        def output(Z: NDArray) -> NDArray:
            return difference(Z, self.bounds_) if isinstance(model, AdditiveLMM) else Z[:, 0]

        return answers(self, X, model, ("W0",), output)

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn where the score on training rows may be low."""
        tags = super().__sklearn_tags__()
        # A lower envelope of a few points lies far below the others.
        few = self.method == INTERPOLATE and self.n_hidden != "auto"
        tags.regressor_tags.poor_score = few
        return tags
