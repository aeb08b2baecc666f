"""Measurement of time and memory, also in subprocesses."""

from __future__ import annotations

import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import numba
import numpy as np
from numpy.typing import NDArray

from maxplus.models import LMM
from maxplus.models.initialization import choose_prototypes, prototype_lmm
from maxplus.training import (
    History,
    MaxLoss,
    StepRule,
    TrainingProblem,
    constant,
    paper_alpha,
    polyak,
    two_phase,
)
from maxplus.training.engines import ENGINES, Engine
from maxplus.training.result import Block

T = TypeVar("T")
PACKAGES = ("maxplus", "numpy", "numba", "llvmlite", "scikit-learn", "matplotlib")
# Maximum number of iterations of a block.
BLOCK = 1_000
# The paper's hyper-parameters on MNIST.
N_HIDDEN, SLOPE, LEARNING_RATE, W0_UPDATE_INTERVAL = 500, 4.0, 0.1, 100


def initial_model(
    X: NDArray, y: NDArray, n_hidden: int = N_HIDDEN, rng: np.random.Generator | None = None
) -> LMM:
    """Return a network initialised at training samples, with the paper's slope."""
    chosen = choose_prototypes(y, n_hidden, rng or np.random.default_rng(0))
    return prototype_lmm(X[chosen], y[chosen], int(y.max()) + 1, SLOPE, SLOPE)


def two_phases(y: NDArray, n_polyak: int) -> StepRule:
    """Return a rule of Polyak steps with target 0, followed by constant steps."""
    alpha = paper_alpha(LEARNING_RATE, int(y.max()) + 1)
    return two_phase(polyak(), constant(alpha), n_polyak)


def engine_on(
    X: NDArray,
    y: NDArray,
    steps: StepRule,
    engine: str = "sparse",
    n_hidden: int = N_HIDDEN,
    w0_update_interval: int = W0_UPDATE_INTERVAL,
) -> Engine:
    """Return an engine that minimises the maximum loss from `initial_model`."""
    problem = TrainingProblem(X, y, MaxLoss(), steps, w0_update_interval)
    return ENGINES[engine](initial_model(X, y, n_hidden), problem)


def machine_facts(*packages: str) -> dict[str, Any]:
    """Return the processor, its load, the operating system and package versions."""
    installed = {}
    for name in (*PACKAGES, *packages):
        with suppress(PackageNotFoundError):
            installed[name] = version(name)
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "threads": numba.get_num_threads(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **installed,
    }


def cpu_model() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def peak_bytes() -> int:
    """Return the peak memory of this process.

    On Linux, read VmHWM, because ru_maxrss is inherited from the parent process. ru_maxrss is in
    bytes on macOS and in kilobytes elsewhere.
    """
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        unit = 1 if sys.platform == "darwin" else 1024
        return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def timed(call: Callable[..., T], *arguments: Any) -> tuple[float, T]:
    """Return the wall-clock time in seconds and the result of a call."""
    start = time.perf_counter()
    result = call(*arguments)
    return time.perf_counter() - start, result


def seconds_per_iteration(engine: Engine, iterations: int, history: History | None = None) -> float:
    """Return the mean time per iteration, which includes periodic work of the engine.

    Iterations are appended to ``history``.
    """
    done, seconds = 0, 0.0
    while done < iterations:
        block = Block(min(BLOCK, iterations - done))
        seconds += timed(engine.advance, block)[0]
        done += block.n
        if history is not None:
            history.append(block)
        if block.signal:
            break
    return seconds / done


def in_a_process(
    function: Callable[..., T],
    arguments: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
) -> T:
    """Return ``function(**arguments)``, computed in a new process.

    ``environment`` contains additional environment variables.
    """
    with (
        patch.dict(os.environ, environment or {}),
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
    ):
        return pool.submit(function, **arguments).result()
