"""The paper's rival: a ReLU network.

It fits the library's own interface, so one training loop, one definition of the
loss and one progress bar serve both sides of a comparison.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import DTypeLike, NDArray

from maxplus.models import Model, SparseUpdate, Subgradient
from maxplus.models._softmax import log_softmax


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
        """He's start: N(0, 2 / fan-in), which keeps the scale through ReLU; zero biases."""
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
        """z, shape (N, C)."""
        return np.ascontiguousarray(self._forward(X)[-1].T)

    def losses_and_gradient(self, X: NDArray, y: NDArray) -> tuple[NDArray, NDArray]:
        """Each sample's loss, and the mean's gradient by ``theta``; one pass there and back."""
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
        """One sample's gradient, every entry listed: nothing here is sparse."""
        gradient = MLP(self.widths, self.losses_and_gradient(x[None], np.array([y]))[1])
        return Subgradient(
            (name, SparseUpdate(tuple(np.indices(G.shape).reshape(G.ndim, -1)), G.ravel()))
            for name in layers or self.layers
            for G in [getattr(gradient, name)]
        )

    def copy(self) -> MLP:
        """The same model with weights of its own."""
        return MLP(self.widths, self.theta.copy())

    def _forward(self, X: NDArray) -> tuple[NDArray, NDArray, NDArray, NDArray]:
        """Input, both hidden layers and scores; a sample is a column, which NumPy does faster."""
        A0 = _above_ones(X.T)
        A1 = _above_ones(np.maximum(self.W1 @ A0, 0.0))
        A2 = _above_ones(np.maximum(self.W2 @ A1, 0.0))
        return A0, A1, A2, self.W3 @ A2


def _above_ones(A: NDArray) -> NDArray:
    """A with a row of ones below it."""
    out = np.ones((len(A) + 1, A.shape[1]), A.dtype)
    out[:-1] = A
    return out
