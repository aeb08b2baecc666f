"""How the cost of an iteration grows with the number of samples and of hidden units.

MNIST, float32, W0 every 100 iterations; each phase is timed on its own, and
log(cost) = a + b·log(size) is fitted: b is the exponent.

    python benchmarks/growth.py [--polyak 400] [--constant 2000]
"""

from __future__ import annotations

import argparse
import gc
import json

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from machine import machine_facts
from maxplus.training import MaxLoss, Task
from maxplus.training.engines import SparseEngine
from mnist import LINEAR_EVERY, N_HIDDEN, RESULTS, advance, load_mnist, paper_rule, start

SAMPLES = (5_000, 10_000, 20_000, 40_000, 60_000)
HIDDEN = (125, 250, 500, 1_000, 2_000)
PHASES = ("polyak", "constant")


def cost(X: NDArray, y: NDArray, n_hidden: int, n_polyak: int, n_constant: int) -> dict:
    """Seconds per iteration of both phases, each after a tenth that does not count."""
    task = Task(X, y, MaxLoss(), paper_rule(n_polyak), LINEAR_EVERY)
    engine = SparseEngine(start(X, y, n_hidden), task)
    seconds = {}
    for phase, n in zip(PHASES, (n_polyak, n_constant), strict=True):
        advance(engine, n // 10)
        seconds[phase] = advance(engine, n - n // 10)
    return seconds


def main() -> None:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--polyak", type=int, default=400)
    parser.add_argument("--constant", type=int, default=2_000)
    options = parser.parse_args()
    console = Console(highlight=False)
    X, y = load_mnist()
    order = np.random.default_rng(0).permutation(len(y))
    cost(X[:12_000], y[:12_000], 50, 500, 500)  # compiles, regrouping included
    result: dict = {"machine": machine_facts()}
    for name, sizes in (("samples", SAMPLES), ("hidden", HIDDEN)):
        costs = []
        for size in sizes:
            n, n_hidden = (size, N_HIDDEN) if name == "samples" else (len(y), size)
            part = np.sort(order[:n])
            costs.append(cost(X[part], y[part], n_hidden, options.polyak, options.constant))
            gc.collect()
        table = Table(name, *(f"{phase}, ms" for phase in PHASES))
        for size, at in zip(sizes, costs, strict=True):
            table.add_row(f"{size:,}", *(f"{1e3 * at[phase]:.3f}" for phase in PHASES))
        exponents = {
            phase: float(np.polyfit(np.log(sizes), np.log([at[phase] for at in costs]), 1)[0])
            for phase in PHASES
        }
        table.add_row("exponent", *(f"{exponents[phase]:.2f}" for phase in PHASES))
        console.print(table)
        result[name] = {"sizes": sizes, "costs": costs, "exponents": exponents}
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "growth.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
