"""Whether a polish is worth it, asked of rows that neither training nor polish has seen."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from maxplus.estimators._calibration import losses_of, temperature
from maxplus.estimators._folds import FOLDS, Rows, folds_of
from maxplus.models import LMM
from maxplus.training import TrainingMonitor, TrainingProblem
from maxplus.training.monitor import run_parallel
from maxplus.training.result import TrainingOverflowError
from maxplus.training.stages import Polish

# A network like this one, trained on some rows for a share of the usual length.
Train = Callable[[LMM, Rows, float, np.random.Generator, TrainingMonitor], LMM]
# The polish of so many rows after a training of such a share.
PolishOf = Callable[[int, float], Polish]


class _Held(NamedTuple):
    """Rows that were held out, and their scores before and after a polish of the others.

    ``above`` counts those others that were above the level before it, and after.
    """

    rows: NDArray
    before: NDArray
    after: NDArray
    above: tuple[int, int]


def worth_polishing(
    train: Train,
    polish_of: PolishOf,
    model: LMM,
    problem: TrainingProblem,
    monitor: TrainingMonitor,
) -> bool:
    """Whether a polish costs no accuracy and no log loss beyond noise on held-out rows.

    Three short trainings, each on two thirds of the rows (of many: of a part of them), are
    polished. Scores of the rows that were held out, before and after, both with the temperature
    that suits the first, are compared row by row; a mean difference within its standard error is
    noise. A polish that brings fewer than half of what is above its level below it is not worth
    it either. The outcome does not depend on the number of threads. Less work than a training.

    Parameters
    ----------
    train : trains a network on some rows
    polish_of : the polish that they would get
    model : the network in question
    problem : all rows; a seed is drawn from its generator
    monitor : says when to stop
    """
    assert problem.rng is not None
    seed = int(problem.rng.integers(2**31))
    rows, fold_of, length = folds_of(
        Rows(problem.X, problem.y, problem.weight), np.random.default_rng(seed)
    )
    numbers = [k for k in range(FOLDS) if (fold_of == k).any()]

    def polished(fold: int, quiet: TrainingMonitor) -> _Held | None:
        rng, own = np.random.default_rng([seed, fold]), rows.part(fold_of != fold)
        held = np.flatnonzero(fold_of == fold)
        try:
            before = train(model, own, length, rng, quiet)
            polish = polish_of(len(own.y), length)
            after = polish.run(before, TrainingProblem(own.X, own.y, rng=rng), quiet)
        except TrainingOverflowError:
            return None
        n_above = int((~(before.losses(own.X, own.y) < polish.level)).sum())
        seen = rows.X[held]
        left = n_above, after.above.size
        return _Held(held, before.scores(seen), after.model.scores(seen), left)

    known: list[_Held] = []
    jobs = [partial(polished, fold) for fold in numbers]
    n_jobs = numba.get_num_threads()
    with threadpool_limits(1), closing(run_parallel(jobs, n_jobs, monitor)) as ended:
        for _, held in ended:
            if held is None:
                return False
            known.append(held)
    # What cannot be held out says nothing; nor does what nobody waited for.
    return bool(known) and len(known) == len(numbers) and _says_yes(rows, known)


def _says_yes(rows: Rows, known: Sequence[_Held]) -> bool:
    """What all held-out rows together say."""
    n_before, n_after = np.sum([fold.above for fold in known], axis=0)
    if 2 * n_after > n_before:
        return False
    held = rows.part(np.concatenate([fold.rows for fold in known]))
    before = np.concatenate([fold.before for fold in known]).astype(np.float64)
    after = np.concatenate([fold.after for fold in known]).astype(np.float64)
    t = temperature(before, held.y, held.weight)
    losses = losses_of(t * after, held.y) - losses_of(t * before, held.y)
    errors = (after.argmax(axis=1) != held.y) * 1.0 - (before.argmax(axis=1) != held.y)
    weight = np.ones(len(held.y)) if held.weight is None else held.weight
    return not any(_beyond_noise(more, weight) for more in (losses, errors))


def _beyond_noise(more: NDArray, weight: NDArray) -> bool:
    """Whether the weighted mean of differences is above its standard error."""
    share = weight / weight.sum()
    mean = share @ more
    # Rows of large weights count as fewer.
    return bool(mean > math.sqrt((share @ (more - mean) ** 2) * (share @ share)))
