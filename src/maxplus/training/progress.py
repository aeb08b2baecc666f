"""A progress bar as a callback."""

from __future__ import annotations

import sys
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from maxplus.training.loop import Progress


class ProgressBar:
    """Shows iteration, best loss, current loss and time left on standard error.

    Use it as a context manager and as a callback::

        with ProgressBar("LMM (max)") as bar:
            train(engine, 1000, [bar])
    """

    def __init__(self, title: str, console: Console | None = None) -> None:
        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("best {task.fields[best]:.4f}  now {task.fields[now]:.4f}"),
            TimeRemainingColumn(),
            console=console or Console(file=sys.stderr),
        )
        self._task = self._bar.add_task(title, best=float("nan"), now=float("nan"))

    def __enter__(self) -> ProgressBar:
        """Start drawing."""
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop drawing; what was drawn last stays."""
        self._bar.stop()

    def __call__(self, progress: Progress) -> None:
        """Draw the state after a block."""
        self._bar.update(
            self._task,
            completed=progress.iteration,
            total=progress.max_iter,
            best=progress.best_loss,
            now=progress.loss,
        )
