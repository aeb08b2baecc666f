"""`ValidatedPolish`: whether held-out rows support a polish, and what it keeps."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.special import softmax

from maxplus import LMMClassifier
from maxplus.estimators._cross_validation import temperature, worth_polishing
from maxplus.models import LOG2
from maxplus.training import Status, TrainingMonitor, TrainingProblem
from maxplus.training.stages import Polish, ValidatedPolish

pytestmark = pytest.mark.slow


def polish_if(model, X, y, *, helps=True, asked=None, **options):
    """Return a `ValidatedPolish` with a fixed answer; ``asked`` records the calls."""

    def ask(*about):
        if asked is not None:
            asked.append(about)
        return helps

    problem = TrainingProblem(X, y, rng=np.random.default_rng(0))
    return ValidatedPolish(ask, Polish(**options)).run(model, problem, TrainingMonitor())


def test_the_polish_asks_whether_it_is_wanted(iris):
    warm = LMMClassifier(30, standardize=False, polish=None, random_state=0).fit(*iris)
    losses = warm.model_.losses(*iris)
    n_above = int((losses >= LOG2).sum())
    assert n_above >= 2
    left = polish_if(warm.model_, *iris, helps=False)
    assert left.status is Status.UNFIT
    assert_array_equal(left.model.W1, warm.W1_)
    assert left.above.size == n_above
    done = polish_if(warm.model_, *iris)
    assert done.status is Status.POLISHED
    assert done.losses.max() < LOG2
    # Nobody is asked where nothing is to be done.
    asked = []
    assert polish_if(warm.model_, *iris, asked=asked, skip=n_above).status is Status.SKIPPED
    fine = np.flatnonzero(losses < LOG2)
    nothing = polish_if(warm.model_, iris.X[fine], iris.y[fine], asked=asked, helps=False)
    assert nothing.status is Status.POLISHED
    # Nor where many do not fit.
    y = np.where(np.arange(150) % 15, iris.y, (iris.y + 1) % 3)
    many = polish_if(warm.model_, iris.X, y, asked=asked)
    assert many.status is Status.UNFIT
    assert many.above.size >= 10
    assert not asked


def test_a_polish_has_a_limit(cloud):
    """Labels without any structure: it would go on for a long time."""
    clf = LMMClassifier(6, standardize=False, polish=None, random_state=0).fit(*cloud)
    problem = TrainingProblem(cloud.X, cloud.y, rng=np.random.default_rng(0))
    free = Polish().run(clf.model_, problem, TrainingMonitor())
    short = Polish(visits=200).run(clf.model_, problem, TrainingMonitor())
    assert short.steps <= 200 + 45 < free.steps
    assert short.status is Status.GIVEN_UP


def test_a_polish_that_was_begun_is_kept(iris):
    """A flower under two labels can never fit; the others do."""
    X, y = np.vstack([iris.X, iris.X[:1]]), np.append(iris.y, 1)
    warm = LMMClassifier(30, standardize=False, polish=None, random_state=0).fit(X, y)
    assert (warm.model_.losses(X, y) >= LOG2).sum() > 2
    kept = polish_if(warm.model_, X, y)
    assert kept.status is Status.UNFIT
    assert set(kept.above) <= {0, 150}
    assert kept.above.size >= 1
    assert kept.n_iter > 0


class Nudge:
    """In place of a polish: the first class gets a little more, and so many rows are left."""

    level = LOG2

    def __init__(self, more, left):
        self.more, self.left = more, left

    def run(self, model, problem, monitor):
        moved = model.copy()
        moved.W2[:, 0] += self.more
        return SimpleNamespace(model=moved, above=np.arange(self.left))


def worth(model, data, more, monitor=None, left=0):
    def train(like, rows, length, rng, quiet):
        assert like is model
        assert len(rows.y) < len(data.y)
        return model

    problem = TrainingProblem(data.X, data.y, rng=np.random.default_rng(1))
    return worth_polishing(train, lambda n, length: Nudge(more, left), model, problem,
                           monitor or TrainingMonitor())  # fmt: skip


def test_held_out_rows_say_whether_a_polish_costs_anything(iris):
    model = LMMClassifier(6, standardize=False, polish=None, random_state=0).fit(*iris).model_
    Z = model.scores(iris.X).astype(float)

    t = temperature(Z, iris.y)

    def losses(Z):
        p = softmax(t * Z, axis=1)
        return -np.log(p[np.arange(150), iris.y])

    answers = []
    for more in (0.0, 0.05, -0.1, 0.5, -0.7, 1.0, 2.0, -4.0):
        moved = Z + np.array([more, 0.0, 0.0])
        dearer = losses(moved) - losses(Z)
        wrong = 1.0 * (moved.argmax(axis=1) != iris.y) - (Z.argmax(axis=1) != iris.y)
        costs = any(d.mean() > d.std() / np.sqrt(150) for d in (dearer, wrong))
        answers.append(worth(model, iris, more))
        assert answers[-1] == (not costs), more
    assert set(answers) == {True, False}
    assert answers[0]
    # One that leaves most of what is above the level there is for nothing.
    assert not worth(model, iris, 0.0, left=150)


def test_what_cannot_be_held_out_says_nothing(iris):
    model = LMMClassifier(3, standardize=False, polish=None, random_state=0).fit(*iris).model_
    one_of_each = SimpleNamespace(X=iris.X[[0, 50, 100]], y=np.arange(3))
    assert not worth(model, one_of_each, 0.0)
    interrupted = TrainingMonitor()
    interrupted.interrupt()
    assert not worth(model, iris, 0.0, interrupted)
