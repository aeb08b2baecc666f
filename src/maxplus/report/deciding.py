"""What decided each score of some rows, as the explorer shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from maxplus.explain import Paths, decisive_paths
from maxplus.explain.naming import view_features, view_names, view_terms
from maxplus.models import LMM, Committee
from maxplus.report.weights import members_of


class Member(NamedTuple):
    """One network's deciding paths of N rows, and what it sees of them."""

    model: LMM
    first_unit: int
    paths: Paths
    views: NDArray
    names: list[str]
    features: NDArray
    terms: list[list[int]]


class Decisions:
    """Scores, probabilities and deciding walls of N rows.

    Parameters
    ----------
    model : LMM or Committee
        Of a committee, the path of a class is that of the member that gives it the highest score.
    X : array of shape (N, P)
    feature_names : P words
    spread : array of shape (P,), or None: how much features vary, for the names of sums
    """

    def __init__(
        self, model: LMM | Committee, X: NDArray, feature_names: Sequence[str],
        spread: NDArray | None = None,
    ) -> None:  # fmt: skip
        self.members: list[Member] = []
        first = 0
        for own in members_of(model):
            self.members.append(Member(
                own, first, decisive_paths(own, X), own.views(X),
                view_names(own.directions, feature_names, spread),
                view_features(own.directions, own.n_features),
                view_terms(own.directions, own.n_features, spread),
            ))  # fmt: skip
            first += own.n_hidden
        self.score = Committee.mean([member.paths.score for member in self.members])
        # In float64 whatever the scores' type, as the page does it.
        self.probability = special.softmax(self.score.astype(np.float64), axis=1)
        self.leader = np.argmax([member.paths.score for member in self.members], axis=0)

    def classes(self, n: int, labels: Sequence[str]) -> list[dict[str, Any]]:
        """All classes of row n, the highest score first."""
        order = np.argsort(-self.score[n], kind="stable")
        return [self._entry(n, int(d), labels[d]) for d in order]

    def _entry(self, n: int, d: int, label: str) -> dict[str, Any]:
        k = int(self.leader[n, d])
        own = self.members[k]
        path = own.paths
        unit, row, view = (int(a[n, d]) for a in (path.unit, path.row, path.view))
        slope, offset = float(own.model.W0[row]), float(own.model.W1[row, unit])
        feature, runner_up = int(own.features[view]), int(path.runner_up[n, d])
        return {
            "class": label,
            "score": float(self.score[n, d]),
            "probability": float(self.probability[n, d]),
            "member": None if len(self.members) == 1 else k + 1,
            "unit": own.first_unit + unit,
            "feature": own.names[view],
            # Where the page lists its value; a direction is none of the features.
            "feature_index": None if feature < 0 else feature,
            "terms": own.terms[view],
            "value": float(own.views[n, view]),
            # Where the unit's line is 0: one side of its box.
            "wall": None if slope == 0.0 else -offset / slope,
            "slope": slope,
            "runner_up": None if runner_up < 0 else own.first_unit + runner_up,
            "margin": None if runner_up < 0 else float(path.margin[n, d]),
        }
