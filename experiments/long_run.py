"""The paper's MNIST run with L* = 0, verified by dense forward passes.

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
    """Run in a subprocess."""
    sizes = settings.pick(FULL, QUICK)
    audit = in_a_process(audited_run, sizes)
    images, n = sizes["images"], sizes["iterations"]
    text = (
        f"{n:,} sparse iterations on {images:,} images, {measure.N_HIDDEN} units, W⁰ every "
        f"{measure.W0_UPDATE_INTERVAL}, Polyak steps towards L* = 0 and then constant steps with "
        f"ε = {measure.LEARNING_RATE:g}: {audit['seconds'] / 60:.1f} minutes with set-up (the "
        f"paper: 6.7 hours on 30 processors), peak memory {human_bytes(audit['peak'])}. "
        f"{len(audit['parts'])} dense checks found no difference. `mnist` uses another target and "
        "another ε, so losses and seconds differ."
    )
    columns = {
        "up to iteration": "{iteration:,}",
        "ms each": "{ms:.2f}",
        "max loss": "{loss:.3f}",
        "lowest so far": "{best:.3f}",
        "dense check": "same",
    }
    return Result(
        "Long run verified by dense iterations",
        text,
        [Table.from_records("Parts of the run", audit["parts"], columns)],
        {"run": audit},
        scale=f"{images:,} images",
    )


def audited_run(images: int, iterations: int, every: int) -> dict[str, Any]:
    """Run the sparse engine; raise AssertionError if it differs from a dense forward pass.

    The time excludes the verification.
    """
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
        if (last.loss[0], last.sample[0]) != (worst.loss, worst.sample):
            raise AssertionError(f"the engines differ in iteration {done + every}")
        seconds += part
        parts.append(
            {
                "iteration": done + every,
                "ms": 1e3 * part / every,
                "loss": float(last.loss[0]),
                "best": sparse.best_loss,
            }
        )
    return {"seconds": seconds, "peak": measure.peak_bytes(), "parts": parts}
