"""The sparse engine against the dense one, at the paper's size: MNIST with 500 units.

Both train in float32 on all 60,000 images with k = 4. Dense iterations are
timed before, between and after the sparse phases, so that a busy moment of the
machine hits both; medians count. Regrouping of samples is part of the time.

    python benchmarks/engines.py [--polyak 2000] [--constant 8000]
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path
from statistics import mean, median

import numpy as np
from rich.console import Console
from rich.table import Table

from machine import machine_facts
from maxplus.algebra import minplus
from maxplus.training import MaxLoss, MeanLoss, Task, constant, paper_alpha
from maxplus.training.engines import DenseEngine, SGDEngine, SparseEngine
from mnist import LINEAR_EVERY, N_CLASSES, RESULTS, advance, load_mnist, paper_rule, start

# Row of the table → least ratio of a dense to a sparse iteration.
GOALS = {
    "Polyak phase": 150.0,
    "constant phase": 600.0,
    "Polyak phase, W0 always": 20.0,
    "constant phase, W0 always": 20.0,
}
GOAL_DENSE, GOAL_MEMORY, GOAL_SGD = 1.5, 1.5, 150e-6


def measure(n_polyak: int, n_constant: int) -> dict[str, object]:
    """Seconds per iteration of all engines, and the process's peak memory."""
    X, y = load_mnist()
    rule = paper_rule(n_polyak)
    dense = DenseEngine(start(X, y), Task(X, y, MaxLoss(), rule, LINEAR_EVERY))
    advance(dense, 1)
    dense_seconds = [advance(dense, 1) for _ in range(3)]
    forward_seconds = forward_pass(X)

    began = time.perf_counter()
    sparse = SparseEngine(start(X, y), Task(X, y, MaxLoss(), rule, LINEAR_EVERY))
    set_up = time.perf_counter() - began
    advance(sparse, 1)
    phases = {}
    for phase, n in (("Polyak phase", n_polyak), ("constant phase", n_constant)):
        parts = [advance(sparse, n // 10) for _ in range(10)]
        # The mean, because regrouping hits some parts and not others.
        phases[phase] = {"seconds": mean(parts[2:]), "parts": parts}
        dense_seconds += [advance(dense, 1) for _ in range(3)]
    best = sparse.best_loss
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    del sparse

    moving = SparseEngine(start(X, y), Task(X, y, MaxLoss(), paper_rule(60), 1))
    advance(moving, 1)
    for phase, n in (("Polyak phase", 60), ("constant phase", 600)):
        phases[f"{phase}, W0 always"] = {"seconds": advance(moving, n)}
    del moving
    dense_seconds += [advance(dense, 1) for _ in range(3)]

    step = constant(paper_alpha(0.1, N_CLASSES))
    rng = np.random.default_rng(0)
    sgd = SGDEngine(start(X, y), Task(X, y, MeanLoss(), step, LINEAR_EVERY, rng=rng))
    advance(sgd, 100, 100)
    return {
        "dense": median(dense_seconds),
        "dense_parts": dense_seconds,
        "forward": forward_seconds,
        "dense_to_forward": median(dense_seconds) / forward_seconds,
        "set_up": set_up,
        "phases": phases,
        "ratios": {name: median(dense_seconds) / p["seconds"] for name, p in phases.items()},
        "sgd": median([advance(sgd, 1000, 1000) for _ in range(7)]),
        "peak_GB": peak,
        "best_loss": best,
    }


def forward_pass(X: np.ndarray) -> float:
    """Seconds of the tiled min-plus product of a whole forward pass."""
    linear = np.repeat(X, 2, axis=1)
    weights = np.random.default_rng(0).normal(size=(linear.shape[1], 500)).astype(np.float32)
    seconds = []
    for _ in range(4):
        began = time.perf_counter()
        minplus(linear, weights)
        seconds.append(time.perf_counter() - began)
    return median(seconds[1:])


def show(console: Console, facts: dict[str, object], result: dict) -> None:
    """Print machine, times and verdicts."""
    console.print(*(f"{name} {fact}" for name, fact in facts.items()), sep=" · ", style="dim")
    table = Table("iteration", title="MNIST, 60,000 images, 500 units", title_justify="left")
    for head in ("ms", "ratio", "goal"):
        table.add_column(head, justify="right")

    def row(name: str, seconds: float, ratio: str, goal: str, good: bool) -> None:
        style = "green" if good else "red"
        table.add_row(name, f"{1e3 * seconds:.4g}", f"[{style}]{ratio}[/]", goal)

    of_forward = result["dense_to_forward"]
    row(
        "dense, to one min-plus product", result["dense"], f"{of_forward:.2f}",
        f"≤ {GOAL_DENSE}", of_forward <= GOAL_DENSE,
    )  # fmt: skip
    for name, goal in GOALS.items():
        ratio = result["ratios"][name]
        row(
            f"dense / sparse, {name}", result["phases"][name]["seconds"], f"{ratio:.0f}",
            f"≥ {goal:.0f}", ratio >= goal,
        )  # fmt: skip
    row("sgd", result["sgd"], "", f"≤ {1e3 * GOAL_SGD:.2f} ms", result["sgd"] <= GOAL_SGD)
    console.print(table)
    console.print(
        f"set-up {result['set_up']:.1f} s, peak memory {result['peak_GB']:.2f} GB "
        f"(goal {GOAL_MEMORY}), best loss {result['best_loss']:.3f}"
    )


def main() -> None:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--polyak", type=int, default=2_000)
    parser.add_argument("--constant", type=int, default=8_000)
    parser.add_argument("--out", type=Path, default=RESULTS / "engines.json")
    options = parser.parse_args()
    facts = machine_facts()
    result = measure(options.polyak, options.constant)
    show(Console(highlight=False), facts, result)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"machine": facts, **result}, indent=2) + "\n")


if __name__ == "__main__":
    main()
