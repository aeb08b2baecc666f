"""The approximation theorem: error of a network of pyramids on a grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.harness import Result, Settings, Table
from maxplus.models import LMM
from maxplus.plots._canvas import BLUE, DASHED, GREEN, GREY, INK, VERMILION, new_figure, quiet_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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


def run(settings: Settings) -> Result:
    """Measure sup |h − f| on a fine grid for several spacings of the pyramids."""
    per_axis = {1: (3, 6, 12, 25, 50, 100), 2: (3, 6, 12, 25)}
    cases = [(target, m) for target in TARGETS for m in per_axis[target.n_features]]
    rows, values = [], []
    for target, m in settings.track(cases, "grids"):
        error, delta = _error(target, m)
        bound = 2 * target.lipschitz * delta
        rows.append(
            (
                target.name,
                f"{m**target.n_features:,}",
                f"{delta:.4f}",
                f"{error:.4f}",
                f"{bound:.4f}",
                f"{error / bound:.2f}",
            )
        )
        values.append(
            {
                "target": target.name,
                "units": m**target.n_features,
                "delta": delta,
                "error": error,
                "bound": bound,
            }
        )
    largest = max(v["error"] / v["bound"] for v in values)
    text = (
        "h(x) = max over the grid points of f(x_j) − K·‖x − x_j‖∞, the network of the proof, with "
        "K the function's Lipschitz constant and δ the largest distance of a point to the grid. "
        "The theorem states sup |h − f| ≤ 2Kδ (the maximum is over the grid points, not over "
        "2p points as in the paper's formula). The largest error measured is "
        f"{largest:.2f} of the bound: {'it holds' if largest <= 1 + 1e-9 else 'it is violated'}."
    )
    return Result(
        "The approximation theorem",
        text,
        [Table("Error of the pyramids", ("function", "units", "δ", "error", "2Kδ", "ratio"), rows)],
        {"cases": values},
        {"error": _draw(values)},
    )


def _grid(m: int, n_features: int) -> NDArray:
    """Return the centres of m cells along each axis."""
    axis = (np.arange(m) + 0.5) / m
    return np.stack([part.ravel() for part in np.meshgrid(*[axis] * n_features)], axis=1)


def _error(target: Target, m: int) -> tuple[float, float]:
    points = _grid(m, target.n_features)
    net = LMM.of_boxes(points, 0.0, target.f(points)[:, None], target.lipschitz)
    fine = np.linspace(0, 1, 4001)[:, None]
    if target.n_features == 2:
        axis = np.linspace(0, 1, 201)
        fine = np.stack([part.ravel() for part in np.meshgrid(axis, axis)], axis=1)
    error = np.abs(net.scores(fine)[:, 0] - target.f(fine)).max()
    return float(error), 0.5 / m


def _draw(values: list[dict]) -> Figure:
    figure = new_figure(12.0, 4.4)
    left, right = figure.subplots(1, 2)
    for target, colour in zip(TARGETS, (BLUE, GREEN, VERMILION), strict=True):
        own = [v for v in values if v["target"] == target.name]
        deltas = [v["delta"] for v in own]
        left.plot(deltas, [v["error"] for v in own], "o-", color=colour, label=target.name)
        left.plot(deltas, [v["bound"] for v in own], color=colour, linestyle=DASHED, linewidth=1)
    left.set_xscale("log")
    left.set_yscale("log")
    left.set_xlabel("δ")
    left.legend(frameon=False, fontsize=9)
    quiet_frame(left, "sup |h − f| against δ; dashed: 2Kδ")
    _draw_pyramids(right, TARGETS[0])
    return figure


def _draw_pyramids(ax: Axes, target: Target) -> None:
    x = np.linspace(0, 1, 1001)
    points = _grid(8, 1)
    heights = target.f(points)
    for point, height in zip(points[:, 0], heights, strict=True):
        ax.plot(x, height - target.lipschitz * np.abs(x - point), color=GREY, linewidth=0.7)
    net = LMM.of_boxes(points, 0.0, heights[:, None], target.lipschitz)
    ax.plot(x, target.f(x[:, None]), color=INK, label=f"f = {target.name}")
    ax.plot(x, net.scores(x[:, None])[:, 0], color=BLUE, label="h, eight units")
    ax.set_ylim(-2.2, 1.4)
    ax.legend(frameon=False, fontsize=9)
    quiet_frame(ax, "Pyramids under a curve")
