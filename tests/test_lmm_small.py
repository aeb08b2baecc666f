"""The formulas in NumPy, for little work, beside the kernels that do all other work."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxplus.models import LMM, _lmm_small, views


def both(ask):
    """What is answered by NumPy, and by the kernels."""
    with pytest.MonkeyPatch.context() as patch:
        answers = []
        for by_numpy in (True, False):
            patch.setattr(_lmm_small, "is_sooner", lambda *_, yes=by_numpy: yes)
            patch.setattr(views, "SMALL", 10**9 if by_numpy else 0)
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
    directed=st.booleans(),
)
def test_numpy_and_kernels_answer_alike(seed, kind, dtype, directed):
    rng = np.random.default_rng(seed)
    draw = numbers(rng, kind, dtype)
    P, M, H, C, N = rng.integers([1, 1, 1, 2, 0], [5, 5, 9, 5, 12])
    M = M if directed else P
    model = LMM(draw(2 * M), draw(2 * M, H), draw(H, C), draw(M, P) if directed else None)
    X = draw(N, P)
    assert_same_bits(*both(lambda: model.views(X)))
    # Sums of infinities may be NaN, of which only indices are promised.
    X = X[np.isfinite(model.views(X)).all(axis=1)]
    for ask in (model.scores, model.wins):
        assert_same_bits(*both(lambda ask=ask: ask(X)))
    for ours, theirs in zip(*both(lambda: model.active_path(X)), strict=True):
        assert_same_bits(ours, theirs)


class Kernel:
    """One that nobody has compiled."""

    signatures = ()


@pytest.fixture
def rested(monkeypatch):
    """Nothing has been done yet, and no kernel is on the disk."""
    monkeypatch.setattr(_lmm_small._Tally, "additions", 0)
    monkeypatch.setattr(_lmm_small, "_is_on_disk", lambda kernel: False)
    rng = np.random.default_rng(0)
    return LMM(rng.normal(size=8), rng.normal(size=(8, 30)), rng.normal(size=(30, 3))).weights


def test_much_work_is_for_kernels(rested):
    assert _lmm_small.is_sooner(np.ones((150, 4)), rested, Kernel)
    assert not _lmm_small.is_sooner(np.ones((1500, 4)), rested, Kernel)


def test_a_kernel_that_is_at_hand_is_used(rested, monkeypatch):
    X = np.ones((150, 4))
    monkeypatch.setattr(_lmm_small, "_is_on_disk", lambda kernel: True)
    assert not _lmm_small.is_sooner(X, rested, Kernel)
    monkeypatch.undo()
    compiled = type("Compiled", (), {"signatures": [()]})
    assert not _lmm_small.is_sooner(X, rested, compiled)


def test_patience_ends_where_a_compilation_would_have_paid(rested):
    X = np.ones((150, 4))
    most = _lmm_small.PATIENCE // (150 * 8 * 30)
    used = sum(_lmm_small.is_sooner(X, rested, Kernel) for _ in range(most + 100))
    assert used == most + 1
