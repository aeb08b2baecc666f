"""Distributed training: several ranks give the results of one process."""

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


def start(data, n_hidden=9):
    X, y = data
    chosen = choose_prototypes(y, n_hidden, np.random.default_rng(1))
    return prototype_lmm(X[chosen], y[chosen], int(y.max()) + 1, 2.0, 1.0)


def course(engine_class, data, part, objective, step, n_iter, w0_update_interval):
    X, y = data
    problem = TrainingProblem(
        X[part], y[part], objective, step, w0_update_interval=w0_update_interval
    )
    engine = engine_class(start(data), problem)
    done = train(engine, n_iter)
    return dict(done.history), engine.model.weights_by_name(), engine.best.weights_by_name()


def same(one, other):
    for mine, yours in zip(one, other, strict=True):
        for name, array in mine.items():
            np.testing.assert_array_equal(array, yours[name], err_msg=name)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("objective", [MaxLoss(), TopKLoss(7), TrimmedMaxLoss(7)])
def test_distributed_iterates_equal_one_process(iris, size, objective):
    step, n_iter = two_phase(polyak(0.3), constant(0.02), 60), 120
    expected = course(DenseEngine, iris, slice(None), objective, step, n_iter, 7)
    parts = split(len(iris.y), size, seed=size)
    for found in run_ranks(
        size, lambda r: course(SparseEngine, iris, parts[r], objective, step, n_iter, 7)
    ):
        same(found, expected)


def fitted(clf, names):
    return {name: getattr(clf, name) for name in names}


EXACT = (
    "W0_",
    "W1_",
    "W2_",
    "classes_",
    "unit_activation_counts_",
    "prototypes_",
    "feature_importances_",
)


def fit_part(data, part, weight=None, **options):
    clf = SubgradientLMMClassifier(12, max_iter=80, random_state=3, n_jobs=1, **options)
    own = None if weight is None else weight[part]
    return clf.fit(data.X[part], np.array(["a", "bb", "c"])[data.y[part]], own)


@pytest.mark.parametrize("size", [2, 3])
def test_distributed_fit_equals_one_process(iris, size):
    weight = np.ones(len(iris.y))
    weight[::7] = 0.0
    alone = fit_part(iris, slice(None), weight)
    parts = split(len(iris.y), size)
    for rank, clf in enumerate(run_ranks(size, lambda r: fit_part(iris, parts[r], weight))):
        same([fitted(clf, EXACT), dict(clf.history_)], [fitted(alone, EXACT), alone.history_])
        assert (clf.n_iter_, clf.status_, clf.slope_, clf.max_loss_) == (
            alone.n_iter_,
            alone.status_,
            alone.slope_,
            alone.max_loss_,
        )
        assert clf.mean_loss_ == pytest.approx(alone.mean_loss_, rel=1e-12)
        np.testing.assert_array_equal(clf.training_losses_, alone.training_losses_[parts[rank]])


def test_training_on_three_ranks_resumes_on_two_and_one(iris, tmp_path):
    path, labels = tmp_path / "training.ckpt", np.array(["a", "bb", "c"])[iris.y]
    whole = fit_part(iris, slice(None))

    def begin(rank, parts):
        stop = [Checkpoint(path, every=0.0), lambda progress: progress.iteration > 20]
        fit_part(iris, parts[rank], callbacks=stop)

    def resumed(rank, parts):
        return maxplus.resume(path, iris.X[parts[rank]], labels[parts[rank]])

    parts = split(len(iris.y), 3)
    run_ranks(3, lambda r: begin(r, parts))
    parts = split(len(iris.y), 2, seed=5)
    for clf in run_ranks(2, lambda r: resumed(r, parts)):
        same([fitted(clf, EXACT), dict(clf.history_)], [fitted(whole, EXACT), whole.history_])
    clf = resumed(0, [slice(None)])
    same([fitted(clf, EXACT)], [fitted(whole, EXACT)])


def refused(size, work, kind, match):
    """All ranks refuse, with one and the same error."""
    messages = []

    def one(rank):
        with pytest.raises(kind, match=match) as caught:
            work(rank)
        messages.append(str(caught.value))

    run_ranks(size, one)
    assert len(messages) == size
    assert len(set(messages)) == 1


def test_ranks_with_different_parameters_are_rejected(iris):
    def fit(X, y, **options):
        SubgradientLMMClassifier(4, **{"max_iter": 2, **options}).fit(X, y)

    X, y = iris
    refused(2, lambda r: fit(X[:, : 4 - r], y), DifferentRanksError, "number of features")
    refused(2, lambda r: fit(X.astype(["f8", "f4"][r]), y), DifferentRanksError, "rank 1 has '<f4'")
    refused(
        2,
        lambda r: fit(X, y, slope=[1.0, 2.0][r]),
        DifferentRanksError,
        "same parameter slope; rank 0 has 1.0, rank 1 has 2.0",
    )
    kinds = SubgradientLMMClassifier, LMMClassifier
    refused(
        2, lambda r: kinds[r](4).fit(X, y), DifferentRanksError, "same estimator; rank 0 has 'Su"
    )
    refused(2, lambda r: fit(X, y, max_iter=r), ValueError, "rank 0 of 2: max_iter must be")
    refused(
        2, lambda r: fit([X, X * np.nan][r], y), ValueError, "rank 1 of 2: Input X contains NaN"
    )
    refused(2, lambda r: fit(X, y * 0), ValueError, "one class only")
    refused(3, lambda r: fit(X[:0], y[:0]), ValueError, "no samples")
    refused(2, lambda r: fit(X, y, engine="dense"), ValueError, "is for one process")


def warm(part, data, **options):
    clf = LMMClassifier(12, warmup_epochs=3, random_state=1, n_jobs=1, **options)
    return clf.fit(data.X[part], data.y[part])


START = ("slope_", "scale_")


@pytest.mark.parametrize("options", [{"early_stopping": True}, {"class_weight": "balanced"}])
def test_distributed_warm_up_is_close_to_one_process(few_digits, options):
    alone = warm(slice(None), few_digits, **options)
    parts = split(len(few_digits.y), 3)
    together = run_ranks(3, lambda r: warm(parts[r], few_digits, **options))
    for clf in together:
        # The initial weights are bit-identical; batches differ.
        same([fitted(clf, START)], [fitted(alone, START)])
        same([fitted(clf, ("W0_", "W1_", "W2_"))], [fitted(together[0], ("W0_", "W1_", "W2_"))])
        assert clf.score(*few_digits) > 0.95
        assert clf.loss_curve_[-1] == pytest.approx(alone.loss_curve_[-1], rel=0.2, abs=0.02)
        assert clf.max_loss_ == together[0].max_loss_
    again = run_ranks(3, lambda r: warm(parts[r], few_digits, **options))
    same([fitted(again[0], ("W1_", "W2_"))], [fitted(together[0], ("W1_", "W2_"))])


def test_distributed_search_equals_one_process(iris):
    def search(part):
        clf = LMMClassifier(warmup_epochs=8, polish=None, random_state=1, n_jobs=1)
        return clf.fit(iris.X[part], iris.y[part])

    alone = search(slice(None))
    parts = split(len(iris.y), 2)
    for clf in run_ranks(2, lambda r: search(parts[r])):
        same([clf.search_], [alone.search_])
        same([clf.model_.weights_by_name()], [alone.model_.weights_by_name()])


@pytest.mark.parametrize("size", [2, 3])
def test_distributed_polish_equals_one_process(cloud, size):
    X, y = cloud
    # Two labels for one point: one sample cannot be fitted.
    X, y = np.concatenate([X, X[:1]]), np.append(y, (y[0] + 1) % 3)
    model = start((X, y), 20)

    def polish(part):
        problem = TrainingProblem(X[part], y[part], rng=np.random.default_rng(5))
        with TrainingMonitor() as monitor:
            return Polish(LOG2, max_rounds=9).run(model, problem, monitor)

    alone = polish(slice(None))
    assert alone.above.size
    assert alone.steps > 50
    parts = split(len(y), size, seed=3)
    for done in run_ranks(size, lambda r: polish(parts[r])):
        same([done.model.weights_by_name()], [alone.model.weights_by_name()])
        same([done.arrays], [alone.arrays])
        assert (done.status, done.steps) == (alone.status, alone.steps)


def test_polish_decision_is_taken_once_for_all_ranks(few_digits):
    def fit(part):
        return warm(part, few_digits, polish="auto", slope=3.0)

    parts = split(len(few_digits.y), 2)
    first, second = run_ranks(2, lambda r: fit(parts[r]))
    same([fitted(first, ("W1_", "W2_"))], [fitted(second, ("W1_", "W2_"))])
    assert first.status_ == second.status_
    assert first.polish_losses_.size


@pytest.mark.parametrize("options", [{"n_hidden": 9, "polish": "log2"}, {"structure": "shapes"}])
@pytest.mark.parametrize("bootstrap", [False, True])
def test_distributed_ensemble_equals_one_process(iris, bootstrap, options):
    def fit(part):
        network = LMMClassifier(warmup_epochs=20, **options)
        clf = LMMEnsembleClassifier(network, 2, bootstrap=bootstrap, random_state=1, n_jobs=1)
        return clf.fit(iris.X[part], iris.y[part])

    alone = fit(slice(None))
    parts = split(len(iris.y), 2)
    first, second = run_ranks(2, lambda r: fit(parts[r]))
    for clf in (first, second):
        same([clf.model_.weights_by_name()], [alone.model_.weights_by_name()])
        assert clf.scale_.tolist() == alone.scale_.tolist()
        assert clf.max_loss_ == alone.max_loss_
    assert first.score(*iris) > 0.9


def test_regression_over_several_ranks_is_rejected(iris):
    def curve(rank):
        LMMRegressor().fit(iris.X, iris.X[:, 0])

    refused(2, curve, ValueError, "a regression cannot be trained over 2 ranks")


def losses_by_block(engine):
    for size in (1, 2, 5, 3, 4):
        block = Block(size)
        engine.advance(block)
        assert (block.n, block.signal) == (size, Signal.GOES_ON)
        yield block.loss


def one_after_the_other(engines):
    return [[*losses_by_block(engine)] for engine in engines]


def in_turn(engines):
    return list(zip(*zip(*map(losses_by_block, engines), strict=True), strict=True))


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("run", [one_after_the_other, in_turn])
def test_two_sparse_engines_of_a_communicator_do_not_interfere(iris, run, size):
    """They share memory for thresholds: one must not read what another has left there."""
    trained = DenseEngine(start(iris), TrainingProblem(*iris, MaxLoss(), polyak()))
    train(trained, 50)
    models = start(iris), trained.best
    parts = split(len(iris.y), size)

    def engines(part):
        problem = TrainingProblem(iris.X[part], iris.y[part], MaxLoss(), constant(0.02))
        return [SparseEngine(model.copy(), problem) for model in models]

    expected = [np.concatenate([*losses_by_block(engine)]) for engine in engines(slice(None))]
    assert expected[0].min() > expected[1].max()
    for found in run_ranks(size, lambda rank: run(engines(parts[rank]))):
        for blocks, losses in zip(found, expected, strict=True):
            np.testing.assert_array_equal(np.concatenate(blocks), losses)
