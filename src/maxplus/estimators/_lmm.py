"""What LMM classifiers share: weights, facts of a training, folding, pruning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from maxplus.estimators._data import LabelledData
from maxplus.estimators._explained import ExplainedClassifier
from maxplus.estimators._folding import fold_affine
from maxplus.estimators._lmm_start import PROTOTYPES, WINS, check_lmm_facts, lmm_facts
from maxplus.estimators._trained import Start
from maxplus.models import LMM, AdditiveLMM
from maxplus.models.additive import useless_units, with_units
from maxplus.training.result import StateError, TrainingState
from maxplus.training.stages import Trained

Self = TypeVar("Self", bound="BaseLMMClassifier")


class Pruned(NamedTuple):
    """How many units went, how many of those can win nowhere, and how many are left."""

    dropped: int
    provable: int
    left: int


class LMMWeights:
    """The weights as fitted attributes, where ``model_`` is an LMM; sums have them in each term."""

    model_: Any

    @property
    def W0_(self) -> NDArray:
        """The two slopes of each feature, + then −; shape (2P,)."""
        return self.model_.W0

    @property
    def W1_(self) -> NDArray:
        """Offsets of the min-plus layer, shape (2P, H)."""
        return self.model_.W1

    @property
    def W2_(self) -> NDArray:
        """Offsets of the max-plus layer, shape (H, C); heights (H, 1) in a regression."""
        return self.model_.W2

    @property
    def n_hidden_(self) -> int:
        """Hidden units there are."""
        return self.model_.n_hidden


class BaseLMMClassifier(LMMWeights, ExplainedClassifier):
    """For classifiers whose ``model_`` is an LMM, or a sum of them."""

    model_: LMM | AdditiveLMM
    slope_: float
    scale_: NDArray
    unit_activation_counts_: NDArray
    feature_importances_: NDArray
    prototypes_: NDArray
    _model_class = LMM
    _slopes = ("W0",)

    def _check_facts(self, state: TrainingState, data: LabelledData) -> None:
        super()._check_facts(state, data)
        check_lmm_facts(state)

    def _restored(
        self, data: LabelledData, state: TrainingState, rng: np.random.Generator
    ) -> Start:
        start = super()._restored(data, state, rng)
        assert isinstance(start.model, LMM)
        for name in (PROTOTYPES, WINS):
            if name in start.facts and len(start.facts[name]) != start.model.n_hidden:
                raise StateError(f"its {name} are not one for each of the hidden units")
        return start

    def _facts(
        self, data: LabelledData, facts: Mapping[str, NDArray], trained: Trained
    ) -> dict[str, Any]:
        return super()._facts(data, facts, trained) | lmm_facts(data, facts, trained.model)

    def fold(
        self: Self,
        centre: ArrayLike,
        spread: ArrayLike,
        X: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Let a classifier that was trained on (x − centre) / spread take x itself.

        The scaling goes into the weights, and all fitted attributes follow.

        Parameters
        ----------
        centre, spread : numbers or arrays of shape (n_features,)
            For example ``mean_`` and ``scale_`` of a StandardScaler.
        X : array of shape (n_samples, n_features), optional
            The training samples before the scaling: losses are then those of the new weights,
            which differ from the old by rounding.
        sample_weight : array of shape (n_samples,), optional
            Their weights in training, for ``mean_loss_``.

        Returns
        -------
        self

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from sklearn.preprocessing import StandardScaler
        >>> from maxplus import LMMClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> scaler = StandardScaler().fit(X)
        >>> clf = LMMClassifier(30, random_state=0).fit(scaler.transform(X), y)
        >>> clf.fold(scaler.mean_, scaler.scale_, X).score(X, y)
        1.0
        """
        check_is_fitted(self, "model_")
        return fold_affine(self, centre, spread, X, sample_weight)

    def prune(self, *, only_provable: bool = False) -> Pruned:
        """Drop hidden units that never decide a score.

        Units that decide no class's score on any training sample go: the scores of all samples
        of the last training stay as they are, to the last bit. With ``only_provable``, only units
        that can win nowhere go (``maxplus.models.additive.useless_units``), which
        changes no prediction at all, but for ties and rounding.

        Parameters
        ----------
        only_provable : bool, default=False
            Whether only units go that can win nowhere.

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
        if not hasattr(self, "unit_activation_counts_"):
            raise ValueError(
                "this model does not know unit_activation_counts_, how often its units won: it "
                "comes from an older file; fit it again"
            )
        never = self.unit_activation_counts_ == 0
        provable = useless_units(self.model_) & never
        drop = provable if only_provable else never
        keep = np.flatnonzero(~drop)
        facts = {
            "model_": with_units(self.model_, keep),
            "unit_activation_counts_": self.unit_activation_counts_[keep],
        }
        if hasattr(self, "prototypes_"):
            facts["prototypes_"] = self.prototypes_[keep]
        self.__dict__ = vars(self) | facts
        return Pruned(int(drop.sum()), int(provable.sum()), keep.size)
