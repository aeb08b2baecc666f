"""One million samples: MNIST images, shifted by up to two pixels and noised.

1,000 iterations (half Polyak, half constant steps) with 500 units in float32,
within 20 GB. Pixels are multiples of 1/255, as a byte holds them.

    python benchmarks/million.py [--samples 1000000]
"""

from __future__ import annotations

import argparse
import json
import resource
import time

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from machine import machine_facts
from maxplus.training import MaxLoss, Task
from maxplus.training.engines import SparseEngine
from mnist import LINEAR_EVERY, RESULTS, advance, load_mnist, paper_rule, start

GOAL_GB = 20.0
BATCH = 10_000


def enlarge(X: NDArray, y: NDArray, n: int, rng: np.random.Generator) -> tuple[NDArray, NDArray]:
    """Random images, each batch shifted alike, with noise of a few grey levels."""
    images = np.empty((n, X.shape[1]), np.float32)
    labels = np.empty(n, np.int64)
    bytes_ = np.rint(255 * X).astype(np.int16).reshape(-1, 28, 28)
    for lo in track(range(0, n, BATCH), "making images"):
        hi = min(lo + BATCH, n)
        chosen = rng.integers(0, len(y), hi - lo)
        down, right = rng.integers(-2, 3, 2)
        moved = np.roll(bytes_[chosen], (down, right), axis=(1, 2))
        noise = rng.integers(-8, 9, moved.shape, np.int16)
        moved = np.where(moved > 0, np.clip(moved + noise, 0, 255), 0)
        images[lo:hi] = moved.reshape(hi - lo, -1)
        images[lo:hi] /= 255
        labels[lo:hi] = y[chosen]
    return images, labels


def main() -> None:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--iterations", type=int, default=1_000)
    options = parser.parse_args()
    console = Console(highlight=False)
    X, y = enlarge(*load_mnist(), options.samples, np.random.default_rng(0))
    half = options.iterations // 2
    task = Task(X, y, MaxLoss(), paper_rule(half), LINEAR_EVERY)
    began = time.perf_counter()
    engine = SparseEngine(start(X, y), task)
    set_up = time.perf_counter() - began
    seconds = [advance(engine, half), advance(engine, options.iterations - half)]
    worst = MaxLoss().value(engine.model.losses(X, y), None)
    result = {
        "samples": options.samples, "iterations": options.iterations, "set_up": set_up,
        "polyak": seconds[0], "constant": seconds[1], "best_loss": engine.best_loss,
        "last_loss": worst.loss,
        "peak_GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }  # fmt: skip
    console.print(result)
    RESULTS.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"machine": machine_facts(), **result}, indent=2)
    (RESULTS / "million.json").write_text(text + "\n")
    if result["peak_GB"] > GOAL_GB:
        raise SystemExit(f"{result['peak_GB']:.1f} GB are more than {GOAL_GB:.0f}")


if __name__ == "__main__":
    main()
