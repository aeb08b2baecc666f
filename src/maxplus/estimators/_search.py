"""What was tried before a training, as arrays that checkpoints, files and users can hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from maxplus.training.state import StateError, TrainingState

PREFIX, TEMPERATURE = "search.", "temperature"
# Folds that rows are held out in.
FOLDS = 3
# All that a candidate may look at; arrays hold the position.
VIEWS = ("features", "directions", "both", "line", "features and line", "mixed directions")
# Names and types of the arrays; scores are there where the user has a scorer.
ARRAYS: dict[str, type] = {
    "views": np.int64, "units": np.int64, "slope": np.float64,
    "losses": np.float64, "chosen": np.int64,
}  # fmt: skip
SCORES = "scores"


class Tried(Protocol):
    """A candidate: what it looks at, and its slope."""

    @property
    def views(self) -> str:
        """One of `VIEWS`."""

    @property
    def size(self) -> float:
        """How steep, in the unit that candidates are told apart by."""


def search_facts(
    candidates: Sequence[Tried], units: Sequence[int], losses: NDArray, chosen: int,
    scores: NDArray | None = None,
) -> dict[str, NDArray]:  # fmt: skip
    """All of a search as arrays, by names that begin with "search."."""
    arrays = {
        "views": np.array([VIEWS.index(c.views) for c in candidates], np.int64),
        "units": np.array(units, np.int64),
        "slope": np.array([c.size for c in candidates]),
        "losses": losses,
        "chosen": np.array([chosen], np.int64),
    }
    arrays |= {} if scores is None else {SCORES: scores}
    return {PREFIX + name: array for name, array in arrays.items()}


def search_table(facts: Mapping[str, NDArray], *, per_class: bool) -> dict[str, Any] | None:
    """``search_`` from such facts, units being those of a class, or all; None if there are none."""
    if f"{PREFIX}chosen" not in facts:
        return None
    names = [*ARRAYS, *([SCORES] if PREFIX + SCORES in facts else [])]
    own = {name: facts[PREFIX + name] for name in names}
    views = np.array([VIEWS[code] for code in own["views"]])
    kind = "units per class" if per_class else "units"
    words = [
        f"{seen}, {units} {kind}, slope {slope:g}"
        for seen, units, slope in zip(views, own["units"], own["slope"], strict=True)
    ]
    return own | {"views": views, "chosen": int(own["chosen"][0]), "candidates": np.array(words)}


def facts_of(table: Mapping[str, Any]) -> dict[str, NDArray]:
    """The facts that `search_table` made a table of."""
    own = {name: table[name] for name in (*ARRAYS, SCORES) if name in table} | {
        "views": np.array([VIEWS.index(seen) for seen in table["views"]], np.int64),
        "chosen": np.array([table["chosen"]], np.int64),
    }
    return {PREFIX + name: array for name, array in own.items()}


def check_search(arrays: Mapping[str, NDArray]) -> None:
    """StateError if arrays cannot be those of a search."""
    known = {name.removeprefix(PREFIX) for name in arrays if name.startswith(PREFIX)}
    if not known:
        return
    if known - {SCORES} != set(ARRAYS):
        raise StateError(f"what was searched is known by {sorted(known)}, not {sorted(ARRAYS)}")
    own = {name: arrays[PREFIX + name] for name in known}
    K = len(own["views"])
    shapes = {"losses": (K, FOLDS), SCORES: (K, FOLDS), "chosen": (1,)}
    for name, array in own.items():
        if array.dtype != ARRAYS.get(name, np.float64) or array.shape != shapes.get(name, (K,)):
            raise StateError(f"what was searched has {name} of another type or shape")
    if not (
        K
        and 0 <= own["chosen"][0] < K
        and 0 <= own["views"].min() <= own["views"].max() < len(VIEWS)
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
