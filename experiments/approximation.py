"""Approximation theorem: error of the constructed network on a grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.harness import Axes, Figure, Result, Settings, Table, panels
from maxplus.models import LMM
from maxplus.plots._style import BLUE, DASHED, GREEN, GREY, INK, VERMILION


class Target(NamedTuple):
    """A function on [0, 1]^p with its Lipschitz constant in the L∞ norm."""

    name: str
    f: Callable[[NDArray], NDArray]
    lipschitz: float
    n_features: int


TARGETS = (
    Target("sin 6x", lambda X: np.sin(6 * X[:, 0]), 6.0, 1),
    Target("|x − 0.4|", lambda X: np.abs(X[:, 0] - 0.4), 1.0, 1),
    Target("sin 3x · cos 2y", lambda X: np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1]), 5.0, 2),
)
# Numbers of grid points per axis, and points of the fine grid per axis, by number of features.
GRIDS = {1: (3, 6, 12, 25, 50, 100), 2: (3, 6, 12, 25)}
FINE = {1: 4001, 2: 201}


def run(settings: Settings) -> Result:
    """Measure sup |h − f| on a fine grid for several numbers of units."""
    cases = [(target, m) for target in TARGETS for m in GRIDS[target.n_features]]
    values = [_measure(target, m) for target, m in settings.track(cases, "grids")]
    largest = max(v["error"] / v["bound"] for v in values)
    text = (
        "h(x) = max over the grid points of f(x_j) − K·‖x − x_j‖∞, the network of the proof, where "
        "K is the Lipschitz constant and δ the largest distance of a point to the grid. "
        "The theorem states sup |h − f| ≤ 2Kδ (the maximum is over the grid points, not over "
        "2p points as in the paper's formula). The largest error measured is "
        f"{largest:.2f} of the bound: {'it holds' if largest <= 1 + 1e-9 else 'it is violated'}."
    )
    columns = {
        "function": "target",
        "units": "{units:,}",
        "δ": "{delta:.4f}",
        "error": "{error:.4f}",
        "2Kδ": "{bound:.4f}",
        "ratio": "{ratio:.2f}",
    }
    cells = [v | {"ratio": v["error"] / v["bound"]} for v in values]
    return Result(
        "The approximation theorem",
        text,
        [Table.from_records("Error of the pyramids", cells, columns)],
        {"cases": values},
        {"error": _draw(values)},
    )


def _grid(axis: NDArray, n_features: int) -> NDArray:
    return np.stack([part.ravel() for part in np.meshgrid(*[axis] * n_features)], axis=1)


def _pyramids(target: Target, m: int) -> tuple[NDArray, LMM]:
    """Return the centres of m cells along each axis, and the network with a unit for each."""
    points = _grid((np.arange(m) + 0.5) / m, target.n_features)
    return points, LMM.from_boxes(points, 0.0, target.f(points)[:, None], target.lipschitz)


def _measure(target: Target, m: int) -> dict[str, Any]:
    points, net = _pyramids(target, m)
    fine = _grid(np.linspace(0, 1, FINE[target.n_features]), target.n_features)
    return {
        "target": target.name,
        "units": len(points),
        "delta": 0.5 / m,
        "error": float(np.abs(net.scores(fine)[:, 0] - target.f(fine)).max()),
        "bound": 2 * target.lipschitz * (0.5 / m),
    }


def _draw(values: list[dict[str, Any]]) -> Figure:
    titles = ("sup |h − f| against δ; dashed: 2Kδ", "Pyramids under a curve")
    figure, (left, right) = panels(12.0, 4.4, titles)
    for target, colour in zip(TARGETS, (BLUE, GREEN, VERMILION), strict=True):
        cases = [v for v in values if v["target"] == target.name]
        deltas = [v["delta"] for v in cases]
        left.plot(deltas, [v["error"] for v in cases], "o-", color=colour, label=target.name)
        left.plot(deltas, [v["bound"] for v in cases], color=colour, linestyle=DASHED, linewidth=1)
    left.set(xscale="log", yscale="log", xlabel="δ")
    left.legend(frameon=False, fontsize=9)
    _draw_pyramids(right, TARGETS[0])
    return figure


def _draw_pyramids(ax: Axes, target: Target) -> None:
    x = np.linspace(0, 1, 1001)
    points, net = _pyramids(target, 8)
    for point, height in zip(points[:, 0], target.f(points), strict=True):
        ax.plot(x, height - target.lipschitz * np.abs(x - point), color=GREY, linewidth=0.7)
    ax.plot(x, target.f(x[:, None]), color=INK, label=f"f = {target.name}")
    ax.plot(x, net.scores(x[:, None])[:, 0], color=BLUE, label="h, eight units")
    ax.set_ylim(-2.2, 1.4)
    ax.legend(frameon=False, fontsize=9)
