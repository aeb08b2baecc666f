"""Regression: annealed training of the soft model's one output; the hard model comes out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.models import LMM, Model
from maxplus.training import memory
from maxplus.training.conductor import Conductor
from maxplus.training.result import Status, TrainingOverflowError
from maxplus.training.smooth import Adam
from maxplus.training.smooth.soft_regression import SoftRegression
from maxplus.training.stages.base import Outcome
from maxplus.training.stages.warm_up import Schedule
from maxplus.training.state import StateError, TrainingState
from maxplus.training.task import Task


class Cooling(NamedTuple):
    """How a curve is trained; temperatures and rate are in deviations of the target.

    ``drift`` is the rate of the directions relative to that of the offsets: 0 leaves them as
    they are. Entries of D that are 0 move only where it ``mixes``.
    """

    epochs: int
    batch: int
    hot: float = 1.0
    cold: float = 0.01
    rate: float = 0.02
    drift: float = 0.33
    mixes: bool = False


@dataclass(frozen=True)
class Curved(Outcome):
    """Each epoch's mean soft loss."""

    losses: NDArray

    @property
    def n_iter(self) -> int:
        """Epochs that were done."""
        return self.losses.size

    @property
    def facts(self) -> dict[str, NDArray]:
        """The course of the loss."""
        return {"warmup_losses": self.losses}


@dataclass(frozen=True)
class Curve:
    """Train directions, W1 and W2 by Adam on the soft model's mean loss, from hot to cold.

    The task's ``y`` are targets with a deviation of about 1, and the model has directions and one
    output. O(epochs·N·M·(P + H)).
    """

    cooling: Cooling
    loss: str = "squared"

    name: ClassVar[str] = "curve"
    has_state: ClassVar[bool] = False

    def run(
        self, model: LMM, task: Task, conductor: Conductor, state: TrainingState | None = None
    ) -> Curved:
        """Train a copy of the model; ``task.rng`` shuffles."""
        memory.require(self.bytes_needed(model, task), f"the {self.name}", memory.FEWER_UNITS)
        assert task.rng is not None
        assert model.directions is not None
        epochs, batch = self.cooling.epochs, min(self.cooling.batch, len(task.y))
        n_batches = max(1, len(task.y) // batch)
        hot, cold, rate = self.cooling.hot, self.cooling.cold, self.cooling.rate
        schedule = Schedule(hot, cold, rate, epochs * n_batches)
        weight = None if task.weight is None else task.weight / task.weight.mean()
        soft = SoftRegression(model.W0, self.loss)
        D, W1T, W2 = model.directions.copy(), model.W1.T.copy(), model.W2[:, 0].copy()
        movable = np.ones_like(D) if self.cooling.mixes else (D != 0.0).astype(D.dtype)
        adam = [Adam.begin(W) for W in (D, W1T, W2)]
        losses: list[float] = []
        status = None
        while status is None:
            order, epoch_loss = task.rng.permutation(len(task.y)), 0.0
            for k in range(n_batches):
                tau, rate = schedule.at(len(losses) * n_batches + k)
                part = order[k * batch : (k + 1) * batch]
                own = None if weight is None else weight[part]
                gradient = soft.gradient(task.X[part], task.y[part], D, W1T, W2, tau, own)
                if self.cooling.drift:
                    adam[0].move(gradient.directions * movable, self.cooling.drift * rate)
                adam[1].move(gradient.W1, rate)
                adam[2].move(gradient.W2, rate)
                epoch_loss += gradient.loss
                if conductor.interrupted:
                    break
            losses.append(epoch_loss / (k + 1))
            if not math.isfinite(epoch_loss):
                raise TrainingOverflowError(
                    "the training of the curve overflowed: y has values that are too far from the "
                    "others; leave them out, or bring them closer"
                )
            model = LMM(model.W0, W1T.T.copy("F"), W2[:, None].copy(), D.copy())
            over = len(losses) == epochs and not conductor.interrupted
            status = conductor.report(
                len(losses), epochs, losses[-1], min(losses), model, None,
                Status.MAX_ITER if over else None,
            )  # fmt: skip
        return Curved(model, status, np.array(losses))

    def bytes_needed(self, model: LMM, task: Task) -> int:
        """Memory that a run takes at its peak, about; all of it in float64."""
        P, M, H = task.X.shape[1], model.n_views, model.n_hidden
        n = min(self.cooling.batch, len(task.y))
        # Directions and offsets, each with Adam's two memories, a gradient, the model of the last
        # epoch and the kernel's own; of a batch its rows and views; the order of the samples.
        return 8 * (7 * M * P + 6 * 2 * M * H + n * (P + 9 * M) + len(task.y))

    def check(self, state: TrainingState, task: Task, kind: type[Model]) -> Model:
        """A curve is trained in one go."""
        raise StateError("a curve cannot go on from the middle of its training")
