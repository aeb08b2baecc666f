"""The structure of a sum of terms, chosen by cross-validation, and its training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.estimators._calibration import losses_of, temperature
from maxplus.estimators._choice import Rows, deal_folds, stratified_part
from maxplus.models import AdditiveLMM, FeatureMap
from maxplus.training import Conductor
from maxplus.training.smooth.additive import Annealing, train_terms
from maxplus.training.smooth.structures import Structure, initial_terms, select_pairs
from maxplus.training.workers import as_they_end

# From gentle shape functions, for few and noisy rows, to many boxes.
STRUCTURES = (
    Structure(units=1, size=1.5),
    Structure(units=2, size=1.0),
    Structure(units=2, size=2.0),
    Structure(units=2, pairs_per_feature=1.0, size=2.0),
    Structure(units=2, pairs_per_feature=1.0, boxes=4, size=3.0),
    Structure(units=3, pairs_per_feature=1.0, boxes=8, box_units=3, size=6.0),
    Structure(units=3, has_shapes=False, boxes=8, box_units=3, size=6.0),
    Structure(units=3, pairs_per_feature=1.0, boxes=8, box_units=8, size=8.0),
)
FOLDS = 3
# Rows to choose on: at least this many, and at least this part.
ENOUGH, PART = 3_000, 4
# Structures that go on to all folds after the first.
SURVIVORS = 4
# Among structures within this many standard errors of the best, the simplest one is taken.
WITHIN = 0.25
# Trainings of the search, and those that pairs are selected after, as a share of the real one.
SEARCH_LENGTH, PAIRS_LENGTH = 0.5, 0.25
MOST_PAIRS = 40


class Prepared(NamedTuple):
    """Mapped rows, and the pairs of features that explain most after their shape functions."""

    feature_map: FeatureMap
    U: NDArray
    y: NDArray
    weight: NDArray | None
    pairs: list[tuple[int, int]]


class Fitted(NamedTuple):
    """A trained sum of terms, the losses of all structures in each fold, and which was chosen."""

    model: AdditiveLMM
    losses: NDArray
    chosen: int
    temperature: float


def fit_additive(
    rows: Rows, n_classes: int, seed: int, conductor: Conductor, n_jobs: int,
    structures: Sequence[Structure] = STRUCTURES,
) -> Fitted:  # fmt: skip
    """Choose a structure by held-out log loss, train it on all rows, and set its temperature.

    All structures are tried on the first of three folds, the best four on the others, each by a
    training of half the length; of many rows, a part is used. Log losses are those after the
    temperature that suits each structure best. Of structures as good as the best up to noise, the
    simplest is taken. The outcome does not depend on ``n_jobs``.
    """
    rng = np.random.default_rng(seed)
    part = rows.part(stratified_part(rows.y, max(ENOUGH, len(rows.y) // PART), rng))
    fold_of = deal_folds(part.y, FOLDS, rng)
    scores = np.full((len(structures), len(part.y), n_classes), np.nan)
    losses = np.full((len(structures), FOLDS), np.inf)

    def try_out(fold: int, trying: Sequence[int]) -> None:
        kept, held = part.part(fold_of != fold), np.flatnonzero(fold_of == fold)
        prepared = _prepare(kept, n_classes, np.random.default_rng([seed, fold]))
        jobs = [
            partial(_train, structures[c], prepared, n_classes, SEARCH_LENGTH, [seed, fold, 1])
            for c in trying
        ]
        for k, model in as_they_end(jobs, n_jobs, conductor, Conductor()):
            Z = model.scores(part.X[held])
            scores[trying[k], held] = Z
            factor = temperature(Z, part.y[held], part.part(held).weight)
            own = losses_of(factor * Z, part.y[held])
            losses[trying[k], fold] = np.average(own, weights=part.part(held).weight)

    try_out(0, range(len(structures)))
    survivors = np.sort(np.argsort(losses[:, 0], kind="stable")[:SURVIVORS]).tolist()
    for fold in range(1, FOLDS):
        try_out(fold, survivors)
    chosen, factor = _simplest_of_the_best(scores, survivors, part)
    everything = _prepare(rows, n_classes, np.random.default_rng([seed, FOLDS]))
    model = _train(structures[chosen], everything, n_classes, 1.0, [seed, FOLDS, 1])
    return Fitted(model.scaled(factor), losses, chosen, factor)


def _prepare(rows: Rows, n_classes: int, rng: np.random.Generator) -> Prepared:
    feature_map = FeatureMap.fit(rows.X)
    U = feature_map(rows.X)
    start = initial_terms(Structure(), U, rows.y, n_classes, [], rng)
    annealing = Annealing(start.scale, length=PAIRS_LENGTH)
    shapes = train_terms(start.model, U, rows.y, annealing, rng, rows.weight)
    pairs = select_pairs(U, rows.y, shapes.scores(U), min(U.shape[1], MOST_PAIRS))
    return Prepared(feature_map, U, rows.y, rows.weight, pairs)


def _train(
    structure: Structure, prepared: Prepared, n_classes: int, length: float, seed: Sequence[int]
) -> AdditiveLMM:
    rng, U = np.random.default_rng(seed), prepared.U
    pairs = prepared.pairs[: structure.n_pairs(U.shape[1])]
    start = initial_terms(structure, U, prepared.y, n_classes, pairs, rng)
    annealing = Annealing(start.scale, length=length)
    model = train_terms(start.model, U, prepared.y, annealing, rng, prepared.weight)
    return AdditiveLMM(model.terms, model.n_features, prepared.feature_map)


def _simplest_of_the_best(
    scores: NDArray, survivors: Sequence[int], rows: Rows
) -> tuple[int, float]:
    """Return the first of the survivors that is as good as the best, and its temperature."""
    known = np.isfinite(scores[survivors]).all(axis=(0, 2))
    held = rows.part(known)
    weight = np.ones(len(held.y)) if held.weight is None else held.weight
    share = weight / weight.sum()
    factors = {c: temperature(scores[c][known], held.y, held.weight) for c in survivors}
    losses = {c: losses_of(factors[c] * scores[c][known], held.y) for c in survivors}
    best = min(survivors, key=lambda c: float(share @ losses[c]))
    for c in survivors:
        more = losses[c] - losses[best]
        mean = float(share @ more)
        error = math.sqrt(float(share @ (more - mean) ** 2) * float(share @ share))
        if mean <= WITHIN * error:
            return c, factors[c]
    raise AssertionError("the best structure is as good as itself")
