"""A progress bar as a callback."""

from __future__ import annotations

import sys
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from maxplus.models import LOG2
from maxplus.training.conductor import Progress
from maxplus.training.stages import Iterations, Polish


class ProgressBar:
    """Shows iteration, best loss, current loss and time left on standard error.

    With ``certificate``, for losses that are maxima, also how far the best one is from log 2,
    below which every training sample is provably right.

    Use it as a context manager and as a callback::

        with ProgressBar("LMM (max)") as bar:
            train(engine, 1000, [bar])
    """

    def __init__(
        self, title: str, console: Console | None = None, *, certificate: bool = False
    ) -> None:
        self._certificate = certificate
        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(
                "best {task.fields[best]:.4f}  now {task.fields[now]:.4f}{task.fields[gap]}"
            ),
            TimeRemainingColumn(),
            console=console or Console(file=sys.stderr),
        )
        self._title = title
        self._stage: str | None = None
        self._add(title)

    def _add(self, title: str) -> None:
        """A bar below those of the stages before."""
        self._task = self._bar.add_task(title, best=float("nan"), now=float("nan"), gap="")

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
        """Draw the state after a block; a new stage gets a bar of its own."""
        if progress.stage != self._stage:
            if self._stage is not None:
                self._add(progress.stage)
            elif progress.stage != Iterations.name:
                self._bar.update(self._task, description=f"{self._title}: {progress.stage}")
            self._stage = progress.stage
        self._bar.update(
            self._task,
            completed=progress.iteration,
            total=progress.max_iter,
            best=progress.best_loss,
            now=progress.loss,
            gap=self._gap(progress.best_loss) if self._shows_gap(progress.stage) else "",
        )

    def _shows_gap(self, stage: str) -> bool:
        # Only a maximum certifies anything; what the polish shows is one.
        return stage == Polish.name or (stage == Iterations.name and self._certificate)

    @staticmethod
    def _gap(best: float) -> str:
        gap = best - LOG2
        return f" ({gap:.3f} to log 2)" if gap >= 0 else " (certified)"
