"""Available memory, and an error before an allocation that would exceed it."""

from __future__ import annotations

import os
from pathlib import Path

# Remedy if weights and samples take most of the memory.
FEWER_UNITS = "use fewer hidden units or fewer samples"


class NotEnoughMemoryError(MemoryError, ValueError):
    """Error raised before allocation if a fit needs more memory than is available."""


def available_bytes() -> int | None:
    """Return the available memory in bytes; None if it is unknown.

    It is the total memory if the system reports nothing else.
    """
    limits = [n for n in (_meminfo(), _cgroup(), _address_space()) if n is not None]
    if limits:
        return min(limits)
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def require(needed: int, what: str, remedy: str) -> None:
    """Raise `NotEnoughMemoryError` if ``needed`` bytes are not available."""
    available = available_bytes()
    if available is not None and needed > available:
        raise NotEnoughMemoryError(
            f"{what} needs {human_bytes(needed)} of memory, but only "
            f"{human_bytes(available)} is available; {remedy}"
        )


def human_bytes(n: float) -> str:
    """Format a number of bytes in decimal units, such as 491.2 GB."""
    for unit in ("B", "kB", "MB", "GB"):
        if n < 1000:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1000
    return f"{n:.1f} TB"


def _meminfo() -> int | None:
    """Return Linux's estimate of the memory that can be allocated without swapping."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _address_space() -> int | None:
    """Return the bytes left below the limit of the address space (``ulimit -v``)."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return None
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return max(0, limit - pages * os.sysconf("SC_PAGE_SIZE"))
    except (ImportError, OSError, ValueError, IndexError):
        return None


def _cgroup(root: Path = Path("/")) -> int | None:
    """Return the bytes left below the limits of the control groups of this process."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    remaining = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "" or "memory" in controllers.split(","):
            top = root / "sys/fs/cgroup" / ("memory" if controllers else "")
            own = top / path.lstrip("/")
            # In a container, the group of the container is mounted at the top.
            enclosing = [folder for folder in (own, *own.parents) if folder.is_relative_to(top)]
            folders, names = {*enclosing, top}, _FILES[bool(controllers)]
            remaining += [_remaining_bytes(folder, *names) for folder in folders]
    return min((n for n in remaining if n is not None), default=None)


# Names of a control group's limit file and usage file, and of the statistic for reclaimable cached
# files; the key is True for version 1 of control groups.
_FILES = {
    False: ("memory.max", "memory.current", "inactive_file"),
    True: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def _remaining_bytes(folder: Path, limit: str, usage: str, reclaimable: str) -> int | None:
    """Return the bytes left below the limit of a control group; None without a limit."""
    try:
        # Without a limit, the file of version 2 contains "max".
        max_bytes = int((folder / limit).read_text())
        used_bytes = int((folder / usage).read_text())
    except (OSError, ValueError):
        return None
    try:
        statistics = dict(
            line.split() for line in (folder / "memory.stat").read_text().splitlines()
        )
        used_bytes -= int(statistics.get(reclaimable, 0))
    except (OSError, ValueError):
        pass
    return max(0, max_bytes - used_bytes)
