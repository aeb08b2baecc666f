"""Training on one million MNIST images with random shifts and noise.

Half of the iterations are Polyak steps, half are constant steps. The model has 500 units in
float32. Pixels are multiples of 1/255.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments import measure
from experiments.harness import Result, Settings, Table
from experiments.measure import in_a_process
from maxplus import datasets
from maxplus.training.memory import human_bytes

FULL = {"samples": 1_000_000, "iterations": 1_000}
QUICK = {"samples": 3_000, "iterations": 40}
BATCH = 10_000


def run(settings: Settings) -> Result:
    """Measure time and memory in a subprocess."""
    values = in_a_process(train, settings.pick(FULL, QUICK))
    text = (
        f"{values['samples']:,} images generated from MNIST, {measure.N_HIDDEN} units, "
        f"{values['iterations']:,} sparse iterations, half of them Polyak steps: "
        f"{human_bytes(values['peak'])} at the peak, including the data."
    )
    rows = [
        ("set-up, s", f"{values['set_up']:.0f}"),
        ("Polyak step, ms", f"{1e3 * values['polyak']:.0f}"),
        ("constant step, ms", f"{1e3 * values['constant']:.0f}"),
        ("lowest maximum loss", f"{values['best_loss']:.3f}"),
    ]
    table = Table("Cost", ("quantity", "value"), rows)
    return Result("A million images", text, [table], values, scale=f"{values['samples']:,} images")


def train(samples: int, iterations: int) -> dict[str, Any]:
    """Generate the images and train a model."""
    data = datasets.load_mnist()
    X, y = enlarge(data.X_train, data.y_train, samples, np.random.default_rng(0))
    half = iterations // 2
    set_up, engine = measure.timed(measure.engine_on, X, y, measure.two_phases(y, half))
    polyak, constant = (measure.seconds_per_iteration(engine, n) for n in (half, iterations - half))
    return {
        "samples": samples,
        "iterations": iterations,
        "set_up": set_up,
        "polyak": polyak,
        "constant": constant,
        "best_loss": engine.best_loss,
        "peak": measure.peak_bytes(),
    }


def enlarge(X: NDArray, y: NDArray, n: int, rng: np.random.Generator) -> tuple[NDArray, NDArray]:
    """Return n noisy, shifted images; the shift is the same for all images of a batch."""
    images = np.empty((n, X.shape[1]), np.float32)
    labels = np.empty(n, np.int64)
    bytes_ = np.rint(255 * X).astype(np.int16).reshape(-1, 28, 28)
    for lo in range(0, n, BATCH):
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
