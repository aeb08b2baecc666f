"""Progress reports, callbacks, interruption, and parallel runs of training."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, TypeVar

import numba
from numba.core import event
from threadpoolctl import threadpool_limits

from maxplus.distributed import SERIAL, current, using
from maxplus.models.base import Network
from maxplus.training.result import Status, TrainingState

R = TypeVar("R")


@dataclass(frozen=True)
class Progress:
    """Progress of a fit, the argument of callbacks.

    Attributes
    ----------
    stage : the name of the stage; what counts as an iteration depends on it: a fit on one fold in
        "choice" (of hyper-parameters), an epoch in "warm-up" (of a classifier) and "terms" (of a
        regressor), an iteration of an engine in "iterations", a round in "polish", and a network in
        "ensemble"
    iteration, max_iter : iterations of the stage so far, and their maximum number
    loss, best_loss : current loss, and lowest loss so far
    seconds : time since the stage began
    model : the current model, a function of the scaled features that stages train on
    is_last : whether it is known that no report with a state follows: training is interrupted, or
        the stage is complete and no later stage has a state
    state : function that returns a copy of the state to resume from; None if the stage would be
        repeated from its beginning
    origin : the estimator and its data, or None; the same object in all reports
    """

    stage: str
    iteration: int
    max_iter: int
    loss: float
    best_loss: float
    seconds: float
    model: Network = field(repr=False)
    is_last: bool
    state: Callable[[], TrainingState] | None = field(repr=False)
    # The representation of the origin would include all training samples.
    origin: Any = field(default=None, repr=False)


Callback = Callable[[Progress], bool | None]


class KeepBestOnInterrupt:
    """Callback with which Ctrl-C ends a fit and keeps the best model so far.

    Without it, Ctrl-C raises KeyboardInterrupt, and the estimator is left unchanged. With it, the
    first Ctrl-C ends the fit at its next report with the status "interrupted" and, in an estimator,
    a warning. A second Ctrl-C raises KeyboardInterrupt; during subgradient iterations in a single
    process, it instead ends the fit without waiting for the next report. ``maxplus train`` uses
    the callback. Do not use it in a grid search or a cross-validation, where a partly trained model
    would be scored like a complete one.

    The callback has no effect outside the main thread, where Python cannot install signal handlers,
    or if another handler for SIGINT is already installed. With several ranks, pass it on all ranks.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxplus import LMMClassifier
    >>> from maxplus.training import KeepBestOnInterrupt
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = LMMClassifier(8, slope=2.0, callbacks=[KeepBestOnInterrupt()], random_state=0)
    >>> clf.fit(X, y).status_ != "interrupted"  # Ctrl-C was not pressed.
    True
    """

    def __init__(self) -> None:
        self.is_requested = False
        self._previous: Any = None

    def __call__(self, progress: Progress) -> bool:
        """Return whether Ctrl-C was pressed."""
        return self.is_requested

    def __enter__(self) -> KeepBestOnInterrupt:
        """Install the signal handler; called by `TrainingMonitor`."""
        self.is_requested = False
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._previous = signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(self, *error: object) -> None:
        """Restore the previous signal handler."""
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)
            self._previous = None

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.is_requested:
            raise KeyboardInterrupt
        self.is_requested = True


class TrainingMonitor:
    """Dispatcher of callbacks, which also determines when stages end.

    A stage calls `report` at regular intervals. It ends if it is complete, if Ctrl-C was pressed
    and one of the callbacks is a `KeepBestOnInterrupt`, or if a callback returned True; the first
    of these conditions that holds is the reason.

    Use it as a context manager around all stages::

        with TrainingMonitor([bar]) as monitor:
            run_stages(stages, model, problem, monitor)

    Parameters
    ----------
    callbacks : called at each report
    origin : the value of ``Progress.origin``
    parent : monitor of the fit that this one is a part of; its interruption interrupts this fit
    """

    def __init__(
        self,
        callbacks: Iterable[Callback] = (),
        origin: Any = None,
        parent: TrainingMonitor | None = None,
    ) -> None:
        self._callbacks = list(callbacks)
        self._interrupt_callbacks = [
            c for c in self._callbacks if isinstance(c, KeepBestOnInterrupt)
        ]
        self._origin, self._parent = origin, parent
        self._complete_state: Callable[[TrainingState], TrainingState] | None = None
        self._handlers = ExitStack()
        self._interrupted = self._stopped = False
        self.begin("", is_last=True)

    def __enter__(self) -> TrainingMonitor:
        """Install the signal handlers of `KeepBestOnInterrupt` callbacks."""
        for callback in self._interrupt_callbacks:
            self._handlers.enter_context(callback)
        return self

    def __exit__(self, *error: object) -> None:
        """Restore the previous signal handlers."""
        self._handlers.close()

    def begin(
        self,
        stage: str,
        *,
        is_last: bool,
        complete_state: Callable[[TrainingState], TrainingState] | None = None,
    ) -> None:
        """Begin a stage and start its timer; ``is_last`` if no stage with a state follows it.

        ``complete_state`` adds the results of earlier stages to a state of this one.
        """
        self._stage, self._is_last, self._complete_state = stage, is_last, complete_state
        self._began = time.perf_counter()

    @property
    def keeps_best_on_interrupt(self) -> bool:
        """True if a `KeepBestOnInterrupt` is among the callbacks."""
        return bool(self._interrupt_callbacks)

    @property
    def interrupted(self) -> bool:
        """True if training ends at its next report with the model so far; equal on all ranks.

        Ranks exchange whether Ctrl-C was pressed in `stop_reason`, because they must take the same
        steps.
        """
        is_requested = self._is_interrupt_requested and current().is_serial
        return (
            self._interrupted
            or is_requested
            or (self._parent is not None and self._parent.interrupted)
        )

    @property
    def _is_interrupt_requested(self) -> bool:
        return any(callback.is_requested for callback in self._interrupt_callbacks)

    def interrupt(self) -> None:
        """End training at its next report."""
        self._interrupted = True

    @property
    def stop_reason(self) -> Status | None:
        """The reason to end training before it is complete, or None; equal on all ranks.

        All ranks must read it together.
        """
        comm = current()
        if not comm.is_serial:
            reasons = comm.allgather(
                (self.interrupted or self._is_interrupt_requested, self._stopped)
            )
            self._interrupted, self._stopped = (any(ranks) for ranks in zip(*reasons, strict=True))
        if self.interrupted:
            return Status.INTERRUPTED
        return Status.CALLBACK if self._stopped else None

    @property
    def has_callbacks(self) -> bool:
        """True if there is a callback."""
        return bool(self._callbacks)

    @property
    def seconds(self) -> float:
        """The time since the stage began."""
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
        """Call the callbacks; return the reason to end the stage, or None if it continues.

        ``end`` is the reason if the stage is complete.
        """
        progress = Progress(
            self._stage,
            iteration,
            max_iter,
            loss,
            best_loss,
            self.seconds,
            model,
            self.interrupted or (end is not None and self._is_last),
            self._completed(state),
            self._origin,
        )
        results = [callback(progress) for callback in self._callbacks]
        if end is not None:
            return end
        self._stopped |= any(results)
        return self.stop_reason

    def _completed(
        self, state: Callable[[], TrainingState] | None
    ) -> Callable[[], TrainingState] | None:
        complete = self._complete_state
        if state is None or complete is None:
            return state
        return lambda: complete(state())


def run_parallel(
    jobs: Sequence[Callable[[TrainingMonitor], R]], n_threads: int, monitor: TrainingMonitor
) -> Generator[tuple[int, R], None, None]:
    """Run jobs in threads that use one core each; yield (index, result) of each when it ends.

    Call it inside ``threadpool_limits(1)``: some BLAS libraries have one setting for all threads.
    Results do not depend on the number of threads. If ``monitor`` is interrupted, the remaining
    results are not yielded. With several ranks, each rank runs a part of the jobs, and all ranks
    yield all results in the order of the jobs.

    The argument of each job is a monitor without callbacks, which is interrupted if ``monitor`` is
    interrupted or the generator is closed.
    """
    comm = current()
    if not comm.is_serial:
        with comm.raise_on_all_ranks(), using(SERIAL):
            indices = range(comm.rank, len(jobs), comm.size)
            completed = run_parallel([jobs[k] for k in indices], n_threads, monitor)
            own = {indices[k]: result for k, result in completed}
        results = {k: result for part in comm.allgather(own) for k, result in part.items()}
        yield from sorted(results.items(), key=lambda item: item[0])
        return
    pool = ThreadPoolExecutor(n_threads, initializer=_use_one_core)
    job_monitor = TrainingMonitor(parent=monitor)
    futures: dict[Future[R], int] = {}
    try:
        futures = {pool.submit(job, job_monitor): k for k, job in enumerate(jobs)}
        for future in as_completed(futures):
            if monitor.interrupted:
                break
            yield futures[future], future.result()
    finally:
        job_monitor.interrupt()
        pool.shutdown(cancel_futures=True)


def _use_one_core() -> None:
    numba.set_num_threads(1)
    threadpool_limits(1)


COMPILING = "compiling kernels (only once: later runs load them from the disk)"

_announced = threading.Event()


class _FirstCompilation(event.Listener):
    """Numba listener that writes `COMPILING` when the first kernel of the process is compiled."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write

    def on_start(self, event: event.Event) -> None:
        if not _announced.is_set():
            _announced.set()
            self._write(COMPILING)

    def on_end(self, event: event.Event) -> None:
        pass


@contextmanager
def announce_compilation(write: Callable[[str], None]) -> Iterator[None]:
    """Write one line, once per process, if kernels are compiled inside the ``with`` block.

    Loading a kernel from the disk cache does not count.
    """
    listener = _FirstCompilation(write)
    event.register("numba:compile", listener)
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)
