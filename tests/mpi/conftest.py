"""Tests on several ranks; `make test-mpi` runs them with time limits.

A launcher starts the ranks of `test_over_mpi.py`; the tests of `test_launched.py` start ranks.
"""

import os
import sys
from pathlib import Path

import pytest

from maxplus.distributed.communicator import is_launched

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

collect_ignore = [
    name
    for name, wanted in (
        ("test_over_mpi.py", is_launched()),
        ("test_launched.py", "MAXPLUS_LAUNCHES" in os.environ),
    )
    if not wanted
]


def world():
    from mpi4py import MPI

    return MPI.COMM_WORLD


@pytest.fixture(scope="session")
def comm():
    """Return the communicator of all ranks."""
    return world()


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    # Only rank 0 prints.
    if is_launched() and world().rank:
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        config.pluginmanager.unregister(reporter)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.failed and is_launched():
        # Terminate the other ranks, which wait for this rank.
        print(f"rank {world().rank}: {item.nodeid}\n{report.longreprtext}", file=sys.stderr)
        sys.stderr.flush()
        world().Abort(1)
