"""Certificate of a perfect training fit: a maximum loss below log 2."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.preprocessing import MinMaxScaler

from experiments.harness import Result, Settings, Table
from maxplus.estimators import SubgradientLMMClassifier
from maxplus.models import LOG2

FULL_SEEDS, QUICK_SEEDS = 5, 2
# Numbers of units that are sufficient for a certificate with most seeds.
UNITS = {"iris": 40, "wine": 40, "breast_cancer": 120}


def run(settings: Settings) -> Result:
    """Measure the training accuracy at the first iteration with a maximum loss below log 2."""
    n_seeds = settings.pick(FULL_SEEDS, QUICK_SEEDS)
    iterations = settings.pick(50_000, 5_000)
    runs = settings.runs(
        partial(_first_below, iterations), dict.fromkeys(UNITS, n_seeds), "certificates"
    )
    values = [run for own in runs.values() for run in own]
    reached = [v for v in values if v["iteration"] is not None]
    n_perfect = sum(v["accuracy"] == 1.0 for v in reached)
    text = (
        f"{len(reached)} of {len(values)} runs of up to {iterations:,} iterations bring the "
        "maximum loss below log 2; at the first such iterate every training sample is classified "
        f"correctly in {n_perfect} of {len(reached)} runs, as the proposition states. Features "
        "are scaled to [0, 1]; all samples are used for training."
    )
    columns = {
        "data": "data",
        "seed": "seed",
        "units": "units",
        "first below log 2": "first",
        "max loss there": "{loss:.4f}",
        "train accuracy": "{accuracy:.1%}",
    }
    cells = [
        v
        | {
            "units": UNITS[v["data"]],
            "first": "not reached" if v["iteration"] is None else f"{v['iteration']:,}",
        }
        for v in values
    ]
    return Result(
        "The log 2 certificate",
        text,
        [Table.from_records("First iterate below log 2 (or the best one)", cells, columns)],
        {"runs": values},
        scale=f"{n_seeds} seeds, {iterations:,} iterations",
    )


def _first_below(n: int, name: str, seed: int) -> dict[str, Any]:
    """Fit a model; refit up to the first iteration below log 2, if there is one."""
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    X = MinMaxScaler().fit_transform(X)
    options: dict[str, Any] = {"n_hidden": UNITS[name], "random_state": seed}
    model = SubgradientLMMClassifier(**options, max_iter=n).fit(X, y)
    curve = model.loss_curve_
    below = np.flatnonzero(curve < LOG2)
    first = int(below[0]) + 1 if below.size else None
    if first is not None:
        # Adjust the fraction, because step sizes depend on the number of iterations.
        fraction = min(1.0, model.polyak_fraction * n / first)
        options |= {"max_iter": first, "polyak_fraction": fraction}
        model = SubgradientLMMClassifier(**options).fit(X, y)
        if not np.array_equal(model.loss_curve_, curve[:first]):
            raise AssertionError("the shorter run has other iterates")
    return {
        "data": name,
        "seed": seed,
        "iteration": None if first is None else first - 1,
        "loss": float(model.max_loss_),
        "accuracy": float(model.score(X, y)),
    }
