"""Rows of the explorer: predictions, explanations and counterfactuals."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from maxplus.explain import Explanation
from maxplus.report.data import PageRows


def explorer_rows(
    explanation: Explanation, table: PageRows, shown: NDArray, radius: NDArray
) -> list[dict[str, Any]]:
    """Return the data and explanations of the rows with the indices ``shown``.

    Row k of ``explanation`` explains row ``shown[k]`` of ``table``.
    """
    # In float64, like the scripts of the page.
    probability = special.softmax(explanation.score.astype(np.float64), axis=1)
    rows = []
    for k, n in enumerate(shown.tolist()):
        classes = [
            {
                "class": explanation.class_names[d],
                "score": float(explanation.score[k, d]),
                "probability": float(probability[k, d]),
                **_active_path(explanation, k, d),
            }
            for d in explanation.order[k].tolist()
        ]
        flip = explanation.counterfactual_texts[k]
        rows.append(
            {
                **table.identifiers(n),
                "label": None if table.y is None else str(table.y[n]),
                "predicted": classes[0]["class"],
                "radius": float(radius[n]),
                "values": table.X[n].astype(float).tolist(),
                "missing": []
                if table.missing is None
                else np.flatnonzero(table.missing[n]).tolist(),
                "classes": classes,
                "counterfactual": {
                    "column": flip.column,
                    "from": flip.before,
                    "to": flip.after,
                    "becomes": flip.new_class,
                }
                if flip.column
                else None,
                "reasons": _margin_contributions(explanation, k),
            }
        )
    return rows


def _active_path(explanation: Explanation, n: int, d: int) -> dict[str, Any]:
    """Return the active unit, feature and wall of class d in row n; {} for a sum of terms."""
    path = explanation.paths
    if path is None:
        return {}
    unit, row, feature = (int(a[n, d]) for a in (path.unit, path.row, path.feature))
    lmm = explanation.model.terms[0].lmm
    slope, offset = float(lmm.W0[row]), float(lmm.W1[row, unit])
    runner_up = int(path.runner_up[n, d])
    return {
        "unit": unit,
        "feature": explanation.feature_names[feature],
        "feature_index": feature,
        "value": float(explanation.X[n, feature]),
        # The zero of the active linear function.
        "wall": None if slope == 0.0 else -offset / slope,
        "slope": slope,
        "runner_up": None if runner_up < 0 else runner_up,
        "margin": None if runner_up < 0 else float(path.margin[n, d]),
    }


def _margin_contributions(explanation: Explanation, n: int) -> dict[str, Any] | None:
    """Return the contributions to the margin in row n; None for a single network."""
    if explanation.contributions is None:
        return None
    return {
        "rival": explanation.class_names[explanation.contributions.rival[n]],
        "margin": float(explanation.contributions.margin[n]),
        "baseline": float(explanation.contributions.baseline[n]),
        "amounts": explanation.contributions.contribution[n].tolist(),
    }


def contribution_groups(explanation: Explanation, means: NDArray) -> dict[str, Any]:
    """Return the groups of columns with their terms, and the mean scores of all terms (T, C)."""
    assert explanation.contributions is not None
    names, of_term = explanation.contributions.group_names, explanation.contributions.group_of_term
    return {
        "groups": [
            {
                "name": names[g],
                "features": list(columns),
                "terms": np.flatnonzero(of_term == g).tolist(),
            }
            for g, columns in enumerate(explanation.contributions.groups)
        ],
        "means": np.asarray(means, np.float64).tolist(),
    }


def unit_images(explanation: Explanation, X: NDArray) -> dict[str, list[float]]:
    """Return the centres of the active units of a single network, which are drawn as images."""
    if explanation.paths is None:
        return {}  # Each score of a sum of terms depends on several units.
    low, high = float(X.min()), float(X.max())
    images = np.clip(np.nan_to_num(explanation.centres, nan=low), low, high)
    return {
        str(unit): [float(f"{v:.3g}") for v in images[unit]]
        for unit in np.unique(explanation.paths.unit)
    }
