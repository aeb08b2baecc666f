"""Smoke test of the library and the commands with the required packages only.

    python tests/smoke.py [CONSTRAINTS]

With a file of constraints, check that the pinned versions are installed.
"""

import re
import subprocess
import sys
import sysconfig
import tempfile
import time
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

import maxplus
from maxplus import (
    LinearMaxPlusClassifier,
    LipschitzInterpolator,
    LMMClassifier,
    LMMEnsembleClassifier,
    LMMRegressor,
    MaxPlusClassifier,
    SubgradientLMMClassifier,
)
from maxplus.cli.app import app
from maxplus.io import Checkpoint

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
ORCHARD = EXAMPLES / "orchard.csv"
X, y = load_iris(return_X_y=True)
RNG = np.random.default_rng(0)


def versions(constraints):
    """Check that the installed versions are those of the constraints."""
    pinned = re.findall(r"^([\w-]+)==([\d.]+)$", Path(constraints).read_text(), re.MULTILINE)
    assert pinned
    for name, wanted in pinned:
        assert version(name) == wanted, f"{name} {version(name)} is installed, not {wanted}"


def names():
    """Check that public names resolve, and that missing extras are named by the call."""
    for name in maxplus.__all__:
        assert getattr(maxplus, name).__doc__
    for extra, arguments in (("torch", [None]), ("onnx", [None, "unused"])):
        if find_spec(extra) is None:
            call = {"torch": maxplus.to_torch, "onnx": maxplus.export_onnx}[extra]
            assert f"maxplus[{extra}]" in import_error(call, *arguments)


def import_error(call, *arguments):
    """Return the message of the ImportError that a call raises."""
    try:
        call(*arguments)
    except ImportError as error:
        return str(error)
    raise AssertionError(f"{call.__name__} does not raise ImportError")


def classifiers():
    """Check that each classifier learns."""
    recipe = LMMClassifier(12, slope=3.0, warmup_epochs=10, random_state=0)
    assert recipe.fit(X, y).score(X, y) > 0.9
    assert recipe.status_ in ("polished", "unfit")
    ensemble = LMMEnsembleClassifier(
        LMMClassifier(9, slope=3.0, warmup_epochs=5), 2, random_state=0
    )
    assert ensemble.fit(X, y).score(X, y) > 0.9
    mean = SubgradientLMMClassifier(8, objective="mean", max_iter=500, random_state=0)
    assert mean.fit(X, y).score(X, y) > 0.8
    assert MaxPlusClassifier(max_iter=20, random_state=0).fit(X, y).predict(X).shape == y.shape
    linear = LinearMaxPlusClassifier(8, max_iter=500, random_state=0)
    assert linear.fit(StandardScaler().fit_transform(X), y).n_iter_ == 500


def engines():
    """Check that all engines produce the same iterates."""
    dense, *others = (
        SubgradientLMMClassifier(8, engine=engine, max_iter=60, random_state=0).fit(X, y)
        for engine in ("dense", "tree", "sparse")
    )
    for other in others:
        assert np.array_equal(dense.W1_, other.W1_), other.engine


def default():
    """Check the default parameters, and a data frame with a text column."""
    assert LMMClassifier(random_state=0).fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9
    words = np.array(["low", "high"])[(X[:, 2] > 3).astype(int)]
    frame = pyarrow.table({"length": X[:, 0], "size": words, "width": X[:, 3]})
    clf = LMMClassifier(9, slope=3.0, warmup_epochs=5, random_state=0).fit(frame, y)
    assert clf.predict(frame).shape == y.shape
    assert "size" in str(clf.explain(frame).text(0))


def regressions():
    """Check that regressors learn, and that intervals are ordered."""
    x = RNG.uniform(-3, 3, (200, 1))
    target = np.abs(x[:, 0]) + RNG.normal(0, 0.2, 200)
    reg = LMMRegressor(epochs=20, random_state=0).fit(x, target)
    lower, upper = reg.predict_interval(x)
    assert reg.score(x, target) > 0.5
    assert (lower <= upper).all()
    assert reg.loss_curve_.shape == (20,)
    exact = LipschitzInterpolator().fit(x, target)
    assert np.array_equal(exact.predict(x), target)


def certificates():
    """Check certificates, explanations and rules of a pipeline in raw units."""
    pipeline = make_pipeline(
        StandardScaler(), LMMClassifier(9, slope=3.0, warmup_epochs=5, random_state=0)
    )
    clf = maxplus.from_pipeline(pipeline.fit(X, y))
    assert np.array_equal(clf.predict(X), pipeline.predict(X))
    radius = clf.certified_radius(X)
    for _ in range(20):
        moved = X + 0.999 * radius[:, None] * RNG.choice([-1.0, 1.0], X.shape)
        assert np.array_equal(clf.predict(moved), clf.predict(X))
    assert 0.0 < clf.certified_accuracy(X, y, 0.1) <= 1.0
    assert "Row 1" in str(clf.explain(X[:2]))
    assert len(clf.rules(X, y, 3).to_records()) <= 3
    assert clf.prune().remaining > 0


def files(folder):
    """Check that loading and resuming reproduce a model exactly."""
    options = {"slope": 3.0, "warmup_epochs": 4, "random_state": 0}
    whole = LMMClassifier(9, **options).fit(X, y)
    whole.save(folder / "model")
    assert np.array_equal(maxplus.load(folder / "model").predict_proba(X), whole.predict_proba(X))
    stop = [Checkpoint(folder / "state", every=0.0), lambda progress: progress.iteration == 2]
    LMMClassifier(9, **options, callbacks=stop).fit(X, y)
    again = maxplus.resume(folder / "state", X, y)
    assert np.array_equal(again.W1_, whole.W1_)


def commands(folder):
    """Check that each command works on a table with text columns."""
    maxplus_command = Path(sysconfig.get_path("scripts")) / "maxplus"
    done = subprocess.run(
        [maxplus_command, "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["maxplus", maxplus.__version__]
    model = folder / "orchard.maxplus"
    brief = ("--set", "n_hidden=9", "--set", "slope=5", "--set", "warmup_epochs=3")
    good("train", ORCHARD, *brief, "--validate", 2, "-o", model)
    short = ("--validate", "none", "-o", folder / "other")
    good("train", ORCHARD, *brief, "--set", "n_estimators=2", *short)
    subgradient = ("--algorithm", "subgradient", "--set", "engine=dense", "--set", "max_iter=50")
    good("train", EXAMPLES / "iris.csv", *subgradient, *short)
    good("predict", model, ORCHARD, "-o", folder / "predicted.csv")
    assert (folder / "predicted.csv").read_text().count("\n") > 100
    assert "shop" in good("evaluate", model, ORCHARD)
    assert "Row 2" in good("explain", model, ORCHARD, "--row", 2)
    good("certify", model, ORCHARD)
    good("rules", model, ORCHARD)
    good("compare", ORCHARD, "--models", "kNN", "--validate", 0.2)
    rejected = run("train", ORCHARD, "--no-such-option")
    assert (rejected.exit_code, rejected.output.count("\n")) == (2, 1)


def run(*arguments):
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(a) for a in arguments])


def good(*arguments):
    done = run(*arguments)
    if done.exit_code:
        raise AssertionError(f"{arguments}: {done.output}") from done.exception
    return done.output


def main():
    """Run all parts and print the processor time of each."""
    if sys.argv[1:] == [engines.__name__]:
        return timed(engines)
    # The engines are checked in parallel, because compilation takes long.
    process = subprocess.Popen([sys.executable, __file__, engines.__name__])
    with tempfile.TemporaryDirectory() as folder:
        for constraints in sys.argv[1:]:
            versions(constraints)
        for part in (names, classifiers, default, regressions, certificates):
            timed(part)
        for part in (files, commands):
            timed(part, Path(folder))
    return process.wait()


def timed(part, *arguments):
    began = time.process_time()
    part(*arguments)
    print(f"{part.__name__}: {time.process_time() - began:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
