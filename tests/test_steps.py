"""Step sizes."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxplus.training.steps import constant, paper_alpha, polyak, step_size, two_phase
from strategies import quick

LATE = 10**9


@pytest.mark.parametrize("t", [0, 1, LATE])
@pytest.mark.parametrize(
    ("target", "loss", "squared_norm", "expected"),
    [(0.0, 6.0, 3.0, 2.0), (1.5, 6.0, 3.0, 1.5), (6.0, 6.0, 3.0, 0.0), (0.0, 0.5, 0.25, 2.0)],
)
def test_polyak(t, target, loss, squared_norm, expected):
    assert step_size(polyak(target), t, loss, squared_norm) == expected


def test_polyak_aims_at_zero_unless_told():
    assert polyak() == polyak(0.0)
    assert polyak().target == 0.0


@pytest.mark.parametrize("t", [0, 1, LATE])
@pytest.mark.parametrize(("loss", "squared_norm"), [(6.0, 3.0), (0.0, 1e-300), (1e300, 1e300)])
def test_constant(t, loss, squared_norm):
    assert step_size(constant(0.25), t, loss, squared_norm) == 0.25


def test_constant_keeps_its_target():
    assert constant(0.25).target == 0.0
    assert constant(0.25, target=0.1).target == 0.1


@pytest.mark.parametrize(
    ("switch", "t", "expected"),
    [
        (100, 0, 2.5),
        (100, 99, 2.5),
        (100, 100, 0.01),
        (100, 101, 0.01),
        (0, 0, 0.01),
        (1, 0, 2.5),
        (1, 1, 0.01),
    ],
)
def test_two_phase_switches_once(switch, t, expected):
    rule = two_phase(polyak(1.0), constant(0.01), switch)
    assert rule.target == 1.0
    assert step_size(rule, t, 6.0, 2.0) == expected


@quick(50)
@given(
    switch=st.integers(0, 1000),
    t=st.integers(0, 2000),
    target=st.floats(0, 1),
    loss=st.floats(0, 100),
    squared_norm=st.floats(1e-3, 1e3),
)
def test_two_phase_is_one_rule_and_then_the_other(switch, t, target, loss, squared_norm):
    first, then = polyak(target), constant(0.3, target)
    expected = (loss - target) / squared_norm if t < switch else 0.3
    assert step_size(two_phase(first, then, switch), t, loss, squared_norm) == expected
    assert step_size(first if t < switch else then, t, loss, squared_norm) == expected


@pytest.mark.parametrize(
    ("learning_rate", "n_classes", "expected"),
    [(1.0, 2, 0.25), (0.5, 2, 0.125), (1.0, 8, 0.125), (0.1, 10, 0.1 / (2 * math.sqrt(20)))],
)
def test_paper_alpha(learning_rate, n_classes, expected):
    assert math.isclose(paper_alpha(learning_rate, n_classes), expected, rel_tol=1e-15)
