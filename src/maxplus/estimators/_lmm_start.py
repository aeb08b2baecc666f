"""What is known of an LMM from its start on, under names that checkpoints keep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxplus.distributed import current
from maxplus.estimators._data import LabelledData
from maxplus.estimators._scaling import SPREAD
from maxplus.explain import feature_importances, term_means
from maxplus.explain.importances import ENOUGH
from maxplus.models import LMM, AdditiveLMM
from maxplus.training.result import StateError, TrainingState

SLOPE, PROTOTYPES, WINS, DISTANCE = "slope", "prototypes", "unit_activation_counts", "distance"
# How stages went, and the fitted attributes for it.
COURSES = {
    "warmup_losses": "loss_curve_",
    "validation_scores": "validation_scores_",
    "polish_losses": "polish_losses_",
}


def check_reach(X: NDArray, slope: float) -> None:
    """Refuse features that times the slope leave the range of their float type."""
    largest = max(float(X.max()), -float(X.min()))
    reach = max(1.0, slope) * max(1.0, largest)
    if not reach < 1e-4 * np.finfo(X.dtype).max:
        raise ValueError(
            f"X reaches {largest:g}, which times slope {slope:g} does not fit into "
            f"{X.dtype}; scale the features (for example with StandardScaler) or set slope"
        )


def check_lmm_facts(state: TrainingState) -> None:
    """StateError if what a state knows of the start cannot be."""
    for name in (SLOPE, DISTANCE):
        if name in state.before or name == SLOPE:
            (value,) = state.array(f"before.{name}", np.float64, (1,))
            if not value > 0:
                raise StateError(f"its {name} cannot be {value}")
    for name in (PROTOTYPES, WINS):
        if name in state.before:
            numbers = state.array(f"before.{name}", np.int64, (None,))
            if numbers.min(initial=0) < 0:
                raise StateError(f"its {name} hold a number below 0")


def lmm_facts(data: LabelledData, facts: Mapping[str, NDArray], model: LMM) -> dict[str, Any]:
    """Fitted attributes of LMM classifiers, from the facts of the start and of all stages."""
    # Samples of earlier calls are gone; units that they needed then should stay.
    comm = current()
    wins = comm.sum(model.wins(data.X)) + facts.get(WINS, 0)
    fitted: dict[str, Any] = {
        "slope_": float(facts[SLOPE][0]), "unit_activation_counts_": wins,
        "scale_": facts.get(SPREAD, np.ones(data.X.shape[1])),
        "feature_importances_": comm.root_only(
            lambda X: feature_importances(model, X[:: max(1, -(-len(X) // ENOUGH))]), data.X
        ),
    }  # fmt: skip
    if PROTOTYPES in facts:
        fitted["prototypes_"] = facts[PROTOTYPES]
    if "suspects" in facts:
        fitted["suspects_"] = data.given[facts["suspects"]]
    return fitted | {own: facts[name] for name, own in COURSES.items() if name in facts}


def sum_facts(
    data: LabelledData, facts: Mapping[str, NDArray], model: AdditiveLMM
) -> dict[str, Any]:
    """Return the fitted attributes that sums of terms have beside those of all classifiers."""
    comm = current()

    def means(X: NDArray) -> tuple[NDArray, NDArray]:
        some = X[:: max(1, -(-len(X) // ENOUGH))]
        return term_means(model, some), feature_importances(model, some)

    own_means, importances = comm.root_only(means, data.X)
    return {
        "scale_": facts[SPREAD], "unit_activation_counts_": comm.sum(model.wins(data.X)),
        "term_means_": own_means, "feature_importances_": importances,
    }  # fmt: skip
