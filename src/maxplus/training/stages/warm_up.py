"""The warm-up: annealed training of the soft model; the hard model is what comes out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from maxplus.distributed import Team
from maxplus.distributed.communicator import agreed
from maxplus.models import LMM, Model
from maxplus.training import memory
from maxplus.training.conductor import Conductor
from maxplus.training.result import Status, TrainingOverflowError
from maxplus.training.smooth import Rescaling, SoftLMM, SoftWeights
from maxplus.training.smooth.batches import Batches
from maxplus.training.smooth.soft_weights import Layers
from maxplus.training.stages.base import Outcome
from maxplus.training.state import StateError, TrainingState, generator_state, prefixed
from maxplus.training.task import Task

Augment = Callable[[NDArray, np.random.Generator], NDArray]

# The share of the run over which the temperature falls; it stays cold for the rest.
COOLING = 0.9
# The step's size at the end, as a share of its size at the beginning.
LAST_RATE = 0.02


class Annealing(NamedTuple):
    """How the soft model is trained; temperatures and rate are in units of ``size``.

    ``size`` is the score that a typical distance between classes is worth: the
    slope times the median L∞ distance of samples of different classes.
    """

    size: float
    epochs: int = 10
    batch: int = 200
    hot: float = 0.1
    cold: float = 0.03
    rate: float = 0.01
    patience: int | None = None


@dataclass(frozen=True)
class WarmedUp(Outcome):
    """Each epoch's mean soft loss, the samples held out, and the accuracies on them."""

    losses: NDArray
    validation: NDArray
    held_out: NDArray

    @property
    def n_iter(self) -> int:
        """Epochs that were done."""
        return self.losses.size

    @property
    def facts(self) -> dict[str, NDArray]:
        """The course of both."""
        facts = {"warmup_losses": self.losses}
        return facts | ({"validation_scores": self.validation} if self.held_out.size else {})


@dataclass(frozen=True)
class WarmUp:
    """Train W1 and W2 by Adam on the soft model's mean loss, from hot to cold.

    The temperature falls geometrically over 90 % of the run and stops where float32
    could no longer hold the exponentials. With something held out, the hard model is
    evaluated on it after each epoch, the best one is kept, and training ends after
    ``annealing.patience`` epochs without a better one (if given). O(epochs·N·P·H).

    Parameters
    ----------
    annealing : Annealing
    margin : by how much all scores but the true one are raised before the loss is taken
    augment : called with a batch's rows and the generator; the rows to train on instead, optional
    hold_out : share of the samples to validate with, each class in proportion
    """

    annealing: Annealing
    margin: float = 0.0
    augment: Augment | None = None
    hold_out: float = 0.0

    name: ClassVar[str] = "warm-up"
    has_state: ClassVar[bool] = True

    def run(
        self, model: LMM, task: Task, conductor: Conductor, state: TrainingState | None = None
    ) -> WarmedUp:
        """Train a copy of the model; ``task.rng`` chooses what is held out, and shuffles."""
        memory.require(self.bytes_needed(model, task), f"the {self.name}", memory.FEWER_UNITS)
        annealing, rng, team = self.annealing, task.rng, task.team
        assert rng is not None
        held_out = self._held_out(task, rng) if state is None else state.arrays["held_out"]
        X, y, weight = task.X, task.y, task.weight
        judges = task.own(held_out)
        if held_out.size:
            kept = np.setdiff1d(np.arange(len(y)), judges)
            X, y, weight = X[kept], y[kept], None if weight is None else weight[kept]
        if weight is not None:
            weight = weight / team.mean(weight)
        scaling = team.on_first(lambda rows: Rescaling.of(model, rows, annealing.size), X)
        run = (
            _Run.begin(team, scaling, model)
            if state is None
            else _Run.restore(team, scaling, state)
        )
        if state is not None:
            state.restore_generator(rng)
        rows, soft = scaling.rows(X), SoftLMM(scaling.W0, annealing.size)
        batches = Batches.of(team, len(y), annealing.batch)
        n_batches = batches.number
        schedule = Schedule.of(annealing, scaling, annealing.epochs * n_batches)
        status = run.verdict(annealing)
        settled = run.state(model, held_out, rng)
        while status is None:
            epoch, epoch_loss = len(run.losses), 0.0
            parts, own_rng = batches.deal(rng)
            for k, part in enumerate(parts):
                tau, rate = schedule.at(epoch * n_batches + k)
                batch_rows = rows[part]
                if self.augment is not None and part.size:
                    batch_rows = scaling.rows(augmented(self.augment, X[part], own_rng))
                worth = batches.share(k)
                if weight is not None and part.size:
                    # A batch of light samples counts as little as they do.
                    worth *= float(weight[part].mean())
                # What overflows here ends as weights that are not finite, which is an error below.
                with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                    epoch_loss += soft.gradient(
                        batch_rows, y[part], run.weights, tau, self.margin / annealing.size,
                        None if weight is None else weight[part], worth,
                    )  # fmt: skip
                run.weights.move(rate)
                if conductor.interrupted:
                    break
            run.end_epoch(epoch_loss / (k + 1))
            if not (math.isfinite(run.losses[-1]) and np.isfinite(run.layers.W1).all()):
                overflow = TrainingOverflowError(
                    f"the warm-up overflowed: a distance between classes is worth a score of "
                    f"{annealing.size:g}; scale X (for example with StandardScaler) or take a "
                    "smaller slope"
                )
                raise agreed(overflow)
            if held_out.size:
                run.judge(model, task.X[judges], task.y[judges], team)
            if not conductor.interrupted:
                # A checkpoint goes on from the end of an epoch, so that no batch is done twice.
                settled = run.state(model, held_out, rng)
            status = conductor.report(
                epoch + 1, annealing.epochs, run.losses[-1], min(run.losses), run.hard(model),
                lambda now=settled: now,  # type: ignore[misc]
                None if conductor.interrupted else run.verdict(annealing),
            )  # fmt: skip
        return WarmedUp(
            run.kept(model), status, np.array(run.losses), np.array(run.scores), held_out
        )

    def bytes_needed(self, model: LMM, task: Task) -> int:
        """Memory that a run takes at its peak, about."""
        (N, P), H, C = task.X.shape, model.n_hidden, model.n_classes
        n = min(self.annealing.batch, N)
        weights = 4 * (2 * P + C) * H
        # The rows; the weights, Adam's two memories, the last state's copies of the three, and
        # the gradient with its factors.
        kept = 4 * N * P + 8 * weights
        if self.hold_out:
            kept += task.X.nbytes + 2 * weights
        # Then either what a batch takes, for each of its samples and units, or at an epoch's end
        # a new state and the hard model, which is made in float64.
        return kept + max(4 * n * (6 * H + 4 * P), 8 * weights)

    def check(self, state: TrainingState, task: Task, kind: type[Model]) -> Model:
        """The model it began with; StateError if the warm-up cannot go on from the state."""
        model = task.model_of(state, "model.", LMM)
        if state.generator is None:
            raise StateError("the state of the random generator is missing")
        for k, shape in ((1, model.W1.shape), (2, model.W2.shape)):
            state.array(f"W{k}", np.float32, shape)
            for moment in ("m", "v"):
                state.array(f"{moment}{k}", np.float32, (math.prod(shape),))
            if "best1" in state.arrays or "best2" in state.arrays:
                state.array(f"best{k}", np.float32, shape)
        if state.array("steps", np.int64, (1,))[0] < 0:
            raise StateError("its steps cannot be fewer than none")
        losses = state.array("losses", np.float64, (None,))
        held_out = state.array("held_out", np.int64, (None,))
        some = held_out.size < task.n_samples and (np.diff(held_out) > 0).all()
        if held_out.size and not (some and held_out[0] >= 0 and held_out[-1] < task.n_samples):
            raise StateError("what it holds out are not some of the samples")
        scores = state.array("scores", np.float64, (losses.size if held_out.size else 0,))
        if ("best1" in state.arrays) != bool(scores.size):
            raise StateError("its best weights and its scores do not fit")
        return model

    def _held_out(self, task: Task, rng: np.random.Generator) -> NDArray:
        """Samples to validate with, of all ranks, in ascending order."""
        if not self.hold_out:
            return np.empty(0, np.int64)
        seed = int(rng.integers(2**31))
        labels = task.team.collect(task.y)
        return task.team.on_first(lambda _: self._split(labels, seed), task.X)

    def _split(self, y: NDArray, seed: int) -> NDArray:
        # A class with a single sample cannot be on both sides: it stays where training is.
        several = np.flatnonzero(np.bincount(y)[y] > 1)
        try:
            _, held_out = train_test_split(
                several, test_size=self.hold_out, stratify=y[several], random_state=seed,
            )  # fmt: skip
        except ValueError:
            raise ValueError(
                f"validation_fraction={self.hold_out} of {len(y)} samples holds none out of "
                "some class; give more samples, a larger fraction or early_stopping=False"
            ) from None
        return np.sort(held_out)


def augmented(augment: Augment, rows: NDArray, rng: np.random.Generator) -> NDArray:
    """What ``augment`` makes of a batch, checked: it is the user's."""
    made = np.asarray(augment(rows, rng), rows.dtype)
    if made.shape != rows.shape or not np.isfinite(made).all():
        raise ValueError(
            f"augment must return finite numbers of the shape it was given, {rows.shape}; "
            f"got shape {made.shape}"
        )
    return made


class Schedule(NamedTuple):
    """Temperature and rate over the batches of a run."""

    hot: float
    cold: float
    rate: float
    total: int

    @classmethod
    def of(cls, annealing: Annealing, scaling: Rescaling, total: int) -> Schedule:
        cold = max(annealing.cold, scaling.coldest)
        return cls(max(annealing.hot, cold), cold, annealing.rate, total)

    def at(self, step: int) -> tuple[float, float]:
        """Those of one batch: a geometric fall, and half a wave of a cosine."""
        share = step / self.total
        tau = self.hot * (self.cold / self.hot) ** min(1.0, share / COOLING)
        falling = 0.5 * (1 + math.cos(math.pi * share))
        return tau, self.rate * (LAST_RATE + (1 - LAST_RATE) * falling)


class _Run:
    """Weights, Adam's memories and the course of a training, all that changes during it."""

    def __init__(
        self, scaling: Rescaling, weights: SoftWeights, losses: list[float],
        scores: list[float], best: Layers | None,
    ) -> None:  # fmt: skip
        self.scaling, self.weights, self.losses, self.scores = scaling, weights, losses, scores
        self.layers, self._best = weights.whole(), best

    @classmethod
    def begin(cls, team: Team, scaling: Rescaling, model: LMM) -> _Run:
        return cls(scaling, SoftWeights(team, *scaling.offsets(model)), [], [], None)

    @classmethod
    def restore(cls, team: Team, scaling: Rescaling, state: TrainingState) -> _Run:
        arrays = state.arrays
        W, mean, square = (Layers(arrays[f"{name}1"], arrays[f"{name}2"]) for name in "Wmv")
        weights = SoftWeights(team, *W, (mean, square), int(arrays["steps"][0]))
        best = Layers(arrays["best1"], arrays["best2"]) if "best1" in arrays else None
        losses, scores = arrays["losses"].tolist(), arrays["scores"].tolist()
        return cls(scaling, weights, losses, scores, best)

    def state(self, model: LMM, held_out: NDArray, rng: np.random.Generator) -> TrainingState:
        arrays = prefixed("model.", model.weights_by_name()) | {
            "W1": self.layers.W1.copy(), "W2": self.layers.W2.copy(),
            "steps": np.array([self.weights.steps]), "held_out": held_out,
            "losses": np.array(self.losses), "scores": np.array(self.scores),
        }  # fmt: skip
        for name, layers in zip("mv", self.weights.memory(), strict=True):
            arrays |= {f"{name}{k}": layer.flatten() for k, layer in enumerate(layers, 1)}
        if self._best is not None:
            arrays |= {"best1": self._best.W1, "best2": self._best.W2}
        return TrainingState(WarmUp.name, arrays, generator_state(rng))

    def end_epoch(self, loss: float) -> None:
        """Note the mean loss, from a rank's share of it, and the weights as they are now."""
        team = self.weights.team
        self.losses.append(loss if team.is_alone else float(team.sum(np.array([loss]))[0]))
        self.layers = self.weights.whole()

    def judge(self, model: LMM, X: NDArray, y: NDArray, team: Team) -> None:
        """Note the hard model's accuracy, and the weights if it is the best so far."""
        right = self.hard(model).scores(X).argmax(axis=1) == y
        self.scores.append(team.total(int(right.sum())) / team.total(len(y)))
        if self.scores[-1] >= max(self.scores):
            self._best = Layers(self.layers.W1.copy(), self.layers.W2.copy())

    def verdict(self, annealing: Annealing) -> Status | None:
        """Why it ends here, if it does: all epochs are done, or nothing has improved for long."""
        since = len(self.scores) - 1 - int(np.argmax(self.scores)) if self.scores else 0
        if annealing.patience is not None and since >= annealing.patience:
            return Status.VALIDATION
        return Status.MAX_ITER if len(self.losses) >= annealing.epochs else None

    def hard(self, model: LMM) -> LMM:
        """The model with the present offsets."""
        return self.scaling.hard(model, *self.layers)

    def kept(self, model: LMM) -> LMM:
        """The one to keep: with something held out, the best."""
        return self.hard(model) if self._best is None else self.scaling.hard(model, *self._best)
