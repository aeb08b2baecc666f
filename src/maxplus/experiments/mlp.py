"""The paper's rival: a ReLU network, trained by Adam on the mean loss.

Model and engine fit the library's own interfaces, so one training loop, one
definition of the loss and one progress bar serve both sides of a comparison.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from maxplus.models import Entries, Model, Subgradient
from maxplus.models._softmax import log_softmax
from maxplus.training import Task
from maxplus.training.engines import Engine
from maxplus.training.result import Block


class MLP(Model):
    """z = W3·relu(W2·relu(W1·x + b1) + b2) + b3, on rows x.

    All weights live in one vector ``theta``, of which the layers are views: an
    optimiser moves them all in one go.

    Parameters
    ----------
    widths : (P, first hidden layer, second hidden layer, C)
    theta : vector of all weights, in the order of ``layers``; zeros by default
    """

    layers = ("W1", "b1", "W2", "b2", "W3", "b3")

    def __init__(self, widths: tuple[int, int, int, int], theta: NDArray | None = None) -> None:
        P, H1, H2, C = self.widths = widths
        shapes = ((P, H1), (H1,), (H1, H2), (H2,), (H2, C), (C,))
        sizes = [math.prod(shape) for shape in shapes]
        self.theta = np.zeros(sum(sizes)) if theta is None else theta
        parts = np.split(self.theta, np.cumsum(sizes)[:-1])
        self.W1, self.b1, self.W2, self.b2, self.W3, self.b3 = (
            part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)
        )

    @classmethod
    def random(cls, widths: tuple[int, int, int, int], rng: np.random.Generator) -> MLP:
        """He's start: N(0, 2 / fan-in), which keeps the scale through ReLU; zero biases."""
        model = cls(widths)
        for W in (model.W1, model.W2, model.W3):
            W[:] = rng.normal(0.0, math.sqrt(2 / len(W)), W.shape)
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
        """z, shape (N, C)."""
        return self._forward(X)[-1]

    def losses_and_gradient(self, X: NDArray, y: NDArray) -> tuple[NDArray, NDArray]:
        """Each sample's loss, and the mean's gradient by ``theta``; one pass there and back."""
        A1, A2, Z = self._forward(X)
        log_p = log_softmax(Z)
        true = np.arange(len(y)), y
        E3 = np.exp(log_p)
        E3[true] -= 1.0
        E3 /= len(y)
        E2 = (E3 @ self.W3.T) * (A2 > 0)
        E1 = (E2 @ self.W2.T) * (A1 > 0)
        pairs = ((X, E1), (A1, E2), (A2, E3))
        parts = [g for A, E in pairs for g in ((A.T @ E).ravel(), E.sum(axis=0))]
        return -log_p[true], np.concatenate(parts)

    def subgradient(self, x: NDArray, y: int, layers: Sequence[str] | None = None) -> Subgradient:
        """One sample's gradient, every entry listed: nothing here is sparse."""
        gradient = MLP(self.widths, self.losses_and_gradient(x[None], np.array([y]))[1])
        return Subgradient(
            (name, Entries(tuple(np.indices(G.shape).reshape(G.ndim, -1)), G.ravel()))
            for name in layers or self.layers
            for G in [getattr(gradient, name)]
        )

    def copy(self) -> MLP:
        """The same model with weights of its own."""
        return MLP(self.widths, self.theta.copy())

    def _forward(self, X: NDArray) -> tuple[NDArray, NDArray, NDArray]:
        """Both hidden layers and the scores."""
        A1 = np.maximum(X @ self.W1 + self.b1, 0.0)
        A2 = np.maximum(A1 @ self.W2 + self.b2, 0.0)
        return A1, A2, A2 @ self.W3 + self.b3


class AdamEngine(Engine):
    """Adam (Kingma & Ba, 2015) on all samples at each iteration.

    The step rule's ``alpha`` is Adam's rate. ``best`` is the present model: what
    Adam ends with is what the paper reports.
    """

    name = "adam"
    objectives = ("mean",)
    models = (MLP,)
    model: MLP

    BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8

    def __init__(self, model: MLP, task: Task) -> None:
        super().__init__(model, task)
        self._m = np.zeros_like(model.theta)
        self._v = np.zeros_like(model.theta)

    def advance(self, block: Block) -> None:
        """Do the iterations that ``block`` has room for."""
        X, y, objective = self.task.X, self.task.y, self.task.objective
        while block.n < block.loss.size:
            losses, g = self.model.losses_and_gradient(X, y)
            at = objective.value(losses, None)
            self.best_loss = min(self.best_loss, at.loss)
            self.iteration += 1
            block.record(at.loss, at.sample, self.task.step.alpha)
            self._m += (1 - self.BETA1) * (g - self._m)
            self._v += (1 - self.BETA2) * (g * g - self._v)
            m = self._m / (1 - self.BETA1**self.iteration)
            v = self._v / (1 - self.BETA2**self.iteration)
            self.model.theta -= self.task.step.alpha * m / (np.sqrt(v) + self.EPSILON)

    @property
    def best(self) -> MLP:
        """The present model."""
        return self.model
