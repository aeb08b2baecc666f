"""Several Linear-Min-Max networks that decide together: the mean of their scores."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from maxplus.models.base import Network
from maxplus.models.lmm import LMM


class Committee(Network):
    """z(x) = (z⁰(x) + z¹(x) + …) / K, the mean score of K members.

    Members may have units, slopes and directions of their own. Units are numbered through the
    committee, from the first member's to the last's.

    Parameters
    ----------
    members : at least one LMM, all for the same features and classes, and of one float type

    Notes
    -----
    Scores are added in the order of the members and divided in the end, all in the members'
    float type: whoever does the same gets the same bits.
    """

    def __init__(self, members: Iterable[LMM]) -> None:
        self.members = tuple(members)
        if not self.members:
            raise ValueError("a committee needs at least one member; got none")
        for what in ("n_features", "n_classes", "dtype"):
            found = [getattr(member, what) for member in self.members]
            if any(value != found[0] for value in found):
                listed = ", ".join(map(str, found))
                raise ValueError(f"members must have the same {what}; got {listed}")

    @property
    def n_features(self) -> int:
        """Number of inputs P."""
        return self.members[0].n_features

    @property
    def n_classes(self) -> int:
        """Number of classes C."""
        return self.members[0].n_classes

    @property
    def dtype(self) -> np.dtype:
        """Float type of weights and scores."""
        return self.members[0].dtype

    @property
    def n_hidden(self) -> int:
        """Hidden units of all members together."""
        return sum(member.n_hidden for member in self.members)

    @property
    def first_units(self) -> NDArray:
        """The number of each member's first unit, and behind them that of all units: (K + 1,)."""
        return np.cumsum([0, *(member.n_hidden for member in self.members)])

    def scores(self, X: NDArray) -> NDArray:
        """Mean of the members' scores, shape (N, C); as much work as theirs."""
        return self.mean([member.scores(X) for member in self.members])

    @staticmethod
    def mean(scores: Iterable[NDArray]) -> NDArray:
        """The mean of some arrays, in their order and their type."""
        first, *others = scores
        total = first.copy()
        for Z in others:
            total += Z
        total /= total.dtype.type(1 + len(others))
        return total

    def wins(self, X: NDArray) -> NDArray:
        """How many (sample, class) scores of its member each unit decides; shape (n_hidden,).

        Parameters
        ----------
        X : array of shape (N, P)

        Returns
        -------
        array of shape (n_hidden,)
        """
        return np.concatenate([member.wins(X) for member in self.members])

    def weights_by_name(self) -> dict[str, NDArray]:
        """Those of each member: "0.W2", "0.W1", …"""
        return {
            f"{k}.{name}": W
            for k, member in enumerate(self.members)
            for name, W in member.weights_by_name().items()
        }

    def folded(self, centre: ArrayLike, spread: ArrayLike) -> Committee:
        """The same function of x, for a committee made for (x − centre) / spread.

        Parameters
        ----------
        centre : number or array of shape (P,)
        spread : number or array of shape (P,)

        Returns
        -------
        Committee
        """
        return Committee(member.folded(centre, spread) for member in self.members)

    def through(self, directions: ArrayLike, centre: ArrayLike = 0.0) -> Committee:
        """The same function of x, for a committee made for v = D·(x − centre).

        Parameters
        ----------
        directions : array of shape (M, P)
        centre : number or array of shape (P,)

        Returns
        -------
        Committee
        """
        return Committee(member.through(directions, centre) for member in self.members)

    def scaled(self, factor: float) -> Committee:
        """All weights times factor > 0: scores times factor, the same predictions and radii.

        Parameters
        ----------
        factor : float

        Returns
        -------
        Committee
        """
        return Committee(member.scaled(factor) for member in self.members)

    def astype(self, dtype: DTypeLike) -> Committee:
        """The committee in another float type.

        Parameters
        ----------
        dtype : numpy.float32 or numpy.float64

        Returns
        -------
        Committee
        """
        return Committee(member.astype(dtype) for member in self.members)
