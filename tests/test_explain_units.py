"""Units as boxes, active paths, and the samples with the largest losses."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explained import FLOWERS, SMALL, fixed, lmm, path_of, tied_models
from maxplus import SubgradientLMMClassifier
from maxplus.explain import active_paths, unit_boxes
from maxplus.models import LMM
from strategies import GRID, SEEDS, grid_array

pytestmark = pytest.mark.slow

# Powers of two and zero: walls (level − A) / a are exact.
EXACT_SLOPES = np.array([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])


def inside(boxes, X):
    """Return whether each row lies in each unit's box, (N, H)."""
    return ((boxes.low <= X[:, None]) & (X[:, None] <= boxes.high)).all(axis=2)


def hidden(model, X):
    return ((model.W0 * np.repeat(X, 2, axis=1))[:, :, None] + model.W1).min(axis=1)


@st.composite
def boxed_models(draw):
    """Return a model whose walls are exact, and a level."""
    P, H, C = draw(st.integers(1, 3)), draw(SMALL), draw(SMALL)
    rng = np.random.default_rng(draw(SEEDS))
    W0 = rng.choice(EXACT_SLOPES, 2 * P)
    model = LMM(W0, grid_array(rng, (2 * P, H)), grid_array(rng, (H, C)))
    return model, draw(st.sampled_from([-1.25, -0.5, 0.0, 0.75]))


@given(boxed_models(), SEEDS)
@fixed(80)
def test_boxes_are_where_units_reach_the_level(drawn, seed):
    model, level = drawn
    P = model.n_features
    boxes = unit_boxes(model, level)
    assert boxes.low.shape == boxes.high.shape == (model.n_hidden, P)
    grid = np.stack(np.meshgrid(*[3 * GRID] * P), axis=-1).reshape(-1, P)
    walls = np.concatenate([boxes.low, boxes.high])
    at_walls = np.where(np.isfinite(walls), walls, 0.0)
    rng = np.random.default_rng(seed)
    mixed = rng.permuted(np.tile(at_walls, (20, 1)), axis=0)
    for X in (grid, at_walls, mixed, rng.normal(scale=3, size=(200, P))):
        assert np.array_equal(inside(boxes, X), hidden(model, X) >= level)


@given(tied_models())
@fixed(40)
def test_centres_are_maxima_of_units(drawn):
    model = drawn[0]
    centre = unit_boxes(model).centre
    for p in range(model.n_features):
        a, b = (float(v) for v in model.W0[2 * p : 2 * p + 2])
        for h in range(model.n_hidden):
            A, B = (float(v) for v in model.W1[2 * p : 2 * p + 2, h])

            def value(t, a=a, b=b, A=A, B=B):
                return min(a * t + A, b * t + B)

            top = float(centre[h, p])
            if a * b < 0:
                assert all(value(top) > value(top + s) for s in (-9.0, -0.01, 0.01, 9.0))
            elif a * b > 0:
                assert np.isnan(top)


def test_unit_class_is_the_largest_output_weight():
    W2 = [[1.0, 3.0, 3.0], [0.0, 0.0, 0.0], [-1.0, -2.0, -0.5]]
    boxes = unit_boxes(lmm([1.0, -1.0], np.zeros((2, 3)), W2))
    assert boxes.label.tolist() == [1, 0, 2]
    assert boxes.height.tolist() == [3.0, 0.0, -0.5]


@pytest.mark.parametrize("level", [0.0, -2.0])
def test_unit_table_contains_boxes(fitted, level):
    table = fitted.units(level).reshape(8, 4)
    assert " ".join(table.dtype.names) == "term unit class height prototype feature low high"
    expected = {
        "unit": np.arange(8)[:, None],
        "class": fitted.classes_[fitted.W2_.argmax(axis=1)][:, None],
        "height": fitted.W2_.max(axis=1)[:, None],
        "prototype": fitted.prototypes_[:, None],
        "feature": [f"feature {p}" for p in range(4)],
    }
    for name, values in expected.items():
        assert (table[name] == values).all()
    X = np.random.default_rng(0).uniform(0, 8, (400, 4))
    g = hidden(fitted.model_, X)
    sure = np.abs(g - level) > 1e-9
    assert np.array_equal(inside(table, X)[sure], (g >= level)[sure])
    assert level == 0.0 or (g >= level).any()


def test_units_of_random_weights_have_no_prototypes(without_prototypes):
    table = without_prototypes.units()
    assert (table["prototype"] == -1).all()
    assert set(table["class"]) <= set(FLOWERS)


def by_loss(clf, X, y):
    """Return the samples and their losses, largest loss first."""
    rows = zip(clf.predict_log_proba(X), y, strict=True)
    losses = [-row[list(clf.classes_).index(label)] for row, label in rows]
    return sorted(enumerate(losses), key=lambda pair: -pair[1])


@pytest.mark.parametrize("n", [1, 10, 150, 1000])
def test_worst_samples_have_the_largest_losses(without_prototypes, iris, n):
    labels = np.array(FLOWERS)[iris.y]
    table = without_prototypes.worst_samples(n)
    assert table.dtype.names == ("sample", "label", "loss", "probability")
    every = by_loss(without_prototypes, iris.X, labels)
    np.testing.assert_allclose(table["loss"], [loss for _, loss in every[:n]], rtol=1e-9)
    losses = dict(every)
    np.testing.assert_allclose(table["loss"], [losses[k] for k in table["sample"]], rtol=1e-9)
    np.testing.assert_allclose(table["probability"], np.exp(-table["loss"]), rtol=1e-9)
    assert np.array_equal(table["label"], labels[table["sample"]])
    assert len(set(table["sample"])) == min(n, 150)
    assert len(without_prototypes.worst_samples()) == 10


def test_worst_samples_omit_weight_zero(iris):
    weight = np.ones(150)
    weight[[0, 3, 70, 149]] = 0.0
    clf = SubgradientLMMClassifier(6, max_iter=30, random_state=0).fit(iris.X, iris.y, weight)
    table = clf.worst_samples(1000)
    assert sorted(table["sample"]) == np.flatnonzero(weight).tolist()
    expected = [(n, loss) for n, loss in by_loss(clf, iris.X, iris.y) if weight[n]]
    np.testing.assert_allclose(table["loss"], [loss for _, loss in expected], rtol=1e-9)
    assert np.array_equal(table["label"], iris.y[np.asarray(table["sample"])])


@pytest.mark.parametrize("n", [0, -3])
def test_worst_samples_rejects_n_below_one(fitted, n):
    with pytest.raises(ValueError, match=f"^n must be .*got {n}"):
        fitted.worst_samples(n)


# -- active paths ----------------------------------------------------------------------------------


@given(tied_models())
@fixed(80)
def test_active_paths_match_the_oracle(drawn):
    model, X = drawn
    paths = active_paths(model, X)
    for array in paths:
        assert array.shape == (len(X), model.n_classes)
    for n, x in enumerate(X):
        for d in range(model.n_classes):
            found = [array[n, d] for array in paths]
            np.testing.assert_array_equal(found, path_of(x, model, d))
    assert np.array_equal(paths.feature, paths.row // 2)
