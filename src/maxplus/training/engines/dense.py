"""The dense engine: the reference implementation of the subgradient iterations."""

from __future__ import annotations

import math

from maxplus.training.engines.base import Best, Engine
from maxplus.training.engines.step import updates_w0
from maxplus.training.result import Block, Signal
from maxplus.training.steps import step_size


class DenseEngine(Engine):
    """Engine that evaluates all samples in each iteration, W_{t+1} = W_t − α_t·L'(W_t).

    O(N·P·H) per iteration. It minimises any objective of any model, in a single process. The tree
    and sparse engines give bit-identical iterates for the objectives that they minimise.

    Parameters
    ----------
    model : Model
        The model to train, in place.
    problem : TrainingProblem
    """

    name = "dense"

    @classmethod
    def minimises(cls, objective: type) -> bool:
        """Return True: any objective is supported."""
        return True

    def advance(self, block: Block) -> None:
        """Run the remaining iterations of ``block``."""
        problem, objective = self.problem, self.problem.objective
        while block.n < block.loss.size:
            t = self.iteration
            losses = self.model.losses(problem.X, problem.y)
            at = objective.value(losses, problem.weight)
            if at.loss < self.best_loss:
                # A copy costs O(P·H), N times less than the forward pass before it.
                self._kept = Best(at.loss, self.model.copy())
            self.iteration = t + 1

            if at.loss <= self.step.target:
                return block.end(at.loss, at.sample, Signal.TARGET)
            if not math.isfinite(at.loss):
                return block.end(at.loss, at.sample, Signal.OVERFLOW)
            G = objective.subgradient(self.model, problem, at, self._layers(t))
            alpha = step_size(self.step, t, at.loss, G.squared_norm())
            if alpha == 0.0:
                return block.end(at.loss, at.sample, Signal.STATIONARY)
            block.record(at.loss, at.sample, alpha)
            self.model.move(G, alpha)
        return None

    def _layers(self, t: int) -> tuple[str, ...]:
        """Return the layers that iteration t updates."""
        if updates_w0(t, self.problem.w0_update_interval):
            return self.model.layers
        return tuple(name for name in self.model.layers if name != "W0")
