"""Compile what nearly all tests need, once, before their workers start with a copy of it each.

    python tests/kernels.py FOLDER

Two processes that compile the same kernel into one cache can leave one that crashes, so each part
has a folder of its own; the first part's kernels win where both have them, index and code alike.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

SPARSE = """
import numpy as np
from maxplus.models.starts import choose_prototypes, prototype_lmm
from maxplus.training import MaxLoss, Task, TopKLoss, polyak
from maxplus.training.engines import SparseEngine
from maxplus.training.result import Block
rng = np.random.default_rng(0)
X, y = rng.normal(size=(60, 4)), np.arange(60) % 3
for dtype in (np.float64, np.float32):
    for audit in (False, True) if dtype is np.float64 else (False,):
        model = prototype_lmm(X[:6].astype(dtype), y[:6], 3, 2.0, 2.0)
        engine = SparseEngine(model, Task(X.astype(dtype), y, MaxLoss(), polyak()), audit=audit)
        engine.advance(Block(3))
    engine.regroup()
"""
OTHERS = """
import warnings
import numpy as np
import maxplus
from sklearn.datasets import load_iris
warnings.simplefilter("ignore")
X, y = load_iris(return_X_y=True)
for dtype in (np.float64, np.float32):
    Z = X.astype(dtype)
    for directions in (None, np.ones((1, 4))):
        clf = maxplus.LMMClassifier(20, warmup_epochs=2, directions=directions, random_state=0)
        clf.fit(Z, y).certify(Z, y, 0.1), clf.explain(Z[:3]), clf.certified_radius(Z)
        clf.predict(np.tile(Z, (200, 1)))  # enough for the parallel kernels
    clf.set_params(polish="log2").fit(Z, y)
    for engine, objective in (("dense", "max"), ("tree", "max"), ("sgd", "mean")):
        maxplus.SubgradientLMMClassifier(
            8, engine=engine, objective=objective, max_iter=3, random_state=0
        ).fit(Z, y)
    committee = maxplus.LMMCommittee(2, n_hidden=6, warmup_epochs=1, random_state=0).fit(Z, y)
    committee.explain(Z[:3])
    maxplus.MaxPlusClassifier(max_iter=3).fit(Z, y)
    maxplus.LinearMaxPlusClassifier(5, max_iter=3).fit(Z, y)
    maxplus.LMMRegressor(10, random_state=0).fit(Z, y).predict_interval(Z)
    for product in (maxplus.algebra.minplus, maxplus.algebra.maxplus):
        product(Z, Z.T, return_index=True)
"""


def compile_into(folder: Path) -> None:
    """Both parts side by side, then one folder of them."""
    if folder.exists():
        return
    parts = {
        folder.with_name(f"{folder.name}-{n}"): code for n, code in enumerate((OTHERS, SPARSE))
    }
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code], env={**os.environ, "NUMBA_CACHE_DIR": str(part)}
        )
        for part, code in parts.items()
    ]
    failed = [process.wait() for process in running]
    if any(failed):
        raise SystemExit("kernels could not be compiled")
    merged = folder.with_name(f"{folder.name}-merged")
    for part in parts:
        shutil.copytree(part, merged, dirs_exist_ok=True)
        shutil.rmtree(part)
    merged.rename(folder)


if __name__ == "__main__":
    compile_into(Path(sys.argv[1]))
