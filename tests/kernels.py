"""Compile the kernels that most tests use, in two processes, before the tests start.

The kernels are cached in the folder of the environment variable NUMBA_CACHE_DIR.
"""

import subprocess
import sys

COMPILE = """
import warnings
from maxplus.cli.compile import compile_part
warnings.simplefilter("ignore")
for name in {!r}:
    compile_part(name)
"""
# The audit of all bounds, and the regrouping of samples.
AUDITED = """
import numpy as np
from maxplus.models.initialization import prototype_lmm
from maxplus.training import MaxLoss, TrainingProblem, polyak
from maxplus.training.engines import SparseEngine
from maxplus.training.result import Block
rng = np.random.default_rng(0)
X, y = rng.normal(size=(60, 4)), np.arange(60) % 3
model = prototype_lmm(X[:6], y[:6], 3, 2.0, 2.0)
engine = SparseEngine(model, TrainingProblem(X, y, MaxLoss(), polyak()), audit=True)
engine.advance(Block(3))
engine.regroup()
"""
# Tests of checkpoints limit the size of files, which prevents Numba from caching kernels.
MAX_PLUS = """
from maxplus import MaxPlusClassifier
MaxPlusClassifier(max_iter=2).fit(X, y)
"""
# Two parts of about the same duration.
PARTS = (
    COMPILE.format(("subgradient", "engines", "products")),
    COMPILE.format(("default", "regression")) + AUDITED + MAX_PLUS,
)


def main() -> None:
    """Compile both parts at the same time."""
    running = [subprocess.Popen([sys.executable, "-c", code]) for code in PARTS]
    failed = [process.wait() for process in running]
    if any(failed):
        raise SystemExit("kernels could not be compiled")


if __name__ == "__main__":
    main()
