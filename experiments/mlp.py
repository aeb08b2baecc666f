"""ReLU network and its training by Adam, which the paper compares with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import DTypeLike, NDArray

from maxplus.models import Model, SparseUpdate, Subgradient
from maxplus.models._softmax import log_softmax
from maxplus.training import MeanLoss, TrainingProblem
from maxplus.training.engines import Engine
from maxplus.training.result import Block
from maxplus.training.smooth import Adam


class MLP(Model):
    """z = W3·a2, a2 = relu(W2·a1), a1 = relu(W1·x), a 1 put below x, a1 and a2.

    Thus the last column of each W is the bias. All weights live in one vector
    ``theta``, of which the layers are views: an optimiser moves them all in one go.

    Parameters
    ----------
    widths : (P, first hidden layer, second hidden layer, C)
    theta : vector of all weights, in the order of ``layers``; zeros by default
    """

    layers = ("W1", "W2", "W3")

    def __init__(self, widths: tuple[int, int, int, int], theta: NDArray | None = None) -> None:
        self.widths = widths
        shapes = [(out, into + 1) for into, out in pairwise(widths)]
        sizes = [math.prod(shape) for shape in shapes]
        self.theta = np.zeros(sum(sizes)) if theta is None else theta
        parts = np.split(self.theta, np.cumsum(sizes)[:-1])
        self.W1, self.W2, self.W3 = (
            part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)
        )

    @classmethod
    def random(
        cls,
        widths: tuple[int, int, int, int],
        rng: np.random.Generator,
        dtype: DTypeLike = np.float64,
    ) -> MLP:
        """Return He's initialisation: N(0, 2 / fan-in), and zero biases."""
        n_weights = sum(out * (into + 1) for into, out in pairwise(widths))
        model = cls(widths, np.zeros(n_weights, dtype))
        for W, fan_in in zip((model.W1, model.W2, model.W3), widths, strict=False):
            W[:, :-1] = rng.normal(0.0, math.sqrt(2 / fan_in), (len(W), fan_in))
        return model

    @property
    def n_features(self) -> int:
        """Number of inputs P."""
        return self.widths[0]

    @property
    def n_classes(self) -> int:
        """Number of classes C."""
        return self.widths[-1]

    @property
    def dtype(self) -> np.dtype:
        """Float type of weights and scores."""
        return self.theta.dtype

    def scores(self, X: NDArray) -> NDArray:
        """Return z, shape (N, C)."""
        return np.ascontiguousarray(self._forward(X)[-1].T)

    def losses_and_gradient(self, X: NDArray, y: NDArray) -> tuple[NDArray, NDArray]:
        """Return each sample's loss, and the gradient of their mean by ``theta``."""
        A0, A1, A2, Z = self._forward(X)
        log_p = log_softmax(Z.T)
        true = np.arange(len(y)), y
        E = np.exp(log_p)
        E[true] -= 1.0
        E3 = E.T / len(y)
        E2 = (self.W3[:, :-1].T @ E3) * (A2[:-1] > 0)
        E1 = (self.W2[:, :-1].T @ E2) * (A1[:-1] > 0)
        gradient = [(E1 @ A0.T).ravel(), (E2 @ A1.T).ravel(), (E3 @ A2.T).ravel()]
        return -log_p[true], np.concatenate(gradient)

    def subgradient(self, x: NDArray, y: int, layers: Sequence[str] | None = None) -> Subgradient:
        """Return one sample's gradient with all its entries: it is not sparse."""
        gradient = MLP(self.widths, self.losses_and_gradient(x[None], np.array([y]))[1])
        return Subgradient(
            (name, SparseUpdate(tuple(np.indices(G.shape).reshape(G.ndim, -1)), G.ravel()))
            for name in layers or self.layers
            for G in [getattr(gradient, name)]
        )

    def copy(self) -> MLP:
        """Return a copy with weights of its own."""
        return MLP(self.widths, self.theta.copy())

    def _forward(self, X: NDArray) -> tuple[NDArray, NDArray, NDArray, NDArray]:
        """Return input, hidden layers and scores, samples as columns, which is faster in NumPy."""
        A0 = _above_ones(X.T)
        A1 = _above_ones(np.maximum(self.W1 @ A0, 0.0))
        A2 = _above_ones(np.maximum(self.W2 @ A1, 0.0))
        return A0, A1, A2, self.W3 @ A2


def _above_ones(A: NDArray) -> NDArray:
    """Return A with a row of ones below it."""
    out = np.ones((len(A) + 1, A.shape[1]), A.dtype)
    out[:-1] = A
    return out


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
        """Run the iterations of a block."""
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
