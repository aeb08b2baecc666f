"""The Linear-Min-Max classifier."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.metrics import get_scorer

from maxplus.distributed import current
from maxplus.estimators._additive import STRUCTURES, Joint, JointTraining, untrained
from maxplus.estimators._base import FitState
from maxplus.estimators._cross_validation import held_out_temperature, keep_level, validate_polish
from maxplus.estimators._lmm import BaseLMMClassifier, Capacity, initial_boxes
from maxplus.estimators._parameters import (
    BOOLEAN,
    CALLABLE,
    CLASS_WEIGHTS,
    CLIPS,
    FALSE,
    MONOTONIC,
    NONE,
    SCORER,
    SIZES,
    SIZES_BY_COLUMN,
    TRAINED,
    Effect,
    ParameterError,
    Parameters,
    as_callbacks,
    integer,
    needs_state,
    one_of,
    real,
    samples,
)
from maxplus.estimators._robust import (
    BOXES,
    FACTORS,
    SHAPES,
    Robust,
    RobustTraining,
    asks_for_certificates,
    candidates_for,
    reach_of,
)
from maxplus.estimators._training_data import Scaling, TrainingData
from maxplus.models import LMM, LOG2, AdditiveLMM, Network
from maxplus.training import Status, TrainingMonitor, TrainingProblem
from maxplus.training.problem import count_samples
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

# The structures that each value of ``structure`` allows.
ALLOWED: dict[str, Callable[[Structure], bool]] = {
    "auto": lambda structure: True,
    "pairs": lambda structure: structure.has_shapes and not structure.boxes,
    "shapes": lambda structure: not (structure.boxes or structure.pairs_per_feature),
}


class LMMClassifier(BaseLMMClassifier):
    """Linear-Min-Max classifier: an additive model of small piecewise-linear max-min networks.

    The scores are z_d(x) = b_d + Σ_t max_h (min_i (W0[i]·u[i // 2] + W1[i, h]) + W2[h, d]), where
    u = φ(x) are the features, each transformed monotonically, and every term t depends on one of
    them (a shape function), two (a pair) or all of them (boxes in feature space). The terms are
    chosen by cross-validation on the training rows and trained jointly on the mean loss, with soft
    minima and maxima whose temperature is annealed. Finally, the weights are multiplied by a
    temperature to calibrate the probabilities.

    Setting ``n_hidden`` or ``slope`` to a number selects a single network over all features
    instead, in which each hidden unit is a box. The boxes are initialised at clusters of each
    class. Training consists of a warm-up and, if it does not degrade held-out performance, a polish
    that lowers training losses below log 2. ``early_stopping``, ``init_margin`` and an explicit
    ``polish`` also select a single network, as do ``augment`` and ``standardize=False`` without
    ``robust_eps``. `SubgradientLMMClassifier` implements the algorithm of the paper.

    With ``robust_eps`` a sum of terms is trained on the worst case within a box around each row,
    so that predictions are certified there (`certified_accuracy`). Terms, clipping and the size of
    boxes in training are chosen by the certified accuracy on held-out rows; features are only
    clipped. The baseline is a constant prediction, which is certified everywhere: it is used if no
    candidate is better. Square images (see ``standardize``) get one term for each of several
    windows.

    Parameters
    ----------
    n_hidden : int or "auto", default="auto"
        Number of hidden units of a single network. Units are initialised at different samples, so
        their number cannot exceed that of the samples. "auto" trains a sum of terms; if another
        parameter selects a single network, the number of units per class is the square root of the
        mean number of samples per class, but at least 10 and at most 50.
    slope : float or "auto", default="auto"
        The paper's k for W0 and W1 of a single network, per unit of ``scale_``. "auto" is 15 /
        (median L∞ distance between training samples of different classes).
    structure : "auto", "pairs" or "shapes", default="auto"
        The terms that a sum may have. "shapes" allows terms over one feature only, so that the
        model is additive in the features; "pairs" also allows terms over two features, and "auto"
        also terms over all features. Structures are compared by the log loss on held-out rows
        (three folds, shortened training, a subsample of large data; see ``search_``), and the
        simplest one that is as good as the best, up to noise, is chosen.
    max_features : int, optional
        Maximum number of features in a sum. The features whose shape functions contribute most
        after a short training run are kept. With at most five, an explanation lists all
        contributions.
    monotonic_cst : array of 1, 0 and -1, or dict of column names and these numbers, optional
        With 1, the probability of ``classes_[1]`` does not decrease as the column increases and all
        others are unchanged; with -1 it does not increase; 0 is no constraint. Constraints hold for
        all inputs, by construction. Only for two classes and for sums of terms.
    init_margin : float, optional
        The initial difference between a unit's outputs for its own class and for others; the slope
        times the distance between classes by default.
    warmup_epochs : int or "auto", default="auto"
        Passes over the samples in the warm-up; "auto" is 10, or more if 10 epochs are fewer than
        500 batches.
    batch_size : int or "auto", default="auto"
        Samples per step of the warm-up; "auto" is 200, or an eighth of the
        samples if that is less (but at least 8).
    robust_eps : float, array of shape (n_features,) or dict, default=0.0
        Train so that predictions are certified for changes of each feature by up to this many
        units of ``scale_`` (of the feature itself with ``standardize=False``, and for images). A
        dict maps column names to the largest change of each, in the unit of the column, such as
        ``{"age": 2, "income": 500}``, or to "any" for categorical and ordinal columns; other
        columns do not change. A number holds categories and binary columns of a data frame fixed,
        and its unit is `certificate_scale`. A single network supports a number only: in its
        warm-up, all scores but that of the true class are increased by 2·robust_eps·slope, the
        largest effect of such a change, before the loss is computed.
    robust_training : "auto" or float > 0, default="auto"
        Size of the boxes in certified training as a multiple of ``robust_eps``; "auto" chooses
        among 1, 1.5, 2 and 3.
    clip : None, "range", (low, high) or a sequence of such pairs, default=None
        Intervals of raw features outside which a change has no effect in a sum trained with
        ``robust_eps`` (`maxplus.models.FeatureMap.clip`); "range" is the range of the training
        rows. None means "range" for tables; for images, it is chosen among three clips.
    augment : callable, optional
        Called with a batch's rows, as raw features, and a NumPy generator; the warm-up trains on
        the rows it returns instead, for example `maxplus.images.RandomShift`.
    early_stopping : bool, default=False
        Hold out ``validation_fraction`` of the samples from the warm-up, keep the best epoch on
        them, and stop after ``n_iter_no_change`` epochs without improvement. The polish uses all
        samples.
    validation_fraction : float, default=0.1
        Fraction of the samples to hold out with ``early_stopping``.
    n_iter_no_change : int, default=5
        Number of epochs without improvement after which ``early_stopping`` stops the warm-up.
    polish : "auto", "log2", float or None, default="auto"
        After the warm-up, lower every training loss below this level
        (`maxplus.training.stages.Polish`); "log2" is the paper's certificate, None skips the
        polish. "auto" is log 2 if some samples are above it and cross-validation shows that the
        polish degrades neither accuracy nor log loss beyond noise: three networks are trained
        briefly and compared on held-out rows before and after a polish. Such a polish processes
        no more samples than the warm-up.
        ``suspects_`` lists the samples that remain above the level. If an explicit level is not
        reached, a ConvergenceWarning is issued.
    max_suspects : int or float, default=0
        Number of samples, or fraction of them, that the polish may leave above its level: those
        with the largest losses before it are left as they are, since their labels may be wrong.
    standardize : "auto" or False, default="auto"
        With "auto", each feature of a sum is transformed monotonically: it is clipped to an
        interval around its typical values, heavy tails are compressed, and the result is divided
        by its spread (`maxplus.models.FeatureMap`). A single network is trained on
        (x − centre) / ``scale_``, with the mean and standard deviation of each feature after
        clipping outliers; pixels on an empty background are not scaled (more than 50 nonnegative
        features with a common range, at least a quarter of their values zero). Both
        transformations are part of the model, which takes raw features. False uses features as
        they are.
    calibrate : bool or "auto", default="auto"
        Multiply all weights by the best temperature for held-out rows. Predictions and radii do not
        change. "auto" is True for a sum of terms, for which the cross-validation of structures
        provides the temperature, and False for a single network, for which True estimates it by
        three short training runs. After an explicit polish, the temperature is limited so that
        every polished loss stays below its level.
    class_weight : None, "balanced" or dict of labels and numbers > 0, default=None
        Weights of the classes, times those of the samples, in search, warm-up and temperature;
        "balanced" gives all classes the same total weight. The polish ignores weights.
    scoring : None, str or callable(estimator, X, y), default=None
        The score of structures on held-out rows, higher is better, such as
        "roc_auc" or "balanced_accuracy" (`sklearn.metrics.get_scorer`); None is the log loss.
        With ``robust_eps`` it is always "certified", the certified accuracy.
    n_jobs : int, optional
        Number of threads; None and −1 use all of them. Results do not depend on it, except for
        rounding in matrix products during the warm-up of a single network.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
        1 shows a progress bar.
    callbacks : callable or list of callables, optional
        Called with a `maxplus.training.Progress` after each training run of the search, epoch of
        the warm-up and round of the polish; returning True stops the training. If it is stopped
        during the search, the initial model is kept.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_
    model_ : the `maxplus.models.AdditiveLMM`, or the `maxplus.models.LMM` of a single network
    n_hidden_ : int, hidden units of all terms
    scale_ : array of shape (P,), spread of the features, multiplied by any that was folded in
        (`fold`)
    robust_reach_ : array of shape (P,), largest change of each feature, in its own unit, for which
        a sum was trained to be certified (``robust_eps``)
    temperature_ : factor by which all weights are multiplied after training; 1.0 without
        calibration
    search_ : results of the search (sums of terms): "candidates" as text, held-out "losses" of
        shape (candidates, folds), inf where a fold was skipped, "scores" with a ``scoring``, −inf
        where a fold was skipped, and the index of the "chosen" candidate.
        With ``robust_eps``, "losses" are error rates and "scores" certified accuracies; the last
        candidate is a constant
    term_means_ : array of shape (T, C), mean scores of each term over training rows, to which
        contributions in `explain` are relative (sums of terms)
    W0_, W1_, W2_ : weights of a single network, of shapes (2P,), (2P, H), (H, C): the two slopes of
        each feature, + then −, and the offsets of both layers
    slope_ : slope in the training of a single network, per unit of ``scale_``; W0_ is
        temperature_·slope_ / scale_
    suspects_ : training samples that are not below the polish's level (before the temperature)
    loss_curve_ : mean soft loss of each epoch of the warm-up
    validation_scores_ : accuracy after each epoch (early_stopping only)
    polish_losses_ : the maximum loss before each round of the polish and at its end, before the
        temperature
    unit_activation_counts_ : for each unit, number of scores of its term that it determines on the
        training samples
    feature_importances_ : array of shape (P,), shares of the features in the margins of the
        training samples (`maxplus.explain.feature_importances`)
    n_iter_ : number of epochs of the warm-up and rounds of the polish
    status_, status_message_ : reason why training stopped, as a code
        (`maxplus.training.Status`) and as a sentence
    max_loss_, mean_loss_ : losses of the final model on the training set
    perfect_fit_ : whether max_loss_ < log 2
    training_losses_, training_labels_ : loss and label of every training sample; the loss is NaN if
        its weight was 0

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from maxplus import LMMClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = LMMClassifier(random_state=0).fit(X, y)
    >>> clf.score(X, y) > 0.95, clf.search_["losses"].shape
    (True, (8, 3))
    """

    suspects_: NDArray
    loss_curve_: NDArray
    polish_losses_: NDArray
    search_: dict[str, Any]
    temperature_: float
    _effects = (
        Effect(
            ("max_suspects",),
            lambda clf: clf.polish is not None and not clf._is_sum,
            "a single network is polished: give n_hidden",
        ),
        Effect(
            ("validation_fraction", "n_iter_no_change"),
            lambda clf: clf.early_stopping,
            "early_stopping is True",
        ),
        Effect(
            ("clip", "robust_training"),
            lambda clf: clf._is_robust,
            "robust_eps asks for a sum of terms with certificates",
        ),
        Effect(
            ("scoring",),
            lambda clf: not clf._is_robust or clf.scoring == "certified",
            "it is 'certified' beside robust_eps",
        ),
        Effect(("max_features",), lambda clf: not clf._is_robust, "robust_eps is 0"),
        Effect(
            ("scoring", "structure", "max_features", "monotonic_cst"),
            lambda clf: clf._is_sum,
            "there is a choice of structures, which n_hidden, slope and other parameters of a "
            "single network leave out",
        ),
    )
    _parameters: ClassVar[Parameters] = {
        **TRAINED,
        "n_hidden": (integer(1), one_of("auto")),
        "slope": (real(above=0.0), one_of("auto")),
        "structure": (one_of(*ALLOWED),),
        "max_features": (integer(1), NONE),
        "monotonic_cst": (MONOTONIC, NONE),
        "init_margin": (real(above=0.0), NONE),
        "warmup_epochs": (integer(1), one_of("auto")),
        "batch_size": (integer(1), one_of("auto")),
        "robust_eps": (real(minimum=0.0), SIZES, SIZES_BY_COLUMN),
        "robust_training": (real(above=0.0), one_of("auto")),
        "clip": (one_of("range"), CLIPS, NONE),
        "augment": (CALLABLE, NONE),
        "early_stopping": (BOOLEAN,),
        "validation_fraction": (real(above=0.0, maximum=0.9),),
        "n_iter_no_change": (integer(1),),
        "polish": (real(above=0.0), one_of("auto", "log2"), NONE),
        "max_suspects": (samples(0),),
        "standardize": (one_of("auto"), FALSE),
        "calibrate": (BOOLEAN, one_of("auto")),
        "class_weight": (CLASS_WEIGHTS, one_of("balanced"), NONE),
        "scoring": (SCORER, one_of("certified"), CALLABLE, NONE),
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
        if self._is_sum and any(map(needs_state, as_callbacks(self.callbacks))):
            raise ValueError(
                "callbacks has a checkpoint, but the training of a sum of terms has no state to "
                "keep; leave it out, or give n_hidden"
            )
        if self._asks_for_certificates and not self._is_sum and not np.isscalar(self.robust_eps):
            raise ParameterError(
                "robust_eps must be a number for a single network, which n_hidden and other "
                f"parameters ask for; got {self.robust_eps!r:.80}"
            )
        is_certified = isinstance(self.scoring, str) and self.scoring == "certified"
        if is_certified and not self._asks_for_certificates:
            raise ParameterError(
                "scoring='certified' needs a robust_eps above 0, within which predictions are "
                f"certified; got robust_eps={self.robust_eps!r:.60}"
            )
        if self._is_robust and self.monotonic_cst is not None:
            raise ParameterError(
                f"monotonic_cst={self.monotonic_cst!r:.60} cannot be kept in a training for "
                "certificates; leave it or robust_eps out"
            )

    @property
    def _is_sum(self) -> bool:
        """Whether to train a sum of terms: no parameter requires a single network."""
        return (
            isinstance(self.n_hidden, str)
            and isinstance(self.slope, str)
            and self.polish in ("auto", None)
            and not self.early_stopping
            and self.init_margin is None
            and (
                self._asks_for_certificates
                or (self.standardize is not False and self.augment is None)
            )
        )

    @property
    def _asks_for_certificates(self) -> bool:
        return asks_for_certificates(self.robust_eps)

    @property
    def _is_robust(self) -> bool:
        """Whether to train a sum of terms with certificates."""
        return self._is_sum and self._asks_for_certificates

    @property
    def _margin(self) -> float:
        """The margin that a single network is trained for, per unit of its slope."""
        return 2.0 * float(self.robust_eps) if self._asks_for_certificates else 0.0  # type: ignore[arg-type]

    @property
    def _calibrates(self) -> bool:
        return self.calibrate is True or (self.calibrate == "auto" and self._is_sum)

    @property
    def _capacity(self) -> Capacity:
        return Capacity(
            None if isinstance(self.n_hidden, str) else int(self.n_hidden),
            None if isinstance(self.slope, str) else float(self.slope),
        )

    def _score(self, classes: NDArray, model: AdditiveLMM, rows: TrainingData) -> float:
        """Return the user-defined score of a model on held-out rows."""
        # Scorers require a fitted classifier; this one has only the attributes for prediction.
        fitted = clone(self).set_params(callbacks=None, verbose=0)
        vars(fitted).update(model_=model, classes_=classes, n_features_in_=rows.X.shape[1])
        y = classes[rows.y]
        if isinstance(self.scoring, str):
            return float(get_scorer(self.scoring)(fitted, rows.X, y, sample_weight=rows.weight))
        assert self.scoring is not None
        return float(self.scoring(fitted, rows.X, y))

    def _initialize(
        self, data: TrainingData, rng: np.random.Generator, monitor: TrainingMonitor
    ) -> tuple[Network, FitState]:
        temperature = None
        if self._calibrates and not self._is_sum:
            monitor.begin("choice", is_last=False)
            temperature = self._held_out_temperature(data, rng, monitor)

        def initialize(rows: TrainingData) -> tuple[Network, FitState]:
            scaling = self._scaling(rows.X)
            if self._is_sum:
                rows = replace(rows, X=rows.X[:])
                signs = self._monotonic_signs(data)
                return untrained(rows, data.n_classes, rng, signs), FitState(scaling=scaling)
            rows = replace(rows, X=scaling(rows.X))
            boxes = initial_boxes(rows, data.n_classes, self._capacity, self.init_margin, rng)
            return boxes.model, FitState(
                slope=boxes.slope, distance=boxes.distance, scaling=scaling, temperature=temperature
            )

        return data.on_first_rank(initialize, rng)

    def _scaling(self, X: NDArray) -> Scaling:
        return Scaling.none(X.shape[1]) if self.standardize is False else Scaling.of(X)

    def _held_out_temperature(
        self, data: TrainingData, rng: np.random.Generator, monitor: TrainingMonitor
    ) -> float:
        def train(
            rows: TrainingData, length: float, rng: np.random.Generator, quiet: TrainingMonitor
        ) -> LMM:
            scaling = self._scaling(rows.X)
            scaled = replace(rows, X=scaling(rows.X))
            model = self._train_briefly(data.n_classes, scaled, self._capacity, length, rng, quiet)
            return scaling.folded(model)

        seed = int(rng.integers(2**31))
        return held_out_temperature(data, train, seed, monitor)

    def _train_briefly(
        self,
        n_classes: int,
        rows: TrainingData,
        capacity: Capacity,
        length: float,
        rng: np.random.Generator,
        monitor: TrainingMonitor,
    ) -> LMM:
        """Return a single network trained for a fraction of the usual number of epochs."""
        boxes = initial_boxes(rows, n_classes, capacity, self.init_margin, rng)
        annealing = self._annealing(boxes.slope * boxes.distance, len(rows.y), length)
        warm_up = WarmUp(annealing, margin=self._margin * boxes.slope)
        problem = TrainingProblem(rows.X, rows.y, weight=rows.weight, rng=rng)
        return warm_up.run(boxes.model, problem, monitor).model

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
                f"monotonic_cst is for two classes; y has {data.n_classes}, whose order no sign "
                "gives"
            )
        return signs

    def _robust_training(self, data: TrainingData, state: FitState) -> RobustTraining:
        is_automatic = isinstance(self.robust_training, str)
        structure = BOXES if self.structure == "auto" else SHAPES
        factor = 1.0 if is_automatic else float(self.robust_training)
        candidates = current().root_only(
            lambda X: candidates_for(X[:], structure, self.clip, factor), data.X
        )
        return RobustTraining(
            self._reach(data, state),
            candidates,
            FACTORS[1:] if is_automatic else (),
            numba.get_num_threads(),
            None if self.augment is None else partial(augmented, self.augment),
            Annealing(**self._epochs_and_batch),
        )

    def _reach(self, data: TrainingData, state: FitState) -> NDArray:
        assert state.scaling is not None
        return reach_of(self.robust_eps, state.scaling.spread, data.columns)

    def _single_stages(self, n_samples: int, state: FitState) -> Sequence[Stage]:
        """Return the stages of a single network for a number of samples."""
        slope, distance, scaling = state.slope, state.distance, state.scaling
        assert slope is not None
        assert distance is not None
        assert scaling is not None
        annealing = self._annealing(slope * distance, n_samples)
        stages: list[Stage] = [
            WarmUp(
                annealing,
                margin=self._margin * slope,
                augment=None if self.augment is None else partial(self._augmented, scaling),
                hold_out=float(self.validation_fraction) if self.early_stopping else 0.0,
                patience=self.n_iter_no_change if self.early_stopping else None,
            )
        ]
        if self.polish == "auto":
            polish_of = partial(self._bounded_polish, slope * distance)
            is_worth_it = partial(validate_polish, partial(self._retrain, slope), polish_of)
            stages.append(ValidatedPolish(is_worth_it, polish_of(n_samples)))
        elif self.polish is not None:
            skip = count_samples(self.max_suspects, n_samples)
            stages.append(Polish(self._level, skip))
        return stages

    def _bounded_polish(self, size: float, n_samples: int, length: float = 1.0) -> Polish:
        """Return a polish that processes no more samples than the preceding warm-up."""
        epochs = self._annealing(size, n_samples, length).epochs(n_samples)
        skip = count_samples(self.max_suspects, n_samples)
        return Polish(LOG2, skip, visits=epochs * n_samples)

    def _retrain(
        self,
        slope: float,
        model: LMM,
        rows: TrainingData,
        length: float,
        rng: np.random.Generator,
        monitor: TrainingMonitor,
    ) -> LMM:
        """Return a network of the same size, trained on fewer rows and for fewer epochs."""
        like = Capacity(min(model.n_hidden, len(rows.y)), slope)
        return self._train_briefly(model.n_classes, rows, like, length, rng, monitor)

    @property
    def _level(self) -> float:
        """Level of an explicit polish."""
        return LOG2 if isinstance(self.polish, str) else float(self.polish or 0.0)

    def _augmented(self, scaling: Scaling, Z: NDArray, rng: np.random.Generator) -> NDArray:
        """Return the scaled output of ``augment`` for a batch."""
        return scaling(augmented(self.augment, scaling.inverse(Z), rng))

    def _annealing(self, size: float, n_samples: int, length: float = 1.0) -> Annealing:
        """Return the schedule of the warm-up; no rows are held out if ``length`` is below 1."""
        if self.early_stopping and length == 1.0:
            n_samples -= int(self.validation_fraction * n_samples)
        usual = Annealing(length=length, **self._epochs_and_batch)
        return Annealing(
            size,
            n_epochs=usual.epochs(n_samples),
            batch_size=usual.batch_size or usual.batch(n_samples),
        )

    @property
    def _epochs_and_batch(self) -> dict[str, Any]:
        """User-defined fields of an `Annealing`, None if automatic."""
        given = {"n_epochs": self.warmup_epochs, "batch_size": self.batch_size}
        return {name: None if isinstance(n, str) else n for name, n in given.items()}

    def _required_state(self) -> tuple[str, ...]:
        own = ("distance", "scaling", *["temperature"] * self._calibrates)
        return (*super()._required_state(), *own)

    def _fitted_attributes(
        self, data: TrainingData, state: FitState, trained: TrainingResult
    ) -> dict[str, Any]:
        model = trained.model
        # If training was stopped early, later stages have no results.
        results: dict[str, NDArray] = {"warmup_losses": np.empty(0), **state.results}
        if self._is_sum:
            factor, search = self._search_results(data, trained)
        else:
            assert state.scaling is not None
            results = {"polish_losses": np.empty(0), **results}
            scaling, search = state.scaling, {}
            factor = self._factor(data, state, lambda X: model.scores(scaling(X)))
            model = scaling.folded(model)
        model = model if factor == 1.0 else model.scaled(factor)
        require_finite(model)
        if self._is_sum and self.polish is not None:
            results["suspects"] = suspects_above(LOG2, model.losses(data.X, data.y))
        state, trained = replace(state, results=results), replace(trained, model=model)
        if self._is_robust:
            search["robust_reach_"] = self._reach(data, state)
        return {
            **super()._fitted_attributes(data, state, trained),
            "temperature_": factor,
            **search,
        }

    def _search_results(
        self, data: TrainingData, trained: TrainingResult
    ) -> tuple[float, dict[str, Any]]:
        """Return the temperature of a sum of terms, and ``search_`` as a fitted attribute."""
        for out in trained.outcomes:
            if isinstance(out, Robust) and out.choice is not None:
                found = out.choice.as_search
                return out.choice.temperature if self._calibrates else 1.0, found
        choice = next((out.choice for out in trained.outcomes if isinstance(out, Joint)), None)
        if choice is None:
            return 1.0, {}
        structures = self._joint_training(data).structures
        search = {
            "candidates": np.array([str(structure) for structure in structures]),
            "losses": choice.losses,
            "chosen": choice.chosen,
        } | ({} if choice.scores is None else {"scores": choice.scores})
        return choice.temperature if self._calibrates else 1.0, {"search_": search}

    def _shortfall(self, status: Status) -> str:
        if status is not Status.GIVEN_UP:
            return super()._shortfall(status)
        return polish_shortfall(self.suspects_.size, self.training_labels_.size, self._level)

    def _factor(
        self, data: TrainingData, state: FitState, scores: Callable[[NDArray], NDArray]
    ) -> float:
        """Return the temperature, limited so that polished losses stay below their level."""
        if not self._calibrates:
            return 1.0
        wanted = state.temperature
        assert wanted is not None
        if "suspects" not in state.results or self.polish == "auto":
            return wanted
        comm = current()
        suspects = state.results["suspects"] - comm.before(len(data.y))
        mine = suspects[(suspects >= 0) & (suspects < len(data.y))]
        fine = np.delete(np.arange(len(data.y)), mine)
        if not comm.total(fine.size):
            return wanted
        return keep_level(wanted, scores(data.X[fine]), data.y[fine], self._level)


def suspects_above(level: float, losses: NDArray) -> NDArray:
    """Return the indices of the samples of all ranks whose loss is not below a level."""
    return np.flatnonzero(~(current().allgatherv(losses) < level))


def polish_shortfall(n_suspects: int, n_samples: int, level: float) -> str:
    """Return the message about a polish that did not reach its level."""
    return (
        f"the polish left {n_suspects} of {n_samples} training "
        f"samples above its level of {level:.4g} (suspects_ lists them); allow as many "
        "with max_suspects, or let polish='auto' decide"
    )
