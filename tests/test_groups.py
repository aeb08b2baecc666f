"""Grouped validation: training and test rows have no common groups."""

import numpy as np
import pandas as pd
import pytest

import maxplus
from commands import bad, document, good, run, settings
from maxplus import LMMClassifier, LMMRegressor
from maxplus.evaluation import make_splits
from maxplus.evaluation.validation import as_dataset

GROUPS = np.repeat(np.arange(30), 4)


@pytest.mark.parametrize("classes", [True, False])
@pytest.mark.parametrize("cv", ["auto", 3, 0.25])
def test_group_is_never_in_train_and_test(classes, cv):
    y = np.arange(120) // 4 % 3 if classes else np.sin(np.arange(120.0))
    plan = make_splits(y, cv, classification=classes, groups=GROUPS)
    assert "groups" in plan.description
    for training, test in plan.pairs:
        assert not set(GROUPS[training]) & set(GROUPS[test])
        assert len(test)
    if cv != 0.25:
        tests = np.concatenate([test for _, test in plan.pairs])
        assert sorted(tests) == list(range(120))


def test_classes_of_one_group_are_not_scored():
    y = np.arange(120) // 4 % 3
    y[GROUPS == 7] = 9
    plan = make_splits(y, 3, groups=GROUPS)
    tests = np.concatenate([test for _, test in plan.pairs])
    assert plan.n_untested == 4
    assert 9 not in y[tests]


def test_one_group_cannot_be_validated():
    with pytest.raises(ValueError, match="only one group"):
        make_splits(np.arange(20) % 2, groups=np.zeros(20))


@pytest.fixture
def visits():
    """Return patients whose visits have nearly equal values, with random labels."""
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
        maxplus.validate(
            model, visits.drop(columns=["patient"] * (groups is None)), "class", cv=3, groups=groups
        )
        for groups in (None, "patient")
    )
    assert plain.metrics.accuracy > 0.9
    assert grouped.metrics.accuracy < 0.75
    for fold in range(3):
        held = visits["patient"].iloc[
            grouped.held_out.row_numbers[grouped.held_out.fold == fold] - 1
        ]
        others = visits["patient"].iloc[
            grouped.held_out.row_numbers[grouped.held_out.fold != fold] - 1
        ]
        assert not set(held) & set(others)


def test_group_column_is_not_a_feature(visits):
    y = visits.pop("class")
    rows = as_dataset(visits, y, "patient")
    assert list(rows.table.columns) == ["a", "b", "c"]
    assert rows.groups is not None
    frame = visits.assign(patient=np.arange(len(visits)) // 6)
    numbers = np.sin(np.arange(len(visits)))
    maxplus.validate(LMMRegressor(epochs=1), frame, numbers, cv=2, groups="patient")


def test_train_and_compare_accept_groups(tmp_path, visits):
    path = tmp_path / "visits.csv"
    visits.to_csv(path, index=False)
    brief = (*settings("n_hidden=6", "slope=2", "warmup_epochs=2"), "-o", tmp_path / "m")
    printed = good("train", path, *brief, "--groups", "patient", "--validate", 3)
    assert "dropped 'patient': it defines the groups of rows (--groups)" in printed
    assert "3-fold cross-validation, groups kept together" in printed
    found = document("train", path, *brief, "--groups", "patient", "--validate", 3)
    assert found["features"] == 3
    assert "groups" in found["validation"]["description"]
    assert "groups kept together" in good("compare", path, "--models", "kNN", "--groups", "patient")
    assert "no column 'ward' (--groups)" in bad("train", path, *brief, "--groups", "ward")
    assert "--groups" in bad("train", path, *brief, "--groups", "class")
    visits.loc[4, "patient"] = None
    visits.to_csv(path, index=False)
    result = run("train", path, *brief, "--groups", "patient", "--validate", 3)
    assert "'patient' (--groups) has 1 missing value" in result.output
