"""The zero-hidden-layer max-plus classifier."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from maxplus.estimators._data import LabelledData
from maxplus.estimators._effects import Effect
from maxplus.estimators._parameters import Parameters, one_of, real
from maxplus.estimators._subgradient import EFFECTS, SUBGRADIENT, SubgradientClassifier
from maxplus.estimators._trained import Start
from maxplus.models import ZeroHidden
from maxplus.models.initialization import gaussian, glorot_uniform, uniform
from maxplus.training import TrainingMonitor


class MaxPlusClassifier(SubgradientClassifier):
    """One max-plus layer and softmax: z_d(x) = max_p (x_p + W[d, p]).

    The paper's baseline. Its scores can only compare features with constants,
    so its loss soon stays where it is; `LMMClassifier` goes further. What a parameter means is said
    in `SubgradientLMMClassifier`, where it is not said here.

    Parameters
    ----------
    init : {"glorot", "gaussian", "uniform"}, default="glorot"
        Glorot uniform, N(0, scale²) or U(−scale, scale).
    scale : float, default=1.0
        Spread of the latter two.
    objective : {"max", "mean"}, default="max"
        The loss that is minimised: the largest, or the mean of all.
    step : {"two-phase", "polyak", "constant", "level"}, default="two-phase"
    polyak_target : float, default=0.0
    polyak_fraction : float, default=0.5
    learning_rate : float, default=0.1
    engine : {"auto", "dense", "sgd"}, default="auto"
        "sgd" is for the mean.
    max_iter : int, default=10000
    keep : {"best", "last"}, default="best"
    warm_start : bool, default=False
    n_jobs : int, optional
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
    callbacks : callable or list of callables, optional

    Attributes
    ----------
    W_ : array of shape (C, P)
    classes_, history_, n_iter_, status_, status_message_, loss_curve_, max_loss_, mean_loss_, \
perfect_fit_, model_
        As in `SubgradientLMMClassifier`.

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
    _beginning = ("init", "scale")
    _effects = (
        *EFFECTS,
        Effect(("scale",), lambda own: own.init != "glorot", "init is 'gaussian' or 'uniform'"),
    )
    _parameters: ClassVar[Parameters] = {
        **SUBGRADIENT,
        "init": (one_of("glorot", "gaussian", "uniform"),),
        "scale": (real(above=0.0),),
    }

    def __init__(
        self,
        *,
        init: str = "glorot",
        scale: float = 1.0,
        objective: str = "max",
        step: str = "two-phase",
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

    def _start(
        self, data: LabelledData, rng: np.random.Generator, monitor: TrainingMonitor
    ) -> Start:
        shape = (data.n_classes, data.X.shape[1])
        if self.init == "glorot":
            W = glorot_uniform(*shape, rng)
        else:
            W = {"gaussian": gaussian, "uniform": uniform}[self.init](shape, self.scale, rng)
        return Start(ZeroHidden(W.astype(data.X.dtype)), {})

    def __sklearn_tags__(self) -> Any:
        """Say that the model is weak by design."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags
