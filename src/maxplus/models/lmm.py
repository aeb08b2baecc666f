"""Linear-Min-Max networks: the paper's model with one hidden layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus._jit import frozen
from maxplus.algebra._kernels import PARALLEL_FROM, ROWS_PER_TASK
from maxplus.models import _lmm_kernels
from maxplus.models.base import Entries, Model, Subgradient


class ActivePath(NamedTuple):
    """What decided each score: ``unit[n, d]`` and, inside that unit, ``row[n, d]``.

    Row i belongs to feature i // 2; even rows have the + slope, odd rows the −.
    """

    unit: NDArray
    row: NDArray


class LMM(Model):
    """λ_i = W0[i]·x[i // 2], g_h = min_i (λ_i + W1[i, h]), z_d = max_h (g_h + W2[h, d]).

    Parameters
    ----------
    W0 : array of shape (2P,)
        The two slopes of each feature, + then −. It is the paper's sparse
        matrix W⁰ with its fixed pattern: only entry (i, p(i)) exists.
    W1 : array of shape (2P, H)
    W2 : array of shape (H, C)

    Notes
    -----
    W1 and W2 are held in Fortran order, so that their columns, over which
    minimum and maximum run, are contiguous.
    """

    layers = ("W2", "W1", "W0")

    def __init__(self, W0: NDArray, W1: NDArray, W2: NDArray) -> None:
        self.W0 = np.ascontiguousarray(W0)
        self.W1 = np.asfortranarray(W1)
        self.W2 = np.asfortranarray(W2)

    @property
    def n_features(self) -> int:
        """Number of inputs P."""
        return self.W0.size // 2

    @property
    def n_hidden(self) -> int:
        """Number of hidden units H."""
        return self.W1.shape[1]

    @property
    def n_classes(self) -> int:
        """Number of classes C."""
        return self.W2.shape[1]

    @property
    def dtype(self) -> np.dtype:
        """Float type of weights and scores."""
        return self.W0.dtype

    @property
    def weights(self) -> _lmm_kernels.LMMWeights:
        """Views of the weights as kernels take them; a kernel that writes there moves the model."""
        return _lmm_kernels.LMMWeights(self.W0, self.W1.T, self.W2.T)

    def hidden(self, X: NDArray) -> NDArray:
        """g, shape (N, H): the margin of each sample to each unit's box; O(N·P·H)."""
        G = np.empty((len(X), self.n_hidden), self.dtype)
        _lmm_kernels.hidden_rows(frozen(np.ascontiguousarray(X, self.dtype)), self.weights, G)
        return G

    def scores(self, X: NDArray) -> NDArray:
        """z, shape (N, C); O(N·P·H), parallel over samples, no N × H array is formed."""
        Z = np.empty((len(X), self.n_classes), self.dtype)
        large = len(X) * self.W1.size >= PARALLEL_FROM
        kernel = _lmm_kernels.scores_parallel if large else _lmm_kernels.scores_serial
        kernel(frozen(np.ascontiguousarray(X, self.dtype)), self.weights, Z)
        return Z

    def wins(self, X: NDArray) -> NDArray:
        """How many (sample, class) scores each unit decides, shape (H,); O(N·P·H)."""
        tasks = -(-len(X) // ROWS_PER_TASK)
        wins = np.zeros((tasks, self.n_hidden), np.int64)
        _lmm_kernels.count_wins(frozen(np.ascontiguousarray(X, self.dtype)), self.weights, wins)
        return wins.sum(axis=0)

    def active_path(self, X: NDArray) -> ActivePath:
        """Winning unit and row of every score, lowest among equals; O(N·P·H)."""
        path = ActivePath(*(np.empty((len(X), self.n_classes), np.int64) for _ in range(2)))
        for n, x in enumerate(X):
            grad = self._forward(x)
            path.unit[n], path.row[n] = grad.h_star, grad.i_star
        return path

    def subgradient(self, x: NDArray, y: int, layers: Sequence[str] | None = None) -> Subgradient:
        """∂/∂W2[h*_d, d] = e_d, ∂/∂W1[i*_d, h*_d] += e_d, ∂/∂W0[i*_d] += e_d·x[p(i*_d)].

        At most C entries per layer; classes that share an entry are summed (the
        appendix's form). O(P·H).
        """
        wanted = self.layers if layers is None else tuple(layers)
        grad = self._forward(x)
        _lmm_kernels.subgradient_entries(x, y, "W0" in wanted, grad)
        n1, n0 = grad.n
        full = Subgradient(
            W2=Entries((grad.h_star, np.arange(self.n_classes)), grad.e),
            W1=Entries((grad.row1[:n1], grad.unit1[:n1]), grad.value1[:n1]),
            W0=Entries((grad.row0[:n0],), grad.value0[:n0]),
        )
        return full.only(wanted)

    def on_raw_inputs(self, centre: NDArray, scale: NDArray) -> LMM:
        """The same function of x, for a model that was made for (x − centre) / scale.

        A row's W0·(x − c)/s + W1 is (W0/s)·x + (W1 − W0·c/s): slopes and offsets take the
        scaling in, up to rounding.
        """
        c, s = np.repeat(centre, 2), np.repeat(scale, 2)
        slopes = (self.W0 / s).astype(self.dtype)
        return LMM(slopes, (self.W1 - (self.W0 * c / s)[:, None]).astype(self.dtype), self.W2)

    def copy(self) -> LMM:
        """The same model with weights of its own."""
        return LMM(self.W0.copy(), self.W1.copy("F"), self.W2.copy("F"))

    def _forward(self, x: NDArray) -> _lmm_kernels.LMMGradient:
        grad = _lmm_kernels.empty_gradient(self.n_classes, self.dtype)
        lam = np.empty(self.W0.size, self.dtype)
        g = np.empty(self.n_hidden, self.dtype)
        x = frozen(np.ascontiguousarray(x, self.dtype))
        _lmm_kernels.active_path(x, self.weights, lam, g, grad.z, grad.h_star, grad.i_star)
        return grad
