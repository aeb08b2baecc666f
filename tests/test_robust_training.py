"""The choice of certified trainings: what is chosen, and that certificates hold."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from threadpoolctl import threadpool_limits

from maxplus.certify import certified_at
from maxplus.estimators._robust import (
    BOXES,
    SHAPES,
    Candidate,
    RobustTraining,
    Windows,
    constant_model,
)
from maxplus.estimators._training_data import TrainingData
from maxplus.training import Status, TrainingMonitor, TrainingProblem
from maxplus.training.smooth.annealing import Annealing

REACH = np.full(3, 0.1)


@pytest.fixture(autouse=True)
def one_thread():
    with threadpool_limits(1):
        yield


def table(n=240, seed=0):
    """Two features that tell two classes apart, one by more than REACH, and one without meaning."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 3))
    y = (X[:, 0] > 0.5).astype(int)
    X[:, 1] = 0.5 + 0.05 * (2 * y - 1) + 0.01 * rng.normal(size=n)
    return X, y


def training(**options):
    candidates = [Candidate(SHAPES), Candidate(BOXES)]
    usual = {"reach": REACH, "candidates": candidates, "factors": (2.0,)}
    return RobustTraining(**(usual | options))


def run(stage, X, y, callbacks=()):
    rng = np.random.default_rng(0)
    start = constant_model(TrainingData(X, y), int(y.max()) + 1)
    with TrainingMonitor(callbacks) as monitor:
        return stage.run(start, TrainingProblem(X, y, rng=rng), monitor)


def certified_share(model, X, y, reach=REACH):
    right = model.scores(X).argmax(axis=1) == y
    return (right & certified_at(model, X, 1.0, reach)).mean()


def test_training_certifies_rows_that_it_has_not_seen():
    X, y = table(480)
    outcome = run(training(), X[:240], y[:240])
    assert outcome.choice.chosen >= 0
    assert len(outcome.choice.candidates) == 4
    assert outcome.choice.certified.shape == outcome.choice.clean.shape == (4, 5)
    assert (outcome.choice.certified <= outcome.choice.clean).all()
    assert certified_share(outcome.model, X[240:], y[240:]) > 0.65
    assert outcome.n_iter == outcome.losses.size > 0


def test_constant_is_chosen_where_nothing_can_be_certified():
    rng = np.random.default_rng(0)
    X, y = rng.random((120, 3)), (rng.random(120) < 0.3).astype(int)
    outcome = run(training(), X, y)
    assert outcome.choice.chosen == -1
    assert_array_equal(outcome.model.scores(X).argmax(axis=1), 0)
    assert certified_share(outcome.model, X, y, np.full(3, 1e6)) == (y == 0).mean()


def test_choice_does_not_depend_on_threads():
    X, y = table(150)
    outcomes = [run(training(n_jobs=n), X, y) for n in (1, 2)]
    assert_array_equal(outcomes[0].choice.certified, outcomes[1].choice.certified)
    assert outcomes[0].choice.chosen == outcomes[1].choice.chosen
    assert_array_equal(outcomes[0].model.scores(X), outcomes[1].model.scores(X))


def test_a_single_candidate_is_trained_without_a_choice():
    X, y = table(150)
    outcome = run(training(candidates=[Candidate(BOXES)], factors=()), X, y)
    assert outcome.choice.chosen == 0
    assert outcome.choice.certified.size == 0


def test_training_ends_while_choosing_with_the_model_it_started_from():
    X, y = table(150)
    outcome = run(training(), X, y, [lambda progress: progress.iteration >= 2])
    assert outcome.choice is None
    assert outcome.status is Status.CALLBACK
    assert np.ptp(outcome.model.scores(X), axis=0).max() == 0.0


def test_features_that_cannot_change_are_used():
    """A reach of 0 makes the second feature, which tells the classes apart, safe to use."""
    X, y = table(480)
    reach = np.array([0.1, 0.0, 0.1])
    outcome = run(training(reach=reach), X[:240], y[:240])
    assert certified_share(outcome.model, X[240:], y[240:], reach) > 0.95


def test_weights_count():
    X, y = table(240)
    wrong = np.where(np.arange(240) % 2, y, 1 - y)
    weight = np.where(np.arange(240) % 2, 1.0, 1e-6)
    rows = TrainingData(X, wrong, weight)
    stage = training()
    with TrainingMonitor() as monitor:
        choice, _ = stage.choose(constant_model(rows, 2), rows, 0, monitor)
    assert choice.certified[choice.chosen].mean() > 0.6


def test_windows_of_images():
    rng = np.random.default_rng(0)
    X = (rng.random((300, 64)) < 0.2) * 1.0
    y = np.arange(300) % 2
    X[y == 1, 27:37] = 1.0
    X += 0.1 * rng.normal(size=X.shape)
    reach = np.full(64, 0.2)
    candidates = [Candidate(Windows((8, 8), 5, 3, 2), clip) for clip in ((0.4, 0.6), (0.0, 1.0))]
    stage = RobustTraining(reach, candidates, factors=(), annealing=Annealing(n_epochs=30))
    outcome = run(stage, X, y)
    assert len(outcome.model.terms) == 4
    assert certified_share(outcome.model, X, y, reach) > 0.9


def test_no_attack_flips_a_certified_row():
    X, y = table(300)
    model = run(training(), X[:200], y[:200]).model
    rows = X[200:][certified_at(model, X[200:], 1.0, REACH)]
    assert len(rows) > 50
    rng = np.random.default_rng(1)
    own = model.scores(rows).argmax(axis=1)
    for _ in range(400):
        kind = rng.integers(3, size=rows.shape)
        move = np.select([kind == 0, kind == 1], [-1.0, 1.0], rng.uniform(-1, 1, rows.shape))
        assert_array_equal(model.scores(rows + move * REACH).argmax(axis=1), own)
