"""What is to be trained on, and how: everything a stage needs besides the model."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from maxplus._compile.jit import frozen
from maxplus.distributed import Team, current
from maxplus.models.base import M, Network
from maxplus.training.objectives import MaxLoss, Objective
from maxplus.training.state import StateError, TrainingState
from maxplus.training.steps import StepRule, polyak


@dataclass(frozen=True)
class Task:
    """Samples, objective and step rule.

    Attributes
    ----------
    X : array of shape (N, P), C order, in the model's float type
    y : array of shape (N,): classes 0..C−1, whole numbers; or a regression's targets
    objective : what an engine minimises; one of your own trains with ``DenseEngine``
    step : how far each of its iterations goes; from `polyak`, `constant`, `level` or `two_phase`
    linear_every : W0 moves at iterations t with (t + 1) % linear_every == 0; 0 is never
    start : the iteration number t of the first iteration
    weight : positive sample weights of shape (N,), or None; they matter for a mean only
    rng : randomness of stages that draw or shuffle samples
    team : the ranks that train together; X, y and weight are the rows of this one
    n_samples : how many samples all ranks have
    first_sample : the number that this rank's first sample has among all
    """

    X: NDArray
    y: NDArray
    objective: Objective = field(default_factory=MaxLoss)
    step: StepRule = field(default_factory=polyak)
    linear_every: int = 1
    start: int = 0
    weight: NDArray | None = None
    rng: np.random.Generator | None = None
    team: Team = field(default_factory=current)
    n_samples: int = field(init=False)
    first_sample: int = field(init=False)

    def __post_init__(self) -> None:
        """Freeze the samples, which are only read, and count those of all ranks.

        Labels in a row: for others, kernels would be compiled once more.
        """
        if not isinstance(self.step, StepRule):
            raise TypeError(
                f"step must be a StepRule, got {self.step!r:.60}; make one with polyak, constant, "
                "level or two_phase of maxplus.training.steps, for example step=polyak()"
            )
        object.__setattr__(self, "X", frozen(self.X))
        object.__setattr__(self, "y", frozen(np.ascontiguousarray(self.y)))
        counts = self.team.every(len(self.y))
        object.__setattr__(self, "n_samples", sum(counts))
        object.__setattr__(self, "first_sample", sum(counts[: self.team.rank]))

    def own(self, numbers: NDArray) -> NDArray:
        """Those of some samples that are this rank's, by their places in X."""
        places = numbers - self.first_sample
        return places[(places >= 0) & (places < len(self.y))]

    def rows(self, numbers: NDArray) -> tuple[NDArray, NDArray, NDArray]:
        """(X, y, places) of some samples in ascending order, on every rank.

        They are at these places of X and y, which hold nothing else if others' are among them.
        """
        if self.team.is_alone:
            return self.X, self.y, numbers
        places = self.own(numbers)
        X, y = self.team.gather(self.X[places]), self.team.gather(self.y[places])
        return X, y, np.arange(len(y))

    def losses(self, model: Network) -> NDArray:
        """The losses of all ranks' samples."""
        X = np.ascontiguousarray(self.X, model.dtype)
        return self.team.gather(model.losses(X, self.y))

    def model_of(self, state: TrainingState, prefix: str, kind: type[M]) -> M:
        """A model whose weights a state holds; StateError if it is none, or not for X."""
        try:
            model = kind.of_weights(state.part(prefix))
        except ValueError as error:
            raise StateError(str(error)) from None
        if (model.n_features, model.dtype) != (self.X.shape[1], self.X.dtype):
            raise StateError(
                f"its weights are for {model.n_features} features of {model.dtype}, but X has "
                f"{self.X.shape[1]} of {self.X.dtype}"
            )
        return model
