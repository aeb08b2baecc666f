"""Processes that are killed or interrupted: files stay whole, and so does the estimator."""

import random
import subprocess
import sys
import time

import numpy as np
from sklearn.datasets import load_iris

import maxplus
from maxplus import LMMClassifier, SubgradientLMMClassifier
from processes import interrupt_second_fits, kill_writers

X, y = load_iris(return_X_y=True)
RECIPES = {
    "iterations": 'SubgradientLMMClassifier(10, max_iter=4000, engine="dense", random_state=0)',
    "warm-up": "LMMClassifier(12, slope=3.0, warmup_epochs=150, random_state=0)",
}
TRAIN = """
import sys
from sklearn.datasets import load_iris
from maxplus import LMMClassifier, SubgradientLMMClassifier
from maxplus.io import Checkpoint
X, y = load_iris(return_X_y=True)
def begins(progress, said=[]):
    if not said:
        said.append(print("begins", flush=True))
{recipe}.set_params(callbacks=[Checkpoint(sys.argv[1], every=0.0), begins]).fit(X, y)
"""


def whole(recipe):
    """Return the same training without an interruption."""
    names = {"LMMClassifier": LMMClassifier, "SubgradientLMMClassifier": SubgradientLMMClassifier}
    return eval(RECIPES[recipe], names).fit(X, y)


def killed_trainings(rng, folder):
    """Killed at any moment, a training goes on from its checkpoint to the same bits."""
    recipe, path = str(rng.choice(list(RECIPES))), folder / "checkpoint"
    code = TRAIN.format(recipe=RECIPES[recipe])
    child = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout.readline() == "begins\n"
        time.sleep(rng.uniform(0.0, 0.5))
        child.kill()
    assert np.array_equal(maxplus.resume(path, X, y).W1_, whole(recipe).W1_)
    return {"killed and resumed": 1}


def killed_savings(rng, folder):
    """Killed at any moment, a writer leaves the old file or the new one, and no parts for long."""
    kills, draw = 20, random.Random(int(rng.integers(2**31)))
    kill_writers(folder / "model", "maxplus-model", kills, 0.03, draw)
    assert len(list(folder.iterdir())) <= 2  # the file, and the last one's part
    return {"kills": kills}


def interrupts(rng, folder):
    """Ctrl-C at any moment of a second fit keeps all of the old model or all of a new one."""
    recipe = str(rng.choice(list(RECIPES)))
    moments = [f"{after:.4f}" for after in rng.uniform(0.0, 0.6, 8)]
    interrupt_second_fits("load_iris", ":2", RECIPES[recipe], moments)
    return {"interrupts": len(moments)}
