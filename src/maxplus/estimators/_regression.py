"""Regression from noisy data: the structure of a sum of terms, by cross-validation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold
from threadpoolctl import threadpool_limits

from maxplus.estimators._additive import MOST_PAIRS, simplest_of_the_best
from maxplus.estimators._data import check_magnitude
from maxplus.estimators._folds import FOLDS, Rows
from maxplus.estimators._intervals import residual_quantiles
from maxplus.estimators._scaling import ROUNDING, Scaling
from maxplus.explain import feature_importances, term_means
from maxplus.models import AdditiveLMM, FeatureMap
from maxplus.training import Status, TrainingMonitor
from maxplus.training.monitor import run_parallel
from maxplus.training.result import TrainingOverflowError
from maxplus.training.smooth.annealing import Annealing
from maxplus.training.smooth.soft_terms import TERM_ANNEALING, OnEpoch, train_terms
from maxplus.training.smooth.structures import Pair, Structure, best_pairs, initial_terms

STAGE = "terms"
# Squares of larger targets would overflow.
LARGEST = 1e150
# Predictions leave the range of the training targets by at most this share of it, on either side.
MARGIN = 0.05
# From gentle shape functions, for few and noisy rows, to many boxes.
STRUCTURES = (
    Structure(units=1, size=0.5),
    Structure(units=1, size=1.5),
    Structure(units=2, size=1.0),
    Structure(units=2, pairs_per_feature=1.0, size=1.0),
    Structure(units=2, pairs_per_feature=1.0, boxes=4, size=1.0),
    Structure(units=3, pairs_per_feature=1.0, boxes=8, box_units=3, size=2.0),
    Structure(units=3, has_shapes=False, boxes=8, box_units=8, size=3.0),
)
# Rows to choose on: at least this many, and at least this part.
ENOUGH, PART = 3_000, 8
# Structures that go on to all folds after the first.
SURVIVORS = 3
# The training that pairs are selected after, as a share of the others.
PAIRS_LENGTH = 0.5
# Residuals beyond this many deviations do not count for more in the selection of pairs.
FAR = 4.0


class Prepared(NamedTuple):
    """Mapped rows, standardised targets, and the pairs of features that explain most after shapes.

    A target is middle + deviation·(standardised target).
    """

    feature_map: FeatureMap
    U: NDArray
    target: NDArray
    weight: NDArray | None
    middle: float
    deviation: float
    pairs: list[Pair]


class Choice(NamedTuple):
    """The losses of all structures in each fold, which was chosen, and its held-out residuals."""

    losses: NDArray  # (structures, folds); inf where a fold was left out
    chosen: int
    residuals: NDArray


def fit_regression(
    X: NDArray, y: NDArray, weight: NDArray | None, seed: int, monitor: TrainingMonitor,
    n_jobs: int, *, loss: str, epochs: int | str, structures: Sequence[Structure] = STRUCTURES,
) -> dict[str, Any]:  # fmt: skip
    """Choose a structure by its held-out loss, train it on all rows, and return what was fitted.

    The outcome does not depend on ``n_jobs``.
    """
    check_magnitude(X)
    y = y.astype(np.float64)
    if not (largest := float(np.abs(y).max())) < LARGEST:
        raise ValueError(
            f"y reaches {largest:g}, too large to learn from (at most {LARGEST:g}); divide it by "
            "its maximum"
        )
    rows = Rows(X, y, weight)
    choice = choose(rows, structures, loss, epochs, seed, monitor, n_jobs)
    monitor.begin(STAGE, is_last=True)
    losses: list[float] = []
    status = Status.MAX_ITER
    prepared = prepare(rows, loss, epochs, np.random.default_rng([seed, FOLDS]))
    structure = structures[choice.chosen]
    n_epochs = _annealing(epochs, len(y)).epochs(len(y))

    def report(epoch: int, mean: float, now: Callable[[], AdditiveLMM]) -> bool:
        nonlocal status
        losses.append(mean)
        is_over = len(losses) == n_epochs and not monitor.interrupted
        end = monitor.report(
            len(losses), n_epochs, mean, min(losses), now(), None,
            Status.MAX_ITER if is_over else None,
        )  # fmt: skip
        status = end or status
        return end is not None

    trained = train(structure, prepared, loss, epochs, [seed, FOLDS, 1], report)
    with np.errstate(over="ignore"):
        model, bounds = trained.astype(X.dtype), bounds_of(y).astype(X.dtype)
    if not all(np.isfinite(W).all() for W in (*model.weights_by_name().values(), bounds)):
        raise TrainingOverflowError(
            f"training overflowed: the weights left the range of {X.dtype}; scale y"
        )
    residuals = np.sort(np.abs(choice.residuals))
    fitted = {
        "model_": model,
        "bounds_": bounds,
        "term_means_": term_means(model, X, weight),
        "feature_importances_": feature_importances(model, X, weight=weight),
        "residuals_": residuals,
        "residual_quantiles_": residual_quantiles(residuals),
        "loss_curve_": np.array(losses),
        "n_iter_": len(losses),
        "status_": status.value,
    }
    if len(structures) > 1:
        fitted["search_"] = {
            "candidates": np.array([str(one) for one in structures]),
            "losses": choice.losses,
            "chosen": choice.chosen,
        }
    return fitted


def bounds_of(y: NDArray) -> NDArray:
    """Return the least and the greatest target, moved apart by 5 % of their distance each."""
    low, high = float(y.min()), float(y.max())
    return np.array([low - MARGIN * (high - low), high + MARGIN * (high - low)])


def difference(Z: NDArray, bounds: NDArray) -> NDArray:
    """Return predictions from scores (N, 2): z_1 − z_0, within the bounds."""
    return np.clip(Z[:, 1] - Z[:, 0], bounds[0], bounds[1])


def choose(
    rows: Rows, structures: Sequence[Structure], loss: str, epochs: int | str, seed: int,
    monitor: TrainingMonitor, n_jobs: int,
) -> Choice:  # fmt: skip
    """Return the simplest structure whose held-out loss is that of the best, up to noise.

    All structures are trained for the first of three folds, the best three for the others; of many
    rows, a part is used. Too few rows for folds leave the first structure. A callback that ends the
    search leaves the best so far. In both cases there are no residuals.
    """
    rng = np.random.default_rng(seed)
    N = len(rows.y)
    if (n := max(ENOUGH, N // PART)) < N:
        rows = rows.part(np.sort(rng.choice(N, n, replace=False)))
    n, K = len(rows.y), len(structures)
    losses = np.full((K, FOLDS), np.inf)
    if n < 2 * FOLDS:
        return Choice(losses, 0, np.empty(0))
    residuals = np.full((K, n), np.nan)
    alive = list(range(K))
    total, done = K + min(SURVIVORS, K) * (FOLDS - 1), 0
    monitor.begin("choice", is_last=False)
    for fold, (a, b) in enumerate(KFold(FOLDS, shuffle=True, random_state=seed).split(rows.X)):
        kept, held = rows.part(a), rows.part(b)
        prepared = prepare(kept, loss, epochs, np.random.default_rng([seed, fold]))
        bounds = bounds_of(kept.y)

        jobs = [
            partial(_train_part, structures[c], prepared, loss, epochs, [seed, fold, 1])
            for c in alive
        ]
        status = None
        with threadpool_limits(1), closing(run_parallel(jobs, n_jobs, monitor)) as ended:
            for k, model in ended:
                c = alive[k]
                residuals[c, b] = held.y - difference(model.scores(held.X), bounds)
                losses[c, fold] = np.average(row_losses(residuals[c, b], loss), weights=held.weight)
                done += 1
                best = float(losses[np.isfinite(losses)].min())
                mean = float(losses[c, fold])
                status = monitor.report(done, total, mean, best, model, None)
                if status is not None:
                    break
        if monitor.interrupted:
            raise KeyboardInterrupt("interrupted while the structure was being chosen")
        if fold == 0:
            alive = sorted(sorted(alive, key=lambda c: losses[c, 0])[:SURVIVORS])
        if status is not None:
            break
    return _simplest_of_the_best(losses, residuals, rows, loss)


def _train_part(
    structure: Structure, prepared: Prepared, loss: str, epochs: int | str, seed: Sequence[int],
    monitor: TrainingMonitor,
) -> AdditiveLMM:  # fmt: skip
    """Train until the end, or until the monitor is interrupted."""
    return train(structure, prepared, loss, epochs, seed, lambda *_: monitor.interrupted)


def _simplest_of_the_best(losses: NDArray, residuals: NDArray, rows: Rows, loss: str) -> Choice:
    """Return the first structure that is as good as the best, of those held out the most often."""
    n_seen = np.isfinite(losses).sum(axis=1)
    candidates = np.flatnonzero(n_seen == n_seen.max()).tolist()
    known = np.isfinite(residuals[candidates]).all(axis=0)
    own = {c: row_losses(residuals[c, known], loss) for c in candidates}
    chosen = simplest_of_the_best(own, rows.part(known).weight)
    return Choice(losses, chosen, residuals[chosen] if known.all() else np.empty(0))


def prepare(rows: Rows, loss: str, epochs: int | str, rng: np.random.Generator) -> Prepared:
    """Map features, standardise targets, and select pairs of features; O(N·P²)."""
    feature_map = FeatureMap.fit(rows.X)
    U = feature_map(rows.X)
    middle, deviation = _scale_of(rows.y, rows.weight, loss)
    target = (rows.y - middle) / deviation
    shapes = Prepared(feature_map, U, target, rows.weight, middle, deviation, [])
    if U.shape[1] < 2:
        return shapes
    Z = _train_mapped(Structure(size=1.0), shapes, loss, epochs, PAIRS_LENGTH, rng, None).scores(U)
    residuals = target - (Z[:, 1] - Z[:, 0])
    size = float(np.sqrt(np.average(residuals**2, weights=rows.weight))) or 1.0
    residuals = np.clip(residuals / size, -FAR, FAR)[:, None]
    n_pairs = min(U.shape[1], MOST_PAIRS)
    weight = np.ones((len(U), 1)) if rows.weight is None else rows.weight[:, None]
    weight = weight / weight.mean()
    pairs = best_pairs(U, weight * residuals, weight**2, n_pairs)
    return shapes._replace(pairs=pairs)


def _scale_of(y: NDArray, weight: NDArray | None, loss: str) -> tuple[float, float]:
    """Return middle and deviation of targets: the mean and its deviation, or robust ones.

    The squared loss is about the mean, and about what is far from it; the absolute loss is not.
    """
    if loss == "squared":
        middle = float(np.average(y, weights=weight))
        deviation = math.sqrt(float(np.average((y - middle) ** 2, weights=weight)))
        return middle, deviation if deviation > ROUNDING * abs(middle) else 1.0
    (middle,), (deviation,) = Scaling.of(y[:, None])
    return float(middle), float(deviation)


def train(
    structure: Structure, prepared: Prepared, loss: str, epochs: int | str, seed: Sequence[int],
    on_epoch: OnEpoch | None,
) -> AdditiveLMM:  # fmt: skip
    """Return a sum of terms with z_1 − z_0 in the targets' unit, as a function of raw features.

    Residuals of the training rows have the mean 0, or the median 0 for the absolute loss.
    """
    rng = np.random.default_rng(seed)
    model = _train_mapped(structure, prepared, loss, epochs, 1.0, rng, on_epoch)
    Z = model.scores(prepared.U)
    residuals = prepared.target - (Z[:, 1] - Z[:, 0])
    if loss == "squared":
        shift = float(np.average(residuals, weights=prepared.weight))
    else:
        shift = weighted_median(residuals, prepared.weight)
    terms = model.scaled(prepared.deviation).terms
    intercept = np.array([0.0, prepared.middle + prepared.deviation * shift])
    return AdditiveLMM(terms, model.n_features, prepared.feature_map, intercept)


def _train_mapped(
    structure: Structure, prepared: Prepared, loss: str, epochs: int | str, length: float,
    rng: np.random.Generator, on_epoch: OnEpoch | None,
) -> AdditiveLMM:  # fmt: skip
    """Return a trained sum of mapped features; units start around rows of low and high targets."""
    U, target = prepared.U, prepared.target
    pairs = prepared.pairs[: structure.n_pairs(U.shape[1])]
    halves = (target > np.median(target)).astype(np.int64)
    start = initial_terms(structure, U, halves, 2, pairs, rng)
    annealing = _annealing(epochs, len(target))
    annealing = annealing._replace(scale=start.scale, length=length * annealing.length)
    return train_terms(start.model, U, target, annealing, rng, prepared.weight, on_epoch, loss)


def _annealing(epochs: int | str, n_rows: int) -> Annealing:
    """Return the usual annealing, or one of so many epochs."""
    annealing = TERM_ANNEALING
    if epochs == "auto":
        return annealing
    return annealing._replace(length=int(epochs) / annealing.epochs(n_rows))


def row_losses(residuals: NDArray, loss: str) -> NDArray:
    """Return the squares of residuals, or their absolute values."""
    return np.abs(residuals) if loss == "absolute" else residuals**2


def weighted_median(values: NDArray, weight: NDArray | None) -> float:
    """Return the least value up to which half of the weight lies."""
    if weight is None:
        return float(np.median(values))
    order = np.argsort(values)
    total = np.cumsum(weight[order])
    return float(values[order][np.searchsorted(total, 0.5 * total[-1])])
