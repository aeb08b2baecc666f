"""Domains of columns, and counterfactuals within them, against exhaustive search."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explained import FAR, FEW_CLASSES, SMALL, fixed, flips_within, lmm
from maxplus import LMMClassifier
from maxplus.certify import certified_radius
from maxplus.explain import Domain, OneHotGroup, nearest_counterfactuals
from maxplus.explain import domain as domain_module
from maxplus.explain.boundary import DecisionBoundary
from maxplus.explain.domain import fixed_columns
from maxplus.models import LMM
from strategies import DTYPES, SEEDS, grid_array

pytestmark = pytest.mark.slow

# Two numbers, a category of three, an ordinal, and a number with an indicator of missing values.
PAINS = [f"pain = {word}" for word in ("none", "some", "much")]
NAMES = ("age", "pressure", *PAINS, "stage", "sugar", "no sugar")
PAIN = OneHotGroup("pain", (2, 3, 4), ("none", "some", "much"))


def columns(n=60, seed=0):
    rng = np.random.default_rng(seed)
    pain = np.eye(3)[rng.integers(0, 3, n)]
    missing = rng.random(n) < 0.3
    return np.column_stack(
        [
            rng.integers(20, 80, n),
            rng.normal(120.0, 10.0, n).round(1),
            pain,
            rng.integers(0, 4, n),
            np.where(missing, 5.5, rng.normal(5.0, 1.0, n).round(2)),
            missing,
        ]
    )


def clinic(**changes):
    X = columns()
    domain = Domain.from_rows(
        X, names=NAMES, categories=[PAIN], indicators={6: 7}, fixed=["no sugar"]
    )
    return replace(domain, **{"ordinals": {5: ("I", "II", "III", "IV")}} | changes)


def random_model(rng, P, H=5, C=3, dtype=np.float64):
    slopes = rng.uniform(0.3, 2.0, 2 * P) * np.tile([1.0, -1.0], P)
    weights = slopes, 2.0 * rng.normal(size=(2 * P, H)) + 3.0, rng.normal(size=(H, C))
    return LMM(*(np.asarray(W, dtype) for W in weights))


# -- the domain itself ------------------------------------------------------------------------


def test_domain_infers_units_limits_and_column_types():
    X = columns()
    domain = clinic()
    np.testing.assert_allclose(domain.unit, X.std(axis=0))
    assert np.array_equal(domain.low, X.min(axis=0))
    assert np.array_equal(domain.high, X.max(axis=0))
    assert domain.columns == ("age", "pressure", "pain", "stage", "sugar")
    assert np.flatnonzero(domain.is_continuous).tolist() == [1, 6]
    assert np.flatnonzero(domain.is_unlisted).tolist() == [0]
    listed = set(zip(*(part.tolist() for part in domain.candidates), strict=True))
    assert listed == {(2, 1), (3, 1), (4, 1), (5, 0), (5, 1), (5, 2), (5, 3)}


@pytest.mark.parametrize(
    ("column", "values", "whole"),
    [
        (np.tile([3.0, 6.0, 7.0], 20), [3.0, 6.0, 7.0], True),
        (np.tile([0.5, 0.25, 1.0], 20), [0.25, 0.5, 1.0], False),
        # Three values in as many rows may take any other.
        (np.array([0.5, 0.25, 1.0]), None, False),
        (np.arange(60.0), None, True),
        (np.array([1.5, 4.0]), [1.5, 4.0], False),
        (np.full(60, 2.0), None, True),
        (np.append(np.tile([1.0, 2.0], 600), np.arange(20.0)), None, True),
    ],
    ids=str,
)
def test_domain_of_few_values_allows_only_those(column, values, whole):
    domain = Domain.from_rows(column[:, None])
    assert domain.is_integer.tolist() == [whole]
    found = domain.values.get(0)
    assert (None if found is None else found.tolist()) == values
    assert domain.unit[0] == (column.std() or 1.0)


def test_counterfactuals_change_whole_columns():
    domain, x = clinic(), columns()[0]
    x[2:5], x[6:8] = [0, 1, 0], [5.5, 1]
    rows = domain.changed(x, [0, 4, 4, 6], [33, 1, 0, 7.5])
    expected = np.repeat(x[None], 4, axis=0)
    expected[0, 0] = 33
    expected[1, 2:5] = [0, 0, 1]
    expected[2, 2:5] = 0
    expected[3, 6:8] = [7.5, 0]
    assert np.array_equal(rows, expected)
    moved = abs(33 - x[0]), 1.0, 1.0, 2.0
    units = domain.unit[0], domain.unit[[3, 4]].min(), domain.unit[3], domain.unit[6]
    np.testing.assert_allclose(domain.distances(x, rows), np.divide(moved, units))
    none = replace(domain, categories=(PAIN._replace(allows_none=True),))
    assert none.text(rows[1], 3) == "'much'"
    assert none.text(rows[2], 3) == "none of the known categories"


def test_domain_accepts_names_and_indices_of_fixed_columns():
    domain = clinic()
    assert np.flatnonzero(domain.with_fixed(["pain", 0]).fixed).tolist() == [0, 2, 3, 4, 7]
    # The name of a feature stands for its column.
    assert np.flatnonzero(domain.with_fixed("pain = some").fixed).tolist() == [2, 3, 4, 7]
    assert domain.with_fixed([]) is domain
    for wrong in ("pains", 8, -1):
        with pytest.raises(
            ValueError, match=rf"^fixed: column {wrong!r} does not exist; .*'pain', 'stage'"
        ):
            domain.with_fixed([wrong])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"unit": np.zeros(8)}, "^unit must be finite and > 0"),
        ({"low": np.zeros(3)}, "^low must have 8 entries"),
        ({"names": ("a",)}, "^names must have 8 entries"),
        ({"low": np.full(8, 1e9)}, "^low must not exceed high; got 1e"),
        ({"categories": (PAIN, PAIN)}, "share"),
        ({"categories": (PAIN._replace(values=("a",)),)}, "'pain' must have a feature for each"),
        ({"values": {9: np.zeros(1)}}, "features 0 to 7; there is no feature 9"),
        ({"indicators": {6: 8}}, "no feature 8"),
        ({"ordinals": {-1: ("I", "II")}}, "no feature -1"),
    ],
    ids=str,
)
def test_domain_rejects_invalid_arguments(changes, message):
    with pytest.raises(ValueError, match=message):
        clinic(**changes)


def test_domain_fixes_categorical_column_if_one_feature_is_fixed():
    domain = clinic(fixed=np.arange(8) == 3)
    assert np.flatnonzero(domain.fixed).tolist() == [2, 3, 4]
    assert not np.isin([2, 3, 4], domain.candidates.feature).any()


def test_certificates_hold_non_continuous_columns_fixed():
    X = np.column_stack([columns(), np.arange(60) % 2])
    domain = Domain.from_rows(X, categories=[PAIN], indicators={6: 7}, fixed=[7])
    scale = domain.certificate_scale()
    assert np.flatnonzero(scale == 0.0).tolist() == [2, 3, 4, 7, 8]
    moving = np.setdiff1d(np.arange(9), [7])
    assert np.array_equal(scale[[0, 1, 5, 6]], domain.unit[[0, 1, 5, 6]])
    everything = domain.certificate_scale(categories=True)
    assert np.array_equal(everything[moving], domain.unit[moving])
    assert everything[7] == 0.0
    assert fixed_columns(domain.column_names, scale) == ["pain", "feature 8"]
    assert fixed_columns(domain.column_names, everything) == []


# -- flips, against trying every allowed value -------------------------------------------------


def allowed_changes(domain, x):
    """Yield each row that a change of one column makes of x, without free numbers."""
    for p in np.flatnonzero(~domain.fixed):
        (category,) = [c for c in domain.categories if p in c.features] or [None]
        low, high = int(np.ceil(domain.low[p])), int(np.floor(domain.high[p]))
        values = domain.values.get(p, range(low, high + 1))
        if category is not None:
            values = [0.0, 1.0] if category.allows_none else [1.0]
        for value in values:
            row = x.copy()
            if category is not None:
                row[list(category.features)] = 0.0
            elif p in domain.indicators:
                row[domain.indicators[p]] = 0.0
            row[p] = value
            if domain.low[p] <= value <= domain.high[p] and (row != x).any():
                yield domain.column_names[p], row


def nearest_of(model, domain, x):
    """Return the distance of the nearest change that flips, and the columns that reach it."""
    y, best, names = model.scores(x[None]).argmax(), np.inf, set()
    counted = ~np.isin(np.arange(x.size), list(domain.indicators.values()))
    for name, row in allowed_changes(domain, x):
        distance = (np.abs(row - x) / domain.unit)[counted].max()
        if distance <= best and model.scores(row[None]).argmax() != y:
            names = {name} | (names if distance == best else set())
            best = distance
    return best, names


@st.composite
def discrete_problems(draw):
    """Whole numbers, listed values, a category and an indicator; grids, so that many scores tie."""
    rng, dtype = np.random.default_rng(draw(SEEDS)), draw(DTYPES)
    H, C, n = draw(st.integers(1, 5)), draw(FEW_CLASSES), 3
    names = ("long", "short", "listed", "a", "b", "c", "imputed", "missing")
    P = len(names)
    few = draw(st.sampled_from([0, domain_module.MAX_CANDIDATES]))
    low, high = np.full(P, -6.0), np.full(P, 40.0)
    high[1] = 3.0
    domain = Domain(
        rng.choice([0.5, 1.0, 3.0], P),
        low,
        high,
        np.isin(np.arange(P), [0, 1, 6]),
        np.isin(np.arange(P), [7, *([0] if draw(st.booleans()) else [])]),
        names,
        {2: np.array([-1.5, 0.0, 4.5])},
        (OneHotGroup("word", (3, 4, 5), ("u", "v", "w"), draw(st.booleans())),),
        {6: 7},
    )
    slopes = rng.choice([-1.0, -0.5, 0.25, 0.5, 1.0], 2 * P)
    weights = slopes, 8 * grid_array(rng, (2 * P, H)), 2 * grid_array(rng, (H, C))
    X = rng.integers(-8, 45, (n, P)).astype(float)
    X[:, 1] = rng.integers(-6, 4, n)
    X[:, 0] += rng.choice([0.0, 0.5], n)
    X[:, 2] = rng.choice([-1.5, 0.0, 4.5], n)
    X[:, 3:6] = np.eye(4)[rng.integers(0, 4, n), :3]
    X[:, 7] = rng.integers(0, 2, n)
    model = LMM(*(np.asarray(W, dtype) for W in weights))
    return model, X, domain, few


@given(discrete_problems())
@fixed(120)
def test_counterfactuals_are_the_nearest_of_all_values(drawn):
    model, X, domain, few = drawn
    before = domain_module.MAX_CANDIDATES
    # With 0, integers are tried from crossing to crossing, otherwise one by one.
    domain_module.MAX_CANDIDATES = few
    try:
        flips = nearest_counterfactuals(model, X, domain)
    finally:
        domain_module.MAX_CANDIDATES = before
    for n, x in enumerate(X):
        distance, names = nearest_of(model, domain, x)
        assert flips.distance[n] == distance
        if distance == np.inf:
            assert (flips.feature[n], flips.new_class[n]) == (-1, -1)
            continue
        p = int(flips.feature[n])
        # The first column of those that are equally near.
        assert domain.column_names[p] == next(c for c in domain.columns if c in names)
        row = domain.changed(x, p, flips.value[n])[0]
        assert any(np.array_equal(row, other) for _, other in allowed_changes(domain, x))
        assert model.scores(row[None]).argmax() == flips.new_class[n]
        assert flips.shown[n] == flips.value[n]


@given(st.data())
@fixed(60)
def test_domain_units_scale_distances(data):
    """Distances in units are those in raw units of a model whose features have them divided out."""
    rng = np.random.default_rng(data.draw(SEEDS))
    P = data.draw(SMALL)
    model = random_model(rng, P)
    unit, X = 2.0 ** rng.integers(-3, 4, P), rng.normal(size=(4, P))
    low, high = X.min(axis=0) - rng.random(P), X.max(axis=0) + rng.random(P)
    found = nearest_counterfactuals(
        model, X * unit, Domain.unrestricted(P, unit).within(low * unit, high * unit)
    )
    expected = flips_within(model.folded(0.0, 1.0 / unit), X, low, high)
    assert np.array_equal(found.feature, expected.feature)
    assert np.array_equal(found.new_class, expected.new_class)
    np.testing.assert_allclose(found.distance, expected.distance, rtol=1e-9)


@given(SEEDS)
@fixed(40)
def test_no_counterfactual_within_certified_radius(seed):
    rng = np.random.default_rng(seed)
    domain = clinic()
    model = random_model(rng, 8).folded(0.0, domain.unit)
    X = columns(8, seed)
    everything = replace(domain, indicators={}, fixed=np.zeros(8, bool))
    flips = nearest_counterfactuals(model, X, everything)
    assert (flips.distance >= certified_radius(model, X, everything.unit) * (1 - 1e-9)).all()


# z_0 = 0 and z_1 = x − 5: class 1 from 5 on.
UP = lmm([1.0, 0.0], [[FAR, -5.0], [0.0, FAR]], [[0.0, -FAR], [-FAR, 0.0]])


@pytest.mark.parametrize(
    ("x", "low", "high", "value"),
    [
        (-3.0, 7.0, 9.0, 7.0),
        (-3.0, 7.0, 7.0, 7.0),
        (-3.0, 1.0, 2.0, np.nan),
        (20.0, 1.0, 2.0, 2.0),
        (20.0, 6.0, 9.0, np.nan),
        (20.0, 1.0, 9.0, 5.0),
    ],
)
def test_counterfactuals_of_rows_outside_domain_may_enter_it(x, low, high, value):
    flips = nearest_counterfactuals(UP, np.array([[x]]), Domain.unrestricted(1).within(low, high))
    assert flips.value[0] == pytest.approx(value, nan_ok=True)


def test_counterfactuals_skip_narrow_gaps_between_integers():
    """Class 1 wins within 0.3 of 4.5 and of 8, so that only 8 is whole there."""
    W1 = [[-4.2, -7.7, FAR], [4.8, 8.3, FAR], [FAR, FAR, 0.0], [FAR, FAR, 0.0]]
    model = lmm([1.0, -1.0, 0.0, 0.0], W1, [[-FAR, 0.0], [-FAR, 0.0], [0.0, -FAR]])
    x = np.array([[2.0, 0.0]])
    assert model.scores(x).argmax() == 0
    assert nearest_counterfactuals(model, x).value[0] == pytest.approx(4.2)
    domain = replace(Domain.unrestricted(2).within(0.0, 50.0), is_integer=np.array([True, False]))
    assert np.flatnonzero(domain.is_unlisted).tolist() == [0]
    assert nearest_counterfactuals(model, x, domain).value.tolist() == [8.0]
    assert nearest_counterfactuals(model, x, domain.within(high=7.9)).feature.tolist() == [-1]


# -- printed numbers --------------------------------------------------------------------------


@given(SEEDS, DTYPES)
@fixed(60)
def test_printed_counterfactuals_change_the_prediction(seed, dtype):
    rng = np.random.default_rng(seed)
    P = 3
    unit = 10.0 ** rng.uniform(-4, 4, P)
    model = random_model(rng, P, dtype=dtype).folded(0.0, unit)
    X = (rng.normal(size=(6, P)) * unit).astype(dtype)
    domain = Domain.unrestricted(P, unit).within(X.min(axis=0) - unit, X.max(axis=0) + unit)
    flips = nearest_counterfactuals(model, X, domain)
    for n in np.flatnonzero(flips.feature >= 0):
        p, x = flips.feature[n], X[n].astype(float)
        shown = flips.shown[n]
        typed = x.copy()
        typed[p] = float(domain.text(domain.changed(x, p, shown)[0], p, exact=True))
        assert typed[p] == shown
        assert model.scores(typed[None]).argmax() == flips.new_class[n]
        assert domain.low[p] <= shown <= domain.high[p]
        beyond = (shown - flips.value[n]) * np.sign(flips.value[n] - x[p])
        assert 0.0 <= beyond <= 0.1 * unit[p] * (1 + 1e-12)


def test_counterfactual_is_printed_with_fewest_digits():
    flips = nearest_counterfactuals(UP, np.array([[1.2]]), Domain.unrestricted(1))
    assert flips.value[0] == pytest.approx(5.0)
    assert flips.shown.tolist() == [5.1]
    # Nothing beyond the limit is printed.
    flips = nearest_counterfactuals(UP, np.array([[1.2]]), Domain.unrestricted(1).within(high=5.04))
    assert flips.shown.tolist() == [5.01]


# -- text -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def patients():
    X = columns(200, seed=1)
    rng = np.random.default_rng(2)
    sick = X[:, 0] / 20 + 2.5 * X[:, 4] + X[:, 5] + 0.5 * X[:, 7] + rng.normal(size=200) > 5.0
    y = np.where(sick, "sick", "well")
    clf = LMMClassifier(12, slope=2.0, warmup_epochs=5, random_state=0).fit(X, y)
    domain = Domain.from_rows(X, names=NAMES, categories=[PAIN], indicators={6: 7}, fixed=[7])
    return clf, X, replace(domain, ordinals={5: ("I", "II", "III", "IV")})


def typed_in(x, column, text):
    """Return row x with the printed value of a column."""
    row = x.copy()
    if column == "pain":
        row[2:5] = [word == text for word in ("'none'", "'some'", "'much'")]
        assert row[2:5].sum() == 1
    elif column == "stage":
        row[5] = ["'I'", "'II'", "'III'", "'IV'"].index(text)
    else:
        row[NAMES.index(column)] = float(text)
        if column == "sugar":
            row[7] = 0.0
    return row


def test_printed_counterfactuals_of_mixed_columns_change_the_prediction(patients):
    clf, X, domain = patients
    why = clf.explain(X, domain=domain)
    records = why.to_records()[:: len(clf.classes_)]
    seen = set()
    for n, x in enumerate(X):
        record, last = records[n], why.text(n).splitlines()[-1]
        names = ("class", "feature", "from", "to")
        label, column, old, new = (record[f"counterfactual_{name}"] for name in names)
        if not column:
            assert "no change of a single feature changes the prediction" in last
            continue
        assert last.strip() == (
            f"changes to {label} if {column} goes from {old} to {new}, "
            "the smallest change of a single feature"
        )
        assert clf.predict(typed_in(x, column, new)[None]) == [label]
        assert column == "sugar" or np.array_equal(typed_in(x, column, old), x)
        seen.add(column)
    assert {"age", "pain", "stage"} <= seen


def test_counterfactuals_keep_fixed_columns(patients):
    clf, X, domain = patients
    why = clf.explain(X, domain=domain, fixed=["age", "pain"])
    changed = set(why.to_records()["counterfactual_feature"])
    assert changed & {"stage", "pressure", "sugar"}
    assert not changed & {"age", "pain"}
    for n in np.flatnonzero(why.counterfactuals.feature >= 0):
        row = domain.changed(X[n], why.counterfactuals.feature[n], why.counterfactuals.value[n])[0]
        assert np.array_equal(row[[0, 2, 3, 4]], X[n, [0, 2, 3, 4]])


def test_counterfactuals_name_missing_values(patients):
    clf, X, domain = patients
    n = int(np.flatnonzero(X[:, 7] == 1.0)[0])
    rows = X[[n, n]]
    missing = np.zeros((2, 5), bool)
    missing[0, 4] = True
    why = clf.explain(rows, domain=domain, missing=missing, row_numbers=[31, 32])
    assert why.text(0).startswith("Row 31: ")
    assert "sugar was missing and was imputed with 5.5" in why.text(0)
    assert "was missing" not in why.text(1)
    by_feature = np.zeros((2, 8), bool)
    by_feature[0, 7] = True
    assert clf.explain(rows, domain=domain, missing=by_feature).text(0).endswith("imputed with 5.5")
    for wrong in (missing[:1], missing.astype(int), missing[:, :3]):
        with pytest.raises(ValueError, match=r"^missing must be a boolean mask of 2 rows and 5"):
            clf.explain(rows, domain=domain, missing=wrong)


def test_counterfactual_of_missing_value_starts_from_missing():
    """Class 1 from x ≥ 5 on where x is known; an unknown x is class 0."""
    W0 = [1.0, 0.0, 0.0, -FAR]
    W1 = [[FAR, -5.0], [0.0, FAR], [FAR, FAR], [2 * FAR, FAR / 2]]
    model = lmm(W0, W1, [[0.0, -FAR], [-FAR, 0.0]])
    domain = replace(Domain.unrestricted(2, names=["dose", "no dose"]), indicators={0: 1})
    domain = domain.with_fixed([1])
    X = np.array([[7.0, 1.0], [3.0, 1.0], [3.0, 0.0]])
    assert model.scores(X).argmax(axis=1).tolist() == [0, 0, 0]
    flips = nearest_counterfactuals(model, X, domain)
    assert flips.feature.tolist() == [0, 0, 0]
    np.testing.assert_allclose(flips.distance, [0.0, 2.0, 2.0], atol=1e-9)
    for kind in (
        {"is_integer": np.array([True, False])},
        {"values": {0: np.array([3.0, 5.5, 7.0])}},
    ):
        found = nearest_counterfactuals(model, X, replace(domain, **kind).within(0.0, 90.0))
        assert found.distance.tolist()[0] == 0.0
        assert (found.value[1:] > 5.0).all()
        assert (found.value[1:] <= 6.0).all()


def test_counterfactuals_of_zero_rows_are_empty():
    flips = nearest_counterfactuals(UP, np.empty((0, 1)), Domain.unrestricted(1))
    assert [field.shape for field in flips] == [(0,)] * 5


def test_domain_of_explanations_is_that_of_the_encoder_or_of_the_scale(patients):
    clf, X, domain = patients
    found = [(clf.explain(X[:20]).counterfactuals, clf.certificate_scale())]
    clf.encoder_ = SimpleNamespace(domain=lambda: domain)
    try:
        found.append((clf.explain(X[:20]).counterfactuals, clf.certificate_scale()))
    finally:
        del clf.encoder_
    expected = Domain.unrestricted(8, clf.scale_), domain
    for (flips, scale), own in zip(found, expected, strict=True):
        nearest = nearest_counterfactuals(clf.model_, X[:20], own)
        assert np.array_equal(flips.distance, nearest.distance)
        assert np.array_equal(scale, own.certificate_scale())


def test_encoded_features_are_described_by_column():
    domain = replace(
        Domain.unrestricted(5, names=["c = red", "c = blue", "c is missing", "pain", "age"]),
        categories=(OneHotGroup("c", (0, 1), ("red", "blue")),),
        indicators={0: 2, 1: 2},
        ordinals={3: ("low", "high")},
    )
    assert domain.phrase(0, 1.0) == "c being 'red'"
    assert domain.phrase(1, 0.0) == "c not being 'blue'"
    assert domain.phrase(2, 1.0) == "c being missing"
    assert domain.phrase(2, 0.0) == "c not being missing"
    assert domain.phrase(3, 1.0) == "pain = 'high'"
    assert domain.phrase(4, 54.0) == "age = 54"


def test_missing_category_is_a_category():
    X = np.array([[1.0, 0.0, 0.0, 1.5], [0.0, 1.0, 0.0, 0.5], [0.0, 0.0, 1.0, 1.0]] * 20)
    y = np.array([0, 1, 1] * 20)
    domain = Domain.from_rows(
        X,
        names=["c = red", "c = blue", "c is missing", "size"],
        categories=[OneHotGroup("c", (0, 1), ("red", "blue"))],
        indicators={0: 2, 1: 2},
    )
    clf = LMMClassifier(4, slope=2.0, warmup_epochs=3, random_state=0).fit(X, y)
    missing = np.zeros((60, 2), bool)
    missing[2::3, 0] = True
    text = clf.explain(X[:3], domain=domain, missing=missing[:3]).text(2)
    assert text.endswith("c was missing, which is a category of its own")


@pytest.fixture
def few_searches(monkeypatch):
    """Fail after more than 300 searches along features."""
    along, searches = DecisionBoundary.along, []

    def counted(*args, **options):
        searches.append(args)
        assert len(searches) <= 300
        return along(*args, **options)

    monkeypatch.setattr(DecisionBoundary, "along", counted)


@pytest.mark.usefixtures("few_searches")
def test_counterfactuals_of_large_integers_with_small_scale_take_few_steps():
    slopes = np.repeat([1e-8, 1e6], 2) * np.tile([1.0, -1.0], 2)
    centres = np.array([[2e8, 0.0], [8e8, 0.0]])
    W1 = -slopes[:, None] * np.repeat(centres.T, 2, axis=0)
    model = LMM(slopes, W1, np.where(np.eye(2), 0.0, -99.0))
    X = np.array([[1e8, 1e-6], [3e8, -2e-6], [499_000_001.0, 1e-7]])
    whole = np.array([True, False])
    domain = replace(
        Domain.unrestricted(2, [3e8, 1e-6]).within([0.0, -1e-5], [1e9, 1e-5]),
        is_integer=whole,
        fixed=~whole,
    )
    flips = nearest_counterfactuals(model, X, domain)
    assert flips.feature.tolist() == [0, 0, 0]
    assert flips.value.tolist() == [5e8 + 1] * 3


@pytest.mark.usefixtures("few_searches")
def test_counterfactuals_of_integers_hidden_by_rounding_take_few_steps():
    """In float32, scores near 1,000 are equal for thousands of neighbouring integers."""
    slopes = np.array([1e-8, -1e-8])
    W1 = -slopes[:, None] * np.array([[2e8, 8e8]])
    W2 = np.where(np.eye(2), 1000.0, 900.0)
    model = LMM(*(W.astype(np.float32) for W in (slopes, W1, W2)))
    X = np.array([[1e8], [4.8e8]])
    domain = replace(Domain.unrestricted(1, 3e8).within(0.0, 1e9), is_integer=np.ones(1, bool))
    flips = nearest_counterfactuals(model, X, domain)
    assert flips.new_class.tolist() == [1, 1]
    assert model.scores(flips.value[:, None]).argmax(axis=1).tolist() == [1, 1]
    # A unit in the last place of 1,000 is 6e-5, of which 16 are allowed for on either side.
    assert (np.abs(flips.value - 5e8) <= 2 * 16 * 6.2e-5 / 1e-8).all()
