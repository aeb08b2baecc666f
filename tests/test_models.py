"""The three models: scores, losses, active paths, subgradients and moves."""

import math
from collections.abc import Callable
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import oracles
from maxplus.algebra._kernels import PARALLEL_FROM as SCORES_PARALLEL_FROM
from maxplus.models import LMM, Entries, LinearMaxPlus, Subgradient, ZeroHidden
from maxplus.models._softmax import PARALLEL_FROM as LOSSES_PARALLEL_FROM
from maxplus.models.starts import prototype_lmm
from strategies import DTYPES, SEEDS, SIZES, SIZES_OR_ZERO, grid_array, quick


class Case(NamedTuple):
    """A kind of model: its weights' shapes from (P, H, C) and its oracles."""

    model: type
    shapes: Callable
    path: Callable
    subgradient: Callable

    def draw(self, sample, P, H, C):
        """A model whose weights come from sample(shape)."""
        return self.model(*(sample(shape) for shape in self.shapes(P, H, C)))


CASES = {
    "LMM": Case(
        LMM,
        lambda P, H, C: [(2 * P,), (2 * P, H), (H, C)],
        lambda x, m: oracles.lmm_path(x, m.W0.tolist(), m.W1.tolist(), m.W2.tolist()),
        lambda x, y, m: oracles.lmm_subgradient(x, y, m.W0, m.W1, m.W2),
    ),
    "ZeroHidden": Case(
        ZeroHidden,
        lambda P, H, C: [(C, P)],
        lambda x, m: oracles.zero_hidden_path(x, m.W.tolist()),
        lambda x, y, m: oracles.zero_hidden_subgradient(x, y, m.W),
    ),
    "LinearMaxPlus": Case(
        LinearMaxPlus,
        lambda P, H, C: [(P, H), (H,), (H, C)],
        lambda x, m: oracles.linear_max_plus_path(x, m.A.tolist(), m.b.tolist(), m.W.tolist()),
        lambda x, y, m: oracles.linear_max_plus_subgradient(x, y, m.A, m.b, m.W),
    ),
}
EVERY_MODEL = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
FLOATS = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@st.composite
def problems(draw):
    """Shape (P, H, C), X and labels; weights are drawn from the generator that comes first."""
    P, H, C = (draw(SIZES) for _ in range(3))
    rng, dtype = np.random.default_rng(draw(SEEDS)), draw(DTYPES)
    n = draw(SIZES_OR_ZERO)
    return rng, (P, H, C), grid_array(rng, (n, P), dtype), rng.integers(C, size=n)


def grid_model(case, rng, shape, dtype=np.float64):
    return case.draw(lambda s: grid_array(rng, s, dtype), *shape)


def normal_model(case, rng, shape, dtype=np.float64):
    return case.draw(lambda s: rng.normal(size=s).astype(dtype), *shape)


def score_model(n_classes, dtype=np.float64):
    """A model whose scores are its inputs."""
    return ZeroHidden(np.where(np.eye(n_classes, dtype=bool), 0, -np.inf).astype(dtype))


def paths(case, X, model):
    """Per sample the oracle's z and winners."""
    return [case.path(x.tolist(), model) for x in X]


def table(rows, n_classes, dtype):
    return np.array(rows, dtype).reshape(-1, n_classes)


def dense(model, subgradient):
    """The subgradient as full arrays; an entry named twice is an error."""
    full = {}
    for name, entries in subgradient.items():
        named = list(zip(*(i.tolist() for i in entries.index), strict=True))
        assert len(named) == len(set(named)) == len(entries.value)
        full[name] = np.zeros(getattr(model, name).shape)
        full[name][entries.index] = entries.value
    return full


def assert_same_layers(got, expected, **tolerance):
    assert got.keys() == expected.keys()
    for name in got:
        assert_allclose(got[name], expected[name], err_msg=name, **tolerance)


# -- forward ----------------------------------------------------------------------------------


@EVERY_MODEL
@quick(50)
@given(problem=problems())
def test_forward_pass_matches_the_oracle(case, problem):
    rng, (P, H, C), X, y = problem
    model = grid_model(case, rng, (P, H, C), X.dtype)
    expected = paths(case, X, model)
    Z = table([z for z, *_ in expected], C, X.dtype)
    assert_array_equal(model.scores(X), Z, strict=True)
    chances = table([oracles.softmax(z) for z in Z], C, X.dtype)
    got = model.probabilities(X)
    assert_allclose(got, chances, rtol=20 * np.finfo(X.dtype).eps)
    assert got.dtype == X.dtype
    losses = np.array([oracles.loss(z, label) for z, label in zip(Z, y, strict=True)])
    got = model.losses(X, y)
    assert_allclose(got, losses, rtol=1e-12, atol=1e-14, strict=True)
    got = model.active_path(X)
    for part, winners in enumerate(got if isinstance(got, tuple) else [got]):
        rows = table([path[1 + part] for path in expected], C, int)
        assert_array_equal(winners, rows, strict=True)


@EVERY_MODEL
@FLOATS
def test_forward_pass_on_several_threads(case, dtype):
    """Equal to the pass in fifty parts, each on one thread, and to the oracle in some rows."""
    n, (P, H, C) = 4001, (33, 45, 33)
    assert n * P * C >= SCORES_PARALLEL_FROM > (n // 50 + 1) * 2 * P * H
    assert n * C >= LOSSES_PARALLEL_FROM > (n // 50 + 1) * C
    rng = np.random.default_rng(0)
    model, X = grid_model(case, rng, (P, H, C), dtype), grid_array(rng, (n, P), dtype)
    y = rng.integers(C, size=n)
    Z, losses = model.scores(X), model.losses(X, y)
    parts = list(zip(np.array_split(X, 50), np.array_split(y, 50), strict=True))
    expected = np.concatenate([model.scores(part) for part, _ in parts])
    assert_array_equal(Z, expected, strict=True)
    assert_array_equal(losses, np.concatenate([model.losses(*part) for part in parts]))
    some = slice(None, None, 100)
    assert_array_equal(Z[some], [z for z, *_ in paths(case, X[some], model)])
    expected = [oracles.loss(z, label) for z, label in zip(Z[some], y[some], strict=True)]
    assert_allclose(losses[some], expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("n", [0, 1, 5])
@FLOATS
def test_lmm_hidden_units(n, dtype):
    rng = np.random.default_rng(1)
    model, X = grid_model(CASES["LMM"], rng, (3, 7, 2), dtype), grid_array(rng, (n, 3), dtype)
    expected = table([oracles.lmm_hidden(x, model.W0, model.W1) for x in X], 7, dtype)
    assert_array_equal(model.hidden(X), expected, strict=True)


def test_linear_max_plus_hidden_units():
    rng = np.random.default_rng(2)
    model, X = grid_model(CASES["LinearMaxPlus"], rng, (3, 7, 2)), grid_array(rng, (5, 3))
    raw = np.array([oracles.linear_max_plus_preactivation(x, model.A, model.b) for x in X])
    assert (raw < 0).any()
    assert_array_equal(model.hidden(X), np.where(raw > 0, raw, 0))


@EVERY_MODEL
def test_all_ties_go_to_index_zero(case):
    model = case.draw(np.zeros, 5, 6, 3)
    assert not np.any(model.active_path(np.zeros((2, 5))))


@FLOATS
def test_lmm_path_leads_to_the_score(dtype):
    rng = np.random.default_rng(3)
    model, X = grid_model(CASES["LMM"], rng, (4, 9, 5), dtype), grid_array(rng, (8, 4), dtype)
    unit, row = model.active_path(X)
    lam = model.W0[row] * np.take_along_axis(X, row // 2, axis=1)
    assert_array_equal(lam + model.W1[row, unit] + model.W2[unit, np.arange(5)], model.scores(X))


def fortran(X):
    return np.asfortranarray(X)


def strided(X):
    return np.repeat(X, 2, axis=1)[:, ::2]


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


@EVERY_MODEL
@pytest.mark.parametrize("layout", [fortran, strided, read_only])
def test_samples_in_any_layout(case, layout):
    rng = np.random.default_rng(4)
    model, X = normal_model(case, rng, (5, 6, 3)), rng.normal(size=(9, 5))
    same = layout(X)
    assert_array_equal(model.scores(same), model.scores(X))
    assert_array_equal(model.active_path(same), model.active_path(X))
    got, expected = model.subgradient(same[1], 2), model.subgradient(X[1], 2)
    assert_same_layers(dense(model, got), dense(model, expected), rtol=0)


@EVERY_MODEL
@FLOATS
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_model_knows_its_shape(case, dtype, order):
    rng = np.random.default_rng(5)
    weights = [
        np.array(rng.normal(size=shape), dtype, order=order) for shape in case.shapes(4, 6, 3)
    ]
    model = case.model(*weights)
    assert (model.n_features, model.n_classes, model.dtype) == (4, 3, dtype)
    assert getattr(model, "n_hidden", 6) == 6
    assert model.n_weights() == sum(W.size for W in weights)
    assert model.scores(np.zeros((2, 4), dtype)).dtype == dtype


@EVERY_MODEL
def test_a_copy_moves_alone(case):
    rng = np.random.default_rng(6)
    model, x = normal_model(case, rng, (4, 6, 3)), rng.normal(size=4)
    before = {name: getattr(model, name).copy() for name in model.layers}
    twin = model.copy()
    assert type(twin) is type(model)
    assert_array_equal(twin.scores(x[None]), model.scores(x[None]))
    twin.move(twin.mean_subgradient(x[None], np.array([0])), 1.0)
    assert_same_layers({name: getattr(model, name) for name in before}, before, rtol=0)
    assert np.any(twin.scores(x[None]) != model.scores(x[None]))


# -- losses -----------------------------------------------------------------------------------

ANY_SCORE = st.floats(-1e300, 1e300) | st.sampled_from([0.0, 1.0, 1e4, -1e4, 1e300, -1e300])


@st.composite
def scores_and_label(draw):
    z = draw(st.lists(ANY_SCORE, min_size=1, max_size=5))
    return np.array(z), draw(st.integers(0, len(z) - 1))


@quick(150)
@given(case=scores_and_label())
def test_losses_and_errors_of_any_finite_scores(case):
    z, y = case
    model = score_model(z.size)
    assert_array_equal(model.scores(z[None]), z[None])
    chances = model.probabilities(z[None])[0]
    assert np.isfinite(chances).all()
    assert (chances >= 0).all()
    assert math.isclose(chances.sum(), 1.0, rel_tol=1e-12)
    loss = model.losses(z[None], np.array([y]))[0]
    assert 0 <= loss < math.inf
    assert_allclose(loss, oracles.loss(z, y), rtol=1e-12, atol=1e-14)
    e = model.subgradient(z, y)["W"].value
    assert_allclose(e, oracles.errors(z, y), rtol=1e-12, atol=1e-14)
    assert e[y] <= 0


@pytest.mark.parametrize(
    ("dtype", "huge"),
    [(np.float64, 1e4), (np.float64, 1e300), (np.float32, 1e4), (np.float32, 1e30)],
)
@pytest.mark.parametrize(("y", "expected"), [(0, 0.0), (1, 2.0)])
def test_extreme_scores(dtype, huge, y, expected):
    lmm = LMM(np.zeros(2, dtype), np.zeros((2, 1), dtype), np.array([[huge, -huge]], dtype))
    for model, x in (
        (score_model(2, dtype), np.array([huge, -huge], dtype)),
        (lmm, np.zeros(1, dtype)),
    ):
        assert_array_equal(model.probabilities(x[None]), [[1.0, 0.0]])
        assert_allclose(model.losses(x[None], np.array([y])), [expected * float(dtype(huge))])
        assert model.subgradient(x, y).squared_norm() < math.inf


def test_small_losses_keep_their_digits():
    z, tiny = np.array([50.0, 0.0]), math.exp(-50)
    model = score_model(2)
    assert_allclose(model.losses(z[None], np.array([0])), [tiny], rtol=1e-12)
    assert_allclose(model.subgradient(z, 0)["W"].value, [-tiny, tiny], rtol=1e-12)


def test_a_single_class_is_certain():
    model = score_model(1)
    assert_array_equal(model.losses(np.array([[-3.0]]), np.array([0])), [0.0])
    assert_array_equal(model.subgradient(np.array([-3.0]), 0)["W"].value, [0.0])


# The paper's proposition: where every loss is below log 2, every sample is classified correctly.


def worst_loss_and_all_correct(model, X, y):
    return model.losses(X, y).max(), np.array_equal(model.scores(X).argmax(axis=1), y)


@st.composite
def labelled_scores(draw):
    """Scores in which the label is ahead by a margin that may or may not be enough."""
    n, C = draw(st.integers(1, 6)), draw(st.integers(2, 5))
    rng = np.random.default_rng(draw(SEEDS))
    y = rng.integers(C, size=n)
    Z = rng.normal(size=(n, C))
    Z[np.arange(n), y] = Z.max(axis=1) + draw(st.floats(0.5, 3.0))
    return Z, y


@quick(100)
@given(case=labelled_scores())
def test_all_losses_below_log_2_means_all_correct(case):
    Z, y = case
    worst, correct = worst_loss_and_all_correct(score_model(Z.shape[1]), Z, y)
    assume(worst < math.log(2))
    assert correct


def test_proposition_on_models_of_both_kinds():
    """Prototype models, from hopeless to perfect: both sides of the implication occur often."""
    rng = np.random.default_rng(7)
    premise = wrong = 0
    for _ in range(300):
        P, H, C = rng.integers(1, 5), rng.integers(3, 9), rng.integers(2, 4)
        X, y = rng.normal(size=(H, P)), rng.integers(C, size=H)
        model = prototype_lmm(X, y, C, slope=rng.uniform(0.5, 20), confidence=rng.uniform(0, 3))
        seen = X + rng.normal(size=X.shape) * rng.choice([0.0, 0.5])
        worst, correct = worst_loss_and_all_correct(model, seen, y)
        premise += worst < math.log(2)
        wrong += not correct
        assert correct or worst >= math.log(2)
    assert premise > 50
    assert wrong > 50


@pytest.mark.parametrize("gap", [0.0, 5e-324, 1e-17, *(k * 2.0**-52 for k in range(1, 40)), 1e-9])
def test_log_2_is_the_exact_border(gap):
    """Of two classes, one that is behind or level never has a loss below log 2."""
    worst, correct = worst_loss_and_all_correct(
        score_model(2), np.array([[gap, 0.0]]), np.array([1])
    )
    assert not correct
    assert worst >= math.log(2)


# -- subgradients -----------------------------------------------------------------------------


@EVERY_MODEL
@quick(50)
@given(problem=problems())
def test_subgradient_matches_the_oracle(case, problem):
    rng, shape, X, y = problem
    model = grid_model(case, rng, shape, X.dtype)
    for x, label in zip(X[:3], y, strict=False):
        got = model.subgradient(x, int(label))
        assert tuple(got) == model.layers
        expected = case.subgradient(x, label, model)
        assert_same_layers(dense(model, got), expected, rtol=1e-12, atol=1e-14)


@EVERY_MODEL
@quick(50)
@given(problem=problems())
def test_subgradient_is_sparse(case, problem):
    rng, (P, H, C), X, y = problem
    model = grid_model(case, rng, (P, H, C), X.dtype)
    limits = {"A": C * P} if case.model is LinearMaxPlus else {}
    for x, label in zip(X[:3], y, strict=False):
        for name, entries in model.subgradient(x, int(label)).items():
            assert entries.value.size <= limits.get(name, C)


def runner_up_gap(terms, sign):
    """How far the winner is ahead; sign is +1 for a maximum, −1 for a minimum."""
    first, second, *_ = sorted((sign * float(t) for t in terms), reverse=True)
    return first - second


def differentiability(model, x):
    """The smallest distance to a kink, over all the minima, maxima and ReLUs of the model."""
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
    """Against central differences of the oracle's loss, by every single weight."""
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
    """Layer → index → value."""
    named = {}
    for name, entries in subgradient.items():
        indices = zip(*(i.tolist() for i in entries.index), strict=True)
        named[name] = dict(zip(indices, entries.value.tolist(), strict=True))
    return named


def test_classes_that_share_a_unit_are_summed():
    """Classes 0 and 1 take unit 0 and its row 1; class 2 takes unit 1 and its row 0."""
    model = LMM(
        np.array([1.0, -1.0]),
        np.array([[0.0, 0.0], [0.0, 9.0]]),
        np.array([[5.0, 4.0, -5.0], [-5.0, -5.0, 5.0]]),
    )
    e0, e1, e2 = oracles.errors([3.0, 2.0, 7.0], 1)
    got = entries_of(model.subgradient(np.array([2.0]), 1))
    assert got == {
        "W2": pytest.approx({(0, 0): e0, (0, 1): e1, (1, 2): e2}),
        "W1": pytest.approx({(1, 0): e0 + e1, (0, 1): e2}),
        "W0": pytest.approx({(1,): 2 * (e0 + e1), (0,): 2 * e2}),
    }


def test_classes_that_share_a_row_of_w0_only_are_summed_there():
    """Classes 0 and 1 take different units, but row 1 in both; class 2 takes row 0."""
    model = LMM(
        np.array([1.0, -1.0]),
        np.array([[0.0, 9.0, 0.0], [0.0, 1.0, 9.0]]),
        np.array([[5.0, -5.0, -5.0], [-5.0, 4.0, -5.0], [-5.0, -5.0, 1.0]]),
    )
    e0, e1, e2 = oracles.errors([3.0, 3.0, 3.0], 0)
    got = entries_of(model.subgradient(np.array([2.0]), 0))
    assert got == {
        "W2": pytest.approx({(0, 0): e0, (1, 1): e1, (2, 2): e2}),
        "W1": pytest.approx({(1, 0): e0, (1, 1): e1, (0, 2): e2}),
        "W0": pytest.approx({(1,): 2 * (e0 + e1), (0,): 2 * e2}),
    }


def test_linear_max_plus_sums_the_classes_of_a_unit():
    """Classes 0 and 1 take unit 0, which is on; class 2 takes unit 1, which is off."""
    model = LinearMaxPlus(
        np.array([[1.0, -1.0], [1.0, -1.0], [9.0, 9.0]]),
        np.array([0.5, -0.5]),
        np.array([[5.0, 4.0, -5.0], [-5.0, -5.0, 5.0]]),
    )
    e0, e1, e2 = oracles.errors([8.5, 7.5, 5.0], 2)
    got = entries_of(model.subgradient(np.array([1.0, 2.0, 0.0]), 2))
    assert got == {
        "W": pytest.approx({(0, 0): e0, (0, 1): e1, (1, 2): e2}),
        "A": pytest.approx({(0, 0): e0 + e1, (1, 0): 2 * (e0 + e1)}),
        "b": pytest.approx({(0,): e0 + e1}),
    }


def selections():
    for name, case in CASES.items():
        layers = case.model.layers
        for n in range(len(layers) + 1):
            for chosen in combinations(layers, n):
                yield pytest.param(case, chosen, id=f"{name}-{'+'.join(chosen) or 'none'}")


@pytest.mark.parametrize(("case", "chosen"), list(selections()))
@pytest.mark.parametrize("sequence", [tuple, list])
def test_only_the_chosen_layers_are_derived(case, chosen, sequence):
    rng = np.random.default_rng(8)
    model, x = normal_model(case, rng, (3, 5, 4)), rng.normal(size=3)
    full = model.subgradient(x, 1)
    got = model.subgradient(x, 1, layers=sequence(chosen))
    assert tuple(got) == chosen
    assert entries_of(got) == {name: entries_of(full)[name] for name in chosen}


def test_squared_norm_and_count_of_nonzeros():
    subgradient = Subgradient(
        W2=Entries((np.array([0, 1]), np.array([0, 1])), np.array([3.0, -4.0])),
        W1=Entries((np.array([2]), np.array([2])), np.array([0.0])),
        W0=Entries((np.array([1]),), np.array([0.5])),
    )
    assert subgradient.squared_norm() == 25.25
    assert subgradient.n_nonzero() == 3
    assert (Subgradient().squared_norm(), Subgradient().n_nonzero()) == (0.0, 0)


@EVERY_MODEL
def test_squared_norm_of_a_subgradient(case):
    rng = np.random.default_rng(9)
    model, x = normal_model(case, rng, (3, 5, 4)), rng.normal(size=3)
    expected = sum(float(v) ** 2 for G in case.subgradient(x, 2, model).values() for v in flat(G))
    assert math.isclose(model.subgradient(x, 2).squared_norm(), expected, rel_tol=1e-12)


def flat(nested):
    return [v for part in nested for v in flat(part)] if isinstance(nested, list) else [nested]


# -- moves and means --------------------------------------------------------------------------


@EVERY_MODEL
@FLOATS
def test_a_move_changes_exactly_the_listed_entries(case, dtype):
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


@EVERY_MODEL
def test_a_small_move_lowers_the_loss(case):
    rng = np.random.default_rng(11)
    model, x, y = normal_model(case, rng, (4, 6, 3)), rng.normal(size=4), np.array([1])
    before = model.losses(x[None], y)[0]
    subgradient = model.subgradient(x, 1)
    model.move(subgradient, 1e-6)
    drop = before - model.losses(x[None], y)[0]
    assert math.isclose(drop, 1e-6 * subgradient.squared_norm(), rel_tol=1e-3)


def test_the_kernels_view_of_an_lmm_moves_with_it():
    model = grid_model(CASES["LMM"], np.random.default_rng(12), (2, 3, 2))
    weights = model.weights
    model.move(model.mean_subgradient(np.ones((1, 2)), np.array([0])), 1.0)
    assert_array_equal(weights.W0, model.W0)
    assert_array_equal(weights.W1T, model.W1.T)
    assert_array_equal(weights.W2T, model.W2.T)


@EVERY_MODEL
@FLOATS
@pytest.mark.parametrize("weight", [None, np.array([1.0, 0.0, 2.5, 0.5, 1.0])])
def test_mean_subgradient_is_the_mean(case, dtype, weight):
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


@EVERY_MODEL
def test_mean_subgradient_moves_every_weight_it_lists(case):
    rng = np.random.default_rng(14)
    model, X, y = normal_model(case, rng, (3, 5, 4)), rng.normal(size=(6, 3)), np.arange(6) % 4
    mean = model.mean_subgradient(X, y)
    expected = {name: getattr(model, name) - 0.1 * G for name, G in dense(model, mean).items()}
    model.move(mean, 0.1)
    assert_same_layers({name: getattr(model, name) for name in expected}, expected, rtol=1e-15)
