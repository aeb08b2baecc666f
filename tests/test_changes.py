"""The smallest change of several columns, compared with an exhaustive search."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explained import FAR, HIGH, LOW, fixed, lmm, random_map, random_sum, random_terms
from maxplus import LMMClassifier
from maxplus.certify import certified_radius
from maxplus.explain import Domain, OneHotGroup, changes, nearest_counterfactuals, smallest_change
from maxplus.explain.changes import MILP
from maxplus.models import LMM, AdditiveLMM, FeatureMap
from strategies import SEEDS

pytestmark = pytest.mark.slow

CLOSE = 1e-4
# The least lead at a grid point that counts; sums are rounded in float32.
GRID_LEAD = {LMM: 0.0, AdditiveLMM: 1e-4}


def random_model(rng, P, H=4, C=2):
    slopes = rng.uniform(0.5, 2.0, 2 * P) * np.tile([1.0, -1.0], P)
    return LMM(slopes, 2.0 * rng.normal(size=(2 * P, H)) + 2.0, rng.normal(size=(H, C)))


def options_of(domain, x):
    """Return all values of each column, those of x first, and their distances."""
    columns = []
    for name in domain.columns:
        mine = [p for p in range(domain.n_features) if domain.column_names[p] == name]
        out = [(x[mine], 0.0)]
        if not domain.fixed[mine].any():
            feature, value = domain.candidates
            for p, v in zip(feature, value, strict=True):
                if p in mine:
                    row = domain.changed(x, p, v)[0]
                    out.append((row[mine], domain.distances(x, row[None])[0]))
        columns.append((mine, out))
    return columns


def nearest_of_all(model, domain, x, n_columns):
    """Return the least sum of distances over all combinations of at most this number of columns."""
    y, best = model.scores(x[None]).argmax(), np.inf
    columns = options_of(domain, x)
    for some in itertools.combinations(columns, n_columns):
        rows, sums = [], []
        for choice in itertools.product(*(out for _, out in some)):
            row = x.copy()
            for (mine, _), (values, _) in zip(some, choice, strict=True):
                row[mine] = values
            rows.append(row)
            sums.append(sum(distance for _, distance in choice))
        flipped = model.scores(np.array(rows)).argmax(axis=1) != y
        best = min(best, np.array(sums)[flipped].min(initial=np.inf))
    return best


@st.composite
def listed_problems(draw, is_sum):
    rng = np.random.default_rng(draw(SEEDS))
    P = 7
    domain = replace(
        Domain.unrestricted(P, rng.uniform(0.5, 2.0, P)).within(-2.0, 3.0),
        is_integer=np.isin(np.arange(P), [0, 1, 6]),
        values={2: np.array([-1.5, 0.25, 2.0])},
        categories=(OneHotGroup("word", (3, 4, 5), ("u", "v", "w"), draw(st.booleans())),),
    )
    if is_sum:
        model = random_sum(rng, P, 3, is_mapped=draw(st.booleans()), n_terms=6)
    else:
        model = random_model(rng, P, C=draw(st.integers(2, 3)))
    x = np.concatenate([rng.integers(-2, 4, 2), [0.25], np.eye(3)[rng.integers(3)], [1.0]])
    return model, x, domain.with_fixed([6] if draw(st.booleans()) else [])


@given(st.booleans().flatmap(listed_problems), st.integers(1, 3))
@fixed(40)
def test_changes_of_listed_values_are_the_smallest(drawn, n_columns):
    model, x, domain = drawn
    change = smallest_change(model, x, domain, n_columns)
    expected = nearest_of_all(model, domain, x, n_columns)
    if expected == np.inf:
        assert (change.new_class, change.distance, change.feature.size) == (-1, np.inf, 0)
        return
    assert change.distance == pytest.approx(expected, rel=CLOSE)
    assert change.lower_bound == pytest.approx(change.distance, rel=CLOSE)
    assert change.feature.size <= n_columns
    assert model.scores(change.row[None]).argmax() == change.new_class
    assert change.new_class != model.scores(x[None]).argmax()


@st.composite
def numeric_models(draw):
    rng = np.random.default_rng(draw(SEEDS))
    if draw(st.booleans()):
        return rng, random_model(rng, 3)
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    return rng, random_sum(rng, 3, 3, is_mapped=draw(st.booleans()), dtype=dtype)


@given(numeric_models())
@fixed(25)
def test_changes_of_two_numbers_are_the_smallest(drawn):
    """No nearer point of a fine grid flips the class, and the change flips it."""
    rng, model = drawn
    x, unit = rng.uniform(LOW, HIGH, 3), rng.uniform(0.5, 2.0, 3)
    domain = Domain.unrestricted(3, unit).within(LOW, HIGH)
    y = model.scores(x[None]).argmax()
    change = smallest_change(model, x, domain, 2)
    single = nearest_counterfactuals(model, x[None], domain)
    assert change.distance <= single.distance[0] * (1 + 1e-9)
    steps = np.linspace(LOW, HIGH, 81)
    nearest = np.inf
    for p, q in itertools.combinations(range(3), 2):
        rows = np.repeat(x[None], steps.size**2, axis=0)
        rows[:, p], rows[:, q] = (axis.ravel() for axis in np.meshgrid(steps, steps))
        z = model.scores(rows)
        lead = np.delete(z, y, axis=1).max(axis=1) - z[:, y]
        sums = (np.abs(rows - x) / unit).sum(axis=1)
        nearest = min(nearest, sums[lead > GRID_LEAD[type(model)]].min(initial=np.inf))
    assert change.distance <= nearest * (1 + CLOSE)
    assert change.lower_bound == pytest.approx(change.distance, rel=CLOSE)
    if change.new_class < 0:
        assert nearest == np.inf
        return
    moved = x.copy()
    moved[change.feature] = change.value
    assert (np.abs(moved - x) / unit).sum() == pytest.approx(change.distance)
    assert model.scores(moved[None]).argmax() == change.new_class != y
    assert model.scores(change.row[None]).argmax() == change.new_class
    assert (np.abs(change.row - x) >= np.abs(moved - x) - 1e-12).all()


@given(SEEDS)
@fixed(20)
def test_changes_of_sums_for_integers_and_missing_values_are_the_smallest(seed):
    """Feature 0 is whole, feature 1 is whole and was missing, with the indicator 2."""
    rng = np.random.default_rng(seed)
    knots = [(10.0 * x, u) for x, u in map(random_map(rng, 3).knots, range(2))]
    feature_map = FeatureMap([*knots, ([0.0, 1.0], [-0.5, 0.5])])
    model = AdditiveLMM(random_terms(rng, 3, 2, n_terms=5), 3, feature_map)
    domain = replace(
        Domain.unrestricted(3, [2.0, 5.0, 1.0]).within(-30.0, 30.0),
        is_integer=np.array([True, True, False]),
        indicators={1: 2},
    ).with_fixed([2])
    assert domain.is_unlisted[:2].all()
    # The imputed value of an integer may be a fraction, which is not an allowed value.
    x = np.array([rng.integers(-30, 31), rng.integers(-30, 31) + rng.choice([0.0, 0.4]), 1.0])
    y = model.scores(x[None]).argmax()
    values = np.arange(-30.0, 31.0)
    rows = [[a, x[1], 1.0] for a in values] + [[a, b, 0.0] for a in values for b in values]
    rows = np.array(rows)
    flipped = model.scores(rows).argmax(axis=1) != y
    expected = (np.abs(rows - x) / domain.unit)[:, :2].sum(axis=1)[flipped].min(initial=np.inf)
    change = smallest_change(model, x, domain, 2)
    assert change.distance == pytest.approx(expected, rel=CLOSE)
    if expected < np.inf:
        assert model.scores(change.row[None]).argmax() == change.new_class != y
        assert change.row[2] == (0.0 if 1 in change.feature else 1.0)
        assert (change.value == np.round(change.value)).all()


@given(SEEDS)
@fixed(8)
def test_changes_are_no_nearer_than_certified_radius(seed):
    rng = np.random.default_rng(seed)
    model, x = random_model(rng, 3), rng.normal(size=3)
    change = smallest_change(model, x, Domain.unrestricted(3).within(-9.0, 9.0), 3)
    assert change.distance >= certified_radius(model, x[None])[0] * (1 - CLOSE)


@given(SEEDS)
@fixed(15)
def test_change_of_one_column_is_its_counterfactual(seed):
    rng = np.random.default_rng(seed)
    model, x = random_model(rng, 3), rng.normal(size=3)
    domain = Domain.unrestricted(3).within(-9.0, 9.0)
    single = nearest_counterfactuals(model, x[None], domain)
    change = smallest_change(model, x, domain, 1)
    assert change.distance == single.distance[0]
    assert change.feature.tolist() == single.feature[single.feature >= 0].tolist()


def test_changes_keep_integers_and_fill_missing_values():
    rng = np.random.default_rng(5)
    P = 4
    domain = replace(
        Domain.unrestricted(P, names=["a", "b", "c", "no c"]).within(-50.0, 50.0),
        is_integer=np.array([True, False, False, False]),
        indicators={2: 3},
    ).with_fixed([3])
    found = 0
    for _ in range(8):
        model, x = random_model(rng, P), np.append(rng.normal(size=3), 1.0)
        change = smallest_change(model, x, domain, 3, class_names=["no", "yes"])
        moved = change.row != x
        assert not moved[0] or change.row[0] == round(change.row[0])
        assert change.row[3] == (0.0 if 2 in change.feature else 1.0)
        found += change.feature.size > 1
        for p in change.feature:
            assert f"{domain.names[p]} goes from " in str(change)
    assert found > 1


def test_changes_of_classifier_are_printed(iris):
    clf = LMMClassifier(9, slope=2.0, warmup_epochs=3, random_state=0).fit(iris.X, iris.y)
    x = iris.X[70]
    low, high = iris.X.min(axis=0), iris.X.max(axis=0)
    change = clf.smallest_change(x, 2, low=low, high=high, class_names=list("abc"))
    assert str(change).startswith(f"changes to {'abc'[change.new_class]} if feature ")
    assert clf.predict(change.row[None]) == [change.new_class]
    single = clf.explain(x[None], low=low, high=high).counterfactuals
    assert change.distance <= single.distance[0]
    held = clf.smallest_change(x[None], 2, low=low, high=high, fixed=change.feature[:1])
    assert change.feature[0] not in held.feature
    assert held.distance >= change.distance * (1 - CLOSE)
    with pytest.raises(ValueError, match=r"^x must be one sample; got 2"):
        clf.smallest_change(iris.X[:2])
    with pytest.raises(ValueError, match=r"^n_columns must be .*got 0"):
        clf.smallest_change(x, 0)


def test_changes_describe_imputed_values_as_missing():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(20, 80, 90), "job": rng.choice(["a", "b"], 90)})
    y = frame["age"] + 20 * (frame["job"] == "a") > 55
    frame.loc[::3, "age"] = np.nan
    clf = LMMClassifier(structure="shapes", warmup_epochs=5, random_state=0).fit(frame, y)
    texts = [str(clf.smallest_change(frame.iloc[[row]], 2)) for row in range(12)]
    changed = [text for text in texts if "age goes from" in text]
    missing = [text for row, text in enumerate(texts) if row % 3 == 0 and text in changed]
    assert missing
    for text in changed:
        assert ("age goes from missing to " in text) == (text in missing)
    features = clf.encoder_.transform(frame[:1])
    explicit = clf.smallest_change(features, 2, missing=[True, False])
    assert str(explicit) == texts[0]
    with pytest.raises(ValueError, match=r"^missing must be a boolean mask of 1 rows"):
        clf.smallest_change(features, 2, missing=[1, 0, 1])


def test_changes_reject_too_large_problems(monkeypatch):
    rng = np.random.default_rng(0)
    model, domain = random_model(rng, 3), Domain.unrestricted(3).within(-9.0, 9.0)
    X = rng.normal(size=(9, 3))
    monkeypatch.setattr(changes, "MAX_INTEGERS", 1)
    far = X[nearest_counterfactuals(model, X, domain).distance.argmax()]
    with pytest.raises(ValueError, match=r"integer variables here, more than 1: fix columns"):
        smallest_change(model, far, domain, 2)


# Class 1 wins only where both features are above 5.
BOTH_ABOVE_5 = lmm(
    [1.0, 0.0, 1.0, 0.0],
    [[FAR, -5.0], [0.0, FAR], [FAR, -5.0], [0.0, FAR]],
    [[0.0, -FAR], [-FAR, 0.0]],
)


@pytest.mark.parametrize(
    ("lower_bound", "text"), [(0.5, "was found"), (np.inf, "changes the prediction")]
)
def test_text_of_search_without_result_depends_on_proof(monkeypatch, lower_bound, text):
    monkeypatch.setattr(MILP, "solve", lambda *_: changes.Optimum(None, lower_bound))
    change = smallest_change(BOTH_ABOVE_5, [0.0, 0.0], Domain.unrestricted(2).within(-9.0, 9.0), 2)
    assert change.feature.size == 0
    assert change.lower_bound == lower_bound
    assert change.text == f"no change of this many columns {text}"


def test_changes_without_limits_or_counterfactual_are_not_searched():
    x = np.zeros(2)
    with pytest.raises(ValueError, match=r"^domain must have limits .*'feature 0' has none"):
        smallest_change(BOTH_ABOVE_5, x, Domain.unrestricted(2), 2)
    change = smallest_change(BOTH_ABOVE_5, x, Domain.unrestricted(2).within(-9.0, 9.0), 2)
    assert change.feature.tolist() == [0, 1]
    assert change.distance == pytest.approx(10.0, rel=CLOSE)
    assert change.row.tolist() == [5.1, 5.1]
    assert (
        smallest_change(BOTH_ABOVE_5, x, Domain.unrestricted(2).within(-9.0, 4.0), 2).new_class
        == -1
    )


def test_milp_solve_returns_the_optimum_or_none():
    program = MILP()
    a, b = program.variable(0.0, 9.0, cost=1.0), program.switch(cost=2.75)
    program.at_most({a: -1.0, b: -3.0}, -2.5)  # a + 3·b ≥ 2.5
    found = program.solve(10.0)
    np.testing.assert_allclose(found.values, [2.5, 0.0], atol=1e-9)
    assert found.lower_bound == pytest.approx(2.5)
    program.at_most({a: 1.0}, 2.0)
    assert program.solve(10.0).values.tolist() == [0.0, 1.0]
    program.at_least_one([b])
    program.at_most({b: 1.0}, 0.0)
    impossible = program.solve(10.0)
    assert impossible.values is None
    assert impossible.lower_bound == np.inf
