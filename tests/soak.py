"""Random trials with a time limit (`make soak`); the name and the seed of a trial reproduce it.

PYTHONPATH=tests python -m soak --seconds 3600 --out results/soak.json
PYTHONPATH=tests python -m soak --only engines --seed 1234
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
from sklearn.datasets import load_iris

import maxplus
from certified import attack
from experiments.measure import machine_facts
from file_mutations import damaged
from maxplus import (
    LipschitzInterpolator,
    LMMClassifier,
    LMMEnsembleClassifier,
    LMMRegressor,
    SubgradientLMMClassifier,
)
from maxplus._files import write_atomically
from maxplus.certify import box_bounds, certified_radius
from maxplus.explain import nearest_counterfactuals
from maxplus.io import Checkpoint, FileError
from maxplus.models import LMM, LOG2, AdditiveLMM
from maxplus.models.initialization import (
    choose_prototypes,
    median_distance,
    prototype_lmm,
    random_lmm,
)
from maxplus.tables import TableError, read_table
from maxplus.training import (
    MaxLoss,
    MeanLoss,
    Status,
    TopKLoss,
    TrainingProblem,
    TrimmedMaxLoss,
    constant,
    level,
    paper_alpha,
    polyak,
    train,
    two_phase,
)
from maxplus.training.engines import DenseEngine, SGDEngine, SparseEngine, TreeEngine
from processes import interrupt_second_fits, kill_writers
from trainings import assert_same_training

X_IRIS, Y_IRIS = load_iris(return_X_y=True)

# -- random problems ------------------------------------------------------------------------------


def samples(rng, most=120, dtype=np.float64):
    """Return X (normal, on a grid, repeated, with a constant feature, tiny or huge) and y."""
    n_classes = int(rng.integers(2, 6))
    N, P = int(rng.integers(n_classes, most)), int(rng.integers(1, 10))
    X = rng.normal(size=(N, P))
    kind = rng.integers(5)
    if kind == 1:
        X = rng.integers(-2, 3, (N, P)) / 2.0
    elif kind == 2:
        X = X[rng.integers(N, size=N)]
    elif kind == 3:
        X[:, rng.integers(P)] = rng.choice([0.0, 1.0, -7.5])
    elif kind == 4:
        X *= 10.0 ** rng.integers(-6, 7, P)
    y = rng.integers(n_classes, size=N)
    y[:n_classes] = np.arange(n_classes)  # Each class has a sample.
    X[y == 0] += rng.choice([0.0, 1.0, 5.0]) * np.abs(X).max()
    return np.ascontiguousarray(X, dtype), y


def lmm(rng, X, y):
    """Return an initial model with pyramids or random weights."""
    n_classes, H = int(y.max()) + 1, int(rng.integers(1, 25))
    slope = float(rng.choice([0.5, 4.0, 50.0])) / median_distance(X, rng)
    if rng.random() < 0.8:
        chosen = choose_prototypes(y, H, rng)
        return prototype_lmm(X[chosen], y[chosen], n_classes, slope, slope)
    shape = (X.shape[1], H, n_classes)
    return random_lmm(str(rng.choice(["gaussian", "uniform"])), shape, slope, slope, X.dtype, rng)


def network(rng, X, y):
    """Return a trained or untrained network, or the mean of two."""

    def one():
        model = lmm(rng, X, y)
        if rng.random() < 0.5:
            engine = DenseEngine(model, TrainingProblem(X, y, MaxLoss(), polyak(), 1))
            train(engine, 30)
            model = engine.best
        return model

    return AdditiveLMM.mean([one(), one()]) if rng.random() < 0.2 else one()


def step_rule(rng, n_iterations, n_classes):
    """Return a random step rule."""
    small = constant(paper_alpha(float(rng.choice([0.01, 0.1, 1.0])), n_classes))
    rules = [
        polyak(float(rng.choice([0.0, 0.3]))),
        small,
        two_phase(polyak(), small, n_iterations // 2),
        level(n_iterations),
    ]
    return rules[rng.integers(len(rules))]


def margins(model, X, predicted):
    """Return the lead of the predicted class of each row, negative if another class leads."""
    Z = model.scores(X)
    own = Z[np.arange(len(X)), predicted]
    Z[np.arange(len(X)), predicted] = -np.inf
    return own - Z.max(axis=1)


# -- trials: each takes a generator and a folder, and returns counts of its checks ----------------


def engines(rng, folder):
    """Check that all engines produce the iterates of the dense engine and respect all bounds."""
    counts = {"problems": 0, "iterations": 0}
    for _ in range(6):
        X, y = samples(rng, dtype=rng.choice([np.float64, np.float32]))
        n = int(rng.integers(1, 150))
        k = int(rng.integers(1, len(y) + 1))
        objective = rng.choice([MaxLoss(), TopKLoss(k), TrimmedMaxLoss(k - 1)], p=(0.6, 0.2, 0.2))
        rule = step_rule(rng, n, int(y.max()) + 1)
        w0_update_interval = int(rng.choice([0, 1, 3, 100]))
        start = lmm(rng, X, y)
        problem = TrainingProblem(X, y, objective, rule, w0_update_interval)
        dense = DenseEngine(start.copy(), problem)
        expected = train(dense, n)
        others = [SparseEngine(start.copy(), problem)]
        if X.dtype == np.float64:
            others.append(SparseEngine(start.copy(), problem, audit=True))
        if TreeEngine.minimises(type(objective)):
            others.append(TreeEngine(start.copy(), problem))
        for other in others:
            assert_same_training(other, train(other, n), dense, expected)
        counts["problems"] += 1
        counts["iterations"] += expected.n_iter * (1 + len(others))
    return counts


def sgd(rng, folder):
    """Check that the best weights of SGD are finite and not worse than the initial weights."""
    X, y = samples(rng)
    start = lmm(rng, X, y)
    before = float(start.losses(X, y).mean())
    rule = step_rule(rng, 300, int(y.max()) + 1)
    engine = SGDEngine(start.copy(), TrainingProblem(X, y, MeanLoss(), rule, 3, rng=rng))
    done = train(engine, 300)
    losses = engine.best.losses(X, y)
    assert np.isfinite(losses).all()
    assert losses.mean() <= before * (1 + 1e-12)
    return {"problems": 1, "iterations": done.n_iter}


def recipes(rng, folder):
    """Check the fitted attributes of a random classifier and of regressors, also after loading."""
    X, y = samples(rng, most=80)
    clf = _classifier(rng)
    try:
        clf.fit(X, y)
    except ValueError as error:
        if "scale" not in str(error):
            raise
        return {"refused": 1}
    assert Status.from_text(clf.status_).message == clf.status_message_
    is_correct = clf.predict(X) == y
    assert is_correct.all() or not clf.perfect_fit_
    assert is_correct[clf.training_losses_ < LOG2].all()
    assert np.isfinite(clf.predict_proba(X)).all()
    clf.save(folder / "model")
    again = maxplus.load(folder / "model")
    assert np.array_equal(again.decision_function(X), clf.decision_function(X))
    Z = clf.model_.scores(X)
    clf.prune()
    assert np.array_equal(clf.model_.scores(X), Z)

    X = np.unique(X / np.maximum(np.abs(X).max(axis=0), 1e-300), axis=0)
    target = X @ rng.normal(size=X.shape[1]) + rng.normal(0, 0.1, len(X))
    reg = LMMRegressor(epochs=3, random_state=int(rng.integers(2**31))).fit(X, target)
    exact = LipschitzInterpolator().fit(X, target)
    for lower, upper in (reg.predict_interval(X), exact.envelopes(rng.normal(size=X.shape))):
        assert (lower <= upper).all()
    return {"classifiers": 1, "regressions": 2}


def _classifier(rng):
    seed = int(rng.integers(2**31))
    polish = [None, "auto", "log2", 0.3][rng.integers(4)]
    slope = float(rng.choice([0.5, 3.0, 20.0]))
    standardize = rng.random() < 0.8 and "auto"
    options = {"slope": slope, "warmup_epochs": 3, "polish": polish, "standardize": standardize}
    n_hidden = int(rng.integers(1, 20))
    return [
        LMMClassifier(n_hidden, **options, random_state=seed),
        LMMEnsembleClassifier(LMMClassifier(n_hidden, **options), 2, random_state=seed),
        SubgradientLMMClassifier(n_hidden, max_iter=50, slope=slope, random_state=seed),
    ][rng.integers(3)]


def certificates(rng, folder):
    """Check certified radii by attacks, and bounds of scores at random points of a box."""
    X, y = samples(rng, most=60)
    model = network(rng, X, y)
    scale = rng.choice([0.0, 1.0, 3.0], X.shape[1]) if rng.random() < 0.5 else np.ones(X.shape[1])
    radius = certified_radius(model, X, scale)
    flipped = attack(model, X, 0.999999 * radius, scale, seed=int(rng.integers(2**31)))
    assert not flipped.any(), f"the predictions of rows {np.flatnonzero(flipped)} change"
    counts = {"attacked rows": len(X)}
    if not isinstance(model, LMM):
        return counts
    eps = float(rng.choice([0.01, 0.1, 1.0]))
    bounds = box_bounds(model, X, eps, scale)
    rounding = 1e-9 * (1.0 + np.abs(bounds.low).max() + np.abs(bounds.high).max())
    for Z in map(model.scores, X + eps * scale * rng.uniform(-1, 1, (10, *X.shape))):
        assert (bounds.low - rounding <= Z).all()
        assert (bounds.high + rounding >= Z).all()
    return counts | {"points in boxes": 10 * len(X)}


def flips(rng, folder):
    """Check that counterfactuals change the prediction, and that no smaller change is found."""
    X, y = samples(rng, most=25)
    model = network(rng, X, y)
    while not isinstance(model, LMM):
        model = network(rng, X, y)
    found = nearest_counterfactuals(model, X)
    predicted = model.scores(X).argmax(axis=1)
    rows = np.flatnonzero(found.feature >= 0)
    changed = X[rows].copy()
    changed[np.arange(len(rows)), found.feature[rows]] = found.value[rows]
    assert (model.scores(changed).argmax(axis=1) == found.new_class[rows]).all()
    n_tried = 0
    for n in range(len(X)):
        limit = abs(found.value[n] - X[n, found.feature[n]]) if found.feature[n] >= 0 else 1e3
        nearer = X[n] + np.zeros((40 * X.shape[1], 1))
        steps = 0.999 * limit * rng.uniform(-1, 1, (X.shape[1], 40))
        nearer[np.arange(len(nearer)), np.repeat(np.arange(X.shape[1]), 40)] += steps.ravel()
        # A tie with a class of a lower index is not a counterfactual.
        behind = -margins(model, nearer, np.full(len(nearer), predicted[n]))
        assert (behind <= 1e-9 * (1.0 + np.abs(model.scores(nearer)).max())).all(), f"row {n}"
        n_tried += len(nearer)
    return {"flips": len(rows), "nearer changes tried": n_tried}


@cache
def saved_models():
    """Return fitted estimators and their predictions for iris."""
    options = {"slope": 3.0, "random_state": 0}
    single = LMMClassifier(6, warmup_epochs=3, slope=3.0)
    models = [
        LMMClassifier(9, warmup_epochs=3, **options).fit(X_IRIS, Y_IRIS),
        LMMEnsembleClassifier(single, 2, random_state=0).fit(X_IRIS, Y_IRIS),
        SubgradientLMMClassifier(8, max_iter=30, engine="dense", **options).fit(X_IRIS, Y_IRIS),
        LMMRegressor(epochs=3, random_state=0).fit(X_IRIS[:, :3], X_IRIS[:, 3]),
    ]
    return [(model, model.predict(X_IRIS[:, : model.n_features_in_])) for model in models]


N_FILES = 30


def models(rng, folder):
    """Check that a damaged model file is rejected or gives the same predictions."""
    model, expected = saved_models()[rng.integers(4)]
    path = folder / "model"
    model.save(path)
    content = path.read_bytes()
    for _ in range(N_FILES):
        path.write_bytes(_damaged_container(rng, content))
        with suppress(FileError):
            again = maxplus.load(path)
            assert np.array_equal(again.predict(X_IRIS[:, : model.n_features_in_]), expected)
    return {"files": N_FILES}


def checkpoints(rng, folder):
    """Check that a damaged checkpoint is rejected or resumes to the same weights."""
    path = folder / "checkpoint"
    clf = [
        LMMClassifier(9, slope=3.0, warmup_epochs=4, random_state=0),
        SubgradientLMMClassifier(8, max_iter=30, engine="dense", random_state=0),
    ][rng.integers(2)]
    stop = [Checkpoint(path, every=0.0), lambda progress: progress.iteration >= 2]
    clf.set_params(callbacks=stop).fit(X_IRIS, Y_IRIS)
    expected = clf.set_params(callbacks=None).fit(X_IRIS, Y_IRIS).W1_
    content = path.read_bytes()
    for _ in range(N_FILES):
        path.write_bytes(_damaged_container(rng, content))
        with suppress(FileError):
            assert np.array_equal(maxplus.resume(path, X_IRIS, Y_IRIS).W1_, expected)
    return {"files": N_FILES}


def _damaged_container(rng, content):
    """Return a container with random damage, or with another value in its header."""
    if rng.random() < 0.6:
        return damaged(rng, content)
    length = int.from_bytes(content[:8], "little")
    header = value = json.loads(content[8 : 8 + length])
    while True:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = keys[rng.integers(len(keys))]
        inner = value[key]
        if not (isinstance(inner, (dict, list)) and inner) or rng.random() < 0.2:
            break
        value = inner
    value[key] = [None, -1, 10**30, "x", [], {}, 1e308, True][rng.integers(8)]
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content[8 + length :]


def tables(rng, folder):
    """Check that a damaged table is read, or rejected with the name of the file."""
    ending = str(rng.choice([".csv", ".npz", ".parquet"]))
    path = folder / f"table{ending}"
    X, labels = X_IRIS[::3], np.array(list("abc"))[Y_IRIS[::3]]
    if ending == ".csv":
        rows = [f"{a},{b},{label}" for (a, b), label in zip(X[:, :2], labels, strict=True)]
        path.write_text("a,b,c\n" + "\n".join(rows))
    elif ending == ".npz":
        save = np.savez if rng.random() < 0.5 else np.savez_compressed
        save(path, X=X, y=labels)
    else:
        pyarrow.parquet.write_table(pyarrow.table({"a": X[:, 0], "b": X[:, 1], "c": labels}), path)
    content = path.read_bytes()
    for _ in range(N_FILES):
        path.write_bytes(damaged(rng, content))
        message = f"{path}"
        try:
            read_table(path)
        except TableError as error:
            message = str(error)
        assert str(path) in message
        assert "\n" not in message
    return {"files": N_FILES}


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
def report_start(progress, calls=[]):
    if not calls:
        calls.append(print("started", flush=True))
{recipe}.set_params(callbacks=[Checkpoint(sys.argv[1], every=0.0), report_start]).fit(X, y)
"""


def killed_trainings(rng, folder):
    """Check that training killed at a random time resumes to bit-identical weights."""
    recipe, path = RECIPES[str(rng.choice(list(RECIPES)))], folder / "checkpoint"
    code = TRAIN.format(recipe=recipe)
    child = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout.readline() == "started\n"
        time.sleep(rng.uniform(0.0, 0.5))
        child.kill()
    expected = eval(recipe).fit(X_IRIS, Y_IRIS)
    assert np.array_equal(maxplus.resume(path, X_IRIS, Y_IRIS).W1_, expected.W1_)
    return {"killed and resumed": 1}


def killed_savings(rng, folder):
    """Check that a killed writer leaves the old or the new file, and at most one partial file."""
    kills, draw = 20, random.Random(int(rng.integers(2**31)))
    kill_writers(folder / "model", "maxplus-model", kills, 0.03, draw)
    assert len(list(folder.iterdir())) <= 2
    return {"kills": kills}


def interrupts(rng, folder):
    """Check that Ctrl-C in a second fit leaves a consistent old or new model."""
    recipe = RECIPES[str(rng.choice(list(RECIPES)))]
    times = [f"{after:.4f}" for after in rng.uniform(0.0, 0.6, 8)]
    interrupt_second_fits("load_iris", ":2", recipe, times)
    return {"interrupts": len(times)}


PROCESS_TRIALS = (killed_trainings, killed_savings, interrupts)
TRIALS = {
    trial.__name__: trial
    for trial in (
        *(engines, sgd, recipes, certificates, flips, models, checkpoints, tables),
        *PROCESS_TRIALS,
    )
}

# -- command line ---------------------------------------------------------------------------------


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
                message = f"{type(error).__name__}: {error}".splitlines()[0][:300]
                failures.append({"trial": name, "seed": seed, "error": message})
                print(f"FAILED {name}, seed {seed}: {message}", flush=True)
            counts[name]["trials"] += 1
            seed += 1
            if time.monotonic() >= until:
                break
    return counts, failures


def main():
    """Run the command line; exit code 1 after any failure."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--out", type=Path, help="JSON file for the counts")
    parser.add_argument("--only", choices=TRIALS, help="run one trial and show its traceback")
    parser.add_argument("--seed", type=int, help="seed of the first trial, incremented for others")
    arguments = parser.parse_args()
    if arguments.only:
        print(dict(run(arguments.only, arguments.seed)))
        return 0
    first_seed = time.time_ns() // 10**6 % 2**31 if arguments.seed is None else arguments.seed
    began = time.monotonic()
    counts, failures = soak(list(TRIALS), arguments.seconds, first_seed)
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
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
        write_atomically(arguments.out, text.encode())
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
