"""The MPI communicator: collective operations, shared memory, and errors."""

import numpy as np
import pytest

import maxplus
from maxplus import SubgradientLMMClassifier
from maxplus.distributed import DifferentRanksError
from maxplus.distributed.mpi import MPICommunicator
from maxplus.training import MaxLoss, Status, TrainingProblem, constant, polyak, train
from maxplus.training.engines import SparseEngine
from thread_communicator import split
from trainings import start_at


def test_communicator_sends_messages(comm):
    with maxplus.distributed.use_mpi(comm) as communicator:
        assert (communicator.rank, communicator.size) == (comm.rank, comm.size)
        assert communicator.allgather(str(communicator.rank)) == [
            str(r) for r in range(communicator.size)
        ]
        assert communicator.bcast(communicator.rank) == 0
        # Rank 1 has no rows.
        rows = np.full(
            (0 if communicator.rank == 1 else communicator.rank + 2, 3),
            communicator.rank,
            np.float32,
        )
        whole = np.concatenate(comm.allgather(rows))
        np.testing.assert_array_equal(communicator.allgatherv(rows), whole)
        collected = communicator.gather(rows)
        np.testing.assert_array_equal(collected, whole if communicator.is_root else whole[:0])
        own = np.random.default_rng(communicator.rank).normal(size=(5, 2)).astype(np.float32)
        total, *others = comm.allgather(own)
        for other in others:
            total = total + other
        np.testing.assert_array_equal(communicator.sum(own), total)
        numbers = np.where(
            np.arange(2 * communicator.size) % communicator.size == communicator.rank, -0.1, 0.0
        )
        communicator.allreduce_or(numbers)
        np.testing.assert_array_equal(numbers, np.full(2 * communicator.size, -0.1))
        counts = communicator.allgather_local(1)
        shared = communicator.shared_memory((64 + sum(counts),))
        shared[communicator.local_rank] = communicator.local_rank + 1.0
        comm.Barrier()
        assert shared[: len(counts)].tolist() == [place + 1.0 for place in range(len(counts))]


@pytest.mark.parametrize("is_oversubscribed", [False, True])
def test_rank_exchange_works_with_and_without_a_processor_per_rank(comm, is_oversubscribed):
    with maxplus.distributed.use_mpi(comm) as communicator:
        communicator._is_oversubscribed = is_oversubscribed
        for n in (1, 43, 43, 7) * 50:
            own = np.random.default_rng((communicator.rank, n)).normal(size=n)
            received = np.empty((communicator.size, n))
            communicator.allgather_into(own, received)
            for rank, values in enumerate(received):
                np.testing.assert_array_equal(
                    values, np.random.default_rng((rank, n)).normal(size=n)
                )


def test_sum_adds_large_arrays_in_rank_order(comm):
    with maxplus.distributed.use_mpi(comm) as communicator:
        for k, n in enumerate((30_000, 30_000, 70_001, 30_000, 5) * 4):
            dtype = (np.float32, np.float64)[k // 5 % 2]
            each = [
                np.random.default_rng((rank, k)).normal(size=n).astype(dtype)
                for rank in range(communicator.size)
            ]
            total, *others = each
            for other in others:
                total = total + other
            np.testing.assert_array_equal(communicator.sum(each[communicator.rank]), total)


@pytest.mark.parametrize("dtype", ["f4", "i2", "?", "U5", "M8[s]", "S3"])
@pytest.mark.parametrize("shape", [(), (3,), (0,), (2, 2)])
def test_allgather_and_gather_work_for_any_type_and_shape(comm, dtype, shape):
    with maxplus.distributed.use_mpi(comm) as communicator:
        n = 0 if communicator.rank == 1 else communicator.rank + 2
        numbers = np.arange(n * int(np.prod(shape))) + 100 * communicator.rank
        rows = numbers.astype(dtype).reshape(n, *shape)
        whole = np.concatenate(comm.allgather(rows))
        np.testing.assert_array_equal(communicator.allgatherv(rows), whole, strict=True)
        collected = communicator.gather(rows)
        expected = whole if communicator.is_root else whole[:0]
        np.testing.assert_array_equal(collected, expected, strict=True)


OBJECTIVES = {
    "max": {},
    "top-k": {"objective": "top-k", "top_k": 5},
    "trimmed-max": {"objective": "trimmed-max", "n_trimmed": 5},
}


@pytest.mark.parametrize("options", OBJECTIVES.values(), ids=OBJECTIVES)
def test_mpi_fit_equals_one_process(comm, iris, options):
    def fit(X, y):
        return SubgradientLMMClassifier(12, max_iter=200, random_state=3, **options).fit(X, y)

    X, y = iris
    alone = fit(X, y)
    part = split(len(y), comm.size)[comm.rank]
    with maxplus.distributed.use_mpi(comm):
        clf = fit(X[part], y[part])
    for name in (
        "W0_",
        "W1_",
        "W2_",
        "unit_activation_counts_",
        "prototypes_",
        "feature_importances_",
    ):
        np.testing.assert_array_equal(getattr(clf, name), getattr(alone, name), err_msg=name)
    for name in alone.history_:
        np.testing.assert_array_equal(clf.history_[name], alone.history_[name])


def test_different_parameters_raise_on_all_ranks(comm, iris):
    X, y = iris
    with (
        pytest.raises(DifferentRanksError, match="number of features"),
        maxplus.distributed.use_mpi(comm),
    ):
        SubgradientLMMClassifier(4, max_iter=2).fit(X[:, : 4 - comm.rank % 2], y)


def test_two_sparse_engines_of_a_communicator_do_not_interfere(comm, iris):
    X, y = iris
    part = split(len(y), comm.size)[comm.rank]
    trained = SparseEngine(start_at(X, y, 12), TrainingProblem(X, y, MaxLoss(), polyak()))
    train(trained, 200)

    def engines(own):
        problem = TrainingProblem(X[own], y[own], MaxLoss(), constant(0.02))
        return [SparseEngine(model, problem) for model in (start_at(X, y, 12), trained.best.copy())]

    expected = [train(engine, 41) for engine in engines(slice(None))]
    assert expected[0].history["loss"].min() > expected[1].history["loss"].max()
    with maxplus.distributed.use_mpi(comm):
        found = [train(engine, 41) for engine in engines(part)]
    for one, other in zip(found, expected, strict=True):
        assert one.status is other.status is Status.MAX_ITER
        for name, column in other.history.items():
            np.testing.assert_array_equal(one.history[name], column, err_msg=name)


def test_close_frees_communicators_and_windows(comm):
    """MPI libraries support about 2,000 communicators."""
    for _ in range(1_100):
        communicator = MPICommunicator(comm)
        communicator.shared_memory((8,))[communicator.local_rank] = 1.0
        communicator.close()


def test_sparse_engine_raises_after_its_communicator_is_closed(comm, iris):
    X, y = iris
    part = split(len(y), comm.size)[comm.rank]
    with maxplus.distributed.use_mpi(comm):
        engine = SparseEngine(
            start_at(X, y, 12), TrainingProblem(X[part], y[part], MaxLoss(), constant(0.02))
        )
    with pytest.raises(RuntimeError):
        train(engine, 40)
