"""Explanations of single rows for the explorer."""

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

    For a single network the explanation is the active wall of each class; for a sum of terms, the
    contributions of the columns to the margin of the predicted class over the runner-up.

    Parameters
    ----------
    model : LMM or AdditiveLMM
    X : array of shape (N, P)
    feature_names : P names
    domain : Domain, which groups the features into columns
    means : array of shape (T, C), mean scores of the terms of a sum
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
        # In float64 for scores of any dtype, as in the page's scripts.
        self.probability = special.softmax(self.score.astype(np.float64), axis=1)
        self.paths = self.found = None
        if isinstance(model, LMM):
            self.paths = decisive_paths(model, X)
        elif means is not None:
            self.found = contributions(model, X, means, domain=domain)
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
        """Return the unit, feature and wall that determine a score."""
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
            # The zero of the active line of the unit, which is one side of its box.
            "wall": None if slope == 0.0 else -offset / slope,
            "slope": slope,
            "runner_up": None if runner_up < 0 else runner_up,
            "margin": None if runner_up < 0 else float(path.margin[n, d]),
        }

    def reasons(self, n: int, labels: Sequence[str]) -> dict[str, Any] | None:
        """Return the contributions to the margin in row n; None for a single network."""
        if self.found is None:
            return None
        return {
            "rival": labels[self.found.rival[n]],
            "margin": float(self.found.margin[n]),
            "baseline": float(self.found.baseline[n]),
            "amounts": self.found.contribution[n].tolist(),
        }

    def groups(self) -> dict[str, Any] | None:
        """Return the groups of columns with contributions, their terms and mean scores."""
        if self.found is None or self.means is None:
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
                    zip(self.found.group_names, self.found.groups, strict=True)
                )
            ],
            "means": np.asarray(self.means, np.float64).tolist(),
        }
