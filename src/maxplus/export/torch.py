"""Min-plus and max-plus layers for PyTorch, and the fitted network made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, overload

import numpy as np
from numpy.typing import ArrayLike

from maxplus.estimators import LipschitzInterpolator, LMMRegressor
from maxplus.estimators._lmm import BaseLMMClassifier
from maxplus.export import fitted_network
from maxplus.models import LMM, AdditiveLMM, FeatureMap, Term
from maxplus.models.additive import terms_by_shape

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:
    raise ImportError(
        "PyTorch modules need torch, which is not installed: pip install 'maxplus[torch]'"
    ) from error

# Sums that are formed at a time: 16 MB in float32. Smaller blocks are no faster, and threads
# synchronise at the end of each.
MAX_SUMS = 1 << 22


class _Product(nn.Module):
    """y_o = best_i (x_i + weight[i, o]), where the best is a minimum or a maximum.

    Each y has one x and one weight with a derivative, which is 1.
    """

    # torch.min or torch.max: both give the first index among equals.
    _best: ClassVar[Callable[..., Any]]

    @overload
    def __init__(self, weight: Tensor | ArrayLike, /) -> None: ...
    @overload
    def __init__(self, in_features: int, out_features: int) -> None: ...
    def __init__(self, in_features: Any, out_features: int | None = None) -> None:
        super().__init__()
        if out_features is None:
            self.weight = nn.Parameter(_matrix(in_features))
        else:
            self.weight = nn.Parameter(_matrix(torch.empty(in_features, out_features)))
            nn.init.xavier_uniform_(self.weight)

    @property
    def in_features(self) -> int:
        """Number of inputs."""
        return self.weight.shape[0]

    @property
    def out_features(self) -> int:
        """Number of outputs."""
        return self.weight.shape[1]

    def forward(self, x: Tensor) -> Tensor:
        """(…, in_features) → (…, out_features); O(in·out) per row, and O(in + out) back."""
        _check_input(x, self.in_features, self.weight)
        rows = x.reshape(-1, self.in_features)
        y = _best_sums(self._best, rows[:, None], self.weight[None])
        return y.reshape(*x.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        """Return what ``repr`` shows between the brackets."""
        return f"in_features={self.in_features}, out_features={self.out_features}"


class MinPlus(_Product):
    """Min-plus layer, y_o = min_i (x_i + weight[i, o]).

    ``MinPlus(weight)`` starts from a copy of an (in, out) array or tensor,
    ``MinPlus(in_features, out_features)`` from Glorot's uniform weights, drawn by
    PyTorch's generator. Inputs are (…, in), outputs (…, out), both in the
    weights' type. Among equal terms the first one gets the whole derivative, as
    in this library's models.

    O(N·in·out); memory for MAX_SUMS sums, or one row's, at a time, and 8 bytes per
    output for the way back.

    Examples
    --------
    >>> import torch
    >>> from maxplus.export.torch import MaxPlus, MinPlus
    >>> layer = MinPlus([[5.0], [1.0]])
    >>> layer(torch.tensor([0.0, 3.0])).tolist()
    [4.0]
    >>> net = torch.nn.Sequential(torch.nn.Linear(4, 8), MinPlus(8, 20), MaxPlus(20, 3))
    >>> net(torch.zeros(10, 4)).shape
    torch.Size([10, 3])
    """

    _best = staticmethod(torch.min)


class MaxPlus(_Product):
    """Max-plus layer, y_o = max_i (x_i + weight[i, o]); the mirror image of `MinPlus`."""

    _best = staticmethod(torch.max)


class _Network(nn.Module):
    """A module whose output are scores."""

    def probabilities(self, x: Tensor) -> Tensor:
        """softmax(z), (…, P) → (…, C)."""
        return self(x).softmax(dim=-1)


class LMMNetwork(_Network):
    """λ_i = W0[i]·x[i // 2], g = MinPlus(W1)(λ), z = MaxPlus(W2)(g).

    Arrays of shapes (2P,), (2P, H) and (H, C) are copied into trainable
    parameters: ``W0``, ``minplus.weight`` and ``maxplus.weight``.
    """

    def __init__(self, W0: ArrayLike, W1: ArrayLike, W2: ArrayLike) -> None:
        super().__init__()
        self.W0 = nn.Parameter(torch.tensor(W0))
        self.minplus = MinPlus(W1)
        self.maxplus = MaxPlus(W2)

    @property
    def n_features(self) -> int:
        """Number of inputs P."""
        return len(self.W0) // 2

    def forward(self, x: Tensor) -> Tensor:
        """The scores z, (…, P) → (…, C): logits for a cross-entropy; O(P·H) per row."""
        _check_input(x, self.n_features, self.W0)
        lam = x.repeat_interleave(2, dim=-1) * self.W0
        return self.maxplus(self.minplus(lam))


class FeatureMapLayer(nn.Module):
    """φ(x) of a `maxplus.models.FeatureMap`, computed in float64; its knots are not trained."""

    knots: Tensor
    values: Tensor
    rises: Tensor
    ends: Tensor
    last_knots: Tensor

    def __init__(self, feature_map: FeatureMap) -> None:
        super().__init__()
        tables = feature_map.segments(int(np.diff(feature_map.starts).max()))
        for name, table in tables._asdict().items():
            self.register_buffer(name, torch.tensor(table))
        last = feature_map.x[feature_map.starts[1:] - 1]
        self.register_buffer("last_knots", torch.tensor(last[:, None]))

    def forward(self, x: Tensor) -> Tensor:
        """(N, P) → (N, P); O(P·log knots) per row."""
        columns = x.T.to(self.knots.dtype).contiguous().clamp(self.knots[:, :1], self.last_knots)
        place = torch.searchsorted(self.knots, columns.detach(), right=True) - 1
        tables = (self.knots, self.values, self.rises, self.ends)
        # A missing value has no segment: it stays missing in any.
        knot, value, rise, end = (table.gather(1, place.clamp(0)) for table in tables)
        u = torch.minimum(value + rise * (columns - knot), end)
        return u.T.to(x.dtype)


class TermGroup(nn.Module):
    """Terms with equal numbers of features m and units H: scores of each, (N, P) → (N, G, C).

    Their weights are trainable parameters: ``W0`` (G, 2m), ``W1`` (G, 2m, H), ``W2`` (G, H, C).
    """

    features: Tensor

    def __init__(self, terms: Sequence[Term]) -> None:
        super().__init__()
        self.register_buffer("features", torch.tensor(np.stack([f for f, _ in terms])))
        self.W0, self.W1, self.W2 = (
            nn.Parameter(torch.tensor(np.stack([getattr(lmm, name) for _, lmm in terms])))
            for name in ("W0", "W1", "W2")
        )

    def forward(self, u: Tensor) -> Tensor:
        """Scores of each term; O(G·m·H) per row."""
        lam = u[:, self.features].repeat_interleave(2, dim=-1) * self.W0
        return _best_sums(torch.max, _best_sums(torch.min, lam, self.W1), self.W2)


class AdditiveNetwork(_Network):
    """z = b + Σ_t z_t(φ(x)[features_t]): the terms of an `AdditiveLMM`, in groups of one shape.

    All weights of all terms and the ``intercept`` are trainable; the feature map is not.
    """

    feature_map: FeatureMapLayer | None

    def __init__(self, model: AdditiveLMM) -> None:
        super().__init__()
        self.n_features = model.n_features
        self.feature_map = None
        if model.feature_map is not None:
            self.feature_map = FeatureMapLayer(model.feature_map)
        self.groups = nn.ModuleList(TermGroup(terms) for terms in terms_by_shape(model))
        self.intercept = nn.Parameter(torch.tensor(model.intercept))

    def forward(self, x: Tensor) -> Tensor:
        """The scores z, (…, P) → (…, C); O(Σ_t m_t·H_t) per row."""
        _check_input(x, self.n_features, self.intercept)
        u = x.reshape(-1, self.n_features)
        if self.feature_map is not None:
            u = self.feature_map(u)
        z = self.intercept
        for group in self.groups:
            z = z + group(u).sum(dim=1)
        return z.reshape(*x.shape[:-1], len(self.intercept))


class RegressionNetwork(nn.Module):
    """The predictions of a regression, (…, P) → (…): z_1 − z_0 within bounds, or the only score."""

    def __init__(self, network: nn.Module, bounds: ArrayLike | None) -> None:
        super().__init__()
        self.network = network
        self.bounds = None if bounds is None else [float(b) for b in np.asarray(bounds)]

    def forward(self, x: Tensor) -> Tensor:
        """The predictions; where bounds cut one off, it has no derivative."""
        z = self.network(x)
        if self.bounds is None:
            return z[..., 0]
        return (z[..., 1] - z[..., 0]).clamp(*self.bounds)


def to_torch(clf: BaseLMMClassifier | LMMRegressor | LipschitzInterpolator) -> nn.Module:
    """Return a fitted LMM estimator as a PyTorch module.

    Scores of a single network are equal to the last bit, those of a sum of terms up to rounding:
    PyTorch adds in its own order.

    Parameters
    ----------
    clf : fitted LMMClassifier, LMMEnsembleClassifier, SubgradientLMMClassifier, LMMRegressor or \
LipschitzInterpolator
        Its weights are copied: training the module leaves it as it is.

    Returns
    -------
    `LMMNetwork` or `AdditiveNetwork` of the same float type, whose output (N, C) equals
    ``clf.model_.scores``; columns are in the order of ``clf.classes_``. Of a
    regressor a `RegressionNetwork`, whose output (N,) are the predictions.

    Examples
    --------
    >>> import torch
    >>> from sklearn.datasets import load_iris
    >>> from maxplus import SubgradientLMMClassifier
    >>> from maxplus.export import to_torch
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = SubgradientLMMClassifier(n_hidden=20, engine="dense", max_iter=5).fit(X, y)
    >>> network = to_torch(clf)
    >>> bool((network(torch.tensor(X)).detach().numpy() == clf.model_.scores(X)).all())
    True
    """
    model = fitted_network(clf)
    network: nn.Module
    if isinstance(model, LMM):
        network = LMMNetwork(model.W0, model.W1, model.W2)
    else:
        network = AdditiveNetwork(model)
    if isinstance(clf, LMMRegressor):
        return RegressionNetwork(network, clf.bounds_)
    if isinstance(clf, LipschitzInterpolator):
        return RegressionNetwork(network, None)
    return network


def _best_sums(best: Callable[..., Any], rows: Tensor, weight: Tensor) -> Tensor:
    """y[n, g, o] = best_i (rows[n, g, i] + weight[g, i, o]), where best is torch.min or torch.max.

    The winners are looked for without gradients, block by block; then y is the
    sum of two selections, which PyTorch differentiates by itself.
    """
    # Contiguous along the reduced axis, which is several times as fast.
    columns = weight.detach().mT.contiguous()
    blocks = rows.detach().split(max(1, MAX_SUMS // weight.numel()))
    winners = torch.cat([best(b[:, :, None] + columns, dim=-1).indices for b in blocks])
    return rows.gather(2, winners) + weight.gather(1, winners.movedim(0, 1)).movedim(0, 1)


def _matrix(weight: Any) -> Tensor:
    """Return a copy as a matrix of floats in C order."""
    matrix = weight.detach().clone() if isinstance(weight, Tensor) else torch.tensor(weight)
    if matrix.ndim != 2 or matrix.numel() == 0 or not matrix.is_floating_point():
        raise ValueError(
            "weight must be a matrix of floats, at least one input and one output; "
            f"got shape {tuple(matrix.shape)} of {matrix.dtype}. "
            "For random weights give in_features and out_features"
        )
    return matrix.contiguous()


def _check_input(x: Any, n_features: int, weight: Tensor) -> None:
    """Raise TypeError or ValueError for an input of another type or shape."""
    if not isinstance(x, Tensor):
        raise TypeError(f"x must be a torch.Tensor; got {type(x).__name__}: use torch.as_tensor(x)")
    if x.dtype != weight.dtype:
        raise TypeError(
            f"x is {x.dtype} and the weights are {weight.dtype}; convert one, "
            f"for example with x.to({weight.dtype})"
        )
    if x.ndim == 0 or x.shape[-1] != n_features:
        raise ValueError(f"x must have shape (…, {n_features}); got {tuple(x.shape)}")
