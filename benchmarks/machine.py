"""Facts that times depend on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

import numba


def machine_facts(*packages: str) -> dict[str, object]:
    """The processor, its load, the system and the versions of packages."""
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "threads": numba.get_num_threads(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: version(name) for name in ("maxplus", "numpy", "numba", "llvmlite", *packages)},
    }


def cpu_model() -> str:
    """The processor's name as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()
