"""Commands that an MPI launcher has started on several ranks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import typer

if TYPE_CHECKING:
    from maxplus.ranks import Team


@contextmanager
def all_ranks() -> Iterator[Team]:
    """The team of all ranks that a launcher has started; alone where there is none."""
    from maxplus.ranks import ALONE, distributed
    from maxplus.ranks.current import is_launched

    if not is_launched():
        yield ALONE
        return
    left: typer.Exit | None = None
    with distributed() as team:
        try:
            yield team
        except typer.Exit as leaving:
            # Everybody leaves, as it should be: no failure of one rank.
            left = leaving
    if left is not None:
        raise left


def refuse_over_ranks(option: str, remedy: str) -> NoReturn:
    """ValueError for an option that is for one process, on all ranks."""
    from maxplus.ranks.team import agreed

    raise agreed(
        ValueError(f"{option} is for one process; leave it out over several ranks, and {remedy}")
    )
