"""Measurement of time and memory, calls in a new process, and the paper's training problem.

``python -m experiments.measure`` reads the call from its standard input.
"""

from __future__ import annotations

import json
import math
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

from maxplus.models import LMM
from maxplus.models.initialization import choose_prototypes, prototype_lmm
from maxplus.training import (
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
# Iterations between two readings of the clock, whose cost must be negligible.
BLOCK = 1_000
ROOT = Path(__file__).resolve().parents[1]
# The paper's hyper-parameters on MNIST.
N_HIDDEN, SLOPE, LEARNING_RATE, W0_UPDATE_INTERVAL = 500, 4.0, 0.1, 100


def initial_model(
    X: NDArray, y: NDArray, n_hidden: int = N_HIDDEN, rng: np.random.Generator | None = None
) -> LMM:
    """Return a network of prototypes among the samples, with the paper's slope."""
    chosen = choose_prototypes(y, n_hidden, rng or np.random.default_rng(0))
    return prototype_lmm(X[chosen], y[chosen], int(y.max()) + 1, SLOPE, SLOPE)


def two_phases(y: NDArray, n_polyak: int) -> StepRule:
    """Return Polyak steps towards 0, followed by constant steps α = ε / (2·√(2C))."""
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
    """Return the processor, its load, the system, and versions of packages."""
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "threads": numba.get_num_threads(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: found for name in (*PACKAGES, *packages) if (found := _version(name))},
    }


def cpu_model() -> str:
    """Return the processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def peak_bytes() -> int:
    """Return the peak memory of this process.

    On Linux, ru_maxrss is inherited from the parent process, so VmHWM is read there. Other systems
    report kilobytes, macOS bytes.
    """
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        unit = 1 if sys.platform == "darwin" else 1024
        return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def timed(call: Callable[..., T], *arguments: Any) -> tuple[float, T]:
    """Return the seconds and the result of one call."""
    began = time.perf_counter()
    result = call(*arguments)
    return time.perf_counter() - began, result


def timed_cpu(call: Callable[..., T], *arguments: Any) -> tuple[float, T]:
    """Return the processor seconds of all threads during one call, and its result."""
    began = time.process_time()
    result = call(*arguments)
    return time.process_time() - began, result


def warm_up(engine: Engine) -> None:
    """Run one iteration that is not timed, to compile or load kernels."""
    engine.advance(Block(1))


def seconds_per_iteration(
    engine: Engine, iterations: float = math.inf, seconds: float = math.inf
) -> float:
    """Return the mean over a number of iterations, or over those within a time limit.

    The mean includes periodic work of an engine, such as regrouping samples.
    """
    done, spent = 0, 0.0
    while done < iterations and spent < seconds:
        # Short blocks at first, because the time of an iteration is not known yet.
        block = Block(int(min(BLOCK, 1 + 2 * done, iterations - done)))
        spent += timed(engine.advance, block)[0]
        done += block.n
        if block.signal:
            break
    return spent / done


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def child_environment(**variables: str) -> dict[str, str]:
    """Return the environment of a child process that can import `experiments`."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **variables}


def in_a_process(
    function: Callable[..., Any],
    arguments: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
) -> Any:
    """Return ``function(**arguments)``, computed by a new Python process.

    Parameters
    ----------
    function : a function of a module
    arguments : mapping
        JSON types, as the result.
    environment : mapping, optional
        Further environment variables of the process.
    """
    call = {"module": function.__module__, "name": function.__name__, "arguments": {**arguments}}
    done = subprocess.run(
        [sys.executable, "-m", "experiments.measure"],
        input=json.dumps(call),
        text=True,
        stdout=subprocess.PIPE,
        env=child_environment(**(environment or {})),
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{function.__name__}({arguments}) failed; its own message is above")
    return json.loads(done.stdout)


def main() -> None:
    """Run the call that is read from standard input; redirect its output to standard error."""
    call = json.load(sys.stdin)
    with redirect_stdout(sys.stderr):
        result = getattr(import_module(call["module"]), call["name"])(**call["arguments"])
    print(json.dumps(result))


if __name__ == "__main__":
    main()
