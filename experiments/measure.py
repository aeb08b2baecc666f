"""The one place that measures: the machine, memory, seconds of a call and of an iteration."""

from __future__ import annotations

import math
import os
import platform
import resource
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

import numba

from maxplus.training.engines import Engine
from maxplus.training.result import Block

T = TypeVar("T")
PACKAGES = ("maxplus", "numpy", "numba", "llvmlite", "scikit-learn", "matplotlib")
# Iterations between two looks at the clock: what a look costs must not show.
BLOCK = 1_000


def machine_facts(*packages: str) -> dict[str, Any]:
    """What times depend on: the processor, its load, the system, and versions of packages."""
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
    """The processor's name as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


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


def present_bytes() -> int:
    """The memory that this process holds now; its peak where the system does not tell."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
    except (OSError, StopIteration):
        return peak_bytes()


def timed(call: Callable[..., T], *arguments: Any) -> tuple[float, T]:
    """Seconds and result of one call."""
    began = time.perf_counter()
    result = call(*arguments)
    return time.perf_counter() - began, result


def timed_cpu(call: Callable[..., T], *arguments: Any) -> tuple[float, T]:
    """Processor seconds of all threads of this process during one call, and its result."""
    began = time.process_time()
    result = call(*arguments)
    return time.process_time() - began, result


def warm_up(engine: Engine) -> None:
    """One iteration that does not count: it compiles, or loads what was compiled."""
    engine.advance(Block(1))


def seconds_per_iteration(
    engine: Engine, iterations: float = math.inf, seconds: float = math.inf
) -> float:
    """The mean over so many iterations, or over as many as fit into so many seconds.

    The mean, not the median: work that an engine does now and then, such as
    regrouping samples, belongs to the price of an iteration.
    """
    done, spent = 0, 0.0
    while done < iterations and spent < seconds:
        # Short blocks at first, because nobody knows yet how long an iteration takes.
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
