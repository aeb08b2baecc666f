"""Lipschitz interpolation: the network of the paper's approximation theorem."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from maxplus.models import LMM
from maxplus.models.initialization import lipschitz_constant, pyramids_bytes
from maxplus.training import memory


def interpolate(
    X: NDArray, y: NDArray, weight: NDArray | None, n_hidden: int | str, slope: float | str,
    random_state: Any,
) -> dict[str, Any]:  # fmt: skip
    """A pyramid at each chosen point, and what is known of them, as fitted attributes; O(N²·P)."""
    points, targets, index = _merge_equal_points(X, y, weight)
    lipschitz = lipschitz_constant(points, targets)
    margin = 1.0 + float(np.finfo(points.dtype).eps) ** 0.5
    K = lipschitz * margin if slope == "auto" else float(slope)
    reach = max(1.0, float(np.abs(points).max())) * K
    if not reach < np.finfo(points.dtype).max / 8:
        raise ValueError(
            f"slope {K:g} times X does not fit into {points.dtype}: samples that "
            "nearly coincide have different targets; set slope, or merge such samples"
        )
    if n_hidden != "auto" and int(n_hidden) < len(points):
        rng = check_random_state(random_state)
        chosen = np.sort(rng.choice(len(points), int(n_hidden), replace=False))
        points, targets, index = points[chosen], targets[chosen], index[chosen]
    memory.require(
        pyramids_bytes(len(points), points.shape[1], 1, points.dtype), f"{len(points):,} pyramids",
        memory.FEWER_UNITS,
    )  # fmt: skip
    model = LMM.of_boxes(points, 0.0, targets[:, None], K)
    return {
        "model_": model,
        "slope_": K,
        "lipschitz_": lipschitz,
        "prototypes_": index,
        "interpolates_": bool(np.array_equal(model.scores(points), model.W2)),
    }


def _merge_equal_points(
    X: NDArray, y: NDArray, weight: NDArray | None
) -> tuple[NDArray, NDArray, NDArray]:
    """Different points, the mean target at each, and where each occurs first."""
    weight = np.ones(len(y)) if weight is None else weight
    used = np.flatnonzero(weight)
    points, first, group = np.unique(X[used], axis=0, return_index=True, return_inverse=True)
    group = group.ravel()
    total = np.bincount(group, weights=weight[used])
    targets = np.bincount(group, weights=weight[used] * y[used]) / total
    # A point of one sample keeps its target to the last bit.
    alone = np.bincount(group) == 1
    targets[alone] = y[used[first[alone]]]
    order = np.argsort(first)
    return points[order], targets[order], used[first[order]]
