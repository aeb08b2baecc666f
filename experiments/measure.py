"""Measurement of time and memory, and functions run in a process of their own.

``python -m experiments.measure`` reads what to call from its standard input.
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

from maxplus.training.engines import Engine
from maxplus.training.result import Block

T = TypeVar("T")
PACKAGES = ("maxplus", "numpy", "numba", "llvmlite", "scikit-learn", "matplotlib")
# Iterations between two readings of the clock, whose cost must be negligible.
BLOCK = 1_000
ROOT = Path(__file__).resolve().parents[1]


def machine_facts(*packages: str) -> dict[str, Any]:
    """Return what times depend on: processor, load, system, and versions of packages."""
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

    Linux hands a parent's ru_maxrss down to its children, so that the program's own high-water mark
    is read there; other systems count in kilobytes, macOS in bytes.
    """
    found = _status_bytes("VmHWM:")
    if found is not None:
        return found
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _status_bytes(name: str) -> int | None:
    """Return a field of Linux's status of this process; None elsewhere."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))
    except (OSError, StopIteration):
        return None


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
    """Run one iteration that is not timed: it compiles kernels or loads them."""
    engine.advance(Block(1))


def seconds_per_iteration(
    engine: Engine, iterations: float = math.inf, seconds: float = math.inf
) -> float:
    """Return the mean over a number of iterations, or over those that fit into a time.

    The mean, not the median: work that an engine does now and then, such as
    regrouping samples, belongs to the price of an iteration.
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
    """Return the variables of a child process that imports `experiments` from any folder."""
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
    function : a module's own function
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
    """Call the function that standard input names; other output goes to standard error."""
    call = json.load(sys.stdin)
    with redirect_stdout(sys.stderr):
        result = getattr(import_module(call["module"]), call["name"])(**call["arguments"])
    print(json.dumps(result))


if __name__ == "__main__":
    main()
