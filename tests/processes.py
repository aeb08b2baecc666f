"""Helpers that run code in separate interpreters."""

import json
import os
import signal
import subprocess
import sys
import time

from maxplus.io.container import read_container

# Forks a writer for each input line, because repeated imports would take minutes.
WRITERS = """
import os, sys
import numpy as np
from maxplus.io.container import write_container
for line in sys.stdin:
    pid = os.fork()
    while pid == 0:
        n = int(line) + 1
        line = str(n)
        write_container(sys.argv[1], sys.argv[2], {"n": n}, {"x": np.full(30000, n)})
    print(pid, flush=True)
    os.waitpid(pid, 0)
    print("gone", flush=True)
"""
# All interrupts in one process: imports would take longer than the trainings.
INTERRUPTED = """
import os, signal, sys, threading, time, warnings
import numpy as np
from sklearn.datasets import load_digits, load_iris
from maxplus import LMMClassifier, SubgradientLMMClassifier
warnings.simplefilter("ignore")
X, y = {load}(return_X_y=True)
words = np.array(list("abcdefghij"))[y]
small, few = X[::6, {columns}], y[::6]
for after in map(float, sys.argv[1:]):
    clf = {recipe}.fit(small, few)
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
    is_old = n == small.shape[1]
    assert clf.model_.n_features == n and (is_old or n == X.shape[1]), n
    assert clf.classes_.dtype.kind == ("i" if is_old else "U")
    assert len(clf.training_labels_) == len(few if is_old else y)
    clf.predict(small if is_old else X)
print("done")
"""


def run_python(code, *arguments, timeout=300, **environment):
    """Run code in a new interpreter; check that it succeeds, and return the process."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def run_fresh(code, *arguments):
    """Return the JSON output of a new interpreter."""
    return json.loads(run_python(code, *arguments, timeout=60).stdout)


def answered_here(function, arguments):
    """Call a function in this process and convert its result to JSON and back."""
    return json.loads(json.dumps(function(**arguments)))


def kill_writers(path, kind, kills, longest, draw):
    """Kill writers of a file after random times, and count those that have replaced the file.

    After each kill, the file must be complete.
    """
    n = progressed = 0
    with subprocess.Popen(
        [sys.executable, "-c", WRITERS, path, kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as writers:
        for _ in range(kills):
            writers.stdin.write(f"{n}\n")
            pid = int(writers.stdout.readline())
            time.sleep(draw.uniform(0.0, longest))
            os.kill(pid, signal.SIGKILL)
            assert writers.stdout.readline() == "gone\n"
            if not path.exists():
                continue
            document, arrays = read_container(path, kind)
            assert (arrays["x"] == document["n"]).all()
            assert document["n"] >= n
            progressed += document["n"] > n
            n = document["n"]
        writers.stdin.close()
    return progressed


def interrupt_second_fits(load, columns, recipe, moments):
    """Press Ctrl-C at random times of a second fit; the complete old or new model must remain.

    The first fit uses a sixth of the rows of the scikit-learn data set ``load``, and some columns.
    """
    code = INTERRUPTED.format(load=load, columns=columns, recipe=recipe)
    assert run_python(code, *moments, timeout=240).stdout == "done\n"
