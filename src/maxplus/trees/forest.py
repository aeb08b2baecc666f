"""Many Short Computational Trees of one shape, side by side in one array."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.algebra.products import as_operand
from maxplus.trees import _kernels

Kind = Literal["max", "min"]


def nodes_per_tree(n_leaves: int) -> int:
    """Nodes of a tree with ``n_leaves`` leaves: fewer than 2n + log₂ n."""
    return int(_kernels.level_offsets(n_leaves)[-1])


class ShortComputationalForest:
    """The maximum (or minimum) of every row of a matrix, kept while entries change.

    Parameters
    ----------
    values : array of shape (n_trees, n_leaves)
    kind : {"max", "min"}

    Notes
    -----
    Building costs O(n_trees · n_leaves), changing one leaf O(log n_leaves).
    Kernels work on ``nodes`` and ``offsets`` directly (see ``maxplus.trees._kernels``).

    Examples
    --------
    >>> from maxplus.trees import ShortComputationalForest
    >>> forest = ShortComputationalForest([[1.0, 4.0, 2.0], [9.0, 8.0, 9.0]])
    >>> forest.values, forest.winners
    (array([4., 9.]), array([1, 0]))
    >>> forest.update(0, 2, 7.0)
    >>> forest.values
    array([7., 9.])
    """

    def __init__(self, values: ArrayLike, kind: Kind = "max") -> None:
        leaves = as_operand("values", values, 2)
        if leaves.shape[1] == 0:
            raise ValueError(
                f"values must have shape (n_trees, n_leaves >= 1), got shape {leaves.shape}"
            )
        if kind not in ("max", "min"):
            raise ValueError(f"kind must be 'max' or 'min', got {kind!r}")
        self.kind: Kind = kind
        self.n_trees, self.n_leaves = leaves.shape
        self.offsets = _kernels.level_offsets(self.n_leaves)
        self.nodes = np.empty((self.n_trees, self.offsets[-1]), leaves.dtype)
        self.nodes[:, : self.n_leaves] = leaves
        _kernels.build_all(self.nodes, self.offsets, self._maximum)

    @property
    def _maximum(self) -> bool:
        return self.kind == "max"

    @property
    def n_levels(self) -> int:
        """Levels of each tree, leaves and root included."""
        return self.offsets.size - 1

    @property
    def leaves(self) -> NDArray:
        """The leaves (a copy: change them through `update`)."""
        return self.nodes[:, : self.n_leaves].copy()

    @property
    def values(self) -> NDArray:
        """The root of each tree."""
        return self.nodes[:, -1].copy()

    @property
    def winners(self) -> NDArray:
        """The leaf behind each root, the lowest one among equals."""
        out = np.empty(self.n_trees, np.int64)
        _kernels.winners(self.nodes, self.offsets, out)
        return out

    def update(self, tree: int, leaf: int, value: float) -> None:
        """Change one leaf of one tree; O(log n_leaves).

        Parameters
        ----------
        tree : int
        leaf : int
        value : float
        """
        if not 0 <= tree < self.n_trees:
            raise IndexError(f"tree {tree} is not one of the {self.n_trees} trees")
        self._check(leaf, value)
        _kernels.update(
            self.nodes[tree], self.offsets, leaf, self.nodes.dtype.type(value), self._maximum
        )

    def update_column(self, leaf: int, values: ArrayLike) -> None:
        """Change the same leaf in every tree; O(n_trees · log n_leaves).

        Parameters
        ----------
        leaf : int
        values : array of shape (n_trees,)
        """
        column = np.asarray(values, self.nodes.dtype)
        if column.shape != (self.n_trees,):
            raise ValueError(f"values must have shape ({self.n_trees},), got {column.shape}")
        self._check(leaf, column)
        _kernels.update_column(self.nodes, self.offsets, leaf, column, self._maximum)

    def _check(self, leaf: int, value: ArrayLike) -> None:
        if not 0 <= leaf < self.n_leaves:
            raise IndexError(f"leaf {leaf} is not one of the {self.n_leaves} leaves")
        if np.isnan(value).any():
            raise ValueError("value is NaN, which has no place in an order")
