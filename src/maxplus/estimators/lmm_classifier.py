"""The Linear-Min-Max classifier."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxplus.estimators._certificates import CertificatesMixin
from maxplus.estimators._classifier import TrainedClassifier
from maxplus.estimators._explanations import ExplanationsMixin
from maxplus.estimators._lmm_weights import LMMWeightsMixin
from maxplus.estimators._validation import check_choice, check_integer, check_real
from maxplus.models import LMM, Model
from maxplus.models.boxes import box_lmm
from maxplus.models.initialisation import (
    choose_prototypes,
    class_distance,
    median_distance,
    prototype_lmm,
    random_lmm,
)
from maxplus.training.polish import polish
from maxplus.training.smooth import Annealing, smooth_train

# The paper's k on data whose typical distance is 1, such as MNIST scaled to [0, 1].
UNIT_SLOPE = 4.0
# Steeper than the paper's k: soft minima need units that end within a typical distance.
WARM_SLOPE = 15.0


class LMMClassifier(CertificatesMixin, ExplanationsMixin, LMMWeightsMixin, TrainedClassifier):
    """Linear-Min-Max network trained on the worst sample.

    Each hidden unit is a soft box in feature space, each class score the margin
    of the best box: z_d(x) = max_h (min_i (W0[i]·x[i // 2] + W1[i, h]) + W2[h, d]).
    By default the maximum loss over all training samples is minimised; below
    log 2 it certifies that every training sample is classified right.

    Parameters
    ----------
    n_hidden : int
        Hidden units H. Prototypes are different samples, so there are at most
        as many as samples.
    slope : float or "auto"
        The paper's k for W0 and W1. "auto" is 4 / (median L∞ distance between
        random pairs of training samples), and 15 / (that of samples of different
        classes) with a warm-up.
    confidence : float, optional
        The paper's k in W2; equal to the slope by default.
    init : {"prototypes", "boxes", "gaussian", "uniform"}
        The paper's construction from random training samples; boxes around clusters of
        each class; or i.i.d. weights.
    warmup : {"smooth"}, optional
        Before anything else, train with soft minima and maxima on the mean loss, from
        hot to cold (`maxplus.training.smooth`). The model stays an ordinary LMM.
    warmup_epochs : int
        Passes over the samples in the warm-up.
    polish : "log2" or float, optional
        After everything else, bring every training loss below this level
        (`maxplus.training.polish`); "log2" is the paper's certificate. ``suspects_``
        lists the samples for which that did not succeed.
    objective : {"max", "mean"}
        The loss to minimise over the samples.
    step : {"two-phase", "polyak", "constant"}
        Polyak steps, constant steps, or the former and then the latter.
    polyak_target : float
        The objective value that Polyak's step aims at; reaching it ends training.
    polyak_fraction : float
        Share of the iterations with Polyak steps in "two-phase".
    learning_rate : float
        The paper's ε: the constant step is ε / (2·√(2·n_classes)).
    linear_every : int
        W0 moves at iterations t = 0, 1, … with (t + 1) % linear_every == 0;
        1 is always, 0 is never.
    engine : {"auto", "dense", "tree", "sparse", "sgd"}
        How iterations are carried out. "dense", "tree" and "sparse" minimise the
        maximum and give the same iterates, to the last bit; "dense" can do the
        mean as well, "sgd" minimises it sample by sample. "auto" is "sparse" for
        the maximum and "sgd" for the mean. The first training with "sparse" after
        an installation compiles it, which takes about 20 seconds.
    max_iter : int
        Iterations of the engine; with a warm-up or a polish, 0 leaves them out.
    keep : {"best", "last"}
        Keep the parameters with the lowest objective seen, or the last ones.
    warm_start : bool
        Start `fit` from the present parameters.
    n_jobs : int, optional
        Threads; None and −1 are all. The result does not depend on it.
    random_state : int, RandomState or None
    verbose : int
        1 shows a progress bar.
    callbacks : callable or list of callables, optional
        Called with a `maxplus.training.Progress` after each block of iterations
        (about five times a second); returning True ends the training.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_
    W0_ : array of shape (2P,), the two slopes of each feature, + then −
    W1_ : array of shape (2P, H)
    W2_ : array of shape (H, C)
    n_hidden_ : int
    slope_ : float
    suspects_ : training samples that the polish could not bring below its level
    prototypes_ : indices into the training set (init="prototypes" only)
    history_ : mapping of arrays per iteration: "loss", "sample", "step"
    n_iter_, status_, loss_curve_
    max_loss_, mean_loss_ : of the kept parameters on the training set
    certified_ : whether max_loss_ < log 2
    training_losses_, training_labels_ : of every training sample, NaN if its weight was 0
    model_ : the `maxplus.models.LMM` behind it

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxplus import LMMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = LMMClassifier(n_hidden=20, max_iter=2000, random_state=0).fit(X, y)
    >>> clf.score(X, y) > 0.9
    True
    """

    _slopes = ("W0",)
    model_: LMM
    _model_class = LMM

    def __init__(
        self,
        n_hidden: int = 100,
        *,
        slope: float | str = "auto",
        confidence: float | None = None,
        init: str = "prototypes",
        warmup: str | None = None,
        warmup_epochs: int = 10,
        polish: float | str | None = None,
        objective: str = "max",
        step: str = "two-phase",
        polyak_target: float = 0.0,
        polyak_fraction: float = 0.5,
        learning_rate: float = 0.1,
        linear_every: int = 100,
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
        self.confidence = confidence
        self.init = init
        self.warmup = warmup
        self.warmup_epochs = warmup_epochs
        self.polish = polish
        self.objective = objective
        self.step = step
        self.polyak_target = polyak_target
        self.polyak_fraction = polyak_fraction
        self.learning_rate = learning_rate
        self.linear_every = linear_every
        self.engine = engine
        self.max_iter = max_iter
        self.keep = keep
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_integer("n_hidden", self.n_hidden, 1)
        if isinstance(self.slope, str):
            check_choice("slope", self.slope, ("auto",))
        else:
            check_real("slope", self.slope, above=0.0)
        if self.confidence is not None:
            check_real("confidence", self.confidence, above=0.0)
        check_choice("init", self.init, ("prototypes", "boxes", "gaussian", "uniform"))
        if self.warmup is not None:
            check_choice("warmup", self.warmup, ("smooth",))
        check_integer("warmup_epochs", self.warmup_epochs, 1)
        if isinstance(self.polish, str):
            check_choice("polish", self.polish, ("log2",))
        elif self.polish is not None:
            check_real("polish", self.polish, above=0.0)
        check_integer("linear_every", self.linear_every, 0)

    def _automatic_engine(self) -> str:
        return "sparse"

    def _initial_model(
        self, X: NDArray, y: NDArray, n_classes: int, index: NDArray, rng: np.random.Generator
    ) -> LMM:
        slope = self._choose_slope(X, y, rng)
        confidence = slope if self.confidence is None else float(self.confidence)
        self.slope_ = slope
        self.__dict__.pop("prototypes_", None)
        if self.init == "boxes":
            drop = slope * class_distance(X, y, rng) if self.confidence is None else confidence
            return box_lmm(X, y, self.n_hidden, n_classes, slope, drop, rng)
        if self.init == "prototypes":
            chosen = choose_prototypes(y, self.n_hidden, rng)
            self.prototypes_ = index[chosen]
            return prototype_lmm(X[chosen], y[chosen], n_classes, slope, confidence)
        shape = (X.shape[1], self.n_hidden, n_classes)
        return random_lmm(self.init, shape, slope, confidence, X.dtype, rng)

    def _least_iterations(self) -> int:
        return 1 if self.warmup is None and self.polish is None else 0

    def _warm_up(self, model: Model, X: NDArray, y: NDArray, rng: np.random.Generator) -> Model:
        if self.warmup is None:
            return model
        assert isinstance(model, LMM)
        size = self.slope_ * class_distance(X, y, rng)
        return smooth_train(model, X, y, Annealing(size, self.warmup_epochs), rng).model

    def _polish(
        self, model: Model, X: NDArray, y: NDArray, index: NDArray, rng: np.random.Generator
    ) -> Model:
        self.__dict__.pop("suspects_", None)
        if self.polish is None:
            return model
        assert isinstance(model, LMM)
        level = math.log(2.0) if isinstance(self.polish, str) else float(self.polish)
        polished = polish(model, X, y, rng, level=level)
        self.suspects_ = index[polished.above]
        return polished.model

    def _choose_slope(self, X: NDArray, y: NDArray, rng: np.random.Generator) -> float:
        if self.slope != "auto":
            slope = float(self.slope)
        elif self.warmup is None:
            slope = UNIT_SLOPE / median_distance(X, rng)
        else:
            slope = WARM_SLOPE / class_distance(X, y, rng)
        reach = max(1.0, slope) * max(1.0, float(np.abs(X).max()))
        if not reach < 1e-4 * np.finfo(X.dtype).max:
            raise ValueError(
                f"X reaches {np.abs(X).max():g}, which times slope {slope:g} does not fit into "
                f"{X.dtype}; scale the features (for example with StandardScaler) or set slope"
            )
        return slope
