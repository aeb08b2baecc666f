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
    """Base class of models z_d = max_k (a_k(x) + V[d, k]), where subclasses define a(x) and V."""

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
        """Return the scores z, shape (N, C)."""
        a = self._inputs(X)
        Z = np.empty((len(a), self.n_classes), self.dtype)
        product_into(a, self._output_weights, False, Z)
        return Z

    def active_path(self, X: NDArray) -> NDArray:
        """Return the index of the feature or hidden unit that determines each score.

        Ties are broken by the lowest index.

        Parameters
        ----------
        X : array of shape (N, P)

        Returns
        -------
        array of shape (N, C)
        """
        return maxplus_winners(self._inputs(X), self._output_weights)[1]

    def _argmax_and_error(self, a: NDArray, y: int) -> tuple[NDArray, NDArray]:
        """Return the arg-max k*_d and the error e_d of each class, for inputs (1, K)."""
        z, index = maxplus_winners(a, self._output_weights)
        e = np.empty(self.n_classes)
        _softmax.softmax_error(z[0], y, e)
        return index[0], e


class ZeroHidden(_MaxPlusModel):
    """Max-plus network without hidden layers, z_d(x) = max_p (x_p + W[d, p]).

    Equation 1 of the paper. Computing the scores takes O(N·P·C).

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
        """Return the C entries ∂/∂W[d, p*_d] = e_d (equation 3 of the paper)."""
        x, y = self._sample(x, y)
        p_star, e = self._argmax_and_error(x[None], y)
        full = Subgradient(W=SparseUpdate((np.arange(self.n_classes), p_star), e))
        return full.only(self.layers if layers is None else layers)


class LinearMaxPlus(_MaxPlusModel):
    """Dense linear layer with ReLU, a(x) = max(0, xA + b), and z_d(x) = max_h (a_h(x) + W[h, d]).

    The model of the sparsity figures in the paper (after Zhang et al., 2019). The subgradient with
    respect to A has up to P entries for each unit that determines a score, at most C·P.
    Computing the scores takes O(N·H·(P + C)).

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
        """Return the hidden units a, the output of the linear layer and ReLU.

        Parameters
        ----------
        X : array of shape (N, P)

        Returns
        -------
        array of shape (N, H)
        """
        return np.maximum(self._rows(X) @ self.A + self.b, 0)

    def subgradient(self, x: NDArray, y: int, layers: Sequence[str] | None = None) -> Subgradient:
        """Return ∂/∂W[h*_d, d] = e_d, and ∂/∂A and ∂/∂b of the units h*_d with a_h > 0.

        Entries of A that are zero because x_p is zero are omitted.
        """
        x, y = self._sample(x, y)
        a = self.hidden(x[None])
        h_star, e = self._argmax_and_error(a, y)
        error = np.bincount(h_star, weights=e, minlength=self.n_hidden)
        active = np.unique(h_star[a[0, h_star] > 0])
        nonzero = np.flatnonzero(x)
        full = Subgradient(
            W=SparseUpdate((h_star, np.arange(self.n_classes)), e),
            A=SparseUpdate(
                (np.tile(nonzero, active.size), np.repeat(active, nonzero.size)),
                np.outer(error[active], x[nonzero]).ravel(),
            ),
            b=SparseUpdate((active,), error[active]),
        )
        return full.only(self.layers if layers is None else layers)
