"""The paper's classifier: an LMM trained by sparse subgradient steps."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from maxplus.distributed import current
from maxplus.estimators._data import LabelledData
from maxplus.estimators._effects import Effect
from maxplus.estimators._lmm import BaseLMMClassifier
from maxplus.estimators._lmm_start import PROTOTYPES, SLOPE, WINS, check_reach
from maxplus.estimators._parameters import NOTHING, Parameters, one_of, real, samples, whole
from maxplus.estimators._subgradient import EFFECTS, SUBGRADIENT, SubgradientClassifier
from maxplus.estimators._trained import Start
from maxplus.models import LMM
from maxplus.models.initialization import (
    choose_prototypes,
    median_distance,
    prototype_lmm,
    pyramids_bytes,
    random_lmm,
    random_lmm_bytes,
)
from maxplus.training import Objective, TopKLoss, TrainingMonitor, memory
from maxplus.training.engines import Engine, SparseEngine, select_engine
from maxplus.training.result import StateError, TrainingState

# The paper's k on data whose typical distance is 1, such as MNIST scaled to [0, 1].
UNIT_SLOPE = 4.0


class SubgradientLMMClassifier(BaseLMMClassifier, SubgradientClassifier):
    """The paper's algorithm: an LMM trained on its worst sample, a few weights at a time.

    Each hidden unit is a soft box in feature space, each class score the margin
    of the best box: z_d(x) = max_h (min_i (W0[i]·x[i // 2] + W1[i, h]) + W2[h, d]).
    Training starts from pyramids at random samples. Every iteration takes a step along a
    subgradient of the largest loss, which moves the weights on the active paths of the
    worst sample only: at most one per class and layer. Polyak steps come first, constant ones
    after. A largest loss below log 2 proves that every training sample is classified right.

    Parameters
    ----------
    n_hidden : int, default=100
        Hidden units H. Units start from different samples, so there are at most as many as
        samples.
    slope : float or "auto", default="auto"
        The paper's k for W0 and W1. "auto" is 4 / (median L∞ distance of two samples).
    init_margin : float, optional
        The paper's k in W2; equal to the slope by default.
    init : {"prototypes", "gaussian", "uniform"}, default="prototypes"
        The paper's construction from random training samples, or i.i.d. weights.
    objective : {"max", "mean", "top-k"}, default="max"
        The loss that is minimised over the samples: the largest, the mean of all, or
        the mean of the k largest.
    top_k : int or float, default=0.1
        With "top-k", the number k of samples, or which part of them (rounded up).
    step : {"two-phase", "polyak", "constant", "level"}, default="two-phase"
        Polyak steps, constant steps, or the former and then the latter; "level" are Polyak
        steps whose target rises from ``polyak_target`` to the lowest loss seen, for data that
        cannot be fitted well (`maxplus.training.level`).
    polyak_target : float, default=0.0
        The objective value that Polyak's step aims at; reaching it ends training.
    polyak_fraction : float, default=0.5
        Share of the iterations with Polyak steps in "two-phase".
    learning_rate : float, default=0.1
        The paper's ε: the constant step is ε / (2·√(2·n_classes)).
    w0_update_interval : int, default=100
        W0 moves at iterations t = 0, 1, … with (t + 1) % w0_update_interval == 0;
        1 is always, 0 is never.
    engine : {"auto", "dense", "tree", "sparse", "sgd"}, default="auto"
        How iterations are carried out. "dense", "tree" and "sparse" minimise the
        maximum and give the same iterates, to the last bit; "dense" and "sparse" do
        "top-k" likewise; "dense" can do the mean as well, "sgd" minimises it sample by
        sample. "auto" is "sgd" for the mean, "dense" for trainings of about two seconds or
        less, and "sparse" otherwise; it takes the place of an engine that cannot do the
        ``objective``, with a warning. The first training with "sparse" after an installation
        compiles it; ``maxplus compile`` does that beforehand.
    max_iter : int, default=10000
        Iterations.
    keep : {"best", "last"}, default="best"
        Keep the parameters with the lowest objective seen, or the last ones.
    warm_start : bool, default=False
        Start `fit` from the present parameters. ``n_hidden``, ``slope``, ``init_margin`` and
        ``init`` say where a training from scratch begins: changed after that they have no effect
        until one begins anew, which a warning tells.
    n_jobs : int, optional
        Threads; None and −1 are all. Iterates do not depend on it.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
        1 shows a progress bar.
    callbacks : callable or list of callables, optional
        Called with a `maxplus.training.Progress` after each block of iterations (about five
        times a second); returning True ends the training.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_
    W0_ : array of shape (2P,), the two slopes of each feature, + then −
    W1_ : array of shape (2P, H)
    W2_ : array of shape (H, C)
    n_hidden_ : int
    slope_ : the slope that training started with, per unit of ``scale_``
    scale_ : array of shape (P,), ones unless a scaling was folded in (`fold`)
    prototypes_ : indices into the training set (init="prototypes" only)
    unit_activation_counts_ : how often each unit decides a class's score on the training samples,
        those of every `partial_fit` included
    feature_importances_ : array of shape (P,), how often and how much each feature decides on the
        training samples, as shares (`maxplus.explain.feature_importances`)
    history_ : mapping of arrays per iteration: "loss", "sample", "step"
    n_iter_ : iterations
    status_, status_message_ : why training ended, as a code (`maxplus.training.Status`) and as a
        sentence
    loss_curve_ : the objective before each step; with sgd, the drawn sample's loss
    max_loss_, mean_loss_ : of the kept parameters on the training set
    perfect_fit_ : whether max_loss_ < log 2
    training_losses_, training_labels_ : of every training sample, NaN if its weight was 0
    model_ : the `maxplus.models.LMM` behind it

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
    _beginning = ("n_hidden", "slope", "init_margin", "init")
    _effects = (
        *EFFECTS,
        Effect(("top_k",), lambda own: own.objective == "top-k", "objective is 'top-k'"),
    )
    _parameters: ClassVar[Parameters] = {
        **SUBGRADIENT,
        "n_hidden": (whole(1),),
        "slope": (real(above=0.0), one_of("auto")),
        "init_margin": (real(above=0.0), NOTHING),
        "init": (one_of("prototypes", "gaussian", "uniform"),),
        "objective": (one_of("max", "mean", "top-k"),),
        "top_k": (samples(1),),
        "w0_update_interval": (whole(0),),
    }

    def __init__(
        self,
        n_hidden: int = 100,
        *,
        slope: float | str = "auto",
        init_margin: float | None = None,
        init: str = "prototypes",
        objective: str = "max",
        top_k: int | float = 0.1,
        step: str = "two-phase",
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

    def _objectives(self) -> dict[str, Objective]:
        return super()._objectives() | {"top-k": TopKLoss(self.top_k)}

    def _engine_for(self, data: LabelledData) -> type[Engine]:
        engine = super()._engine_for(data)
        if self.engine != "auto" or engine is not SparseEngine or not current().is_alone:
            return engine
        n_sums = 2 * data.X.size * self.n_hidden
        return select_engine(n_sums, self.max_iter)

    def _start(
        self, data: LabelledData, rng: np.random.Generator, monitor: TrainingMonitor
    ) -> Start:
        return data.on_first(lambda everybody: self._found(everybody, rng), rng)

    def _found(self, data: LabelledData, rng: np.random.Generator) -> Start:
        """The start, from the samples of all ranks."""
        X, y, n_classes = data.X, data.y, data.n_classes
        slope = self.slope
        slope = UNIT_SLOPE / median_distance(X, rng) if isinstance(slope, str) else float(slope)
        check_reach(X, slope)
        init_margin = slope if self.init_margin is None else float(self.init_margin)
        facts = {SLOPE: np.array([slope])}
        self._require_memory(X, n_classes)
        if self.init == "prototypes":
            chosen = choose_prototypes(y, self.n_hidden, rng)
            facts[PROTOTYPES] = data.index[chosen]
            return Start(prototype_lmm(X[chosen], y[chosen], n_classes, slope, init_margin), facts)
        shape = (X.shape[1], int(self.n_hidden), n_classes)
        return Start(random_lmm(self.init, shape, slope, init_margin, X.dtype, rng), facts)

    def _require_memory(self, X: NDArray, n_classes: int) -> None:
        """Refuse a start that memory does not hold."""
        (N, P), H = X.shape, int(self.n_hidden)
        needed = random_lmm_bytes((P, H, n_classes), X.dtype)
        if self.init == "prototypes":
            needed = pyramids_bytes(min(H, N), P, n_classes, X.dtype)
        memory.require(needed, f"a start with n_hidden={H:,}", memory.FEWER_UNITS)

    def _lasting_facts(self) -> dict[str, NDArray]:
        return {SLOPE: np.array([self.slope_])}

    def _counted_facts(self) -> dict[str, NDArray]:
        own = {name: getattr(self, f"{name}_", None) for name in (PROTOTYPES, WINS)}
        known = {name: fact for name, fact in own.items() if fact is not None}
        return super()._counted_facts() | known

    def _check_facts(self, state: TrainingState, data: LabelledData) -> None:
        super()._check_facts(state, data)
        if self.init == "prototypes" and not self.warm_start and PROTOTYPES not in state.before:
            raise StateError("its prototypes are missing")
