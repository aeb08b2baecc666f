"""Regression from noisy data: what a curve looks at, and how many units, by cross-validation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold

from maxplus.estimators._data import check_magnitude
from maxplus.estimators._intervals import residual_quantiles
from maxplus.estimators._scaling import FAR, Scaling
from maxplus.estimators._search import FOLDS, search_facts, search_table
from maxplus.models import LMM
from maxplus.models.starts import hill_lmm, hill_lmm_bytes
from maxplus.training import Conductor, Status, Task, memory
from maxplus.training.result import TrainingOverflowError
from maxplus.training.stages import Cooling, Curve, Curved

# Squares of larger targets would overflow.
LARGEST = 1e150
# Steps of a training at least, epochs at least, and samples per step.
STEPS, EPOCHS = 2_000, 10
LEAST_BATCH, MOST_BATCH = 32, 200
# Trainings that choose: how long they are, how many candidates see all folds, how many rows.
LENGTH, SURVIVORS, ROWS = 0.5, 3, 3_000
# Mixed views start colder: soft minima over many rows would hide what tells them apart. How high
# the ceilings of units are then, in deviations of the target.
MIXED_HOT, CEILING = 0.3, 8.0
# Strengths of the ridge that the line is found with.
RIDGES = np.logspace(-2, 4, 13)

LINE, FEATURES, BOTH, MIXED = "line", "features", "features and line", "mixed directions"


class Capacity(NamedTuple):
    """What a curve may look like.

    Attributes
    ----------
    views : LINE, the direction of a ridge regression, which stays as it is; FEATURES; BOTH; or
        MIXED: both, and both reversed, each of which becomes a weighted sum of all features
    units : H
    slope : of a feature where training begins, in deviations of the target per deviation
    """

    views: str
    units: int
    slope: float

    @property
    def size(self) -> float:
        """How steep, as `maxplus.estimators._search` calls it."""
        return self.slope


CANDIDATES = (
    Capacity(LINE, 2, 0.5), Capacity(BOTH, 3, 0.5), Capacity(BOTH, 8, 0.5), Capacity(BOTH, 30, 1.0),
    Capacity(MIXED, 15, 1.0), Capacity(MIXED, 30, 1.0),
)  # fmt: skip
PLAIN = (Capacity(FEATURES, 3, 0.5), Capacity(FEATURES, 8, 1.0), Capacity(FEATURES, 30, 1.0))


def candidates(n_hidden: int | str, slope: float | str, with_directions: bool) -> list[Capacity]:
    """Those that fit what the user has set, each once; a single one if both numbers are given."""
    numbers: dict[str, Any] = {"units": n_hidden, "slope": slope}
    given = {name: value for name, value in numbers.items() if value != "auto"}
    if len(given) == len(numbers):
        views = BOTH if with_directions else FEATURES
        return [Capacity(views, int(n_hidden), float(slope))]
    tried = CANDIDATES if with_directions else PLAIN
    return list(dict.fromkeys(capacity._replace(**given) for capacity in tried))


class Rows(NamedTuple):
    """Standardised features and targets to learn from, and weights, or None."""

    Z: NDArray
    target: NDArray
    weight: NDArray | None

    def part(self, index: NDArray) -> Rows:
        """Some of them."""
        weight = None if self.weight is None else self.weight[index]
        return Rows(self.Z[index], self.target[index], weight)


def learn_curve(
    X: NDArray, y: NDArray, weight: NDArray | None, seed: int, conductor: Conductor, *,
    n_hidden: int | str, slope: float | str, with_directions: bool, loss: str, epochs: int | str,
) -> dict[str, Any]:  # fmt: skip
    """Standardise, choose, learn, and fold it all into the weights: fitted attributes."""
    check_magnitude(X)
    y = y.astype(np.float64)
    if not (largest := float(np.abs(y).max())) < LARGEST:
        raise ValueError(
            f"y reaches {largest:g}, too large to learn from (at most {LARGEST:g}); divide it by "
            "its maximum"
        )
    features, targets = Scaling.of(X.astype(np.float64)), Scaling.of(y[:, None])
    (middle,), (deviation,) = targets
    Z = np.clip((X - features.centre) / features.spread, -FAR, FAR)
    rows = Rows(Z, (y - middle) / deviation, weight)
    tried = candidates(n_hidden, slope, with_directions)
    choice = choose(rows, tried, loss, seed, conductor, epochs)
    conductor.begin(Curve.name, is_last=True)
    rng = np.random.default_rng([seed, FOLDS])
    curve = learn(rows, choice.capacity, loss, rng, conductor, epochs)
    model = _unscaled(curve.model, features, middle, deviation).astype(X.dtype)
    if not all(np.isfinite(W).all() for W in model.weights_by_name().values()):
        raise TrainingOverflowError(
            f"training overflowed: the weights left the range of {X.dtype}; scale X and y"
        )
    residuals = deviation * np.sort(np.abs(choice.residuals))
    fitted = {
        "model_": model,
        "slope_": steepest(model),
        "residuals_": residuals,
        "residual_quantiles_": residual_quantiles(residuals),
        "curve_losses_": curve.losses,
        "n_iter_": curve.n_iter,
        "status_": curve.status.value,
    }
    return fitted | ({"search_": choice.table} if len(tried) > 1 else {})


def steepest(model: LMM) -> float:
    """The Lipschitz constant of every score in the L∞ norm, max_i |W0[i]|·Σ_p |D[i // 2, p]|."""
    slopes = np.abs(model.slopes).max(axis=1).astype(np.float64)
    if model.directions is not None:
        slopes *= np.abs(model.directions).sum(axis=1)
    return float(slopes.max())


def _unscaled(model: LMM, features: Scaling, middle: float, deviation: float) -> LMM:
    """The same curve over raw features, in the targets' own unit."""
    assert model.directions is not None
    views = LMM(model.W0, model.W1, model.W2)
    raw = views.through(model.directions / features.spread, features.centre).scaled(deviation)
    raw.W2 += middle
    return raw


def ridge_direction(rows: Rows) -> NDArray:
    """The weights of a linear regression as one direction, (1, P); (0, P) if it has none."""
    if len(rows.Z) < 3:
        return rows.Z[:0]
    ridge = RidgeCV(RIDGES).fit(rows.Z, rows.target, rows.weight)
    coef = np.atleast_2d(ridge.coef_)
    return coef if np.isfinite(coef).all() and np.abs(coef).max() > 1e-6 else coef[:0]


def directions_of(rows: Rows, capacity: Capacity) -> NDArray:
    """D (M, P), where a training begins; features alone if there is no line."""
    features = capacity.slope * np.eye(rows.Z.shape[1])
    if capacity.views == FEATURES:
        return features
    line = ridge_direction(rows)
    if capacity.views == LINE and len(line):
        return line
    return np.concatenate([features, line])


def learn(
    rows: Rows, capacity: Capacity, loss: str, rng: np.random.Generator, conductor: Conductor,
    epochs: int | str = "auto", length: float = 1.0,
) -> Curved:  # fmt: skip
    """A curve through the rows; ``length`` 0.5 is half as many epochs. O(epochs·N·M·(P + H))."""
    N = len(rows.Z)
    D = directions_of(rows, capacity)
    V = rows.Z @ D.T
    memory.require(
        hill_lmm_bytes(V, capacity.units), f"a start with {capacity.units:,} units",
        memory.FEWER_UNITS,
    )  # fmt: skip
    start = hill_lmm(V, rows.target, capacity.units, rng)
    batch = min(N, MOST_BATCH, max(LEAST_BATCH, N // 30))
    if epochs == "auto":
        epochs = max(EPOCHS, math.ceil(STEPS / (N // batch)))
    epochs = max(1, round(length * int(epochs)))
    model, cooling = LMM(start.W0, start.W1, start.W2, D), Cooling(epochs, batch)
    if capacity.views == MIXED:
        model, cooling = one_way(model), cooling._replace(mixes=True, hot=MIXED_HOT)
    elif capacity.views == LINE and len(D) == 1:
        cooling = cooling._replace(drift=0.0)
    task = Task(rows.Z, rows.target, weight=rows.weight, rng=rng)
    return Curve(cooling, loss).run(model, task, conductor)


def one_way(model: LMM) -> LMM:
    """The same curve with views that count in one direction each, so that all may move apart.

    Views v and −v take the place of v; their other rows, of slope 0, are ceilings far above.
    """
    assert model.directions is not None
    both = np.concatenate([model.directions, -model.directions])
    slopes = np.zeros((len(both), 2))
    slopes[:, 0] = 1.0
    offsets = np.full((model.n_hidden, len(both), 2), CEILING)
    offsets[:, :, 0] = np.concatenate([model.offsets[:, :, 0], model.offsets[:, :, 1]], axis=1)
    return LMM(slopes.ravel(), offsets.reshape(model.n_hidden, -1).T, model.W2, both)


class Choice(NamedTuple):
    """What was tried, how it did on rows held out, and how far off the chosen one was there."""

    candidates: Sequence[Capacity]
    losses: NDArray  # (candidates, folds); inf where a fold was spared
    chosen: int
    residuals: NDArray  # target − curve, in standardised targets, of all rows that were used

    @property
    def capacity(self) -> Capacity:
        """The one with the lowest loss."""
        return self.candidates[self.chosen]

    @property
    def table(self) -> dict[str, Any] | None:
        """All but the residuals, as arrays."""
        units = [c.units for c in self.candidates]
        facts = search_facts(self.candidates, units, self.losses, self.chosen)
        return search_table(facts, per_class=False)


def choose(
    rows: Rows, tried: Sequence[Capacity], loss: str, seed: int, conductor: Conductor,
    epochs: int | str = "auto",
) -> Choice:  # fmt: skip
    """The candidate with the lowest loss on rows held out, in three folds, of a part of many rows.

    All candidates are trained for the first fold, the best three for the others. A single
    candidate is trained for all folds as well, for the sake of its residuals. Too few rows for
    folds leave the first candidate, with no residuals.
    """
    rng = np.random.default_rng(seed)
    N = len(rows.Z)
    n = max(ROWS, N // 8)
    if n < N:
        rows = rows.part(np.sort(rng.choice(N, n, replace=False)))
    n = len(rows.Z)
    losses = np.full((len(tried), FOLDS), np.inf)
    if n < 2 * FOLDS:
        return Choice(tried, losses, 0, np.empty(0))
    residuals = np.empty((len(tried), n))
    alive = list(range(len(tried)))
    total = len(alive) + min(SURVIVORS, len(alive)) * (FOLDS - 1)
    done, best = 0, math.inf
    conductor.begin("choice", is_last=False)
    for fold, (a, b) in enumerate(KFold(FOLDS, shuffle=True, random_state=seed).split(rows.Z)):
        inside, outside = rows.part(a), rows.part(b)
        for c in alive:
            quiet = Conductor()
            own = np.random.default_rng([seed, fold])
            model = learn(inside, tried[c], loss, own, quiet, epochs, LENGTH).model
            residuals[c, b] = outside.target - model.scores(outside.Z)[:, 0]
            losses[c, fold] = mean_loss(residuals[c, b], loss, outside.weight)
            done, best = done + 1, min(best, losses[c, fold])
            status = conductor.report(done, total, losses[c, fold], best, model, None)
            if status is Status.INTERRUPTED:
                raise KeyboardInterrupt("interrupted while the capacity was being chosen")
            if status is not None:
                return _best(tried, losses, residuals)
        if fold == 0:
            alive = sorted(sorted(alive, key=lambda c: losses[c, 0])[:SURVIVORS])
    return _best(tried, losses, residuals)


def _best(tried: Sequence[Capacity], losses: NDArray, residuals: NDArray) -> Choice:
    """The lowest mean over the folds among those that saw the most."""
    seen = np.isfinite(losses).sum(axis=1)
    sums = np.where(np.isfinite(losses), losses, 0.0).sum(axis=1)
    means = np.where(seen == seen.max(), sums, np.inf)
    chosen = int(means.argmin())
    whole = seen[chosen] == FOLDS
    return Choice(tried, losses, chosen, residuals[chosen] if whole else np.empty(0))


def mean_loss(residuals: NDArray, loss: str, weight: NDArray | None) -> float:
    """The mean squared residual, or the mean absolute one."""
    sizes = np.abs(residuals) if loss == "absolute" else residuals**2
    return float(np.average(sizes, weights=weight))
