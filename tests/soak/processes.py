"""Processes that are killed or interrupted: files stay whole, and so does the estimator."""

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
from sklearn.datasets import load_iris

import maxplus
from maxplus import LMMClassifier, SubgradientLMMClassifier
from maxplus.io.container import read_container

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
# Forks a writer for every line it reads: importing anew each time would take minutes.
SAVE = """
import os, sys
import numpy as np
from maxplus.io.container import write_container
for line in sys.stdin:
    pid = os.fork()
    while pid == 0:
        n = int(line) + 1
        line = str(n)
        write_container(sys.argv[1], "maxplus-model", {"n": n}, {"x": np.full(30000, n)})
    print(pid, flush=True)
    os.waitpid(pid, 0)
    print("gone", flush=True)
"""
INTERRUPTED = """
import os, signal, sys, threading, time, warnings
import numpy as np
from sklearn.datasets import load_iris
from maxplus import LMMClassifier, SubgradientLMMClassifier
warnings.simplefilter("ignore")
X, y = load_iris(return_X_y=True)
words = np.array(list("abc"))[y]
clf = {recipe}
for after in map(float, sys.argv[1:]):
    clf.fit(X[:, :2], y)
    pressed = threading.Event()
    def press():
        os.kill(os.getpid(), signal.SIGINT)
        pressed.set()
    try:
        threading.Timer(after, press).start()
        clf.fit(X, words)
        pressed.wait()
        time.sleep(0.05)
    except KeyboardInterrupt:
        pressed.wait()
    n = clf.n_features_in_
    assert clf.model_.n_features == n and n in (2, 4), n
    assert clf.classes_.dtype.kind == ("U" if n == 4 else "i")
    clf.predict(X[:, :n])
print("done")
"""


def whole(recipe):
    """The same training without an end in its middle."""
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
    path, n, kills = folder / "model", 0, 20
    draw = random.Random(int(rng.integers(2**31)))
    command = [sys.executable, "-c", SAVE, path]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as writers:
        for _ in range(kills):
            writers.stdin.write(f"{n}\n")
            pid = int(writers.stdout.readline())
            time.sleep(draw.uniform(0.0, 0.03))
            os.kill(pid, signal.SIGKILL)
            assert writers.stdout.readline() == "gone\n"
            if path.exists():
                document, arrays = read_container(path, "maxplus-model")
                assert (arrays["x"] == document["n"]).all()
                n = document["n"]
        writers.stdin.close()
    assert len(list(folder.iterdir())) <= 2  # the file, and the last one's part
    return {"kills": kills}


def interrupts(rng, folder):
    """Ctrl-C at any moment of a second fit keeps all of the old model or all of a new one."""
    recipe = str(rng.choice(list(RECIPES)))
    moments = [f"{after:.4f}" for after in rng.uniform(0.0, 0.6, 8)]
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.format(recipe=RECIPES[recipe]), *moments],
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"
    return {"interrupts": len(moments)}
