"""A progress bar as a callback."""

from __future__ import annotations

import math
import sys
from contextlib import ExitStack

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from maxplus.models import LOG2
from maxplus.training.monitor import Progress, announce_compilation
from maxplus.training.stages import Iterations, Polish


class ProgressBar:
    """Progress bar on standard error with iteration, best loss, current loss and time left.

    Until the first report the bar has no total. In a polish and, with ``is_max_loss``, in
    iterations, it also shows the difference between the best loss and log 2. Set ``is_max_loss`` if
    iterations minimise the maximum loss: if this is below log 2, all training samples are
    classified correctly.
    A message is printed above the bar if kernels have to be compiled first.

    Use it as a context manager and as a callback::

        with ProgressBar("LMM (max)") as bar:
            train(engine, 1000, [bar])
    """

    def __init__(
        self, title: str, console: Console | None = None, *, is_max_loss: bool = False
    ) -> None:
        self._is_max_loss = is_max_loss
        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[done]}"),
            TextColumn("{task.fields[losses]}"),
            TimeRemainingColumn(),
            console=console or Console(file=sys.stderr),
        )
        self._title = title
        self._last: Progress | None = None
        self._compiling = ExitStack()
        self._add(title)

    def _add(self, title: str) -> None:
        """Add a bar without a total, below the bars of earlier stages."""
        self._task = self._bar.add_task(title, total=None, done="", losses="")

    def __enter__(self) -> ProgressBar:
        """Start the display."""
        self._bar.start()
        self._compiling.enter_context(announce_compilation(self._bar.console.print))
        return self

    def __exit__(self, *error: object) -> None:
        """Stop the display."""
        self._compiling.close()
        self._close()
        self._bar.stop()

    def __call__(self, progress: Progress) -> None:
        """Update the bar; a new stage starts a new bar."""
        if self._last is None:
            if progress.stage != Iterations.name:
                self._bar.update(self._task, description=f"{self._title}: {progress.stage}")
        elif progress.stage != self._last.stage:
            self._close(is_complete=True)
            self._add(progress.stage)
        self._last = progress
        gap = self._gap(progress.best_loss) if self._shows_gap(progress.stage) else ""
        best, now = _format_loss(progress.best_loss), _format_loss(progress.loss)
        self._bar.update(
            self._task,
            completed=progress.iteration,
            total=progress.max_iter,
            done=f"{progress.iteration}/{progress.max_iter}",
            losses=f"best {best}  now {now}{gap}",
        )

    def _close(self, is_complete: bool = False) -> None:
        """Complete the bar of a stage, or remove it if the stage had no iterations.

        A polish, and a stage that another one follows, are shown as complete even if they ended
        before their maximum number of iterations.
        """
        last = self._last
        if last is None or last.iteration == 0:
            self._bar.update(self._task, visible=False)
        elif is_complete or last.stage == Polish.name:
            done = f"{last.iteration}/{last.iteration}"
            self._bar.update(self._task, total=last.iteration, done=done)

    def _shows_gap(self, stage: str) -> bool:
        # Only a maximum loss below log 2 implies a perfect fit. A polish reports maximum losses.
        return stage == Polish.name or (stage == Iterations.name and self._is_max_loss)

    @staticmethod
    def _gap(best: float) -> str:
        gap = best - LOG2
        return f" ({gap:.3f} to log 2)" if gap >= 0 else " (perfect fit)"


def _format_loss(loss: float) -> str:
    return f"{loss:.4f}" if math.isfinite(loss) else "–"
