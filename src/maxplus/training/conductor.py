"""One conductor for all stages of a training: callbacks, Ctrl-C and the clock."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any

from maxplus.distributed import current
from maxplus.models.base import Network
from maxplus.training.result import Status
from maxplus.training.state import TrainingState


@dataclass(frozen=True)
class Progress:
    """What a callback is told from time to time.

    Attributes
    ----------
    stage : "choice" of a structure (an iteration is a training on a part), "warm-up" (an epoch),
        "iterations" of an engine, "polish" (a round), or "ensemble" (one of its networks)
    iteration, max_iter : how far the stage is
    loss, best_loss : the present one, and the lowest so far
    seconds : since the stage began
    model : as it is now; a function of what stages train on, which are scaled features
    is_last : whether this is the last moment of the training that has a state
    state : copies all that training needs to go on from here another time; None where the stage
        would be repeated from its beginning
    origin : what is being trained on what, or None; the same object all through a training
    """

    stage: str
    iteration: int
    max_iter: int
    loss: float
    best_loss: float
    seconds: float
    model: Network
    is_last: bool
    state: Callable[[], TrainingState] | None
    origin: Any = None


# Modules that train one model after the other, or side by side, to compare or to combine them.
TRAINERS = (
    "sklearn.model_selection.", "sklearn.feature_selection.", "sklearn.ensemble.",
    "sklearn.semi_supervised.", "joblib.parallel", "joblib._parallel_backends",
)  # fmt: skip

Callback = Callable[[Progress], bool | None]


class Conductor:
    """Tells callbacks how a training goes, and stages when to stop.

    A stage calls `report` between two pieces of its work. It goes on unless it has come to
    an end by itself, somebody pressed Ctrl-C, or a callback returned True; in that
    order, if several are true at once. The first Ctrl-C is a request, which is heard
    at the next report; a second one raises KeyboardInterrupt at once. So does the first in a
    training that a search, a cross-validation or an ensemble began: whoever interrupts
    means the whole of it, and a model that is half trained must not be judged.

    Use it as a context manager around all stages::

        with Conductor([bar]) as conductor:
            run_stages(stages, model, task, conductor)

    Parameters
    ----------
    callbacks : what to tell
    origin : handed on in ``Progress.origin``
    """

    def __init__(self, callbacks: Iterable[Callback] = (), origin: Any = None) -> None:
        self._callbacks = list(callbacks)
        self._origin = origin
        self._handler_before: Any = None
        self._settle: Callable[[TrainingState], TrainingState] | None = None
        self.interrupted = False
        self._pressed = False
        self.keeps_interrupted = not _is_one_of_many()
        self._stopped = False
        self.begin("", is_last=True)

    def __enter__(self) -> Conductor:
        """From here on, Ctrl-C is a request, unless the training is one of many.

        Python lets only the main thread handle signals, and a handler that somebody
        else put there is their business: then nothing changes.
        """
        ours = threading.current_thread() is threading.main_thread()
        default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if ours and default and self.keeps_interrupted:
            self._handler_before = signal.signal(signal.SIGINT, self._on_ctrl_c)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ctrl-C is again what it was."""
        if self._handler_before is not None:
            signal.signal(signal.SIGINT, self._handler_before)
            self._handler_before = None

    def _on_ctrl_c(self, number: int, frame: FrameType | None) -> None:
        if self._pressed:
            raise KeyboardInterrupt
        self._pressed = True
        # Ranks hear of it together, at the next report: they must take the same steps.
        self.interrupted |= current().is_alone

    def begin(
        self,
        stage: str,
        *,
        is_last: bool,
        settle: Callable[[TrainingState], TrainingState] | None = None,
    ) -> None:
        """A stage begins, and its clock; ``is_last`` if none with a state comes after it.

        ``settle`` completes each of the stage's states with what was settled before it.
        """
        self._stage, self._is_last, self._settle = stage, is_last, settle
        self._began = time.perf_counter()

    @property
    def asked(self) -> Status | None:
        """Whether somebody asked for the end of the training, on any rank, and who."""
        team = current()
        if not team.is_alone:
            told = team.every((self.interrupted or self._pressed, self._stopped))
            self.interrupted, self._stopped = (any(answers) for answers in zip(*told, strict=True))
        if self.interrupted:
            return Status.INTERRUPTED
        return Status.CALLBACK if self._stopped else None

    @property
    def has_callbacks(self) -> bool:
        """Whether somebody hears of reports."""
        return bool(self._callbacks)

    @property
    def seconds(self) -> float:
        """Since the stage began."""
        return time.perf_counter() - self._began

    def report(
        self,
        iteration: int,
        max_iter: int,
        loss: float,
        best_loss: float,
        model: Network,
        state: Callable[[], TrainingState] | None,
        end: Status | None = None,
    ) -> Status | None:
        """Tell everybody where the stage is; why it ends here, or None if it goes on.

        ``end`` says that, and why, it would end by itself.
        """
        progress = Progress(
            self._stage, iteration, max_iter, loss, best_loss, self.seconds, model,
            self.interrupted or (end is not None and self._is_last),
            self._settled(state), self._origin,
        )  # fmt: skip
        answers = [callback(progress) for callback in self._callbacks]
        if end is not None:
            return end
        self._stopped |= any(answers)
        return self.asked

    def _settled(
        self, state: Callable[[], TrainingState] | None
    ) -> Callable[[], TrainingState] | None:
        settle = self._settle
        if state is None or settle is None:
            return state
        return lambda: settle(state())


def _is_one_of_many() -> bool:
    """Whether a search, a cross-validation or the like is among those who called."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(TRAINERS):
            return True
        frame = frame.f_back
    return False
