"""Estimates of the memory that a table takes, made before it is taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from maxplus.tables.table import Cells, TableError
from maxplus.tables.words import Words

# Smaller tables are read without looking at the memory that is left.
ALWAYS_READ = 1 << 27
# While a table is read, its parts, its columns and its features are there at once.
COPIES = 3
# What a different word takes beside its characters: a string and a place in a dictionary.
BYTES_PER_WORD = 128


def check_memory(name: str, needed: int, taken: int = 0) -> None:
    """Raise TableError if a table needs more bytes than are available or ``taken`` by it."""
    if needed < ALWAYS_READ:
        return
    from maxplus.training.memory import available_bytes, human_bytes

    available = available_bytes()
    if available is not None and needed > available + taken:
        raise TableError(
            f"{name} needs at least {human_bytes(needed)} of memory, but only "
            f"{human_bytes(available + taken)} are available; use fewer rows or columns (predict, "
            "evaluate and certify read a file in parts)"
        )


def collect(name: str, batches: Iterable[Mapping[str, Cells]]) -> list[Mapping[str, Cells]]:
    """Return all batches of a table; TableError as soon as they would not fit into memory."""
    found: list[Mapping[str, Cells]] = []
    n_bytes = checked = 0
    for batch in batches:
        found.append(batch)
        n_bytes += sum(map(_size, batch.values()))
        if n_bytes - checked > ALWAYS_READ // COPIES:
            check_memory(name, COPIES * n_bytes, n_bytes)
            checked = n_bytes
    return found


def _size(cells: Cells) -> int:
    if isinstance(cells, Words):
        letters = sum(map(len, cells.values))
        return int(cells.codes.nbytes) + letters + BYTES_PER_WORD * len(cells.values)
    return int(cells.nbytes)
