"""The Linear Max-Plus classifier."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from maxplus.estimators._data import LabelledData
from maxplus.estimators._effects import Effect
from maxplus.estimators._parameters import Parameters, one_of, real, whole
from maxplus.estimators._subgradient import EFFECTS, SUBGRADIENT, SubgradientClassifier
from maxplus.estimators._trained import Start
from maxplus.models import LinearMaxPlus
from maxplus.models.initialization import gaussian, glorot_uniform, uniform
from maxplus.training import TrainingMonitor, memory


class LinearMaxPlusClassifier(SubgradientClassifier):
    """A linear layer with ReLU, a max-plus layer and softmax.

    a(x) = max(0, xA + b), z_d(x) = max_h (a_h(x) + W[h, d]): the model on which
    the paper measures how sparse subgradients are. By default it minimises the mean loss with
    constant steps: from random weights the maximum loss hardly leaves log C. Scale the features
    first; with all of one sign, ReLU hardly divides them. What a parameter means is said in
    `SubgradientLMMClassifier`, where it is not said here.

    Parameters
    ----------
    n_hidden : int, default=100
        Hidden units H.
    init : {"glorot", "gaussian", "uniform"}, default="glorot"
        Glorot uniform, N(0, scale²) or U(−scale, scale); b starts at 0.
    scale : float, default=1.0
        Spread of the latter two.
    objective : {"max", "mean"}, default="mean"
        The loss that is minimised: the largest, or the mean of all.
    step : {"two-phase", "polyak", "constant", "level"}, default="constant"
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
    A_ : array of shape (P, H)
    b_ : array of shape (H,)
    W_ : array of shape (H, C)
    classes_, history_, n_iter_, status_, status_message_, loss_curve_, max_loss_, mean_loss_, \
perfect_fit_, model_
        As in `SubgradientLMMClassifier`.

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

    _slopes = ("A",)
    model_: LinearMaxPlus
    _model_class = LinearMaxPlus
    _beginning = ("n_hidden", "init", "scale")
    _effects = (
        *EFFECTS,
        Effect(("scale",), lambda own: own.init != "glorot", "init is 'gaussian' or 'uniform'"),
    )
    _parameters: ClassVar[Parameters] = {
        **SUBGRADIENT,
        "n_hidden": (whole(1),),
        "init": (one_of("glorot", "gaussian", "uniform"),),
        "scale": (real(above=0.0),),
    }

    def __init__(
        self,
        n_hidden: int = 100,
        *,
        init: str = "glorot",
        scale: float = 1.0,
        objective: str = "mean",
        step: str = "constant",
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

    def _start(
        self, data: LabelledData, rng: np.random.Generator, monitor: TrainingMonitor
    ) -> Start:
        dtype = data.X.dtype
        first, last = (data.X.shape[1], self.n_hidden), (self.n_hidden, data.n_classes)
        # Weights are drawn in float64, and there is a copy of the best ones.
        memory.require(
            (first[0] + last[1]) * self.n_hidden * (8 + 2 * dtype.itemsize),
            f"a start with n_hidden={self.n_hidden:,}", memory.FEWER_UNITS,
        )  # fmt: skip
        if self.init == "glorot":
            A, W = glorot_uniform(*first, rng), glorot_uniform(*last, rng)
        else:
            draw = {"gaussian": gaussian, "uniform": uniform}[self.init]
            A, W = draw(first, self.scale, rng), draw(last, self.scale, rng)
        b = np.zeros(self.n_hidden, dtype)
        return Start(LinearMaxPlus(A.astype(dtype), b, W.astype(dtype)), {})
