"""When work is done without a kernel, and when it is worth compiling one."""

import numpy as np
import pytest

from maxplus._compile import patience
from maxplus._compile.jit import interpreted, njit
from maxplus._compile.patience import PATIENCE, is_sooner, soonest, use_kernels
from processes import run_fresh


class Kernel:
    """One that nobody has compiled."""

    signatures = ()


@pytest.fixture(autouse=True)
def rested(monkeypatch):
    """Nothing has been done yet, and no kernel is on the disk."""
    monkeypatch.setattr(patience._Tally, "additions", 0)
    monkeypatch.setattr(patience, "_is_on_disk", lambda kernel: False)


@njit
def plus_one(x):
    return x + 1


@njit
def only_compiled(x):
    raise AssertionError


@njit
def fill(x, out):
    for i in range(x.size):
        out[i] = plus_one(x[i]) + only_compiled(x[i])


def test_much_work_is_for_kernels():
    assert is_sooner(PATIENCE, Kernel)
    assert not is_sooner(1, Kernel)


def test_a_kernel_that_is_at_hand_is_used(monkeypatch):
    assert not is_sooner(1, type("Compiled", (), {"signatures": [()]}))
    monkeypatch.setattr(patience, "_is_on_disk", lambda kernel: True)
    assert not is_sooner(1, Kernel)


def test_patience_ends_where_a_compilation_would_have_paid():
    assert sum(is_sooner(PATIENCE // 10, Kernel) for _ in range(20)) == 10


def test_kernels_can_be_asked_for():
    use_kernels()
    assert not is_sooner(1, Kernel)


def test_interpreted_all_the_way_down():
    x, out = np.arange(3.0), np.empty(3)
    interpreted(fill, only_compiled=lambda x: 10.0)(x, out)
    np.testing.assert_array_equal(out, x + 11.0)
    assert not fill.signatures
    assert not plus_one.signatures


def test_interpreted_as_long_as_that_is_sooner():
    assert soonest(1, plus_one) is not plus_one
    assert soonest(1, plus_one)(1) == 2
    assert soonest(PATIENCE, plus_one) is plus_one


FIRST_FIT = """
import json, os, sys
from dataclasses import replace
os.environ["NUMBA_CACHE_DIR"] = sys.argv[1]
import numpy as np
from sklearn.datasets import load_iris
from maxplus import LMMClassifier
from maxplus.certify._bounds_kernels import bounds
from maxplus.explain import Domain, single_flips
from maxplus.explain._term_kernels import all_term_flips, nearest_term_flips
from maxplus.models._lmm_kernels import hidden_rows
X, y = load_iris(return_X_y=True)
# With a column of whole numbers, some flips are looked for one row at a time.
domain = replace(Domain.free(4).within(0.0, 500.0), whole=np.array([True, False, False, False]))
clf = LMMClassifier(12, polish="log2", warmup_epochs=1, random_state=0).fit(X, y)
assert len(clf.polish_losses_) > 1
clf.certify(X, y, 0.1), clf.explain(X[:2]), clf.model_.hidden(X[:2])
single_flips(clf.model_, X[:2], domain)
kernels = bounds.serial, nearest_term_flips.serial, all_term_flips, hidden_rows
print(json.dumps([len(kernel.signatures) for kernel in kernels]))
"""


@pytest.mark.slow
def test_a_first_small_table_waits_for_few_kernels(tmp_path):
    assert run_fresh(FIRST_FIT, tmp_path) == [0] * 4
