"""Fewer hidden units, the same training predictions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from maxplus.models import LMM
from maxplus.models.pruning import useless_units, with_units


class Pruned(NamedTuple):
    """How many units went, how many of those can win nowhere, and how many are left."""

    dropped: int
    provable: int
    left: int


class PruningMixin:
    """For classifiers whose ``model_`` is an LMM and that know ``unit_wins_``."""

    model_: LMM
    unit_wins_: NDArray

    def prune(self, *, only_provable: bool = False) -> Pruned:
        """Drop hidden units that never decide a score.

        Units that decide no class's score on any training sample go: the scores of all samples
        of the last training stay as they are, to the last bit. With ``only_provable``, only units
        that can win nowhere go (`maxplus.models.pruning.useless_units`), which
        changes no prediction at all, but for ties and rounding.

        Returns
        -------
        Pruned(dropped, provable, left)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from maxplus import LMMClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = LMMClassifier(100, random_state=0).fit(X, y)
        >>> before = clf.decision_function(X)
        >>> dropped, provable, left = clf.prune()
        >>> bool((clf.decision_function(X) == before).all()), dropped + left
        (True, 100)
        """
        check_is_fitted(self, "model_")
        if not hasattr(self, "unit_wins_"):
            raise ValueError(
                "this model does not know unit_wins_, how often its units won: it comes from an "
                "older file; fit it again"
            )
        never = self.unit_wins_ == 0
        provable = useless_units(self.model_) & never
        drop = provable if only_provable else never
        keep = np.flatnonzero(~drop)
        self.model_ = with_units(self.model_, keep)
        self.unit_wins_ = self.unit_wins_[keep]
        facts: dict[str, Any] = self.__dict__
        if "prototypes_" in facts:
            facts["prototypes_"] = facts["prototypes_"][keep]
        return Pruned(int(drop.sum()), int(provable.sum()), keep.size)
