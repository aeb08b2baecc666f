"""Bars for work that is counted in trainings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from maxplus.cli._output import Voice


@contextmanager
def trainings_bar(total: int, voice: Voice) -> Iterator[Callable[[str, int], None]]:
    """A bar to be told what is at work, and how many trainings are done; gone at the end."""
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=voice.aside, transient=True,
    )  # fmt: skip
    with bar:
        task = bar.add_task("", total=total)
        yield lambda text, done: bar.update(task, description=text, completed=done)
