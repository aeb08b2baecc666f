"""All engines against the dense engine, with every bound of the sparse engine audited."""

import numpy as np

from maxplus.training import MaxLoss, MeanLoss, TopKLoss, TrainingProblem, TrimmedMaxLoss, train
from maxplus.training.engines import DenseEngine, SGDEngine, SparseEngine, TreeEngine
from soak.problems import lmm, samples, step_rule
from trainings import assert_same_training


def engines(rng, folder):
    """Tree and sparse iterates are the dense ones, to the last bit; no bound is violated."""
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
    """Steps on single samples: what is kept is finite, and no worse than the start."""
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
