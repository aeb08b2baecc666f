"""Parts of a table, each made while somebody looks at the one before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def ahead(parts: Iterable[T]) -> Iterator[T]:
    """The same parts, in their order, with the same error at the same place.

    One part more is in memory. A thread makes it, for which reading files leaves Python's lock.
    Somebody who stops waits for the part that is being made.
    """
    left, end = iter(parts), object()
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, left, end)
        while (part := coming.result()) is not end:
            coming = reader.submit(next, left, end)
            yield part  # type: ignore[misc]
