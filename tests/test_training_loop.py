"""The training loop: blocks, callbacks, end of training, Ctrl-C, history, progress bar."""

import io
import signal
import sys
import threading
from contextlib import suppress
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from rich.console import Console

import maxplus
from maxplus import SubgradientLMMClassifier
from maxplus.training import (
    History,
    KeepBestOnInterrupt,
    MaxLoss,
    MeanLoss,
    Progress,
    Status,
    TrainingProblem,
    constant,
    monitor,
    train,
)
from maxplus.training.engines import ENGINES
from maxplus.training.progress import ProgressBar
from maxplus.training.result import Block, Signal
from trainings import press_ctrl_c, raise_keyboard_interrupt, start_at


class FakeEngine:
    """Engine whose loss falls from 1000; it ends in iteration ``ends`` with a signal."""

    def __init__(self, ends=None, signal=Signal.TARGET, on_block=lambda: None):
        self.sizes = []
        self.iteration, self.best_loss, self.model = 0, float("inf"), object()
        self._ends, self._signal, self._on_block = ends, signal, on_block

    def advance(self, block):
        self.sizes.append(block.loss.size)
        while block.n < block.loss.size:
            self.iteration += 1
            self.best_loss = 1000.0 - self.iteration
            block.record(self.best_loss, self.iteration, 0.5)
            if self.iteration == self._ends:
                block.signal = self._signal
                return
        self._on_block()


class Listener:
    """A callback that records its calls and stops after ``stop_after`` of them."""

    def __init__(self, stop_after=None):
        self.progress_calls, self._stop_after = [], stop_after

    def __call__(self, progress):
        self.progress_calls.append(progress)
        return len(self.progress_calls) == self._stop_after


# -- blocks and callbacks ---------------------------------------------------------------------


@pytest.mark.parametrize("max_iter", [1, 2, 3, 100, 1023, 1024])
def test_training_loop_runs_all_iterations(max_iter):
    engine = FakeEngine()
    result = train(engine, max_iter)
    assert result.status is Status.MAX_ITER
    assert engine.iteration == max_iter
    assert_array_equal(result.history["sample"], np.arange(1, max_iter + 1))


@pytest.mark.parametrize(
    ("seconds_per_block", "seconds_per_iteration", "first", "later"),
    [
        (0.0, 0.0, [1, 2, 4, 8, 16], {32, 64}),
        # A block takes about 0.2 seconds.
        (0.0, 0.01, [1, 2, 4, 8, 16], {19, 20}),
        (60.0, 0.0, [1, 1, 1, 1, 1], {1}),
    ],
)
def test_block_size_is_adjusted_to_the_duration_of_a_block(
    monkeypatch, seconds_per_block, seconds_per_iteration, first, later
):
    now = 100.0

    def on_block():
        nonlocal now
        now += seconds_per_block + seconds_per_iteration * engine.sizes[-1]

    monkeypatch.setattr(monitor, "time", SimpleNamespace(perf_counter=lambda: now))
    engine = FakeEngine(on_block=on_block)
    result = train(engine, 200)
    assert engine.sizes[:5] == first
    assert {*engine.sizes[5:-1]} <= later
    assert sum(engine.sizes) == 200
    assert result.seconds == now - 100.0


def test_callbacks_are_called_once_per_block():
    engine, listener = FakeEngine(), Listener()
    train(engine, 1000, [listener])
    assert len(listener.progress_calls) == len(engine.sizes) < 100
    last = listener.progress_calls[-1]
    assert isinstance(last, Progress)
    assert [p.iteration for p in listener.progress_calls] == np.cumsum(engine.sizes).tolist()
    assert (last.iteration, last.max_iter) == (1000, 1000)
    assert (last.loss, last.best_loss, last.model) == (0.0, 0.0, engine.model)
    assert last.seconds >= listener.progress_calls[0].seconds > 0


@pytest.mark.parametrize("stops", [(3, None), (None, 3)])
def test_callback_stops_training_and_all_callbacks_are_called(stops):
    engine, (first, second) = FakeEngine(), (Listener(after) for after in stops)
    result = train(engine, 1000, [first, second])
    assert result.status is Status.CALLBACK
    assert len(first.progress_calls) == len(second.progress_calls) == len(engine.sizes) == 3
    assert result.history["loss"].size == engine.iteration == 7


@pytest.mark.parametrize("answer", [None, False, 0])
def test_other_callback_results_do_not_stop_training(answer):
    assert train(FakeEngine(), 50, [lambda progress: answer]).status is Status.MAX_ITER


def test_callback_error_is_raised():
    def fail(progress):
        raise RuntimeError("the callback failed")

    with pytest.raises(RuntimeError, match="callback failed"):
        train(FakeEngine(), 50, [fail])


@pytest.mark.parametrize(
    ("sign", "status"), [(Signal.TARGET, Status.TARGET), (Signal.STATIONARY, Status.STATIONARY)]
)
@pytest.mark.parametrize("ends", [1, 5, 50])
def test_engine_can_end_training(ends, sign, status):
    listener = Listener(stop_after=1) if ends == 1 else Listener()
    result = train(FakeEngine(ends, sign), 50, [listener])
    assert result.status is status
    assert result.history["loss"].size == ends
    assert listener.progress_calls[-1].iteration == ends


# -- Ctrl-C -----------------------------------------------------------------------------------


@pytest.mark.parametrize("interrupt", [press_ctrl_c, raise_keyboard_interrupt])
def test_ctrl_c_in_a_callback_ends_training(interrupt):
    with pytest.raises(KeyboardInterrupt):
        train(FakeEngine(), 1000, [interrupt])
    result = train(FakeEngine(), 1000, [interrupt, KeepBestOnInterrupt()])
    assert result.status is Status.INTERRUPTED
    assert result.history["loss"].size == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_waits_for_the_end_of_a_block():
    def on_block():
        if len(engine.sizes) == 4:
            press_ctrl_c()

    engine = FakeEngine(on_block=on_block)
    result = train(engine, 1000, [KeepBestOnInterrupt()])
    assert result.status is Status.INTERRUPTED
    assert result.history["loss"].size == engine.iteration == sum(engine.sizes[:4])


def test_second_ctrl_c_interrupts_immediately():
    def on_block():
        press_ctrl_c()
        press_ctrl_c()
        pytest.fail("the second Ctrl-C has no effect")

    result = train(FakeEngine(on_block=on_block), 1000, [KeepBestOnInterrupt()])
    assert result.status is Status.INTERRUPTED
    assert result.history["loss"].size == 0
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_foreign_signal_handler_is_kept():
    pressed = []
    before = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    try:
        result = train(FakeEngine(), 5, [press_ctrl_c, KeepBestOnInterrupt()])
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.status is Status.MAX_ITER
    assert set(pressed) == {signal.SIGINT}


def test_training_loop_works_in_another_thread():
    results, keep = [], KeepBestOnInterrupt()
    thread = threading.Thread(target=lambda: results.append(train(FakeEngine(), 10, [keep])))
    thread.start()
    thread.join(30)
    assert results[0].status is Status.MAX_ITER


# Modules that change the state of a training.
STATEFUL = (
    "maxplus.models.base",
    "maxplus.training.engines.",
    "maxplus.training.result",
    "maxplus.training.stages.iterations",
)


class InterruptAt:
    """Context that raises KeyboardInterrupt before the nth instruction of these modules."""

    def __init__(self, n):
        self.left = n

    def __enter__(self):
        self._before = sys.gettrace()
        sys.settrace(self._enter)
        return self

    def __exit__(self, *_):
        # Otherwise, the coverage of later tests is not measured.
        sys.settrace(self._before)

    def _enter(self, frame, event, arg):
        if not frame.f_globals.get("__name__", "").startswith(STATEFUL):
            return None
        frame.f_trace_opcodes = True
        return self._count

    def _count(self, frame, event, arg):
        self.left -= event == "opcode"
        if self.left < 0:
            sys.settrace(None)
            raise KeyboardInterrupt
        return self._count


def interrupt_everywhere(run, begin, step=1):
    """Call ``run(begin())`` with an interrupt before each of its instructions.

    Yield the argument and the result of each call; the result is None if it was interrupted.
    """
    for n in count(step=step):
        given, returned = begin(), None
        with InterruptAt(n) as interrupt, suppress(KeyboardInterrupt):
            returned = run(given)
        # The interrupt may prevent the handler from being restored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if interrupt.left >= 0:
            break
        yield given, returned
    assert n > 20


def column_lengths(history):
    return {column.size for column in history.values()}


def test_history_changes_are_atomic_under_an_interrupt():
    def begin():
        history = History()
        history.append(block_of(0, 1))
        history.append(block_of(1))
        return history

    def grow(history):
        history.append(block_of(1, 0))
        assert history["loss"].size == 5
        history.extend(begin())
        history.map_samples(np.array([7, 8]))

    for history, _ in interrupt_everywhere(grow, begin):
        (size,) = column_lengths(history)
        assert size in (3, 5, 8)
        assert set(history["sample"]) <= ({7, 8} if history["sample"][0] == 7 else {0, 1})


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["dense", "sparse", "tree", "sgd"])
def test_trained_engine_is_consistent_after_an_interrupt(cloud, engine):
    X, y = cloud.X[:6], cloud.y[:6]
    objective = MeanLoss() if engine == "sgd" else MaxLoss()

    def begin():
        problem = TrainingProblem(X, y, objective, constant(0.05), rng=np.random.default_rng(0))
        return ENGINES[engine](start_at(X, y, 3), problem)

    def weights(model):
        return tuple(W.tobytes() for W in model.weights_by_name().values())

    def run(engine):
        return train(engine, 2, [KeepBestOnInterrupt()])

    iterates, whole = {weights(begin().model)}, begin()
    for _ in range(2):
        whole.advance(Block(1))
        iterates.add(weights(whole.model))
    for found, outcome in interrupt_everywhere(run, begin):
        if outcome is not None:
            assert len(column_lengths(outcome.history)) == 1
        assert weights(found.model) in iterates
        best = found.best
        assert weights(best) in iterates
        if np.isfinite(found.best_loss):
            assert found.best_loss == objective.value(best.losses(X, y), None).loss


@pytest.mark.filterwarnings("ignore:training was interrupted")
def test_model_of_an_interrupted_fit_can_be_saved_and_loaded(cloud, tmp_path, monkeypatch):
    append, path = History.append, tmp_path / "interrupted.maxplus"
    n_interrupted = 0
    for n in count(step=5):
        interrupt = InterruptAt(n)

        def append_interrupted(history, block, interrupt=interrupt):
            with interrupt:
                append(history, block)

        monkeypatch.setattr(History, "append", append_interrupted)
        keep = KeepBestOnInterrupt()
        clf = SubgradientLMMClassifier(4, max_iter=3, random_state=0, callbacks=keep).fit(*cloud)
        clf.save(path)
        again = maxplus.load(path)
        assert column_lengths(again.history_) == {again.n_iter_}
        assert_array_equal(again.predict(cloud.X), clf.predict(cloud.X))
        if interrupt.left >= 0:
            break
        assert clf.status_ == Status.INTERRUPTED.value
        n_interrupted += 1
    assert n_interrupted > 3


# -- the history ------------------------------------------------------------------------------


def block_of(*samples):
    block = Block(len(samples) + 2)
    for n in samples:
        block.record(n / 2, n, 0.25)
    return block


def test_progress_representation_excludes_the_training_data(iris):
    reports = []
    SubgradientLMMClassifier(4, max_iter=5, random_state=0, callbacks=reports.append).fit(
        iris.X, iris.y
    )
    assert reports[-1].origin is not None
    assert repr(reports[-1]).startswith("Progress(stage='iterations', iteration=5, max_iter=5,")
    assert len(repr(reports[-1])) < 300


def test_status_is_a_code_with_a_message():
    for status in Status:
        assert status is Status.from_text(status.value) is Status.from_text(status.message)
        assert status.value == status.name.lower()
        assert len(status.message.split()) > 2
    with pytest.raises(ValueError, match="there is no status 'else'"):
        Status.from_text("else")


def test_history_is_a_mapping_of_columns():
    history, other = History(), History()
    assert {name: column.size for name, column in history.items()} == dict.fromkeys(
        ("loss", "sample", "step"), 0
    )
    history.append(block_of(3, 1))
    history.append(block_of(4))
    assert_array_equal(history["loss"], [1.5, 0.5, 2.0])
    assert_array_equal(history["step"], [0.25] * 3)
    assert history["sample"].dtype == np.int64
    assert len(history) == 3
    assert "3 iterations" in repr(history)
    with pytest.raises(KeyError):
        history["gradient"]
    other.append(block_of(1, -1))
    other.map_samples(np.array([10, 11, 12]))
    history.extend(other)
    history.append(block_of(2))
    assert_array_equal(history["sample"], [3, 1, 4, 11, -1, 2])


# -- the progress bar -------------------------------------------------------------------------


def test_progress_bar_shows_progress():
    paper = io.StringIO()
    with ProgressBar("a title", Console(file=paper, width=120)) as bar:
        train(FakeEngine(), 700, [bar])
    text = paper.getvalue()
    for part in ("a title", "700/700", "best 300.0000", "now 300.0000"):
        assert part in text
