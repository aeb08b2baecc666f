"""ReLU network and its training by Adam, which the paper compares with."""

from __future__ import annotations

import math
import time
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from maxplus.models._softmax import log_softmax, losses
from maxplus.training.monitor import Callback, Progress
from maxplus.training.smooth import Adam

# Seconds between two reports to a callback.
INTERVAL = 0.2


class MLP:
    """z = W3·a2, a2 = relu(W2·a1), a1 = relu(W1·x), a 1 put below x, a1 and a2.

    Thus the last column of each W is the bias. All weights are in one vector ``theta``, of which
    the layers are views, so that Adam updates them at once.

    Parameters
    ----------
    widths : (P, first hidden layer, second hidden layer, C)
    theta : vector of all weights, layer by layer
    """

    def __init__(self, widths: tuple[int, int, int, int], theta: NDArray) -> None:
        self.theta = theta
        shapes = [(out, into + 1) for into, out in pairwise(widths)]
        parts = np.split(theta, np.cumsum([math.prod(shape) for shape in shapes])[:-1])
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

    def scores(self, X: NDArray) -> NDArray:
        """Return z, shape (N, C)."""
        return np.ascontiguousarray(self._forward(X)[-1].T)

    def losses(self, X: NDArray, y: NDArray) -> NDArray:
        """Return the cross-entropy of each sample, shape (N,)."""
        out = np.empty(len(y))
        losses(self.scores(X), y, out)
        return out

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


def train_by_adam(
    model: MLP,
    X: NDArray,
    y: NDArray,
    rate: float,
    iterations: int,
    *,
    batch: int | None = None,
    rng: np.random.Generator | None = None,
    callback: Callback = lambda progress: None,
) -> tuple[float, NDArray]:
    """Minimise the mean loss by Adam (Kingma & Ba, 2015); return seconds and the loss curve.

    Parameters
    ----------
    model : MLP, changed in place
    X, y : samples, and classes 0..C−1
    rate, iterations : of Adam
    batch : samples of an iteration, drawn by ``rng``; all of them by default
    callback : called about five times a second
    """
    rng = rng or np.random.default_rng()
    adam, curve = Adam(model.theta, beta2=0.999), np.empty(iterations)
    began = reported = time.perf_counter()
    X_batch, y_batch = X, y
    for n in range(iterations):
        if batch is not None:
            drawn = rng.integers(len(y), size=batch)
            X_batch, y_batch = X[drawn], y[drawn]
        each, gradient = model.losses_and_gradient(X_batch, y_batch)
        curve[n] = each.mean()
        adam.move(gradient, rate)
        now, is_last = time.perf_counter(), n == iterations - 1
        if is_last or now - reported > INTERVAL:
            reported, best = now, float(curve[: n + 1].min())
            state: Any = (curve[n], best, now - began, model, is_last, None)
            callback(Progress("iterations", n + 1, iterations, *state))
    return time.perf_counter() - began, curve
