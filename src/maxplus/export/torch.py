"""Min-plus and max-plus layers for PyTorch, and modules of fitted networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import is_classifier

from maxplus.models import LMM, FeatureMap, Term
from maxplus.models.additive import terms_by_shape
from maxplus.models.lmm import TermSum

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:
    raise ImportError(
        "PyTorch modules require torch, which is not installed: pip install 'maxplus[torch]'"
    ) from error

# Maximum number of sums per block, 16 MB in float32. Smaller blocks are not faster, and threads
# synchronise at the end of each block.
MAX_SUMS = 1 << 22


class _Product(nn.Module):
    """Base class of layers y_o = reduce_i (x_i + weight[i, o]), where reduce is min or max.

    The derivative of each y_o is 1 for one x_i and one weight, and 0 for all others.
    """

    # torch.min or torch.max, which return the first index for ties.
    _reduce: ClassVar[Callable[..., Any]]

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
        self.in_features, self.out_features = self.weight.shape

    def forward(self, x: Tensor) -> Tensor:
        """Map (…, in_features) to (…, out_features); O(in·out) per row, O(in + out) backward."""
        _check_input(x, self.in_features, self.weight)
        rows = x.reshape(-1, self.in_features)
        y = _reduced_sums(self._reduce, rows[:, None], self.weight[None])
        return y.reshape(*x.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        """Return the text in the parentheses of the ``repr`` of the layer."""
        return f"in_features={self.in_features}, out_features={self.out_features}"


class MinPlus(_Product):
    """Min-plus layer, y_o = min_i (x_i + weight[i, o]).

    ``MinPlus(weight)`` copies an array or tensor of shape (in, out).
    ``MinPlus(in_features, out_features)`` draws Glorot uniform weights with the random generator of
    PyTorch. Inputs (…, in) and outputs (…, out) have the dtype of the weights. For ties, the first
    sum has the derivative 1, as in the models of this library.

    O(N·in·out). The memory is at most that of MAX_SUMS sums, or of the sums of one row if there are
    more, plus 8 bytes per output for the backward pass.

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

    _reduce = staticmethod(torch.min)


class MaxPlus(_Product):
    """Max-plus layer, y_o = max_i (x_i + weight[i, o]), with the arguments of `MinPlus`."""

    _reduce = staticmethod(torch.max)


class _Network(nn.Module):
    """Base class of modules that compute scores."""

    def probabilities(self, x: Tensor) -> Tensor:
        """Return softmax(z), (…, P) → (…, C)."""
        return self(x).softmax(dim=-1)


class LMMNetwork(_Network):
    """Linear-Min-Max network: λ_i = W0[i]·x[i // 2], g = MinPlus(W1)(λ), z = MaxPlus(W2)(g).

    Arrays of shapes (2P,), (2P, H) and (H, C) are copied into trainable
    parameters: ``W0``, ``minplus.weight`` and ``maxplus.weight``.
    """

    def __init__(self, W0: ArrayLike, W1: ArrayLike, W2: ArrayLike) -> None:
        super().__init__()
        self.W0 = nn.Parameter(torch.tensor(W0))
        self.minplus = MinPlus(W1)
        self.maxplus = MaxPlus(W2)
        self.n_features = len(self.W0) // 2

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores z, (…, P) → (…, C), which are logits; O(H·(P + C)) per row."""
        _check_input(x, self.n_features, self.W0)
        lam = x.repeat_interleave(2, dim=-1) * self.W0
        return self.maxplus(self.minplus(lam))


class FeatureMapLayer(nn.Module):
    """Module of a `maxplus.models.FeatureMap` in float64, whose knots are not trained."""

    knots: Tensor
    values: Tensor
    slopes: Tensor
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
        """Map features (N, P) to φ(x), (N, P); O(P·log K) per row for K knots."""
        columns = x.T.to(self.knots.dtype).contiguous().clamp(self.knots[:, :1], self.last_knots)
        segment = torch.searchsorted(self.knots, columns.detach(), right=True) - 1
        tables = (self.knots, self.values, self.slopes, self.ends)
        # The index of NaN may be −1; the result is NaN for any segment.
        knot, value, rise, end = (table.gather(1, segment.clamp(0)) for table in tables)
        u = torch.minimum(value + rise * (columns - knot), end)
        return u.T.to(x.dtype)


class TermGroup(nn.Module):
    """Scores of G terms with m features and H units each, (N, P) → (N, G, C).

    The weights ``W0`` (G, 2m), ``W1`` (G, 2m, H) and ``W2`` (G, H, C) are trainable parameters.
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
        """Return the scores of each term; O(G·H·(m + C)) per row."""
        lam = u[:, self.features].repeat_interleave(2, dim=-1) * self.W0
        return _reduced_sums(torch.max, _reduced_sums(torch.min, lam, self.W1), self.W2)


class AdditiveNetwork(_Network):
    """Sum of terms, z = b + Σ_t z_t(φ(x)[features_t]), computed by groups with equal shapes.

    All weights of all terms and the ``intercept`` are trainable; the feature map is not.
    """

    feature_map: FeatureMapLayer | None

    def __init__(self, model: TermSum) -> None:
        super().__init__()
        self.n_features = model.n_features
        self.feature_map = None
        if model.feature_map is not None:
            self.feature_map = FeatureMapLayer(model.feature_map)
        self.groups = nn.ModuleList(TermGroup(terms) for terms in terms_by_shape(model))
        self.intercept = nn.Parameter(torch.tensor(model.intercept))

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores z, (…, P) → (…, C); O(Σ_t H_t·(m_t + C)) per row."""
        _check_input(x, self.n_features, self.intercept)
        u = x.reshape(-1, self.n_features)
        if self.feature_map is not None:
            u = self.feature_map(u)
        z = self.intercept
        for group in self.groups:
            z = z + group(u).sum(dim=1)
        return z.reshape(*x.shape[:-1], len(self.intercept))


class RegressionNetwork(nn.Module):
    """Predictions of a regressor, (…, P) → (…): z_1 − z_0 clipped to bounds, or a single score."""

    def __init__(self, network: nn.Module, regressor: Any) -> None:
        super().__init__()
        self.network = network
        self.bounds = list(map(float, getattr(regressor, "bounds_", ())))

    def forward(self, x: Tensor) -> Tensor:
        """Return the predictions; the derivative of a clipped prediction is 0."""
        z = self.network(x)
        if not self.bounds:
            return z[..., 0]
        return (z[..., 1] - z[..., 0]).clamp(*self.bounds)


def module_of(clf: Any, model: TermSum) -> nn.Module:
    """Return the module of a fitted estimator; see `maxplus.export.to_torch`."""
    network: nn.Module
    if isinstance(model, LMM):
        network = LMMNetwork(model.W0, model.W1, model.W2)
    else:
        network = AdditiveNetwork(model)
    return network if is_classifier(clf) else RegressionNetwork(network, clf)


def _reduced_sums(reduce: Callable[..., Any], rows: Tensor, weight: Tensor) -> Tensor:
    """Return y[n, g, o] = reduce_i (rows[n, g, i] + weight[g, i, o]), by torch.min or torch.max.

    The arg-min or arg-max is computed without gradients, block by block. Then y is the sum of two
    gathered tensors, which PyTorch differentiates.
    """
    # A contiguous reduced axis is several times faster.
    columns = weight.detach().mT.contiguous()
    blocks = rows.detach().split(max(1, MAX_SUMS // weight.numel()))
    indices = torch.cat([reduce(b[:, :, None] + columns, dim=-1).indices for b in blocks])
    return rows.gather(2, indices) + weight.gather(1, indices.movedim(0, 1)).movedim(0, 1)


def _matrix(weight: Any) -> Tensor:
    """Return a copy as a matrix of floats in C order."""
    matrix = weight.detach().clone() if isinstance(weight, Tensor) else torch.tensor(weight)
    if matrix.ndim != 2 or matrix.numel() == 0 or not matrix.is_floating_point():
        raise ValueError(
            "weight must be a matrix of floats with at least one input and one output; "
            f"got shape {tuple(matrix.shape)} of {matrix.dtype}; for random weights, pass "
            "in_features and out_features"
        )
    return matrix.contiguous()


def _check_input(x: Any, n_features: int, weight: Tensor) -> None:
    """Raise TypeError or ValueError for an input of another type or shape."""
    if not isinstance(x, Tensor):
        raise TypeError(f"x must be a torch.Tensor; got {type(x).__name__}; use torch.as_tensor(x)")
    if x.dtype != weight.dtype:
        raise TypeError(
            f"x is {x.dtype} and the weights are {weight.dtype}; convert one, "
            f"for example with x.to({weight.dtype})"
        )
    if x.ndim == 0 or x.shape[-1] != n_features:
        raise ValueError(f"x must have shape (…, {n_features}); got {tuple(x.shape)}")
