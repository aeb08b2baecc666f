"""What NumPy and Python do, where that is little, beside the kernels that do all other work."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explained import smooth_models, tied_models
from maxplus._compile import patience
from maxplus.certify import bounds, box_bounds
from maxplus.explain import single_feature_flips
from maxplus.models import LMM, lmm
from maxplus.training import TrainingProblem
from maxplus.training.monitor import TrainingMonitor
from maxplus.training.stages import Polish


def both(ask):
    """What is answered by NumPy, and by the kernels."""
    with pytest.MonkeyPatch.context() as patch:
        answers = []
        for by_numpy in (True, False):
            for module in (patience, lmm, bounds):
                patch.setattr(module, "is_sooner", lambda *_, yes=by_numpy: yes)
            answers.append(ask())
    return answers


def assert_same_bits(ours, theirs):
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(ours, theirs)


def numbers(rng, kind, dtype):
    """Few different ones, so that there are ties; all different; some whose products overflow."""
    draw = {
        "ties": lambda *shape: rng.integers(-2, 3, size=shape),
        "all different": lambda *shape: rng.normal(size=shape),
        "overflow": lambda *shape: rng.choice([-1.0, 0.0, 1e30, -3e37], size=shape),
    }[kind]
    return lambda *shape: draw(*shape).astype(dtype)


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    kind=st.sampled_from(["ties", "all different", "overflow"]),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_numpy_and_kernels_answer_alike(seed, kind, dtype):
    rng = np.random.default_rng(seed)
    draw = numbers(rng, kind, dtype)
    P, H, C, N = rng.integers([1, 1, 2, 0], [5, 9, 5, 12])
    model = LMM(draw(2 * P), draw(2 * P, H), draw(H, C))
    X = draw(N, P)
    for ask in (model.hidden, model.scores, model.wins):
        assert_same_bits(*both(lambda ask=ask: ask(X)))
    for ours, theirs in zip(*both(lambda: model.active_path(X)), strict=True):
        assert_same_bits(ours, theirs)


@settings(deadline=None)
@given(tied_models(), st.sampled_from([0.0, 0.5, np.inf]), st.booleans())
def test_bounds_are_the_same(case, eps, rooted):
    model, X = case
    scale = np.ones(model.n_features)
    # Nothing moves a feature whose scale is 0, however large eps is.
    scale[0] = 0.0 if rooted else 1.0
    for ours, theirs in zip(*both(lambda: box_bounds(model, X, eps, scale)), strict=True):
        assert_same_bits(ours, theirs)


@settings(deadline=None)
@given(st.one_of(smooth_models(), smooth_models(np.float32)))
def test_flips_are_the_same(case):
    model, X, low, high = case
    answers = both(lambda: single_feature_flips(model, X, low, high))
    for ours, theirs in zip(*answers, strict=True):
        assert_same_bits(ours, theirs)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(tied_models(), st.integers(0, 2**31))
def test_a_polish_takes_the_same_steps(case, seed):
    model, X = case
    y = np.random.default_rng(seed).integers(0, model.n_classes, len(X))

    def polished():
        task = TrainingProblem(X, y, rng=np.random.default_rng(seed))
        return Polish(0.1, max_rounds=4).run(model, task, TrainingMonitor())

    ours, theirs = both(polished)
    assert ours.steps == theirs.steps
    assert_same_bits(ours.losses, theirs.losses)
    for name, W in ours.model.weights_by_name().items():
        assert_same_bits(W, theirs.model.weights_by_name()[name])
