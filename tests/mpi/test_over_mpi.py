"""The MPI communicator: messages, shared memory, and the end of ranks."""

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


def test_a_team_carries_messages(comm):
    with maxplus.distributed.use_mpi(comm) as team:
        assert (team.rank, team.size) == (comm.rank, comm.size)
        assert team.allgather(str(team.rank)) == [str(r) for r in range(team.size)]
        assert team.bcast(team.rank) == 0
        # Rank 1 has no rows.
        rows = np.full((0 if team.rank == 1 else team.rank + 2, 3), team.rank, np.float32)
        whole = np.concatenate(comm.allgather(rows))
        np.testing.assert_array_equal(team.allgatherv(rows), whole)
        collected = team.gather(rows)
        np.testing.assert_array_equal(collected, whole if team.is_first else whole[:0])
        own = np.random.default_rng(team.rank).normal(size=(5, 2)).astype(np.float32)
        total, *others = comm.allgather(own)
        for other in others:
            total = total + other
        np.testing.assert_array_equal(team.sum(own), total)
        numbers = np.where(np.arange(2 * team.size) % team.size == team.rank, -0.1, 0.0)
        team.allreduce_or(numbers)
        np.testing.assert_array_equal(numbers, np.full(2 * team.size, -0.1))
        counts = team.nearby(1)
        shared = team.shared((64 + sum(counts),))
        shared[team.place] = team.place + 1.0
        comm.Barrier()
        assert shared[: len(counts)].tolist() == [place + 1.0 for place in range(len(counts))]


@pytest.mark.parametrize("is_crowded", [False, True])
def test_ranks_meet_where_there_are_processors_for_all_and_where_not(comm, is_crowded):
    with maxplus.distributed.use_mpi(comm) as team:
        team._is_crowded = is_crowded
        for n in (1, 43, 43, 7) * 50:
            own = np.random.default_rng((team.rank, n)).normal(size=n)
            heard = np.empty((team.size, n))
            team.meet(own, heard)
            for rank, told in enumerate(heard):
                np.testing.assert_array_equal(told, np.random.default_rng((rank, n)).normal(size=n))


def test_large_sums_are_added_in_the_order_of_ranks(comm):
    with maxplus.distributed.use_mpi(comm) as team:
        for k, n in enumerate((30_000, 30_000, 70_001, 30_000, 5) * 4):
            dtype = (np.float32, np.float64)[k // 5 % 2]
            each = [
                np.random.default_rng((rank, k)).normal(size=n).astype(dtype)
                for rank in range(team.size)
            ]
            total, *others = each
            for other in others:
                total = total + other
            np.testing.assert_array_equal(team.sum(each[team.rank]), total)


def test_large_rows_travel_in_parts(comm, monkeypatch):
    monkeypatch.setattr("maxplus.distributed.mpi.MOST_BYTES", 100)
    with maxplus.distributed.use_mpi(comm) as team:
        rows = np.arange(200.0 + team.rank).reshape(-1, 1) + 1000 * team.rank
        whole = np.concatenate(comm.allgather(rows))
        np.testing.assert_array_equal(team.allgatherv(rows), whole)
        collected = team.gather(rows)
        np.testing.assert_array_equal(collected, whole if team.is_first else whole[:0])


@pytest.mark.parametrize("options", [{}, {"objective": "top-k", "top_k": 5}], ids=["max", "top-k"])
def test_a_fit_is_that_of_one_process(comm, iris, options):
    def fit(X, y):
        return SubgradientLMMClassifier(12, max_iter=200, random_state=3, **options).fit(X, y)

    X, y = iris
    alone = fit(X, y)
    part = split(len(y), comm.size)[comm.rank]
    with maxplus.distributed.use_mpi(comm):
        clf = fit(X[part], y[part])
    for name in ("W0_", "W1_", "W2_", "unit_wins_", "prototypes_", "feature_importances_"):
        np.testing.assert_array_equal(getattr(clf, name), getattr(alone, name), err_msg=name)
    for name in alone.history_:
        np.testing.assert_array_equal(clf.history_[name], alone.history_[name])


def test_different_ranks_are_refused_by_all(comm, iris):
    X, y = iris
    with (
        pytest.raises(DifferentRanksError, match="number of features"),
        maxplus.distributed.use_mpi(comm),
    ):
        SubgradientLMMClassifier(4, max_iter=2).fit(X[:, : 4 - comm.rank % 2], y)


def test_two_sparse_engines_of_a_team_train_as_if_alone(comm, iris):
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


def test_closed_teams_give_communicators_and_windows_back(comm):
    """An MPI library has room for about 2,000 of them."""
    for _ in range(1_100):
        team = MPICommunicator(comm)
        team.shared((8,))[team.place] = 1.0
        team.close()


def test_sparse_engine_refuses_to_run_after_its_team_is_closed(comm, iris):
    X, y = iris
    part = split(len(y), comm.size)[comm.rank]
    with maxplus.distributed.use_mpi(comm):
        engine = SparseEngine(
            start_at(X, y, 12), TrainingProblem(X[part], y[part], MaxLoss(), constant(0.02))
        )
    with pytest.raises(RuntimeError):
        train(engine, 40)
