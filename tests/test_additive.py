"""Sums of LMM terms: scores, joint training, gradients."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import oracles
from maxplus.models import LMM, AdditiveLMM, FeatureMap, Term
from maxplus.models.additive import dominated_units, with_units
from maxplus.training.result import TrainingOverflowError
from maxplus.training.smooth.soft_terms import (
    TERM_ANNEALING,
    FlatWeights,
    empty_buffers,
    pack,
    soft_gradient,
    soft_scores,
    softmax_gradient,
    train_terms,
    unpack,
)
from maxplus.training.smooth.structures import (
    N_BINS,
    PRIOR,
    Structure,
    initial_terms,
    pair_gains,
    select_pairs,
)
from strategies import DTYPES, SEEDS, grid_array, quick
from sums import random_lmm


def random_model(rng, n_features=4, n_classes=3, n_terms=4, dtype=np.float64, **others):
    terms = []
    for _ in range(n_terms):
        m = int(rng.integers(1, n_features + 1))
        features = np.sort(rng.choice(n_features, m, replace=False))
        terms.append(Term(features, random_lmm(rng, m, int(rng.integers(1, 6)), n_classes, dtype)))
    return AdditiveLMM(terms, n_features, **others)


@quick(50)
@given(seed=SEEDS, dtype=DTYPES)
def test_scores_are_the_sum_of_the_terms(seed, dtype):
    rng = np.random.default_rng(seed)
    b = grid_array(rng, 3)
    model = random_model(rng, dtype=dtype, intercept=b)
    X = grid_array(rng, (5, 4), dtype)
    expected = np.tile(b, (5, 1))
    for features, lmm in model.terms:
        for n, x in enumerate(X):
            expected[n] += oracles.lmm_path(x[features], lmm.W0, lmm.W1, lmm.W2)[0]
    assert_array_equal(model.scores(X), expected.astype(dtype), strict=True)
    assert_array_equal(model.term_scores(X).sum(axis=0) + b.astype(dtype), expected.astype(dtype))


@quick(20)
@given(seed=SEEDS, dtype=DTYPES)
def test_one_term_over_all_features_has_the_scores_of_its_lmm(seed, dtype):
    rng = np.random.default_rng(seed)
    lmm = LMM(*(rng.normal(size=shape).astype(dtype) for shape in (8, (8, 5), (5, 3))))
    X = rng.normal(size=(40, 4)).astype(dtype)
    for terms in ([Term(np.arange(4), lmm)], lmm.terms):
        model = AdditiveLMM(terms, 4, lmm.feature_map, lmm.intercept)
        assert_array_equal(model.scores(X), lmm.scores(X), strict=True)
        assert_array_equal(model.term_scores(X), lmm.term_scores(X), strict=True)


def test_feature_map_comes_before_the_terms():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4)) ** 3
    feature_map = FeatureMap.fit(X)
    plain = random_model(rng)
    mapped = AdditiveLMM(plain.terms, 4, feature_map)
    assert_array_equal(mapped.scores(X), plain.scores(feature_map(X)))


def test_scaled_model_has_scaled_scores():
    rng = np.random.default_rng(1)
    model, X = random_model(rng, intercept=[1.0, 0.0, -2.0]), rng.normal(size=(9, 4))
    assert_array_equal(model.scaled(2.0).scores(X), 2.0 * model.scores(X))


def test_weights_are_named_by_term():
    names = random_model(np.random.default_rng(2), n_terms=2).weights_by_name()
    assert list(names) == ["0.W2", "0.W1", "0.W0", "1.W2", "1.W1", "1.W0", "intercept"]


@pytest.mark.parametrize(
    ("terms", "others", "message"),
    [
        ([], {}, "at least one term"),
        ([([0, 0], 2, 3)], {}, "increasing integers"),
        ([([4], 1, 3)], {}, r"0\.\.3"),
        ([([0.0], 1, 3)], {}, "increasing integers"),
        ([([0], 2, 3)], {}, "must have 1 features"),
        ([([0], 1, 3), ([1], 1, 2)], {}, "same n_classes"),
        ([([0], 1, 3)], {"intercept": [1.0]}, "3 finite numbers"),
        ([([0], 1, 3)], {"intercept": [1.0, np.nan, 0.0]}, "3 finite numbers"),
        ([([0], 1, 3)], {"feature_map": FeatureMap([([0.0], [0.0])])}, "must have 4 features"),
    ],
)
def test_sum_rejects_invalid_terms(terms, others, message):
    rng = np.random.default_rng(0)
    built = [(features, random_lmm(rng, m, 2, C)) for features, m, C in terms]
    with pytest.raises(ValueError, match=message):
        AdditiveLMM(built, 4, **others)


# -- joint training ---------------------------------------------------------------------------


def soft_loss(U, y, share, layout, weights, intercept, tau):
    buffers = empty_buffers(layout, intercept.size, U.shape[1])
    soft_scores(U, layout, weights, intercept, tau, buffers)
    return softmax_gradient(buffers.z, y, share), buffers


@quick(15)
@given(seed=SEEDS, tau=st.sampled_from([0.05, 0.3, 2.0]))
def test_soft_gradient_agrees_with_finite_differences(seed, tau):
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    layout, weights = pack(model)
    n, b = 6, rng.normal(size=3)
    U, y, share = rng.normal(size=(4, n)), rng.integers(0, 3, n), rng.dirichlet(np.ones(n))
    gradient = FlatWeights(*(np.empty_like(W) for W in weights))
    _, buffers = soft_loss(U, y, share, layout, weights, b, tau)
    soft_gradient(U, layout, buffers, gradient)
    h = 1e-6
    for W, got in zip(weights, gradient, strict=True):
        for place in np.ndindex(W.shape):
            losses = []
            for sign in (1, -1):
                W[place] += sign * h
                losses.append(soft_loss(U, y, share, layout, weights, b, tau)[0])
                W[place] -= sign * h
            assert_allclose(got[place], (losses[0] - losses[1]) / (2 * h), rtol=1e-4, atol=1e-7)


def test_soft_scores_converge_to_hard_scores():
    rng = np.random.default_rng(3)
    model, U = random_model(rng, intercept=[0.5, 0.0, -1.0]), rng.normal(size=(4, 20))
    layout, weights = pack(model)
    buffers = empty_buffers(layout, 3, 20)
    apart = []
    for tau in (0.4, 0.2, 0.1, 0.05):
        soft_scores(U, layout, weights, model.intercept, tau, buffers)
        apart.append(np.abs(buffers.z.T - model.scores(U.T)).max())
    assert apart[3] < 0.2 * apart[0]
    assert apart[3] < 0.05 * np.log(8 * 5) * len(model.terms)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_unpack_undoes_pack(dtype):
    model = random_model(np.random.default_rng(4), dtype=dtype, intercept=[1.0, 2.0, 3.0])
    again = unpack(model, *pack(model))
    for name, W in model.weights_by_name().items():
        assert_array_equal(again.weights_by_name()[name], W, strict=True)


def additive_problem(n=600):
    """Return rows whose class depends on a sum of functions of single features."""
    rng = np.random.default_rng(5)
    U = rng.uniform(-1, 1, (n, 3))
    y = (np.abs(U[:, 0]) + U[:, 1] > 0.5).astype(np.int64)
    lmm = LMM.from_boxes([[-0.5], [0.5], [-0.5], [0.5]], 0.5, np.repeat(np.eye(2), 2, 0) / 2, 1.0)
    return U, y, AdditiveLMM([Term([p], lmm) for p in range(3)], 3)


def test_joint_training_learns_a_sum_of_shape_functions():
    U, y, start = additive_problem()
    losses = []
    annealing = TERM_ANNEALING._replace(scale=2.0)
    trained = train_terms(
        start.scaled(2.0),
        U,
        y,
        annealing,
        np.random.default_rng(0),
        on_epoch=lambda epoch, loss, _: losses.append(loss),
    )
    assert losses[-1] < 0.5 * losses[0]
    assert np.mean(trained.scores(U).argmax(axis=1) == y) > 0.95 > np.mean(y == 0) + 0.1
    for _, lmm in trained.terms:
        assert (lmm.slopes[:, 0] >= 0).all()
        assert (lmm.slopes[:, 1] <= 0).all()


def test_training_ignores_rows_of_weight_zero():
    U, y, start = additive_problem()
    wrong = np.arange(len(y)) % 2 == 0
    labels = np.where(wrong, 1 - y, y)
    trained = train_terms(
        start, U, labels, TERM_ANNEALING, np.random.default_rng(0), weight=(~wrong).astype(float)
    )
    assert np.mean(trained.scores(U).argmax(axis=1) == y) > 0.9


def test_on_epoch_stops_training():
    U, y, start = additive_problem(100)
    seen = []
    train_terms(
        start,
        U,
        y,
        TERM_ANNEALING,
        np.random.default_rng(0),
        on_epoch=lambda epoch, loss, _: seen.append(epoch) or epoch == 2,
    )
    assert seen == [0, 1, 2]


def test_overflowing_training_raises():
    U, y, start = additive_problem(100)
    with pytest.raises(TrainingOverflowError, match="use a smaller rate"):
        train_terms(start, U, y, TERM_ANNEALING._replace(rate=1e308), np.random.default_rng(0))


# -- structures -------------------------------------------------------------------------------


def test_structure_determines_terms():
    rng = np.random.default_rng(0)
    U, y = rng.normal(size=(60, 4)), rng.integers(0, 3, 60)
    structure = Structure(units=2, pairs_per_feature=0.5, boxes=2, box_units=5, size=3.0)
    assert structure.n_pairs(4) == 2
    model, scale = initial_terms(structure, U, y, 3, [(0, 2), (3, 1)], rng)
    features = [term.features.tolist() for term in model.terms]
    assert features == [[0], [1], [2], [3], [0, 2], [1, 3], [0, 1, 2, 3], [0, 1, 2, 3]]
    assert [term.lmm.n_hidden for term in model.terms] == 6 * [6] + 2 * [15]
    assert scale == 3.0 / np.sqrt(8)


def test_units_start_as_boxes_of_their_class():
    rng = np.random.default_rng(1)
    U, y = rng.normal(size=(100, 3)), rng.integers(0, 2, 100)
    model, scale = initial_terms(Structure(units=1, boxes=1, box_units=4), U, y, 2, [], rng)
    for p in range(3):
        for d in range(2):
            own = U[y == d, p]
            inside = np.zeros((1, 3))
            inside[0, p] = np.median(own)
            g = model.terms[p].lmm.hidden(inside[:, [p]])[0, d]
            assert_allclose(g, scale * own.std())
    centres = model.terms[3].lmm.offsets @ [-0.5, 0.5] / scale
    for d in range(2):
        for centre in centres[4 * d : 4 * d + 4]:
            assert np.isclose(U[y == d], centre).all(axis=1).any()


def test_start_of_a_class_without_rows_is_finite():
    rng = np.random.default_rng(2)
    U, y = rng.normal(size=(20, 2)), np.zeros(20, np.int64)
    model, _ = initial_terms(Structure(boxes=1), U, y, 3, [(0, 1)], rng)
    assert all(np.isfinite(W).all() for W in model.weights_by_name().values())


def test_select_pairs_finds_an_interaction_without_main_effects():
    rng = np.random.default_rng(3)
    U = rng.uniform(-1, 1, (400, 6))
    y = (U[:, 1] * U[:, 4] > 0).astype(np.int64)
    assert select_pairs(U, y, np.zeros((400, 2)), 3)[0] == (1, 4)


def test_select_pairs_returns_nothing_for_perfect_scores():
    rng = np.random.default_rng(4)
    U = rng.uniform(-1, 1, (400, 5))
    y = (U[:, 1] * U[:, 4] > 0).astype(np.int64)
    Z = 10.0 * np.eye(2)[y]
    assert select_pairs(U, y, Z, 10) == []


@quick(20)
@given(seed=SEEDS)
def test_pair_gains_match_loops(seed):
    rng = np.random.default_rng(seed)
    P, N, C = 3, 40, 2
    bins, r, v = rng.integers(0, N_BINS, (P, N)), rng.normal(size=(N, C)), rng.random((N, C))
    gains = np.zeros((P, P))
    pair_gains(bins, r, v, gains)
    for p in range(P):
        for q in range(p + 1, P):
            expected = 0.0
            for i in range(N_BINS):
                for j in range(N_BINS):
                    cell = (bins[p] == i) & (bins[q] == j)
                    R, V = r[cell].sum(axis=0), v[cell].sum(axis=0)
                    expected += ((R**2 - V) / (V + PRIOR)).sum()
            assert_allclose(gains[p, q], expected)


# -- units, folding, means --------------------------------------------------------------------


def mapped_model(rng, dtype=np.float64):
    """Return a sum over mapped features, and rows for it."""
    X = rng.normal(size=(60, 4)) ** 3
    b = grid_array(rng, 3)
    return random_model(rng, dtype=dtype, intercept=b, feature_map=FeatureMap.fit(X)), X


def test_activation_counts_of_a_sum():
    model, X = mapped_model(np.random.default_rng(20))
    U = model.mapped(X)
    parts = [lmm.activation_counts(U[:, features]) for features, lmm in model.terms]
    assert_array_equal(model.activation_counts(X), np.concatenate(parts))
    assert model.activation_counts(X).shape == (model.n_hidden,)
    assert model.activation_counts(X).sum() == len(X) * 3 * len(model.terms)


@quick(30)
@given(seed=SEEDS)
def test_dominated_units_of_a_sum_change_no_score(seed):
    rng = np.random.default_rng(seed)
    model, X = random_model(rng), grid_array(rng, (200, 4))
    kept = np.flatnonzero(~dominated_units(model))
    smaller = with_units(model, kept)
    assert smaller.n_hidden == kept.size
    assert_array_equal(smaller.scores(X), model.scores(X))


def test_dominated_units_are_compared_within_terms():
    """Equal units of one term are useless, equal units of different terms are not."""
    rng = np.random.default_rng(21)
    single, double = random_lmm(rng, 1, 1, 2), random_lmm(rng, 1, 1, 2)
    twice = LMM(double.W0, np.repeat(double.W1, 2, 1), np.repeat(double.W2, 2, 0))
    model = AdditiveLMM([([0], single), ([0], twice), ([1], single)], 2)
    assert_array_equal(dominated_units(model), [False, False, True, False])


def test_with_units_rejects_a_term_without_units():
    model = random_model(np.random.default_rng(22))
    first = model.terms[0].lmm.n_hidden
    with pytest.raises(ValueError, match="term 0 has none"):
        with_units(model, np.arange(first, model.n_hidden))


@pytest.mark.parametrize("is_mapped", [True, False])
def test_folded_sum_takes_unscaled_rows(is_mapped):
    rng = np.random.default_rng(23)
    model, Z = mapped_model(rng)
    if not is_mapped:
        model = AdditiveLMM(model.terms, 4, None, model.intercept)
    centre, spread = rng.normal(size=4), rng.random(4) + 0.1
    folded = model.folded(centre, spread)
    assert_allclose(folded.scores(Z * spread + centre), model.scores(Z), atol=1e-9)
    assert (folded.feature_map is not None) == is_mapped
    with pytest.raises(ValueError, match="spread must be finite and > 0"):
        model.folded(0.0, -1.0)


def test_mean_of_sums_has_the_mean_scores():
    rng = np.random.default_rng(24)
    one, X = mapped_model(rng)
    other = random_model(rng, feature_map=FeatureMap.fit(X), intercept=[3.0, 0.0, 0.0])
    mean = AdditiveLMM.mean([one, other, one])
    assert len(mean.terms) == 12
    expected = (2 * one.scores(X) + other.scores(X)) / 3
    assert_allclose(mean.scores(X), expected, rtol=1e-12, atol=1e-12)


def test_mean_accepts_single_networks():
    rng = np.random.default_rng(25)
    lmms, X = [random_lmm(rng, 4, h, 3, np.float32) for h in (2, 5)], grid_array(rng, (9, 4))
    mean = AdditiveLMM.mean(lmms)
    assert mean.dtype == np.float32
    assert_array_equal(mean.scores(X), (lmms[0].scores(X) + lmms[1].scores(X)) / 2)


def test_mean_rejects_incompatible_models():
    rng = np.random.default_rng(26)
    model, _ = mapped_model(rng)
    plain = AdditiveLMM(model.terms, 4)
    for other in (plain, AdditiveLMM(model.terms, 5), mapped_model(rng)[0]):
        with pytest.raises(ValueError, match="model 1 differs from model 0"):
            AdditiveLMM.mean([model, other])
    with pytest.raises(ValueError, match="at least one model"):
        AdditiveLMM.mean([])
    with pytest.raises(ValueError, match="same dtype"):
        AdditiveLMM.mean([plain, plain.astype(np.float32)])


@pytest.mark.parametrize("is_mapped", [True, False])
def test_largest_input_has_finite_scores(is_mapped):
    rng = np.random.default_rng(27)
    model, _ = mapped_model(rng, np.float32)
    if not is_mapped:
        model = AdditiveLMM(model.terms, 4)
    far = np.full((2, 4), model.largest_input, np.float32) * np.float32([[1], [-1]])
    assert np.isfinite(far).all()
    assert np.isfinite(model.scores(far)).all()
