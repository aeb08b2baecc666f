"""The Linear-Min-Max classifier."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from maxplus.estimators._data import LabelledData
from maxplus.estimators._lmm import BaseLMMClassifier
from maxplus.estimators._lmm_start import DISTANCE, SLOPE, check_reach
from maxplus.estimators._parameters import (
    CALLABLE,
    NOTHING,
    TRAINED,
    TRUTH,
    Parameters,
    one_of,
    real,
    samples,
    whole,
)
from maxplus.estimators._trained import Start
from maxplus.models import LOG2
from maxplus.models.starts import box_lmm, class_distance
from maxplus.training.objectives import count_samples
from maxplus.training.stages import Annealing, Polish, Stage, Trained, WarmUp

# Steeper than the paper's k: soft minima need units that end within a typical distance.
CLASS_SLOPE = 15.0
# Units per class that "auto" stays within.
LEAST_UNITS, MOST_UNITS = 10, 50
# The warm-up's samples per batch, epochs, and what small data sets need at least.
BATCH, LEAST_BATCH = 200, 8
EPOCHS, LEAST_BATCHES = 10, 500


class LMMClassifier(BaseLMMClassifier):
    """Linear-Min-Max network whose worst training sample is under control.

    Each hidden unit is a soft box in feature space, each class score the margin
    of the best box: z_d(x) = max_h (min_i (W0[i]·x[i // 2] + W1[i, h]) + W2[h, d]).
    Training starts from boxes around clusters of each class and has two stages: a warm-up on
    the mean loss with soft minima and maxima, and a polish that brings every training loss
    below log 2, which certifies that every training sample is classified right.
    `SubgradientLMMClassifier` is the paper's own algorithm.

    Parameters
    ----------
    n_hidden : int or "auto", default="auto"
        Hidden units H. Units start from different samples, so there are at most as many as
        samples. "auto" follows the data: for each class the square root of its
        samples' average number, but at least 10 and at most 50.
    slope : float or "auto", default="auto"
        The paper's k for W0 and W1. "auto" is 15 / (median L∞ distance between
        training samples of different classes).
    confidence : float, optional
        How far below its own class a unit starts for the others; the slope times the distance
        between classes by default.
    warmup_epochs : int or "auto", default="auto"
        Passes over the samples in the warm-up; "auto" is 10, and more where that would be
        fewer than 500 batches.
    batch_size : int or "auto", default="auto"
        Samples per step of the warm-up; "auto" is 200, or an eighth of the
        samples if that is less (but at least 8).
    robust_eps : float, default=0.0
        Train so that predictions are certified for changes of each feature by up to this:
        in the warm-up all scores but the true one are raised by 2·robust_eps·slope, the most
        that such a change can do, before the loss is taken.
    augment : callable, optional
        Called with a batch's rows and a NumPy generator; the warm-up trains on the rows it
        returns instead, for example `maxplus.images.RandomShift`.
    early_stopping : bool, default=False
        Hold ``validation_fraction`` of the samples out of the warm-up, keep the epoch that does
        best on them, and end when ``n_iter_no_change`` epochs in a row were no better. The
        polish uses all samples.
    validation_fraction : float, default=0.1
    n_iter_no_change : int, default=5
    polish : "log2", float or None, default="log2"
        After the warm-up, bring every training loss below this level
        (`maxplus.training.stages.Polish`); "log2" is the paper's certificate, None leaves it
        out. ``suspects_`` lists the samples for which that did not succeed.
    max_suspects : int or float, default=0
        How many samples, or which part of them, the polish may leave above its level: those
        with the largest losses before it are not touched. For labels that may be wrong.
    n_jobs : int, optional
        Threads; None and −1 are all. The polish does not depend on it; matrix
        products of the warm-up may, in their last digits.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
        1 shows a progress bar.
    callbacks : callable or list of callables, optional
        Called with a `maxplus.training.Progress` after each epoch of the warm-up and round of
        the polish; returning True ends the training.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_
    W0_ : array of shape (2P,), the two slopes of each feature, + then −
    W1_ : array of shape (2P, H)
    W2_ : array of shape (H, C)
    n_hidden_ : int
    slope_ : per unit of ``scale_``
    scale_ : array of shape (P,), ones unless a scaling was folded in (`fold`)
    suspects_ : training samples that the polish could not bring below its level
    warmup_losses_, loss_curve_ : mean soft loss of each epoch of the warm-up
    validation_scores_ : accuracy after each epoch (early_stopping only)
    polish_losses_ : the maximum loss before each round of the polish and at its end
    unit_wins_ : how often each unit decides a class's score on the training samples
    n_iter_ : epochs and rounds together
    status_ : how training ended
    max_loss_, mean_loss_ : on the training set
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

    warmup_losses_: NDArray
    polish_losses_: NDArray
    _parameters: ClassVar[Parameters] = {
        **TRAINED,
        "n_hidden": (whole(1), one_of("auto")),
        "slope": (real(above=0.0), one_of("auto")),
        "confidence": (real(above=0.0), NOTHING),
        "warmup_epochs": (whole(1), one_of("auto")),
        "batch_size": (whole(1), one_of("auto")),
        "robust_eps": (real(minimum=0.0),),
        "augment": (CALLABLE, NOTHING),
        "early_stopping": (TRUTH,),
        "validation_fraction": (real(above=0.0, maximum=0.9),),
        "n_iter_no_change": (whole(1),),
        "polish": (real(above=0.0), one_of("log2"), NOTHING),
        "max_suspects": (samples(0),),
    }

    def __init__(
        self,
        n_hidden: int | str = "auto",
        *,
        slope: float | str = "auto",
        confidence: float | None = None,
        warmup_epochs: int | str = "auto",
        batch_size: int | str = "auto",
        robust_eps: float = 0.0,
        augment: Any = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        polish: float | str | None = "log2",
        max_suspects: int | float = 0,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        self.n_hidden = n_hidden
        self.slope = slope
        self.confidence = confidence
        self.warmup_epochs = warmup_epochs
        self.batch_size = batch_size
        self.robust_eps = robust_eps
        self.augment = augment
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.polish = polish
        self.max_suspects = max_suspects
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    @property
    def loss_curve_(self) -> NDArray:
        """The mean soft loss of each epoch of the warm-up."""
        return self.warmup_losses_

    def _start(self, data: LabelledData, rng: np.random.Generator) -> Start:
        X, y, n_classes = data.X, data.y, data.n_classes
        distance = class_distance(X, y, rng)
        slope = CLASS_SLOPE / distance if self.slope == "auto" else float(self.slope)
        check_reach(X, slope)
        n_hidden = self.n_hidden
        if isinstance(n_hidden, str):
            per_class = round(math.sqrt(len(y) / n_classes))
            n_hidden = n_classes * min(max(per_class, LEAST_UNITS), MOST_UNITS)
        drop = slope * distance if self.confidence is None else float(self.confidence)
        model = box_lmm(X, y, int(n_hidden), n_classes, slope, drop, rng)
        return Start(model, {SLOPE: np.array([slope]), DISTANCE: np.array([distance])})

    def _stages(self, data: LabelledData, facts: Mapping[str, NDArray]) -> Sequence[Stage]:
        slope, distance = (float(facts[name][0]) for name in (SLOPE, DISTANCE))
        stages: list[Stage] = [
            WarmUp(
                self._annealing(slope * distance, len(data.y)),
                margin=2.0 * self.robust_eps * slope,
                augment=self.augment,
                hold_out=float(self.validation_fraction) if self.early_stopping else 0.0,
            )
        ]
        if self.polish is not None:
            level = LOG2 if isinstance(self.polish, str) else float(self.polish)
            stages.append(Polish(level, count_samples(self.max_suspects, len(data.y))))
        return stages

    def _annealing(self, size: float, n_samples: int) -> Annealing:
        batch, epochs = self.batch_size, self.warmup_epochs
        if self.early_stopping:
            n_samples -= int(self.validation_fraction * n_samples)
        if isinstance(batch, str):
            batch = min(BATCH, max(LEAST_BATCH, n_samples // 8))
        if isinstance(epochs, str):
            epochs = max(EPOCHS, math.ceil(LEAST_BATCHES / max(1, n_samples // batch)))
        patience = self.n_iter_no_change if self.early_stopping else None
        return Annealing(size, epochs, batch, patience=patience)

    def _facts(
        self, data: LabelledData, facts: Mapping[str, NDArray], trained: Trained
    ) -> dict[str, Any]:
        # A training that was ended early has not got to all of its stages.
        courses = {"warmup_losses": np.empty(0), "polish_losses": np.empty(0)}
        return super()._facts(data, courses | dict(facts), trained)
