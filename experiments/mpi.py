"""Equality and speed of training on several MPI ranks.

This module is started on every rank with the name of a function and its arguments:

    mpiexec -n 2 python -m experiments.mpi iterations '{"iterations": 300, …}'

Rank 0 prints the result as one line of JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numba
import numpy as np

from experiments import measure
from experiments.harness import Figure, Result, Settings, Table, axes
from maxplus import datasets
from maxplus.distributed import Communicator, current, use_mpi
from maxplus.distributed.communicator import is_launched
from maxplus.estimators import LMMClassifier
from maxplus.plots._style import BLUE, VERMILION
from maxplus.training import History, MaxLoss, TrainingProblem
from maxplus.training.engines.sparse import SparseEngine
from maxplus.training.result import Block

FULL: dict[str, Any] = {"iterations": 300, "n_hidden": 500, "samples": None}
QUICK: dict[str, Any] = {"iterations": 20, "n_hidden": 60, "samples": 2_000}
FULL_WARM_UP = {"samples": 30_000, "n_hidden": 200, "epochs": 4}
QUICK_WARM_UP = {"samples": 2_000, "n_hidden": 60, "epochs": 2}
RANKS, PHASES = (1, 2, 3, 4), ("polyak", "constant")
# Numbers of repetitions, and time limit of a run in seconds.
N_REPEATS, N_WARM_UP_REPEATS, TIMEOUT = 3, 5, 1_800.0

Values = dict[str, Any]


def run(settings: Settings) -> Result:
    """Measure each number of ranks repeatedly and report medians."""
    sizes: Values = settings.pick(FULL, QUICK)
    for n_threads in (1, 2):
        # Compile kernels before the measurement.
        over_ranks("iterations", 1, {**sizes, "iterations": 200, "threads": n_threads})
    cases = [*((ranks, {**sizes, "threads": 1}) for ranks in RANKS), (1, {**sizes, "threads": 2})]
    *runs, threads = _medians(settings, "iterations", cases, N_REPEATS, PHASES)
    sizes = settings.pick(FULL_WARM_UP, QUICK_WARM_UP)
    cases = [(1, sizes), (2, sizes)]
    warm_ups = _medians(settings, "warm_up", cases, N_WARM_UP_REPEATS, ("epoch",))
    is_equal = len({result["digest"] for result in (*runs, threads)}) == 1
    text = (
        "The same iterations on MNIST with 1, 2, 3 and 4 ranks, half of them Polyak steps, half "
        "constant steps; histories and weights are "
        f"{'bit-identical' if is_equal else 'not equal'}. An epoch of a warm-up is "
        f"{warm_ups[0]['epoch'] / warm_ups[1]['epoch']:.2f} times as fast on 2 ranks as on 1. "
        "With more ranks than cores, ranks share cores."
    )
    rows = [
        (
            f"{result['ranks']} rank{'s' * (result['ranks'] > 1)}, {result['threads']} "
            f"thread{'s' * (result['threads'] > 1)}",
            *(f"{1e3 * result[phase]:.2f}" for phase in PHASES),
            *(f"{runs[0][phase] / result[phase]:.2f}" for phase in PHASES),
        )
        for result in (*runs, threads)
    ]
    columns = ("processes", "Polyak step, ms", "constant step, ms", "speed, Polyak", "constant")
    return Result(
        "Distributed training",
        text,
        [Table("Time of an iteration", columns, rows)],
        {"runs": runs, "threads": threads, "warm_up": warm_ups},
        {"scaling": _draw(runs)},
        "a small part of MNIST",
    )


def _medians(
    settings: Settings,
    function: str,
    cases: Sequence[tuple[int, Values]],
    n_repeats: int,
    seconds: tuple[str, ...],
) -> list[Values]:
    """Return the results of each number of ranks and options, with median times."""
    repeats = []
    for k in range(settings.pick(n_repeats, 1)):
        results = []
        for ranks, options in cases:
            name = "-".join([f"{function} {k}", str(ranks), *map(str, options.values())])
            results.append(settings.cache.get(name, partial(over_ranks, function, ranks, options)))
        repeats.append(results)
    return [
        results[0] | {name: median(result[name] for result in results) for name in seconds}
        for results in zip(*repeats, strict=True)
    ]


def over_ranks(function: str, ranks: int, options: Values) -> Values:
    """Run a function of this module on several ranks and return its result."""
    command = [sys.executable, "-m", "experiments.mpi", function, json.dumps(options)]
    if ranks > 1:
        # Prefer the mpiexec of the current environment.
        local = Path(sys.executable).with_name("mpiexec")
        mpiexec = str(local) if local.exists() else shutil.which("mpiexec")
        if mpiexec is None:
            raise ImportError('mpiexec is not installed; pip install "maxplus[mpi]"')
        command = [mpiexec, "-n", str(ranks), *command]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "NUMBA_NUM_THREADS": str(options.get("threads", 1)),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    process = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT, env=environment, check=False
    )
    if process.returncode:
        raise RuntimeError(f"{function} on {ranks} ranks failed; see its error message above")
    return json.loads(process.stdout.splitlines()[-1])


def _draw(runs: list[Values]) -> Figure:
    figure, ax = axes(
        7.2, 3.4, "Iterations over several ranks", xlabel="ranks", ylabel="ms per iteration"
    )
    for colour, phase in zip((BLUE, VERMILION), PHASES, strict=True):
        milliseconds = [1e3 * result[phase] for result in runs]
        ax.plot(RANKS, milliseconds, "o-", color=colour, label=f"{phase.capitalize()} steps")
    ax.set_xticks(RANKS)
    ax.set_ylim(bottom=0.0)
    ax.legend(frameon=False)
    return figure


def iterations(iterations: int, n_hidden: int, samples: int | None, threads: int) -> Values:
    """Run Polyak steps and the same number of constant steps on MNIST, with distributed rows."""
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
    # The first iteration compiles or loads the kernels and is not timed.
    engine.advance(Block(1))
    seconds = [
        measure.seconds_per_iteration(engine, n, history) for n in (iterations - 1, iterations)
    ]
    digest = hashlib.sha256()
    for array in (*engine.model.weights_by_name().values(), *history.values()):
        digest.update(np.ascontiguousarray(array).data)
    return {
        "ranks": comm.size,
        "threads": threads,
        **dict(zip(PHASES, seconds, strict=True)),
        "digest": digest.hexdigest(),
    }


def warm_up(samples: int, n_hidden: int, epochs: int) -> Values:
    """Run a warm-up on MNIST with one thread per rank."""
    data, comm = datasets.load_mnist(), current()
    part = _part(samples, comm)
    times: list[float] = []
    LMMClassifier(
        n_hidden,
        slope=15.0,
        warmup_epochs=epochs,
        polish=None,
        n_jobs=1,
        random_state=0,
        callbacks=lambda progress: times.append(progress.seconds),
    ).fit(data.X_train[:samples][part].copy(), data.y_train[:samples][part].copy())
    # The first epoch includes compilation.
    per_epoch = (times[-1] - times[0]) / max(1, len(times) - 1)
    return {"ranks": comm.size, "epoch": per_epoch}


def _part(n: int, comm: Communicator) -> slice:
    return slice(comm.rank * n // comm.size, (comm.rank + 1) * n // comm.size)


def main() -> None:
    """Call the function given by the first argument with the JSON options of the second."""
    name, options = sys.argv[1], json.loads(sys.argv[2])
    function: Any = {"iterations": iterations, "warm_up": warm_up}[name]
    with use_mpi() if is_launched() else nullcontext():
        result = function(**options)
        if current().is_root:
            print(json.dumps(result))


if __name__ == "__main__":
    main()
