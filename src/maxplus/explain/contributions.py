"""Exact additive contributions of features to margins and predictions, and shape functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.explain._shared import Tabular, check_class_names, check_domain, check_model, records
from maxplus.explain.domain import Domain
from maxplus.models._checks import as_rows, check_index
from maxplus.models.additive import breakpoints
from maxplus.models.lmm import TermSum

# Maximum number of groups that a text lists; the contributions of the others are summed.
MAX_GROUPS = 5
# Numbers with a smaller magnitude are printed as 0.00.
MIN_SHOWN = 0.005
MISSING = "missing"


@dataclass(frozen=True)
class Contributions:
    """Margins of predicted classes over other classes, as exact sums over groups of features.

    z_A − z_B = ``baseline`` + Σ_g ``contribution[:, g]``, up to rounding, where A is the predicted
    class and B the other class.

    Attributes
    ----------
    X : array of shape (N, P), the samples in raw units
    predicted, rival : arrays of shape (N,), the indices of classes A and B
    margin : array of shape (N,), z_A − z_B
    baseline : array of shape (N,), the mean of z_A − z_B over the reference samples
    contribution : array of shape (N, G), the part of z_A − z_B of each group minus its mean
    groups : G tuples of columns, single columns first; terms over the same columns are added
        A column is identified by its first feature; a categorical column has several features.
    group_of_term : array of shape (T,), the index in ``groups`` of each term
    domain : Domain, the columns and their names
    class_names : names of the C classes
    """

    X: NDArray
    predicted: NDArray
    rival: NDArray
    margin: NDArray
    baseline: NDArray
    contribution: NDArray
    groups: tuple[tuple[int, ...], ...]
    group_of_term: NDArray
    domain: Domain
    class_names: Sequence[str]
    # Minimum magnitude of contributions that texts list.
    _min_shown: ClassVar[float] = MIN_SHOWN

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.X)

    @cached_property
    def order(self) -> NDArray:
        """Groups of each sample by decreasing |contribution|, (N, G)."""
        return np.argsort(-np.abs(self.contribution), axis=1, kind="stable")

    @property
    def group_names(self) -> list[str]:
        """Names of the groups, such as "age", "age × bp" and "all features"."""
        return [self._group_name(group) for group in self.groups]

    def __str__(self) -> str:
        """Return the texts of all samples, one per line."""
        return "\n".join(self.text(n) for n in range(len(self)))

    def text(self, n: int) -> str:
        """Return the explanation of sample n (zero-based) as a sum, largest contributions first."""
        n = check_index("n", n, len(self))
        text = self._head(n)
        for g in self.listed_groups(n):
            text += f" {self._amount(self.contribution[n, g])} from {self.phrase(n, g)}"
        value, count = self.remainder(n)
        return f"{text} {self._amount(value)} from {count}" if count else text

    def listed_groups(self, n: int) -> list[int]:
        """Return the groups that `text` lists for sample n, at most five, by |contribution|."""
        first = self.order[n, :MAX_GROUPS]
        return first[np.abs(self.contribution[n, first]) >= self._min_shown].tolist()

    def phrase(self, n: int, g: int) -> str:
        """Format the columns of group g with their values in sample n: "age = 61 and sex = 'm'"."""
        group = self.groups[g]
        if len(group) > 2:
            return self._group_name(group)
        return " and ".join(
            f"{self.domain.column_names[p]}{' ' if value == MISSING else ' = '}{value}"
            for p, value in zip(group, self.values(n, g), strict=True)
        )

    def values(self, n: int, g: int) -> list[str]:
        """Return the values of the columns of group g in sample n; [] for more than two columns."""
        group = self.groups[g]
        if len(group) > 2:
            return []
        return [MISSING if self.is_missing[n, p] else self.domain.text(self.X[n], p) for p in group]

    @cached_property
    def is_missing(self) -> NDArray:
        """Mask of values that were missing, according to their indicators, (N, P)."""
        mask = np.zeros(self.X.shape, bool)
        for p, indicator in self.domain.indicators.items():
            mask[:, p] = self.X[:, indicator] == 1.0
        return mask

    def remainder(self, n: int) -> tuple[float, str]:
        """Return the sum of the contributions that `text` does not list, and their count as text.

        The result is (0.0, "") if all groups are listed.
        """
        rest = self.order[n, len(self.listed_groups(n)) :]
        if not rest.size:
            return 0.0, ""
        noun = "column" if all(len(self.groups[g]) == 1 for g in rest) else "group"
        count = f"{rest.size} more {noun}{'s' * (rest.size > 1)}"
        return float(self.contribution[n, rest].sum()), count

    def columns(self) -> dict[str, NDArray]:
        """Return columns of records for each sample and group, by decreasing |contribution|."""
        row, g = np.repeat(np.arange(len(self)), len(self.groups)), self.order.ravel()
        values = [
            ", ".join(self.values(n, k)) for n, k in zip(row.tolist(), g.tolist(), strict=True)
        ]
        return {
            "row": row,
            "group": g,
            "margin": self.margin[row],
            "baseline": self.baseline[row],
            "columns": np.array(self.group_names, str)[g],
            "value": np.array(values, str),
            "contribution": self.contribution[row, g],
        }

    def _head(self, n: int) -> str:
        return (
            f"class {self.class_names[self.predicted[n]]} rather than "
            f"{self.class_names[self.rival[n]]}, margin {signed(self.margin[n], '')} = "
            f"{signed(self.baseline[n], '').removeprefix('+')} (baseline)"
        )

    def _amount(self, value: float) -> str:
        return signed(value)

    def _group_name(self, group: tuple[int, ...]) -> str:
        if len(group) <= 2:
            return " × ".join(self.domain.column_names[p] for p in group)
        is_all = len(group) == np.unique(self.domain.column_of).size
        return "all features" if is_all else f"{len(group)} features together"


@dataclass(frozen=True)
class PredictionContributions(Contributions, Tabular):
    """Predictions z_1 − z_0 of a regression, as exact sums over groups of features.

    ``margin`` = ``baseline`` + Σ_g ``contribution[:, g]``, up to rounding, where the baseline is
    the mean over the reference samples. The prediction is the margin, clipped to the ``bounds`` of
    `prediction_contributions`.

    Attributes
    ----------
    prediction : array of shape (N,), the clipped margin
    """

    prediction: NDArray
    _min_shown: ClassVar[float] = 0.0

    def to_records(self) -> np.recarray:
        """Return a record for each sample and group of columns, by decreasing |contribution|.

        ``row`` is the index of the sample. ``baseline`` plus the ``contribution`` of all records of
        a sample is its ``margin``, and ``prediction`` is the clipped margin.
        """
        columns = self.columns()
        row = columns.pop("row")
        del columns["group"]
        return records({"row": row, "prediction": self.prediction[row]} | columns)

    def _head(self, n: int) -> str:
        clipped = ""
        if self.prediction[n] != self.margin[n]:
            clipped = f", clipped from {self.margin[n]:.4g}"
        return f"{self.prediction[n]:.4g}{clipped} = {self.baseline[n]:.4g} (mean)"

    def _amount(self, value: float) -> str:
        return f"{'−' if value < 0 else '+'} {abs(value):.4g}"


class ShapeFunction(NamedTuple):
    """Piecewise-linear part of the scores that depends on a single feature.

    Attributes
    ----------
    x : array of shape (K,), increasing, in raw units; scores are linear between adjacent points
    scores : array of shape (K, C)
    """

    x: NDArray
    scores: NDArray


def groups_of(model: TermSum, columns: NDArray) -> tuple[tuple[tuple[int, ...], ...], NDArray]:
    """Return the distinct sets of columns of terms, by size, and the index of the set of each term.

    ``columns`` (P,) contains the column of each feature.
    """
    keys = [tuple(np.unique(columns[term.features]).tolist()) for term in model.terms]
    groups = tuple(sorted(set(keys), key=lambda key: (len(key), key)))
    return groups, np.array([groups.index(key) for key in keys])


def term_means(model: TermSum, X: ArrayLike, weight: ArrayLike | None = None) -> NDArray:
    """Return the mean scores of each term over reference samples.

    They are the baseline of `contributions` and `shape_function`. O(N·Σ_t m_t·H_t).

    Parameters
    ----------
    model : LMM or AdditiveLMM
    X : array of shape (N, P), N >= 1, for example the training samples
    weight : array of shape (N,), optional
        Weights of the samples, >= 0; all equal by default.

    Returns
    -------
    array of shape (T, C)

    Examples
    --------
    >>> import numpy as np
    >>> from maxplus.explain import term_means
    >>> from maxplus.models import LMM, AdditiveLMM, Term
    >>> steps = LMM.from_boxes([[0.0], [1.0]], 0.5, np.eye(2), slope=1.0)
    >>> model = AdditiveLMM([Term([0], steps), Term([1], steps)], n_features=2)
    >>> term_means(model, np.array([[0.0, 1.0], [1.0, 1.0]]))
    array([[1. , 1. ],
           [0.5, 1.5]])
    """
    check_model(model)
    U = model.mapped(X)
    weights = normalized_weights(weight, len(U))
    return np.stack([weights @ lmm.scores(U[:, features]) for features, lmm in model.terms])


def contributions(
    model: TermSum,
    X: ArrayLike,
    baseline: ArrayLike,
    against: int | None = None,
    *,
    feature_names: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    domain: Domain | None = None,
) -> Contributions:
    """Explain the margin of the predicted class over another class as an exact sum.

    z_A − z_B is the mean margin of the reference samples (the baseline), plus a contribution of
    each group of features: the margin of the terms over these features for this sample, minus its
    mean. O(N·Σ_t m_t·H_t).

    Parameters
    ----------
    model : LMM or AdditiveLMM with at least two classes
    X : array of shape (N, P), in raw units
    baseline : array of shape (T, C)
        Mean scores of each term over reference samples: `term_means`.
    against : int, optional
        The class B. By default, and for samples whose predicted class is ``against``, the class of
        the second-highest score.
    feature_names : P strings, optional
        "x0", "x1", … by default.
    class_names : C strings, optional
        "0", "1", … by default.
    domain : Domain, optional
        The columns that features belong to, with names, instead of ``feature_names``. Terms over
        features of the same columns, for example of one categorical column, are added.

    Returns
    -------
    Contributions

    Examples
    --------
    >>> import numpy as np
    >>> from maxplus.explain import contributions, term_means
    >>> from maxplus.models import LMM, AdditiveLMM, Term
    >>> steps = LMM.from_boxes([[0.0], [1.0]], 0.5, np.eye(2), slope=1.0)
    >>> model = AdditiveLMM([Term([0], steps), Term([1], steps)], n_features=2)
    >>> means = term_means(model, np.array([[0.0, 0.0], [1.0, 0.0]]))
    >>> print(contributions(model, [[1, 0.25]], means, feature_names=["age", "mg"]))
    class 1 rather than 0, margin +0.50 = −1.00 (baseline) + 1.00 from age = 1 + 0.50 from mg = 0.25
    """
    check_model(model)
    P, C = model.n_features, model.n_classes
    if C < 2:
        raise ValueError(f"model must have at least two classes to compare; got {C}")
    if against is not None:
        against = check_index("against", against, C)
    means = _check_baseline(baseline, model)
    domain = _domain(model, feature_names, domain)
    classes = [str(d) for d in range(C)] if class_names is None else class_names
    check_class_names(classes, model)
    rows = as_rows(X, P, np.float64)
    Z = model.scores(rows)
    order = np.argsort(-Z, axis=1, kind="stable")
    predicted, rival = order[:, 0], order[:, 1]
    if against is not None:
        rival = np.where(predicted == against, rival, against)
    groups, group_of_term = groups_of(model, domain.column_of)
    margin = _difference(Z.astype(np.float64), predicted, rival)
    total = model.intercept + means.sum(axis=0)
    contribution = np.zeros((len(rows), len(groups)))
    U = model.mapped(rows)
    for t, (features, lmm) in enumerate(model.terms):
        centred = lmm.scores(U[:, features]) - means[t]
        contribution[:, group_of_term[t]] += _difference(centred, predicted, rival)
    return Contributions(
        rows,
        predicted,
        rival,
        margin,
        total[predicted] - total[rival],
        contribution,
        groups,
        group_of_term,
        domain,
        [str(name) for name in classes],
    )


def prediction_contributions(
    model: TermSum, X: ArrayLike, baseline: ArrayLike, bounds: ArrayLike, domain: Domain
) -> PredictionContributions:
    """Explain predictions of a regression, z_1 − z_0 clipped to bounds, as exact sums.

    O(N·Σ_t m_t·H_t).

    Parameters
    ----------
    model : AdditiveLMM with two outputs
    X : array of shape (N, P), in raw units
    baseline : array of shape (T, 2)
        Mean scores of each term over reference samples: `term_means`.
    bounds : two numbers
        The smallest and the largest prediction.
    domain : Domain
        The columns that features belong to, with names.

    Returns
    -------
    PredictionContributions

    Examples
    --------
    >>> import numpy as np
    >>> from maxplus.explain import Domain, prediction_contributions, term_means
    >>> from maxplus.models import LMM, AdditiveLMM, Term
    >>> steps = LMM.from_boxes([[0.0], [1.0]], 0.5, np.eye(2), slope=1.0)
    >>> model = AdditiveLMM([Term([0], steps), Term([1], steps)], n_features=2)
    >>> means = term_means(model, np.array([[0.0, 0.0], [1.0, 0.0]]))
    >>> domain = Domain.unrestricted(2, names=["age", "mg"])
    >>> print(prediction_contributions(model, [[1, 0.25]], means, (-2.0, 2.0), domain))
    0.5 = -1 (mean) + 1 from age = 1 + 0.5 from mg = 0.25
    """
    found = contributions(model, X, baseline, domain=domain)
    # `contributions` explains z_0 − z_1 where z_0 is the higher score.
    sign = np.where(found.predicted == 1, 1.0, -1.0)
    margin = sign * found.margin
    changed = {
        "predicted": np.ones_like(found.predicted),
        "rival": np.zeros_like(found.rival),
        "margin": margin,
        "baseline": sign * found.baseline,
        "contribution": sign[:, None] * found.contribution,
    }
    prediction = np.clip(margin, *np.asarray(bounds, np.float64))
    return PredictionContributions(**vars(found) | changed, prediction=prediction)


def shape_function(model: TermSum, p: int, baseline: ArrayLike | None = None) -> ShapeFunction:
    """Return the sum of all terms over feature p alone, as a function of its raw value.

    The function is exact. ``x`` contains all points at which its slope can change: the knots of the
    feature map and the breakpoints of the terms. With a map, the function is constant outside the
    knots. Without a map, ``x`` also contains a point on each side of the breakpoints, and the first
    and the last segment continue to infinity. The scores are 0 if the model has no such terms.

    Parameters
    ----------
    model : LMM or AdditiveLMM
    p : int
        The feature.
    baseline : array of shape (T, C), optional
        Mean scores of each term over reference samples (`term_means`), which are subtracted. The
        function then has mean 0 over these samples.

    Returns
    -------
    ShapeFunction

    Examples
    --------
    >>> import numpy as np
    >>> from maxplus.explain import shape_function
    >>> from maxplus.models import LMM, AdditiveLMM, FeatureMap, Term
    >>> steps = LMM.from_boxes([[0.0], [1.0]], 0.5, np.eye(2), slope=1.0)
    >>> percent = FeatureMap([([0.0, 100.0], [0.0, 1.0])])
    >>> model = AdditiveLMM([Term([0], steps)], n_features=1, feature_map=percent)
    >>> curve = shape_function(model, 0)
    >>> curve.x
    array([  0., 100.])
    >>> curve.scores
    array([[1.5, 0.5],
           [0.5, 1.5]])
    """
    check_model(model)
    p = check_index("p", p, model.n_features)
    means = np.zeros((len(model.terms), model.n_classes))
    if baseline is not None:
        means = _check_baseline(baseline, model)
    own = [t for t, (features, _) in enumerate(model.terms) if features.tolist() == [p]]
    lmms = [model.terms[t].lmm.astype(np.float64) for t in own]
    points = np.concatenate([np.empty(0), *(breakpoints(lmm) for lmm in lmms)])
    if model.feature_map is None:
        x = np.unique(points) if points.size else np.zeros(1)
        length = max(1.0, float(x[-1] - x[0]))
        x = u = np.concatenate([[x[0] - length], x, [x[-1] + length]])
    else:
        knots, values = model.feature_map.knots(p)
        inside = points[(points > values[0]) & (points < values[-1])]
        x = np.unique(np.concatenate([knots, model.feature_map.inverse(p, inside)]))
        rows = np.zeros((x.size, model.n_features))
        rows[:, p] = x
        u = model.feature_map(rows)[:, p]
    scores = np.zeros((x.size, model.n_classes))
    for t, lmm in zip(own, lmms, strict=True):
        scores += lmm.scores(u[:, None]) - means[t]
    return ShapeFunction(x, scores)


def _difference(scores: NDArray, predicted: NDArray, rival: NDArray) -> NDArray:
    """Return the score of the predicted class minus that of the rival for each sample, (N,)."""
    n = np.arange(len(scores))
    return scores[n, predicted] - scores[n, rival]


def signed(value: float, space: str = " ") -> str:
    """Format a number with two decimals, and with its sign followed by ``space``."""
    return f"{'−' if value <= -MIN_SHOWN else '+'}{space}{abs(value):.2f}"


def _domain(model: TermSum, feature_names: Sequence[str] | None, domain: Domain | None) -> Domain:
    """Return the given domain, or an unbounded one with the given feature names."""
    P = model.n_features
    if domain is not None:
        if feature_names is not None:
            raise ValueError("feature_names must not be given with a domain, which has names")
        check_domain(domain, P)
        return domain
    names = [f"x{p}" for p in range(P)] if feature_names is None else feature_names
    if len(names) != P:
        raise ValueError(f"feature_names must name {P} features; got {len(names)} names")
    return Domain.unrestricted(P, names=names)


def normalized_weights(weight: ArrayLike | None, n_rows: int) -> NDArray:
    """Return sample weights that sum to 1; raise ValueError if they are invalid or X is empty."""
    if not n_rows:
        raise ValueError("X must have at least one row; got none")
    if weight is None:
        return np.full(n_rows, 1.0 / n_rows)
    array = np.asarray(weight, np.float64)
    if array.shape != (n_rows,) or not (array >= 0.0).all() or not 0.0 < array.sum() < np.inf:
        raise ValueError(
            f"weight must hold {n_rows} finite numbers >= 0, not all 0, one for each row of X; "
            f"got {weight!r:.80}"
        )
    return array / array.sum()


def _check_baseline(baseline: ArrayLike, model: TermSum) -> NDArray:
    """Return the baseline as a float64 array; raise ValueError unless it is finite, (T, C)."""
    shape = len(model.terms), model.n_classes
    means = np.asarray(baseline, np.float64)
    if means.shape != shape or not np.isfinite(means).all():
        raise ValueError(
            f"baseline must hold finite numbers, of shape {shape}, as term_means returns them; "
            f"got shape {means.shape}"
        )
    return means
