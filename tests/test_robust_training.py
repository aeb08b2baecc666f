"""Search and training of `RobustTraining`."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from threadpoolctl import threadpool_limits

from maxplus.certify import certified_at
from maxplus.estimators._additive import initial_model
from maxplus.estimators._parameters import threads
from maxplus.estimators._robust import (
    BOXES,
    CONSTANT,
    SHAPES,
    Candidate,
    RobustTraining,
    Windows,
    certified_accuracy,
)
from maxplus.estimators._training_data import TrainingData
from maxplus.training import Status, TrainingMonitor, TrainingProblem
from maxplus.training.smooth.interval import IMAGE_ANNEALING, TABLE_ANNEALING

RADIUS = np.full(3, 0.1)


@pytest.fixture(autouse=True)
def one_thread():
    with threadpool_limits(1):
        yield


def table(n=240, seed=0):
    """Two informative features, which differ by more and by less than RADIUS, and a random one."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 3))
    y = (X[:, 0] > 0.5).astype(int)
    X[:, 1] = 0.5 + 0.05 * (2 * y - 1) + 0.01 * rng.normal(size=n)
    return X, y


CANDIDATES = [*(Candidate(terms, factor=k) for terms in (SHAPES, BOXES) for k in (1, 2)), CONSTANT]


def run(X, y, callbacks=(), candidates=CANDIDATES, radius=RADIUS, weight=None, **options):
    rng, n_classes = np.random.default_rng(0), int(y.max()) + 1
    options = {
        "annealing": TABLE_ANNEALING,
        "scorer": partial(certified_accuracy, radius),
    } | options
    stage = RobustTraining(n_classes, candidates, radius=radius, **options)
    problem = TrainingProblem(X, y, weight=weight, rng=rng)
    with TrainingMonitor(callbacks) as monitor:
        return stage.run(initial_model(TrainingData(X, y), n_classes, rng), problem, monitor)


def share(model, X, y, radius=RADIUS):
    return certified_accuracy(radius, model, TrainingData(X, y))


def test_constant_is_not_chosen_if_no_sample_can_be_held_out():
    outcome = run(np.eye(3), np.arange(3), radius=np.full(3, 0.1))
    assert_array_equal(outcome.model.scores(np.eye(3)).argmax(axis=1), [0, 1, 2])


def test_choice_does_not_depend_on_threads():
    X, y = table(150)
    outcomes = []
    for n_jobs in (1, 2):
        with threads(n_jobs):
            outcomes.append(run(X, y))
    assert_array_equal(outcomes[0].choice.scores, outcomes[1].choice.scores)
    assert outcomes[0].choice.chosen == outcomes[1].choice.chosen
    assert_array_equal(outcomes[0].model.scores(X), outcomes[1].model.scores(X))


def test_progress_of_many_samples_ends_with_the_last_epoch():
    X, y = table(4_400)
    reports = []
    annealing = TABLE_ANNEALING._replace(min_steps=250)
    outcome = run(X, y, [reports.append], CANDIDATES[:1], annealing=annealing)
    assert outcome.n_iter == reports[-1].iteration == reports[-1].max_iter == 12
    assert outcome.status is Status.MAX_ITER


def test_initial_model_is_kept_if_the_search_is_stopped():
    X, y = table(150)
    outcome = run(X, y, [lambda progress: progress.iteration >= 2])
    assert outcome.choice is None
    assert outcome.status is Status.CALLBACK
    initial = initial_model(TrainingData(X, y), 2, np.random.default_rng(0))
    assert_array_equal(outcome.model.scores(X), initial.scores(X))


def test_features_that_cannot_change_are_used():
    """A radius of 0 makes the second feature, which separates the classes, safe to use."""
    X, y = table(480)
    radius = np.array([0.1, 0.0, 0.1])
    outcome = run(X[:240], y[:240], radius=radius)
    assert share(outcome.model, X[240:], y[240:], radius) > 0.95


def test_search_ignores_samples_of_tiny_weight():
    X, y = table(240)
    is_right = np.arange(240) % 2 == 1
    outcome = run(X, np.where(is_right, y, 1 - y), weight=np.where(is_right, 1.0, 1e-6))
    assert outcome.choice.scores[outcome.choice.chosen].mean() > 0.6
    assert share(outcome.model, X, y) > 0.6


def test_windows_of_images():
    rng = np.random.default_rng(0)
    X = (rng.random((300, 64)) < 0.2) * 1.0
    y = np.arange(300) % 2
    X[y == 1, 27:37] = 1.0
    X += 0.1 * rng.normal(size=X.shape)
    radius = np.full(64, 0.2)
    candidates = [Candidate(Windows((8, 8), 5, 3, 2), clip) for clip in ((0.4, 0.6), (0.0, 1.0))]
    annealing = IMAGE_ANNEALING._replace(n_epochs=30)
    outcome = run(X, y, candidates=candidates, radius=radius, annealing=annealing)
    assert len(outcome.model.terms) == 4
    assert outcome.choice.scores[:, 0].min() > 0.5
    assert_array_equal(np.isfinite(outcome.choice.scores).sum(axis=1), [1, 1])
    assert share(outcome.model, X, y, radius) > 0.9


def test_no_attack_flips_a_certified_sample():
    X, y = table(480)
    outcome = run(X[:240], y[:240])
    model, choice = outcome.model, outcome.choice
    assert choice.chosen < choice.structures.index(CONSTANT)
    assert share(model, X[240:], y[240:]) > 0.65
    rows = X[240:][certified_at(model, X[240:], 1.0, RADIUS)]
    assert len(rows) > 100
    rng = np.random.default_rng(1)
    own = model.scores(rows).argmax(axis=1)
    for _ in range(400):
        kind = rng.integers(3, size=rows.shape)
        move = np.select([kind == 0, kind == 1], [-1.0, 1.0], rng.uniform(-1, 1, rows.shape))
        assert_array_equal(model.scores(rows + move * RADIUS).argmax(axis=1), own)
