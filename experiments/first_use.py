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

from experiments.finding import Finding, Settings, Table

IRIS = "from sklearn.datasets import load_iris; X, y = load_iris(return_X_y=True)"
DEFAULT = (
    f"from maxplus import LMMClassifier; {IRIS}; clf = LMMClassifier(random_state=0).fit(X, y)"
)
PAPER = f"from maxplus import SubgradientLMMClassifier; {IRIS}; "


def paper(options: str = "") -> str:
    """The paper's recipe, with some options."""
    return f"{PAPER}SubgradientLMMClassifier(40, random_state=0{options}).fit(X, y)"


class Use(NamedTuple):
    """What a user does: what counts, what was done before, and the seconds asked for."""

    name: str
    code: str
    before: str = ""
    asked: float | None = None


USES = (
    Use("import maxplus", "import maxplus", asked=0.8),
    Use("from maxplus import LMMClassifier", "from maxplus import LMMClassifier"),
    Use("default fit", DEFAULT, asked=5.0),
    Use("paper's recipe, engine auto", paper(), asked=15.0),
    Use("engine sparse", paper(", engine='sparse'"), asked=25.0),
    Use("engine tree", paper(", engine='tree', max_iter=100")),
    Use("engine dense", paper(", engine='dense', max_iter=100")),
    Use("engine sgd", paper(", objective='mean'")),
    Use("certify, after a default fit", "clf.certified_accuracy(X, y, 0.1)", DEFAULT, 2.0),
    Use("explain, after a default fit", "clf.explain(X[:3])", DEFAULT, 3.0),
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


def run(settings: Settings) -> Finding:
    """Measure every use, from an empty cache and again."""
    seconds = {}
    for use in settings.track(QUICK if settings.quick else USES, "first uses"):
        with TemporaryDirectory() as cache:
            seconds[use.name] = {"first": measure(use, cache), "later": measure(use, cache)}
    return describe(seconds, f"{len(QUICK)} uses" if settings.quick else "")


def measure(use: Use, cache: str) -> float:
    """Processor seconds of one use in a new process, all threads together."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(**use._asdict())], text=True, check=True,
        stdout=subprocess.PIPE, env={**os.environ, "NUMBA_CACHE_DIR": cache},
    )  # fmt: skip
    return float(done.stdout)


def describe(seconds: dict[str, dict[str, float]], scale: str = "") -> Finding:
    """A line for each use, with what was asked for beside it."""
    asked = {use.name: use.asked for use in USES}
    goals = {name: goal for name in seconds if (goal := asked[name]) is not None}
    within = [seconds[name]["first"] <= goal for name, goal in goals.items()]
    text = (
        "Kernels are compiled when they are first needed, and kept. Processor seconds on Iris, of "
        "the whole process (or of what is done after a fit), with no kernel compiled yet, and "
        f"again with those that the first run has left: {sum(within)} of {len(within)} within "
        "what was asked for."
    )
    rows: list[tuple[Any, ...]] = [
        (name, f"{s['first']:.1f}", f"{s['later']:.1f}", _number(asked[name]))
        for name, s in seconds.items()
    ]
    table = Table("Processor seconds", ("use", "first", "later", "asked for"), rows)
    return Finding("First use", text, [table], dict(seconds), scale=scale)


def _number(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds:g}"
