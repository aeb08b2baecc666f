"""How much memory there is, and a clear refusal where it is not enough."""

from __future__ import annotations

import os
from pathlib import Path


class NotEnoughMemoryError(MemoryError, ValueError):
    """A training would need more memory than the machine has; nothing was allocated."""


def available_bytes() -> int | None:
    """Memory that can still be had, in bytes; None where the system does not tell."""
    figures = [f for f in (_meminfo(), _cgroup()) if f is not None]
    if figures:
        return min(figures)
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def require(needed: int, what: str, remedy: str) -> None:
    """Raise `NotEnoughMemoryError` when ``needed`` bytes are not available."""
    available = available_bytes()
    if available is not None and needed > available:
        raise NotEnoughMemoryError(
            f"{what} needs {human_bytes(needed)} of memory, but only "
            f"{human_bytes(available)} are available; {remedy}"
        )


def human_bytes(n: float) -> str:
    """A size as people write it, in decimal units: 491.2 GB."""
    for unit in ("B", "kB", "MB", "GB"):
        if n < 1000:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1000
    return f"{n:.1f} TB"


def _meminfo() -> int | None:
    """Linux's own estimate of what can be allocated without swapping."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _cgroup() -> int | None:
    """What a container's limit leaves (control groups, version 2)."""
    folder = Path("/sys/fs/cgroup")
    try:
        limit = (folder / "memory.max").read_text().strip()
        used = int((folder / "memory.current").read_text())
        return None if limit == "max" else max(0, int(limit) - used)
    except (OSError, ValueError):
        return None
