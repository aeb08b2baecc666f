"""Distributed training: results of several ranks equal those of one process."""

import numpy as np
import pytest

import maxplus
from maxplus import LMMClassifier, LMMEnsembleClassifier, LMMRegressor, SubgradientLMMClassifier
from maxplus.distributed import DifferentRanksError
from maxplus.io import Checkpoint
from maxplus.models import LOG2
from maxplus.models.initialization import choose_prototypes, prototype_lmm
from maxplus.training import (
    MaxLoss,
    Polish,
    TopKLoss,
    TrainingMonitor,
    TrainingProblem,
    TrimmedMaxLoss,
    constant,
    polyak,
    train,
    two_phase,
)
from maxplus.training.engines import DenseEngine, SparseEngine
from maxplus.training.result import Block, Signal
from thread_communicator import run_ranks, split
from trainings import assert_same_arrays, assert_same_training, assert_same_weights

ALL = slice(None)
WEIGHTS = ("W0_", "W1_", "W2_")


def start(data, n_hidden=9):
    X, y = data
    chosen = choose_prototypes(y, n_hidden, np.random.default_rng(1))
    return prototype_lmm(X[chosen], y[chosen], int(y.max()) + 1, 2.0, 1.0)


def run_parts(size, fit, n_rows, **options):
    """Return the results of ``fit`` on the rows of each rank."""
    parts = split(n_rows, size, **options)
    return run_ranks(size, lambda rank: fit(parts[rank]))


def assert_same_attributes(found, expected, names):
    for name in names:
        np.testing.assert_array_equal(
            getattr(found, name), getattr(expected, name), err_msg=name, strict=True
        )


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("objective", [MaxLoss(), TopKLoss(7), TrimmedMaxLoss(7)])
def test_distributed_iterates_equal_one_process(iris, size, objective):
    rule = two_phase(polyak(0.3), constant(0.02), 60)

    def trained(part, kind=SparseEngine):
        problem = TrainingProblem(iris.X[part], iris.y[part], objective, rule, 7)
        engine = kind(start(iris), problem)
        return engine, train(engine, 120)

    expected = trained(ALL, DenseEngine)
    for found in run_parts(size, trained, len(iris.y), seed=size):
        assert_same_training(*found, *expected)


EXACT = (
    *WEIGHTS,
    "classes_",
    "unit_activation_counts_",
    "prototypes_",
    "feature_importances_",
    "n_iter_",
    "status_",
    "slope_",
    "max_loss_",
)
LABELS = np.array(["a", "bb", "c"])


def fit_part(data, part, weight=None, **options):
    clf = SubgradientLMMClassifier(12, max_iter=80, random_state=3, n_jobs=1, **options)
    return clf.fit(data.X[part], LABELS[data.y[part]], None if weight is None else weight[part])


@pytest.mark.parametrize("size", [2, 3])
def test_distributed_fit_equals_one_process(iris, size):
    weight = np.ones(len(iris.y))
    weight[::7] = 0.0
    expected = fit_part(iris, ALL, weight)
    parts = split(len(iris.y), size)
    for part, clf in zip(
        parts, run_ranks(size, lambda rank: fit_part(iris, parts[rank], weight)), strict=True
    ):
        assert_same_attributes(clf, expected, EXACT)
        assert_same_arrays(clf.history_, expected.history_)
        assert clf.mean_loss_ == pytest.approx(expected.mean_loss_, rel=1e-12)
        np.testing.assert_array_equal(clf.training_losses_, expected.training_losses_[part])


def test_training_on_three_ranks_resumes_on_two_and_one(iris, tmp_path):
    path, expected = tmp_path / "training.ckpt", fit_part(iris, ALL)

    def begin(part):
        stop = [Checkpoint(path, every=0.0), lambda progress: progress.iteration > 20]
        fit_part(iris, part, callbacks=stop)

    def resume(part):
        return maxplus.resume(path, iris.X[part], LABELS[iris.y[part]])

    run_parts(3, begin, len(iris.y))
    for clf in [*run_parts(2, resume, len(iris.y), seed=5), resume(ALL)]:
        assert_same_attributes(clf, expected, EXACT)
        assert_same_arrays(clf.history_, expected.history_)


def assert_all_ranks_raise(size, work, kind, match):
    """Check that all ranks raise an error with the same message."""
    messages = []

    def raise_on(rank):
        with pytest.raises(kind, match=match) as caught:
            work(rank)
        messages.append(str(caught.value))

    run_ranks(size, raise_on)
    assert len(messages) == size
    assert len(set(messages)) == 1


def subgradient(X, y, **options):
    return SubgradientLMMClassifier(4, **{"max_iter": 2, **options}).fit(X, y)


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (lambda X, y, rank: subgradient(X[:, : 4 - rank], y), "number of features"),
        (lambda X, y, rank: subgradient(X.astype(["f8", "f4"][rank]), y), "rank 1 has '<f4'"),
        (
            lambda X, y, rank: subgradient(X, y, slope=[1.0, 2.0][rank]),
            "same parameter slope; rank 0 has 1.0, rank 1 has 2.0",
        ),
        (
            lambda X, y, rank: (SubgradientLMMClassifier, LMMClassifier)[rank](4).fit(X, y),
            "same estimator; rank 0 has 'Su",
        ),
    ],
)
def test_ranks_with_different_parameters_are_rejected(iris, fit, message):
    assert_all_ranks_raise(2, lambda rank: fit(*iris, rank), DifferentRanksError, message)


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (lambda X, y, rank: subgradient(X, y, max_iter=rank), "rank 0 of 2: max_iter must be"),
        (lambda X, y, rank: subgradient([X, X * np.nan][rank], y), "rank 1 of 2: Input X contains"),
        (lambda X, y, rank: subgradient(X, y * 0), "one class only"),
        (lambda X, y, rank: subgradient(X[:0], y[:0]), "no samples"),
        (lambda X, y, rank: subgradient(X, y, engine="dense"), "is for one process"),
        (
            lambda X, y, rank: LMMRegressor().fit(X, X[:, 0]),
            "a regressor cannot be trained on 2 MPI ranks",
        ),
    ],
)
def test_errors_are_raised_on_all_ranks(iris, fit, message):
    assert_all_ranks_raise(2, lambda rank: fit(*iris, rank), ValueError, message)


def warm(data, part, **options):
    clf = LMMClassifier(12, warmup_epochs=3, random_state=1, n_jobs=1, **options)
    return clf.fit(data.X[part], data.y[part])


@pytest.mark.parametrize("options", [{"early_stopping": True}, {"class_weight": "balanced"}])
def test_distributed_warm_up_is_close_to_one_process(few_digits, options):
    def fit(part):
        return warm(few_digits, part, **options)

    expected = fit(ALL)
    classifiers, again = (run_parts(3, fit, len(few_digits.y)) for _ in range(2))
    for clf in [*classifiers, *again]:
        # The initial weights are bit-identical; batches differ.
        assert_same_attributes(clf, expected, ("slope_", "scale_"))
        assert_same_attributes(clf, classifiers[0], (*WEIGHTS, "max_loss_"))
        assert clf.score(*few_digits) > 0.95
        assert clf.loss_curve_[-1] == pytest.approx(expected.loss_curve_[-1], rel=0.2, abs=0.02)


def test_distributed_search_equals_one_process(iris):
    def search(part):
        clf = LMMClassifier(warmup_epochs=8, polish=None, random_state=1, n_jobs=1)
        return clf.fit(iris.X[part], iris.y[part])

    expected = search(ALL)
    for clf in run_parts(2, search, len(iris.y)):
        assert_same_arrays(clf.search_, expected.search_)
        assert_same_arrays(clf.model_.weights_by_name(), expected.model_.weights_by_name())


@pytest.mark.parametrize("size", [2, 3])
def test_distributed_polish_equals_one_process(cloud, size):
    X, y = cloud
    # Two equal points with different labels: one sample cannot be fitted.
    X, y = np.concatenate([X, X[:1]]), np.append(y, (y[0] + 1) % 3)
    model = start((X, y), 20)

    def polish(part):
        problem = TrainingProblem(X[part], y[part], rng=np.random.default_rng(5))
        with TrainingMonitor() as monitor:
            return Polish(LOG2, max_rounds=9).run(model, problem, monitor)

    expected = polish(ALL)
    assert expected.above.size
    assert expected.steps > 50
    for found in run_parts(size, polish, len(y), seed=3):
        assert_same_weights(found.model, expected.model)
        assert_same_arrays(found.arrays, expected.arrays)
        assert (found.status, found.steps) == (expected.status, expected.steps)


def test_all_ranks_take_the_same_decision_about_the_polish(few_digits):
    def fit(part):
        return warm(few_digits, part, polish="auto", slope=3.0)

    first, second = run_parts(2, fit, len(few_digits.y))
    assert_same_attributes(first, second, (*WEIGHTS, "status_"))
    assert first.polish_losses_.size


@pytest.mark.parametrize("options", [{"n_hidden": 9, "polish": "log2"}, {"structure": "shapes"}])
@pytest.mark.parametrize("bootstrap", [False, True])
def test_distributed_ensemble_equals_one_process(iris, bootstrap, options):
    def fit(part):
        network = LMMClassifier(warmup_epochs=20, **options)
        clf = LMMEnsembleClassifier(network, 2, bootstrap=bootstrap, random_state=1, n_jobs=1)
        return clf.fit(iris.X[part], iris.y[part])

    expected = fit(ALL)
    for clf in run_parts(2, fit, len(iris.y)):
        assert_same_arrays(clf.model_.weights_by_name(), expected.model_.weights_by_name())
        assert_same_attributes(clf, expected, ("scale_", "max_loss_"))
        assert clf.score(*iris) > 0.9


def losses_by_block(engine):
    for size in (1, 2, 5, 3, 4):
        block = Block(size)
        engine.advance(block)
        assert (block.n, block.signal) == (size, Signal.CONTINUE)
        yield block.loss


def run_in_sequence(engines):
    return [[*losses_by_block(engine)] for engine in engines]


def run_alternately(engines):
    return list(zip(*zip(*map(losses_by_block, engines), strict=True), strict=True))


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("run", [run_in_sequence, run_alternately])
def test_two_sparse_engines_of_a_communicator_do_not_interfere(iris, run, size):
    """They share memory for thresholds, which is reset at the beginning of each block."""
    trained = DenseEngine(start(iris), TrainingProblem(*iris, MaxLoss(), polyak()))
    train(trained, 50)
    models = start(iris), trained.best

    def engines(part):
        problem = TrainingProblem(iris.X[part], iris.y[part], MaxLoss(), constant(0.02))
        return [SparseEngine(model.copy(), problem) for model in models]

    expected = [np.concatenate([*losses_by_block(engine)]) for engine in engines(ALL)]
    assert expected[0].min() > expected[1].max()
    for found in run_parts(size, lambda part: run(engines(part)), len(iris.y)):
        for blocks, losses in zip(found, expected, strict=True):
            np.testing.assert_array_equal(np.concatenate(blocks), losses)
