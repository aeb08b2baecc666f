"""Tables larger than memory: `predict` and `certify` beside what they cannot do without.

A table of patients with words and holes is written to a CSV file, a model trained on its like.
Then the file is read by the commands, and by a process that only reads it and takes the
forward pass, in turns; medians count. What everybody needs for a table of a thousand rows, most
of it imports, is taken away from all times: it would make them look alike. Processor time is
told beside that of the clock, because other programs hardly change it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.finding import Finding, Settings, Table
from experiments.process import child_environment, in_a_process
from maxplus.io import load
from maxplus.tables import stream_dataset
from maxplus.training.memory import human_bytes

FULL_ROWS, FULL_ROUNDS = 10_000_000, 3
QUICK_ROWS, QUICK_ROUNDS = 20_000, 1
FEW_ROWS, TRAINING_ROWS, ROWS_AT_ONCE = 1_000, 3_000, 500_000
GOAL_RATIO, GOAL_BYTES = 1.3, 1_000_000_000
EPS = "0.1"
BASE = "reading and a forward pass"
COMMAND = "from maxplus.cli import main; main()"
BASELINE = "import sys; from experiments.streams import score; score(*sys.argv[1:])"


class Taken(NamedTuple):
    """Seconds by the clock and of all processors, and the most bytes at a time."""

    clock: float
    processor: float
    peak: int


def run(settings: Settings) -> Finding:
    """Make the tables and the model in a folder that is gone afterwards, and take turns."""
    rows = QUICK_ROWS if settings.quick else FULL_ROWS
    rounds = QUICK_ROUNDS if settings.quick else FULL_ROUNDS
    with TemporaryDirectory() as folder:
        tables = {n: str(Path(folder, f"{n}.csv")) for n in (TRAINING_ROWS, FEW_ROWS, rows)}
        for seed, (n, path) in enumerate(tables.items()):
            in_a_process(write_table, {"path": path, "rows": n, "seed": seed})
        model = str(Path(folder, "model.maxplus"))
        options = ("-H", "9", "--epochs", "2") if settings.quick else ()
        _timed(COMMAND, "train", tables[TRAINING_ROWS], "-o", model, "--validate", "none", *options)
        out = str(Path(folder, "predictions.csv"))
        contenders: dict[str, Callable[[str], Taken]] = {
            BASE: lambda data: _timed(BASELINE, model, data),
            "predict": lambda data: _timed(COMMAND, "predict", model, data, "-o", out),
            f"certify --eps {EPS}": lambda data: _timed(
                COMMAND, "certify", model, data, "--eps", EPS
            ),
        }
        for begin in contenders.values():
            begin(tables[FEW_ROWS])  # compiles
        runs: dict[str, list[Taken]] = {name: [] for name in contenders}
        for _ in settings.track(range(rounds), "rounds"):
            for name, begin in contenders.items():
                few, whole = begin(tables[FEW_ROWS]), begin(tables[rows])
                runs[name].append(
                    Taken(whole.clock - few.clock, whole.processor - few.processor, whole.peak)
                )
        size = Path(tables[rows]).stat().st_size
    return describe(runs, rows, size, f"{rows:,} rows" if settings.quick else "")


def describe(runs: dict[str, list[Taken]], rows: int, size: int, scale: str = "") -> Finding:
    """Seconds beyond those for a small table, and the most memory of each."""
    clock = {name: median(one.clock for one in many) for name, many in runs.items()}
    processor = {name: median(one.processor for one in many) for name, many in runs.items()}
    peaks = {name: max(one.peak for one in many) for name, many in runs.items()}
    ratios = {
        what: {name: seconds[name] / seconds[BASE] for name in runs}
        for what, seconds in (("clock", clock), ("processor", processor))
    }
    lines = [
        (
            name, f"{clock[name]:.2f}", f"{ratios['clock'][name]:.2f}", f"{processor[name]:.2f}",
            f"{ratios['processor'][name]:.2f}", human_bytes(peaks[name]),
        )
        for name in runs
    ]  # fmt: skip
    columns = ("what", "s", "ratio", "s of processors", "ratio", "peak memory")
    verdicts = ", ".join(
        f"`{name}` takes {ratios['clock'][name]:.2f} times as long, "
        f"{ratios['processor'][name]:.2f} in processor time"
        for name in runs
        if name != BASE
    )
    within = "within" if max(peaks.values()) <= GOAL_BYTES else "in more than"
    text = (
        f"A CSV file of {rows:,} rows and {human_bytes(size)}, with words and holes. Beside "
        f"{BASE}, {verdicts} (asked: {GOAL_RATIO:g}), {within} the "
        f"{human_bytes(GOAL_BYTES)} asked for. Seconds are those beyond what a table of "
        f"{FEW_ROWS:,} rows takes, medians of {len(runs[BASE])}."
    )
    return Finding(
        "Tables larger than memory",
        text,
        [Table(f"{rows:,} rows", columns, lines)],
        {
            "rows": rows,
            "bytes": size,
            "ratios": ratios,
            "peaks": peaks,
            "runs": {name: [one._asdict() for one in many] for name, many in runs.items()},
        },
        scale=scale,
    )


def write_table(path: str, rows: int, seed: int) -> None:
    """Patients, nine columns, of whom some have holes; a part after the other."""
    from pyarrow.csv import CSVWriter

    rng = np.random.default_rng(seed)
    writer = None
    for start in range(0, rows, ROWS_AT_ONCE):
        table = patients(min(ROWS_AT_ONCE, rows - start), rng)
        writer = writer or CSVWriter(path, table.schema)
        writer.write(table)
    if writer is not None:
        writer.close()


def patients(n: int, rng: np.random.Generator) -> Any:
    """So many rows as Arrow's table; the last column is what is to be predicted."""
    import pyarrow

    age, smoker = rng.integers(20, 90, n), rng.integers(0, 2, n)
    dose, pressure = rng.gamma(2.0, 1.5, n).round(2), rng.normal(130.0, 18.0, n).round(1)
    ward = np.array(["north", "south", "west"])[rng.integers(0, 3, n)]
    risk = (age - 55) / 15 + 0.4 * dose + smoker + (pressure - 130) / 20 - (ward == "north")
    ill = risk + rng.normal(0.0, 0.8, n) > 1.5

    def with_holes(values: NDArray) -> Any:
        return pyarrow.array(values, mask=rng.random(n) < 0.02)

    return pyarrow.table({
        "age": with_holes(age), "dose": dose, "pressure": with_holes(pressure),
        "cholesterol": rng.integers(120, 330, n), "smoker": smoker, "ward": with_holes(ward),
        "mass": rng.normal(26.0, 4.0, n).round(1), "pulse": rng.integers(50, 120, n),
        "class": np.where(ill, "ill", "well"),
    })  # fmt: skip


def score(model: str, data: str) -> None:
    """What nobody can do without: the rows as the model takes them, and their scores."""
    estimator = load(model)
    for samples in stream_dataset(data, estimator.encoder_):
        estimator.model_.scores(samples.X)


def _timed(code: str, *arguments: str) -> Taken:
    """What a new Python takes that runs ``code``; what it prints is dropped."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.DEVNULL,
        env=child_environment(),
    )
    # Of this child alone; a little too much where this process is the larger one.
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(arguments)} failed; its own words are above")
    unit = 1 if sys.platform == "darwin" else 1024
    clock = time.perf_counter() - began
    return Taken(clock, usage.ru_utime + usage.ru_stime, unit * usage.ru_maxrss)
