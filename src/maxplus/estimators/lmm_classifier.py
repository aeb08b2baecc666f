"""The Linear-Min-Max classifier."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxplus.certify.bounds import steepest
from maxplus.estimators._certificates import CertificatesMixin
from maxplus.estimators._classifier import Staged, TrainedClassifier
from maxplus.estimators._explanations import ExplanationsMixin
from maxplus.estimators._lmm_weights import LMMWeightsMixin
from maxplus.estimators._pruning import PruningMixin
from maxplus.estimators._validation import (
    check_bool,
    check_choice,
    check_integer,
    check_integer_or,
    check_real,
    check_samples,
)
from maxplus.models import LMM, Model
from maxplus.models.starts import (
    box_lmm,
    choose_prototypes,
    class_distance,
    median_distance,
    prototype_lmm,
    random_lmm,
)
from maxplus.training import Task
from maxplus.training.loop import Callback
from maxplus.training.objectives import count_samples
from maxplus.training.polish import polish
from maxplus.training.smooth import Annealing, smooth_train
from maxplus.training.state import POLISH, WARM_UP, TrainingState

# The paper's k on data whose typical distance is 1, such as MNIST scaled to [0, 1].
UNIT_SLOPE = 4.0
# Steeper than the paper's k: soft minima need units that end within a typical distance.
WARM_SLOPE = 15.0
# Units per class that "auto" stays within.
LEAST_UNITS, MOST_UNITS = 10, 50
# The warm-up's samples per batch, epochs, and what small data sets need at least.
BATCH, LEAST_BATCH = 200, 8
EPOCHS, LEAST_BATCHES = 10, 500


class LMMClassifier(
    CertificatesMixin, ExplanationsMixin, PruningMixin, LMMWeightsMixin, TrainedClassifier
):
    """Linear-Min-Max network whose worst training sample is under control.

    Each hidden unit is a soft box in feature space, each class score the margin
    of the best box: z_d(x) = max_h (min_i (W0[i]·x[i // 2] + W1[i, h]) + W2[h, d]).
    Training has three stages: a warm-up on the mean loss with soft minima and maxima,
    ``max_iter`` iterations of an engine on the maximum loss (none by default), and a polish
    that brings every training loss below log 2, which certifies that every
    training sample is classified right. `LMMClassifier.paper` is the paper's own recipe:
    the engine alone, from prototypes.

    Parameters
    ----------
    n_hidden : int or "auto"
        Hidden units H. Units start from different samples, so there are at most as many as
        samples. "auto" follows the data: for each class the square root of its
        samples' average number, but at least 10 and at most 50.
    slope : float or "auto"
        The paper's k for W0 and W1. "auto" is 15 / (median L∞ distance between
        training samples of different classes) with a warm-up, and 4 / (that of any
        two samples) without.
    confidence : float, optional
        The paper's k in W2; equal to the slope by default, and with boxes to the slope
        times the distance between classes.
    init : {"boxes", "prototypes", "gaussian", "uniform"}
        Boxes around clusters of each class; the paper's construction from random training
        samples; or i.i.d. weights.
    warmup : {"smooth"}, optional
        First train with soft minima and maxima on the mean loss, from
        hot to cold (`maxplus.training.smooth`). The model stays an ordinary LMM.
    warmup_epochs : int or "auto"
        Passes over the samples in the warm-up; "auto" is 10, and more where that would be
        fewer than 500 batches.
    batch_size : int or "auto"
        Samples per step of the warm-up; "auto" is 200, or an eighth of the
        samples if that is less (but at least 8).
    robust_eps : float
        Train so that predictions are certified for changes of each feature by up to this:
        in the warm-up all scores but the true one are raised by 2·robust_eps·slope, the most
        that such a change can do, before the loss is taken.
    augment : callable, optional
        Called with a batch's rows and a NumPy generator; the warm-up trains on the rows it
        returns instead, for example `maxplus.images.RandomShift`.
    early_stopping : bool
        Hold ``validation_fraction`` of the samples out of the warm-up, keep the epoch that does
        best on them, and end when ``n_iter_no_change`` epochs in a row were no better. The
        later stages use all samples.
    validation_fraction : float
    n_iter_no_change : int
    polish : "log2" or float, optional
        After everything else, bring every training loss below this level
        (`maxplus.training.polish`); "log2" is the paper's certificate. ``suspects_``
        lists the samples for which that did not succeed.
    max_suspects : int or float
        How many samples, or which part of them, the polish may leave above its level: those
        with the largest losses before it are not touched. For labels that may be wrong.
    objective : {"max", "mean", "top-k"}
        The loss that the engine minimises over the samples: the largest, the mean of all, or
        the mean of the k largest.
    top_k : int or float
        With "top-k", the number k of samples, or which part of them (rounded up).
    step : {"two-phase", "polyak", "constant", "level"}
        Polyak steps, constant steps, or the former and then the latter; "level" are Polyak
        steps whose target rises from ``polyak_target`` to the lowest loss seen, for data that
        cannot be fitted well (`maxplus.training.steps.level`).
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
        maximum and give the same iterates, to the last bit; "dense" and "sparse" do
        "top-k" likewise; "dense" can do the mean as well, "sgd" minimises it sample by
        sample. "auto" is "sgd" for the mean and "sparse" otherwise. The first training
        with "sparse" after an installation compiles it, which takes about 20 seconds.
    max_iter : int
        Iterations of the engine; 0 leaves them out, where there is a warm-up or a polish.
    keep : {"best", "last"}
        Keep the parameters with the lowest objective seen, or the last ones.
    warm_start : bool
        Start `fit` from the present parameters, without a warm-up.
    n_jobs : int, optional
        Threads; None and −1 are all. Iterations and polish do not depend on it; matrix
        products of the warm-up may, in their last digits.
    random_state : int, RandomState or None
    verbose : int
        1 shows a progress bar.
    callbacks : callable or list of callables, optional
        Called with a `maxplus.training.Progress` after each epoch of the warm-up, block of
        iterations (about five times a second) and round of the polish; returning
        True ends the training.

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
    warmup_losses_ : mean soft loss of each epoch of the warm-up
    validation_scores_ : accuracy after each epoch (early_stopping only)
    polish_losses_ : the maximum loss before each round of the polish and at its end
    unit_wins_ : how often each unit decides a class's score on the training samples, those of
        every `partial_fit` included
    history_ : mapping of arrays per iteration of the engine: "loss", "sample", "step"
    n_iter_ : epochs, iterations and rounds together
    status_, loss_curve_
    max_loss_, mean_loss_ : of the kept parameters on the training set
    certified_ : whether max_loss_ < log 2
    training_losses_, training_labels_ : of every training sample, NaN if its weight was 0
    model_ : the `maxplus.models.LMM` behind it

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxplus import LMMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = LMMClassifier(random_state=0).fit(X, y)
    >>> clf.certified_, clf.score(X, y)
    (True, 1.0)
    """

    _slopes = ("W0",)
    model_: LMM
    _model_class = LMM

    def __init__(
        self,
        n_hidden: int | str = "auto",
        *,
        slope: float | str = "auto",
        confidence: float | None = None,
        init: str = "boxes",
        warmup: str | None = "smooth",
        warmup_epochs: int | str = "auto",
        batch_size: int | str = "auto",
        robust_eps: float = 0.0,
        augment: Any = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        polish: float | str | None = "log2",
        max_suspects: int | float = 0,
        objective: str = "max",
        top_k: int | float = 0.1,
        step: str = "two-phase",
        polyak_target: float = 0.0,
        polyak_fraction: float = 0.5,
        learning_rate: float = 0.1,
        linear_every: int = 100,
        engine: str = "auto",
        max_iter: int = 0,
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
        self.batch_size = batch_size
        self.robust_eps = robust_eps
        self.augment = augment
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.polish = polish
        self.max_suspects = max_suspects
        self.objective = objective
        self.top_k = top_k
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

    @classmethod
    def paper(
        cls, n_hidden: int = 100, *, max_iter: int = 10_000, **parameters: Any
    ) -> LMMClassifier:
        """The paper's recipe: prototypes and ``max_iter`` steps on the worst sample, nothing else.

        Other ``parameters`` are the constructor's.
        """
        recipe = {"init": "prototypes", "warmup": None, "polish": None} | parameters
        return cls(n_hidden, max_iter=max_iter, **recipe)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_integer_or("n_hidden", self.n_hidden, 1, "auto")
        if isinstance(self.slope, str):
            check_choice("slope", self.slope, ("auto",))
        else:
            check_real("slope", self.slope, above=0.0)
        if self.confidence is not None:
            check_real("confidence", self.confidence, above=0.0)
        check_choice("init", self.init, ("boxes", "prototypes", "gaussian", "uniform"))
        if self.warmup is not None:
            check_choice("warmup", self.warmup, ("smooth",))
        check_integer_or("warmup_epochs", self.warmup_epochs, 1, "auto")
        check_integer_or("batch_size", self.batch_size, 1, "auto")
        check_real("robust_eps", self.robust_eps, minimum=0.0)
        if self.augment is not None and not callable(self.augment):
            raise TypeError(f"augment must be None or a callable; got {self.augment!r}")
        check_bool("early_stopping", self.early_stopping)
        check_real("validation_fraction", self.validation_fraction, above=0.0, maximum=0.9)
        check_integer("n_iter_no_change", self.n_iter_no_change, 1)
        if isinstance(self.polish, str):
            check_choice("polish", self.polish, ("log2",))
        elif self.polish is not None:
            check_real("polish", self.polish, above=0.0)
        check_samples("max_suspects", self.max_suspects, 0)
        check_integer("linear_every", self.linear_every, 0)
        self._refuse_useless_options()

    def _refuse_useless_options(self) -> None:
        """An option that would silently do nothing is a mistake."""
        stages = (
            (self.warmup is None, "the warm-up, but warmup is None; set warmup='smooth'", {
                "robust_eps": 0.0, "augment": None, "early_stopping": False,
                "warmup_epochs": "auto", "batch_size": "auto",
            }),
            (self.max_iter == 0, "an engine's iterations, but max_iter is 0; set max_iter", {
                "objective": "max", "step": "two-phase", "engine": "auto",
            }),
            (self.polish is None, "the polish, but polish is None; set polish='log2'", {
                "max_suspects": 0,
            }),
        )  # fmt: skip
        for is_left_out, why, defaults in stages:
            for name, default in defaults.items():
                value = getattr(self, name)
                if is_left_out and value != default:
                    raise ValueError(f"{name}={value!r} is for {why}")

    def _check_resumable(self) -> None:
        if not self.max_iter and self.polish is None:
            raise ValueError(
                "training on from the present parameters would do nothing: max_iter is 0 and "
                "polish is None; set one of them"
            )

    def _forget(self) -> None:
        for name in ("prototypes", "suspects", "validation_scores", "unit_wins"):
            self.__dict__.pop(f"{name}_", None)
        self.warmup_losses_ = self.polish_losses_ = np.empty(0)

    def _automatic_engine(self) -> str:
        return "sparse"

    def _initial_model(
        self, X: NDArray, y: NDArray, n_classes: int, index: NDArray, rng: np.random.Generator
    ) -> LMM:
        slope = self._choose_slope(X, y, rng)
        confidence = slope if self.confidence is None else float(self.confidence)
        n_hidden = self._choose_n_hidden(len(y), n_classes)
        self.slope_ = slope
        if self.init == "boxes":
            drop = slope * class_distance(X, y, rng) if self.confidence is None else confidence
            return box_lmm(X, y, n_hidden, n_classes, slope, drop, rng)
        if self.init == "prototypes":
            chosen = choose_prototypes(y, n_hidden, rng)
            self.prototypes_ = index[chosen]
            return prototype_lmm(X[chosen], y[chosen], n_classes, slope, confidence)
        shape = (X.shape[1], n_hidden, n_classes)
        return random_lmm(self.init, shape, slope, confidence, X.dtype, rng)

    def _choose_n_hidden(self, n_samples: int, n_classes: int) -> int:
        if not isinstance(self.n_hidden, str):
            return int(self.n_hidden)
        per_class = round(math.sqrt(n_samples / n_classes))
        return n_classes * min(max(per_class, LEAST_UNITS), MOST_UNITS)

    def _least_iterations(self) -> int:
        return 1 if self.warmup is None and self.polish is None else 0

    def _warm_up(
        self, model: Model, task: Task, callbacks: list[Callback], state: TrainingState | None
    ) -> Staged | None:
        if self.warmup is None:
            return None
        assert isinstance(model, LMM)
        assert task.rng is not None
        # These draws come from a generator of their own, because a resumed training repeats them.
        own = np.random.default_rng(len(task.y))
        size = self.slope_ * class_distance(task.X, task.y, own)
        kept, held = self._split(task.y, own)
        annealing = self._annealing(size, kept.size)
        weight = None if task.weight is None else task.weight[kept]
        result = smooth_train(
            model, task.X[kept], task.y[kept], annealing, task.rng, weight=weight,
            validation=(task.X[held], task.y[held]) if held.size else None,
            margin=2.0 * self.robust_eps * steepest(model), augment=self.augment,
            callbacks=callbacks, state=state, is_last=not self.max_iter,
        )  # fmt: skip
        self.warmup_losses_ = result.losses
        if held.size:
            self.validation_scores_ = result.validation
        return Staged(result.model, result.losses.size, result.status, WARM_UP)

    def _split(self, y: NDArray, rng: np.random.Generator) -> tuple[NDArray, NDArray]:
        """Samples to warm up with, and those held out; each class is held out in proportion."""
        everyone = np.arange(len(y))
        if not self.early_stopping:
            return everyone, everyone[:0]
        held = [
            rng.permutation(own)[: int(self.validation_fraction * own.size)]
            for own in (np.flatnonzero(y == d) for d in np.unique(y))
        ]
        out = np.sort(np.concatenate(held))
        if not out.size:
            raise ValueError(
                f"validation_fraction={self.validation_fraction} of {len(y)} samples holds none "
                "out; give more samples, a larger fraction or early_stopping=False"
            )
        return np.setdiff1d(everyone, out), out

    def _annealing(self, size: float, n_samples: int) -> Annealing:
        batch, epochs = self.batch_size, self.warmup_epochs
        if isinstance(batch, str):
            batch = min(BATCH, max(LEAST_BATCH, n_samples // 8))
        if isinstance(epochs, str):
            epochs = max(EPOCHS, math.ceil(LEAST_BATCHES / max(1, n_samples // batch)))
        patience = self.n_iter_no_change if self.early_stopping else None
        return Annealing(size, epochs, batch, patience=patience)

    def _polish(
        self, model: Model, task: Task, index: NDArray, callbacks: list[Callback]
    ) -> Staged | None:
        if self.polish is None:
            return None
        assert isinstance(model, LMM)
        assert task.rng is not None
        level = math.log(2.0) if isinstance(self.polish, str) else float(self.polish)
        skip = count_samples(self.max_suspects, len(task.y))
        polished = polish(
            model, task.X, task.y, task.rng, level=level, skip=skip, callbacks=callbacks
        )
        self.suspects_ = index[polished.above]
        self.polish_losses_ = polished.course
        return Staged(polished.model, polished.rounds, polished.status, POLISH)

    def _note_training(self, X: NDArray, go_on: bool) -> None:
        wins = self.model_.wins(X)
        # Samples of earlier calls are gone; units that they needed then should stay.
        self.unit_wins_ = wins + self.unit_wins_ if go_on and hasattr(self, "unit_wins_") else wins

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
