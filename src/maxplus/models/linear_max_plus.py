"""Linear Max-Plus: a dense linear layer with ReLU, a max-plus layer, softmax."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from maxplus.algebra._kernels import maxplus_winners, product_into
from maxplus.models import _softmax
from maxplus.models._checks import check_weights
from maxplus.models.base import Entries, Model, Subgradient


class LinearMaxPlus(Model):
    """a(x) = max(0, xA + b), z_d(x) = max_h (a_h(x) + W[h, d]).

    The model of the paper's sparsity figures (after Zhang et al., 2019). Its
    linear layer is dense, so a subgradient touches the P weights of each
    winning unit there, not one: at most C·P of them.

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
    def n_classes(self) -> int:
        """Number of classes C."""
        return self.W.shape[1]

    @property
    def dtype(self) -> np.dtype:
        """Float type of weights and scores."""
        return self.A.dtype

    def hidden(self, X: NDArray) -> NDArray:
        """a, shape (N, H): what the linear layer and ReLU give.

        Parameters
        ----------
        X : array of shape (N, P)

        Returns
        -------
        array of shape (N, H)
        """
        return np.maximum(self._rows(X) @ self.A + self.b, 0)

    def scores(self, X: NDArray) -> NDArray:
        """z, shape (N, C); O(N·H·(P + C))."""
        a = self.hidden(X)
        Z = np.empty((len(a), self.n_classes), self.dtype)
        product_into(a, self.W.T, False, Z)
        return Z

    def active_path(self, X: NDArray) -> NDArray:
        """h*[n, d], the unit that decides each score, lowest among equals.

        Parameters
        ----------
        X : array of shape (N, P)

        Returns
        -------
        array of shape (N, C)
        """
        return maxplus_winners(self.hidden(X), self.W.T)[1]

    def subgradient(self, x: NDArray, y: int, layers: Sequence[str] | None = None) -> Subgradient:
        """∂/∂W[h*_d, d] = e_d; a unit that is on passes the sum of its classes' e_d back.

        Entries that are zero because x_p is zero are left out.
        """
        x, y = self._sample(x, y)
        a = self.hidden(x[None])
        z, winners = maxplus_winners(a, self.W.T)
        h_star = winners[0]
        e = np.empty(self.n_classes)
        _softmax.softmax_error(z[0], y, e)
        error = np.bincount(h_star, weights=e, minlength=self.n_hidden)
        on = np.unique(h_star[a[0, h_star] > 0])
        seen = np.flatnonzero(x)
        full = Subgradient(
            W=Entries((h_star, np.arange(self.n_classes)), e),
            A=Entries(
                (np.tile(seen, on.size), np.repeat(on, seen.size)),
                np.outer(error[on], x[seen]).ravel(),
            ),
            b=Entries((on,), error[on]),
        )
        return full.only(self.layers if layers is None else layers)

    def copy(self) -> LinearMaxPlus:
        """The same model with weights of its own."""
        return LinearMaxPlus(self.A.copy("F"), self.b.copy(), self.W.copy("F"))
