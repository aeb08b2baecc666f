"""What `predict` and `predict_proba` add to the forward kernel, for a million rows.

All take turns, after a call each that does not count; medians count. Memory is what a call has
at once beyond its answer, of all that NumPy asks for.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.finding import Finding, Settings, Table
from experiments.process import in_a_process
from maxplus.estimators import SubgradientLMMClassifier
from maxplus.training.memory import human_bytes

FULL = {"rows": 1_000_000, "features": 50, "units": 100, "classes": 10, "rounds": 11}
QUICK = {"rows": 20_000, "features": 10, "units": 20, "classes": 3, "rounds": 2}
KERNEL, GOAL = "forward kernel", 0.9


def run(settings: Settings) -> Finding:
    """Measure in a process of its own."""
    sizes = QUICK if settings.quick else FULL
    measured = in_a_process(measure, sizes)
    return describe(measured, sizes, f"{sizes['rows']:,} rows" if settings.quick else "")


def measure(rows: int, features: int, units: int, classes: int, rounds: int) -> dict[str, Any]:
    """Seconds by the clock and of all processors, and bytes beyond the answer."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, features), np.float32)
    few = X[: 20 * units]
    y = (few @ rng.standard_normal((features, classes), np.float32)).argmax(axis=1)
    classifier = SubgradientLMMClassifier(units, max_iter=10, random_state=0).fit(few, y)
    contenders: dict[str, Callable[[], NDArray]] = {
        KERNEL: lambda: classifier.model_.scores(X),
        "predict": lambda: classifier.predict(X),
        "predict_proba": lambda: classifier.predict_proba(X),
    }
    beyond = {name: _bytes_beyond(call) for name, call in contenders.items()}
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, call in contenders.items():
            clock, processor = time.perf_counter(), time.process_time()
            call()
            taken[name].append((time.perf_counter() - clock, time.process_time() - processor))
    return {"taken": taken, "beyond": beyond}


def describe(measured: dict[str, Any], sizes: dict[str, int], scale: str = "") -> Finding:
    """How fast each is beside the kernel."""
    rows = sizes["rows"]
    medians = {
        name: [median(column) for column in zip(*times, strict=True)]
        for name, times in measured["taken"].items()
    }
    shares = {
        name: [kernel / own for kernel, own in zip(medians[KERNEL], times, strict=True)]
        for name, times in medians.items()
    }
    lines = [
        (
            name, f"{1e9 * medians[name][0] / rows:.0f}", f"{shares[name][0]:.0%}",
            f"{1e9 * medians[name][1] / rows:.0f}", f"{shares[name][1]:.0%}",
            human_bytes(measured["beyond"][name]),
        )
        for name in medians
    ]  # fmt: skip
    text = (
        f"{rows:,} rows of {sizes['features']} features in float32, {sizes['units']} units, "
        f"{sizes['classes']} classes. Beside the forward kernel alone, "
        + " and ".join(
            f"`{name}` has {shares[name][0]:.0%} of its speed ({shares[name][1]:.0%} in processor "
            "time)"
            for name in medians
            if name != KERNEL
        )
        + f" (asked: {GOAL:.0%}). What is checked and added up is a few numbers for each row, so "
        "that small models have less, and large ones more."
    )
    columns = ("what", "ns per row", "speed", "ns of processors", "speed", "beyond the answer")
    values = {"sizes": sizes, "shares": shares, **measured}
    return Finding(
        "Answers about many rows", text, [Table(f"{rows:,} rows", columns, lines)], values,
        scale=scale,
    )  # fmt: skip


def _bytes_beyond(call: Callable[[], NDArray]) -> int:
    call()
    tracemalloc.start()
    try:
        answer = call()
        return tracemalloc.get_traced_memory()[1] - answer.nbytes
    finally:
        tracemalloc.stop()
