"""Several processes that train one model: equal to one, and what they cost and gain.

Every figure is a part that is run by itself and kept (``python -m experiments mpi --resume``).
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from experiments.finding import Finding, Settings, Table
from experiments.process import child_environment, in_a_process
from maxplus.plots import plot_scaling
from maxplus.training.memory import human_bytes

FULL = {"iterations": 300, "n_hidden": 500, "samples": None}
QUICK = {"iterations": 20, "n_hidden": 60, "samples": 2_000}
RANKS = (1, 2, 3, 4)
FULL_TABLE, QUICK_TABLE = (2_000_000, 100), (4_000, 10)
LIMIT = 1_800.0
# How often iterations and warm-ups are timed.
TURNS, WARM_UPS = 3, 5
MORE_MEMORY = 100_000_000
# Rows and cores of the prediction.
MANY_ROWS, MANY_CORES = 100_000_000, 1_000

Values = dict[str, Any]


def run(settings: Settings) -> Finding:
    """Run all parts, those that were kept excepted."""
    sizes = QUICK if settings.quick else FULL
    for threads in (1, 2):
        # Kernels that are compiled here, some of them for many samples only, are not compiled
        # while something is measured.
        over_ranks("iterations", 1, {**sizes, "iterations": 200, "threads": threads})
    *runs, alone, half = _iterations(settings, sizes)
    values: Values = {
        "runs": runs,
        "threads": alone,
        "half": half,
        "meetings": [
            _part(settings, "meetings", r, {"rounds": 3_000, "n_classes": 10}) for r in RANKS[1:]
        ],
        "warm_up": _warm_ups(settings),
        "killed": _kept(settings, "killed", _seconds_after_a_kill),
        "table": _kept(settings, "table", lambda: _table(settings.quick)),
    }  # fmt: skip
    values["model"] = _model(values)
    return describe(values, "a small part of MNIST" if settings.quick else "")


def _iterations(settings: Settings, sizes: Mapping[str, Any]) -> list[Values]:
    """Of each number of ranks, of two threads and of half the samples; all take turns.

    Of the seconds the medians count; the rest is the same in every turn.
    """
    half = (sizes["samples"] or 60_000) // 2
    contenders = [
        *((ranks, {**sizes, "threads": 1}) for ranks in RANKS),
        (1, {**sizes, "threads": 2}),
        (1, {**sizes, "threads": 1, "samples": half}),
    ]
    turns = [
        [_part(settings, f"iterations {k}", ranks, options) for ranks, options in contenders]
        for k in range(1 if settings.quick else TURNS)
    ]
    return [
        found[0] | {phase: median(one[phase] for one in found) for phase in ("polyak", "constant")}
        for found in zip(*turns, strict=True)
    ]


def _warm_ups(settings: Settings) -> list[Values]:
    """Warm-ups of one rank and of two, in turns; of each the one with the median epoch."""
    sizes = {"samples": 2_000 if settings.quick else 30_000,
             "n_hidden": 60 if settings.quick else 200,
             "epochs": 2 if settings.quick else 4}  # fmt: skip
    rounds = 1 if settings.quick else WARM_UPS
    turns = [[_part(settings, f"warm_up {k}", r, sizes) for r in (1, 2)] for k in range(rounds)]
    return [sorted(runs, key=_epoch)[rounds // 2] for runs in zip(*turns, strict=True)]


def _epoch(found: Values) -> float:
    return found["epoch"]


def _part(settings: Settings, what: str, ranks: int, options: Mapping[str, Any]) -> Values:
    name = "-".join([what, str(ranks), *(str(value) for value in options.values())])
    return _kept(settings, name, lambda: over_ranks(what.partition(" ")[0], ranks, options))


def _kept(settings: Settings, name: str, make: Any) -> Values:
    """A part that is kept as JSON."""
    kept = settings.parts.get(name, lambda: {"json": np.array(json.dumps(make()))})
    return json.loads(str(kept["json"]))


def over_ranks(what: str, ranks: int, options: Mapping[str, Any]) -> Values:
    """What a function of `experiments.over_ranks` tells, on so many ranks."""
    done = subprocess.run(
        _command(what, ranks, options), stdout=subprocess.PIPE, text=True, timeout=LIMIT,
        env=_environment(int(options.get("threads", 1))), check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{what} on {ranks} ranks failed; its own words are above")
    return json.loads(done.stdout.splitlines()[-1])


def _command(what: str, ranks: int, options: Mapping[str, Any]) -> list[str]:
    own = [sys.executable, "-m", "experiments.over_ranks", what, json.dumps(dict(options))]
    return own if ranks == 1 else [*_launcher(ranks), *own]


def _launcher(ranks: int) -> list[str]:
    """``mpiexec``, that of this environment if it has one."""
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise ImportError('mpiexec is not installed; pip install "maxplus[mpi]"')
    return [found, "-n", str(ranks)]


def _environment(threads: int) -> dict[str, str]:
    return child_environment(
        NUMBA_NUM_THREADS=str(threads), OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1"
    )


def _seconds_after_a_kill() -> Values:
    """Measure the time from the moment when one of four ranks is killed until all have ended."""
    done = subprocess.run(
        _command("end_one", 4, {"iterations": 20}), capture_output=True, text=True,
        timeout=LIMIT, env=_environment(1), check=False,
    )  # fmt: skip
    ended = time.time()
    began = json.loads(done.stdout.splitlines()[0])["began"]
    return {"seconds": ended - began, "code": done.returncode}


def _table(quick: bool) -> Values:
    """A large table from Parquet, end to end, over four ranks."""
    import pyarrow
    from pyarrow import parquet

    rows, features = QUICK_TABLE if quick else FULL_TABLE
    at_once = 100_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.parquet"
        rng, writer = np.random.default_rng(0), None
        centres = rng.normal(size=(10, features))
        for lo in range(0, rows, at_once):
            y = rng.integers(0, 10, min(at_once, rows - lo))
            X = centres[y] + rng.normal(size=(len(y), features))
            columns = {f"f{p}": X[:, p].astype(np.float32) for p in range(features)}
            part = pyarrow.table({**columns, "class": y})
            writer = writer or parquet.ParquetWriter(path, part.schema)
            writer.write_table(part)
        assert writer is not None
        writer.close()
        found = in_a_process(train_table, {"data": str(path), "ranks": 4}, _environment(1))
    return {**found, "rows": rows, "features": features}


def train_table(data: str, ranks: int) -> Values:
    """Train by the command line; seconds, and the memory of the largest rank."""
    command = Path(sys.executable).with_name("maxplus")
    options = ["--paper", "-H", "50", "-n", "200", "--validate", "none", "-o", f"{data}.maxplus"]
    began = time.perf_counter()
    subprocess.run(
        [*_launcher(ranks), str(command), "train", data, *options], check=True, timeout=LIMIT,
        stdout=sys.stderr,
    )  # fmt: skip
    seconds = time.perf_counter() - began
    largest = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return {"ranks": ranks, "seconds": seconds, "largest": largest}


def _model(values: Values) -> Values:
    """Search per sample and the rest of an iteration, from two sizes; then all numbers of ranks.

    Ranks that share cores take turns: so many at a time search as there are cores, and everybody
    waits for the last turn, which may be of fewer.
    """
    whole, half, cores = values["runs"][0], values["half"], os.cpu_count() or 1
    meeting = {1: 0.0, **{found["ranks"]: found["mean"] for found in values["meetings"]}}
    model: Values = {"cores": cores, "predicted": {}, "many": {}}
    far = max(meeting.values()) / np.log2(max(meeting))
    for phase in ("polyak", "constant"):
        # Small parts of the data take no measurable time, and noise is no gain: neither the
        # search nor the rest takes less than none.
        more = max(0.0, whole[phase] - half[phase])
        search = min(more / (whole["samples"] - half["samples"]), whole[phase] / whole["samples"])
        rest = whole[phase] - search * whole["samples"]
        model[phase] = {"search": search, "rest": rest}
        model["predicted"][phase] = [
            search * whole["samples"] * -(-r // cores) / r + rest + meeting[r] for r in RANKS
        ]
        model["many"][phase] = (
            search * MANY_ROWS / MANY_CORES + rest + far * float(np.log2(MANY_CORES))
        )
    return model


def describe(values: Values, scale: str = "") -> Finding:
    """The figures, what was asked for beside them, and the picture."""
    runs, model = values["runs"], values["model"]
    two, alone = runs[1], values["threads"]
    equal = {found["digest"] for found in (*runs, alone)}
    worst = max(
        grown / (1.15 * share + MORE_MEMORY)
        for found in runs for share, grown in zip(found["share"], found["grown"], strict=True)
    )  # fmt: skip
    meetings = {found["ranks"]: found for found in values["meetings"]}
    table = values["table"]
    warm = values["warm_up"]
    off = {
        phase: max(
            abs(predicted / found[phase] - 1.0)
            for found, predicted in zip(runs, model["predicted"][phase], strict=True)
        )
        for phase in ("polyak", "constant")
    }
    rows = [
        ("weights and history of 1, 2, 3 and 4 ranks", "equal" if len(equal) == 1 else "DIFFERENT",
         "every bit"),
        ("2 ranks against 2 threads, Polyak steps", f"{alone['polyak'] / two['polyak']:.2f} ×",
         "≥ 0.8"),
        ("2 ranks against 2 threads, constant steps",
         f"{alone['constant'] / two['constant']:.2f} ×", "≥ 0.8"),
        ("a meeting of 4 ranks, mean (median)",
         f"{1e6 * meetings[4]['mean']:.0f} ({1e6 * meetings[4]['median']:.0f}) µs", "≤ 100 µs"),
        ("a meeting of 2 ranks, mean (median)",
         f"{1e6 * meetings[2]['mean']:.0f} ({1e6 * meetings[2]['median']:.0f}) µs", ""),
        ("memory of a rank, of 1.15 × its share + 100 MB", f"{worst:.0%}", "≤ 100 %"),
        ("warm-up, 2 ranks against 1", f"{warm[0]['epoch'] / warm[1]['epoch']:.2f} ×", "≥ 1.6"),
        (f"{table['rows']:,} × {table['features']} from Parquet over 4 ranks",
         f"{table['seconds']:.0f} s, {human_bytes(table['ranks'] * table['largest'])} in all",
         "runs in 20 GB"),
        ("after a rank was killed, all end within",
         f"{values['killed']['seconds']:.1f} s", "5 s"),
        ("scaling model, largest error (Polyak, constant)",
         f"{off['polyak']:.0%}, {off['constant']:.0%}", "25 %"),
    ]  # fmt: skip
    many = model["many"]
    text = (
        "One process and 2, 3 and 4 ranks take the same iterations on MNIST, half of them Polyak "
        "steps, the others constant ones. "
        f"A search costs {1e9 * model['polyak']['search']:.0f} ns a sample with Polyak steps and "
        f"{1e9 * model['constant']['search']:.0f} ns with constant ones. For {MANY_ROWS:,} rows on "
        f"{MANY_CORES:,} cores the model says {1e3 * many['polyak']:.1f} ms and "
        f"{1e3 * many['constant']:.1f} ms an iteration, if rows are spread evenly, a search costs "
        "as much a sample there, and a meeting grows with the logarithm of the ranks from what it "
        f"takes here. This machine has {model['cores']} cores, so that 3 and 4 ranks take turns."
    )
    figure = plot_scaling(
        RANKS, {phase: [found[phase] for found in runs] for phase in ("polyak", "constant")},
        model["predicted"],
    )  # fmt: skip
    goals = Table("Figures", ("what", "measured", "asked for"), rows)
    return Finding("More machines", text, [goals], values, {"scaling": figure}, scale=scale)
