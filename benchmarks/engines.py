"""The sparse engine against the dense one, at the paper's size: MNIST with 500 units.

Both train in float32 on all 60,000 images with k = 4, W0 moving every 100
iterations. Dense iterations are timed before, between and after the sparse
phases, so that a busy moment of the machine hits both; medians count. The folder
that the environment variable MAXPLUS_DATA names must hold mnist/*.gz (idx files).

    MAXPLUS_DATA=... python benchmarks/engines.py [--polyak 2000] [--constant 6000]
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import time
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from machine import machine_facts
from maxplus.models import LMM
from maxplus.models.initialisation import choose_prototypes, prototype_lmm
from maxplus.training import MaxLoss, StepRule, Task, constant, paper_alpha, polyak, two_phase
from maxplus.training.engines import DenseEngine, Engine, SparseEngine
from maxplus.training.result import Block

N_HIDDEN, SLOPE, N_CLASSES, LINEAR_EVERY = 500, 4.0, 10, 100
GOALS = {"Polyak phase": 150.0, "constant phase": 600.0}


def load_mnist() -> tuple[NDArray, NDArray]:
    """All training images, scaled to [0, 1] in float32, and their labels."""
    folder = Path(os.environ.get("MAXPLUS_DATA", "")) / "mnist"
    if not folder.is_dir():
        raise SystemExit(f"no folder {str(folder)!r}; set MAXPLUS_DATA to where mnist/ is")
    images = gzip.decompress((folder / "train-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((folder / "train-labels-idx1-ubyte.gz").read_bytes())
    X = np.frombuffer(images, np.uint8, offset=16).reshape(-1, 784).astype(np.float32) / 255
    return X, np.frombuffer(labels, np.uint8, offset=8).astype(np.int64)


def start(X: NDArray, y: NDArray) -> LMM:
    """The paper's start, from 500 random images."""
    chosen = choose_prototypes(y, N_HIDDEN, np.random.default_rng(0))
    return prototype_lmm(X[chosen], y[chosen], N_CLASSES, SLOPE, SLOPE)


def advance(engine: Engine, n: int) -> float:
    """Seconds per iteration over n iterations."""
    block = Block(n)
    began = time.perf_counter()
    engine.advance(block)
    return (time.perf_counter() - began) / n


def measure(n_polyak: int, n_constant: int) -> dict[str, object]:
    """Seconds per iteration of both engines in both phases, and the process's peak memory."""
    X, y = load_mnist()
    rule: StepRule = two_phase(polyak(), constant(paper_alpha(0.1, N_CLASSES)), n_polyak)
    dense = DenseEngine(start(X, y), Task(X, y, MaxLoss(), rule, LINEAR_EVERY))
    advance(dense, 1)
    dense_seconds = [advance(dense, 1) for _ in range(3)]

    began = time.perf_counter()
    sparse = SparseEngine(start(X, y), Task(X, y, MaxLoss(), rule, LINEAR_EVERY))
    set_up = time.perf_counter() - began
    advance(sparse, 1)
    phases = {}
    for phase, n in (("Polyak phase", n_polyak), ("constant phase", n_constant)):
        parts = [advance(sparse, n // 10) for _ in range(10)]
        phases[phase] = {"seconds": median(parts[2:]), "parts": parts}
        dense_seconds += [advance(dense, 1) for _ in range(3)]
    return {
        "dense": median(dense_seconds),
        "dense_parts": dense_seconds,
        "set_up": set_up,
        "phases": phases,
        "ratios": {name: median(dense_seconds) / p["seconds"] for name, p in phases.items()},
        "peak_GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        "best_loss": sparse.best_loss,
    }


def show(console: Console, facts: dict[str, object], result: dict) -> None:
    """Print machine, times and verdicts."""
    console.print(*(f"{name} {fact}" for name, fact in facts.items()), sep=" · ", style="dim")
    table = Table("iteration", title="MNIST, 60,000 images, 500 units", title_justify="left")
    for head in ("ms", "dense / sparse", "goal"):
        table.add_column(head, justify="right")
    table.add_row("dense", f"{1e3 * result['dense']:.0f}", "", "")
    for name, phase in result["phases"].items():
        ratio = result["ratios"][name]
        style = "green" if ratio >= GOALS[name] else "red"
        table.add_row(
            f"sparse, {name}", f"{1e3 * phase['seconds']:.2f}", f"[{style}]{ratio:.0f}[/]",
            f"{GOALS[name]:.0f}",
        )  # fmt: skip
    console.print(table)
    console.print(
        f"set-up {result['set_up']:.1f} s, peak memory {result['peak_GB']:.2f} GB, "
        f"best loss {result['best_loss']:.3f}"
    )


def main() -> None:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--polyak", type=int, default=2_000)
    parser.add_argument("--constant", type=int, default=6_000)
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results" / "engines.json"
    )
    options = parser.parse_args()
    facts = machine_facts()
    result = measure(options.polyak, options.constant)
    show(Console(highlight=False), facts, result)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"machine": facts, **result}, indent=2) + "\n")


if __name__ == "__main__":
    main()
