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
from maxplus.models import LMM, LOG2, Entries, LinearMaxPlus, Subgradient, ZeroHidden
from maxplus.models._softmax import PARALLEL_FROM as LOSSES_PARALLEL_FROM
from maxplus.models.pruning import with_units
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


# -- what is refused at the door --------------------------------------------------------------

DOORS = ["scores", "active_path", "probabilities", "hidden", "wins", "losses", "mean_subgradient"]
P, H, C = 4, 6, 3


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
def test_samples_of_another_shape(case, dtype, shape):
    model = normal_model(case, np.random.default_rng(0), (P, H, C), dtype)
    for door in doors(model):
        with pytest.raises(ValueError, match=r"X must have 4 columns.* got shape \(") as caught:
            knock(model, door, np.zeros(shape, dtype))
        assert str(shape) in str(caught.value)


@EVERY_MODEL
def test_samples_that_are_no_numbers(case):
    model = normal_model(case, np.random.default_rng(0), (P, H, C))
    for door in doors(model):
        with pytest.raises(ValueError, match="X must hold real numbers; got dtype"):
            knock(model, door, np.full((2, P), "a"))


@EVERY_MODEL
@FLOATS
def test_no_samples_at_all(case, dtype):
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
def test_lists_are_samples_too(case):
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
def test_labels_that_are_none(case, y, message):
    model = normal_model(case, np.random.default_rng(0), (P, H, C))
    X = np.zeros((3, P))
    for door in ("losses", "mean_subgradient"):
        with pytest.raises(ValueError, match=f"y must hold .*{message}"):
            knock(model, door, X, np.asarray(y))


@EVERY_MODEL
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.uint64])
def test_labels_of_any_integer_type(case, kind):
    model = normal_model(case, np.random.default_rng(0), (P, H, C))
    X, y = np.random.default_rng(1).normal(size=(5, P)), np.array([0, 1, 2, 1, 0])
    assert_array_equal(model.losses(X, y.astype(kind)), model.losses(X, y))
    assert_array_equal(model.losses(X, np.repeat(y.astype(kind), 2)[::2]), model.losses(X, y))


@EVERY_MODEL
def test_a_sample_that_is_none(case):
    model = normal_model(case, np.random.default_rng(0), (P, H, C))
    for shape in ((3,), (5,), (1, 4), ()):
        with pytest.raises(ValueError, match=r"x must hold 4 numbers.* got shape"):
            model.subgradient(np.zeros(shape), 0)
    for y in (-1, 3, 1.0, "a", None):
        with pytest.raises(ValueError, match=r"y must be an integer 0\.\.2; got"):
            model.subgradient(np.zeros(P), y)
    model.subgradient(np.zeros(P), np.int64(2))


@EVERY_MODEL
def test_weights_of_samples_must_be_as_many(case):
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
def test_weights_that_do_not_fit(model, shapes):
    with pytest.raises(ValueError, match=f"{model.__name__} needs weights of shapes") as caught:
        model(*(np.ones(shape) for shape in shapes))
    assert all(str(shape) in str(caught.value) for shape in shapes)


@EVERY_MODEL
def test_weights_of_other_types(case):
    good = [np.ones(shape) for shape in case.shapes(P, H, C)]
    for k in range(len(good)):
        if len(good) > 1:
            mixed = [W.astype(np.float32) if i == k else W for i, W in enumerate(good)]
            with pytest.raises(ValueError, match=r"all float32 or all float64; got .*float32"):
                case.model(*mixed)
    for dtype in (int, bool, np.float16, complex, object):
        with pytest.raises(ValueError, match="all float32 or all float64; got"):
            case.model(*(W.astype(dtype) for W in good))


# -- numbers that are none --------------------------------------------------------------------


@EVERY_MODEL
@FLOATS
def test_nan_never_indexes(case, dtype):
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


# -- boxes ------------------------------------------------------------------------------------


def old_boxes(centre, spread, heights, slope):
    """What a box start once wrote out."""
    W0 = np.empty(2 * centre.shape[1], centre.dtype)
    W0[0::2], W0[1::2] = slope, -slope
    W1T = np.empty((len(centre), W0.size), centre.dtype)
    W1T[:, 0::2], W1T[:, 1::2] = slope * (spread - centre), slope * (spread + centre)
    return W0, W1T.T, heights.astype(centre.dtype)


def old_pyramids(points, heights, slope):
    """What the approximation theorem's network once wrote out."""
    W0 = np.empty(2 * points.shape[1], points.dtype)
    W0[0::2], W0[1::2] = slope, -slope
    W1T = np.empty((len(points), W0.size), points.dtype)
    W1T[:, 0::2], W1T[:, 1::2] = -(W0[0::2] * points), -(W0[1::2] * points)
    return W0, W1T.T, heights.astype(points.dtype)


@FLOATS
@quick(40)
@given(seed=SEEDS, slope=st.floats(1e-3, 1e3))
def test_boxes_are_laid_out_as_ever(dtype, seed, slope):
    rng = np.random.default_rng(seed)
    centre = (rng.normal(size=(H, P)) * 10.0 ** rng.integers(-6, 6, size=P)).astype(dtype)
    spread = rng.exponential(size=(H, P)).astype(dtype) * (rng.random((H, P)) < 0.7)
    heights = rng.normal(size=(H, C))
    for got, expected in (
        (LMM.of_boxes(centre, spread, heights, slope), old_boxes(centre, spread, heights, slope)),
        (LMM.of_boxes(centre, 0.0, heights, slope), old_pyramids(centre, heights, slope)),
    ):
        for W, old in zip((got.W0, got.W1, got.W2), expected, strict=True):
            assert_array_equal(W, old, strict=True)


@FLOATS
@quick(40)
@given(seed=SEEDS, slope=st.floats(1e-3, 1e3))
def test_a_pyramid_is_exactly_zero_at_its_point(dtype, seed, slope):
    points = np.random.default_rng(seed).normal(size=(H, P)).astype(dtype)
    G = LMM.of_boxes(points, 0.0, np.zeros((H, 1)), slope).hidden(points)
    assert_array_equal(np.diag(G), np.zeros(H))


def test_a_box_is_the_margin_to_its_walls():
    model = LMM.of_boxes([[1.0, -2.0]], [[0.5, 3.0]], [[7.0, 0.0]], 2.0)
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
def test_boxes_that_are_none(arguments, message):
    with pytest.raises(ValueError, match=message):
        LMM.of_boxes(*arguments)


@FLOATS
def test_the_two_rows_of_a_feature_are_views(dtype):
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
def test_a_unit_moves_onto_a_point(dtype):
    rng = np.random.default_rng(0)
    model = normal_model(CASES["LMM"], rng, (P, H, C), dtype)
    model.slopes[:] = np.abs(model.slopes) * [1, -1]
    before, point = model.copy(), rng.normal(size=P).astype(dtype)
    model.seat_unit(2, point, [1.0, 2.0, 3.0])
    assert_array_equal(model.W1[:, 2], -before.W0 * np.repeat(point, 2), strict=True)
    assert_array_equal(model.W2[2], [1.0, 2.0, 3.0])
    others = np.delete(np.arange(H), 2)
    assert_array_equal(model.W1[:, others], before.W1[:, others])
    assert model.hidden(point[None])[0, 2] == 0.0
    assert (model.hidden(rng.normal(size=(9, P)))[:, 2] < 0).all()
    with pytest.raises(ValueError, match=r"h must be an integer 0\.\.5; got 6"):
        model.seat_unit(H, point, 0.0)
    with pytest.raises(ValueError, match=r"x must hold 4 numbers.*got shape \(3,\)"):
        model.seat_unit(0, point[:3], 0.0)


# -- the same function in other words ---------------------------------------------------------


@FLOATS
def test_an_affine_map_is_folded_in(dtype):
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
def test_maps_that_cannot_be_folded_in(centre, scale, message):
    model = normal_model(CASES["LMM"], np.random.default_rng(0), (P, H, C))
    with pytest.raises(ValueError, match=message):
        model.folded(centre, scale)


@FLOATS
def test_scaled_weights_scale_the_scores(dtype):
    rng = np.random.default_rng(0)
    model, X = normal_model(CASES["LMM"], rng, (P, H, C), dtype), rng.normal(size=(20, P))
    # Powers of two are exact; other factors are so up to rounding.
    assert_array_equal(model.scaled(0.25).scores(X), 0.25 * model.scores(X), strict=True)
    third = model.scaled(np.float64(1 / 3))
    assert third.dtype == dtype
    assert_allclose(third.scores(X), model.scores(X) / 3, rtol=0, atol=10 * np.finfo(dtype).eps)
    assert_array_equal(third.scores(X).argmax(axis=1), model.scores(X).argmax(axis=1))
    for factor in (0.0, -1.0, math.inf, math.nan, "2"):
        with pytest.raises(ValueError, match="factor must be a finite number > 0; got"):
            model.scaled(factor)


def test_another_float_type():
    model = normal_model(CASES["LMM"], np.random.default_rng(0), (P, H, C), np.float32)
    double = model.astype(np.float64)
    assert double.dtype == np.float64
    for name in model.layers:
        assert_array_equal(getattr(double, name), getattr(model, name))
        assert getattr(model.astype(np.float32), name) is getattr(model, name)


def test_log_2_has_one_name():
    assert math.log(2) == LOG2


# -- linear directions ------------------------------------------------------------------------


def seen_model(rng, dtype=np.float64, M=5):
    """A model that looks at M sums of P features."""
    plain = normal_model(CASES["LMM"], rng, (M, H, C), dtype)
    return plain, LMM(plain.W0, plain.W1, plain.W2, rng.normal(size=(M, P)))


def slow_views(model, X):
    """Σ_p D[m, p]·x_p in the model's type, from the first feature to the last."""
    V = np.zeros((len(X), model.n_views), model.dtype)
    for p in range(model.n_features):
        V += X[:, p, None].astype(model.dtype) * model.directions[:, p]
    return V


@FLOATS
def test_a_model_with_directions_is_a_plain_one_of_its_views(dtype):
    rng = np.random.default_rng(0)
    plain, model = seen_model(rng, dtype)
    X, y = rng.normal(size=(70, P)).astype(dtype), rng.integers(C, size=70)
    V = slow_views(model, X)
    assert (model.n_features, model.n_views, model.n_hidden) == (P, 5, H)
    assert (model.directions.dtype, model.directions.flags.c_contiguous) == (dtype, True)
    assert_array_equal(model.views(X), V, strict=True)
    assert_allclose(V, X.astype(float) @ model.directions.T.astype(float), rtol=1e-5, atol=1e-5)
    for door in ("scores", "hidden", "wins", "probabilities"):
        assert_array_equal(getattr(model, door)(X), getattr(plain, door)(V), strict=True)
    assert_array_equal(model.losses(X, y), plain.losses(V, y))
    for one, other in zip(model.active_path(X), plain.active_path(V), strict=True):
        assert_array_equal(one, other)
    assert_same_layers(
        dense(model, model.subgradient(X[3], int(y[3]))),
        dense(plain, plain.subgradient(V[3], int(y[3]))),
    )
    assert_same_layers(
        dense(model, model.mean_subgradient(X, y)), dense(plain, plain.mean_subgradient(V, y))
    )
    assert model.n_weights() == plain.n_weights()


@FLOATS
def test_a_row_has_the_same_scores_alone_and_among_others(dtype):
    rng = np.random.default_rng(1)
    _, model = seen_model(rng, dtype)
    X = rng.normal(size=(101, P)).astype(dtype)
    alone = np.concatenate([model.scores(x[None]) for x in X])
    assert_array_equal(model.scores(X), alone)
    assert_array_equal(model.scores(np.asfortranarray(X)), alone)


def test_without_directions_views_are_the_features():
    model = normal_model(CASES["LMM"], np.random.default_rng(0), (P, H, C))
    X = np.random.default_rng(1).normal(size=(5, P))
    assert model.directions is None
    assert model.n_views == model.n_features == P
    assert np.shares_memory(model.views(X), X)
    assert list(model.weights_by_name()) == ["W2", "W1", "W0"]


def test_directions_stay_with_the_model():
    rng = np.random.default_rng(0)
    _, model = seen_model(rng)
    X, D = rng.normal(size=(30, P)), model.directions
    twin, halved, single = model.copy(), model.scaled(0.5), model.astype(np.float32)
    assert_array_equal(twin.scores(X), model.scores(X))
    assert not np.shares_memory(twin.directions, D)
    assert_array_equal(halved.scores(X), 0.5 * model.scores(X))
    assert single.directions.dtype == np.float32
    assert_allclose(single.scores(X), model.scores(X), atol=1e-5)
    assert model.astype(np.float64).directions is D
    few = with_units(model, np.array([0, 2]))
    assert_array_equal(few.directions, D)
    assert_array_equal(few.hidden(X), model.hidden(X)[:, [0, 2]])
    names = [*model.weights_by_name()]
    assert names == ["W2", "W1", "W0", "directions"]
    again = LMM.of_weights(model.weights_by_name(copy=True))
    assert_array_equal(again.scores(X), model.scores(X))


@FLOATS
def test_a_model_of_centred_views_takes_raw_rows(dtype):
    rng = np.random.default_rng(0)
    plain = normal_model(CASES["LMM"], rng, (5, H, C), dtype)
    D, centre = rng.normal(size=(5, P)), rng.normal(size=P)
    X = rng.normal(size=(40, P)) + centre
    expected = plain.scores((X - centre) @ D.T)
    model = plain.through(D, centre)
    assert model.dtype == dtype
    tolerance = 200 * np.finfo(dtype).eps
    assert_allclose(model.scores(X), expected, rtol=tolerance, atol=tolerance)
    assert_array_equal(model.W0, plain.W0)
    assert_array_equal(model.directions, D.astype(dtype))
    # Directions of directions, and an affine map before them.
    E, spread = rng.normal(size=(P, 3)), rng.uniform(0.5, 2, size=3)
    shift, U = rng.normal(size=3), rng.normal(size=(40, 3))
    both = model.through(E, shift)
    assert both.n_features == 3
    deep = plain.scores(((U - shift) @ E.T - centre) @ D.T)
    assert_allclose(both.scores(U), deep, rtol=5 * tolerance, atol=5 * tolerance)
    folded = both.folded(shift, spread)
    expected = both.scores((U - shift) / spread)
    assert_allclose(folded.scores(U), expected, rtol=5 * tolerance, atol=5 * tolerance)
    assert_allclose(folded.directions, both.directions / spread, rtol=tolerance)


def test_views_of_single_features_are_features():
    """Their weights go into the slopes; a diagonal leaves no directions at all."""
    rng = np.random.default_rng(0)
    plain = normal_model(CASES["LMM"], rng, (P, H, C))
    X, centre, spread = rng.normal(size=(20, P)), rng.normal(size=P), rng.uniform(0.5, 2, size=P)
    model = plain.through(np.diag(1 / spread), centre)
    assert model.directions is None
    assert_allclose(model.scores(X), plain.folded(centre, spread).scores(X), atol=1e-12)
    mixed = np.diag(1 / spread)
    mixed[1], mixed[2] = rng.normal(size=P), -mixed[2]
    model = plain.through(mixed, centre)
    assert_allclose(model.scores(X), plain.scores((X - centre) @ mixed.T), atol=1e-12)
    assert_array_equal(model.directions[[0, 3]], np.eye(P)[[0, 3]])
    assert_array_equal(model.directions[2], -np.eye(P)[2])
    assert_array_equal(model.directions[1], mixed[1])
    assert_allclose(model.slopes[0], plain.slopes[0] / spread[0])


@FLOATS
def test_a_unit_moves_onto_a_row_of_raw_features(dtype):
    rng = np.random.default_rng(0)
    _, model = seen_model(rng, dtype)
    model.W0[:] = np.tile([2, -2], 5)
    point = rng.normal(size=P).astype(dtype)
    model.seat_unit(1, point, np.arange(C))
    assert model.hidden(point[None])[0, 1] == 0.0
    assert (model.hidden(rng.normal(size=(50, P)))[:, 1] < 0).all()


@pytest.mark.parametrize(
    ("directions", "message"),
    [
        (np.ones((4, 3)), r"directions must have shape \(5, P\)"),
        (np.ones(5), r"got shape \(5,\)"),
        (np.ones((5, 0)), r"got shape \(5, 0\)"),
        (np.ones((5, 3), int), "directions must hold floats"),
        (np.full((5, 3), "a"), "directions must hold floats"),
        (np.full((5, 3), math.nan), "directions must be finite"),
        (np.full((5, 3), math.inf), "directions must be finite"),
        (np.full((5, 3), 1e300), "directions must be finite numbers of float32"),
    ],
)
def test_directions_that_are_none(directions, message):
    model = normal_model(CASES["LMM"], np.random.default_rng(0), (5, H, C), np.float32)
    with pytest.raises(ValueError, match=message):
        LMM(model.W0, model.W1, model.W2, directions)


def test_maps_that_cannot_be_taken_in():
    model = normal_model(CASES["LMM"], np.random.default_rng(0), (5, H, C), np.float32)
    D = np.ones((5, 2))
    for arguments, message in [
        ((np.ones((4, 2)), 0.0), r"directions must have shape \(5, P\)"),
        ((D, [0.0, math.inf]), "centre must be finite"),
        ((D, np.zeros(3)), "centre must be a number or 2 numbers"),
        ((1e300 * D, 0.0), "do not fit into float32: scale directions"),
        ((D, 1e300), "do not fit into float32"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.through(*arguments)


@FLOATS
def test_rows_of_views_are_refused_where_features_are_wanted(dtype):
    _, model = seen_model(np.random.default_rng(0), dtype)
    for door in ("scores", "hidden", "wins", "active_path", "views"):
        with pytest.raises(ValueError, match=f"X must have {P} columns"):
            getattr(model, door)(np.zeros((2, 5)))
