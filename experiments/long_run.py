"""The paper's MNIST run with the target L* = 0, compared with dense forward passes.

Half of the steps are Polyak steps, half are constant. At intervals a dense forward pass over all
images computes the worst sample and its loss, which must be bit-identical to those of the next
iteration of the sparse engine.
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
    """Run in a new process; raise AssertionError if the engines differ."""
    sizes = QUICK if settings.quick else FULL
    audit = in_a_process(audited_run, sizes)
    if audit["differences"]:
        raise AssertionError(f"{audit['differences']} differences between the engines: {audit}")
    images = sizes["images"]
    return describe(audit, images, f"{images:,} images" if settings.quick else "")


def describe(audit: dict[str, Any], images: int, scale: str = "") -> Result:
    """Return time, memory and checks of the run."""
    n, parts = audit["iterations"], audit["parts"]
    text = (
        f"{n:,} sparse iterations on {images:,} images, {measure.N_HIDDEN} units, W⁰ every "
        f"{measure.W0_UPDATE_INTERVAL}, Polyak steps towards L* = 0 and then constant steps with "
        f"ε = {measure.LEARNING_RATE:g}: {audit['seconds'] / 60:.1f} minutes with set-up (the "
        f"paper: 6.7 hours on 30 processors), peak memory {human_bytes(audit['peak'])}. "
        f"{audit['checks']} dense checks found no difference. `mnist` uses another target and "
        "another ε, so losses and seconds differ."
    )
    rows = [
        (
            f"{part['iteration']:,}",
            f"{part['ms']:.2f}",
            f"{part['loss']:.3f}",
            f"{part['best']:.3f}",
            "same" if part["same"] else "different",
        )
        for part in parts
    ]
    columns = ("up to iteration", "ms each", "max loss", "lowest so far", "dense check")
    return Result(
        "The paper's whole run, checked",
        text,
        [Table("Parts of the run", columns, rows)],
        {"run": audit},
        scale=scale,
    )


def audited_run(images: int, iterations: int, every: int) -> dict[str, Any]:
    """Return the time without the checks, and the results of the checks."""
    X, y = _images(images)
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


def _images(n: int) -> tuple[Any, Any]:
    data = datasets.load_mnist()
    return data.X_train[:n], data.y_train[:n]
