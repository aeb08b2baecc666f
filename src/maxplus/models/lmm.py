"""Linear-Min-Max networks: the paper's model with one hidden layer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from maxplus.models import _lmm_kernels
from maxplus.models._checks import (
    as_row,
    as_rows,
    check_affine,
    check_index,
    check_number,
    check_weights,
)
from maxplus.models.base import Model, Network, SparseUpdate, Subgradient
from maxplus.models.feature_map import FeatureMap


class ActivePath(NamedTuple):
    """Arg-max and arg-min of each score, arrays of shape (N, C).

    The unit ``unit[n, d]`` attains the maximum of class d for sample n, and the row ``row[n, d]``
    of W1 attains the minimum of this unit. Row i belongs to feature i // 2; even rows have the +
    slope, odd rows the − slope.
    """

    unit: NDArray
    row: NDArray


class Term(NamedTuple):
    """An LMM over a subset of the features.

    Attributes
    ----------
    features : array of shape (m,), indices of features in increasing order
    lmm : LMM with m features
    """

    features: NDArray
    lmm: LMM


class TermSum(Network):
    """Common interface of `LMM` and `AdditiveLMM`, z(x) = b + Σ_t z_t(φ(x)[features_t]).

    ``is_sum`` is False for an `LMM`, whose scores are each determined by one unit.
    """

    is_sum: ClassVar[bool]

    @property
    @abstractmethod
    def terms(self) -> tuple[Term, ...]:
        """The terms of the sum."""

    @property
    @abstractmethod
    def feature_map(self) -> FeatureMap | None:
        """φ, or None for the identity."""

    @property
    @abstractmethod
    def intercept(self) -> NDArray:
        """b, shape (C,)."""

    @property
    @abstractmethod
    def n_hidden(self) -> int:
        """Number of hidden units H of all terms."""

    def activation_counts(self, X: ArrayLike) -> NDArray:
        """Return the number of scores that each unit determines.

        Each term has one score for each sample and class, which one of its units determines. Units
        are numbered consecutively, in the order of the terms. O(N·Σ_t H_t·(m_t + C)).

        Parameters
        ----------
        X : array of shape (N, P)

        Returns
        -------
        array of shape (H,), the units of all terms
        """
        return np.concatenate(
            [
                np.bincount(lmm.active_path(rows).unit.ravel(), minlength=lmm.n_hidden)
                for lmm, rows in self.term_rows(self.mapped(X))
            ]
        )

    @abstractmethod
    def folded(self, centre: ArrayLike, spread: ArrayLike) -> TermSum:
        """Return a model whose scores at x are those of this model at (x − centre) / spread.

        Parameters
        ----------
        centre : number or array of shape (P,)
        spread : number or array of shape (P,), > 0

        Returns
        -------
        model of the same class
        """

    @abstractmethod
    def scaled(self, factor: float) -> TermSum:
        """Return the model with all weights, and hence all scores, times a factor.

        Parameters
        ----------
        factor : float, > 0

        Returns
        -------
        model of the same class
        """

    @abstractmethod
    def astype(self, dtype: DTypeLike) -> TermSum:
        """Return the model in another float type; weights that have this type may be shared.

        Parameters
        ----------
        dtype : numpy.float32 or numpy.float64

        Returns
        -------
        model of the same class
        """

    @property
    def largest_input(self) -> float:
        """Largest absolute value of inputs for which no score overflows.

        Without a feature map, sums of products of slopes and inputs are limited to an eighth of the
        largest float. With a feature map, mapped features are bounded, so that any finite
        input is allowed.
        """
        largest = float(np.finfo(self.dtype).max)
        if self.feature_map is not None:
            return largest
        steepest = max(1.0, *(float(np.abs(lmm.W0).max()) for _, lmm in self.terms))
        return largest / (8.0 * steepest * self.n_features * len(self.terms))

    def mapped(self, X: ArrayLike) -> NDArray:
        """Return the mapped features φ(X), in the float type of the model.

        Parameters
        ----------
        X : array of shape (N, P)

        Returns
        -------
        array of shape (N, P)
        """
        rows = as_rows(X, self.n_features, self.dtype)
        return rows if self.feature_map is None else self.feature_map(rows).astype(self.dtype)

    def term_scores(self, X: ArrayLike) -> NDArray:
        """Return the scores of each term, whose sum is z without the intercept.

        Parameters
        ----------
        X : array of shape (N, P)

        Returns
        -------
        array of shape (T, N, C)
        """
        return np.stack([lmm.scores(rows) for lmm, rows in self.term_rows(self.mapped(X))])

    def term_rows(self, U: NDArray) -> Iterator[tuple[LMM, NDArray]]:
        """Yield the LMM of each term and its columns (N, m) of the mapped features U."""
        for features, lmm in self.terms:
            yield lmm, U if features.size == self.n_features else U[:, features]


class LMM(Model, TermSum):
    """Linear-Min-Max network with one hidden layer.

    λ_i = W0[i]·x[i // 2], g_h = min_i (λ_i + W1[i, h]), z_d = max_h (g_h + W2[h, d]).

    Parameters
    ----------
    W0 : array of shape (2P,)
        The two slopes of each feature, + then −: the entries (i, p(i)) of the sparse matrix W⁰ of
        the paper.
    W1 : array of shape (2P, H)
    W2 : array of shape (H, C)

    Notes
    -----
    W1 and W2 are in Fortran order, so that their columns, the axis of the minimum and the maximum,
    are contiguous. `slopes` and `offsets` are views of W0 and W1 with a separate axis for features.
    """

    is_sum = False
    layers = ("W2", "W1", "W0")

    def __init__(self, W0: NDArray, W1: NDArray, W2: NDArray) -> None:
        self.W0 = np.ascontiguousarray(W0)
        self.W1 = np.asfortranarray(W1)
        self.W2 = np.asfortranarray(W2)
        shapes = {"W0": "2P", "W1": "2P, H", "W2": "H, C"}
        check_weights("LMM", shapes, self.W0, self.W1, self.W2)

    @classmethod
    def from_boxes(
        cls, centre: ArrayLike, half_width: ArrayLike, heights: ArrayLike, slope: float
    ) -> LMM:
        """Return an LMM whose unit h is the box centre_h ± half_width_h.

        With k = slope, W0 = ±k, W1 = k·(half_width ∓ centre) and W2 = heights, hence
        g_h(x) = k·min_p (half_width_hp − |x_p − centre_hp|), which is positive inside the box.
        With half_width 0 a unit is a pyramid, g_h(x) = −k·‖x − centre_h‖∞, and exactly 0 at its
        centre.

        Parameters
        ----------
        centre : array of shape (H, P), whose float type becomes that of the model
        half_width : number or array of shape (H, P)
        heights : array of shape (H, C)
        slope : float, >= 0
        """
        middle = np.asarray(centre)
        if middle.dtype.kind != "f":
            middle = middle.astype(np.float64)
        if middle.ndim != 2:
            raise ValueError(f"centre must have shape (H, P); got shape {middle.shape}")
        try:
            width = np.broadcast_to(np.asarray(half_width, middle.dtype), middle.shape)
        except ValueError:
            raise ValueError(
                f"half_width must be a number or have centre's shape {middle.shape}; "
                f"got shape {np.shape(half_width)}"
            ) from None
        steep = middle.dtype.type(check_number("slope", slope, minimum=0.0))
        slopes = np.empty((middle.shape[1], 2), middle.dtype)
        slopes[:] = steep, -steep
        W1T = _offsets(slopes, middle, width).reshape(len(middle), -1)
        return cls(slopes.ravel(), W1T.T, np.asarray(heights).astype(middle.dtype))

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
    def terms(self) -> tuple[Term, ...]:
        """Single term with all features and this LMM."""
        return (Term(np.arange(self.n_features), self),)

    @property
    def feature_map(self) -> None:
        """None: there is no feature map."""
        return None

    @property
    def intercept(self) -> NDArray:
        """Zeros of shape (C,)."""
        return np.zeros(self.n_classes, self.dtype)

    @property
    def slopes(self) -> NDArray:
        """View of W0 of shape (P, 2): the + and − slopes of each feature."""
        return self.W0.reshape(-1, 2)

    @property
    def offsets(self) -> NDArray:
        """View of W1 of shape (H, P, 2), in the order of `slopes`."""
        return self.W1.T.reshape(self.n_hidden, -1, 2)

    @property
    def weights(self) -> _lmm_kernels.LMMWeights:
        """Views of the weights for kernels; writing to them changes the model."""
        return _lmm_kernels.LMMWeights(self.W0, self.W1.T, self.W2.T)

    def hidden(self, X: NDArray) -> NDArray:
        """Return the values g of the hidden units; O(N·P·H).

        Parameters
        ----------
        X : array of shape (N, P)

        Returns
        -------
        array of shape (N, H)
        """
        X = self._rows(X)
        G = np.empty((len(X), self.n_hidden), self.dtype)
        _lmm_kernels.forward(X, self.weights, np.empty((len(X), 0), self.dtype), g=G)
        return G

    def scores(self, X: NDArray) -> NDArray:
        """Return the scores z, shape (N, C), in parallel for many samples; O(N·H·(P + C))."""
        X = self._rows(X)
        Z = np.empty((len(X), self.n_classes), self.dtype)
        _lmm_kernels.forward(X, self.weights, Z)
        return Z

    def active_path(self, X: ArrayLike) -> ActivePath:
        """Return the unit and the row that determine each score; O(N·H·(P + C)).

        Ties are broken by the lowest index.

        Parameters
        ----------
        X : array of shape (N, P)

        Returns
        -------
        ActivePath
            ``unit`` and ``row``, of shape (N, C).
        """
        X = self._rows(X)
        shape = len(X), self.n_classes
        Z, unit, row = np.empty(shape, self.dtype), np.empty(shape, int), np.empty(shape, int)
        _lmm_kernels.forward(X, self.weights, Z, unit, row)
        return ActivePath(unit, row)

    def subgradient(self, x: NDArray, y: int, layers: Sequence[str] | None = None) -> Subgradient:
        """Return ∂/∂W2[h*_d, d] = e_d, ∂/∂W1[i*_d, h*_d] += e_d, ∂/∂W0[i*_d] += e_d·x[p(i*_d)].

        There are at most C entries per layer; entries that several classes share are summed (as in
        the appendix of the paper). O(H·(P + C) + C²).
        """
        selected = self.layers if layers is None else tuple(layers)
        x, y = self._sample(x, y)
        grad = _lmm_kernels.empty_gradient(self.n_classes, self.dtype)
        lam = np.empty(self.W0.size, self.dtype)
        g = np.empty(self.n_hidden, self.dtype)
        _lmm_kernels.active_path(x, self.weights, lam, g, grad.z, grad.h_star, grad.i_star)
        _lmm_kernels.subgradient_entries(x, y, "W0" in selected, grad)
        n1, n0 = grad.n
        full = Subgradient(
            W2=SparseUpdate((grad.h_star, np.arange(self.n_classes)), grad.e),
            W1=SparseUpdate((grad.row1[:n1], grad.unit1[:n1]), grad.value1[:n1]),
            W0=SparseUpdate((grad.row0[:n0],), grad.value0[:n0]),
        )
        return full.only(selected)

    def folded(self, centre: ArrayLike, spread: ArrayLike) -> LMM:
        """Return an LMM whose scores at x are those of this LMM at (x − centre) / spread.

        Scores are equal up to rounding: W0·(x − c)/s + W1 = (W0/s)·x + (W1 − W0·c/s).
        """
        c, s = check_affine(centre, spread, self.n_features)
        with np.errstate(over="ignore", invalid="ignore"):
            W0 = (self.slopes / s[:, None]).astype(self.dtype).ravel()
            offsets = self.offsets - self.slopes * c[:, None] / s[:, None]
            W1 = offsets.astype(self.dtype).reshape(self.n_hidden, -1).T
        if not (np.isfinite(W0).all() and np.isfinite(W1).all()):
            raise ValueError(
                f"the folded weights do not fit into {self.dtype}: spread is too small, or centre "
                f"is too large; got spread={spread!r:.80}; remove features that are almost constant"
            )
        return LMM(W0, W1, self.W2.copy("F"))

    def scaled(self, factor: float) -> LMM:
        """Return the model with all weights, and hence all scores, times factor > 0."""
        f = check_number("factor", factor, above=0.0)
        return LMM(f * self.W0, f * self.W1, f * self.W2)

    def astype(self, dtype: DTypeLike) -> LMM:
        """Return the model in another float type; weights that have this type are shared."""
        W0, W1, W2 = (W.astype(dtype, copy=False) for W in (self.W0, self.W1, self.W2))
        return LMM(W0, W1, W2)

    def reinitialize_unit(self, h: int, point: ArrayLike, heights: ArrayLike) -> None:
        """Replace unit h, in place, by a pyramid at a point with W2[h] = heights.

        g_h(x) = min_i W0[i]·(x − point)_p(i), which is exactly 0 at the point.

        Parameters
        ----------
        h : int
        point : array of shape (P,)
        heights : array of shape (C,)
        """
        h = check_index("h", h, self.n_hidden)
        apex = as_row(point, self.n_features, self.dtype)
        self.offsets[h] = _offsets(self.slopes, apex, 0)
        self.W2[h] = heights


def _offsets(slopes: NDArray, centre: NDArray, half_width: NDArray | int) -> NDArray:
    """Return the offsets (…, P, 2) of lines that are exactly 0 at the walls centre ∓ half_width."""
    walls = np.stack([centre - half_width, centre + half_width], axis=-1)
    return -(slopes * walls)
