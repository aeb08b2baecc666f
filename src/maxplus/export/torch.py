"""Min-plus and max-plus layers for PyTorch, and the fitted network made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, overload

from numpy.typing import ArrayLike

from maxplus.estimators._lmm import BaseLMMClassifier
from maxplus.export._model import fitted_model, members_of
from maxplus.models import LMM

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:
    raise ImportError(
        "PyTorch modules need torch, which is not installed: pip install 'maxplus[torch]'"
    ) from error

# Sums that are formed at a time: 16 MB in float32. Smaller blocks are no faster, and where
# cores are busy, threads wait for each other at the end of every one.
MAX_SUMS = 1 << 22


class _Product(nn.Module):
    """y_o = best_i (x_i + weight[i, o]), where the best is a minimum or a maximum.

    The winners are looked for without gradients, block by block; then y is the
    sum of two selections, which PyTorch differentiates by itself:
    y[n, o] = x[n, i*] + weight[i*, o]. So each y has one x and one weight with a
    derivative, which is 1.
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
        winners = self._winners(rows.detach(), self.weight.detach())
        y = rows.gather(1, winners) + self.weight.gather(0, winners)
        return y.reshape(*x.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        """What ``repr`` shows between the brackets."""
        return f"in_features={self.in_features}, out_features={self.out_features}"

    @classmethod
    def _winners(cls, rows: Tensor, weight: Tensor) -> Tensor:
        """The lowest i with the best rows[n, i] + weight[i, o], shape (N, out)."""
        # Contiguous along the reduced axis, which is several times as fast.
        columns = weight.T.contiguous()
        blocks = rows.split(max(1, MAX_SUMS // weight.numel()))
        return torch.cat([cls._best(b[:, None] + columns, dim=-1).indices for b in blocks])


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


class LMMNetwork(nn.Module):
    """λ_i = W0[i]·v[i // 2], g = MinPlus(W1)(λ), z = MaxPlus(W2)(g), with v = x or v = D·x.

    Arrays of shapes (2M,), (2M, H) and (H, C) are copied into trainable
    parameters: ``W0``, ``minplus.weight`` and ``maxplus.weight``; and directions D of shape
    (M, P), if there are any, into ``views.weight``, a linear layer without a bias.
    """

    def __init__(
        self, W0: ArrayLike, W1: ArrayLike, W2: ArrayLike, directions: ArrayLike | None = None
    ) -> None:
        super().__init__()
        self.W0 = nn.Parameter(torch.tensor(W0))
        self.minplus = MinPlus(W1)
        self.maxplus = MaxPlus(W2)
        self.views: nn.Linear | None = None
        if directions is not None:
            D = _matrix(directions)
            self.views = nn.Linear(D.shape[1], D.shape[0], bias=False, dtype=D.dtype)
            self.views.weight = nn.Parameter(D)

    @property
    def n_features(self) -> int:
        """Number of inputs P."""
        return len(self.W0) // 2 if self.views is None else self.views.in_features

    def forward(self, x: Tensor) -> Tensor:
        """The scores z, (…, P) → (…, C): logits for a cross-entropy; O(P·H) per row."""
        _check_input(x, self.n_features, self.W0)
        if self.views is not None:
            x = self.views(x)
        lam = x.repeat_interleave(2, dim=-1) * self.W0
        return self.maxplus(self.minplus(lam))

    def probabilities(self, x: Tensor) -> Tensor:
        """softmax(z), (…, P) → (…, C)."""
        return self(x).softmax(dim=-1)


class CommitteeNetwork(nn.Module):
    """z = (z⁰ + z¹ + …) / K, the mean score of K networks, ``members``; one optimiser moves all."""

    def __init__(self, members: Iterable[LMMNetwork]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, x: Tensor) -> Tensor:
        """The scores z, (…, P) → (…, C), added in the order of the members."""
        first, *others = self.members
        z = first(x)
        for member in others:
            z = z + member(x)
        return z / len(self.members)

    def probabilities(self, x: Tensor) -> Tensor:
        """softmax(z), (…, P) → (…, C)."""
        return self(x).softmax(dim=-1)


def to_torch(clf: BaseLMMClassifier) -> LMMNetwork | CommitteeNetwork:
    """A fitted `LMMClassifier` as a PyTorch module with the same scores, to the last bit.

    So is an `LMMCommittee`, whose members are networks inside. With directions the scores are
    equal up to rounding: PyTorch sums products in its own order.

    Parameters
    ----------
    clf : fitted LMMClassifier, LMMCommittee or SubgradientLMMClassifier
        Its weights are copied: training the module leaves it as it is.

    Returns
    -------
    `LMMNetwork`, or `CommitteeNetwork`, of the same float type, whose output (N, C) equals
    ``clf.model_.scores``; columns are in the order of ``clf.classes_``.

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
    model = fitted_model(clf)
    networks = [LMMNetwork(m.W0, m.W1, m.W2, m.directions) for m in members_of(model)]
    return networks[0] if isinstance(model, LMM) else CommitteeNetwork(networks)


def _matrix(weight: Any) -> Tensor:
    """A copy as a matrix of floats, row by row in memory."""
    matrix = weight.detach().clone() if isinstance(weight, Tensor) else torch.tensor(weight)
    if matrix.ndim != 2 or matrix.numel() == 0 or not matrix.is_floating_point():
        raise ValueError(
            "weight must be a matrix of floats, at least one input and one output; "
            f"got shape {tuple(matrix.shape)} of {matrix.dtype}. "
            "For random weights give in_features and out_features"
        )
    return matrix.contiguous()


def _check_input(x: Any, n_features: int, weight: Tensor) -> None:
    """Refuse what would be broadcast or converted without a word."""
    if not isinstance(x, Tensor):
        raise TypeError(f"x must be a torch.Tensor; got {type(x).__name__}: use torch.as_tensor(x)")
    if x.dtype != weight.dtype:
        raise TypeError(
            f"x is {x.dtype} and the weights are {weight.dtype}; convert one, "
            f"for example with x.to({weight.dtype})"
        )
    if x.ndim == 0 or x.shape[-1] != n_features:
        raise ValueError(f"x must have shape (…, {n_features}); got {tuple(x.shape)}")
