"""The plateau of the maximum loss of the model without hidden layers."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from experiments.harness import Result, Settings, Table
from maxplus import datasets
from maxplus.estimators import MaxPlusClassifier
from maxplus.plots._canvas import BLUE, DASHED, INK, SMALL, VERMILION, new_figure, quiet_frame

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_ITERATIONS, QUICK_ITERATIONS, QUICK_IMAGES = 3_000, 500, 2_000
STARTS = {"glorot": "Glorot", "gaussian": "Gaussian"}
STEPS = {"two-phase": "Polyak, then constant", "constant": "constant"}
UNIFORM_LOSS = float(np.log(10))
# Maximum decrease in the second half of the iterations that counts as a plateau.
STILL = 0.02


def run(settings: Settings) -> Result:
    """Train on MNIST from two initialisations with two step rules."""
    data = datasets.load_mnist()
    iterations = QUICK_ITERATIONS if settings.quick else N_ITERATIONS
    n = QUICK_IMAGES if settings.quick else len(data.y_train)
    X, y = data.X_train[:n], data.y_train[:n]
    curves: dict[str, NDArray] = {}
    rows = []
    for start, step in settings.track(list(product(STARTS, STEPS)), "zero hidden layers"):
        model = MaxPlusClassifier(init=start, step=step, max_iter=iterations, random_state=0)
        model.fit(X, y)
        curve = np.minimum.accumulate(model.loss_curve_)
        curves[f"{STARTS[start]} start, {STEPS[step]} steps"] = curve
        rows.append(
            (
                STARTS[start],
                STEPS[step],
                f"{curve[0]:.3f}",
                f"{curve[iterations // 2]:.3f}",
                f"{curve[-1]:.3f}",
                f"{model.score(X, y):.1%}",
                f"{model.score(data.X_test, data.y_test):.1%}",
            )
        )
    columns = (
        "start",
        "steps",
        "max loss at first",
        "best of the first half",
        "best of all",
        "train accuracy",
        "test accuracy",
    )
    return Result(
        "The model without hidden layers",
        _text(curves, n, iterations),
        [Table("Maximum loss on MNIST", columns, rows)],
        {
            "images": n,
            "iterations": iterations,
            "best": {name: float(curve[-1]) for name, curve in curves.items()},
        },
        {"plateau": _draw(curves)},
        f"{n:,} images, {iterations:,} iterations" if settings.quick else "",
    )


def _text(curves: dict[str, NDArray], n: int, iterations: int) -> str:
    lowest = min(curves.values(), key=lambda curve: float(curve[-1]))
    fall = lowest[iterations // 2] - lowest[-1]
    plateau = (
        f"the second half of the iterations lowers it by {fall:.4f} only: a plateau"
        if fall < STILL
        else f"it still fell by {fall:.3f} in the second half of the iterations"
    )
    return (
        f"z_d = max_p (x_p + W[d, p]) on {n:,} images, {iterations:,} iterations. The paper says "
        "that the loss of this model plateaus at a relatively high value and gives no number. "
        f"Here the lowest maximum loss of all starts and steps is {lowest[-1]:.3f}, and {plateau}. "
        f"log 10 = {UNIFORM_LOSS:.3f} is the loss of a model that gives every class the same "
        "probability. One bright pixel decides each score, and every digit has pixels of full "
        "brightness."
    )


def _draw(curves: dict[str, NDArray]) -> Figure:
    figure = new_figure(7.0, 4.4)
    ax = figure.subplots()
    styles = product((BLUE, VERMILION), ("-", "--"))
    for (name, curve), (colour, line) in zip(curves.items(), styles, strict=True):
        ax.plot(np.arange(1, curve.size + 1), curve, line, color=colour, label=name)
    ax.axhline(UNIFORM_LOSS, color=INK, linewidth=0.9, linestyle=DASHED)
    ax.text(1, UNIFORM_LOSS - 0.01, "log 10: uniform guess", va="top", fontsize=SMALL, color=INK)
    ax.set(xscale="log", xlabel="iteration", ylabel="best maximum loss so far")
    ax.set_ylim(bottom=UNIFORM_LOSS - 0.1)
    ax.legend(frameon=False, fontsize=SMALL)
    quiet_frame(ax, "Maximum loss without hidden layers")
    return figure
