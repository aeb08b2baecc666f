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
        for small in (_lmm_small.SMALL, 0):
            patch.setattr(_lmm_small, "SMALL", small)
            patch.setattr(views, "SMALL", small)
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


def test_little_work_compiles_nothing(monkeypatch):
    """Iris is scored before a compiler would have been loaded."""
    monkeypatch.setattr("maxplus.models._lmm_kernels.scores_serial", None)
    monkeypatch.setattr("maxplus.models._lmm_kernels.count_wins", None)
    rng = np.random.default_rng(0)
    model = LMM(rng.normal(size=8), rng.normal(size=(8, 30)), rng.normal(size=(30, 3)))
    X = rng.normal(size=(150, 4))
    assert model.scores(X).shape == (150, 3)
    assert model.wins(X).sum() == 450
    with pytest.raises(TypeError):
        model.scores(np.repeat(X, 10, axis=0))
