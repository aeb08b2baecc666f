"""Linear-Min-Max networks: the paper's model with one hidden layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from maxplus._compile.patience import is_sooner
from maxplus.algebra._kernels import PARALLEL_FROM, ROWS_PER_TASK
from maxplus.models import _lmm_kernels, _lmm_small
from maxplus.models._checks import (
    as_row,
    as_rows,
    check_affine,
    check_index,
    check_number,
    check_weights,
)
from maxplus.models.base import Entries, Model, Subgradient


class ActivePath(NamedTuple):
    """What decided each score: ``unit[n, d]`` and, inside that unit, ``row[n, d]``.

    Row i belongs to feature i // 2; even rows have the + slope, odd rows the −.
    """

    unit: NDArray
    row: NDArray


class Term(NamedTuple):
    """An LMM over some of the features of a sum.

    Attributes
    ----------
    features : array of shape (m,), increasing numbers of features
    lmm : LMM with m features
    """

    features: NDArray
    lmm: LMM


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
    minimum and maximum run, are contiguous. `slopes` and `offsets` are the same
    numbers feature by feature.
    """

    layers = ("W2", "W1", "W0")

    def __init__(self, W0: NDArray, W1: NDArray, W2: NDArray) -> None:
        self.W0 = np.ascontiguousarray(W0)
        self.W1 = np.asfortranarray(W1)
        self.W2 = np.asfortranarray(W2)
        shapes = {"W0": "2P", "W1": "2P, H", "W2": "H, C"}
        check_weights("LMM", shapes, self.W0, self.W1, self.W2)

    @classmethod
    def of_boxes(
        cls, centre: ArrayLike, half_width: ArrayLike, heights: ArrayLike, slope: float
    ) -> LMM:
        """LMM whose unit h is the box centre_h ± half_width_h.

        W0 = ±k, W1 = k·(half_width ∓ centre), W2 = heights, hence
        g_h(x) = k·min_p (half_width_hp − |x_p − centre_hp|): positive inside the box. With
        half_width 0 a unit is a pyramid, g_h(x) = −k·‖x − centre_h‖∞, and 0 at its own
        centre without a rounding error.

        Parameters
        ----------
        centre : array of shape (H, P); its float type is the model's
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
    def dtype(self) -> np.dtype:
        """Float type of weights and scores."""
        return self.W0.dtype

    @property
    def terms(self) -> tuple[Term, ...]:
        """The network as a sum with one term over all features; see `AdditiveLMM`."""
        return (Term(np.arange(self.n_features), self),)

    @property
    def feature_map(self) -> None:
        """None: features are taken as they are."""
        return None

    @property
    def intercept(self) -> NDArray:
        """Zeros of shape (C,)."""
        return np.zeros(self.n_classes, self.dtype)

    def mapped(self, X: ArrayLike) -> NDArray:
        """Return the rows themselves, shape (N, P), in the model's float type.

        Parameters
        ----------
        X : array of shape (N, P)

        Returns
        -------
        array of shape (N, P)
        """
        return as_rows(X, self.n_features, self.dtype)

    def term_scores(self, X: ArrayLike) -> NDArray:
        """Return the scores of the only term, of shape (1, N, C).

        Parameters
        ----------
        X : array of shape (N, P)

        Returns
        -------
        array of shape (1, N, C)
        """
        return self.scores(self.mapped(X))[None]

    @property
    def slopes(self) -> NDArray:
        """W0 two by two, an array view of shape (P, 2): the + slope, then the −."""
        return self.W0.reshape(-1, 2)

    @property
    def offsets(self) -> NDArray:
        """W1 unit by unit and two by two, an array view of shape (H, P, 2), as `slopes`."""
        return self.W1.T.reshape(self.n_hidden, -1, 2)

    @property
    def weights(self) -> _lmm_kernels.LMMWeights:
        """Views of the weights as kernels take them; a kernel that writes there moves the model."""
        return _lmm_kernels.LMMWeights(self.W0, self.W1.T, self.W2.T)

    def hidden(self, X: NDArray) -> NDArray:
        """g, shape (N, H): the margin of each sample to each unit's box; O(N·P·H).

        Parameters
        ----------
        X : array of shape (N, P)

        Returns
        -------
        array of shape (N, H)
        """
        X = self._rows(X)
        if self._is_sooner(X, _lmm_kernels.hidden_rows):
            return _lmm_small.hidden_rows(_lmm_small.linear_rows(X, self.weights), self.weights)
        G = np.empty((len(X), self.n_hidden), self.dtype)
        _lmm_kernels.hidden_rows(X, self.weights, G)
        return G

    def scores(self, X: NDArray) -> NDArray:
        """z, shape (N, C); O(N·P·H), parallel over samples, no N × H array is formed."""
        X = self._rows(X)
        if self._is_sooner(X, _lmm_kernels.scores_serial):
            return _lmm_small.scores(X, self.weights)
        Z = np.empty((len(X), self.n_classes), self.dtype)
        large = len(X) * self.W1.size >= PARALLEL_FROM
        kernel = _lmm_kernels.scores_parallel if large else _lmm_kernels.scores_serial
        kernel(X, self.weights, Z)
        return Z

    def wins(self, X: NDArray) -> NDArray:
        """How many (sample, class) scores each unit decides, shape (H,); O(N·P·H).

        Parameters
        ----------
        X : array of shape (N, P)

        Returns
        -------
        array of shape (H,)
        """
        X = self._rows(X)
        if self._is_sooner(X, _lmm_kernels.count_wins.serial):
            unit, _ = _lmm_small.active_path(X, self.weights)
            return np.bincount(unit.ravel(), minlength=self.n_hidden)
        tasks = -(-len(X) // ROWS_PER_TASK)
        wins = np.zeros((tasks, self.n_hidden), np.int64)
        large = len(X) * self.W1.size >= PARALLEL_FROM
        kernel = _lmm_kernels.count_wins if large else _lmm_kernels.count_wins.serial
        kernel(X, self.weights, wins)
        return wins.sum(axis=0)

    def active_path(self, X: NDArray) -> ActivePath:
        """Winning unit and row of every score, lowest among equals; O(N·P·H).

        Parameters
        ----------
        X : array of shape (N, P)

        Returns
        -------
        ActivePath
            ``unit`` and ``row``, both of shape (N, C).
        """
        X = self._rows(X)
        shape = len(X), self.n_classes
        Z, unit, row = np.empty(shape, self.dtype), np.empty(shape, int), np.empty(shape, int)
        no_rows = np.empty((0, 0), int), np.empty((0, 0))
        _lmm_kernels.active_paths(X, self.weights, Z, unit, row, *no_rows)
        return ActivePath(unit, row)

    def subgradient(self, x: NDArray, y: int, layers: Sequence[str] | None = None) -> Subgradient:
        """∂/∂W2[h*_d, d] = e_d, ∂/∂W1[i*_d, h*_d] += e_d, ∂/∂W0[i*_d] += e_d·x[p(i*_d)].

        At most C entries per layer; classes that share an entry are summed (the
        appendix's form). O(P·H).
        """
        wanted = self.layers if layers is None else tuple(layers)
        x, y = self._sample(x, y)
        grad = self._forward(x)
        _lmm_kernels.subgradient_entries(x, y, "W0" in wanted, grad)
        n1, n0 = grad.n
        full = Subgradient(
            W2=Entries((grad.h_star, np.arange(self.n_classes)), grad.e),
            W1=Entries((grad.row1[:n1], grad.unit1[:n1]), grad.value1[:n1]),
            W0=Entries((grad.row0[:n0],), grad.value0[:n0]),
        )
        return full.only(wanted)

    def folded(self, centre: ArrayLike, spread: ArrayLike) -> LMM:
        """The same function of x, for a model that was made for (x − centre) / spread.

        A row's W0·(x − c)/s + W1 is (W0/s)·x + (W1 − W0·c/s): slopes and offsets take the
        affine map in, up to rounding. ``spread`` is > 0; both are numbers or have shape (P,).

        Parameters
        ----------
        centre : number or array of shape (P,)
        spread : number or array of shape (P,)

        Returns
        -------
        LMM
        """
        c, s = check_affine(centre, spread, self.n_features)
        with np.errstate(over="ignore", invalid="ignore"):
            W0 = (self.slopes / s[:, None]).astype(self.dtype).ravel()
            offsets = self.offsets - self.slopes * c[:, None] / s[:, None]
            W1 = offsets.astype(self.dtype).reshape(self.n_hidden, -1).T
        if not (np.isfinite(W0).all() and np.isfinite(W1).all()):
            raise ValueError(
                f"the folded weights do not fit into {self.dtype}: spread is too small; got "
                f"{spread!r:.80}; leave out features that hardly vary"
            )
        return LMM(W0, W1, self.W2.copy("F"))

    def scaled(self, factor: float) -> LMM:
        """All weights times factor > 0: scores times factor, the same predictions and radii.

        Parameters
        ----------
        factor : float

        Returns
        -------
        LMM
        """
        f = check_number("factor", factor, above=0.0)
        return LMM(f * self.W0, f * self.W1, f * self.W2)

    def astype(self, dtype: DTypeLike) -> LMM:
        """The model in another float type; the very same weights where it has that type.

        Parameters
        ----------
        dtype : numpy.float32 or numpy.float64

        Returns
        -------
        LMM
        """
        W0, W1, W2 = (W.astype(dtype, copy=False) for W in (self.W0, self.W1, self.W2))
        return LMM(W0, W1, W2)

    def seat_unit(self, h: int, point: ArrayLike, heights: ArrayLike) -> None:
        """Make unit h, in place, a pyramid at a point, with W2[h] = heights; slopes stay.

        g_h(x) = min_i W0[i]·(x − point)_p(i); it is 0 at the point without a rounding error.

        Parameters
        ----------
        h : int
        point : array of shape (P,)
        heights : array of shape (C,)
        """
        h = check_index("h", h, self.n_hidden)
        seat = as_row(point, self.n_features, self.dtype)
        self.offsets[h] = _offsets(self.slopes, seat, 0)
        self.W2[h] = heights

    def copy(self) -> LMM:
        """The same model with weights of its own."""
        return LMM(self.W0.copy(), self.W1.copy("F"), self.W2.copy("F"))

    def _is_sooner(self, X: NDArray, kernel: Any) -> bool:
        """Whether NumPy takes these rows, because it is done before a kernel is compiled."""
        additions = len(X) * self.W1.size
        return additions < _lmm_small.SMALL and is_sooner(additions, kernel)

    def _forward(self, x: NDArray) -> _lmm_kernels.LMMGradient:
        """Scores and active path of one sample."""
        grad = _lmm_kernels.empty_gradient(self.n_classes, self.dtype)
        lam = np.empty(self.W0.size, self.dtype)
        g = np.empty(self.n_hidden, self.dtype)
        _lmm_kernels.active_path(x, self.weights, lam, g, grad.z, grad.h_star, grad.i_star)
        return grad


def _offsets(slopes: NDArray, centre: NDArray, half_width: NDArray | int) -> NDArray:
    """Offsets (…, P, 2) of lines with these slopes that are 0 at the walls centre ∓ half_width.

    The product −slope·wall is the very one that a forward pass forms there, so that
    the sum of both is exactly 0.
    """
    walls = np.stack([centre - half_width, centre + half_width], axis=-1)
    return -(slopes * walls)
