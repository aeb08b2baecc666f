"""Boxes as rules: true as printed, and as the model has them."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explained import FLOWERS, MEASURES, fixed, table_names
from maxplus import LMMClassifier
from maxplus.explain import Category, Domain, strongest_rules, unit_boxes
from maxplus.explain.conditions import Wall, _sum_text, needed_walls
from maxplus.explain.digits import number_text, roundings, simplest_between
from maxplus.models import LMM
from strategies import DTYPES, SEEDS

LINE = r"(.+) → (.+), (\d+) of (\d+) rows"


def holds(premise, columns):
    """Which rows meet a premise, read from the text alone; ``columns`` are values by name."""
    inside = np.ones(len(next(iter(columns.values()))), bool)
    for part in premise.split(" and "):
        if found := re.fullmatch(r"(.+) is (not )?'(.+)'", part):
            name, no, word = found.groups()
            inside &= (columns[name] == word) != bool(no)
        elif found := re.fullmatch(r"(.+) = (.+)", part):
            inside &= columns[found[1]] == float(found[2])
        elif found := re.fullmatch(r"(\S+) ≤ (.+) ≤ (\S+)", part):
            low, name, high = found.groups()
            inside &= (columns[name] >= float(low)) & (columns[name] <= float(high))
        else:
            name, sign, limit = re.fullmatch(r"(.+) ([≤≥]) (\S+)", part).groups()
            limit = float(limit)
            inside &= columns[name] >= limit if sign == "≥" else columns[name] <= limit
    return inside


def sums_of(rules, columns):
    """The weighted sums that rules define, computed from their text."""
    out = {}
    for name, text in rules.definitions.items():
        total = 0.0
        for sign, weight, feature in re.findall(r"(−|\+|^)\s*([\d.e-]+)·(\([^)]*\)|[^\s]+)", text):
            total = (
                total + (-1 if sign == "−" else 1) * float(weight) * columns[feature.strip("()")]
            )
        out[name] = total
    return out


def check_rules(rules, columns, labels):
    for rule in rules:
        premise, label, right, rows = re.fullmatch(LINE, str(rule)).groups()
        inside = holds(premise, columns | sums_of(rules, columns))
        assert inside.sum() == int(rows) == rule.rows
        assert (labels[inside] == label).sum() == int(right) == rule.right
        assert premise == rule.premise


@pytest.fixture(scope="module")
def flowers(iris):
    return LMMClassifier(9, slope=2.0, warmup_epochs=5, random_state=0).fit(iris.X, iris.y)


def test_rules_are_true_as_printed(flowers, iris):
    rules = flowers.rules(iris.X, iris.y, class_names=FLOWERS, feature_names=MEASURES)
    assert 3 <= len(rules) <= 9
    assert rules.n_rows == 150
    check_rules(rules, dict(zip(MEASURES, iris.X.T, strict=True)), np.array(FLOWERS)[iris.y])
    # One flower is told from the others by its petals.
    assert any(rule.label == "setosa" and rule.right == rule.rows >= 49 for rule in rules)
    assert str(rules).splitlines() == [str(rule) for rule in rules]
    assert len({rule.unit for rule in rules}) == len(rules)


def test_rules_of_sums_are_true_as_printed(seer, iris):
    rules = seer.rules(iris.X, iris.y, feature_names=list("abcd"))
    assert rules.definitions
    assert str(rules).splitlines()[len(rules)] == "where"
    check_rules(rules, dict(zip("abcd", iris.X.T, strict=True)), iris.y.astype(str))


def test_rules_are_in_words_where_columns_are():
    rng = np.random.default_rng(0)
    colour = rng.integers(0, 3, 300)
    X = np.column_stack([rng.normal(size=300).round(2), np.eye(3)[colour], rng.integers(0, 2, 300)])
    y = np.where((colour == 1) | (X[:, 4] * X[:, 0] > 0.5), "yes", "no")
    names = ["size", "c = red", "c = blue", "c = gold", "old"]
    words = np.array(["red", "blue", "gold"])
    domain = Domain.of_rows(
        X, names=names, categories=[Category("colour", (1, 2, 3), tuple(words))]
    )
    clf = LMMClassifier(10, slope=2.0, warmup_epochs=5, random_state=0).fit(X, y)
    rules = clf.rules(X, y, domain=domain)
    check_rules(rules, {"size": X[:, 0], "colour": words[colour], "old": X[:, 4]}, y)
    assert "colour is 'blue'" in str(rules)
    assert "colour is not 'blue'" in str(rules)
    assert "old = " in str(rules)
    assert "c = " not in str(rules)


def test_the_terms_of_a_sum_come_by_how_much_they_move_it():
    domain = replace(
        Domain.free(3, names=["height", "colour = red", "age"]), unit=np.array([10.0, 0.5, 20.0])
    )
    text = _sum_text(np.array([0.02, -1.0, 0.1]), domain)
    assert text == "0.1·age − 1·(colour = red) + 0.02·height"


@given(SEEDS, DTYPES, st.booleans())
@fixed(40)
def test_rules_of_any_model_are_true_as_printed(seed, dtype, has_directions):
    rng = np.random.default_rng(seed)
    P, M, H, C = 3, 2 if has_directions else 3, 4, 3
    weights = rng.normal(size=2 * M), rng.normal(size=(2 * M, H)), rng.normal(size=(H, C))
    D = rng.normal(size=(M, P)) if has_directions else None
    model = LMM(*(W.astype(dtype) for W in weights), D)
    X, y = rng.normal(size=(40, P)).round(rng.integers(0, 4)), rng.integers(0, C, 40)
    rules = strongest_rules(model, X, y, Domain.free(P, names=list("abc")), list("uvw"))
    check_rules(rules, dict(zip("abc", X.T, strict=True)), np.array(list("uvw"))[y])


def strength(inside, is_own):
    n, r, q = inside.sum(), (inside & is_own).sum(), is_own.mean()
    parts = ((r, r / (n * q)), (n - r, (n - r) / (n * (1 - q))))
    return sum(k * np.log(ratio) for k, ratio in parts if k) if r > n * q else 0.0


def test_rules_are_boxes_of_their_units(flowers, iris):
    """With all walls, a rule is its unit's box at the strongest of all levels."""
    model, rules = flowers.model_, flowers.rules(iris.X, iris.y, n=100)
    g, favourite = model.hidden(iris.X), unit_boxes(model).favourite
    strongest = []
    for h in range(model.n_hidden):
        own = iris.y == favourite[h]
        levels = [strength(g[:, h] >= level, own) for level in g[:, h]]
        strongest.append(max(levels))
    assert [rule.label for rule in rules] == [str(favourite[rule.unit]) for rule in rules]
    # Strongest boxes first, and no rule has lost more than a tenth.
    order = [strongest[rule.unit] for rule in rules]
    assert order == sorted(order, reverse=True)
    columns = {f"feature {p}": iris.X[:, p] for p in range(4)}
    for rule in rules:
        found = strength(holds(rule.premise, columns), iris.y == favourite[rule.unit])
        assert found >= 0.9 * strongest[rule.unit] - 1e-9
        winners = model.scores(iris.X).argmax(axis=1)
        decided = model.active_path(iris.X).unit[np.arange(150), winners]
        assert rule.decides == (decided == rule.unit).sum()


def test_walls_that_keep_nobody_out_are_left_out():
    inside = np.array([True, True, False, False])
    walls = [
        Wall(0, False, np.array([True, True, True, False])),
        Wall(0, True, np.ones(4, bool)),
        Wall(1, False, np.array([True, True, False, False])),
    ]
    needed = needed_walls(walls, lambda rows: np.array_equal(rows, inside))
    assert [(wall.view, wall.is_ceiling) for wall in needed] == [(1, False)]
    assert needed_walls(walls, lambda rows: True) == ()


def test_tables_of_rules(flowers, iris):
    rules = flowers.rules(iris.X, iris.y, 2)
    assert len(rules) == 2
    table = rules.to_table()
    assert table_names(table) == ["unit", "class", "rule", "rows", "right", "decides"]
    assert list(table["rule"]) == [rules[0].premise, rules[1].premise]
    assert list(table["rows"]) == [rules[0].rows, rules[1].rows]


def test_chance_makes_no_rule():
    model = LMM(np.array([1.0, -1.0]), np.zeros((2, 1)), np.array([[1.0, 0.0]]))
    X = np.zeros((4, 1))
    rules = strongest_rules(model, X, np.array([0, 1, 0, 1]), Domain.free(1), ["a", "b"])
    assert len(rules) == 0
    assert "no box holds more" in str(rules)


@pytest.mark.parametrize(
    ("labels", "message"),
    [([0, 1], r"^y must have shape \(150,\)"), (["x"] * 150, "^y has the label 'x'")],
    ids=["too few", "unknown"],
)
def test_wrong_labels_are_refused(flowers, iris, labels, message):
    with pytest.raises(ValueError, match=message):
        flowers.rules(iris.X, labels)


# -- few digits -------------------------------------------------------------------------------


@given(st.floats(-1e12, 1e12), st.booleans())
@fixed(200)
def test_roundings_go_from_few_digits_to_all(value, upwards):
    found = roundings(value, upwards)
    assert found[-1] == value
    assert all(v >= value if upwards else v <= value for v in found)
    assert [float(number_text(v)) for v in found] == found


@given(st.floats(-1e6, 1e6), st.floats(1e-9, 1e6))
@fixed(200)
def test_the_simplest_number_is_between(low, width):
    high = low + width
    found = simplest_between(low, high)
    assert low < found <= high or low == high == found
    shorter = round(found, 3)
    if shorter != found:  # then no number of three decimals lies between
        assert not low < np.floor(high * 1000) / 1000 <= high or np.floor(high * 1000) / 1000 <= low


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(53, 54, 54), (53.2, 54.9, 54), (1.5, 1.6, 1.6), (-2.87, -2.851, -2.86), (0.1, 0.3, 0.3),
     (118, 163, 160), (-0.5, 0.0, 0.0), (999.9, 1000.2, 1000)],
)  # fmt: skip
def test_simple_numbers(low, high, expected):
    assert simplest_between(low, high) == expected


def test_numbers_read_back():
    for value, text in (
        (54.0, "54"),
        (1.7, "1.7"),
        (-0.0, "0"),
        (1e20, "1e+20"),
        (2.5e-7, "2.5e-07"),
    ):
        assert number_text(value) == text
        assert float(text) == value
