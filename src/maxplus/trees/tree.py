"""The paper's Short Computational Tree (definition 2.3, after Nesterov 2014)."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.trees.forest import Kind, ShortComputationalForest


class ShortComputationalTree:
    """Binary tree whose root is the maximum (or minimum) of its leaves.

    Changing one leaf touches one node per level, O(log n), where a fresh scan
    costs O(n). The number of leaves need not be a power of two.

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
            raise ValueError(f"values must be a vector of at least one number, got {leaves.shape}")
        self._forest = ShortComputationalForest(leaves[None], kind)

    def __len__(self) -> int:
        """Return the number of leaves."""
        return self._forest.n_leaves

    @property
    def kind(self) -> Kind:
        """What the root holds: "max" or "min"."""
        return self._forest.kind

    @property
    def n_levels(self) -> int:
        """Levels, leaves and root included: ⌈log₂ n⌉ + 1."""
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
        """The leaves (a copy: change them through `update`)."""
        return self._forest.leaves[0]

    @property
    def value(self) -> float:
        """The root."""
        return float(self.nodes[-1])

    @property
    def winner(self) -> int:
        """The leaf behind the root, the lowest one among equals; O(log n)."""
        return int(self._forest.winners[0])

    def update(self, leaf: int, value: float) -> None:
        """Change one leaf and the nodes above it; O(log n).

        Parameters
        ----------
        leaf : int
        value : float
        """
        self._forest.update(0, leaf, value)
