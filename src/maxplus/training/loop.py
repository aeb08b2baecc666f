"""The loop around an engine: blocks of iterations, callbacks, Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from maxplus.models.base import Model
from maxplus.training.engines.base import Engine
from maxplus.training.interrupts import deferred_interrupt
from maxplus.training.result import Block, History, Signal, Status, TrainingResult
from maxplus.training.state import ITERATIONS, TrainingState

# A block should take about this long: short enough for Ctrl-C and a lively
# progress bar, long enough that what happens between blocks does not count.
SECONDS_PER_BLOCK = 0.2

_ENDS = {
    Signal.TARGET: Status.TARGET,
    Signal.STATIONARY: Status.STATIONARY,
    Signal.OVERFLOW: Status.OVERFLOW,
}


@dataclass(frozen=True)
class Progress:
    """What a callback is told after each block; ``is_last`` when no block will follow.

    ``state()`` copies all that training needs to go on from here another time. Where
    training has several stages, ``stage`` tells which it is: "warm-up" (an iteration is an
    epoch), "iterations" of an engine, or "polish" (an iteration is a round).
    """

    iteration: int
    max_iter: int
    loss: float
    best_loss: float
    seconds: float
    model: Model
    is_last: bool
    state: Callable[[], TrainingState]
    stage: str = ITERATIONS


Callback = Callable[[Progress], bool | None]


def train(
    engine: Engine,
    max_iter: int,
    callbacks: Iterable[Callback] = (),
    state: TrainingState | None = None,
) -> TrainingResult:
    """Run up to ``max_iter`` iterations, those before ``state`` included, and say how it ended.

    A callback is called after each block and ends the training by returning
    True. Ctrl-C ends it too; the engine keeps what it has. Blocks grow until
    one takes a fifth of a second; their sizes have no influence on the iterates.
    """
    callbacks = list(callbacks)
    history = History()
    started = time.perf_counter()
    status = Status.MAX_ITER
    if state is not None:
        engine.restore(state)
        history = History.of(state.history)
        if state.signal in _ENDS:
            return TrainingResult(history, _ENDS[state.signal], 0.0)
    done, size = history["loss"].size, 1
    try:
        with deferred_interrupt() as interrupt:
            while done < max_iter:
                block = Block(min(size, max_iter - done))
                begun = time.perf_counter()
                engine.advance(block)
                history.append(block)
                done += block.n
                now = time.perf_counter()
                size = _next_size(size, now - begun)
                ends = block.signal in _ENDS or interrupt.requested or done >= max_iter
                progress = Progress(
                    done, max_iter, float(block.loss[block.n - 1]), engine.best_loss,
                    now - started, engine.model, ends, partial(_state, engine, history, block),
                )  # fmt: skip
                answers = [callback(progress) for callback in callbacks]
                if block.signal in _ENDS:
                    status = _ENDS[block.signal]
                elif interrupt.requested:
                    status = Status.INTERRUPTED
                elif any(answers):
                    status = Status.CALLBACK
                else:
                    continue
                break
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    return TrainingResult(history, status, time.perf_counter() - started)


def _state(engine: Engine, history: History, block: Block) -> TrainingState:
    return engine.state(history, block.signal)


def _next_size(size: int, seconds: float) -> int:
    """At most double: the first block of an engine also compiles and says little."""
    wanted = size * SECONDS_PER_BLOCK / max(seconds, 1e-9)
    return max(1, min(2 * size, int(wanted)))
