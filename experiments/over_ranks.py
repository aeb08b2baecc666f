"""What ranks do for the experiment on more machines; a launcher starts this module on each.

    mpiexec -n 2 python -m experiments.over_ranks iterations '{"iterations": 300}'

Rank 0 prints one line of JSON, the outcome. Without a launcher one process does the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
from contextlib import nullcontext
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from experiments import measure, paper
from maxplus import datasets
from maxplus.distributed import Communicator, current, use_mpi
from maxplus.distributed.communicator import is_launched
from maxplus.estimators import LMMClassifier
from maxplus.training import History, MaxLoss, TrainingProblem
from maxplus.training.engines.sparse import SparseEngine
from maxplus.training.result import Block


def iterations(iterations: int, n_hidden: int, samples: int | None, threads: int) -> dict[str, Any]:
    """Polyak steps and as many constant ones on MNIST: seconds of each, and what came out."""
    numba.set_num_threads(threads)
    comm, before = current(), measure.present_bytes()
    data = datasets.load_mnist()
    X, y = data.X_train[:samples], data.y_train[:samples]
    n = len(y)
    model = paper.start(X, y, n_hidden)
    # A rank keeps its own rows only.
    part = slice(comm.rank * n // comm.size, (comm.rank + 1) * n // comm.size)
    X, steps, y = X[part].copy(), paper.two_phases(y, iterations), y[part].copy()
    del data
    problem = TrainingProblem(X, y, MaxLoss(), steps, paper.LINEAR_EVERY)
    share = X.nbytes + y.nbytes + SparseEngine.bytes_needed(model, problem)
    engine = SparseEngine(model, problem)
    history = History()
    measure.warm_up(engine)
    seconds = [_advance(engine, n - done, history) for done, n in _phases(iterations)]
    digest = hashlib.sha256()
    for array in (*engine.model.weights_by_name().values(), *history.values()):
        digest.update(np.ascontiguousarray(array).data)
    return {
        "ranks": comm.size, "threads": threads, "samples": n, "polyak": seconds[0],
        "constant": seconds[1], "digest": digest.hexdigest(), "best_loss": engine.best_loss,
        "share": comm.allgather(share), "grown": comm.allgather(measure.present_bytes() - before),
    }  # fmt: skip


def _phases(iterations: int) -> list[tuple[int, int]]:
    """(done before, done after) of both: the first iteration is the one that compiles."""
    return [(1, iterations), (iterations, 2 * iterations)]


def _advance(engine: SparseEngine, n: int, history: History) -> float:
    """Seconds per iteration, over so many."""
    seconds, left = 0.0, n
    while left:
        block = Block(current().bcast(min(left, 50)))
        seconds += measure.timed(engine.advance, block)[0]
        history.append(block)
        left -= block.n
    return seconds / n


def meetings(rounds: int, n_classes: int) -> dict[str, Any]:
    """Seconds of a meeting to which all come at once: a worst sample's path from everybody."""
    comm = current()
    told = np.zeros(3 + 4 * n_classes)
    heard = np.empty((comm.size, told.size))
    for _ in range(100):
        comm.meet(told, heard)
    seconds = []
    for _ in range(rounds):
        began = time.perf_counter()
        comm.meet(told, heard)
        seconds.append(time.perf_counter() - began)
    return {
        "ranks": comm.size,
        "mean": float(np.mean(seconds)),
        "median": float(np.median(seconds)),
    }


def warm_up(samples: int, n_hidden: int, epochs: int) -> dict[str, Any]:
    """Seconds of a warm-up on MNIST, one thread each, with the same batches in all."""
    data, comm = datasets.load_mnist(), current()
    X, y = _share(data.X_train[:samples], data.y_train[:samples], comm)
    stages: dict[str, list[float]] = {}

    def listen(progress: Any) -> None:
        stages.setdefault(progress.stage, []).append(progress.seconds)

    clf = LMMClassifier(
        n_hidden, slope=15.0, warmup_epochs=epochs, polish=None, n_jobs=1,
        random_state=0, callbacks=listen,
    ).fit(X, y)  # fmt: skip
    course = stages.get("warm-up", [0.0])
    # The first epoch compiles.
    per_epoch = (course[-1] - course[0]) / max(1, len(course) - 1)
    return {
        "ranks": comm.size, "epoch": per_epoch, "loss": float(clf.loss_curve_[-1]),
        "accuracy": float(clf.score(data.X_test[:2000], data.y_test[:2000])),
    }  # fmt: skip


def _share(X: NDArray, y: NDArray, comm: Communicator) -> tuple[NDArray, NDArray]:
    n = len(y)
    part = slice(comm.rank * n // comm.size, (comm.rank + 1) * n // comm.size)
    return X[part].copy(), y[part].copy()


def end_one(iterations: int) -> dict[str, Any]:
    """The last rank kills itself in the middle of a training; whoever started it counts."""
    comm, rng = current(), np.random.default_rng(0)
    X, y = rng.normal(size=(20_000, 20)), np.arange(20_000) % 5
    X, y = _share(X, y, comm)
    model = comm.bcast(paper.start(X, y, 50))
    engine = SparseEngine(model, TrainingProblem(X, y, MaxLoss(), paper.constant_steps(y)))
    for _ in range(iterations):
        engine.advance(Block(10))
    if comm.rank == comm.size - 1:
        print(json.dumps({"began": time.time()}), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    while True:
        engine.advance(Block(10))


def main() -> None:
    """The function that the first argument names, with the second's arguments."""
    name, options = sys.argv[1], json.loads(sys.argv[2])
    work: Any = {
        "iterations": iterations, "meetings": meetings, "warm_up": warm_up,
        "end_one": end_one,
    }[name]  # fmt: skip
    with use_mpi() if is_launched() else nullcontext():
        found = work(**options)
        if current().is_first:
            print(json.dumps(found))


if __name__ == "__main__":
    main()
