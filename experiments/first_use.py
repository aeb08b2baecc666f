"""The first use after an installation: processor time where no kernel has been compiled yet.

Each use runs in a process of its own, twice: with an empty folder for compiled kernels, and with
what the first run has left there. Iris, with the defaults unless said otherwise.
"""

from __future__ import annotations

import os
import subprocess
import sys
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from experiments.harness import Result, Settings, Table

IRIS = "from sklearn.datasets import load_iris; X, y = load_iris(return_X_y=True)"
DEFAULT = (
    f"from maxplus import LMMClassifier; {IRIS}; clf = LMMClassifier(random_state=0).fit(X, y)"
)
PAPER = f"from maxplus import SubgradientLMMClassifier; {IRIS}; "


def paper(options: str = "") -> str:
    """The paper's recipe, with some options."""
    return f"{PAPER}SubgradientLMMClassifier(40, random_state=0{options}).fit(X, y)"


class Use(NamedTuple):
    """Code that is measured, and code that runs before it in the same process."""

    name: str
    code: str
    before: str = ""


USES = (
    Use("import maxplus", "import maxplus"),
    Use("from maxplus import LMMClassifier", "from maxplus import LMMClassifier"),
    Use("default fit", DEFAULT),
    Use("paper's recipe, engine auto", paper()),
    Use("engine sparse", paper(", engine='sparse'")),
    Use("engine tree", paper(", engine='tree', max_iter=100")),
    Use("engine dense", paper(", engine='dense', max_iter=100")),
    Use("engine sgd", paper(", objective='mean'")),
    Use("certify, after a default fit", "clf.certified_accuracy(X, y, 0.1)", DEFAULT),
    Use("explain, after a default fit", "clf.explain(X[:3])", DEFAULT),
    Use("default fit in float32, after one in float64", "clf.fit(X.astype('f4'), y)", DEFAULT),
)
QUICK = USES[:3]
# The clock of the process counts from its start: the interpreter's own beginning included.
PROGRAM = """
import time
{before}
began = time.process_time() if {before!r} else 0.0
{code}
print(time.process_time() - began)
"""


def run(settings: Settings) -> Result:
    """Measure every use, from an empty cache and again."""
    seconds = {}
    for use in settings.track(QUICK if settings.quick else USES, "first uses"):
        with TemporaryDirectory() as cache:
            seconds[use.name] = {"first": measure(use, cache), "later": measure(use, cache)}
    return describe(seconds, f"{len(QUICK)} uses" if settings.quick else "")


def measure(use: Use, cache: str) -> float:
    """Processor seconds of one use in a new process, all threads together."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(**use._asdict())],
        text=True,
        check=True,
        stdout=subprocess.PIPE,
        env={**os.environ, "NUMBA_CACHE_DIR": cache},
    )
    return float(done.stdout)


def describe(seconds: dict[str, dict[str, float]], scale: str = "") -> Result:
    """Return a line for each use."""
    text = (
        "Kernels are compiled when they are first needed, and kept. Processor seconds on Iris, of "
        "the whole process (or of what is done after a fit), with no kernel compiled yet, and "
        "again with those that the first run has left."
    )
    rows: list[tuple[Any, ...]] = [
        (name, f"{s['first']:.1f}", f"{s['later']:.1f}") for name, s in seconds.items()
    ]
    table = Table("Processor seconds", ("use", "first", "later"), rows)
    return Result("First use", text, [table], dict(seconds), scale=scale)
