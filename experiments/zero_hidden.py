"""Plateau of the maximum loss of the model without hidden layers."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from experiments.harness import Figure, Result, Settings, Table, axes
from maxplus import datasets
from maxplus.estimators import MaxPlusClassifier
from maxplus.plots._style import BLUE, DASHED, INK, SMALL, VERMILION

N_ITERATIONS, QUICK_ITERATIONS, QUICK_IMAGES = 3_000, 500, 2_000
STARTS = {"glorot": "Glorot", "gaussian": "Gaussian"}
STEPS = {"two-phase": "Polyak, then constant", "constant": "constant"}
UNIFORM_LOSS = float(np.log(10))
# Smaller decreases in the second half of the iterations count as a plateau.
PLATEAU_TOLERANCE = 0.02
COLUMNS = {
    "start": "start",
    "steps": "steps",
    "max loss at first": "{curve[0]:.3f}",
    "best of the first half": "{halfway:.3f}",
    "best of all": "{best:.3f}",
    "train accuracy": "{train:.1%}",
    "test accuracy": "{test:.1%}",
}


def run(settings: Settings) -> Result:
    """Train on MNIST with two initialisations and two step rules."""
    data = datasets.load_mnist()
    iterations = settings.pick(N_ITERATIONS, QUICK_ITERATIONS)
    n = settings.pick(len(data.y_train), QUICK_IMAGES)
    X, y = data.X_train[:n], data.y_train[:n]
    runs = []
    for start, step in settings.track(list(product(STARTS, STEPS)), "zero hidden layers"):
        model = MaxPlusClassifier(init=start, step=step, max_iter=iterations, random_state=0)
        curve = np.minimum.accumulate(model.fit(X, y).loss_curve_)
        runs.append(
            {
                "start": STARTS[start],
                "steps": STEPS[step],
                "curve": curve,
                "halfway": curve[iterations // 2],
                "best": curve[-1],
                "train": model.score(X, y),
                "test": model.score(data.X_test, data.y_test),
            }
        )
    lowest = min(runs, key=lambda run: run["best"])
    decrease = lowest["halfway"] - lowest["best"]
    plateau = (
        f"the second half of the iterations lowers it by {decrease:.4f} only: a plateau"
        if decrease < PLATEAU_TOLERANCE
        else f"it still fell by {decrease:.3f} in the second half of the iterations"
    )
    text = (
        f"z_d = max_p (x_p + W[d, p]) on {n:,} images, {iterations:,} iterations. The paper says "
        "that the loss of this model plateaus at a relatively high value and gives no number. "
        f"Here the lowest maximum loss of all starts and steps is {lowest['best']:.3f}, and "
        f"{plateau}. log 10 = {UNIFORM_LOSS:.3f} is the loss of a model that gives every class the "
        "same probability. Each score is determined by one bright pixel, and every digit has "
        "pixels of full brightness."
    )
    curves = {f"{run['start']} start, {run['steps']} steps": run["curve"] for run in runs}
    best = {name: float(curve[-1]) for name, curve in curves.items()}
    return Result(
        "The model without hidden layers",
        text,
        [Table.from_records("Maximum loss on MNIST", runs, COLUMNS)],
        {"images": n, "iterations": iterations, "best": best},
        {"plateau": _draw(curves)},
        f"{n:,} images, {iterations:,} iterations",
    )


def _draw(curves: dict[str, NDArray]) -> Figure:
    labels = {"xlabel": "iteration", "ylabel": "best maximum loss so far"}
    figure, ax = axes(7.0, 4.4, "Maximum loss without hidden layers", xscale="log", **labels)
    styles = product((BLUE, VERMILION), ("-", "--"))
    for (name, curve), (colour, line) in zip(curves.items(), styles, strict=True):
        ax.plot(np.arange(1, curve.size + 1), curve, line, color=colour, label=name)
    ax.axhline(UNIFORM_LOSS, color=INK, linewidth=0.9, linestyle=DASHED)
    ax.text(1, UNIFORM_LOSS - 0.01, "log 10: uniform guess", va="top", fontsize=SMALL, color=INK)
    ax.set_ylim(bottom=UNIFORM_LOSS - 0.1)
    ax.legend(frameon=False, fontsize=SMALL)
    return figure
