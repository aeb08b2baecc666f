"""The model without hidden layers: its maximum loss stops falling at a high value."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxplus import datasets
from maxplus.estimators import MaxPlusClassifier
from maxplus.plots import plot_convergence
from maxplus.reproduce.finding import Finding, Settings, Table

N_ITERATIONS, QUICK_ITERATIONS, QUICK_IMAGES = 10_000, 1_000, 3_000
STARTS = {"glorot": "Glorot", "gaussian": "Gaussian", "uniform": "uniform"}


def run(settings: Settings) -> Finding:
    """Train on MNIST from several starts, Polyak steps first and constant steps after."""
    data = datasets.load_mnist()
    iterations = QUICK_ITERATIONS if settings.quick else N_ITERATIONS
    n = QUICK_IMAGES if settings.quick else len(data.y_train)
    X, y = data.X_train[:n], data.y_train[:n]
    curves, rows = {}, []
    for start in settings.track(list(STARTS), "zero hidden layers"):
        model = MaxPlusClassifier(init=start, max_iter=iterations, random_state=0).fit(X, y)
        curves[start] = model.loss_curve_
        rows.append((
            STARTS[start], f"{model.loss_curve_[0]:.3f}", f"{_best(model, 0.5):.3f}",
            f"{model.max_loss_:.3f}", f"{model.score(X, y):.1%}",
            f"{model.score(data.X_test, data.y_test):.1%}",
        ))  # fmt: skip
    best = min(STARTS, key=lambda start: curves[start].min())
    guessing = float(np.log(10))
    lowest = curves[best].min()
    text = (
        f"z_d = max_p (x_p + W[d, p]) on {n:,} images, {iterations:,} iterations. The paper says "
        "that the loss of this model plateaus at a relatively high value and gives no number. "
        f"Here the best maximum loss of all starts is {lowest:.3f}, "
        f"{'above' if lowest > guessing else 'below'} log 10 = {guessing:.3f}, the loss of a model "
        "that gives every class the same probability; the second half of the iterations hardly "
        "lowers it. One bright pixel decides each score, and nearly every image has pixels of "
        "full brightness."
    )
    figure = plot_convergence(curves[best], 10, switch=iterations // 2, sample="image")
    columns = (
        "start", "max loss at first", "best in the first half", "best of all", "train accuracy",
        "test accuracy",
    )  # fmt: skip
    return Finding(
        "The model without hidden layers",
        text,
        [Table("Maximum loss on MNIST", columns, rows)],
        {
            "images": n,
            "iterations": iterations,
            "best": {start: float(curve.min()) for start, curve in curves.items()},
        },
        {"convergence": figure},
        f"{n:,} images, {iterations:,} iterations" if settings.quick else "",
    )


def _best(model: Any, share: float) -> float:
    """The lowest maximum loss within the first share of the iterations."""
    curve = model.loss_curve_
    return float(curve[: int(np.ceil(share * curve.size))].min())
