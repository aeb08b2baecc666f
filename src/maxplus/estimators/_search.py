"""What was tried before a training, as arrays that checkpoints, files and users can hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxplus.estimators._capacity import SEEN
from maxplus.estimators._choice import FOLDS, Search
from maxplus.training.state import StateError, TrainingState

PREFIX, TEMPERATURE = "search.", "temperature"
# Names and types of the arrays.
ARRAYS: dict[str, type] = {
    "views": np.int64, "units": np.int64, "slope": np.float64,
    "losses": np.float64, "chosen": np.int64,
}  # fmt: skip


def search_facts(search: Search, n_samples: int, n_classes: int) -> dict[str, NDArray]:
    """All of a search as arrays, by names that begin with "search."."""
    units = [c.units_for(n_samples, n_classes) for c in search.candidates]
    arrays = {
        "views": np.array([SEEN.index(c.views) for c in search.candidates], np.int64),
        "units": np.array(units, np.int64),
        "slope": np.array([c.size for c in search.candidates]),
        "losses": search.losses,
        "chosen": np.array([search.chosen], np.int64),
    }
    return {PREFIX + name: array for name, array in arrays.items()}


def search_table(facts: Mapping[str, NDArray]) -> dict[str, Any] | None:
    """``search_`` from such facts; None if nothing was searched."""
    if f"{PREFIX}chosen" not in facts:
        return None
    own = {name: facts[PREFIX + name] for name in ARRAYS}
    views = np.array([SEEN[code] for code in own["views"]])
    names = [
        f"{seen}, {units} units per class, slope {slope:g}"
        for seen, units, slope in zip(views, own["units"], own["slope"], strict=True)
    ]
    return own | {"views": views, "chosen": int(own["chosen"][0]), "candidates": np.array(names)}


def facts_of(table: Mapping[str, Any]) -> dict[str, NDArray]:
    """The facts that `search_table` made a table of."""
    own = {name: table[name] for name in ARRAYS} | {
        "views": np.array([SEEN.index(seen) for seen in table["views"]], np.int64),
        "chosen": np.array([table["chosen"]], np.int64),
    }
    return {PREFIX + name: array for name, array in own.items()}


def check_search(arrays: Mapping[str, NDArray]) -> None:
    """StateError if arrays cannot be those of a search."""
    known = {name.removeprefix(PREFIX) for name in arrays if name.startswith(PREFIX)}
    if not known:
        return
    if known != set(ARRAYS):
        raise StateError(f"what was searched is known by {sorted(known)}, not {sorted(ARRAYS)}")
    own = {name: arrays[PREFIX + name] for name in ARRAYS}
    K = len(own["views"])
    shapes = {"losses": (K, FOLDS), "chosen": (1,)}
    for name, dtype in ARRAYS.items():
        if own[name].dtype != dtype or own[name].shape != shapes.get(name, (K,)):
            raise StateError(f"what was searched has {name} of another type or shape")
    if not (
        K
        and 0 <= own["chosen"][0] < K
        and 0 <= own["views"].min() <= own["views"].max() < len(SEEN)
        and own["units"].min() > 0
        and (own["slope"] > 0).all()
        and not np.isnan(own["losses"]).any()
    ):
        raise StateError("what was searched holds numbers that cannot be")


def check_temperature(state: TrainingState) -> None:
    """StateError if a state's temperature cannot be."""
    (value,) = state.array(f"before.{TEMPERATURE}", np.float64, (1,))
    if not value > 0:
        raise StateError(f"its temperature cannot be {value}")
