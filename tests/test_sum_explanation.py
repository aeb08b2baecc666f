"""Explanations of sums of terms: text, records, linear ranges, boxes and figure."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from explained import HIGH, LOW, fixed, random_sum
from maxplus import plots
from maxplus.explain import (
    Domain,
    OneHotGroup,
    explain_predictions,
    nearest_counterfactuals,
    term_boxes,
    term_means,
)
from maxplus.models import LMM, AdditiveLMM, FeatureMap, Term
from maxplus.models._softmax import softmax
from strategies import SEEDS

CLASSES = ["A", "B", "C"]


def explained(seed, n_features=3, n_rows=4, n_terms=6, **options):
    rng = np.random.default_rng(seed)
    model = random_sum(rng, n_features, 3, n_terms=n_terms)
    X = rng.uniform(LOW, HIGH, (n_rows, n_features))
    means = term_means(model, rng.uniform(LOW, HIGH, (50, n_features)))
    domain = Domain.unrestricted(n_features, names=[f"c{p}" for p in range(n_features)]).within(
        LOW, HIGH
    )
    return model, explain_predictions(model, X, means, CLASSES, domain, **options)


@given(SEEDS)
@fixed(30)
def test_records_of_a_row_add_up_to_its_margin(seed):
    model, why = explained(seed)
    table = why.to_records()
    Z = np.sort(model.scores(why.X), axis=1)
    for n in range(len(why)):
        own = table[table["row"] == n]
        assert own["baseline"][0] + own["contribution"].sum() == pytest.approx(own["margin"][0])
        assert own["margin"][0] == pytest.approx(Z[n, -1] - Z[n, -2])
        assert (np.diff(np.abs(own["contribution"])) <= 0).all()
        assert own["class"][0] == CLASSES[why.predicted[n]] != own["rival"][0]


@given(SEEDS)
@fixed(30)
def test_printed_contributions_add_up_to_the_printed_margin(seed):
    _, why = explained(seed)
    for n in range(len(why)):
        lines = why.text(n).replace("−", "-").splitlines()
        margin = float(re.search(r"margin ([-+][\d.]+), the sum of$", lines[1])[1])
        parts = [float(line.split()[0]) for line in lines if re.match(r"    [-+]", line)]
        assert sum(parts) == pytest.approx(margin, abs=0.0051 * (len(parts) + 1))


def test_text_has_class_probability_contributions_and_flip():
    model, why = explained(3, n_features=8, n_terms=12, row_numbers=[7, 8, 9, 10])
    probability = softmax(model.scores(why.X)).max(axis=1)
    flips = nearest_counterfactuals(model, why.X, why.domain)
    assert str(why) == "\n\n".join(why.text(n) for n in range(4))
    for n in range(4):
        first, *_, last = why.text(n).splitlines()
        winner = CLASSES[why.predicted[n]]
        assert first == f"Row {7 + n}: {winner} (probability {probability[n]:.3f})"
        if flips.feature[n] >= 0:
            assert f"changes to {CLASSES[flips.new_class[n]]} if c{flips.feature[n]} goes" in last
        else:
            assert last == "  no change of a single feature changes the prediction"
    assert re.search(r"    [+−][\d.]+ from \d more (column|group)s?$", why.text(0), re.MULTILINE)


def test_explanation_of_sum_names_missing_values():
    missing = np.zeros((4, 3), bool)
    missing[1, 2] = True
    _, why = explained(0, missing=missing)
    assert why.text(1).splitlines()[-1].startswith("  c2 was missing and was imputed with ")
    assert "missing" not in why.text(0)


@given(SEEDS)
@fixed(40)
def test_contributions_are_linear_in_the_mapped_value_in_the_linear_range(seed):
    """And not beyond a wall, which is a breakpoint of one of the two classes."""
    rng = np.random.default_rng(seed)
    shapes = [Term([0], LMM(*(rng.normal(size=s) for s in (2, (2, 5), (5, 3))))) for _ in range(2)]
    knots = (np.array([-3.0, 0.0, 5.0]), np.array([-1.0, 0.5, 1.0]))
    model = AdditiveLMM([*shapes, Term([1], shapes[0].lmm)], 2, FeatureMap([knots, knots]))
    X = rng.uniform(-4.0, 6.0, (5, 2))
    why = explain_predictions(model, X, np.zeros((3, 3)), CLASSES, Domain.unrestricted(2))
    assert why.contributions.groups[0] == (0,)
    u = model.mapped(X)[:, 0]
    for n in range(5):
        low, high = why.linear_range[n, 0]
        assert low - 1e-9 <= X[n, 0] <= high + 1e-9
        pair = [why.predicted[n], why.contributions.rival[n]]

        def slope(at, pair=pair):
            ends = np.array([at - 1e-7, at + 1e-7])[:, None]
            z = sum(shape.lmm.scores(ends) for shape in shapes)[:, pair]
            return np.diff(z, axis=0)[0] / 2e-7

        ends = [
            k if np.isinf(w) else model.mapped([[w, 0.0]])[0, 0]
            for w, k in zip((low, high), knots[1][[0, -1]], strict=True)
        ]
        if ends[1] - ends[0] < 1e-5 or not knots[1][0] < u[n] < knots[1][-1]:
            continue
        inside = [slope(ends[0] + share * (ends[1] - ends[0])) for share in (0.1, 0.5, 0.9)]
        np.testing.assert_allclose(inside, inside[1:2] * 3, atol=1e-5)
        for wall, end, side in ((low, ends[0], -1.0), (high, ends[1], 1.0)):
            if np.isfinite(wall):
                assert np.abs(slope(end + side * 1e-6) - inside[1]).max() > 1e-6


def test_linear_ranges_are_printed_in_raw_units():
    steps = LMM.from_boxes([[0.0], [1.0]], 0.5, np.eye(2), slope=1.0)
    years = FeatureMap([([20.0, 90.0], [-0.25, 1.5])])
    model = AdditiveLMM([Term([0], steps)], 1, years)
    domain = replace(
        Domain.unrestricted(1, 15.0, ["age"]).within(0, 120), is_integer=np.ones(1, bool)
    )
    text = str(explain_predictions(model, [[61.0], [25.0]], np.zeros((1, 2)), CLASSES[:2], domain))
    # The slopes change at φ = 0, 1/2 (a kink of neither) and 1: at 30 and 70 years.
    assert "+0.55 from age = 61 (between 30 and 70)" in text
    assert "from age = 25 (below 30)" in text


def test_categories_and_missing_indicators_have_no_finite_linear_range():
    steps = LMM.from_boxes([[0.0], [1.0]], 0.5, np.eye(2), slope=1.0)
    model = AdditiveLMM([Term([p], steps) for p in range(4)], 4)
    domain = replace(
        Domain.unrestricted(4, names=["red", "blue", "age", "age missing"]),
        categories=(OneHotGroup("colour", (0, 1), ("red", "blue")),),
        indicators={2: 3},
    ).with_fixed([3])
    X = np.array([[1.0, 0.0, 0.6, 0.0], [0.0, 1.0, 0.3, 1.0]])
    means = np.array([[0.3, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    why = explain_predictions(model, X, means, CLASSES[:2], domain)
    assert why.contributions.group_names == ["colour", "age"]
    assert np.isinf(why.linear_range[:, 0]).all()
    assert why.linear_range[0, 1].tolist() == [0.0, 1.0]
    assert "from colour = 'red'\n" in why.text(0)
    assert "from age = 0.6 (between 0 and 1)\n" in why.text(0)
    assert "from age missing\n" in why.text(1)
    assert why.to_records()["value"].tolist()[:2] in (["'red'", "0.6"], ["0.6", "'red'"])


# -- boxes, paths, importances ----------------------------------------------------------------


@given(SEEDS)
@fixed(40)
def test_term_boxes_are_where_the_units_reach_the_level(seed):
    rng = np.random.default_rng(seed)
    model = random_sum(rng, 3, 2)
    X = rng.uniform(LOW - 1, HIGH + 1, (200, 3))
    U = model.mapped(X)
    for (features, lmm), boxes in zip(model.terms, term_boxes(model, -0.2), strict=True):
        is_high = lmm.hidden(U[:, features]) >= -0.2
        own = X[:, None, features]
        is_inside = ((own >= boxes.low) & (own <= boxes.high)).all(axis=2)
        at_wall = np.isclose(lmm.hidden(U[:, features]), -0.2)
        assert ((is_high == is_inside) | at_wall).all()


# -- figure -----------------------------------------------------------------------------------


def test_plot_explanation_draws_a_bar_for_each_contribution():
    _, why = explained(3, n_features=8, n_terms=30)
    figure = plots.plot_explanation(why, 1)
    (ax,) = figure.axes
    own = why.contributions
    widths = [bar.get_width() for bar in ax.patches]
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels[0] == "baseline"
    assert labels[1] == own.phrase(1, own.order[1, 0])
    assert len(widths) == min(12, len(own.groups)) + 1 + (len(own.groups) > 12)
    assert sum(widths) == pytest.approx(own.margin[1])
    assert (
        ax.get_title(loc="left")
        == f"{CLASSES[own.predicted[1]]} rather than {CLASSES[own.rival[1]]}"
    )
