"""One engine's seconds per iteration and peak memory, in a process of its own.

    python -m maxplus.reproduce._timed_run FOLDER '{"engine": "sparse", "samples": 1000, …}'

FOLDER holds X.npy and y.npy. Prints one line of JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxplus.models.starts import choose_prototypes, prototype_lmm
from maxplus.training import MaxLoss, Task, constant, paper_alpha, polyak, two_phase
from maxplus.training.engines import ENGINES
from maxplus.training.result import Block

N_CLASSES, SLOPE, LEARNING_RATE = 10, 4.0, 0.1


@dataclass(frozen=True)
class TimedRun:
    """What is timed: ``iterations`` Polyak steps, then as many constant ones."""

    engine: str
    samples: int
    hidden: int
    linear_every: int
    iterations: int

    def measure(self, X: NDArray, y: NDArray) -> dict[str, Any]:
        """Seconds per iteration of both phases, of setting up, and the peak memory in bytes."""
        chosen = choose_prototypes(y, self.hidden, np.random.default_rng(0))
        rule = two_phase(
            polyak(), constant(paper_alpha(LEARNING_RATE, N_CLASSES)), 1 + self.iterations
        )
        model = prototype_lmm(X[chosen], y[chosen], N_CLASSES, SLOPE, SLOPE)
        task = Task(X, y, MaxLoss(), rule, self.linear_every)
        began = time.perf_counter()
        engine = ENGINES[self.engine](model, task)
        set_up = time.perf_counter() - began
        engine.advance(Block(1))  # compiles, or loads what was compiled
        seconds = {}
        for phase in ("polyak", "constant"):
            began = time.perf_counter()
            engine.advance(Block(self.iterations))
            seconds[phase] = (time.perf_counter() - began) / self.iterations
        return asdict(self) | seconds | {"set_up": set_up, "peak": peak_bytes()}


def peak_bytes() -> int:
    """The most memory this process has held.

    Linux hands a parent's ru_maxrss down to its children, so the program's own
    high-water mark is read there; other systems count in kilobytes, macOS in bytes.
    """
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        unit = 1 if sys.platform == "darwin" else 1024
        return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    """Measure what the second argument asks for, on the first samples in the folder."""
    folder, run = Path(sys.argv[1]), TimedRun(**json.loads(sys.argv[2]))
    X, y = (np.array(np.load(folder / f"{name}.npy", "r")[: run.samples]) for name in "Xy")
    print(json.dumps(run.measure(X, y)))


if __name__ == "__main__":
    main()
