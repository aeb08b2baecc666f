"""Helpers for tests of trainings: single stages, interruptions, comparison of engines."""

import os
import signal

import numpy as np
from numpy.testing import assert_array_equal

from maxplus.models.initialization import prototype_lmm, random_lmm
from maxplus.training import TrainingMonitor, TrainingProblem
from maxplus.training.stages import Polish, WarmUp


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


def assert_same_training(got_engine, got, expected_engine, expected):
    """Histories, last and best weights agree to the last bit."""
    assert got.status is expected.status
    for name in expected.history:
        assert_array_equal(got.history[name], expected.history[name], err_msg=name)
    assert got_engine.best_loss == expected_engine.best_loss
    for which in ("model", "best"):
        got_model, expected_model = getattr(got_engine, which), getattr(expected_engine, which)
        for layer in expected_model.layers:
            assert_array_equal(
                getattr(got_model, layer), getattr(expected_model, layer), f"{which} {layer}"
            )
