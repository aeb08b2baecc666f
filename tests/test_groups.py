"""Grouped validation: rows of one group are never on both sides of a split."""

import numpy as np
import pandas as pd
import pytest

import maxplus
from commands import bad, document, good, run
from maxplus import LMMClassifier, LMMRegressor
from maxplus.evaluation import as_rows, plan_for
from maxplus.tables import ColumnChoices

GROUPS = np.repeat(np.arange(30), 4)


@pytest.mark.parametrize("classes", [True, False])
@pytest.mark.parametrize("how", ["auto", 3, 0.25])
def test_groups_are_never_on_both_sides(classes, how):
    y = np.arange(120) // 4 % 3 if classes else np.sin(np.arange(120.0))
    plan = plan_for(y, how, classes=classes, groups=GROUPS)
    assert "groups" in plan.words
    for training, test in plan.splits:
        assert not set(GROUPS[training]) & set(GROUPS[test])
        assert len(test)
    if how != 0.25:
        tests = np.concatenate([test for _, test in plan.splits])
        assert sorted(tests) == list(range(120))


def test_classes_of_one_group_are_not_judged():
    y = np.arange(120) // 4 % 3
    y[GROUPS == 7] = 9
    plan = plan_for(y, 3, groups=GROUPS)
    tests = np.concatenate([test for _, test in plan.splits])
    assert plan.unjudged == 4
    assert 9 not in y[tests]


def test_one_group_cannot_be_validated():
    with pytest.raises(ValueError, match="one group"):
        plan_for(np.arange(20) % 2, groups=np.zeros(20))


@pytest.fixture
def visits():
    """Patients of whom each visit has nearly the same values, and labels that are noise."""
    rng = np.random.default_rng(0)
    n, repeats = 50, 6
    own = np.repeat(rng.normal(size=(n, 3)), repeats, axis=0) + rng.normal(
        0, 0.01, (n * repeats, 3)
    )
    frame = pd.DataFrame(own, columns=["a", "b", "c"])
    frame["patient"] = np.repeat([f"P{k % 25}{'ab'[k // 25]}" for k in range(n)], repeats)
    frame["class"] = np.repeat(rng.choice(["ill", "well"], n), repeats)
    return frame


def test_validate_holds_whole_groups_out(visits):
    model = LMMClassifier(60, slope=6.0, warmup_epochs=10, random_state=0)
    plain, grouped = (
        maxplus.validate(model, visits.drop(columns=["patient"] * (groups is None)), how=3,
                         choices=ColumnChoices("class", groups=groups))
        for groups in (None, "patient")
    )  # fmt: skip
    assert plain.figures.accuracy > 0.9
    assert grouped.figures.accuracy < 0.75
    for fold in range(3):
        held = visits["patient"].iloc[grouped.held_out.rows[grouped.held_out.fold == fold]]
        others = visits["patient"].iloc[grouped.held_out.rows[grouped.held_out.fold != fold]]
        assert not set(held) & set(others)


def test_the_group_column_is_no_feature(visits):
    y = visits.pop("class")
    chosen = ColumnChoices(groups="patient").on(visits)
    found = LMMClassifier(6, slope=2.0, warmup_epochs=2, random_state=0).fit(chosen, y)
    assert found.preparation_.feature_names == ["a", "b", "c"]
    assert as_rows(chosen, y).groups is not None
    frame = visits.assign(patient=np.arange(len(visits)) // 6)
    rows = as_rows(ColumnChoices(groups="patient").on(frame), np.sin(np.arange(len(visits))))
    maxplus.validate(LMMRegressor(epochs=1), rows, how=2)


def test_train_and_compare_take_groups(tmp_path, visits):
    path = tmp_path / "visits.csv"
    visits.to_csv(path, index=False)
    brief = ("-H", 6, "--slope", 2, "--epochs", 2, "-o", tmp_path / "m")
    told = good("train", path, *brief, "--groups", "patient", "--validate", 3)
    assert "left out 'patient': its rows are held out together (--groups)" in told
    assert "3-fold cross-validation, groups kept together" in told
    found = document("train", path, *brief, "--groups", "patient", "--validate", 3)
    assert found["features"] == 3
    assert "groups" in found["validation"]["how"]
    assert "groups kept together" in good("compare", path, "--models", "kNN", "--groups", "patient")
    assert "no column 'nobody' (--groups)" in bad("train", path, *brief, "--groups", "nobody")
    assert "--groups" in bad("train", path, *brief, "--groups", "class")
    visits.loc[4, "patient"] = None
    visits.to_csv(path, index=False)
    result = run("train", path, *brief, "--groups", "patient", "--validate", 3)
    assert "'patient' (--groups) has 1 missing value" in result.output
