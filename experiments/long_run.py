"""The paper's MNIST run with L* = 0, verified with dense forward passes.

The first half of the iterations uses Polyak steps, the second half constant steps. At regular
intervals, the worst sample and its loss from a dense forward pass over all images must be
bit-identical to those of the sparse engine.
"""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.progress import track

from experiments import measure
from experiments.harness import Result, Settings, Table
from experiments.measure import in_a_process
from maxplus import datasets
from maxplus.training import MaxLoss
from maxplus.training.memory import human_bytes
from maxplus.training.result import Block

FULL = {"images": 60_000, "iterations": 200_000, "every": 20_000}
QUICK = {"images": 1_000, "iterations": 400, "every": 100}


def run(settings: Settings) -> Result:
    """Run in a subprocess; raise AssertionError if the engines differ."""
    sizes = settings.pick(FULL, QUICK)
    audit = in_a_process(audited_run, sizes)
    if audit["differences"]:
        raise AssertionError(f"{audit['differences']} differences between the engines: {audit}")
    images, n = sizes["images"], audit["iterations"]
    text = (
        f"{n:,} sparse iterations on {images:,} images, {measure.N_HIDDEN} units, W⁰ every "
        f"{measure.W0_UPDATE_INTERVAL}, Polyak steps towards L* = 0 and then constant steps with "
        f"ε = {measure.LEARNING_RATE:g}: {audit['seconds'] / 60:.1f} minutes with set-up (the "
        f"paper: 6.7 hours on 30 processors), peak memory {human_bytes(audit['peak'])}. "
        f"{audit['checks']} dense checks found no difference. `mnist` uses another target and "
        "another ε, so losses and seconds differ."
    )
    columns = {
        "up to iteration": "{iteration:,}",
        "ms each": "{ms:.2f}",
        "max loss": "{loss:.3f}",
        "lowest so far": "{best:.3f}",
        "dense check": "check",
    }
    cells = [part | {"check": "same" if part["same"] else "different"} for part in audit["parts"]]
    return Result(
        "The paper's whole run, checked",
        text,
        [Table.of("Parts of the run", cells, columns)],
        {"run": audit},
        scale=f"{images:,} images",
    )


def audited_run(images: int, iterations: int, every: int) -> dict[str, Any]:
    """Run the sparse engine and verify it; the time excludes the verification."""
    data = datasets.load_mnist()
    X, y = data.X_train[:images], data.y_train[:images]
    rule = measure.two_phases(y, iterations // 2)
    seconds, sparse = measure.timed(measure.engine_on, X, y, rule)
    parts = []
    for done in track(range(0, iterations, every), "long run", console=Console(stderr=True)):
        part = (every - 1) * measure.seconds_per_iteration(sparse, every - 1)
        worst = MaxLoss().value(sparse.model.losses(X, y), None)
        last = Block(1)
        part += measure.timed(sparse.advance, last)[0]
        seconds += part
        parts.append(
            {
                "iteration": done + every,
                "ms": 1e3 * part / every,
                "loss": float(last.loss[0]),
                "best": sparse.best_loss,
                "sample": int(last.sample[0]),
                "same": bool(last.loss[0] == worst.loss and last.sample[0] == worst.sample),
            }
        )
    return {
        "iterations": iterations,
        "seconds": seconds,
        "checks": len(parts),
        "differences": sum(not part["same"] for part in parts),
        "best_loss": sparse.best_loss,
        "peak": measure.peak_bytes(),
        "parts": parts,
    }
