"""The log 2 certificate: a maximum loss below log 2 implies a perfect fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.preprocessing import MinMaxScaler

from experiments.harness import Result, Settings, Table
from maxplus.estimators import SubgradientLMMClassifier
from maxplus.models import LOG2

FULL_SEEDS, QUICK_SEEDS = 5, 2
# Units per data set: enough for a certificate on most seeds.
UNITS = {"iris": 40, "wine": 40, "breast_cancer": 120}


def run(settings: Settings) -> Result:
    """Find the first iteration below log 2 of each run, and its training accuracy."""
    seeds = range(settings.n_seeds(FULL_SEEDS, QUICK_SEEDS))
    iterations = 5_000 if settings.quick else 50_000
    values = []
    for name, seed in settings.track([(n, s) for n in UNITS for s in seeds], "certificates"):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        X = MinMaxScaler().fit_transform(X)
        values.append(
            {"data": name, "seed": seed, **_first_below(X, y, UNITS[name], seed, iterations)}
        )
    reached = [v for v in values if v["iteration"] is not None]
    right = sum(v["accuracy"] == 1.0 for v in reached)
    text = (
        f"{len(reached)} of {len(values)} runs of up to {iterations:,} iterations bring the "
        "maximum loss below log 2; at the first such iterate every training sample is classified "
        f"correctly in {right} of {len(reached)} runs, as the proposition states. Features "
        "are scaled to [0, 1]; all samples are used for training."
    )
    rows = [
        (
            v["data"],
            v["seed"],
            UNITS[v["data"]],
            "not reached" if v["iteration"] is None else f"{v['iteration']:,}",
            f"{v['loss']:.4f}",
            f"{v['accuracy']:.1%}",
        )
        for v in values
    ]
    columns = ("data", "seed", "units", "first below log 2", "max loss there", "train accuracy")
    return Result(
        "The log 2 certificate",
        text,
        [Table("First iterate below log 2 (or the best one)", columns, rows)],
        {"runs": values},
        scale=f"{len(seeds)} seeds, {iterations:,} iterations" if settings.quick else "",
    )


def _first_below(X: Any, y: Any, n_hidden: int, seed: int, iterations: int) -> dict[str, Any]:
    """Train; if the loss falls below log 2, train again up to that iteration with the same seed."""
    options: dict[str, Any] = {"n_hidden": n_hidden, "random_state": seed}
    model = SubgradientLMMClassifier(**options, max_iter=iterations).fit(X, y)
    curve = model.loss_curve_
    below = np.flatnonzero(curve < LOG2)
    if below.size:
        # The shorter run must have the same step sizes, which depend on the number of iterations.
        n = int(below[0]) + 1
        fraction = min(1.0, model.polyak_fraction * iterations / n)
        model = SubgradientLMMClassifier(**options, max_iter=n, polyak_fraction=fraction).fit(X, y)
        if not np.array_equal(model.loss_curve_, curve[:n]):
            raise AssertionError("the shorter run has other iterates")
    return {
        "iteration": int(below[0]) if below.size else None,
        "loss": float(model.max_loss_),
        "accuracy": float(model.score(X, y)),
    }
