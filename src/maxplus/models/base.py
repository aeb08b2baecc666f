"""Base classes of networks, and sparse subgradients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import setitem
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.models import _softmax
from maxplus.models._checks import as_labels, as_row, as_rows, check_index

M = TypeVar("M", bound="Model")


@dataclass(frozen=True)
class SparseUpdate:
    """Sparse derivative: ``value`` is the derivative with respect to ``W[index]``.

    Each entry is listed once; derivatives of classes that share an entry are summed.
    """

    index: tuple[NDArray, ...]
    value: NDArray


class Subgradient(dict[str, SparseUpdate]):
    """Sparse subgradient: entries by layer name, in the order in which their squares are summed."""

    def squared_norm(self) -> float:
        """Return the squared Euclidean norm.

        The squares of each layer are added from left to right, and then the sums of the layers.
        Compiled engines use the same order, so that Polyak steps are bit-identical.

        Returns
        -------
        float
        """
        total = 0.0
        for entries in self.values():
            part = 0.0
            for v in entries.value.tolist():
                part += v * v
            total += part
        return total

    @classmethod
    def mean(cls, parts: Sequence[Subgradient]) -> Subgradient:
        """Return the mean of subgradients of the same layers; linear in the number of entries.

        Entries are in the order of their first occurrence. The values of an entry that occurs in
        several parts are added in the order of the parts, before the division.
        """
        mean = cls()
        for name in parts[0]:
            total: dict[tuple[int, ...], float] = {}
            for part in parts:
                indices = map(tuple, np.column_stack(part[name].index).tolist())
                for index, v in zip(indices, part[name].value.tolist(), strict=True):
                    total[index] = total.get(index, 0.0) + v
            axes = np.array(list(total), np.int64).reshape(-1, len(parts[0][name].index)).T
            mean[name] = SparseUpdate(tuple(axes), np.array(list(total.values())) / len(parts))
        return mean

    def only(self, layers: Sequence[str]) -> Subgradient:
        """Return the entries of the given layers, in the given order.

        Parameters
        ----------
        layers : sequence of str

        Returns
        -------
        Subgradient
        """
        return Subgradient((name, self[name]) for name in layers)

    def n_nonzero(self) -> int:
        """Return the number of entries that differ from zero.

        Returns
        -------
        int
        """
        return sum(int(np.count_nonzero(entries.value)) for entries in self.values())


class Network(ABC):
    """Base class of networks: scores, softmax probabilities and named weights."""

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Number of inputs P."""

    @property
    @abstractmethod
    def n_classes(self) -> int:
        """Number of classes C."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype:
        """Float type of weights and scores."""

    @abstractmethod
    def scores(self, X: NDArray) -> NDArray:
        """Return the scores z, the inputs of the softmax.

        Parameters
        ----------
        X : array of shape (N, P)

        Returns
        -------
        array of shape (N, C)
        """

    @abstractmethod
    def weights_by_name(self) -> dict[str, NDArray]:
        """Return the weight arrays, in a fixed order.

        Returns
        -------
        dict of arrays
        """

    def probabilities(self, X: NDArray) -> NDArray:
        """Return the class probabilities softmax(z).

        Parameters
        ----------
        X : array of shape (N, P)

        Returns
        -------
        array of shape (N, C)
        """
        return _softmax.softmax(self.scores(X))

    def losses(self, X: NDArray, y: NDArray) -> NDArray:
        """Return the cross-entropy of each sample in float64.

        Parameters
        ----------
        X : array of shape (N, P)
        y : array of shape (N,)
            Classes from 0 to C − 1.

        Returns
        -------
        array of shape (N,)
        """
        Z = self.scores(X)
        out = np.empty(len(Z))
        _softmax.losses(Z, as_labels(y, len(Z), self.n_classes), out)
        return out


class Model(Network):
    """Base class of trainable networks.

    ``layers`` are the names of the weight arrays, which are attributes and parameters of the
    constructor of subclasses. Their order, from the output to the input, is that of subgradients.
    """

    layers: ClassVar[tuple[str, ...]]

    @property
    def dtype(self) -> np.dtype:
        """Float type of weights and scores."""
        return getattr(self, self.layers[0]).dtype

    @abstractmethod
    def subgradient(self, x: NDArray, y: int, layers: Sequence[str] | None = None) -> Subgradient:
        """Return a sparse subgradient of the loss of the sample (x, y), for all or some layers.

        Parameters
        ----------
        x : array of shape (P,)
        y : int
            The class.
        layers : sequence of str, optional

        Returns
        -------
        Subgradient
        """

    def copy(self: M) -> M:
        """Return a copy of the model and its weights.

        Returns
        -------
        Model
        """
        return type(self)(**self.weights_by_name(copy=True))

    def weights_by_name(self, *, copy: bool = False) -> dict[str, NDArray]:
        """Return the weight arrays, or copies of them, in the order of ``layers``."""
        return {
            name: getattr(self, name).copy("K") if copy else getattr(self, name)
            for name in self.layers
        }

    @classmethod
    def from_weights(cls: type[M], weights: Mapping[str, NDArray]) -> M:
        """Return a model with these weights; ValueError if any is missing or not finite."""
        missing = [name for name in cls.layers if name not in weights]
        if missing:
            raise ValueError(f"the weights {missing[0]} are missing")
        for name in cls.layers:
            if not np.isfinite(weights[name]).all():
                raise ValueError(f"the weights {name} are not all finite")
        return cls(**{name: weights[name] for name in cls.layers})

    def mean_subgradient(
        self, X: NDArray, y: NDArray, weight: NDArray | None = None
    ) -> Subgradient:
        """Return a subgradient of the weighted mean loss.

        It has an entry for each weight, including zeros. `Subgradient.n_nonzero` divided by
        `n_weights` is the sparsity γ of the paper.

        Parameters
        ----------
        X : array of shape (N, P)
        y : array of shape (N,)
        weight : array of shape (N,), optional

        Returns
        -------
        Subgradient
        """
        X = as_rows(X, self.n_features, self.dtype)
        y = as_labels(y, len(X), self.n_classes)
        weight = np.ones(len(y)) if weight is None else np.asarray(weight, np.float64)
        if weight.shape != y.shape:
            raise ValueError(
                f"weight must hold one number for each of the {len(y)} rows of X; "
                f"got shape {weight.shape}"
            )
        total = {name: np.zeros(getattr(self, name).shape) for name in self.layers}
        for x, label, w in zip(X, y, weight / weight.sum(), strict=True):
            for name, entries in self.subgradient(x, int(label)).items():
                total[name][entries.index] += w * entries.value
        return Subgradient(
            (name, SparseUpdate(tuple(np.indices(G.shape).reshape(G.ndim, -1)), G.ravel()))
            for name, G in total.items()
        )

    def n_weights(self) -> int:
        """Return the number of trainable weights.

        Returns
        -------
        int
        """
        return sum(getattr(self, name).size for name in self.layers)

    def move(self, subgradient: Subgradient, step: float) -> None:
        """Update the weights in place, W ← W − step · subgradient.

        New values are computed in float64 and then rounded to the float type of the weights.

        Parameters
        ----------
        subgradient : Subgradient
        step : float
        """
        layers = [getattr(self, name) for name in subgradient]
        where = [entries.index for entries in subgradient.values()]
        moved = [
            W[entries.index] - step * entries.value
            for W, entries in zip(layers, subgradient.values(), strict=True)
        ]
        # A single call in C, so that a signal handler cannot interrupt it between two layers.
        deque(map(setitem, layers, where, moved), maxlen=0)

    def _rows(self, X: ArrayLike) -> NDArray:
        """Return X as an array for kernels; ValueError if its number of columns is wrong."""
        return as_rows(X, self.n_features, self.dtype)

    def _sample(self, x: ArrayLike, y: int) -> tuple[NDArray, int]:
        """Validate a sample and its class."""
        return as_row(x, self.n_features, self.dtype), check_index("y", y, self.n_classes)
