"""Input validation of models: refused arguments, and indices that are valid even for NaN."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from maxplus.models import LMM, LinearMaxPlus, ZeroHidden
from model_cases import EVERY_MODEL, FLOATS, C, H, P, normal_model

DOORS = ["scores", "active_path", "probabilities", "hidden", "wins", "losses", "mean_subgradient"]


def knock(model, door, X, y=None):
    """Call a public method with these samples, and labels where it takes some."""
    if door in ("losses", "mean_subgradient"):
        return getattr(model, door)(X, np.zeros(len(X), int) if y is None else y)
    return getattr(model, door)(X)


def doors(model):
    return [door for door in DOORS if hasattr(model, door)]


@EVERY_MODEL
@FLOATS
@pytest.mark.parametrize("shape", [(5, 3), (5, 5), (0, 3), (4,), (5, 4, 1), (5, 0)])
def test_methods_refuse_samples_of_wrong_shape(case, dtype, shape):
    model = normal_model(case, np.random.default_rng(0), (P, H, C), dtype)
    for door in doors(model):
        with pytest.raises(ValueError, match=r"X must have 4 columns.* got shape \(") as caught:
            knock(model, door, np.zeros(shape, dtype))
        assert str(shape) in str(caught.value)


@EVERY_MODEL
def test_methods_refuse_samples_that_are_not_numbers(case):
    model = normal_model(case, np.random.default_rng(0), (P, H, C))
    for door in doors(model):
        with pytest.raises(ValueError, match="X must hold real numbers; got dtype"):
            knock(model, door, np.full((2, P), "a"))


@EVERY_MODEL
@FLOATS
def test_methods_accept_zero_samples(case, dtype):
    model = normal_model(case, np.random.default_rng(0), (P, H, C), dtype)
    nobody = np.empty((0, P), dtype)
    assert model.scores(nobody).shape == model.probabilities(nobody).shape == (0, C)
    assert model.losses(nobody, []).shape == (0,)
    path = model.active_path(nobody)
    assert all(part.shape == (0, C) for part in (path if case.model is LMM else [path]))
    if hasattr(model, "hidden"):
        assert model.hidden(nobody).shape == (0, H)
    if hasattr(model, "wins"):
        assert_array_equal(model.wins(nobody), np.zeros(H))


@EVERY_MODEL
def test_methods_accept_lists(case):
    model = normal_model(case, np.random.default_rng(0), (P, H, C))
    X, y = np.random.default_rng(1).normal(size=(5, P)), np.array([0, 1, 2, 1, 0])
    for door in doors(model):
        if door != "mean_subgradient":
            assert_array_equal(knock(model, door, X.tolist(), y.tolist()), knock(model, door, X, y))


@EVERY_MODEL
@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1], r"one label for each of the 3 rows of X; got shape \(2,\)"),
        ([[0], [1], [2]], r"got shape \(3, 1\)"),
        (0, r"got shape \(\)"),
        ([0, 1, 3], r"labels 0\.\.2; got 3"),
        ([0, -1, 2], r"labels 0\.\.2; got -1"),
        (np.array([0, 2**63, 2], np.uint64), r"labels 0\.\.2; got 9223372036854775808"),
        ([0.0, 1.0, 2.0], r"integers 0\.\.2; got dtype float64"),
        (["a", "b", "c"], r"integers 0\.\.2; got dtype <U1"),
    ],
)
def test_losses_refuse_invalid_labels(case, y, message):
    model = normal_model(case, np.random.default_rng(0), (P, H, C))
    X = np.zeros((3, P))
    for door in ("losses", "mean_subgradient"):
        with pytest.raises(ValueError, match=f"y must hold .*{message}"):
            knock(model, door, X, np.asarray(y))


@EVERY_MODEL
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.uint64])
def test_losses_accept_labels_of_any_integer_type(case, kind):
    model = normal_model(case, np.random.default_rng(0), (P, H, C))
    X, y = np.random.default_rng(1).normal(size=(5, P)), np.array([0, 1, 2, 1, 0])
    assert_array_equal(model.losses(X, y.astype(kind)), model.losses(X, y))
    assert_array_equal(model.losses(X, np.repeat(y.astype(kind), 2)[::2]), model.losses(X, y))


@EVERY_MODEL
def test_subgradient_refuses_invalid_sample(case):
    model = normal_model(case, np.random.default_rng(0), (P, H, C))
    for shape in ((3,), (5,), (1, 4), ()):
        with pytest.raises(ValueError, match=r"x must hold 4 numbers.* got shape"):
            model.subgradient(np.zeros(shape), 0)
    for y in (-1, 3, 1.0, "a", None):
        with pytest.raises(ValueError, match=r"y must be an integer 0\.\.2; got"):
            model.subgradient(np.zeros(P), y)
    model.subgradient(np.zeros(P), np.int64(2))


@EVERY_MODEL
def test_mean_subgradient_refuses_weights_of_wrong_length(case):
    model = normal_model(case, np.random.default_rng(0), (P, H, C))
    with pytest.raises(ValueError, match=r"weight must hold one number .* 2 rows"):
        model.mean_subgradient(np.zeros((2, P)), np.array([0, 1]), np.ones(3))


@pytest.mark.parametrize(
    ("model", "shapes"),
    [
        (LMM, [(8,), (6, 5), (5, 3)]),
        (LMM, [(8,), (8, 5), (4, 3)]),
        (LMM, [(4, 2), (8, 5), (5, 3)]),
        (LMM, [(8,), (8, 5), (5,)]),
        (LMM, [(8,), (5, 8), (5, 3)]),
        (LMM, [(7,), (7, 5), (5, 3)]),
        (LMM, [(0,), (0, 5), (5, 3)]),
        (LMM, [(8,), (8, 0), (0, 3)]),
        (LMM, [(8,), (8, 5), (5, 0)]),
        (ZeroHidden, [(3,)]),
        (ZeroHidden, [(3, 0)]),
        (ZeroHidden, [(0, 4)]),
        (LinearMaxPlus, [(4, 5), (4,), (5, 3)]),
        (LinearMaxPlus, [(4, 5), (5, 1), (5, 3)]),
        (LinearMaxPlus, [(4, 5), (5,), (4, 3)]),
        (LinearMaxPlus, [(0, 5), (5,), (5, 3)]),
    ],
)
def test_models_refuse_weights_of_wrong_shape(model, shapes):
    with pytest.raises(ValueError, match=f"{model.__name__} needs weights of shapes") as caught:
        model(*(np.ones(shape) for shape in shapes))
    assert all(str(shape) in str(caught.value) for shape in shapes)


@EVERY_MODEL
def test_models_refuse_weights_of_wrong_type(case):
    good = [np.ones(shape) for shape in case.shapes(P, H, C)]
    for k in range(len(good)):
        if len(good) > 1:
            mixed = [W.astype(np.float32) if i == k else W for i, W in enumerate(good)]
            with pytest.raises(ValueError, match=r"all float32 or all float64; got .*float32"):
                case.model(*mixed)
    for dtype in (int, bool, np.float16, complex, object):
        with pytest.raises(ValueError, match="all float32 or all float64; got"):
            case.model(*(W.astype(dtype) for W in good))


# -- NaN --------------------------------------------------------------------------------------


@EVERY_MODEL
@FLOATS
def test_nan_gives_valid_indices(case, dtype):
    """Whatever is NaN: winners stay indices, so that nothing is read or written elsewhere."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, P)).astype(dtype)
    spoilt = X.copy()
    spoilt[::3] = np.nan
    sizes = {"LMM": (H, 2 * P), "ZeroHidden": (P,), "LinearMaxPlus": (H,)}[case.model.__name__]
    for share in (0.0, 0.2, 1.0):
        model = normal_model(case, rng, (P, H, C), dtype)
        for name in model.layers:
            W = getattr(model, name)
            W[rng.random(W.shape) < share] = np.nan
        for rows in (X, spoilt):
            path = model.active_path(rows)
            for winners, size in zip(path if case.model is LMM else [path], sizes, strict=True):
                assert 0 <= winners.min() <= winners.max() < size
            model.losses(rows, np.zeros(len(rows), int))
            for entries in model.subgradient(rows[0], 0).values():
                assert all((index >= 0).all() for index in entries.index)
            if case.model is LMM:
                assert model.wins(rows).sum() == len(rows) * C
