"""Step sizes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import typeof

from maxplus.training.steps import (
    FOREVER,
    StepKind,
    constant,
    level,
    paper_alpha,
    polyak,
    step_size,
    two_phase,
)
from strategies import quick

LATE = 10**9


@pytest.mark.parametrize("t", [0, 1, LATE])
@pytest.mark.parametrize(
    ("target", "loss", "squared_norm", "expected"),
    [(0.0, 6.0, 3.0, 2.0), (1.5, 6.0, 3.0, 1.5), (6.0, 6.0, 3.0, 0.0), (0.0, 0.5, 0.25, 2.0)],
)
def test_polyak_step_formula(t, target, loss, squared_norm, expected):
    assert step_size(polyak(target), t, loss, squared_norm) == expected


def test_polyak_target_is_zero_by_default():
    assert polyak() == polyak(0.0)
    assert polyak().target == 0.0


@pytest.mark.parametrize("t", [0, 1, LATE])
@pytest.mark.parametrize(("loss", "squared_norm"), [(6.0, 3.0), (0.0, 1e-300), (1e300, 1e300)])
def test_constant_step_formula(t, loss, squared_norm):
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
def test_two_phase_equals_one_rule_then_the_other(switch, t, target, loss, squared_norm):
    first, then = polyak(target), constant(0.3, target)
    expected = (loss - target) / squared_norm if t < switch else 0.3
    assert step_size(two_phase(first, then, switch), t, loss, squared_norm) == expected
    assert step_size(first if t < switch else then, t, loss, squared_norm) == expected


@pytest.mark.parametrize(
    ("learning_rate", "n_classes", "expected"),
    [(1.0, 2, 0.25), (0.5, 2, 0.125), (1.0, 8, 0.125), (0.1, 10, 0.1 / (2 * math.sqrt(20)))],
)
def test_paper_step_formula(learning_rate, n_classes, expected):
    assert math.isclose(paper_alpha(learning_rate, n_classes), expected, rel_tol=1e-15)


# -- attributes of rules ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "kind", "small_from"),
    [
        (polyak(), StepKind.POLYAK_THEN_CONSTANT, FOREVER),
        (constant(0.1), StepKind.POLYAK_THEN_CONSTANT, 0),
        (two_phase(polyak(), constant(0.1), 30), StepKind.POLYAK_THEN_CONSTANT, 30),
        (level(1000), StepKind.LEVEL, 950),
        (level(0), StepKind.LEVEL, 1),
    ],
)
def test_step_rules_have_kind_and_start_of_small_steps(rule, kind, small_from):
    assert (rule.kind, rule.small_from) == (kind, small_from)


def test_step_size_depends_on_kind_of_rule_not_on_state():
    rule = level(10)
    as_polyak = rule._replace(kind=int(StepKind.POLYAK_THEN_CONSTANT))
    assert step_size(as_polyak, 5, 3.0, 1.0) == 3.0
    assert step_size(rule, 5, 3.0, 1.0) == 1.5


def test_step_rules_have_one_compiled_type():
    rules = (polyak(), constant(0.1), two_phase(polyak(), constant(0.1), 3), level(7))
    assert len({typeof(rule) for rule in rules}) == 1


# -- the rising level -------------------------------------------------------------------------


def slow_level_steps(horizon, target, losses, norms):
    """(level, step) of every iteration, from the whole past each time."""
    results = []
    for t, (loss, norm) in enumerate(zip(losses, norms, strict=True)):
        lowest = min(losses[: t + 1])
        iterations_left = horizon - t if t < horizon else 1
        aim = lowest - iterations_left / horizon * (lowest - target)
        results.append((aim, (loss - aim) / norm))
    return results


@st.composite
def loss_curves(draw):
    """(horizon, target, losses above it, squared norms); the curve may outlast the horizon."""
    target = draw(st.sampled_from([0.0, 0.7]))
    n = draw(st.integers(1, 60))
    above = draw(st.lists(st.floats(1e-9, 20.0), min_size=n, max_size=n))
    norms = draw(st.lists(st.floats(1e-3, 1e3), min_size=n, max_size=n))
    return draw(st.integers(1, 80)), target, [target + a for a in above], norms


@quick(200)
@given(curve=loss_curves())
def test_level_step_matches_the_oracle(curve):
    horizon, target, losses, norms = curve
    rule = level(horizon, target)
    for t, (_, expected) in enumerate(slow_level_steps(*curve)):
        step = step_size(rule, t, losses[t], norms[t])
        # The slow one takes a difference of nearly equal numbers.
        assert math.isclose(step, expected, rel_tol=1e-9, abs_tol=1e-13 / norms[t])
        assert rule.memory[0] == min(losses[: t + 1])


@quick(200)
@given(curve=loss_curves())
def test_level_lies_between_target_and_lowest_loss_and_gap_never_grows(curve):
    horizon, target, losses, norms = curve
    rule = level(horizon, target)
    before = math.inf
    for t, (loss, norm) in enumerate(zip(losses, norms, strict=True)):
        step = step_size(rule, t, loss, norm)
        assert 0.0 < step < math.inf
        gap = step * norm - (loss - rule.memory[0])
        slack = 1e-14 * (1.0 + loss)
        assert -slack <= gap <= min(before, rule.memory[0] - target) + slack
        assert step <= step_size(polyak(target), t, loss, norm) * (1.0 + 1e-14)
        before = gap


@pytest.mark.parametrize("target", [0.0, 0.1, 1.2])
def test_first_level_is_the_target(target):
    assert step_size(level(1000, target), 0, 2.3, 0.7) == step_size(polyak(target), 0, 2.3, 0.7)


def test_level_step_is_positive_just_above_the_target():
    """Computed as a difference, the level would be rounded to the loss."""
    loss = np.nextafter(1.0, 2.0)
    assert step_size(level(10**9, 1.0), 10**9 - 1, loss, 1.0) > 0.0


def test_level_gap_is_constant_after_the_horizon():
    rule = level(128)
    steps = [step_size(rule, t, 3.0, 1.0) for t in (126, 127, 128, LATE)]
    assert steps == [6 / 128, 3 / 128, 3 / 128, 3 / 128]


def test_resumed_level_rule_keeps_lowest_loss():
    assert step_size(level(100, best=2.0), 50, 3.0, 1.0) == 1.0 + 0.5 * 2.0
    # Below the target there is nothing to aim at.
    assert step_size(level(100, 1.0, best=0.5), 50, 3.0, 1.0) == 2.0


def test_rules_without_state_have_empty_state():
    for rule in (polyak(), constant(0.1), two_phase(polyak(), constant(0.1), 3)):
        step_size(rule, 0, 2.0, 1.0)
        assert rule.memory.size == 0


def test_each_training_has_its_own_rule_state():
    rule = level(100)
    own = rule.with_new_memory()
    step_size(own, 0, 2.0, 1.0)
    assert own.memory[0] == 2.0
    assert rule.memory[0] == math.inf
