"""A small table of patients with categories, ordinals, missing values and ids, and models of it."""

import numpy as np

from maxplus import LMMClassifier
from maxplus.tables import RawTable, row_hashes
from table_helpers import opened


def patients(n=90, seed=0):
    """Return a table in which every type of column is informative."""
    rng = np.random.default_rng(seed)
    age = rng.integers(30, 80, n).astype(float)
    dose = np.round(rng.gamma(2.0, 1.5, n), 2)
    smoker = rng.integers(0, 2, n).astype(float)
    ward = rng.choice(["north", "south", "west wing"], n)
    pain = rng.choice(["low", "medium", "high"], n)
    risk = (age - 55) / 15 + 0.4 * dose + smoker + (pain == "high") - (ward == "north")
    outcome = np.where(risk + rng.normal(0, 0.8, n) > 1.5, "ill", "well")
    age[rng.random(n) < 0.1] = np.nan
    ward = np.where(rng.random(n) < 0.1, "", ward)
    return RawTable(
        "patients.csv",
        {
            "patient": np.array([f"P{100 + k}" for k in range(n)], object),
            "age": age,
            "dose": dose,
            "smoker": smoker,
            "ward": ward.astype(object),
            "pain": pain.astype(object),
            "outcome": outcome.astype(object),
        },
    )


def prepared(table):
    """Return the fitted encoder of the table and its samples."""
    samples = opened(table, "outcome")
    return samples.encoder, samples


def trained(table, *, is_sum=False, dtype=np.float64, has_row_hashes=True, **options):
    """Return a model of the table as `maxplus train` writes it: one network or a sum of terms."""
    encoder, samples = prepared(table)
    if is_sum:
        clf = LMMClassifier(**{"random_state": 0} | options)
    else:
        options = {"slope": 2.0, "warmup_epochs": 4, "random_state": 0} | options
        clf = LMMClassifier(8, **options)
    clf.fit(samples.X.astype(dtype), samples.y)
    if clf.model_.dtype != dtype:
        clf.model_ = clf.model_.astype(dtype)
    clf.encoder_ = encoder
    if has_row_hashes:
        clf.training_rows_ = row_hashes(samples.X)
    return clf
