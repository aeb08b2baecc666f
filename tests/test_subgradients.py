"""Subgradients of all models, their means, and steps along them."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_array_equal

import oracles
from maxplus.models import LMM, LinearMaxPlus, SparseUpdate, Subgradient, ZeroHidden
from model_cases import (
    CASES,
    EVERY_MODEL,
    FLOATS,
    assert_same_layers,
    dense,
    grid_model,
    normal_model,
    problems,
)
from strategies import grid_array, quick


@EVERY_MODEL
@quick(50)
@given(problem=problems())
def test_subgradient_matches_the_oracle_and_is_sparse(case, problem):
    rng, (P, H, C), X, y = problem
    model = grid_model(case, rng, (P, H, C), X.dtype)
    # Subgradients are sparse.
    limits = {"A": C * P} if case.model is LinearMaxPlus else {}
    for x, label in zip(X[:3], y, strict=False):
        got = model.subgradient(x, int(label))
        assert tuple(got) == model.layers
        expected = case.subgradient(x, label, model)
        assert_same_layers(dense(model, got), expected, rtol=1e-12, atol=1e-14)
        for name, entries in got.items():
            assert entries.value.size <= limits.get(name, C)


def runner_up_gap(terms, sign):
    """Return the distance of the two best terms; ``sign`` is 1 for a maximum, −1 for a minimum."""
    first, second, *_ = sorted((sign * float(t) for t in terms), reverse=True)
    return first - second


def differentiability(model, x):
    """Return the smallest distance to a kink over all minima, maxima and ReLUs of the model."""
    if isinstance(model, ZeroHidden):
        return min(runner_up_gap(x + row, 1) for row in model.W)
    if isinstance(model, LMM):
        terms = oracles.lmm_terms(x, model.W0, model.W1)
        g, gaps, last = [min(t) for t in terms], [runner_up_gap(t, -1) for t in terms], model.W2
    else:
        raw = oracles.linear_max_plus_preactivation(x, model.A, model.b)
        g, gaps, last = [max(0.0, v) for v in raw], [abs(v) for v in raw], model.W
    return min(*gaps, *(runner_up_gap(g + column, 1) for column in last.T))


def moves_every_layer(case, x, y, model):
    return all(
        np.abs(G).max() > 1e-3 for G in map(np.array, case.subgradient(x, y, model).values())
    )


@EVERY_MODEL
@pytest.mark.parametrize("seed", range(8))
def test_subgradient_matches_finite_differences(case, seed):
    """Compare with central differences of the loss of the oracle for every weight."""
    rng = np.random.default_rng(seed)
    model, x, y = normal_model(case, rng, (3, 5, 4)), rng.normal(size=3), int(rng.integers(4))
    while differentiability(model, x) < 1e-4 or not moves_every_layer(case, x, y, model):
        x = rng.normal(size=3)
    h = 1e-5
    expected = {}
    for name in model.layers:
        W = getattr(model, name)
        expected[name] = np.zeros(W.shape)
        for index in np.ndindex(W.shape):
            kept, loss = W[index], []
            for moved in (kept + h, kept - h):
                W[index] = moved
                loss.append(oracles.loss(case.path(x.tolist(), model)[0], y))
            W[index] = kept
            expected[name][index] = (loss[0] - loss[1]) / (2 * h)
    got = dense(model, model.subgradient(x, y))
    assert_same_layers(got, expected, rtol=1e-6, atol=1e-8)


def entries_of(subgradient):
    """Return the entries as {layer: {index: value}}."""
    named = {}
    for name, entries in subgradient.items():
        indices = zip(*(i.tolist() for i in entries.index), strict=True)
        named[name] = dict(zip(indices, entries.value.tolist(), strict=True))
    return named


def selections():
    for name, case in CASES.items():
        layers = case.model.layers
        for n in range(len(layers) + 1):
            for chosen in combinations(layers, n):
                yield pytest.param(case, chosen, id=f"{name}-{'+'.join(chosen) or 'none'}")


@pytest.mark.parametrize(("case", "chosen"), list(selections()))
@pytest.mark.parametrize("sequence", [tuple, list])
def test_subgradient_of_selected_layers(case, chosen, sequence):
    rng = np.random.default_rng(8)
    model, x = normal_model(case, rng, (3, 5, 4)), rng.normal(size=3)
    full = model.subgradient(x, 1)
    got = model.subgradient(x, 1, layers=sequence(chosen))
    assert tuple(got) == chosen
    assert entries_of(got) == {name: entries_of(full)[name] for name in chosen}


def test_subgradient_squared_norm_and_nonzeros():
    subgradient = Subgradient(
        W2=SparseUpdate((np.array([0, 1]), np.array([0, 1])), np.array([3.0, -4.0])),
        W1=SparseUpdate((np.array([2]), np.array([2])), np.array([0.0])),
        W0=SparseUpdate((np.array([1]),), np.array([0.5])),
    )
    assert subgradient.squared_norm() == 25.25
    assert subgradient.n_nonzero() == 3
    assert (Subgradient().squared_norm(), Subgradient().n_nonzero()) == (0.0, 0)


# -- moves and means --------------------------------------------------------------------------


@EVERY_MODEL
@FLOATS
def test_step_changes_exactly_the_listed_entries(case, dtype):
    rng = np.random.default_rng(10)
    model, x = normal_model(case, rng, (4, 6, 3), dtype), rng.normal(size=4).astype(dtype)
    arrays = {name: getattr(model, name) for name in model.layers}
    expected = {name: W.copy() for name, W in arrays.items()}
    subgradient = model.subgradient(x, 1)
    for name, entries in entries_of(subgradient).items():
        for index, value in entries.items():
            expected[name][index] = dtype(float(expected[name][index]) - 0.3 * value)
    model.move(subgradient, 0.3)
    for name, W in arrays.items():
        assert getattr(model, name) is W, "weights move in place"
        assert_array_equal(W, expected[name], strict=True)


def test_kernel_view_of_lmm_shares_its_weights():
    model = grid_model(CASES["LMM"], np.random.default_rng(12), (2, 3, 2))
    weights = model.weights
    model.move(model.mean_subgradient(np.ones((1, 2)), np.array([0])), 1.0)
    assert_array_equal(weights.W0, model.W0)
    assert_array_equal(weights.W1T, model.W1.T)
    assert_array_equal(weights.W2T, model.W2.T)


@EVERY_MODEL
@FLOATS
@pytest.mark.parametrize("weight", [None, np.array([1.0, 0.0, 2.5, 0.5, 1.0])])
def test_mean_subgradient_is_the_mean_of_subgradients(case, dtype, weight):
    rng = np.random.default_rng(13)
    model, X = grid_model(case, rng, (3, 5, 4), dtype), grid_array(rng, (5, 3), dtype)
    y = rng.integers(4, size=5)
    shares = [0.2] * 5 if weight is None else [0.2, 0.0, 0.5, 0.1, 0.2]
    expected = {name: np.zeros(getattr(model, name).shape) for name in model.layers}
    for x, label, share in zip(X, y, shares, strict=True):
        for name, G in case.subgradient(x, label, model).items():
            expected[name] += share * np.array(G)
    got = model.mean_subgradient(X, y, weight)
    assert tuple(got) == model.layers
    assert_same_layers(dense(model, got), expected, rtol=1e-12, atol=1e-14)
    assert sum(entries.value.size for entries in got.values()) == model.n_weights()
