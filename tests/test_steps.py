"""Step sizes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import typeof

from maxplus.training.steps import (
    MAX_ITERATION,
    constant,
    level,
    paper_alpha,
    polyak,
    step_size,
    two_phase,
)
from strategies import quick


@pytest.mark.parametrize("t", [0, 1, 10**9])
@pytest.mark.parametrize(
    ("rule", "loss", "squared_norm", "expected"),
    [
        (polyak(), 6.0, 3.0, 2.0),
        (polyak(1.5), 6.0, 3.0, 1.5),
        (polyak(6.0), 6.0, 3.0, 0.0),
        (polyak(), 0.5, 0.25, 2.0),
        (constant(0.25), 6.0, 3.0, 0.25),
        (constant(0.25, target=0.1), 0.0, 1e-300, 0.25),
        (constant(0.25), 1e300, 1e300, 0.25),
    ],
)
def test_step_formula(rule, t, loss, squared_norm, expected):
    assert step_size(rule, t, loss, squared_norm) == expected


@quick(50)
@given(
    switch=st.integers(0, 1000),
    t=st.integers(0, 2000),
    target=st.floats(0, 1),
    loss=st.floats(0, 100),
    squared_norm=st.floats(1e-3, 1e3),
)
def test_two_phase_equals_first_rule_before_switch_and_second_after(
    switch, t, target, loss, squared_norm
):
    rule = two_phase(polyak(target), constant(0.3), switch)
    for at in (t, switch, max(switch - 1, 0)):
        expected = (loss - target) / squared_norm if at < switch else 0.3
        assert step_size(rule, at, loss, squared_norm) == expected


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (constant(0.1), constant(0.1)),
        (level(7), constant(0.1)),
        (polyak(), polyak()),
        (polyak(), level(7)),
    ],
)
def test_two_phase_rejects_other_rules(first, second):
    with pytest.raises(ValueError, match=r"from polyak and then one from constant; got StepRule"):
        two_phase(first, second, 10)


@pytest.mark.parametrize(
    ("learning_rate", "n_classes", "expected"),
    [(1.0, 2, 0.25), (0.5, 2, 0.125), (1.0, 8, 0.125), (0.1, 10, 0.1 / (2 * math.sqrt(20)))],
)
def test_paper_step_formula(learning_rate, n_classes, expected):
    assert math.isclose(paper_alpha(learning_rate, n_classes), expected, rel_tol=1e-15)


@pytest.mark.parametrize(
    ("rule", "target", "small_from"),
    [
        (polyak(), 0.0, MAX_ITERATION),
        (polyak(0.5), 0.5, MAX_ITERATION),
        (constant(0.1), 0.0, 0),
        (constant(0.1, target=0.2), 0.2, 0),
        (two_phase(polyak(0.3), constant(0.1), 30), 0.3, 30),
        (level(1000), 0.0, 950),
        (level(0, 0.1), 0.1, 1),
    ],
)
def test_step_rules_have_target_and_start_of_small_steps(rule, target, small_from):
    assert (rule.target, rule.small_from) == (target, small_from)


def test_step_rules_have_one_compiled_type():
    rules = (polyak(), constant(0.1), two_phase(polyak(), constant(0.1), 3), level(7))
    assert len({typeof(rule) for rule in rules}) == 1


# -- the rising level -------------------------------------------------------------------------


def level_steps(horizon, target, losses, norms):
    """Return the step of every iteration, computed from all previous losses."""
    steps = []
    for t, (loss, norm) in enumerate(zip(losses, norms, strict=True)):
        lowest = min(losses[: t + 1])
        iterations_left = horizon - t if t < horizon else 1
        aim = lowest - iterations_left / horizon * (lowest - target)
        steps.append((loss - aim) / norm)
    return steps


@st.composite
def loss_curves(draw):
    """(horizon, target, losses above it, squared norms), possibly longer than the horizon."""
    target = draw(st.sampled_from([0.0, 0.7]))
    n = draw(st.integers(1, 60))
    above = draw(st.lists(st.floats(1e-9, 20.0), min_size=n, max_size=n))
    norms = draw(st.lists(st.floats(1e-3, 1e3), min_size=n, max_size=n))
    return draw(st.integers(1, 80)), target, [target + a for a in above], norms


@quick(200)
@given(curve=loss_curves())
def test_level_step_matches_the_oracle_and_gap_never_grows(curve):
    horizon, target, losses, norms = curve
    rule, gap_before = level(horizon, target), math.inf
    for t, (loss, norm, expected) in enumerate(
        zip(losses, norms, level_steps(*curve), strict=True)
    ):
        step = step_size(rule, t, loss, norm)
        # The oracle subtracts nearly equal numbers.
        assert math.isclose(step, expected, rel_tol=1e-9, abs_tol=1e-13 / norm)
        assert rule.memory[0] == min(losses[: t + 1])
        assert 0.0 < step <= step_size(polyak(target), t, loss, norm) * (1.0 + 1e-14)
        gap, slack = step * norm - (loss - rule.memory[0]), 1e-14 * (1.0 + loss)
        assert -slack <= gap <= min(gap_before, rule.memory[0] - target) + slack
        gap_before = gap


def test_level_step_is_positive_just_above_the_target():
    """Computed as a difference, the level would be rounded to the loss."""
    loss = np.nextafter(1.0, 2.0)
    assert step_size(level(10**9, 1.0), 10**9 - 1, loss, 1.0) > 0.0


def test_resumed_level_rule_keeps_lowest_loss():
    assert step_size(level(100, best=2.0), 50, 3.0, 1.0) == 1.0 + 0.5 * 2.0
    # A lowest loss below the target counts as the target.
    assert step_size(level(100, 1.0, best=0.5), 50, 3.0, 1.0) == 2.0


def test_only_level_rules_have_memory_and_each_training_has_its_own():
    for rule in (polyak(), constant(0.1), two_phase(polyak(), constant(0.1), 3)):
        step_size(rule, 0, 2.0, 1.0)
        assert rule.memory.size == 0
    rule = level(100)
    own = rule.with_new_memory()
    step_size(own, 0, 2.0, 1.0)
    assert (own.memory[0], rule.memory[0]) == (2.0, math.inf)
