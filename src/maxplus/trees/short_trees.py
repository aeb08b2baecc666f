"""Short Computational Trees (definition 2.3 of the paper, after Nesterov 2014)."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.algebra.products import as_operand
from maxplus.trees import _kernels

Kind = Literal["max", "min"]


def nodes_per_tree(n_leaves: int) -> int:
    """Return the number of nodes of a tree with ``n_leaves`` leaves, below 2n + log₂ n."""
    return int(_kernels.level_offsets(n_leaves)[-1])


class ShortComputationalForest:
    """Short Computational Trees of the rows of a matrix, each with its maximum (or minimum).

    Parameters
    ----------
    values : array of shape (n_trees, n_leaves)
    kind : {"max", "min"}

    Notes
    -----
    The constructor takes O(n_trees · n_leaves), an update of one leaf O(log n_leaves). Kernels use
    ``nodes`` and ``offsets`` directly (see ``maxplus.trees._kernels``).

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
        """Number of levels of each tree, including leaves and root."""
        return self.offsets.size - 1

    @property
    def leaves(self) -> NDArray:
        """A copy of the leaves; use `update` to change them."""
        return self.nodes[:, : self.n_leaves].copy()

    @property
    def values(self) -> NDArray:
        """The root of each tree."""
        return self.nodes[:, -1].copy()

    @property
    def winners(self) -> NDArray:
        """The leaf that attains each root, the lowest among equals."""
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
            raise IndexError(f"tree {tree} is not in 0..{self.n_trees - 1}")
        self._check(leaf, "value", value)
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
        self._check(leaf, "values", column)
        _kernels.update_column(self.nodes, self.offsets, leaf, column, self._maximum)

    def _check(self, leaf: int, name: str, value: ArrayLike) -> None:
        if not 0 <= leaf < self.n_leaves:
            raise IndexError(f"leaf {leaf} is not in 0..{self.n_leaves - 1}")
        if np.isnan(value).any():
            raise ValueError(
                f"{name} must not be NaN, which cannot be ordered; give a number or ±inf"
            )


class ShortComputationalTree:
    """Binary tree whose root is the maximum (or minimum) of its leaves.

    The change of a leaf updates one node per level, O(log n) instead of O(n). The number of leaves
    need not be a power of two.

    Parameters
    ----------
    values : array of shape (n_leaves,)
        At least one number; infinities are allowed, NaN is not.
    kind : {"max", "min"}

    Examples
    --------
    >>> from maxplus.trees import ShortComputationalTree
    >>> tree = ShortComputationalTree([3.0, 8.0, 5.0])
    >>> tree.value, tree.winner
    (8.0, 1)
    >>> tree.update(1, -1.0)
    >>> tree.value, tree.winner
    (5.0, 2)
    """

    def __init__(self, values: ArrayLike, kind: Kind = "max") -> None:
        leaves = np.asarray(values)
        if leaves.ndim != 1 or leaves.size == 0:
            raise ValueError(f"values must be a vector of size >= 1, got shape {leaves.shape}")
        self._forest = ShortComputationalForest(leaves[None], kind)

    def __len__(self) -> int:
        """Return the number of leaves."""
        return self._forest.n_leaves

    @property
    def kind(self) -> Kind:
        """Kind of the tree, "max" or "min"."""
        return self._forest.kind

    @property
    def n_levels(self) -> int:
        """Number of levels, including leaves and root: ⌈log₂ n⌉ + 1."""
        return self._forest.n_levels

    @property
    def nodes(self) -> NDArray:
        """All nodes, level by level, for kernels (with `offsets`)."""
        return self._forest.nodes[0]

    @property
    def offsets(self) -> NDArray:
        """Start of each level in `nodes`."""
        return self._forest.offsets

    @property
    def leaves(self) -> NDArray:
        """A copy of the leaves; use `update` to change them."""
        return self._forest.leaves[0]

    @property
    def value(self) -> float:
        """The root."""
        return float(self.nodes[-1])

    @property
    def winner(self) -> int:
        """The leaf that attains the root, the lowest among equals; O(log n)."""
        return int(self._forest.winners[0])

    def update(self, leaf: int, value: float) -> None:
        """Change one leaf and the nodes above it; O(log n).

        Parameters
        ----------
        leaf : int
        value : float
        """
        self._forest.update(0, leaf, value)
