"""CPU time of the first calls after an installation, when no compiled kernel is cached."""

from __future__ import annotations

import os
import subprocess
import sys
from tempfile import TemporaryDirectory

import numpy as np

from experiments.harness import Result, Settings, Table

FULL_RUNS, QUICK_RUNS = 5, 1
IRIS = """from maxplus import LMMClassifier, SubgradientLMMClassifier
from sklearn.datasets import load_iris
X, y = load_iris(return_X_y=True)"""
FIT = "clf = LMMClassifier(random_state=0).fit(X, y)"
SPARSE = "SubgradientLMMClassifier(engine='sparse', max_iter=100, random_state=0).fit(X, y)"
# Statements before the measured statement, and the measured statement, of each case.
CASES = {
    "import of LMMClassifier": ("", "from maxplus import LMMClassifier"),
    "default LMMClassifier": (IRIS, FIT),
    "certified_radius and explain": (
        f"{IRIS}\n{FIT}",
        "clf.certified_radius(X); str(clf.explain(X[:1]))",
    ),
    "sparse SubgradientLMMClassifier": (IRIS, SPARSE),
}


def run(settings: Settings) -> Result:
    """Measure each case in new processes, each with an empty cache of kernels."""
    n_runs = settings.pick(FULL_RUNS, QUICK_RUNS)
    seconds = settings.runs(
        lambda name, _: _cpu_seconds(*CASES[name]), dict.fromkeys(CASES, n_runs), "runs"
    )
    rows = [
        (name, f"{min(found):.2f}", f"{np.median(found):.2f}", f"{max(found):.2f}")
        for name, found in seconds.items()
    ]
    return Result(
        "First use",
        f"CPU time on Iris with an empty kernel cache, in {n_runs} new processes for each row. "
        "The import includes that of Numba and scikit-learn, and other rows do not include the "
        "import. Later processes load the compiled kernels from the cache.",
        [Table("CPU seconds", ("call", "minimum", "median", "maximum"), rows)],
        {"seconds": seconds},
        scale=f"{n_runs} run",
    )


def _cpu_seconds(before: str, measured: str) -> float:
    """Return the CPU time of statements in a new process."""
    code = f"""import time
{before}
start = time.process_time()
{measured}
print(time.process_time() - start)"""
    with TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        command = [sys.executable, "-W", "ignore", "-c", code]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    return float(done.stdout)
