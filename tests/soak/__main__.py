"""Run trials until the time limit; print counts and the seed of the first failure.

PYTHONPATH=tests python -m soak --seconds 3600 --out results/soak.json
PYTHONPATH=tests python -m soak --only engines --seed 1234     # one trial again
"""

import argparse
import json
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

from experiments.measure import machine_facts
from maxplus._files import write_whole
from soak.attacks import certificates, flips
from soak.engines import engines, sgd
from soak.files import checkpoints, models, tables
from soak.processes import interrupts, killed_savings, killed_trainings
from soak.recipes import recipes

# Each takes a generator and a folder of its own, and gives counts of what it has looked at.
TRIALS = {
    trial.__name__: trial
    for trial in (
        engines,
        sgd,
        recipes,
        certificates,
        flips,
        models,
        checkpoints,
        tables,
        killed_trainings,
        killed_savings,
        interrupts,
    )
}


def run(name, seed):
    """Return the counts of one trial; any exception is a failure."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TRIALS[name](np.random.default_rng(seed), Path(folder))


def soak(names, seconds, first_seed):
    """Return counts per trial and all failures within a time limit."""
    counts = {name: Counter() for name in names}
    failures, seed, until = [], first_seed, time.monotonic() + seconds
    while time.monotonic() < until:
        for name in names:
            try:
                counts[name].update(run(name, seed))
            except Exception as error:
                what = f"{type(error).__name__}: {error}".splitlines()[0][:300]
                failures.append({"trial": name, "seed": seed, "error": what})
                print(f"FAILED {name}, seed {seed}: {what}", flush=True)
            counts[name]["trials"] += 1
            seed += 1
            if time.monotonic() >= until:
                break
    return counts, failures


def main():
    """Run the command line; exit code 1 after any failure."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--out", type=Path, help="where to write the counts")
    parser.add_argument("--only", choices=TRIALS, help="repeat one trial, with all of its error")
    parser.add_argument("--seed", type=int, help="of the first trial; those after it count on")
    calls = parser.parse_args()
    if calls.only:
        print(dict(run(calls.only, calls.seed)))
        return 0
    first_seed = time.time_ns() // 10**6 % 2**31 if calls.seed is None else calls.seed
    began = time.monotonic()
    counts, failures = soak(list(TRIALS), calls.seconds, first_seed)
    record = {
        "seconds": round(time.monotonic() - began),
        "first_seed": first_seed,
        "counts": {name: dict(sorted(found.items())) for name, found in counts.items()},
        "failures": failures,
        "machine": machine_facts(),
    }
    for name, found in record["counts"].items():
        print(f"{name}: " + ", ".join(f"{n:,} {what}" for what, n in found.items()))
    print(f"{len(failures)} failures" + (f"; the first: {failures[0]}" if failures else ""))
    if calls.out:
        calls.out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(calls.out, (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode())
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
