"""Adam on the mean loss, as the paper trains its MLP."""

from __future__ import annotations

import numpy as np

from experiments.rivals.mlp import MLP
from maxplus.training import MeanLoss, TrainingProblem
from maxplus.training.engines import Engine
from maxplus.training.result import Block
from maxplus.training.smooth import Adam


class AdamEngine(Engine):
    """Adam (Kingma & Ba, 2015) on all samples, or on a random batch, at each iteration.

    The step rule's ``alpha`` is Adam's rate. ``best`` is the present model: what
    Adam ends with is what the paper reports. The history's loss is the batch's.

    Parameters
    ----------
    model : MLP
    problem : TrainingProblem
    batch : int, optional
        Samples per iteration, drawn with ``problem.rng``; all of them by default.
    """

    name = "adam"
    objectives = (MeanLoss,)
    models = (MLP,)
    model: MLP

    def __init__(self, model: MLP, problem: TrainingProblem, batch: int | None = None) -> None:
        super().__init__(model, problem)
        self._batch = batch
        self._rng = np.random.default_rng() if problem.rng is None else problem.rng
        self._adam = Adam.begin(model.theta, beta2=0.999)

    def advance(self, block: Block) -> None:
        """Do the iterations that ``block`` has room for."""
        X, y, objective = self.problem.X, self.problem.y, self.problem.objective
        rate = self.problem.step.alpha
        while block.n < block.loss.size:
            if self._batch is not None:
                drawn = self._rng.integers(len(self.problem.y), size=self._batch)
                X, y = self.problem.X[drawn], self.problem.y[drawn]
            losses, g = self.model.losses_and_gradient(X, y)
            at = objective.value(losses, None)
            self._kept = self._kept._replace(loss=min(self.best_loss, at.loss))
            self.iteration += 1
            block.record(at.loss, at.sample, rate)
            self._adam.move(g, rate)

    @property
    def best(self) -> MLP:
        """The present model."""
        return self.model
