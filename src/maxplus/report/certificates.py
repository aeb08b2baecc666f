"""What is proven, in plain words: for small changes of rows, and for the training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxplus.explain.domain import held_columns
from maxplus.models import LOG2
from maxplus.report._text import percent, plural
from maxplus.report.asked import Asked
from maxplus.report.figures import certified_figure

CURVE_POINTS = 41
# The changes that sentences speak of.
SMALL = 0.1


def certified(
    asked: Asked, right: NDArray, radius: NDArray, is_new: NDArray | None, scale: NDArray,
    unit: str, columns: Sequence[str],
) -> dict[str, Any]:  # fmt: skip
    """How many rows are right and stay so, for changes of all sizes.

    On rows that were not used in training, if there are any among those that the page is about.

    Parameters
    ----------
    right, radius : whether each row is, and how far it may move
    is_new : which rows were not used in training, None if unknown
    scale, unit : how far each feature moves for a radius of 1, and what that is called
    columns : the column that each feature is made of
    """
    rows = np.arange(len(right))
    if is_new is not None and is_new.any():
        rows = np.flatnonzero(is_new)
    right, radius = right[rows], radius[rows]
    own = radius[right]
    eps = np.linspace(0.0, _reach(own), CURVE_POINTS)
    held = held_columns(columns, scale)
    kept = int((own >= SMALL).sum())
    return {
        "whose": _whose(asked, is_new),
        "n_rows": len(rows),
        "eps": eps.tolist(),
        "accuracy": [float((own >= e).sum() / len(rows)) for e in eps],
        "small": SMALL,
        "kept": kept,
        "share": percent(kept / len(rows)),
        "median_radius": float(np.median(own)) if own.size else None,
        "unit": unit,
        "held": held,
        "n_moving": len(dict.fromkeys(columns)) - len(held),
        "figure": certified_figure(radius, right, unit),
    }


def _whose(asked: Asked, is_new: NDArray | None) -> str:
    n, name = len(asked.y), asked.name
    if is_new is None:
        return f"the {plural(n, 'row')} of {name}; whether they were used in training is not known"
    if not is_new.any():
        return f"the {plural(n, 'row')} of {name}, which the model was trained on"
    return f"the {plural(int(is_new.sum()), 'row')} of {name} that were not used in training"


def _reach(radius: NDArray) -> float:
    finite = radius[np.isfinite(radius)]
    return float(finite.max()) if finite.size and finite.max() > 0 else 1.0


def training_certificate(estimator: Any) -> dict[str, Any]:
    """The largest training loss, and what follows of it for the training rows alone."""
    n = int(np.isfinite(estimator.training_losses_).sum())
    if estimator.certified_:
        text = f"So every one of the {plural(n, 'training row')} is right: this is a proof."
    else:
        below = int((estimator.training_losses_ < LOG2).sum())
        text = (
            f"{below:,} of the {plural(n, 'training row')} are below log 2 and right for certain."
        )
    return {"max_loss": estimator.max_loss_, "threshold": LOG2, "text": text}
