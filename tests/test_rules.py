"""Rules: the model's own boxes, counted on rows as printed."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explained import FLOWERS, MEASURES, fixed
from maxplus import LMMClassifier
from maxplus.explain import Domain, OneHotGroup, strongest_rules
from maxplus.explain.domain import number_text, rounded_away, roundings
from maxplus.explain.winning_boxes import box_conditions
from maxplus.models import LMM, AdditiveLMM, FeatureMap, Term
from strategies import DTYPES, SEEDS

LINE = r"(.+) → (.+), (\d+) of (\d+) rows"


def holds(premise, columns):
    """Return which rows meet a premise, read from the text; ``columns`` are values by name."""
    inside = np.ones(len(next(iter(columns.values()))), bool)
    for part in premise.split(" and "):
        if found := re.fullmatch(r"(.+) is (not )?'(.+)'", part):
            inside &= (columns[found[1]] == found[3]) != bool(found[2])
        elif found := re.fullmatch(r"(.+) = (.+)", part):
            inside &= columns[found[1]] == float(found[2])
        else:
            pattern = r"(?:([-+.e\d]+) ≤ )?(.+?)(?: ([≤≥]) (\S+))?"
            low, name, sign, limit = re.fullmatch(pattern, part).groups()
            inside &= columns[name] >= float(low or (limit if sign == "≥" else -np.inf))
            inside &= columns[name] <= float(limit if sign == "≤" else np.inf)
    return inside


def check_rules(rules, columns, labels):
    for rule in rules:
        premise, label, right, rows = re.fullmatch(LINE, str(rule)).groups()
        inside = holds(premise, columns)
        assert inside.sum() == int(rows) == rule.n_rows
        assert (labels[inside] == label).sum() == int(right) == rule.n_correct
        assert premise == rule.premise


@pytest.fixture(scope="module")
def flowers(iris):
    return LMMClassifier(9, slope=2.0, warmup_epochs=5, random_state=0).fit(iris.X, iris.y)


def test_rules_are_true_as_printed(flowers, iris):
    rules = flowers.rules(iris.X, iris.y, class_names=FLOWERS, feature_names=MEASURES)
    assert 3 <= len(rules) <= 9
    assert rules.n_rows == 150
    check_rules(rules, dict(zip(MEASURES, iris.X.T, strict=True)), np.array(FLOWERS)[iris.y])
    # Setosa is separable by its petals.
    assert any(rule.label == "setosa" and rule.n_correct == rule.n_rows >= 49 for rule in rules)
    assert str(rules).splitlines() == [str(rule) for rule in rules]
    assert len({rule.unit for rule in rules}) == len(rules)


def test_rules_name_categories():
    rng = np.random.default_rng(0)
    colour = rng.integers(0, 3, 300)
    X = np.column_stack([rng.normal(size=300).round(2), np.eye(3)[colour], rng.integers(0, 2, 300)])
    y = np.where((colour == 1) | (X[:, 4] * X[:, 0] > 0.5), "yes", "no")
    names = ["size", "c = red", "c = blue", "c = gold", "old"]
    words = np.array(["red", "blue", "gold"])
    domain = Domain.from_rows(
        X, names=names, categories=[OneHotGroup("colour", (1, 2, 3), tuple(words))]
    )
    clf = LMMClassifier(10, slope=2.0, warmup_epochs=5, random_state=0).fit(X, y)
    rules = clf.rules(X, y, domain=domain)
    check_rules(rules, {"size": X[:, 0], "colour": words[colour], "old": X[:, 4]}, y)
    assert "colour is 'blue'" in str(rules)
    assert "old = " in str(rules)
    assert "c = " not in str(rules)


def test_rule_conditions_name_included_or_excluded_categories():
    words = OneHotGroup("colour", (0, 1, 2), ("red", "blue", "gold"))
    domain = Domain.from_rows(np.eye(3), categories=[words])
    low, high = np.zeros(3), np.array([1.0, 0.5, 0.3])
    texts = [condition.text for condition in box_conditions(domain, low, high)]
    assert texts == ["colour is not 'blue'", "colour is not 'gold'"]
    low[0] = 0.2
    (word,) = box_conditions(domain, low, high)
    assert word.text == "colour is 'red'"


def test_rule_conditions_name_missing_values():
    X = np.array([[1.0, 0.0], [5.0, 0.0], [3.0, 1.0]])
    domain = Domain.from_rows(X, names=["age", "age is missing"], indicators={0: 1})
    (missing,) = box_conditions(domain, np.array([1.0, 0.4]), np.array([5.0, 1.0]))
    (present,) = box_conditions(domain, np.array([1.0, 0.0]), np.array([5.0, 0.4]))
    assert (missing.text, present.text) == ("age is missing", "age is not missing")


@given(SEEDS, DTYPES, st.booleans())
@fixed(60)
def test_rows_inside_a_rule_are_predicted_as_its_class(seed, dtype, has_limits):
    rng = np.random.default_rng(seed)
    P, H, C = 3, 5, 3
    slopes = rng.uniform(0.3, 2.0, 2 * P) * np.where(np.arange(2 * P) % 2, -1, 1)
    weights = slopes, rng.normal(size=(2 * P, H)), 2.0 * rng.normal(size=(H, C))
    model = LMM(*(W.astype(dtype) for W in weights))
    X = (rng.normal(size=(400, P)) * 2.0).round(rng.integers(0, 9))
    domain = Domain.from_rows(X, names="abc") if has_limits else Domain.unrestricted(P, names="abc")
    names, predicted = np.array(list("uvw")), model.scores(X).argmax(axis=1)
    rules = strongest_rules(model, X, predicted, domain, names)
    check_rules(rules, dict(zip("abc", X.T, strict=True)), names[predicted])
    for rule in rules:
        assert rule.n_correct == rule.n_rows > 0


def by_unit(rules):
    return {rule.unit: (rule.label, rule.conditions) for rule in rules}


def test_rule_conditions_do_not_depend_on_labels_and_rows(flowers, iris):
    true = flowers.rules(iris.X, iris.y, 100)
    columns = {f"feature {p}": iris.X[:, p] for p in range(4)}
    shown = []
    for seed in range(10):
        drawn = np.random.default_rng(seed).permutation(iris.y)
        rules = flowers.rules(iris.X, drawn, 100)
        assert by_unit(rules).items() <= by_unit(true).items()
        assert len(rules) + rules.n_omitted == len(true) + true.n_omitted
        assert rules.n_omitted > 0
        check_rules(rules, columns, drawn.astype(str))
        shown += [rule for rule in rules if rule.n_rows >= 10]
    assert 0 < sum(rule.n_correct for rule in shown) < 0.6 * sum(rule.n_rows for rule in shown)
    some = flowers.rules(iris.X[::7], iris.y[::7], 100)
    assert 0 < len(some) < len(true)
    assert by_unit(some).items() <= by_unit(true).items()


# Two peaks of slope 1 at 0 and 4, equally high, one for each class: the border is at 2.
TWO_PEAKS = LMM.from_boxes([[0.0], [4.0]], 0.0, [[0.0, -10.0], [-10.0, 0.0]], 1.0)


def test_rules_are_the_largest_boxes_in_which_their_class_wins():
    X, y = np.array([[0.0], [1.0], [3.0], [4.0]]), np.array([0, 0, 1, 1])
    rules = strongest_rules(TWO_PEAKS, X, y, Domain.unrestricted(1, names=["a"]), ["p", "q"])
    assert [str(rule) for rule in rules] == [
        "a ≤ 1.99 → p, 2 of 2 rows",
        "a ≥ 2.01 → q, 2 of 2 rows",
    ]


def test_rules_no_better_than_the_base_rate_are_omitted():
    X = np.array([[0.0], [1.0], [1.5], [3.0], [4.0]])
    y = np.array([0, 1, 0, 0, 0])
    rules = strongest_rules(TWO_PEAKS, X, y, Domain.unrestricted(1, names=["a"]), ["p", "q"])
    assert len(rules) == 0
    assert rules.n_omitted == 2
    assert str(rules).splitlines()[0] == "no rules"
    assert "2 boxes not shown" in str(rules)
    assert rules.to_frame().shape == (0, 5)


def test_rules_count_the_rows_their_unit_decides(flowers, iris):
    rules, model = flowers.rules(iris.X, iris.y, 100), flowers.model_
    winners = model.scores(iris.X).argmax(axis=1)
    decided = model.active_path(iris.X).unit[np.arange(150), winners]
    counts = [rule.n_decided for rule in rules]
    assert counts == [(decided == rule.unit).sum() for rule in rules]
    assert counts == sorted(counts, reverse=True)
    assert min(counts) > 0


def test_rules_to_frame(flowers, iris):
    rules = flowers.rules(iris.X, iris.y, 2)
    table, frame = rules.to_records(), rules.to_frame()
    names = ["rule", "prediction", "support", "precision", "lift"]
    assert list(table.dtype.names) == list(frame.columns) == names
    assert len(rules) == len(table) == 2
    for rule, row in zip(rules, table, strict=True):
        share, precision = np.mean(iris.y.astype(str) == rule.label), rule.n_correct / rule.n_rows
        assert list(row)[:2] == [rule.premise, rule.label]
        assert list(row)[2:] == pytest.approx([rule.n_rows / 150, precision, precision / share])


@pytest.mark.parametrize(
    ("labels", "message"),
    [([0, 1], r"^y must have shape \(150,\)"), (["x"] * 150, "^y has the label 'x'")],
    ids=["too few", "unknown"],
)
def test_rules_reject_invalid_labels(flowers, iris, labels, message):
    with pytest.raises(ValueError, match=message):
        flowers.rules(iris.X, labels)


# -- sums of terms ----------------------------------------------------------------------------


def random_sum(rng, X, n_classes, dtype, *, has_map):
    """Return a sum of terms over one, two and all features of X, with wide margins."""
    P = X.shape[1]
    groups = [[p] for p in range(P)] + [[0, 1], list(range(P))]
    terms = []
    for group in groups:
        rows, H = 2 * len(group), 4
        slopes = rng.uniform(0.3, 2.0, rows) * np.where(np.arange(rows) % 2, -1, 1)
        size = 3.0 if len(group) == 1 else 0.5
        weights = slopes, rng.normal(size=(rows, H)), size * rng.normal(size=(H, n_classes))
        terms.append(Term(group, LMM(*(W.astype(dtype) for W in weights))))
    return AdditiveLMM(terms, P, FeatureMap.fit(X) if has_map else None)


def rows_inside(rule, X, domain, rng, n=400):
    """Return rows of the domain that meet a rule's conditions: in the interior and at corners."""
    rows = rng.uniform(domain.low, domain.high, (n, domain.n_features))
    ends = rng.random(rows.shape) < 0.5
    rows[n // 2 :] = np.where(ends, domain.low, domain.high)[n // 2 :]
    for category in domain.categories:
        rows[:, list(category.features)] = np.eye(len(category.values))[
            rng.integers(0, len(category.values), n)
        ]
    for p, values in domain.values.items():
        rows[:, p] = rng.choice(values, n)
    for p, low, high, _ in rule.conditions:
        if domain.category_of[p] >= 0:
            features = list(domain.categories[domain.category_of[p]].features)
            if low > 0.0:
                rows[:, features] = 0.0
                rows[:, p] = 1.0
            continue
        low, high = max(low, domain.low[p]), min(high, domain.high[p])
        if p in domain.values:
            rows[:, p] = rng.choice([v for v in domain.values[p] if low <= v <= high], n)
            continue
        rows[:, p] = np.where(
            np.arange(n) < n // 2, rng.uniform(low, high, n), np.where(ends[:, p], low, high)
        )
    for condition in rule.conditions:
        rows = rows[condition.holds(rows)]
    return rows


@given(SEEDS, DTYPES, st.booleans(), st.booleans())
@fixed(25)
def test_rules_of_a_sum_hold_for_all_rows_inside(seed, dtype, has_map, has_words):
    rng = np.random.default_rng(seed)
    X, categories = rng.normal(size=(200, 4)) ** 3, ()
    if has_words:
        X[:, 1:4] = np.eye(3)[rng.integers(0, 3, 200)]
        categories = [OneHotGroup("colour", (1, 2, 3), ("red", "blue", "gold"))]
    model = random_sum(rng, X, 3, dtype, has_map=has_map)
    domain = Domain.from_rows(X, categories=categories)
    for rule in strongest_rules(model, X, model.scores(X).argmax(axis=1), domain, list("012")):
        assert rule.n_correct == rule.n_rows > 0
        rows = rows_inside(rule, X, domain, rng)
        assert len(rows)
        assert (model.scores(rows).argmax(axis=1) == int(rule.label)).all()


def ramps(P, strong):
    """Return a sum in which each feature in 0..1 adds −1 to 1, or −10 to 10, to z_1 − z_0."""
    steps = LMM.from_boxes([[0.0], [1.0]], 0.5, np.eye(2), slope=1.0)
    terms = [Term([p], steps.scaled(10.0 if p in strong else 1.0)) for p in range(P)]
    return AdditiveLMM(terms, P)


def test_rules_of_a_sum_have_the_expected_condition():
    rng = np.random.default_rng(0)
    X = np.vstack([np.zeros(4), np.ones(4), rng.random((200, 4))])
    model = ramps(4, [2])
    domain = Domain.from_rows(X, names=list("abcd"))
    rules = strongest_rules(model, X, model.scores(X).argmax(axis=1), domain, ["no", "yes"])
    # The others sum to −3 to 3, and c contributes −10 to 10: from 0.65 on, its sign is that of the
    # margin.
    assert {str(rule).split(",")[0] for rule in rules} >= {"c ≥ 0.651 → yes", "c ≤ 0.349 → no"}
    assert all(rule.n_correct == rule.n_rows > 50 for rule in rules)


def test_rules_of_a_sum_do_not_depend_on_labels(iris):
    rng = np.random.default_rng(3)
    model = random_sum(rng, iris.X, 3, np.float64, has_map=True)
    domain = Domain.from_rows(iris.X, names=MEASURES)
    predicted = model.scores(iris.X).argmax(axis=1)
    true = strongest_rules(model, iris.X, predicted, domain, FLOWERS, 100)
    drawn = strongest_rules(model, iris.X, rng.permutation(predicted), domain, FLOWERS, 100)
    assert len(true) > 0
    assert by_unit(drawn).items() <= by_unit(true).items()
    check_rules(true, dict(zip(MEASURES, iris.X.T, strict=True)), np.array(FLOWERS)[predicted])


def test_rules_of_a_sum_name_categories():
    rng = np.random.default_rng(0)
    colour = rng.integers(0, 3, 300)
    X = np.column_stack([rng.random(300), np.eye(3)[colour]])
    model = ramps(4, [2])
    words = OneHotGroup("colour", (1, 2, 3), ("red", "blue", "gold"))
    domain = Domain.from_rows(X, names=["size", "r", "b", "g"], categories=[words])
    rules = strongest_rules(model, X, model.scores(X).argmax(axis=1), domain, ["no", "yes"])
    assert {"colour is 'blue'", "colour is not 'blue'"} <= {rule.premise for rule in rules}


@pytest.mark.parametrize("limits", [(None, 100.0), (-100.0, None), (-9.0, 9.0)])
def test_limits_of_numeric_columns_add_no_conditions_on_categories(limits):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random(300), np.eye(3)[rng.integers(0, 3, 300)]])
    model = ramps(4, [2])
    words = OneHotGroup("colour", (1, 2, 3), ("red", "blue", "gold"))
    domain = Domain.from_rows(X, names=["size", "r", "b", "g"], categories=[words])
    y = model.scores(X).argmax(axis=1)
    rules = strongest_rules(model, X, y, domain.within(*limits), ["no", "yes"])
    assert rules == strongest_rules(model, X, y, domain, ["no", "yes"])


# -- few digits -------------------------------------------------------------------------------


@given(st.floats(-1e12, 1e12), st.booleans())
@fixed(200)
def test_rule_bounds_are_rounded_to_fewest_digits(value, upwards):
    found = roundings(value, upwards)
    assert found[-1] == value
    assert all(v >= value if upwards else v <= value for v in found)
    assert [float(number_text(v)) for v in found] == found


def test_rounded_away_limits_significant_digits():
    """A value is rounded to 15 significant digits, and unchanged if it would have more."""
    assert rounded_away(1.2345678901234567, 0.0, -14) == 1.23456789012346
    assert rounded_away(1.2345678901234567, 0.0, -15) == 1.2345678901234567


@pytest.mark.parametrize(
    ("value", "text"),
    [(54.0, "54"), (1.7, "1.7"), (-0.0, "0"), (1e20, "1e+20"), (2.5e-7, "2.5e-07")],
)
def test_rule_numbers_are_printed_exactly(value, text):
    assert number_text(value) == text
    assert float(text) == value
