"""Helpers for tests of trainings: single stages, interruptions, oracles, comparison of engines."""

import math
import os
import signal

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

import oracles
from maxplus.models.initialization import prototype_lmm, random_lmm
from maxplus.training import (
    MaxLoss,
    MeanLoss,
    TopKLoss,
    TrainingMonitor,
    TrainingProblem,
    TrimmedMaxLoss,
    train,
)
from maxplus.training.stages import Polish, WarmUp

LAYERS = ("W0", "W1", "W2")


def start_at(X, y, n_hidden=8, slope=2.0, seed=0, *, init="prototypes"):
    """Return an LMM to start from: pyramids at random samples, or random weights."""
    rng, n_classes = np.random.default_rng(seed), int(y.max()) + 1
    if init != "prototypes":
        shape = X.shape[1], n_hidden, n_classes
        return random_lmm(init, shape, slope, slope, X.dtype, rng)
    chosen = rng.choice(len(y), min(n_hidden, len(y)), replace=False)
    return prototype_lmm(X[chosen], y[chosen], n_classes, slope, slope)


def warm_up(model, X, y, annealing, rng, *, weight=None, callbacks=(), **options):
    """Return the outcome of a warm-up; options are those of the stage."""
    problem = TrainingProblem(X, y, weight=weight, rng=rng)
    monitor = TrainingMonitor(callbacks)
    monitor.begin(WarmUp.name, is_last=True)
    return WarmUp(annealing, **options).run(model, problem, monitor)


def polish(model, X, y, rng, **options):
    """Return the outcome of a polish; options are those of the stage."""
    return Polish(**options).run(model, TrainingProblem(X, y, rng=rng), TrainingMonitor())


def press_ctrl_c(progress=None):
    """Send SIGINT; also a callback."""
    os.kill(os.getpid(), signal.SIGINT)


def raise_keyboard_interrupt(progress=None):
    """Raise KeyboardInterrupt, as a second Ctrl-C does."""
    raise KeyboardInterrupt


def worst_first(losses, k):
    """Return the samples with the k largest losses, ties by their number."""
    return sorted(range(len(losses)), key=lambda n: (-losses[n], n))[:k]


def selected_samples(losses, objective):
    """Return the samples whose mean subgradient an iteration uses, by the definitions."""
    if isinstance(objective, TopKLoss):
        return worst_first(losses, objective.k)
    if isinstance(objective, TrimmedMaxLoss):
        return worst_first(losses, objective.n_trimmed + 1)[-1:]
    if isinstance(objective, MeanLoss):
        return list(range(len(losses)))
    assert isinstance(objective, MaxLoss)
    return worst_first(losses, 1)


def oracle_step(problem, model, t, samples, lowest):
    """Return (loss, step size, weights after the step) for a step on some samples.

    ``lowest`` is the lowest loss of previous iterations, for `level` rules.
    """
    X, y, rule, interval = problem.X, problem.y, problem.step, problem.w0_update_interval
    W = [getattr(model, name).astype(float) for name in LAYERS]
    loss = np.mean([oracles.loss(oracles.lmm_path(X[n], *W)[0], y[n]) for n in samples])
    G = {name: np.zeros(w.shape) for name, w in zip(LAYERS, W, strict=True)}
    for n in samples:
        for name, part in oracles.lmm_subgradient(X[n], y[n], *W).items():
            G[name] += np.array(part) / len(samples)
    if interval == 0 or (t + 1) % interval:
        G["W0"][:] = 0.0
    alpha = rule.alpha
    norm = sum((g**2).sum() for g in G.values())
    if rule.memory.size:
        left = max(rule.polyak_until - t, 1) / rule.polyak_until
        alpha = (loss - (1 - left) * min(lowest, loss) - left * rule.target) / norm
    elif t < rule.polyak_until:
        alpha = (loss - rule.target) / norm
    return loss, alpha, [w - alpha * G[name] for name, w in zip(LAYERS, W, strict=True)]


def assert_steps_match_the_oracle(engine, n_iter):
    """Compare single iterations with the oracle, each from the current weights.

    Return the samples of the history. Engines that draw samples are compared for these samples.
    """
    problem, lowest, drawn = engine.problem, math.inf, []
    for t in range(n_iter):
        before = engine.model.copy()
        history = train(engine, 1).history
        drawn += history["sample"].tolist()
        if engine.name == "sgd":
            samples = drawn[-1:]
        else:
            losses = before.losses(problem.X, problem.y)
            samples = selected_samples(losses, problem.objective)
            is_mean = isinstance(problem.objective, MeanLoss)
            assert drawn[-1] == (-1 if is_mean else samples[0])
        loss, alpha, W = oracle_step(problem, before, t, samples, lowest)
        lowest = min(lowest, loss)
        assert_allclose(history["loss"], loss, rtol=1e-12, atol=1e-12)
        if history["step"][0] == 0.0:
            break
        assert_allclose(history["step"], alpha, rtol=1e-9)
        for name, w in zip(LAYERS, W, strict=True):
            assert_allclose(getattr(engine.model, name), w, rtol=1e-9, atol=1e-9, err_msg=name)
    return drawn


def assert_same_weights(a, b):
    """Check that weights are bit-identical."""
    for name in b.layers:
        assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name, strict=True)


def assert_same_arrays(a, b):
    """Check that mappings of arrays are bit-identical."""
    assert set(a) == set(b)
    for name in b:
        assert_array_equal(a[name], b[name], err_msg=name, strict=True)


def assert_same_training(got_engine, got, expected_engine, expected):
    """Check that status, history, last and best weights are bit-identical."""
    assert got.status is expected.status
    assert_same_arrays(got.history, expected.history)
    assert got_engine.best_loss == expected_engine.best_loss
    assert_same_weights(got_engine.model, expected_engine.model)
    assert_same_weights(got_engine.best, expected_engine.best)
