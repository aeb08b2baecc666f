"""Classifiers trained with the subgradient method, as in the paper."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.distributed import current
from maxplus.estimators._base import BaseMaxPlusClassifier, FitState
from maxplus.estimators._lmm import BaseLMMClassifier, check_overflow
from maxplus.estimators._parameters import (
    BOOLEAN,
    TRAINED,
    Constraint,
    Effect,
    Parameters,
    integer,
    is_set,
    real,
    samples,
    warn_no_effect,
)
from maxplus.estimators._training_data import TrainingData
from maxplus.models import LMM, LinearMaxPlus, Network, ZeroHidden
from maxplus.models.initialization import (
    choose_prototypes,
    gaussian,
    glorot_uniform,
    median_distance,
    prototype_lmm,
    prototype_lmm_bytes,
    random_lmm,
    random_lmm_bytes,
    uniform,
)
from maxplus.training import (
    History,
    Iterations,
    MaxLoss,
    MeanLoss,
    Objective,
    StepRule,
    TopKLoss,
    TrainingMonitor,
    TrainingProblem,
    TrimmedMaxLoss,
    constant,
    level,
    memory,
    paper_alpha,
    polyak,
    two_phase,
)
from maxplus.training.engines import ENGINES, Engine, SparseEngine, select_engine
from maxplus.training.stages import Stage, TrainingResult

Self = TypeVar("Self", bound="BaseSubgradientClassifier")

TWO_PHASE, CONSTANT = "two-phase", "constant"
STEPS = (TWO_PHASE, "polyak", CONSTANT, "level")
# Objectives of an estimator, by name.
OBJECTIVES: dict[str, Callable[[Any], Objective]] = {
    "max": lambda clf: MaxLoss(),
    "mean": lambda clf: MeanLoss(),
    "top-k": lambda clf: TopKLoss(clf.top_k),
    "trimmed-max": lambda clf: TrimmedMaxLoss(clf.n_trimmed),
}
OBJECTIVE = Constraint(
    "an Objective (maxplus.training)",
    lambda v: isinstance(v, Objective) and not isinstance(v, type),
)
STEP_RULE = Constraint("a StepRule (maxplus.training)", lambda v: isinstance(v, StepRule))

SUBGRADIENT: Parameters = {
    **TRAINED,
    "objective": ("max", "mean", OBJECTIVE),
    "step": (*STEPS, STEP_RULE),
    "polyak_target": (real(minimum=0.0),),
    "polyak_fraction": (real(minimum=0.0, maximum=1.0),),
    "learning_rate": (real(above=0.0),),
    "engine": ("auto", *ENGINES),
    "max_iter": (integer(1),),
    "keep": ("best", "last"),
    "warm_start": (BOOLEAN,),
}
# Parameters that only some step rules use.
EFFECTS: tuple[Effect, ...] = (
    Effect(("polyak_fraction",), lambda clf: clf.step == TWO_PHASE, "step is 'two-phase'"),
    Effect(
        ("learning_rate",),
        lambda clf: clf.step in (TWO_PHASE, CONSTANT),
        "step is 'two-phase' or 'constant'",
    ),
    Effect(("polyak_target",), lambda clf: isinstance(clf.step, str), "step is a name"),
)
# Parameters of estimators with random initial weights.
RANDOM_INIT: Parameters = {
    **SUBGRADIENT,
    "init": ("glorot", "gaussian", "uniform"),
    "scale": (real(above=0.0),),
}
RANDOM_INIT_EFFECTS = (
    *EFFECTS,
    Effect(("scale",), lambda clf: clf.init != "glorot", "init is 'gaussian' or 'uniform'"),
)


def random_weights(
    init: str, scale: float, shape: tuple[int, int], dtype: Any, rng: np.random.Generator
) -> NDArray:
    """Draw weights from the distribution named ``init``."""
    if init == "glorot":
        return glorot_uniform(*shape, rng).astype(dtype)
    draw = {"gaussian": gaussian, "uniform": uniform}[init]
    return draw(shape, scale, rng).astype(dtype)


class BaseSubgradientClassifier(BaseMaxPlusClassifier):
    """Base class of classifiers trained with the subgradient method."""

    _effects: ClassVar[tuple[Effect, ...]] = EFFECTS
    # Names of the parameters that determine the initial model.
    _init_params: ClassVar[tuple[str, ...]]
    # Engine for ``engine="auto"``. The mean loss uses "sgd" instead.
    _automatic_engine: ClassVar[str] = "dense"

    objective: str | Objective
    step: str | StepRule
    polyak_target: float
    polyak_fraction: float
    learning_rate: float
    engine: str
    max_iter: int
    keep: str
    warm_start: bool

    history_: History
    # Values of ``_init_params`` at initialisation.
    _initialized_with: dict[str, Any]

    def _previous(self) -> tuple[Network, FitState] | None:
        return self._continued() if self.warm_start and hasattr(self, "model_") else None

    def _continued(self, **progress: Any) -> tuple[Network, FitState]:
        """Return the fitted model and state; warn if initialisation parameters were changed."""
        for name, before in self._initialized_with.items():
            value = getattr(self, name)
            if value != before:
                warn_no_effect(
                    f"{name}={value!r}",
                    f"because training continues from a model with {name}={before!r}; call fit "
                    "with warm_start=False to start again",
                )
        slope = getattr(self, "slope_", None)
        state = FitState(slope=slope, init_values=self._initialized_with, **progress)
        return self.model_, state

    def partial_fit(
        self: Self,
        X: Any,
        y: Any,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train for ``max_iter`` more iterations, starting from the current weights.

        The first call should contain samples of every class. The step rule continues at the current
        iteration, and the history is extended. With ``keep="best"``, training continues from the
        best weights so far, so ``keep="last"`` is recommended for many short calls.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples.
        y : array of shape (n_samples,)
            Labels.
        classes : array of labels, optional
            Labels of all classes. Required in the first call unless y contains all labels. Later
            calls must pass the same labels or None.
        sample_weight : array of shape (n_samples,), optional
            Sample weights, as in `fit`.

        Returns
        -------
        self
            Fitted estimator.
        """
        previous = None
        if hasattr(self, "model_"):
            previous = self._continued(
                n_iter=self.n_iter_,
                prototypes=getattr(self, "prototypes_", None),
                unit_activation_counts=getattr(self, "unit_activation_counts_", None),
                history=self.history_,
                # A failed call must not advance the generator of the estimator.
                rng=deepcopy(getattr(self, "_rng", None)),
            )
        return self._fit(X, y, sample_weight, classes, previous=previous)

    def _objective(self) -> Objective:
        """Return the objective as an object."""
        objective = self.objective
        return OBJECTIVES[objective](self) if isinstance(objective, str) else objective

    def _init_values(self) -> dict[str, Any]:
        """Return the current values of the initialisation parameters."""
        return {name: getattr(self, name) for name in self._init_params}

    def _warn_of_no_effect(self) -> None:
        super()._warn_of_no_effect()
        used = self._engine_class().name
        if self.engine in ("auto", used):
            return
        problem = f"a {type(self).__name__}"
        if not ENGINES[self.engine].minimises(type(self._objective())):
            problem = f"objective={self.objective!r}"
        reason = f"with {problem}, because the engine does not support it; {used!r} is used"
        warn_no_effect(f"engine={self.engine!r}", reason)

    def _warn_after_fit(self, trained: TrainingResult) -> None:
        super()._warn_after_fit(trained)
        if self.step != TWO_PHASE or trained.status.ends_training:
            return
        # The history of sgd contains losses of single samples, so the kept iteration is unknown.
        if self._engine_class() is ENGINES["sgd"]:
            return
        losses, first = self.history_["loss"], self._n_polyak
        kept = int(np.argmin(losses)) if self.keep == "best" and losses.size else losses.size
        if kept <= first and is_set(self, "learning_rate"):
            warn_no_effect(
                f"learning_rate={self.learning_rate!r}",
                f"here: the weights of iteration {kept} are kept, and constant steps begin at "
                f"{first}; use a smaller polyak_fraction",
            )

    def _engine_class(self) -> type[Engine]:
        """Return the selected engine, or the automatic one if it does not support the problem."""
        objective = type(self._objective())
        automatic = ENGINES["sgd" if objective is MeanLoss else self._automatic_engine]
        if not automatic.minimises(objective):
            automatic = ENGINES["dense"]
        engine = ENGINES.get(self.engine, automatic)
        is_supported = engine.minimises(objective) and issubclass(self._model_class, engine.models)
        return engine if is_supported else automatic

    @property
    def _n_polyak(self) -> int:
        """Number of Polyak steps in the first phase of "two-phase"."""
        return math.ceil(self.polyak_fraction * self.max_iter)

    def _step_rule(self, n_classes: int, best: float) -> StepRule:
        """Return the step rule; ``best`` is the lowest loss of earlier iterations."""
        if isinstance(self.step, StepRule):
            return self.step
        first = polyak(self.polyak_target)
        second = constant(paper_alpha(self.learning_rate, n_classes), self.polyak_target)
        if self.step == "polyak":
            return first
        if self.step == CONSTANT:
            return second
        if self.step == "level":
            return level(self.max_iter, self.polyak_target, best)
        return two_phase(first, second, self._n_polyak)

    def _problem(
        self, data: TrainingData, state: FitState, rng: np.random.Generator
    ) -> TrainingProblem:
        earlier = np.empty(0) if state.history is None else state.history["loss"]
        best = float(np.fmin.reduce(earlier, initial=math.inf))
        return TrainingProblem(
            data.X,
            data.y,
            self._objective(),
            self._step_rule(data.n_classes, best),
            w0_update_interval=int(getattr(self, "w0_update_interval", 0)),
            start=earlier.size,
            weight=data.weight,
            rng=rng,
        )

    def _stages(self, data: TrainingData, state: FitState) -> Sequence[Stage]:
        return [Iterations(self._engine_for(data), self.max_iter, self.keep)]

    def _engine_for(self, data: TrainingData) -> type[Engine]:
        """Return the engine for these samples."""
        return self._engine_class()

    def _fitted_attributes(
        self, data: TrainingData, state: FitState, trained: TrainingResult
    ) -> dict[str, Any]:
        history = History()
        if state.history is not None:
            history.extend(state.history)
        if "history.loss" in state.results:
            new = History.from_columns(
                {name: state.results[f"history.{name}"] for name in History.columns}
            )
            new.map_samples(data.index_of_all)
            history.extend(new)
        return {
            **super()._fitted_attributes(data, state, trained),
            "history_": history,
            "_rng": state.rng,
            "_initialized_with": state.init_values or self._init_values(),
        }

    @property
    def loss_curve_(self) -> NDArray:
        """Objective before each step. With "sgd", the loss of the drawn sample."""
        return self.history_["loss"]


# Slope for data with a typical distance of 1 between samples, such as MNIST scaled to [0, 1].
UNIT_SLOPE = 4.0


class SubgradientLMMClassifier(BaseLMMClassifier, BaseSubgradientClassifier):
    """Linear-Min-Max classifier trained with the subgradient method of the paper.

    Each hidden unit is a box in feature space. The score of a class is the largest value of a
    unit: z_d(x) = max_h (min_i (W0[i]·x[i // 2] + W1[i, h]) + W2[h, d]). Units are initialised as
    pyramids at random samples. By default, each iteration takes a step along a negative subgradient
    of the maximum loss. It changes only the weights on the active paths of the worst sample, at
    most one weight per class and layer. A maximum loss below log 2 proves that every training
    sample is classified correctly.

    Parameters
    ----------
    n_hidden : int, default=100
        Number of hidden units H. With ``init="prototypes"``, it is at most the number of samples.
    slope : float or "auto", default="auto"
        Initial slope (k in the paper, for W0 and W1). "auto" uses 4 / d, where d is the median L∞
        distance between two samples.
    init_margin : float, optional
        Initial magnitude of W2 (k in the paper). By default, the slope.
    init : {"prototypes", "gaussian", "uniform"}, default="prototypes"
        Initialisation: the paper's construction from random training samples, or i.i.d. weights.
    objective : {"max", "mean", "top-k", "trimmed-max"} or Objective, default="max"
        Objective to minimise: the maximum loss, the mean loss, the mean of the k largest losses, or
        the maximum after the largest losses are excluded. A user-defined
        `maxplus.training.Objective` requires the "dense" engine and cannot be saved.
    top_k : int or float, default=0.1
        Number or fraction of samples in the "top-k" objective. Fractions are rounded up.
    n_trimmed : int or float, default=0.1
        Number or fraction of samples that "trimmed-max" ignores in each iteration, because their
        labels may be wrong. The samples with the largest losses are ignored. Fractions are rounded
        up.
    step : {"two-phase", "polyak", "constant", "level"} or StepRule, default="two-phase"
        Step size rule. "two-phase" uses Polyak steps and then constant steps. "level" uses Polyak
        steps with a target that increases from ``polyak_target`` to the lowest loss so far, for
        data that cannot be fitted well (`maxplus.training.level`). A user-defined
        `maxplus.training.StepRule` replaces all step parameters and cannot be saved.
    polyak_target : float, default=0.0
        Target value of the objective in Polyak steps. Training stops when it is reached.
    polyak_fraction : float, default=0.5
        Fraction of the iterations that use Polyak steps in "two-phase".
    learning_rate : float, default=0.1
        Learning rate ε of the paper. Constant steps have size ε / (2·√(2·n_classes)).
    w0_update_interval : int, default=100
        Number of iterations between updates of W0. 0 never updates it.
    engine : {"auto", "dense", "tree", "sparse", "sgd"}, default="auto"
        Implementation of the iterations. "dense", "tree" and "sparse" produce bit-identical
        iterates for the maximum loss. "dense" and "sparse" also support "top-k" and "trimmed-max",
        with bit-identical iterates. The mean loss is supported by "dense" and by "sgd", which uses
        one sample per step. "auto" uses "sgd" for the mean loss, "dense" for short runs (about two
        seconds) and for user-defined objectives, and "sparse" otherwise. An engine that does not
        support the ``objective`` is replaced by "auto", with a warning. The "sparse" engine is
        compiled at its first use, or ahead of time by ``maxplus compile``.
    max_iter : int, default=10000
        Maximum number of iterations.
    keep : {"best", "last"}, default="best"
        Weights to keep: those with the lowest objective, or those of the last iteration.
    warm_start : bool, default=False
        If True, `fit` starts from the current weights. Later changes of ``n_hidden``, ``slope``,
        ``init_margin`` and ``init`` have no effect and cause a warning.
    n_jobs : int, optional
        Number of threads. None and −1 use all threads. Iterates do not depend on it.
    random_state : int, RandomState or None, default=None
        Seed for the initialisation and for "sgd".
    verbose : int, default=0
        If nonzero, show a progress bar.
    callbacks : callable or list of callables, optional
        Functions called with a `maxplus.training.Progress` after each block of iterations, about
        five times per second. Returning True stops training.

    Attributes
    ----------
    model_ : LMM
        Fitted model (`maxplus.models.LMM`).
    W0_ : ndarray of shape (2 * n_features,)
        Positive and negative slope of each feature.
    W1_ : ndarray of shape (2 * n_features, n_hidden)
        Offsets of the min-plus layer.
    W2_ : ndarray of shape (n_hidden, n_classes)
        Offsets of the max-plus layer.
    n_hidden_ : int
        Number of hidden units.
    slope_ : float
        Initial slope, per unit of ``scale_``.
    scale_ : ndarray of shape (n_features,)
        Ones, unless `fold` was called.
    prototypes_ : ndarray of shape (n_hidden,)
        Index of the training sample at which each unit was initialised. Only with
        ``init="prototypes"``.
    unit_activation_counts_ : ndarray of shape (n_hidden,)
        Number of scores on the training set that each unit determines, summed over all calls of
        `partial_fit`.
    history_ : mapping of str to ndarray of shape (n_iter_,)
        "loss", "sample" and "step" of each iteration.
    n_iter_ : int
        Number of iterations.
    loss_curve_ : ndarray of shape (n_iter_,)
        Objective before each step. With "sgd", the loss of the drawn sample.
    classes_, n_features_in_, feature_names_in_, feature_importances_, status_, status_message_, \
max_loss_, mean_loss_, perfect_fit_, training_losses_, training_labels_
        As in `LMMClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxplus import SubgradientLMMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = SubgradientLMMClassifier(40, engine="dense", max_iter=300, random_state=0)
    >>> clf.fit(X, y).score(X, y) > 0.9
    True
    """

    model_: LMM
    _automatic_engine = "sparse"
    _init_params = ("n_hidden", "slope", "init_margin", "init")
    _effects = (
        *EFFECTS,
        Effect(("top_k",), lambda clf: clf.objective == "top-k", "objective is 'top-k'"),
        Effect(
            ("n_trimmed",),
            lambda clf: clf.objective == "trimmed-max",
            "objective is 'trimmed-max'",
        ),
    )
    _parameters: ClassVar[Parameters] = {
        **SUBGRADIENT,
        "n_hidden": (integer(1),),
        "slope": (real(above=0.0), "auto"),
        "init_margin": (real(above=0.0), None),
        "init": ("prototypes", "gaussian", "uniform"),
        "objective": (*OBJECTIVES, OBJECTIVE),
        "top_k": (samples(1),),
        "n_trimmed": (samples(0),),
        "w0_update_interval": (integer(0),),
    }

    def __init__(
        self,
        n_hidden: int = 100,
        *,
        slope: float | str = "auto",
        init_margin: float | None = None,
        init: str = "prototypes",
        objective: str | Objective = "max",
        top_k: int | float = 0.1,
        n_trimmed: int | float = 0.1,
        step: str | StepRule = "two-phase",
        polyak_target: float = 0.0,
        polyak_fraction: float = 0.5,
        learning_rate: float = 0.1,
        w0_update_interval: int = 100,
        engine: str = "auto",
        max_iter: int = 10_000,
        keep: str = "best",
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        self.n_hidden = n_hidden
        self.slope = slope
        self.init_margin = init_margin
        self.init = init
        self.objective = objective
        self.top_k = top_k
        self.n_trimmed = n_trimmed
        self.step = step
        self.polyak_target = polyak_target
        self.polyak_fraction = polyak_fraction
        self.learning_rate = learning_rate
        self.w0_update_interval = w0_update_interval
        self.engine = engine
        self.max_iter = max_iter
        self.keep = keep
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    def _engine_for(self, data: TrainingData) -> type[Engine]:
        engine = super()._engine_for(data)
        if self.engine != "auto" or engine is not SparseEngine or not current().is_serial:
            return engine
        n_sums = 2 * data.X.size * self.n_hidden
        return select_engine(n_sums, self.max_iter)

    def _initialize(
        self, data: TrainingData, rng: np.random.Generator, monitor: TrainingMonitor
    ) -> tuple[LMM, FitState]:
        return data.on_first_rank(lambda all_rows: self._initial_lmm(all_rows, rng), rng)

    def _initial_lmm(self, data: TrainingData, rng: np.random.Generator) -> tuple[LMM, FitState]:
        """Return the initial model for the samples of all ranks."""
        X, y, n_classes = data.X, data.y, data.n_classes
        slope = self.slope
        slope = UNIT_SLOPE / median_distance(X, rng) if isinstance(slope, str) else float(slope)
        check_overflow(X, slope)
        init_margin = slope if self.init_margin is None else float(self.init_margin)
        (N, P), H = X.shape, int(self.n_hidden)
        has_prototypes, shape = self.init == "prototypes", (P, H, n_classes)
        memory.require(
            prototype_lmm_bytes(min(H, N), P, n_classes, X.dtype)
            if has_prototypes
            else random_lmm_bytes(shape, X.dtype),
            f"an initial model with n_hidden={H:,}",
            memory.FEWER_UNITS,
        )
        if has_prototypes:
            chosen = choose_prototypes(y, self.n_hidden, rng)
            model = prototype_lmm(X[chosen], y[chosen], n_classes, slope, init_margin)
            return model, FitState(slope=slope, prototypes=data.index[chosen])
        model = random_lmm(self.init, shape, slope, init_margin, X.dtype, rng)
        return model, FitState(slope=slope)

    def _required_state(self) -> tuple[str, ...]:
        has_prototypes = self.init == "prototypes" and not self.warm_start
        return (*super()._required_state(), *["prototypes"] * has_prototypes)


class MaxPlusClassifier(BaseSubgradientClassifier):
    """Single max-plus layer with softmax: z_d(x) = max_p (x_p + W[d, p]).

    This is the baseline of the paper. It has no hidden layer and is much less expressive than
    `LMMClassifier`. Parameters without a description are the same as in
    `SubgradientLMMClassifier`.

    Parameters
    ----------
    init : {"glorot", "gaussian", "uniform"}, default="glorot"
        Initial distribution of W: Glorot uniform, N(0, scale²) or U(−scale, scale).
    scale : float, default=1.0
        Scale of the Gaussian and uniform distributions.
    objective : {"max", "mean"} or Objective, default="max"
        Objective to minimise: the maximum or the mean loss.
    step : {"two-phase", "polyak", "constant", "level"} or StepRule, default="two-phase"
    polyak_target : float, default=0.0
    polyak_fraction : float, default=0.5
    learning_rate : float, default=0.1
    engine : {"auto", "dense", "sgd"}, default="auto"
        "sgd" supports only the mean loss.
    max_iter : int, default=10000
    keep : {"best", "last"}, default="best"
    warm_start : bool, default=False
    n_jobs : int, optional
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
    callbacks : callable or list of callables, optional

    Attributes
    ----------
    model_ : ZeroHidden
        Fitted model (`maxplus.models.ZeroHidden`).
    W_ : ndarray of shape (n_classes, n_features)
        Offsets of the max-plus layer.
    history_, n_iter_, loss_curve_
        As in `SubgradientLMMClassifier`.
    classes_, n_features_in_, feature_names_in_, status_, status_message_, max_loss_, mean_loss_, \
perfect_fit_, training_losses_, training_labels_
        As in `LMMClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxplus import MaxPlusClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = MaxPlusClassifier(max_iter=500, random_state=0).fit(X, y)
    >>> clf.W_.shape
    (3, 4)
    """

    model_: ZeroHidden
    _model_class = ZeroHidden
    _init_params = ("init", "scale")
    _effects = RANDOM_INIT_EFFECTS
    _parameters: ClassVar[Parameters] = RANDOM_INIT

    def __init__(
        self,
        *,
        init: str = "glorot",
        scale: float = 1.0,
        objective: str | Objective = "max",
        step: str | StepRule = "two-phase",
        polyak_target: float = 0.0,
        polyak_fraction: float = 0.5,
        learning_rate: float = 0.1,
        engine: str = "auto",
        max_iter: int = 10_000,
        keep: str = "best",
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        self.init = init
        self.scale = scale
        self.objective = objective
        self.step = step
        self.polyak_target = polyak_target
        self.polyak_fraction = polyak_fraction
        self.learning_rate = learning_rate
        self.engine = engine
        self.max_iter = max_iter
        self.keep = keep
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    @property
    def W_(self) -> NDArray:
        """Offsets of the max-plus layer, shape (C, P)."""
        return self.model_.W

    def _initialize(
        self, data: TrainingData, rng: np.random.Generator, monitor: TrainingMonitor
    ) -> tuple[Network, FitState]:
        shape = (data.n_classes, data.X.shape[1])
        W = random_weights(self.init, self.scale, shape, data.X.dtype, rng)
        return ZeroHidden(W), FitState()

    def __sklearn_tags__(self) -> Any:
        """Return the estimator tags; scores may be low."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags


class LinearMaxPlusClassifier(BaseSubgradientClassifier):
    """Linear layer with ReLU, followed by a max-plus layer and softmax.

    The scores are z_d(x) = max_h (a_h(x) + W[h, d]) with a(x) = max(0, xA + b). The paper uses this
    model to measure the sparsity of subgradients. By default, the mean loss is minimised with
    constant steps, because the maximum loss hardly decreases below log C from random initial
    weights. Features should be standardised. Parameters without a description are the same as in
    `SubgradientLMMClassifier`.

    Parameters
    ----------
    n_hidden : int, default=100
        Number of hidden units H.
    init : {"glorot", "gaussian", "uniform"}, default="glorot"
        Initial distribution of A and W: Glorot uniform, N(0, scale²) or U(−scale, scale). The
        biases b are initialised to 0.
    scale : float, default=1.0
        Scale of the Gaussian and uniform distributions.
    objective : {"max", "mean"} or Objective, default="mean"
        Objective to minimise: the maximum or the mean loss.
    step : {"two-phase", "polyak", "constant", "level"} or StepRule, default="constant"
    polyak_target : float, default=0.0
    polyak_fraction : float, default=0.5
    learning_rate : float, default=0.1
    engine : {"auto", "dense", "sgd"}, default="auto"
        "sgd" supports only the mean loss.
    max_iter : int, default=10000
    keep : {"best", "last"}, default="best"
    warm_start : bool, default=False
    n_jobs : int, optional
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
    callbacks : callable or list of callables, optional

    Attributes
    ----------
    model_ : LinearMaxPlus
        Fitted model (`maxplus.models.LinearMaxPlus`).
    A_ : ndarray of shape (n_features, n_hidden)
        Weights of the linear layer.
    b_ : ndarray of shape (n_hidden,)
        Biases of the linear layer.
    W_ : ndarray of shape (n_hidden, n_classes)
        Offsets of the max-plus layer.
    history_, n_iter_, loss_curve_
        As in `SubgradientLMMClassifier`.
    classes_, n_features_in_, feature_names_in_, status_, status_message_, max_loss_, mean_loss_, \
perfect_fit_, training_losses_, training_labels_
        As in `LMMClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxplus import LinearMaxPlusClassifier
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = LinearMaxPlusClassifier(20, random_state=0).fit(scale(X), y)
    >>> clf.score(scale(X), y) > 0.9
    True
    >>> clf.A_.shape, clf.W_.shape
    ((4, 20), (20, 3))
    """

    model_: LinearMaxPlus
    _model_class = LinearMaxPlus
    _init_params = ("n_hidden", "init", "scale")
    _effects = RANDOM_INIT_EFFECTS
    _parameters: ClassVar[Parameters] = {**RANDOM_INIT, "n_hidden": (integer(1),)}

    def __init__(
        self,
        n_hidden: int = 100,
        *,
        init: str = "glorot",
        scale: float = 1.0,
        objective: str | Objective = "mean",
        step: str | StepRule = "constant",
        polyak_target: float = 0.0,
        polyak_fraction: float = 0.5,
        learning_rate: float = 0.1,
        engine: str = "auto",
        max_iter: int = 10_000,
        keep: str = "best",
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        self.n_hidden = n_hidden
        self.init = init
        self.scale = scale
        self.objective = objective
        self.step = step
        self.polyak_target = polyak_target
        self.polyak_fraction = polyak_fraction
        self.learning_rate = learning_rate
        self.engine = engine
        self.max_iter = max_iter
        self.keep = keep
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    @property
    def A_(self) -> NDArray:
        """Weights of the linear layer, shape (P, H)."""
        return self.model_.A

    @property
    def b_(self) -> NDArray:
        """Biases of the linear layer, shape (H,)."""
        return self.model_.b

    @property
    def W_(self) -> NDArray:
        """Offsets of the max-plus layer, shape (H, C)."""
        return self.model_.W

    def _initialize(
        self, data: TrainingData, rng: np.random.Generator, monitor: TrainingMonitor
    ) -> tuple[Network, FitState]:
        dtype = data.X.dtype
        first, last = (data.X.shape[1], self.n_hidden), (self.n_hidden, data.n_classes)
        # Weights are drawn in float64. Training keeps a copy of the best weights.
        memory.require(
            (first[0] + last[1]) * self.n_hidden * (8 + 2 * dtype.itemsize),
            f"an initial model with n_hidden={self.n_hidden:,}",
            memory.FEWER_UNITS,
        )
        A, W = (random_weights(self.init, self.scale, shape, dtype, rng) for shape in (first, last))
        return LinearMaxPlus(A, np.zeros(self.n_hidden, dtype), W), FitState()
