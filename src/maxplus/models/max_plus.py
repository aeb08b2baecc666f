"""Models with one max-plus layer, applied to the features or to a dense linear layer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from maxplus.algebra._kernels import maxplus_winners, product_into
from maxplus.models import _softmax
from maxplus.models._checks import check_weights
from maxplus.models.base import Model, SparseUpdate, Subgradient


class _MaxPlusModel(Model):
    """z_d = max_k (a_k(x) + V[d, k]) with inputs a(x) that subclasses define."""

    @property
    @abstractmethod
    def _output_weights(self) -> NDArray:
        """V, shape (C, K)."""

    @abstractmethod
    def _inputs(self, X: NDArray) -> NDArray:
        """Return a, shape (N, K)."""

    @property
    def n_classes(self) -> int:
        """Number of classes C."""
        return self._output_weights.shape[0]

    def scores(self, X: NDArray) -> NDArray:
        """Return z, shape (N, C)."""
        a = self._inputs(X)
        Z = np.empty((len(a), self.n_classes), self.dtype)
        product_into(a, self._output_weights, False, Z)
        return Z

    def active_path(self, X: NDArray) -> NDArray:
        """Return the winning feature or hidden unit of each score.

        Ties are broken by the lowest index.

        Parameters
        ----------
        X : array of shape (N, P)

        Returns
        -------
        array of shape (N, C)
        """
        return maxplus_winners(self._inputs(X), self._output_weights)[1]

    def _error(self, a: NDArray, y: int) -> tuple[NDArray, NDArray]:
        """Return the winner k*_d of each class and e_d, for the inputs (1, K) of one sample."""
        z, winners = maxplus_winners(a, self._output_weights)
        e = np.empty(self.n_classes)
        _softmax.softmax_error(z[0], y, e)
        return winners[0], e


class ZeroHidden(_MaxPlusModel):
    """z_d(x) = max_p (x_p + W[d, p]) (the paper's equation 1); scores take O(N·P·C).

    Parameters
    ----------
    W : array of shape (C, P)
    """

    layers = ("W",)

    def __init__(self, W: NDArray) -> None:
        self.W = np.ascontiguousarray(W)
        check_weights("ZeroHidden", {"W": "C, P"}, self.W)

    @property
    def n_features(self) -> int:
        """Number of inputs P."""
        return self.W.shape[1]

    @property
    def _output_weights(self) -> NDArray:
        return self.W

    def _inputs(self, X: NDArray) -> NDArray:
        return self._rows(X)

    def subgradient(self, x: NDArray, y: int, layers: Sequence[str] | None = None) -> Subgradient:
        """Return ∂/∂W[d, p*_d] = e_d: C entries (the paper's equation 3)."""
        x, y = self._sample(x, y)
        p_star, e = self._error(x[None], y)
        full = Subgradient(W=SparseUpdate((np.arange(self.n_classes), p_star), e))
        return full.only(self.layers if layers is None else layers)


class LinearMaxPlus(_MaxPlusModel):
    """a(x) = max(0, xA + b), z_d(x) = max_h (a_h(x) + W[h, d]); scores take O(N·H·(P + C)).

    The model of the sparsity figures in the paper (after Zhang et al., 2019). Its linear layer is
    dense, so a subgradient has up to P entries for each winning unit, at most C·P.

    Parameters
    ----------
    A : array of shape (P, H)
    b : array of shape (H,)
    W : array of shape (H, C)
    """

    layers = ("W", "A", "b")

    def __init__(self, A: NDArray, b: NDArray, W: NDArray) -> None:
        self.A, self.b, self.W = np.asfortranarray(A), np.ascontiguousarray(b), np.asfortranarray(W)
        shapes = {"A": "P, H", "b": "H", "W": "H, C"}
        check_weights("LinearMaxPlus", shapes, self.A, self.b, self.W)

    @property
    def n_features(self) -> int:
        """Number of inputs P."""
        return self.A.shape[0]

    @property
    def n_hidden(self) -> int:
        """Number of hidden units H."""
        return self.A.shape[1]

    @property
    def _output_weights(self) -> NDArray:
        return self.W.T

    def _inputs(self, X: NDArray) -> NDArray:
        return self.hidden(X)

    def hidden(self, X: NDArray) -> NDArray:
        """Return a, shape (N, H): the output of the linear layer and ReLU.

        Parameters
        ----------
        X : array of shape (N, P)

        Returns
        -------
        array of shape (N, H)
        """
        return np.maximum(self._rows(X) @ self.A + self.b, 0)

    def subgradient(self, x: NDArray, y: int, layers: Sequence[str] | None = None) -> Subgradient:
        """Return ∂/∂W[h*_d, d] = e_d and the derivatives of the winning units with a_h > 0.

        Entries that are zero because x_p is zero are omitted.
        """
        x, y = self._sample(x, y)
        a = self.hidden(x[None])
        h_star, e = self._error(a, y)
        error = np.bincount(h_star, weights=e, minlength=self.n_hidden)
        on = np.unique(h_star[a[0, h_star] > 0])
        seen = np.flatnonzero(x)
        full = Subgradient(
            W=SparseUpdate((h_star, np.arange(self.n_classes)), e),
            A=SparseUpdate(
                (np.tile(seen, on.size), np.repeat(on, seen.size)),
                np.outer(error[on], x[seen]).ravel(),
            ),
            b=SparseUpdate((on,), error[on]),
        )
        return full.only(self.layers if layers is None else layers)
