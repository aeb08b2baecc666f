"""Training of one model over several MPI ranks: equality with one process, and speed.

``mpiexec`` starts this module on every rank, with the name of a function and its arguments:

    mpiexec -n 2 python -m experiments.mpi iterations '{"iterations": 300, …}'

Rank 0 prints one line of JSON. Without a launcher there is one process.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numba
import numpy as np

from experiments import measure
from experiments.harness import Result, Settings, Table
from maxplus import datasets
from maxplus.distributed import Communicator, current, use_mpi
from maxplus.distributed.communicator import is_launched
from maxplus.estimators import LMMClassifier
from maxplus.plots._canvas import BLUE, GREY, VERMILION, new_figure, quiet_frame
from maxplus.training import History, MaxLoss, TrainingProblem
from maxplus.training.engines.sparse import SparseEngine
from maxplus.training.result import Block

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FULL = {"iterations": 300, "n_hidden": 500, "samples": None}
QUICK = {"iterations": 20, "n_hidden": 60, "samples": 2_000}
FULL_WARM_UP = {"samples": 30_000, "n_hidden": 200, "epochs": 4}
QUICK_WARM_UP = {"samples": 2_000, "n_hidden": 60, "epochs": 2}
RANKS, PHASES = (1, 2, 3, 4), ("polyak", "constant")
# Repetitions of iterations and of warm-ups, and the time limit of a run in seconds.
TURNS, WARM_UPS, LIMIT = 3, 5, 1_800.0

Values = dict[str, Any]


def run(settings: Settings) -> Result:
    """Measure each number of ranks in turn; report medians over repetitions."""
    sizes = QUICK if settings.quick else FULL
    for n_threads in (1, 2):
        # Compile kernels before anything is measured.
        over_ranks("iterations", 1, {**sizes, "iterations": 200, "threads": n_threads})
    *runs, threads = _in_turns(
        settings,
        "iterations",
        [*((ranks, {**sizes, "threads": 1}) for ranks in RANKS), (1, {**sizes, "threads": 2})],
        TURNS,
        PHASES,
    )
    warm_up = QUICK_WARM_UP if settings.quick else FULL_WARM_UP
    values = {
        "runs": runs,
        "threads": threads,
        "warm_up": _in_turns(
            settings, "warm_up", [(1, warm_up), (2, warm_up)], WARM_UPS, ("epoch",)
        ),
    }
    return describe(values, "a small part of MNIST" if settings.quick else "")


def _in_turns(
    settings: Settings,
    what: str,
    configurations: list[tuple[int, Mapping[str, Any]]],
    n_turns: int,
    seconds: tuple[str, ...],
) -> list[Values]:
    """Return the results of each configuration, with the medians of its seconds."""
    turns = []
    for turn in range(1 if settings.quick else n_turns):
        found = []
        for ranks, options in configurations:
            name = "-".join([f"{what} {turn}", str(ranks), *map(str, options.values())])
            make = partial(over_ranks, what, ranks, options)
            found.append(settings.cache.get_json(name, make))
        turns.append(found)
    return [
        found[0] | {name: median(one[name] for one in found) for name in seconds}
        for found in zip(*turns, strict=True)
    ]


def over_ranks(what: str, ranks: int, options: Mapping[str, Any]) -> Values:
    """Run a function of this module on a number of ranks and return its result."""
    command = [sys.executable, "-m", "experiments.mpi", what, json.dumps(dict(options))]
    done = subprocess.run(
        command if ranks == 1 else [*_launcher(ranks), *command],
        stdout=subprocess.PIPE,
        text=True,
        timeout=LIMIT,
        env=_environment(int(options.get("threads", 1))),
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{what} on {ranks} ranks failed; its own message is above")
    return json.loads(done.stdout.splitlines()[-1])


def _launcher(ranks: int) -> list[str]:
    """Return the command ``mpiexec``, preferably that of this environment."""
    own = Path(sys.executable).with_name("mpiexec")
    found = str(own) if own.exists() else shutil.which("mpiexec")
    if found is None:
        raise ImportError('mpiexec is not installed; pip install "maxplus[mpi]"')
    return [found, "-n", str(ranks)]


def _environment(threads: int) -> dict[str, str]:
    return measure.child_environment(
        NUMBA_NUM_THREADS=str(threads), OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1"
    )


def describe(values: Values, scale: str = "") -> Result:
    """Return the table of speeds and the figure."""
    runs, threads, warm = (values[name] for name in ("runs", "threads", "warm_up"))
    is_equal = len({found["digest"] for found in (*runs, threads)}) == 1
    rows = [
        (
            f"{found['ranks']} rank{'s' * (found['ranks'] > 1)}, {found['threads']} "
            f"thread{'s' * (found['threads'] > 1)}",
            *(f"{1e3 * found[phase]:.2f}" for phase in PHASES),
            *(f"{runs[0][phase] / found[phase]:.2f}" for phase in PHASES),
        )
        for found in (*runs, threads)
    ]
    columns = ("processes", "Polyak step, ms", "constant step, ms", "speed, Polyak", "constant")
    text = (
        "The same iterations on MNIST with 1, 2, 3 and 4 ranks, half of them Polyak steps, half "
        "constant steps; histories and weights are "
        f"{'bit-identical' if is_equal else 'not equal'}. An epoch of a warm-up is "
        f"{warm[0]['epoch'] / warm[1]['epoch']:.2f} times as fast on 2 ranks as on 1. Ranks beyond "
        "the number of cores share cores."
    )
    return Result(
        "More machines",
        text,
        [Table("Time of an iteration", columns, rows)],
        values,
        {"scaling": _draw(runs)},
        scale,
    )


def _draw(runs: list[Values]) -> Figure:
    figure = new_figure(7.2, 3.4)
    ax = figure.subplots()
    for colour, phase in zip((BLUE, VERMILION), PHASES, strict=True):
        milliseconds = [1e3 * found[phase] for found in runs]
        ax.plot(RANKS, milliseconds, "o-", color=colour, label=f"{phase.capitalize()} steps")
    ax.set_xticks(RANKS)
    ax.set_ylim(bottom=0.0)
    ax.set_xlabel("ranks", color=GREY)
    ax.set_ylabel("ms per iteration", color=GREY)
    ax.legend(frameon=False)
    quiet_frame(ax, "Iterations over several ranks")
    return figure


def iterations(iterations: int, n_hidden: int, samples: int | None, threads: int) -> Values:
    """Run Polyak steps and the same number of constant steps on MNIST, rows split over ranks."""
    numba.set_num_threads(threads)
    comm, data = current(), datasets.load_mnist()
    X, y = data.X_train[:samples], data.y_train[:samples]
    model = measure.initial_model(X, y, n_hidden)
    steps = measure.two_phases(y, iterations)
    part = _part(len(y), comm)
    problem = TrainingProblem(
        X[part].copy(), y[part].copy(), MaxLoss(), steps, measure.W0_UPDATE_INTERVAL
    )
    engine, history = SparseEngine(model, problem), History()
    measure.warm_up(engine)
    # The first iteration, which compiles, is not timed.
    seconds = [_advance(engine, n, history) for n in (iterations - 1, iterations)]
    digest = hashlib.sha256()
    for array in (*engine.model.weights_by_name().values(), *history.values()):
        digest.update(np.ascontiguousarray(array).data)
    return {
        "ranks": comm.size,
        "threads": threads,
        "samples": len(y),
        **dict(zip(PHASES, seconds, strict=True)),
        "digest": digest.hexdigest(),
        "best_loss": engine.best_loss,
    }


def _advance(engine: SparseEngine, n: int, history: History) -> float:
    """Return the mean seconds of n iterations."""
    seconds, left = 0.0, n
    while left:
        block = Block(min(left, 50))
        seconds += measure.timed(engine.advance, block)[0]
        history.append(block)
        left -= block.n
    return seconds / n


def warm_up(samples: int, n_hidden: int, epochs: int) -> Values:
    """Run a warm-up on MNIST with one thread per rank."""
    data, comm = datasets.load_mnist(), current()
    part = _part(samples, comm)
    course: list[float] = []
    clf = LMMClassifier(
        n_hidden,
        slope=15.0,
        warmup_epochs=epochs,
        polish=None,
        n_jobs=1,
        random_state=0,
        callbacks=lambda progress: course.append(progress.seconds),
    ).fit(data.X_train[:samples][part].copy(), data.y_train[:samples][part].copy())
    # The first epoch compiles.
    per_epoch = (course[-1] - course[0]) / max(1, len(course) - 1)
    accuracy = float(clf.score(data.X_test[:2000], data.y_test[:2000]))
    return {"ranks": comm.size, "epoch": per_epoch, "accuracy": accuracy}


def _part(n: int, comm: Communicator) -> slice:
    return slice(comm.rank * n // comm.size, (comm.rank + 1) * n // comm.size)


def main() -> None:
    """Call the function named by the first argument with the options in the second."""
    name, options = sys.argv[1], json.loads(sys.argv[2])
    work: Any = {"iterations": iterations, "warm_up": warm_up}[name]
    with use_mpi() if is_launched() else nullcontext():
        found = work(**options)
        if current().is_first:
            print(json.dumps(found))


if __name__ == "__main__":
    main()
