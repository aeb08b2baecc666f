"""Linear-Min-Max classifier."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.metrics import get_scorer

from maxplus.distributed import current
from maxplus.estimators._additive import STRUCTURES, JointTraining, initial_model
from maxplus.estimators._base import FitState
from maxplus.estimators._cross_validation import (
    held_out_inverse_temperature,
    limit_inverse_temperature,
    validate_polish,
)
from maxplus.estimators._lmm import BaseLMMClassifier, initial_boxes
from maxplus.estimators._parameters import (
    BOOLEAN,
    CALLABLE,
    CLASS_WEIGHTS,
    CLIPS,
    FALSE,
    MONOTONIC,
    SCORER,
    SIZES,
    SIZES_BY_COLUMN,
    TRAINED,
    Effect,
    ParameterError,
    Parameters,
    integer,
    real,
    reject_checkpoints,
    samples,
)
from maxplus.estimators._robust import (
    BOXES,
    SHAPES,
    RobustTraining,
    Windows,
    certified_accuracy,
    make_candidates,
    max_change,
)
from maxplus.estimators._training_data import Scaling, TrainingData
from maxplus.models import LMM, LOG2, AdditiveLMM, Network
from maxplus.training import TrainingMonitor, TrainingProblem
from maxplus.training.problem import count_samples
from maxplus.training.smooth.interval import IMAGE_ANNEALING, TABLE_ANNEALING
from maxplus.training.smooth.soft_terms import TERM_ANNEALING
from maxplus.training.smooth.structures import Structure
from maxplus.training.stages import (
    Annealing,
    Polish,
    Stage,
    TrainingResult,
    ValidatedPolish,
    WarmUp,
)
from maxplus.training.stages.base import require_finite
from maxplus.training.stages.warm_up import augmented

# Predicates of the structures that each value of ``structure`` allows.
ALLOWED: dict[str, Callable[[Structure], bool]] = {
    "auto": lambda structure: True,
    "pairs": lambda structure: structure.has_shapes and not structure.boxes,
    "shapes": lambda structure: not (structure.boxes or structure.pairs_per_feature),
}


class LMMClassifier(BaseLMMClassifier):
    """Linear-Min-Max (LMM) classifier.

    By default, the model is a sum of small piecewise-linear terms. The scores are
    z_d(x) = b_d + Σ_t max_h (min_i (W0[i]·u[i // 2] + W1[i, h]) + W2[h, d]), where each term t has
    its own weights and u = φ(x) are monotonically transformed features. A term depends on one
    feature (shape function), two features (pair) or all features (boxes). The structure of the sum
    is chosen by cross-validation. All terms are trained jointly to minimise the mean log loss, with
    smoothed minima and maxima whose temperature is annealed. Finally, the weights are multiplied by
    a factor that calibrates the probabilities.

    Setting ``n_hidden`` or ``slope`` to a number trains a single network over all features
    instead. Each of its hidden units is a box, initialised at a cluster of one class. Training
    consists of a warm-up and an optional polish that lowers the loss of each training sample below
    log 2. ``early_stopping``, ``init_margin`` and an explicit ``polish`` also select a single
    network. Without ``robust_eps``, so do ``augment`` and ``standardize=False``. See
    `SubgradientLMMClassifier` for the algorithm of the paper.

    With ``robust_eps``, a sum of terms is trained on the worst case within a box around each
    sample, so that its predictions can be certified (`certified_accuracy`). ``clip`` and
    ``robust_training`` are chosen by the certified accuracy on held-out samples. Features are
    clipped but not transformed otherwise. A constant prediction is used if no candidate is better.
    For square images (see ``standardize``), the terms are windows of pixels.

    Parameters
    ----------
    n_hidden : int or "auto", default="auto"
        Number of hidden units of a single network, at most the number of samples. "auto" trains a
        sum of terms. If another parameter selects a single network, "auto" uses
        √(n_samples / n_classes) units per class, but at least 10 and at most 50.
    slope : float or "auto", default="auto"
        Slope of a single network (k in the paper, for W0 and W1), per unit of ``scale_``. "auto"
        uses 15 / d, where d is the median L∞ distance between training samples of different
        classes.
    structure : {"auto", "pairs", "shapes"}, default="auto"
        Allowed terms of a sum. "shapes" allows terms of one feature only, which makes the model
        additive in the features. "pairs" also allows terms of two features. "auto" also allows
        terms of all features. Structures are compared by their log loss in 3-fold
        cross-validation with short training runs, on a subsample of large data sets. The simplest
        structure whose loss is within a quarter of a standard error of the lowest loss is chosen.
        With ``robust_eps``, "auto" uses terms of all features, and the other options use terms of
        one feature.
    max_features : int, optional
        Maximum number of features in a sum. The features whose shape functions contribute most in
        a short training run are selected. With at most five features, explanations list every
        contribution.
    monotonic_cst : array of 1, 0 and -1, or dict that maps column names to them, optional
        Monotonicity constraint of each column on the probability of ``classes_[1]``: 1 for
        increasing, -1 for decreasing, 0 for no constraint. Constraints hold for all inputs by
        construction. Only for binary classification with a sum of terms.
    init_margin : float, optional
        Initial difference between the output of a hidden unit for its own class and for the other
        classes. By default, the slope times the distance between classes.
    warmup_epochs : int or "auto", default="auto"
        Number of passes over the samples in the warm-up of a single network, or in the joint
        training of a sum of terms. "auto" uses 10, or more if 10 epochs have fewer than 500
        batches (1,000 for a sum of terms on at least 4,000 samples, without ``robust_eps``).
    batch_size : int or "auto", default="auto"
        Number of samples per batch. "auto" uses ``max(8, min(200, n_samples // 8))``.
    robust_eps : float, array of shape (n_features,) or dict, default=0.0
        Largest change of each feature for which predictions should be certified, in units of
        ``scale_``, which is 1 for images and with ``standardize=False``. For a data frame with
        encoded columns, the unit is `certificate_scale`, and categories and binary columns do not
        change. A dict maps column names to the largest change in the unit of the column, as in
        ``{"age": 2, "income": 500}``, or to "any" for categorical and ordinal columns. Columns
        that are not in the dict do not change. A single network supports only a number: its
        warm-up adds 2·robust_eps·slope, the largest effect of such a change, to the scores of all
        wrong classes.
    robust_training : float or "auto", default="auto"
        Size of the boxes in certified training, as a multiple of ``robust_eps``. "auto" chooses
        among 1, 1.5, 2 and 3.
    clip : None, "range", (low, high) or a sequence of such pairs, default=None
        Intervals to which raw features are clipped with ``robust_eps``
        (`maxplus.models.FeatureMap.clip`). Changes outside the intervals have no effect. "range"
        uses the range of the training samples. None uses "range" for tables, and selects one of
        three options for images.
    augment : callable, optional
        Function of a batch of raw features and a NumPy generator that returns the samples to train
        on instead, for example `maxplus.images.RandomShift`.
    early_stopping : bool, default=False
        If True, stop the warm-up when the accuracy on held-out samples does not improve for
        ``n_iter_no_change`` epochs. The best epoch is kept. The polish uses all samples.
    validation_fraction : float, default=0.1
        Fraction of the samples to hold out for early stopping.
    n_iter_no_change : int, default=5
        Number of epochs without improvement before early stopping.
    polish : "auto", "log2", float or None, default="auto"
        Target level of the polish of a single network, which lowers the loss of every training
        sample below the level (`maxplus.training.stages.Polish`). "log2" is the level of the
        paper's certificate. None skips the polish. "auto" uses log 2, and skips the polish if
        it degrades the accuracy or the log loss by more than a standard error in cross-validation.
        Samples that stay above the level are in ``suspects_``. A ConvergenceWarning is issued if
        an explicit level is not reached.
    max_suspects : int or float, default=0
        Number or fraction of samples that the polish may leave above its level. The samples with
        the largest losses are excluded, because their labels may be wrong.
    standardize : "auto" or False, default="auto"
        Transformation of the features. With "auto", a sum clips each feature to an interval
        around its typical values, compresses heavy tails, and divides by the spread
        (`maxplus.models.FeatureMap`). A single network uses (x − mean) / ``scale_``, estimated
        after clipping outliers. Features that look like pixels are not scaled: more than 50
        nonnegative features with a common range and at least a quarter of zeros. The
        transformation is part of the model, so all methods take raw features. False uses the
        features as they are.
    calibrate : bool or "auto", default="auto"
        If True, multiply all weights by the inverse temperature that minimises the log loss of
        held-out samples. Predictions and certified radii do not change. "auto" calibrates sums of
        terms, for which the cross-validation of structures provides this factor. For a single
        network, True estimates it with three short training runs. After an explicit polish, the
        factor is limited so that polished losses stay below the level.
    class_weight : None, "balanced" or dict that maps labels to numbers > 0, default=None
        Weights of the classes, multiplied by the sample weights. "balanced" gives all classes the
        same total weight. The polish ignores weights.
    scoring : None, str or callable(estimator, X, y), default=None
        Score by which structures are compared on held-out samples, such as "roc_auc"
        (`sklearn.metrics.get_scorer`). Higher is better. None uses the log loss. With
        ``robust_eps``, the score is always "certified", the certified accuracy.
    n_jobs : int, optional
        Number of threads. None and −1 use all threads. Results do not depend on it, except for
        rounding in the warm-up of a single network.
    random_state : int, RandomState or None, default=None
        Seed for folds, batches and the initialisation of units.
    verbose : int, default=0
        If nonzero, show a progress bar.
    callbacks : callable or list of callables, optional
        Functions called with a `maxplus.training.Progress` after each training run of the search,
        each epoch of the warm-up and each round of the polish. Returning True stops training. If
        the search is stopped, the initial model is kept.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features seen during `fit`, if X has feature names that are all strings.
    model_ : AdditiveLMM or LMM
        Fitted sum of terms or single network.
    n_hidden_ : int
        Number of hidden units of all terms.
    scale_ : ndarray of shape (n_features,)
        Spread of the features. `fold` multiplies it by the spread of the scaler.
    robust_eps_ : ndarray of shape (n_features,)
        Largest change of each feature for which a sum was trained to be certified, in the unit of
        the feature. Only with ``robust_eps``.
    inverse_temperature_ : float
        Inverse temperature: the factor by which all weights were multiplied after training, 1.0
        without calibration.
    search_ : dict
        Results of the structure search of a sum: the "candidates" as text, the held-out "losses"
        of shape (n_candidates, n_folds), and the index of the "chosen" candidate. With
        ``scoring``, also the "scores". Skipped folds have a loss of inf and a score of −inf. With
        ``robust_eps``, scores are certified accuracies, and the last candidate is a constant.
    term_means_ : ndarray of shape (n_terms, n_classes)
        Mean scores of each term on the training set, the reference of contributions in `explain`.
        Only for sums of terms.
    W0_ : ndarray of shape (2 * n_features,)
        Positive and negative slope of each feature of a single network,
        inverse_temperature_·slope_ / scale_.
    W1_ : ndarray of shape (2 * n_features, n_hidden)
        Offsets of the min-plus layer of a single network.
    W2_ : ndarray of shape (n_hidden, n_classes)
        Offsets of the max-plus layer of a single network.
    slope_ : float
        Slope used to train a single network, per unit of ``scale_``.
    suspects_ : ndarray of int
        Indices of the training samples whose loss is not below the level of the polish.
    loss_curve_ : ndarray of shape (n_epochs,)
        Mean smoothed loss of each epoch of the warm-up.
    validation_scores_ : ndarray of shape (n_epochs,)
        Validation accuracy after each epoch. Only with early stopping.
    polish_losses_ : ndarray
        Maximum loss before each round of the polish and at its end, before calibration.
    unit_activation_counts_ : ndarray of shape (n_hidden,)
        Number of scores on the training set that each hidden unit determines.
    feature_importances_ : ndarray of shape (n_features,)
        Share of each feature in the margins of the training samples
        (`maxplus.explain.feature_importances`).
    n_iter_ : int
        Number of epochs of the warm-up and rounds of the polish.
    status_ : str
        Reason why training stopped (`maxplus.training.Status`).
    status_message_ : str
        Description of ``status_``.
    max_loss_, mean_loss_ : float
        Maximum and mean loss of the fitted model on the training set.
    perfect_fit_ : bool
        Whether ``max_loss_`` is below log 2.
    training_losses_ : ndarray of shape (n_samples,)
        Loss of each training sample, NaN for samples of weight 0.
    training_labels_ : ndarray of shape (n_samples,)
        Label of each training sample.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from maxplus import LMMClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = LMMClassifier(random_state=0).fit(X, y)
    >>> clf.score(X, y) > 0.95, clf.search_["losses"].shape
    (True, (8, 3))
    """

    loss_curve_: NDArray
    polish_losses_: NDArray
    search_: dict[str, Any]
    inverse_temperature_: float
    _effects = (
        Effect(
            ("max_suspects",),
            lambda clf: clf.polish is not None and not clf._is_sum,
            "a single network is polished; set n_hidden",
        ),
        Effect(
            ("validation_fraction", "n_iter_no_change"),
            lambda clf: clf.early_stopping,
            "early_stopping is True",
        ),
        Effect(
            ("clip", "robust_training"),
            lambda clf: clf._is_robust,
            "robust_eps is above 0 and a sum of terms is trained",
        ),
        Effect(
            ("scoring",),
            lambda clf: not clf._is_robust or clf.scoring == "certified",
            "robust_eps is 0 or scoring is 'certified'",
        ),
        Effect(("max_features",), lambda clf: not clf._is_robust, "robust_eps is 0"),
        Effect(
            ("scoring", "structure", "max_features", "monotonic_cst"),
            lambda clf: clf._is_sum,
            "a sum of terms is trained; n_hidden, slope and other parameters select a single "
            "network",
        ),
    )
    _parameters: ClassVar[Parameters] = {
        **TRAINED,
        "n_hidden": (integer(1), "auto"),
        "slope": (real(above=0.0), "auto"),
        "structure": (*ALLOWED,),
        "max_features": (integer(1), None),
        "monotonic_cst": (MONOTONIC, None),
        "init_margin": (real(above=0.0), None),
        "warmup_epochs": (integer(1), "auto"),
        "batch_size": (integer(1), "auto"),
        "robust_eps": (real(minimum=0.0), SIZES, SIZES_BY_COLUMN),
        "robust_training": (real(above=0.0), "auto"),
        "clip": ("range", CLIPS, None),
        "augment": (CALLABLE, None),
        "early_stopping": (BOOLEAN,),
        "validation_fraction": (real(above=0.0, maximum=0.9),),
        "n_iter_no_change": (integer(1),),
        "polish": (real(above=0.0), "auto", "log2", None),
        "max_suspects": (samples(0),),
        "standardize": ("auto", FALSE),
        "calibrate": (BOOLEAN, "auto"),
        "class_weight": (CLASS_WEIGHTS, "balanced", None),
        "scoring": (SCORER, "certified", CALLABLE, None),
    }

    def __init__(
        self,
        n_hidden: int | str = "auto",
        *,
        slope: float | str = "auto",
        structure: str = "auto",
        max_features: int | None = None,
        monotonic_cst: ArrayLike | Mapping[str, int] | None = None,
        init_margin: float | None = None,
        warmup_epochs: int | str = "auto",
        batch_size: int | str = "auto",
        robust_eps: float | ArrayLike | Mapping[Any, float] = 0.0,
        robust_training: float | str = "auto",
        clip: Any = None,
        augment: Any = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        polish: float | str | None = "auto",
        max_suspects: int | float = 0,
        standardize: bool | str = "auto",
        calibrate: bool | str = "auto",
        class_weight: Mapping[Any, float] | str | None = None,
        scoring: str | Callable[[Any, Any, Any], float] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        self.n_hidden = n_hidden
        self.slope = slope
        self.structure = structure
        self.max_features = max_features
        self.monotonic_cst = monotonic_cst
        self.init_margin = init_margin
        self.warmup_epochs = warmup_epochs
        self.batch_size = batch_size
        self.robust_eps = robust_eps
        self.robust_training = robust_training
        self.clip = clip
        self.augment = augment
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.polish = polish
        self.max_suspects = max_suspects
        self.standardize = standardize
        self.calibrate = calibrate
        self.class_weight = class_weight
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self._is_sum:
            reject_checkpoints(self.callbacks, "a sum of terms", "set n_hidden")
        if self._has_robust_eps and not self._is_sum and not np.isscalar(self.robust_eps):
            raise ParameterError(
                "robust_eps must be a number for a single network, which n_hidden or another "
                f"parameter selects; got {self.robust_eps!r:.80}"
            )
        is_certified = isinstance(self.scoring, str) and self.scoring == "certified"
        if is_certified and not self._has_robust_eps:
            raise ParameterError(
                "scoring='certified' requires robust_eps above 0; "
                f"got robust_eps={self.robust_eps!r:.60}"
            )
        if self._is_robust and self.monotonic_cst is not None:
            raise ParameterError(
                f"monotonic_cst={self.monotonic_cst!r:.60} is not supported with robust_eps; "
                "remove one of them"
            )

    @property
    def _is_sum(self) -> bool:
        """True if a sum of terms is trained instead of a single network."""
        return (
            isinstance(self.n_hidden, str)
            and isinstance(self.slope, str)
            and self.polish in ("auto", None)
            and not self.early_stopping
            and self.init_margin is None
            and (self._has_robust_eps or (self.standardize is not False and self.augment is None))
        )

    @property
    def _has_robust_eps(self) -> bool:
        eps = self.robust_eps
        sizes: Any = eps.values() if isinstance(eps, Mapping) else np.ravel(eps)
        return any(size != 0 for size in sizes)

    @property
    def _is_robust(self) -> bool:
        """True if a sum of terms is trained with certified training."""
        return self._is_sum and self._has_robust_eps

    def _margin(self, state: FitState) -> float:
        """Return the training margin of a single network, the largest effect of ``robust_eps``."""
        eps: Any = self.robust_eps if self._has_robust_eps else 0.0
        slope: Any = state.slope
        return 2.0 * float(eps) * slope

    @property
    def _should_calibrate(self) -> bool:
        return self.calibrate is True or (self.calibrate == "auto" and self._is_sum)

    def _score(self, classes: NDArray, model: AdditiveLMM, data: TrainingData) -> float:
        """Return the value of ``scoring`` for a model on held-out samples."""
        # Scorers require a fitted classifier. Only the attributes used by `predict` are set.
        fitted = clone(self).set_params(callbacks=None, verbose=0)
        vars(fitted).update(model_=model, classes_=classes, n_features_in_=data.X.shape[1])
        y = classes[data.y]
        if isinstance(self.scoring, str):
            return float(get_scorer(self.scoring)(fitted, data.X, y, sample_weight=data.weight))
        assert self.scoring is not None
        return float(self.scoring(fitted, data.X, y))

    def _initialize(
        self, data: TrainingData, rng: np.random.Generator, monitor: TrainingMonitor
    ) -> tuple[Network, FitState]:
        factor = None
        if self._should_calibrate and not self._is_sum:
            monitor.begin("choice", is_last=False)
            seed = int(rng.integers(2**31))
            factor = held_out_inverse_temperature(data, self._train_scaled, seed, monitor)

        def initialize(all_data: TrainingData) -> tuple[Network, FitState]:
            scaling = self._scaling(all_data.X)
            if self._is_sum:
                all_data = replace(all_data, X=all_data.X[:])
                signs = self._monotonic_signs(data)
                terms = initial_model(all_data, data.n_classes, rng, signs)
                return terms, FitState(scaling=scaling)
            all_data = replace(all_data, X=scaling(all_data.X))
            model, state = self._initial_boxes(all_data, data.n_classes, rng)
            return model, replace(state, scaling=scaling, inverse_temperature=factor)

        return data.on_first_rank(initialize, rng)

    def _scaling(self, X: NDArray) -> Scaling:
        return Scaling.identity(X.shape[1]) if self.standardize is False else Scaling.from_rows(X)

    def _initial_boxes(
        self, data: TrainingData, n_classes: int, rng: np.random.Generator
    ) -> tuple[LMM, FitState]:
        """Return the initial single network for scaled samples."""
        return initial_boxes(data, n_classes, self.n_hidden, self.slope, self.init_margin, rng)

    def _train_scaled(
        self, data: TrainingData, length: float, rng: np.random.Generator, monitor: TrainingMonitor
    ) -> LMM:
        """Train a single network on unscaled samples for a fraction of the usual epochs."""
        scaling = self._scaling(data.X)
        data = replace(data, X=scaling(data.X))
        start = self._initial_boxes(data, data.n_classes, rng)
        return scaling.folded(self._warm_up(start, data, length, rng, monitor))

    def _warm_up(
        self,
        start: tuple[LMM, FitState],
        data: TrainingData,
        length: float,
        rng: np.random.Generator,
        monitor: TrainingMonitor,
    ) -> LMM:
        """Train an initial network on scaled samples for a fraction of the usual epochs."""
        model, state = start
        warm_up = WarmUp(
            self._annealing(state.score_scale, len(data.y), length), self._margin(state)
        )
        problem = TrainingProblem(data.X, data.y, weight=data.weight, rng=rng)
        return warm_up.run(model, problem, monitor).model

    def _problem(
        self, data: TrainingData, state: FitState, rng: np.random.Generator
    ) -> TrainingProblem:
        X = data.X if self._is_sum or state.scaling is None else state.scaling(data.X)
        return TrainingProblem(X, data.y, weight=data.weight, rng=rng)

    def _stages(self, data: TrainingData, state: FitState) -> Sequence[Stage]:
        if self._is_robust:
            return [self._robust_training(data, state)]
        if self._is_sum:
            return [self._joint_training(data)]
        return self._single_stages(current().total(len(data.y)), state)

    def _joint_training(self, data: TrainingData) -> JointTraining:
        return JointTraining(
            data.n_classes,
            tuple(filter(ALLOWED[self.structure], STRUCTURES)),
            TERM_ANNEALING._replace(**self._epochs_and_batch),
            self._monotonic_signs(data),
            scorer=None if self.scoring is None else partial(self._score, data.classes),
            max_features=self.max_features,
        )

    def _monotonic_signs(self, data: TrainingData) -> NDArray | None:
        signs = data.monotonic_signs(self.monotonic_cst)
        if signs is not None and signs.any() and data.n_classes != 2:
            raise ValueError(
                f"monotonic_cst requires two classes, but y has {data.n_classes}; remove "
                "monotonic_cst"
            )
        return signs

    def _robust_training(self, data: TrainingData, state: FitState) -> RobustTraining:
        structure = BOXES if self.structure == "auto" else SHAPES
        candidates = current().root_only(
            lambda X: make_candidates(X[:], structure, self.clip, self.robust_training), data.X
        )
        is_image = isinstance(candidates[0].structure, Windows)
        radius = self._box_radius(data, state)
        return RobustTraining(
            data.n_classes,
            candidates,
            (IMAGE_ANNEALING if is_image else TABLE_ANNEALING)._replace(**self._epochs_and_batch),
            scorer=partial(certified_accuracy, radius),
            radius=radius,
            augment=None if self.augment is None else partial(augmented, self.augment),
        )

    def _box_radius(self, data: TrainingData, state: FitState) -> NDArray:
        assert state.scaling is not None
        return max_change(self.robust_eps, state.scaling.spread, data.columns)

    def _single_stages(self, n_samples: int, state: FitState) -> Sequence[Stage]:
        """Return the training stages of a single network."""
        stages: list[Stage] = [
            WarmUp(
                self._annealing(state.score_scale, n_samples),
                self._margin(state),
                augment=None if self.augment is None else partial(self._augmented, state),
                hold_out=float(self.validation_fraction) if self.early_stopping else 0.0,
                patience=self.n_iter_no_change if self.early_stopping else None,
            )
        ]
        if self.polish == "auto":
            make_polish = partial(self._bounded_polish, state.score_scale)
            retrain = partial(self._retrain, state)
            is_beneficial = partial(validate_polish, retrain, make_polish)
            stages.append(ValidatedPolish(is_beneficial, make_polish(n_samples)))
        elif self.polish is not None:
            skip = count_samples(self.max_suspects, n_samples)
            stages.append(Polish(self._level, skip))
        return stages

    def _bounded_polish(self, score_scale: float, n_samples: int, length: float = 1.0) -> Polish:
        """Return a polish that processes at most as many samples as the warm-up."""
        epochs = self._annealing(score_scale, n_samples, length).epochs(n_samples)
        skip = count_samples(self.max_suspects, n_samples)
        return Polish(LOG2, skip, max_evaluations=epochs * n_samples)

    def _retrain(
        self,
        state: FitState,
        model: LMM,
        data: TrainingData,
        length: float,
        rng: np.random.Generator,
        monitor: TrainingMonitor,
    ) -> LMM:
        """Train a network of the same size on fewer samples and for fewer epochs."""
        n_hidden = min(model.n_hidden, len(data.y))
        assert state.slope is not None
        start = initial_boxes(data, model.n_classes, n_hidden, state.slope, self.init_margin, rng)
        return self._warm_up(start, data, length, rng, monitor)

    @property
    def _level(self) -> float:
        """Loss level of an explicit polish."""
        return LOG2 if isinstance(self.polish, str) else float(self.polish or 0.0)

    def _augmented(self, state: FitState, Z: NDArray, rng: np.random.Generator) -> NDArray:
        """Apply ``augment`` to a batch of scaled samples."""
        scaling = state.scaling
        assert scaling is not None
        return scaling(augmented(self.augment, scaling.inverse(Z), rng))

    def _annealing(self, score_scale: float, n_samples: int, length: float = 1.0) -> Annealing:
        """Return the annealing schedule of the warm-up."""
        # Short training runs (length < 1) do not use early stopping.
        if self.early_stopping and length == 1.0:
            n_samples -= int(self.validation_fraction * n_samples)
        default = Annealing(length=length, **self._epochs_and_batch)
        return Annealing(
            score_scale,
            n_epochs=default.epochs(n_samples),
            batch_size=default.batch_size or default.batch(n_samples),
        )

    @property
    def _epochs_and_batch(self) -> dict[str, Any]:
        """``warmup_epochs`` and ``batch_size`` as fields of an `Annealing`; None for "auto"."""
        params = {"n_epochs": self.warmup_epochs, "batch_size": self.batch_size}
        return {name: None if isinstance(n, str) else n for name, n in params.items()}

    def _required_state(self) -> tuple[str, ...]:
        names = ("distance", "scaling", *["inverse_temperature"] * self._should_calibrate)
        return (*super()._required_state(), *names)

    def _fitted_attributes(
        self, data: TrainingData, state: FitState, trained: TrainingResult
    ) -> dict[str, Any]:
        model, factor = trained.model, 1.0
        search: dict[str, Any] = {}
        # The defaults apply if training was stopped before a stage.
        results: dict[str, NDArray] = {"warmup_losses": np.empty(0), **state.results}
        if self._is_sum:
            outcome: Any = trained.outcomes[0] if trained.outcomes else None
            if outcome is not None and outcome.choice is not None:
                search = outcome.choice.fitted_attributes
                factor = outcome.choice.inverse_temperature if self._should_calibrate else 1.0
        else:
            assert state.scaling is not None
            scaling = state.scaling
            results = {"polish_losses": np.empty(0), **results}
            factor = self._limited_inverse_temperature(
                data, state, lambda X: model.scores(scaling(X))
            )
            model = scaling.folded(model)
        model = model if factor == 1.0 else model.scaled(factor)
        require_finite(model)
        if self._is_sum and self.polish is not None:
            results["suspects"] = suspects_above(LOG2, model.losses(data.X, data.y))
        state, trained = replace(state, results=results), replace(trained, model=model)
        if self._is_robust:
            search["robust_eps_"] = self._box_radius(data, state)
        return {
            **super()._fitted_attributes(data, state, trained),
            "inverse_temperature_": factor,
            **search,
        }

    def _limited_inverse_temperature(
        self, data: TrainingData, state: FitState, scores: Callable[[NDArray], NDArray]
    ) -> float:
        """Return the inverse temperature, limited so that polished losses stay below the level."""
        if not self._should_calibrate:
            return 1.0
        factor = state.inverse_temperature
        assert factor is not None
        if "suspects" not in state.results or self.polish == "auto":
            return factor
        comm = current()
        suspects = state.results["suspects"] - comm.exscan(len(data.y))
        suspects = suspects[(suspects >= 0) & (suspects < len(data.y))]
        polished = np.delete(np.arange(len(data.y)), suspects)
        if not comm.total(polished.size):
            return factor
        Z, y = scores(data.X[polished]), data.y[polished]
        return limit_inverse_temperature(factor, Z, y, self._level)


def suspects_above(level: float, losses: NDArray) -> NDArray:
    """Return the indices of the samples of all ranks whose loss is not below a level."""
    return np.flatnonzero(~(current().allgatherv(losses) < level))
