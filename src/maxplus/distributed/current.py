"""The team that trainings belong to, unless they are given another."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any

from maxplus.distributed.team import ALONE, Team

_CURRENT: ContextVar[Team] = ContextVar("team", default=ALONE)


def current() -> Team:
    """Whose rank this is; alone unless `use_mpi` says otherwise.

    Returns
    -------
    Team

    Examples
    --------
    >>> from maxplus.distributed import current
    >>> current().rank, current().size
    (0, 1)
    """
    return _CURRENT.get()


@contextmanager
def using(team: Team) -> Iterator[Team]:
    """Trainings inside belong to this team.

    Parameters
    ----------
    team : Team

    Yields
    ------
    Team
        The same.

    Examples
    --------
    >>> from maxplus.distributed import ALONE, current, using
    >>> with using(ALONE):  # also inside `use_mpi`
    ...     current().is_alone
    True
    """
    token = _CURRENT.set(team)
    try:
        yield team
    finally:
        _CURRENT.reset(token)


@contextmanager
def use_mpi(comm: Any = None) -> Iterator[Team]:
    """Let all ranks of an MPI communicator train one model, each with rows of its own.

    Every rank makes the same calls inside. Classifiers are then fitted on the rows of all ranks,
    those of rank 0 first; every rank has the fitted model in the end, and what belongs to training
    rows (``training_losses_``) for its own. An error on one rank ends all of them.

    Parameters
    ----------
    comm : mpi4py communicator, optional
        All ranks that the program was started with by default.

    Yields
    ------
    Team
        Which rank this is, ``rank`` of ``size``, and what ranks can tell each other.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import maxplus
    >>> X, y = load_iris(return_X_y=True)
    >>> with maxplus.distributed.use_mpi() as team:  # of mpiexec -n 4: each has every fourth flower
    ...     clf = maxplus.SubgradientLMMClassifier(12, max_iter=5, random_state=0)
    ...     clf = clf.fit(X[team.rank :: team.size], y[team.rank :: team.size])
    >>> clf.n_features_in_
    4
    """
    from maxplus.distributed.mpi import MPITeam

    team = MPITeam.of(comm)
    try:
        with using(team):
            team.check_software()
            yield team
    except BaseException as error:
        if not team.fails_alike(error):
            team.end(error)
        if not team.is_first:
            _leave_to_first(error)
        raise
    finally:
        team.close()


def _leave_to_first(error: BaseException) -> None:
    """Should the error end this program, then without a word: rank 0 prints the same one."""
    usual = sys.excepthook

    def hook(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        if value is not error:
            usual(kind, value, trace)

    sys.excepthook = hook
