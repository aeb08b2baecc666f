"""The paper's whole MNIST run, checked: 200,000 iterations, half Polyak, half constant steps.

Every 20,000 iterations a dense forward pass over all images tells which sample
is the worst and what its loss is; the sparse engine's next iteration must say
the same, to the last bit. With --phases N, instead, N iterations of each phase
are run by both engines from the same weights and compared one by one.

    python benchmarks/long_run.py [--iterations 200000] [--check 20000]
    python benchmarks/long_run.py --phases 300
"""

from __future__ import annotations

import argparse
import json
import resource
import time

import numpy as np
from rich.console import Console
from rich.progress import track

from machine import machine_facts
from maxplus.training import MaxLoss, Task
from maxplus.training.engines import DenseEngine, SparseEngine
from maxplus.training.result import Block
from mnist import LINEAR_EVERY, RESULTS, advance, load_mnist, paper_rule, start


def long_run(n: int, every: int, console: Console) -> dict[str, object]:
    """Wall time without the checks, and what they found."""
    X, y = load_mnist()
    began = time.perf_counter()
    sparse = SparseEngine(start(X, y), Task(X, y, MaxLoss(), paper_rule(n // 2), LINEAR_EVERY))
    seconds = time.perf_counter() - began
    parts = []
    for done in range(0, n, every):
        part = (every - 1) * advance(sparse, every - 1)
        worst = MaxLoss().value(sparse.model.losses(X, y), None)
        last = Block(1)
        began = time.perf_counter()
        sparse.advance(last)
        part += time.perf_counter() - began
        seconds += part
        same = bool(last.loss[0] == worst.loss and last.sample[0] == worst.sample)
        parts.append({
            "iteration": done + every, "ms": 1e3 * part / every, "loss": float(last.loss[0]),
            "best": sparse.best_loss, "sample": int(last.sample[0]), "same": same,
        })  # fmt: skip
        console.print(parts[-1])
    return {
        "iterations": n,
        "seconds": seconds,
        "checks": len(parts),
        "differences": sum(not part["same"] for part in parts),
        "best_loss": sparse.best_loss,
        "peak_GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        "parts": parts,
    }


def compare_phases(n: int) -> dict[str, object]:
    """Both engines, n iterations of each phase: are histories and weights the same?"""
    X, y = load_mnist()
    task = Task(X, y, MaxLoss(), paper_rule(n), LINEAR_EVERY)
    dense, sparse = DenseEngine(start(X, y), task), SparseEngine(start(X, y), task)
    differences = 0
    for _ in track(range(2 * n), "dense and sparse"):
        expected, got = Block(1), Block(1)
        dense.advance(expected)
        sparse.advance(got)
        differences += any(
            getattr(expected, name)[0] != getattr(got, name)[0]
            for name in ("loss", "sample", "step")
        )
    for layer in sparse.model.layers:
        pair = getattr(dense.model, layer), getattr(sparse.model, layer)
        differences += not np.array_equal(*pair)
    return {"iterations": 2 * n, "differences": differences}


def main() -> None:
    """Run, print, write; a difference is an error."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--iterations", type=int, default=200_000)
    parser.add_argument("--check", type=int, default=20_000)
    parser.add_argument("--phases", type=int, metavar="N", help="compare N iterations per phase")
    options = parser.parse_args()
    console = Console(highlight=False)
    if options.phases:
        name, result = "phases", compare_phases(options.phases)
    else:
        name, result = "long_run", long_run(options.iterations, options.check, console)
        console.print(f"{result['seconds'] / 60:.1f} min, peak {result['peak_GB']:.2f} GB")
    RESULTS.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"machine": machine_facts(), **result}, indent=2)
    (RESULTS / f"{name}.json").write_text(text + "\n")
    if result["differences"]:
        raise SystemExit(f"{result['differences']} differences between the engines")
    console.print("no difference between the engines")


if __name__ == "__main__":
    main()
