"""LMMs made of boxes, folded, scaled, and in another float type."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from maxplus.models import LMM
from model_cases import CASES, FLOATS, C, H, P, normal_model
from strategies import SEEDS, quick


def naive_boxes(centre, spread, heights, slope):
    """Reference implementation of the weights of boxes."""
    W0 = np.empty(2 * centre.shape[1], centre.dtype)
    W0[0::2], W0[1::2] = slope, -slope
    W1T = np.empty((len(centre), W0.size), centre.dtype)
    W1T[:, 0::2], W1T[:, 1::2] = slope * (spread - centre), slope * (spread + centre)
    return W0, W1T.T, heights.astype(centre.dtype)


@FLOATS
@quick(40)
@given(seed=SEEDS, slope=st.floats(1e-3, 1e3))
def test_from_boxes_sets_documented_weights(dtype, seed, slope):
    rng = np.random.default_rng(seed)
    centre = (rng.normal(size=(H, P)) * 10.0 ** rng.integers(-6, 6, size=P)).astype(dtype)
    spread = rng.exponential(size=(H, P)).astype(dtype) * (rng.random((H, P)) < 0.7)
    heights, zero = rng.normal(size=(H, C)), np.zeros(1, dtype)
    for got, expected in (
        (
            LMM.from_boxes(centre, spread, heights, slope),
            naive_boxes(centre, spread, heights, slope),
        ),
        (LMM.from_boxes(centre, 0.0, heights, slope), naive_boxes(centre, zero, heights, slope)),
    ):
        for W, naive in zip((got.W0, got.W1, got.W2), expected, strict=True):
            assert_array_equal(W, naive, strict=True)


def test_hidden_unit_of_a_box_is_margin_to_its_walls():
    model = LMM.from_boxes([[1.0, -2.0]], [[0.5, 3.0]], [[7.0, 0.0]], 2.0)
    X = np.array([[1.0, -2.0], [1.25, 0.0], [2.0, -2.0], [1.0, 2.0]])
    assert_array_equal(model.hidden(X)[:, 0], [1.0, 0.5, -1.0, -2.0])
    assert_array_equal(model.W2, [[7.0, 0.0]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 2.0], 0.0, [[1.0]], 1.0), r"centre must have shape \(H, P\); got shape \(2,\)"),
        (([[1.0, 2.0]], [0.0, 0.0, 1.0], [[1.0]], 1.0), r"half_width .*got shape \(3,\)"),
        (([[1.0, 2.0]], 0.0, [[1.0], [2.0]], 1.0), r"W2 \(H, C\)"),
        (([[1.0, 2.0]], 0.0, [[1.0]], -1.0), r"slope must be a finite number >= 0; got -1\.0"),
        (([[1.0, 2.0]], 0.0, [[1.0]], math.nan), r"slope .*got nan"),
        (([[1.0, 2.0]], 0.0, [[1.0]], "steep"), r"slope .*got 'steep'"),
    ],
)
def test_from_boxes_rejects_invalid_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        LMM.from_boxes(*arguments)


@FLOATS
def test_slopes_and_offsets_are_views(dtype):
    model = normal_model(CASES["LMM"], np.random.default_rng(0), (P, H, C), dtype)
    assert model.slopes.shape == (P, 2)
    assert model.offsets.shape == (H, P, 2)
    for p, side, h in ((0, 0, 0), (2, 1, 5), (3, 0, 2)):
        assert model.slopes[p, side] == model.W0[2 * p + side]
        assert model.offsets[h, p, side] == model.W1[2 * p + side, h]
    model.slopes[1, 0] = 7.0
    model.offsets[4, 1, 1] = -8.0
    assert model.W0[2] == 7.0
    assert model.W1[3, 4] == -8.0


@FLOATS
def test_reinitialize_unit_makes_pyramid_at_point(dtype):
    rng = np.random.default_rng(0)
    model = normal_model(CASES["LMM"], rng, (P, H, C), dtype)
    model.slopes[:] = np.abs(model.slopes) * [1, -1]
    before, point = model.copy(), rng.normal(size=P).astype(dtype)
    model.reinitialize_unit(2, point, [1.0, 2.0, 3.0])
    assert_array_equal(model.W1[:, 2], -before.W0 * np.repeat(point, 2), strict=True)
    assert_array_equal(model.W2[2], [1.0, 2.0, 3.0])
    others = np.delete(np.arange(H), 2)
    assert_array_equal(model.W1[:, others], before.W1[:, others])
    assert model.hidden(point[None])[0, 2] == 0.0
    assert (model.hidden(rng.normal(size=(9, P)))[:, 2] < 0).all()
    with pytest.raises(ValueError, match=r"h must be an integer 0\.\.5; got 6"):
        model.reinitialize_unit(H, point, 0.0)
    with pytest.raises(ValueError, match=r"x must hold 4 numbers.*got shape \(3,\)"):
        model.reinitialize_unit(0, point[:3], 0.0)


# -- equivalent models ------------------------------------------------------------------------


@FLOATS
def test_folded_model_has_the_scores_of_scaled_inputs(dtype):
    rng = np.random.default_rng(0)
    model = normal_model(CASES["LMM"], rng, (P, H, C), dtype)
    X, centre, scale = rng.normal(size=(20, P)), rng.normal(size=P), rng.uniform(0.5, 2, size=P)
    folded = model.folded(centre, scale)
    assert folded.dtype == dtype
    tolerance = 30 * np.finfo(dtype).eps
    expected = model.scores((X - centre) / scale)
    assert_allclose(folded.scores(X), expected, rtol=tolerance, atol=tolerance)
    assert not np.shares_memory(folded.W2, model.W2)


@pytest.mark.parametrize(
    ("centre", "scale", "message"),
    [
        (np.zeros(3), np.ones(4), "centre must be a number or 4 numbers"),
        (np.zeros(4), np.ones((4, 1)), "spread must be a number or 4 numbers"),
        (np.zeros(4), [1.0, 1.0, math.nan, 1.0], "spread must be a number or 4 numbers"),
        (np.zeros(4), [1.0, 1.0, 0.0, 1.0], "spread must be finite and > 0"),
        (np.zeros(4), [1.0, 1.0, -1.0, 1.0], "spread must be finite and > 0"),
        (np.full(4, math.inf), np.ones(4), "centre must be finite"),
        (np.zeros(4), np.full(4, 5e-324), "spread is too small"),
        ("a", np.ones(4), "centre must be a number"),
    ],
)
def test_folded_rejects_invalid_maps(centre, scale, message):
    model = normal_model(CASES["LMM"], np.random.default_rng(0), (P, H, C))
    with pytest.raises(ValueError, match=message):
        model.folded(centre, scale)


@FLOATS
def test_scaled_weights_scale_the_scores(dtype):
    rng = np.random.default_rng(0)
    model, X = normal_model(CASES["LMM"], rng, (P, H, C), dtype), rng.normal(size=(20, P))
    # Powers of two are exact, other factors up to rounding.
    assert_array_equal(model.scaled(0.25).scores(X), 0.25 * model.scores(X), strict=True)
    third = model.scaled(np.float64(1 / 3))
    assert third.dtype == dtype
    assert_allclose(third.scores(X), model.scores(X) / 3, rtol=0, atol=10 * np.finfo(dtype).eps)
    assert_array_equal(third.scores(X).argmax(axis=1), model.scores(X).argmax(axis=1))
    for factor in (0.0, -1.0, math.inf, math.nan, "2"):
        with pytest.raises(ValueError, match="factor must be a finite number > 0; got"):
            model.scaled(factor)


def test_astype_converts_weights():
    model = normal_model(CASES["LMM"], np.random.default_rng(0), (P, H, C), np.float32)
    double = model.astype(np.float64)
    assert double.dtype == np.float64
    for name in model.layers:
        assert_array_equal(getattr(double, name), getattr(model, name))
        assert getattr(model.astype(np.float32), name) is getattr(model, name)
