"""Classifiers trained by an engine's subgradient steps, as in the paper."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.estimators._data import LabelledData
from maxplus.estimators._effects import Effect, is_set, say_no_effect
from maxplus.estimators._parameters import TRAINED, TRUTH, Parameters, one_of, real, whole
from maxplus.estimators._trained import Start, TrainedClassifier
from maxplus.training import (
    History,
    Iterations,
    MaxLoss,
    MeanLoss,
    Objective,
    StepRule,
    TrainingProblem,
    constant,
    level,
    paper_alpha,
    polyak,
    two_phase,
)
from maxplus.training.engines import ENGINES, Engine
from maxplus.training.result import TrainingState, prefixed
from maxplus.training.stages import Stage, Trained

Self = TypeVar("Self", bound="SubgradientClassifier")

TWO_PHASE, CONSTANT = "two-phase", "constant"
STEPS = (TWO_PHASE, "polyak", CONSTANT, "level")
# Columns of the history of earlier calls of `partial_fit`.
EARLIER = "earlier.history."

SUBGRADIENT: Parameters = {
    **TRAINED,
    "objective": (one_of("max", "mean"),),
    "step": (one_of(*STEPS),),
    "polyak_target": (real(minimum=0.0),),
    "polyak_fraction": (real(minimum=0.0, maximum=1.0),),
    "learning_rate": (real(above=0.0),),
    "engine": (one_of("auto", *ENGINES),),
    "max_iter": (whole(1),),
    "keep": (one_of("best", "last"),),
    "warm_start": (TRUTH,),
}
# Parameters of steps that count only beside others.
EFFECTS: tuple[Effect, ...] = (
    Effect(("polyak_fraction",), lambda own: own.step == TWO_PHASE, "step is 'two-phase'"),
    Effect(
        ("learning_rate",), lambda own: own.step in (TWO_PHASE, CONSTANT),
        "step is 'two-phase' or 'constant'",
    ),
)  # fmt: skip


class SubgradientClassifier(TrainedClassifier):
    """Steps along subgradients of the maximum or the mean loss; no other stage."""

    _effects: ClassVar[tuple[Effect, ...]] = EFFECTS
    # Parameters that say where a training from scratch begins.
    _beginning: ClassVar[tuple[str, ...]]
    # What ``engine="auto"`` stands for, but for the mean loss.
    _automatic_engine: ClassVar[str] = "dense"

    objective: str
    step: str
    polyak_target: float
    polyak_fraction: float
    learning_rate: float
    engine: str
    max_iter: int
    keep: str
    warm_start: bool

    history_: History
    # What the parameters of a beginning were when the model began.
    _began_with: dict[str, Any]

    def _present(self) -> Start | None:
        if not (self.warm_start and hasattr(self, "model_")):
            return None
        self._warn_of_other_beginning()
        return Start(self.model_, self._lasting_facts())

    def partial_fit(
        self: Self,
        X: Any,
        y: Any,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train ``max_iter`` iterations more, from the present parameters.

        The first call should have
        samples of every class. The iteration count, and with it the step rule's phase,
        goes on; the history grows. With keep="best" the present parameters are the best ones
        seen, not the last: for many short calls set keep="last". ``classes``
        lists all labels there will ever be; it is only read at the first call
        and may be left out if y has them all.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        y : labels of shape (n_samples,)
        classes : array of labels, optional
            All that there will ever be.
        sample_weight : array of shape (n_samples,), optional
            As in `fit`.

        Returns
        -------
        self
        """
        present = None
        if hasattr(self, "model_"):
            self._warn_of_other_beginning()
            facts = self._lasting_facts() | self._counted_facts()
            # A copy: a call that fails must not have drawn from the estimator's own.
            present = Start(self.model_, facts, deepcopy(getattr(self, "_rng", None)))
        return self._fit(X, y, sample_weight, classes, present=present)

    def _lasting_facts(self) -> dict[str, NDArray]:
        """What stays true of the model however it is trained on."""
        return {}

    def _counted_facts(self) -> dict[str, NDArray]:
        """What a training that counts on from the last one adds to."""
        return prefixed(EARLIER, dict(self.history_)) | {"n_iter": np.array([self.n_iter_])}

    def _objectives(self) -> dict[str, Objective]:
        """By name, all objectives that the estimator has the parameters of."""
        return {"max": MaxLoss(), "mean": MeanLoss()}

    def _beginnings(self) -> dict[str, Any]:
        """The parameters that say where a training from scratch begins."""
        return {name: getattr(self, name) for name in self._beginning}

    def _memory(self, rng: np.random.Generator, goes_on: bool) -> dict[str, Any]:
        own = self._beginnings()
        # Models that were pickled before it was noted have none.
        began_with = getattr(self, "_began_with", own) if goes_on else own
        return super()._memory(rng, goes_on) | {"_began_with": began_with}

    def _warn_of_other_beginning(self) -> None:
        """Warn of parameters of the beginning that were changed after it."""
        for name, began in getattr(self, "_began_with", {}).items():
            value = getattr(self, name)
            if value != began:
                say_no_effect(
                    f"{name}={value!r}",
                    f"on a training that goes on from one with {name}={began!r}; fit with "
                    "warm_start=False to begin anew",
                )

    def _warn_of_no_effect(self) -> None:
        super()._warn_of_no_effect()
        used = self._engine_class().name
        if self.engine in ("auto", used):
            return
        why = f"on a {type(self).__name__}, which it cannot train"
        if not ENGINES[self.engine].minimises(type(self._objectives()[self.objective])):
            why = f"with objective={self.objective!r}, which it cannot minimise"
        say_no_effect(f"engine={self.engine!r}", f"{why}; {used!r} is used")

    def _warn_of_ending(self, trained: Trained) -> None:
        super()._warn_of_ending(trained)
        if self.step != TWO_PHASE or trained.status.ends_training:
            return
        # With sgd, losses of the history are of single samples: nobody knows which were kept.
        if self._engine_class() is ENGINES["sgd"]:
            return
        losses, first = self.history_["loss"], self._n_polyak
        kept = int(np.argmin(losses)) if self.keep == "best" and losses.size else losses.size
        if kept <= first and is_set(self, "learning_rate"):
            say_no_effect(
                f"learning_rate={self.learning_rate!r}",
                f"here: the parameters of iteration {kept} are kept, and constant steps begin at "
                f"{first}; take a smaller polyak_fraction",
            )

    def _engine_class(self) -> type[Engine]:
        """The engine that is named, if it can do what is asked, else the automatic one."""
        automatic = ENGINES["sgd" if self.objective == "mean" else self._automatic_engine]
        engine = ENGINES.get(self.engine, automatic)
        objective = type(self._objectives()[self.objective])
        fits = engine.minimises(objective) and issubclass(self._model_class, engine.models)
        return engine if fits else automatic

    @property
    def _n_polyak(self) -> int:
        """Polyak steps before the constant ones, in two phases."""
        return math.ceil(self.polyak_fraction * self.max_iter)

    def _step_rule(self, n_classes: int, best: float) -> StepRule:
        """The step rule; ``best`` is the lowest loss of earlier iterations."""
        first = polyak(self.polyak_target)
        then = constant(paper_alpha(self.learning_rate, n_classes), self.polyak_target)
        if self.step == "polyak":
            return first
        if self.step == CONSTANT:
            return then
        if self.step == "level":
            return level(self.max_iter, self.polyak_target, best)
        return two_phase(first, then, self._n_polyak)

    def _problem(
        self, data: LabelledData, facts: Mapping[str, NDArray], rng: np.random.Generator
    ) -> TrainingProblem:
        earlier = facts.get(f"{EARLIER}loss", np.empty(0))
        best = float(np.fmin.reduce(earlier, initial=math.inf))
        return TrainingProblem(
            data.X, data.y, self._objectives()[self.objective],
            self._step_rule(data.n_classes, best),
            w0_update_interval=int(getattr(self, "w0_update_interval", 0)), start=earlier.size,
            weight=data.weight, rng=rng,
        )  # fmt: skip

    def _stages(self, data: LabelledData, facts: Mapping[str, NDArray]) -> Sequence[Stage]:
        return [Iterations(self._engine_for(data), self.max_iter, self.keep)]

    def _engine_for(self, data: LabelledData) -> type[Engine]:
        """The engine that trains on these samples."""
        return self._engine_class()

    def _facts(
        self, data: LabelledData, facts: Mapping[str, NDArray], trained: Trained
    ) -> dict[str, Any]:
        history = History()
        if f"{EARLIER}loss" in facts:
            history = History.of({name: facts[EARLIER + name] for name in History.columns})
        if "history.loss" in facts:
            new = History.of({name: facts[f"history.{name}"] for name in History.columns})
            new.map_samples(data.given)
            history.extend(new)
        return super()._facts(data, facts, trained) | {"history_": history}

    @property
    def loss_curve_(self) -> NDArray:
        """The objective before each step; with sgd, the drawn sample's loss."""
        return self.history_["loss"]

    def _check_facts(self, state: TrainingState, data: LabelledData) -> None:
        super()._check_facts(state, data)
        if f"{EARLIER}loss" in state.before:
            for name, dtype in History.columns.items():
                n = len(state.before[f"{EARLIER}loss"])
                state.array(f"before.{EARLIER}{name}", dtype, (n,), finite=False)
