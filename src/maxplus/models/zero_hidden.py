"""The zero-hidden-layer model: one max-plus layer, then softmax."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from maxplus.algebra._kernels import maxplus_winners, product_into
from maxplus.models import _softmax
from maxplus.models._checks import check_weights
from maxplus.models.base import Entries, Model, Subgradient


class ZeroHidden(Model):
    """z_d(x) = max_p (x_p + W[d, p]) (the paper's equation 1).

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
    def n_classes(self) -> int:
        """Number of classes C."""
        return self.W.shape[0]

    @property
    def dtype(self) -> np.dtype:
        """Float type of weights and scores."""
        return self.W.dtype

    def scores(self, X: NDArray) -> NDArray:
        """z, shape (N, C); O(N·P·C)."""
        X = self._rows(X)
        Z = np.empty((len(X), self.n_classes), self.dtype)
        product_into(X, self.W, False, Z)
        return Z

    def active_path(self, X: NDArray) -> NDArray:
        """p*[n, d], the feature that decides each score, lowest among equals.

        Parameters
        ----------
        X : array of shape (N, P)

        Returns
        -------
        array of shape (N, C)
        """
        return maxplus_winners(self._rows(X), self.W)[1]

    def subgradient(self, x: NDArray, y: int, layers: Sequence[str] | None = None) -> Subgradient:
        """∂/∂W[d, p*_d] = e_d: C entries (the paper's equation 3)."""
        x, y = self._sample(x, y)
        z, p_star = maxplus_winners(x[None], self.W)
        e = np.empty(self.n_classes)
        _softmax.softmax_error(z[0], y, e)
        full = Subgradient(W=Entries((np.arange(self.n_classes), p_star[0]), e))
        return full.only(self.layers if layers is None else layers)

    def copy(self) -> ZeroHidden:
        """The same model with weights of its own."""
        return ZeroHidden(self.W.copy())
