"""Explanations of individual rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from maxplus.explain import Domain, contributions, decisive_paths
from maxplus.explain.contributions import columns_of, groups_of
from maxplus.models import LMM, AdditiveLMM


class Decisions:
    """Scores, probabilities and explanations of N rows.

    A single network is explained by the active unit and feature of each class, an additive model by
    the contributions of the columns to the margin of the predicted class over the runner-up.

    Parameters
    ----------
    model : LMM or AdditiveLMM
    X : array of shape (N, P)
    feature_names : P names
    domain : Domain, maps features to columns
    means : array of shape (T, C), mean scores of the terms of an additive model
    """

    def __init__(
        self,
        model: LMM | AdditiveLMM,
        X: NDArray,
        feature_names: Sequence[str],
        domain: Domain,
        means: NDArray | None = None,
    ) -> None:
        self.model, self.X, self.names = model, X, feature_names
        self.score = model.scores(X)
        # The scripts of the page compute in float64 as well.
        self.probability = special.softmax(self.score.astype(np.float64), axis=1)
        self.paths = self.contributions = None
        if isinstance(model, LMM):
            self.paths = decisive_paths(model, X)
        elif means is not None:
            self.contributions = contributions(model, X, means, domain=domain)
        self.means, self.domain = means, domain

    def classes(self, n: int, labels: Sequence[str]) -> list[dict[str, Any]]:
        """Return all classes for row n, in descending order of their scores."""
        order = np.argsort(-self.score[n], kind="stable")
        return [
            {
                "class": labels[d],
                "score": float(self.score[n, d]),
                "probability": float(self.probability[n, d]),
                **self._path(n, int(d)),
            }
            for d in order
        ]

    def _path(self, n: int, d: int) -> dict[str, Any]:
        """Return the unit, feature and threshold that determine a score."""
        path = self.paths
        if path is None:
            return {}
        assert isinstance(self.model, LMM)
        unit, row, feature = (int(a[n, d]) for a in (path.unit, path.row, path.feature))
        slope, offset = float(self.model.W0[row]), float(self.model.W1[row, unit])
        runner_up = int(path.runner_up[n, d])
        return {
            "unit": unit,
            "feature": self.names[feature],
            "feature_index": feature,
            "value": float(self.X[n, feature]),
            # The zero of the active linear function, which is a face of the box of the unit.
            "wall": None if slope == 0.0 else -offset / slope,
            "slope": slope,
            "runner_up": None if runner_up < 0 else runner_up,
            "margin": None if runner_up < 0 else float(path.margin[n, d]),
        }

    def reasons(self, n: int, labels: Sequence[str]) -> dict[str, Any] | None:
        """Return the contributions to the margin in row n; None for a single network."""
        if self.contributions is None:
            return None
        return {
            "rival": labels[self.contributions.rival[n]],
            "margin": float(self.contributions.margin[n]),
            "baseline": float(self.contributions.baseline[n]),
            "amounts": self.contributions.contribution[n].tolist(),
        }

    def groups(self) -> dict[str, Any] | None:
        """Return the groups of columns, their terms and the mean scores of the terms."""
        if self.contributions is None or self.means is None:
            return None
        assert isinstance(self.model, AdditiveLMM)
        _, group_of = groups_of(self.model, columns_of(self.domain))
        return {
            "groups": [
                {
                    "name": name,
                    "features": list(columns),
                    "terms": np.flatnonzero(group_of == g).tolist(),
                }
                for g, (name, columns) in enumerate(
                    zip(self.contributions.group_names, self.contributions.groups, strict=True)
                )
            ],
            "means": np.asarray(self.means, np.float64).tolist(),
        }
