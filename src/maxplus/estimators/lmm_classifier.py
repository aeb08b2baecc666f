"""The Linear-Min-Max classifier."""

from __future__ import annotations

import math
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
from maxplus.estimators._boxes import boxes_for
from maxplus.estimators._calibration import keep_level
from maxplus.estimators._capacity import Candidate, candidates_for
from maxplus.estimators._choice import STAGE, Rows, choose
from maxplus.estimators._data import LabelledData
from maxplus.estimators._effects import Effect
from maxplus.estimators._lmm import BaseLMMClassifier
from maxplus.estimators._lmm_start import DISTANCE, SLOPE
from maxplus.estimators._parameters import (
    CALLABLE,
    CLASS_WEIGHTS,
    DIRECTIONS,
    NOTHING,
    SCORER,
    TRAINED,
    TRUTH,
    Parameters,
    one_of,
    real,
    samples,
    whole,
)
from maxplus.estimators._search import (
    TEMPERATURE,
    check_search,
    check_temperature,
    search_facts,
    search_table,
)
from maxplus.estimators._trained import Start
from maxplus.estimators._views import Views, check_views, views_by_kind
from maxplus.estimators._worth_polishing import worth_polishing
from maxplus.models import LMM, LOG2, Network
from maxplus.training import Conductor, Status, Task
from maxplus.training.objectives import count_samples
from maxplus.training.stages import Annealing, CarefulPolish, Polish, Stage, Trained, WarmUp
from maxplus.training.stages.base import require_finite
from maxplus.training.stages.warm_up import augmented
from maxplus.training.state import TrainingState

# The warm-up's samples per batch, epochs, and what small data sets need at least.
BATCH, LEAST_BATCH = 200, 8
EPOCHS, LEAST_BATCHES = 10, 500
# The warm-up's rate: with a capacity that the data chose, and with one that was given.
RATE, GIVEN_RATE = 0.02, 0.01


class LMMClassifier(BaseLMMClassifier):
    """Linear-Min-Max network: boxes in feature space, as many and as sharp as the data bear.

    Each hidden unit is a soft box in feature space, each class score the margin
    of the best box: z_d(x) = max_h (min_i (W0[i]·v[i // 2] + W1[i, h]) + W2[h, d]). The
    views v are the features in units of their spread and, where that helps, a few linear
    directions beside them.

    Capacity and views are chosen by cross-validation on the training rows. Training then starts
    from boxes around clusters of each class and has two stages: a warm-up on the mean loss with
    soft minima and maxima, and a polish that brings training losses below log 2 where that costs
    nothing on held-out rows; then every training sample is classified right, which says nothing
    about new ones. Last, one temperature is folded into the weights, so that probabilities hold on
    rows that were not trained on. `SubgradientLMMClassifier` is the paper's own algorithm.

    Parameters
    ----------
    n_hidden : int or "auto", default="auto"
        Hidden units H. Units start from different samples, so there are at most as many as
        samples. "auto" is chosen together with ``slope`` and ``directions``: twelve capacities from
        one gentle unit per class on are compared by the log loss of held-out rows (three folds,
        short trainings, on part of the rows where there are many; ``search_``). A number
        given for ``n_hidden`` or ``slope`` is taken as it is, and then nothing is searched: the
        other is as its "auto" says, and there are no directions but those given. "auto"
        beside a given slope is, for each class, the square root of its samples' average
        number, but at least 10 and at most 50.
    slope : float or "auto", default="auto"
        The paper's k for W0 and W1, per unit of ``scale_``. "auto" is chosen as above; beside a
        given ``n_hidden`` it is 15 / (median L∞ distance between training samples of
        different classes).
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
        Train so that predictions are certified for changes of each feature by up to this many
        units of ``scale_`` (of the feature itself with ``scale=False``, and for images):
        in the warm-up all scores but the true one are raised by 2·robust_eps·slope, the most
        that such a change can do, before the loss is taken. No directions are searched then.
    augment : callable, optional
        Called with a batch's rows, as raw features, and a NumPy generator; the warm-up trains on
        the rows it returns instead, for example `maxplus.images.RandomShift`. A search does
        without it.
    early_stopping : bool, default=False
        Hold ``validation_fraction`` of the samples out of the warm-up, keep the epoch that does
        best on them, and end when ``n_iter_no_change`` epochs in a row were no better. The
        polish uses all samples.
    validation_fraction : float, default=0.1
    n_iter_no_change : int, default=5
    polish : "auto", "log2", float or None, default="auto"
        After the warm-up, bring every training loss below this level
        (`maxplus.training.stages.Polish`); "log2" is the paper's certificate, None leaves it
        out. "auto" is log 2, if cross-validation says that it costs no accuracy and no log loss
        beyond noise: three short trainings, made where some samples are above it, are polished
        and compared with themselves on held-out rows. Such a polish takes no longer than the
        warm-up. ``suspects_`` lists the samples that are left.
        A level that was asked for and is not reached is a ConvergenceWarning.
    max_suspects : int or float, default=0
        How many samples, or which part of them, the polish may leave above its level: those
        with the largest losses before it are not touched. For labels that may be wrong.
    scale : bool, default=True
        Train on (x − centre) / ``scale_``: mean and standard deviation of each feature, far
        outliers brought in. They are folded into the weights: the model takes raw features.
        Pixels on an empty ground keep their unit: more than 50 features of one range from 0 on,
        a quarter of whose values are 0. False takes features as they are.
    directions : "auto", None or array of shape (n_directions, n_features), default="auto"
        Weighted sums of raw features that are seen beside them. "auto" are discriminants
        (Fisher's, with shrinkage), where the search finds them better; None are none. Given ones
        are always seen, scaled to vary as a typical feature does (as they are with
        ``scale=False``).
    calibrate : bool or "auto", default="auto"
        Multiply all weights by the temperature that suits held-out rows best. No prediction and
        no radius changes. "auto" does if there is a search, which gives it for free; True
        estimates it by three short trainings otherwise. After a polish that was asked for, the
        temperature stays where every polished loss is below its level.
    class_weight : None, "balanced" or dict of labels and numbers > 0, default=None
        Weights of the classes, times those of the samples, in search, warm-up and temperature;
        "balanced" gives all classes the same weight in sum. The polish knows no weights.
    scoring : None, str or callable(estimator, X, y), default=None
        What candidates are compared by on held-out rows, the more the better, such as
        "roc_auc" or "balanced_accuracy" (`sklearn.metrics.get_scorer`); None is the log loss. A
        number given for ``n_hidden`` or ``slope`` leaves nothing to compare.
    n_jobs : int, optional
        Threads; None and −1 are all. Search and polish do not depend on it; matrix
        products of the warm-up may, in their last digits.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
        1 shows a progress bar.
    callbacks : callable or list of callables, optional
        Called with a `maxplus.training.Progress` after each training of the search, epoch of the
        warm-up and round of the polish; returning True ends the training. One that is ended while
        it searches keeps the boxes that it would have started from.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_
    W0_ : array of shape (2M,), the two slopes of each view, + then −
    W1_ : array of shape (2M, H)
    W2_ : array of shape (H, C)
    n_hidden_ : int
    slope_ : that of the training, per unit of ``scale_``; W0_ is temperature_·slope_ / scale_
    scale_ : array of shape (P,), the features' spread, times any that was folded in (`fold`)
    temperature_ : what all weights were multiplied by in the end, 1.0 if nothing was calibrated
    search_ : what was tried (if anything was): "candidates" in words, "views", "units" per
        class, "slope" per distance between classes, held-out "losses" of shape (candidates,
        folds), inf where a fold was spared, "scores" if there is a ``scoring``, −inf where a fold
        was spared, and which was "chosen"
    suspects_ : training samples that are not below the polish's level (before the temperature)
    warmup_losses_, loss_curve_ : mean soft loss of each epoch of the warm-up
    validation_scores_ : accuracy after each epoch (early_stopping only)
    polish_losses_ : the maximum loss before each round of the polish and at its end, before the
        temperature
    unit_wins_ : how often each unit decides a class's score on the training samples
    feature_importances_ : array of shape (P,), how often and how much each feature decides on the
        training samples, as shares (`maxplus.explain.feature_importances`)
    n_iter_ : epochs and rounds together
    status_, status_message_ : how training ended, as a code (`maxplus.training.Status`) and as a
        sentence
    max_loss_, mean_loss_ : of the final model on the training set
    certified_ : whether max_loss_ < log 2
    training_losses_, training_labels_ : of every training sample, NaN if its weight was 0
    model_ : the `maxplus.models.LMM` behind it

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from maxplus import LMMClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = LMMClassifier(random_state=0).fit(X, y)
    >>> clf.score(X, y) > 0.95, clf.search_["losses"].shape
    (True, (12, 3))
    """

    suspects_: NDArray
    warmup_losses_: NDArray
    polish_losses_: NDArray
    search_: dict[str, Any]
    temperature_: float
    _effects = (
        Effect(("max_suspects",), lambda own: own.polish is not None, "there is a polish"),
        Effect(
            ("validation_fraction", "n_iter_no_change"), lambda own: own.early_stopping,
            "early_stopping is True",
        ),
        Effect(("scoring",), lambda own: own._searches, "n_hidden and slope are both 'auto'"),
    )  # fmt: skip
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
        "polish": (real(above=0.0), one_of("auto", "log2"), NOTHING),
        "max_suspects": (samples(0),),
        "scale": (TRUTH,),
        "directions": (DIRECTIONS, one_of("auto"), NOTHING),
        "calibrate": (TRUTH, one_of("auto")),
        "class_weight": (CLASS_WEIGHTS, one_of("balanced"), NOTHING),
        "scoring": (SCORER, CALLABLE, NOTHING),
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
        polish: float | str | None = "auto",
        max_suspects: int | float = 0,
        scale: bool = True,
        directions: ArrayLike | str | None = "auto",
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
        self.scale = scale
        self.directions = directions
        self.calibrate = calibrate
        self.class_weight = class_weight
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    @property
    def loss_curve_(self) -> NDArray:
        """The mean soft loss of each epoch of the warm-up."""
        return self.warmup_losses_

    def _labelled(
        self, X: Any, y: Any, sample_weight: ArrayLike | None, classes: ArrayLike | None,
        like: Network | None,
    ) -> LabelledData:  # fmt: skip
        data = super()._labelled(X, y, sample_weight, classes, like)
        given = self.directions
        if not (given is None or isinstance(given, str)):
            found = np.shape(given)
            if found[1] != data.X.shape[1]:
                raise ValueError(
                    f"directions must have a column for each of the {data.X.shape[1]} features of "
                    f"X; got shape {found}"
                )
        return data.weighted(self.class_weight)

    # -- what is trained: a capacity, and what it sees ---------------------------------------

    @property
    def _searches(self) -> bool:
        """Whether the data choose: nobody gave a number."""
        return isinstance(self.n_hidden, str) and isinstance(self.slope, str)

    @property
    def _calibrates(self) -> bool:
        return self.calibrate is True or (self.calibrate == "auto" and self._searches)

    def _candidates(self) -> tuple[Candidate, ...]:
        """The capacities in question: several, or the one that parameters say."""
        is_given = not (self.directions is None or isinstance(self.directions, str))
        if not self._searches:
            return (
                Candidate(
                    "both" if is_given else "features",
                    n_hidden=None if isinstance(self.n_hidden, str) else int(self.n_hidden),
                    slope=None if isinstance(self.slope, str) else float(self.slope),
                ),
            )
        if is_given:
            return candidates_for(["both"])
        if self.directions is None or self.robust_eps > 0:
            return candidates_for(["features"])
        # An augmentation changes features: they must be among what is seen.
        alone = [] if self.augment is not None else ["directions"]
        return candidates_for(["features", "both", *alone])

    def _views(self, kinds: set[str], rows: Rows) -> dict[str, Views]:
        """What candidates see of the features, by kind."""
        given = None if isinstance(self.directions, str) else self.directions
        return views_by_kind(kinds, rows.X, rows.y, self.scale, given)

    def _brief(
        self, n_classes: int, rows: Rows, candidate: Candidate, length: float,
        rng: np.random.Generator, conductor: Conductor,
    ) -> LMM:  # fmt: skip
        """A candidate, trained for a share of the usual length."""
        boxes = boxes_for(rows, n_classes, candidate, self.confidence, rng)
        annealing = self._annealing(boxes.slope * boxes.distance, len(rows.y), length)
        warm_up = WarmUp(annealing, margin=2.0 * self.robust_eps * boxes.slope)
        task = Task(rows.X, rows.y, weight=rows.weight, rng=rng)
        return warm_up.run(boxes.model, task, conductor).model

    def _judge(self, data: LabelledData, model: LMM, rows: Rows) -> float:
        """What the user's scorer says of a model on rows that were held out."""
        # A fitted classifier for it, as far as predictions go.
        fitted = clone(self).set_params(callbacks=None, verbose=0)
        vars(fitted).update(model_=model, classes_=data.classes, n_features_in_=rows.X.shape[1])
        y = data.classes[rows.y]
        if isinstance(self.scoring, str):
            return float(get_scorer(self.scoring)(fitted, rows.X, y, sample_weight=rows.weight))
        assert self.scoring is not None
        return float(self.scoring(fitted, rows.X, y))

    def _start(self, data: LabelledData, rng: np.random.Generator, conductor: Conductor) -> Start:
        candidate, known = self._choose(data, rng, conductor)

        def find(everybody: LabelledData) -> Start:
            rows, views = self._see(everybody, candidate)
            boxes = boxes_for(rows, data.n_classes, candidate, self.confidence, rng)
            facts = {SLOPE: np.array([boxes.slope]), DISTANCE: np.array([boxes.distance])}
            return Start(boxes.model, known | facts | views.facts)

        return data.on_first(find, rng)

    def _choose(
        self, data: LabelledData, rng: np.random.Generator, conductor: Conductor
    ) -> tuple[Candidate, dict[str, NDArray]]:
        """The capacity, and what was learned on the way: a search, a temperature."""
        candidates = self._candidates()
        if not (self._searches or self._calibrates):
            return candidates[0], {}
        kinds = {candidate.views for candidate in candidates}
        has_say = self.scoring is not None and self._searches
        conductor.begin(STAGE, is_last=False)
        search = choose(
            Rows(data.X, data.y, data.weight), candidates, partial(self._views, kinds),
            partial(self._brief, data.n_classes), int(rng.integers(2**31)), conductor,
            numba.get_num_threads(), partial(self._judge, data) if has_say else None,
        )  # fmt: skip
        facts: dict[str, NDArray] = {}
        if self._searches:
            n_samples = current().total(len(data.y))
            units = [c.units_for(n_samples, data.n_classes) for c in candidates]
            facts |= search_facts(candidates, units, search.losses, search.chosen, search.scores)
        if self._calibrates:
            facts[TEMPERATURE] = np.array([search.temperature])
        return candidates[search.chosen], facts

    def _see(self, data: LabelledData, candidate: Candidate) -> tuple[Rows, Views]:
        """All rows as a candidate sees them."""
        rows = Rows(data.X, data.y, data.weight)
        seen = self._views({candidate.views}, rows)
        views = seen.get(candidate.views, seen["features"])
        return replace(rows, X=views(rows.X)), views

    # -- how it is trained ---------------------------------------------------------------------

    def _task(
        self, data: LabelledData, facts: Mapping[str, NDArray], rng: np.random.Generator
    ) -> Task:
        return Task(Views.of_facts(facts)(data.X), data.y, weight=data.weight, rng=rng)

    def _stages(self, data: LabelledData, facts: Mapping[str, NDArray]) -> Sequence[Stage]:
        return self._own_stages(current().total(len(data.y)), facts)

    def _own_stages(self, n_samples: int, facts: Mapping[str, NDArray]) -> Sequence[Stage]:
        """The stages of one network on so many samples."""
        slope, distance = (float(facts[name][0]) for name in (SLOPE, DISTANCE))
        views = Views.of_facts(facts)
        annealing = self._annealing(slope * distance, n_samples)
        stages: list[Stage] = [
            WarmUp(
                annealing,
                margin=2.0 * self.robust_eps * slope * views.reach,
                augment=None if self.augment is None else partial(self._augmented, views),
                hold_out=float(self.validation_fraction) if self.early_stopping else 0.0,
            )
        ]
        if self.polish == "auto":
            polish_of = partial(self._bounded_polish, slope * distance)
            ask = partial(worth_polishing, partial(self._retrained, slope), polish_of)
            stages.append(CarefulPolish(ask, polish_of(n_samples)))
        elif self.polish is not None:
            skip = count_samples(self.max_suspects, n_samples)
            stages.append(Polish(self._level, skip))
        return stages

    def _bounded_polish(self, size: float, n_samples: int, length: float = 1.0) -> Polish:
        """A polish that looks at no more samples than the warm-up before it: it takes no longer."""
        epochs = self._annealing(size, n_samples, length).epochs
        skip = count_samples(self.max_suspects, n_samples)
        return Polish(LOG2, skip, visits=epochs * n_samples)

    def _retrained(
        self, slope: float, model: LMM, rows: Rows, length: float, rng: np.random.Generator,
        conductor: Conductor,
    ) -> LMM:  # fmt: skip
        """A network of the same size, trained on fewer rows for a share of the usual length."""
        n_hidden = min(model.n_hidden, len(rows.y))
        like = Candidate("features", n_hidden=n_hidden, slope=slope)
        return self._brief(model.n_classes, rows, like, length, rng, conductor)

    @property
    def _level(self) -> float:
        """What a polish that was asked for brings losses below."""
        return LOG2 if isinstance(self.polish, str) else float(self.polish or 0.0)

    def _augmented(self, views: Views, V: NDArray, rng: np.random.Generator) -> NDArray:
        """The views of what ``augment`` makes of a batch's features."""
        return views(augmented(self.augment, views.features(V), rng))

    def _annealing(self, size: float, n_samples: int, length: float = 1.0) -> Annealing:
        """The warm-up of so many samples, or a part of it: then nothing is held out."""
        batch, epochs = self.batch_size, self.warmup_epochs
        stops_early = self.early_stopping and length == 1.0
        if stops_early:
            n_samples -= int(self.validation_fraction * n_samples)
        if isinstance(batch, str):
            batch = min(BATCH, max(LEAST_BATCH, n_samples // 8))
        if isinstance(epochs, str):
            epochs = max(EPOCHS, math.ceil(LEAST_BATCHES / max(1, n_samples // batch)))
        epochs = max(1, round(length * epochs))
        rate = RATE if self._searches else GIVEN_RATE
        patience = self.n_iter_no_change if stops_early else None
        return Annealing(size, epochs, batch, rate=rate, patience=patience)

    # -- what it leaves behind -----------------------------------------------------------------

    def _check_facts(self, state: TrainingState, data: LabelledData) -> None:
        super()._check_facts(state, data)
        state.array(f"before.{DISTANCE}", np.float64, (1,))
        check_views(state, data.X.shape[1])
        if self._calibrates:
            check_temperature(state)
        check_search(state.before)

    def _facts(
        self, data: LabelledData, facts: Mapping[str, NDArray], trained: Trained
    ) -> dict[str, Any]:
        views, factor = Views.of_facts(facts), self._factor(data, facts, trained.model)
        model = views.model(trained.model)
        model = model if factor == 1.0 else model.scaled(factor)
        require_finite(model)
        # A training that was ended early has not got to all of its stages.
        courses = {"warmup_losses": np.empty(0), "polish_losses": np.empty(0)}
        fitted = super()._facts(data, courses | dict(facts), replace(trained, model=model))
        search = search_table(facts, per_class=True)
        return fitted | {"temperature_": factor} | ({} if search is None else {"search_": search})

    def _shortfall(self, status: Status) -> str:
        if status is not Status.GIVEN_UP:
            return super()._shortfall(status)
        return (
            f"the polish left {self.suspects_.size} of {self.training_labels_.size} training "
            f"samples above its level of {self._level:.4g} (suspects_ lists them); allow as many "
            "with max_suspects, or let polish='auto' decide"
        )

    def _factor(self, data: LabelledData, facts: Mapping[str, NDArray], model: LMM) -> float:
        """The temperature, as far as it leaves what was polished below its level."""
        if not self._calibrates:
            return 1.0
        wanted = float(facts[TEMPERATURE][0])
        if "suspects" not in facts or self.polish == "auto":
            return wanted
        team = current()
        suspects = facts["suspects"] - team.before(len(data.y))
        mine = suspects[(suspects >= 0) & (suspects < len(data.y))]
        fine = np.delete(np.arange(len(data.y)), mine)
        if not team.total(fine.size):
            return wanted
        Z = model.scores(Views.of_facts(facts)(data.X[fine]))
        return keep_level(wanted, Z, data.y[fine], self._level)
