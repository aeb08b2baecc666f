"""Tests that a launcher of MPI starts on several ranks; `make test-mpi` does, with a time limit."""

import sys
from pathlib import Path

import pytest

from maxplus.ranks.current import is_launched

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

# Alone there is nothing to test.
collect_ignore_glob = [] if is_launched() else ["test_*.py"]


def world():
    from mpi4py import MPI

    return MPI.COMM_WORLD


@pytest.fixture(scope="session")
def comm():
    """All ranks."""
    return world()


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    # Rank 0 speaks for all.
    if is_launched() and world().rank:
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        config.pluginmanager.unregister(reporter)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.failed and is_launched():
        # The others wait for this rank: end them.
        print(f"rank {world().rank}: {item.nodeid}\n{report.longreprtext}", file=sys.stderr)
        sys.stderr.flush()
        world().Abort(1)
