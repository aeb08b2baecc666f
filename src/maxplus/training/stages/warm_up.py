"""Warm-up: annealed training of a soft model, which is then converted to an LMM."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from maxplus.distributed import Communicator
from maxplus.distributed.communicator import mark_collective
from maxplus.models import LMM, Model
from maxplus.training import memory
from maxplus.training.monitor import TrainingMonitor
from maxplus.training.problem import TrainingProblem
from maxplus.training.result import (
    StateError,
    Status,
    TrainingOverflowError,
    TrainingState,
    generator_state,
    prefixed,
)
from maxplus.training.smooth.annealing import Annealing, Augment, Batches
from maxplus.training.smooth.soft_lmm import Rescaling, SoftLMM
from maxplus.training.stages.base import Outcome


@dataclass(frozen=True)
class WarmUpOutcome(Outcome):
    """Result of a warm-up.

    ``losses`` are the mean soft losses of all epochs, ``validation`` the validation accuracies,
    empty without validation samples, and ``held_out`` the indices of the validation samples.
    """

    losses: NDArray
    validation: NDArray
    held_out: NDArray

    @property
    def n_iter(self) -> int:
        """The number of epochs."""
        return self.losses.size

    @property
    def arrays(self) -> dict[str, NDArray]:
        """The losses and, with held-out samples, the accuracies."""
        arrays = {"warmup_losses": self.losses}
        return arrays | ({"validation_scores": self.validation} if self.held_out.size else {})


@dataclass(frozen=True)
class WarmUp:
    """Stage that trains W1 and W2 by Adam on the mean loss of the soft model; W0 is not changed.

    The temperature has a lower bound, so that exponentials do not overflow in float32. With
    held-out samples, the accuracy of the LMM is computed on them after each epoch, the LMM with the
    highest accuracy is kept (the last one, if several are equal), and training ends after
    ``patience`` epochs without improvement, if given. O(epochs·N·P·H).

    Parameters
    ----------
    annealing : Annealing
        Its ``scale`` is the slope times the median L∞ distance of samples of different classes.
    margin : added to the scores of all wrong classes before the loss is computed
    augment : function that returns augmented samples, given the samples of a batch and a generator,
        optional
    hold_out : fraction of the samples of each class for validation; classes with a single sample
        are not held out
    patience : epochs without a better validation accuracy after which training ends, optional
    """

    annealing: Annealing
    margin: float = 0.0
    augment: Augment | None = None
    hold_out: float = 0.0
    patience: int | None = None

    name: ClassVar[str] = "warm-up"
    has_state: ClassVar[bool] = True

    def run(
        self,
        model: LMM,
        problem: TrainingProblem,
        monitor: TrainingMonitor,
        state: TrainingState | None = None,
    ) -> WarmUpOutcome:
        """Train a copy of the model; ``problem.rng`` draws held-out samples and batches."""
        memory.require(self.bytes_needed(model, problem), f"the {self.name}", memory.FEWER_UNITS)
        annealing, rng, comm = self.annealing, problem.rng, problem.comm
        assert rng is not None
        held_out = self._held_out(problem, rng) if state is None else state.arrays["held_out"]
        X, y, weight = problem.X, problem.y, problem.weight
        validation = problem.local_rows(held_out)
        if held_out.size:
            kept = np.setdiff1d(np.arange(len(y)), validation)
            X, y, weight = X[kept], y[kept], None if weight is None else weight[kept]
        if weight is not None:
            weight = weight / comm.mean(weight)
        scaling = comm.root_only(lambda rows: Rescaling.from_model(model, rows, annealing.scale), X)
        run = _Run(comm, scaling, model, held_out, rng)
        if state is not None:
            run.restore(state)
        rows, soft, counts = scaling.transform(X), run.soft, comm.allgather(len(y))
        schedule = annealing.schedule(sum(counts), coldest=scaling.coldest)
        n_batches, n_epochs = schedule.n_batches, schedule.n_epochs
        batches = Batches(comm, counts, schedule.batch, n_batches)
        status = run.status(n_epochs, self.patience)
        checkpoint = run.state()
        while status is None:
            epoch, epoch_loss = len(run.losses), 0.0
            parts, own_rng = batches.split(rng)
            for k, part in enumerate(parts):
                tau, rate = schedule.at(epoch * n_batches + k)
                batch_rows = rows[part]
                if self.augment is not None and part.size:
                    batch_rows = scaling.transform(augmented(self.augment, X[part], own_rng))
                own_weight = None if weight is None else weight[part]
                batch_weight = batches.share(k)
                if own_weight is not None and part.size:
                    # The gradient of a batch is proportional to the mean weight of its samples.
                    batch_weight *= float(own_weight.mean())
                margin = self.margin / annealing.scale
                # An overflow results in weights that are not finite, which are checked below.
                with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                    epoch_loss += soft.loss(
                        batch_rows, y[part], tau, margin, own_weight, batch_weight
                    )
                soft.move(rate)
                if monitor.interrupted:
                    break
            # The losses of a batch on all ranks add up to its mean loss.
            run.losses.append(float(comm.sum(np.array([epoch_loss / (k + 1)]))[0]))
            if not (math.isfinite(run.losses[-1]) and np.isfinite(soft.theta).all()):
                overflow = TrainingOverflowError(
                    "the warm-up overflowed: the slope times the distance between classes is "
                    f"{annealing.scale:g}; scale X (for example with StandardScaler) or use a "
                    "smaller slope"
                )
                raise mark_collective(overflow)
            if held_out.size:
                run.validate(problem.X[validation], problem.y[validation])
            if not monitor.interrupted:
                # Checkpoints are taken at the end of an epoch, so that no batch is repeated.
                checkpoint = run.state()
            status = monitor.report(
                epoch + 1,
                n_epochs,
                run.losses[-1],
                min(run.losses),
                run.model(soft.theta),
                lambda now=checkpoint: now,  # type: ignore[misc]
                None if monitor.interrupted else run.status(n_epochs, self.patience),
            )
        # The best weights if samples are held out, else the current ones.
        best = run.model(soft.theta if run.best is None else run.best)
        return WarmUpOutcome(best, status, np.array(run.losses), np.array(run.scores), held_out)

    def bytes_needed(self, model: LMM, problem: TrainingProblem) -> int:
        """Return an estimate of the peak memory of a run, in bytes."""
        (N, P), H, C = problem.X.shape, model.n_hidden, model.n_classes
        n = self.annealing.batch(N)
        weights = 4 * (2 * P + C) * H
        # The rows; the weights and Adam's two averages, their copies in the last state, and the
        # gradient with its factors.
        kept = 4 * N * P + 8 * weights
        if self.hold_out:
            kept += problem.X.nbytes + 2 * weights
        # Either the arrays of a batch, or, after an epoch, a new state and the LMM in float64.
        return kept + max(4 * n * (6 * H + 4 * P), 8 * weights)

    def check(self, state: TrainingState, problem: TrainingProblem, kind: type[Model]) -> Model:
        """Return the initial model; StateError if the warm-up cannot resume from the state."""
        model = problem.model_of(state, "model.", LMM)
        if state.generator is None:
            raise StateError("the state of the random generator is missing")
        for name in ("theta", "mean", "square", *["best"] * ("best" in state.arrays)):
            state.array(name, np.float32, (model.W1.size + model.W2.size,))
        if state.array("steps", np.int64, (1,))[0] < 0:
            raise StateError("its number of steps is negative")
        losses = state.array("losses", np.float64, (None,))
        held_out = state.array("held_out", np.int64, (None,))
        some = held_out.size < problem.n_samples and (np.diff(held_out) > 0).all()
        if held_out.size and not (some and held_out[0] >= 0 and held_out[-1] < problem.n_samples):
            raise StateError("its held-out samples are not a subset of the samples")
        scores = state.array("scores", np.float64, (losses.size if held_out.size else 0,))
        if ("best" in state.arrays) != bool(scores.size):
            raise StateError("its best weights and its scores are inconsistent")
        return model

    def _held_out(self, problem: TrainingProblem, rng: np.random.Generator) -> NDArray:
        """Return the held-out samples of all ranks, in ascending order."""
        if not self.hold_out:
            return np.empty(0, np.int64)
        seed = int(rng.integers(2**31))
        labels = problem.comm.gather(problem.y)
        return problem.comm.root_only(lambda _: self._split(labels, seed), problem.X)

    def _split(self, y: NDArray, seed: int) -> NDArray:
        # A class with a single sample is used for training only.
        several = np.flatnonzero(np.bincount(y)[y] > 1)
        try:
            _, held_out = train_test_split(
                several, test_size=self.hold_out, stratify=y[several], random_state=seed
            )
        except ValueError:
            raise ValueError(
                f"validation_fraction={self.hold_out} of {len(y)} samples leaves some "
                "classes without validation samples; use more samples, a larger fraction or "
                "early_stopping=False"
            ) from None
        return np.sort(held_out)


def augmented(augment: Augment, rows: NDArray, rng: np.random.Generator) -> NDArray:
    """Return the augmented rows of a batch, after validation of the result of ``augment``."""
    made = np.asarray(augment(rows, rng), rows.dtype)
    if made.shape != rows.shape or not np.isfinite(made).all():
        raise ValueError(
            f"augment must return finite numbers of the shape of its input, {rows.shape}; "
            f"got shape {made.shape}"
        )
    return made


class _Run:
    """Mutable state of a warm-up: weights, Adam's averages, losses and scores."""

    def __init__(
        self,
        comm: Communicator,
        scaling: Rescaling,
        start: LMM,
        held_out: NDArray,
        rng: np.random.Generator,
    ) -> None:
        self._comm, self._scaling, self._start = comm, scaling, start
        self._held_out, self._rng = held_out, rng
        self.soft = SoftLMM(comm, scaling.W0, *scaling.rescaled_weights(start), scaling.size)
        self.losses: list[float] = []
        self.scores: list[float] = []
        self.best: NDArray | None = None

    def restore(self, state: TrainingState) -> None:
        """Continue from a state that `WarmUp.check` has validated."""
        self.soft.restore(state.arrays)
        self.losses, self.scores = (state.arrays[name].tolist() for name in ("losses", "scores"))
        self.best = state.arrays.get("best")
        state.restore_generator(self._rng)

    def state(self) -> TrainingState:
        """Return a copy of the state."""
        arrays = prefixed("model.", self._start.weights_by_name()) | self.soft.state()
        arrays |= {
            "held_out": self._held_out,
            "losses": np.array(self.losses),
            "scores": np.array(self.scores),
        }
        if self.best is not None:
            arrays["best"] = self.best
        return TrainingState(WarmUp.name, arrays, generator_state(self._rng))

    def validate(self, X: NDArray, y: NDArray) -> None:
        """Record the accuracy of the LMM, and its weights if no earlier accuracy is higher."""
        is_correct = self.model(self.soft.theta).scores(X).argmax(axis=1) == y
        self.scores.append(self._comm.total(int(is_correct.sum())) / self._comm.total(len(y)))
        if self.scores[-1] >= max(self.scores):
            self.best = self.soft.theta.copy()

    def status(self, n_epochs: int, patience: int | None) -> Status | None:
        """Return the status if all epochs are done or the accuracy stopped improving, else None."""
        n_stagnant = len(self.scores) - 1 - int(np.argmax(self.scores)) if self.scores else 0
        if patience is not None and n_stagnant >= patience:
            return Status.VALIDATION
        return Status.MAX_ITER if len(self.losses) >= n_epochs else None

    def model(self, theta: NDArray) -> LMM:
        """Return the LMM with the weights ``theta``."""
        return self._scaling.to_lmm(self._start, *self.soft.layers(theta))
