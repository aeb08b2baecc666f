"""What is proven, in plain words: for small changes of rows, and for the training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxplus.certify import CertifiedRows
from maxplus.estimators._base import training_summary
from maxplus.explain.domain import held_columns
from maxplus.models import LOG2
from maxplus.report._text import percent, plural
from maxplus.report.figures import certified_figure

CURVE_POINTS = 41
# The changes that sentences speak of.
SMALL = 0.1


def certified(
    right: NDArray | None, radius: NDArray, whose: str, scale: NDArray, unit: str,
    columns: Sequence[str],
) -> dict[str, Any]:  # fmt: skip
    """How many rows are right and stay so, for changes of all sizes; without labels, how many stay.

    Parameters
    ----------
    right, radius : whether each row is, None if there are no labels, and how far it may move
    whose : which rows these are, in words
    scale, unit : how far each feature moves for a radius of 1, and what that is called
    columns : the column that each feature is made of
    """
    n = len(radius)
    has_labels = right is not None
    counted = np.ones(n, bool) if right is None else right
    own = radius[counted]
    eps = np.linspace(0.0, _reach(own), CURVE_POINTS)
    held = held_columns(columns, scale)
    kept = int((own >= SMALL).sum())
    return {
        "whose": whose,
        "has_labels": has_labels,
        "n_rows": n,
        "eps": eps.tolist(),
        "accuracy": [float((own >= e).sum() / n) for e in eps],
        "small": SMALL,
        "kept": kept,
        "share": percent(kept / n),
        "median_radius": CertifiedRows.of(radius, counted).median,
        "unit": unit,
        "held": held,
        "n_moving": len(dict.fromkeys(columns)) - len(held),
        "figure": certified_figure(radius, counted, unit) if has_labels else None,
    }


def _reach(radius: NDArray) -> float:
    finite = radius[np.isfinite(radius)]
    return float(finite.max()) if finite.size and finite.max() > 0 else 1.0


def training_certificate(estimator: Any) -> dict[str, Any]:
    """The largest training loss, and what follows of it for the training rows alone."""
    summary = training_summary(estimator)
    n = summary["n_rows"]
    if estimator.perfect_fit_:
        text = f"So every one of the {plural(n, 'training row')} is right: this is a proof."
    else:
        below = summary["n_below_log2"]
        text = (
            f"{below:,} of the {plural(n, 'training row')} are below log 2 and right for certain."
        )
    return {
        "max_loss": estimator.max_loss_, "threshold": LOG2, "text": text,
        "holds": estimator.perfect_fit_,
    }  # fmt: skip
