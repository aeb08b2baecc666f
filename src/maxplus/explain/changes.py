"""Counterfactuals of several columns, by mixed-integer linear programming."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, milp
from scipy.sparse import coo_array

from maxplus.explain._shared import check_class_names, check_model
from maxplus.explain.boundary import ERROR_ULPS, DecisionBoundary
from maxplus.explain.counterfactuals import nearest_counterfactuals
from maxplus.explain.domain import Domain, rounded_away
from maxplus.explain.explanation import missing_columns
from maxplus.models import LMM
from maxplus.models._checks import as_row
from maxplus.models.additive import breakpoints
from maxplus.models.lmm import TermSum

# Numbers of decimals that are tried for printing, relative to the unit of a column.
DIGITS = range(1, 13)
# Minimum margin of the other class, relative to the range of the scores. It exceeds the tolerance
# of the solver.
MARGIN = 1e-6
# Maximum number of integer variables.
MAX_INTEGERS = 5_000
# Status of `scipy.optimize.milp` for infeasible problems.
INFEASIBLE = 2


class Change(NamedTuple):
    """Change of one or several columns that changes the predicted class of a sample.

    ``feature[j]`` takes ``value[j]``, as in `Counterfactuals`. ``distance`` is the sum of the
    distances of the columns, in units. ``lower_bound`` is a lower bound on the distance of all
    changes of at most ``n_columns`` columns, and equals ``distance`` up to a tolerance unless the
    time limit was reached. If possible, numbers in ``row`` are rounded to few digits, away from the
    original values, such that the model still predicts ``new_class``. If no change was found,
    ``feature`` is empty, ``new_class`` is −1, ``distance`` is infinite and ``row`` is unchanged.
    """

    feature: NDArray
    value: NDArray
    new_class: int  # the new class
    distance: float
    lower_bound: float
    row: NDArray  # the changed sample for printing, (P,)
    text: str  # the description of the change

    def __str__(self) -> str:
        """Return the description of the change."""
        return self.text


def smallest_change(
    model: TermSum,
    x: ArrayLike,
    domain: Domain,
    n_columns: int = 2,
    *,
    class_names: Sequence[str] | None = None,
    seconds: float = 60.0,
    missing: ArrayLike | None = None,
) -> Change:
    """Return the smallest change of at most ``n_columns`` columns that changes the prediction.

    The score of class d exceeds that of the predicted class y if b_d − b_y + Σ_t (v_t − q_t) > 0,
    where b is the intercept, v_t a lower bound on the score of d in term t, and q_t an upper bound
    on that of y: for one unit h and for all units h',

        v_t ≤ r_i(h) + W2[h, d] for all i,    r_i(h') + W2[h', y] ≤ q_t for some i,

    where r_i(h) = W0[i]·φ(x)[i // 2] + W1[i, h]. Binary variables select i for each h', the unit h,
    the segments of φ, the columns that change and their categories. Terms over one feature are
    represented by their sum, which is piecewise linear. Minimising the sum of distances is then a
    mixed-integer linear program for each class d, restricted to the variables that are relevant
    within the distance of the best known change. HiGHS solves it and proves optimality by a lower
    bound. The result is exact, except for margins below a millionth of the range of the scores. The
    running time is exponential in the worst case. ValueError is raised for more than 5,000 integer
    variables. If the search is stopped by the time limit, ``lower_bound`` < ``distance``.

    Parameters
    ----------
    model : LMM or AdditiveLMM
    x : array of shape (P,)
    domain : Domain
        Its limits must be finite unless a change of a single column changes the class of x.
    n_columns : int, default=2
        Maximum number of columns to change.
    class_names : names of the C classes, for the text; 0 to C − 1 by default
    seconds : float, default=60.0
        Approximate time limit; each class has at least one second.
    missing : bool array of shape (n_columns,) or (P,), optional
        Mask of imputed values, which are described as missing in the text.

    Returns
    -------
    Change

    Examples
    --------
    >>> from maxplus.explain import Domain, smallest_change
    >>> from maxplus.models import LMM
    >>> model = LMM.from_boxes([[0.0, 0.0], [2.0, 2.0]], 0.5, [[0.0, -4.0], [-4.0, 0.0]], 1.0)
    >>> domain = Domain.unrestricted(2).within(-3.0, 3.0)
    >>> smallest_change(model, [0.1, 0.2], domain, n_columns=2).new_class
    1
    """
    check_model(model)
    row = as_row(x, model.n_features, np.float64)
    if n_columns < 1:
        raise ValueError(f"n_columns must be at least 1; got {n_columns}")
    names = range(model.n_classes) if class_names is None else class_names
    check_class_names(names, model)
    y = int(model.scores(row[None]).argmax())
    mask = missing_columns(None if missing is None else np.asarray(missing)[None], 1, domain)
    imputed = [] if mask is None else [domain.columns[k] for k in np.flatnonzero(mask[0])]
    single = nearest_counterfactuals(model, row[None], domain)
    if single.feature[0] >= 0:
        best = _change(model, row, y, domain, single.feature, single.value, names, imputed)
    else:
        best = _no_change(row)
    if n_columns == 1 or best.distance == 0.0:
        return best
    max_distance = (
        best.distance if best.feature.size else n_columns * _largest_distance(row, domain)
    )
    slack = ERROR_ULPS * DecisionBoundary(model).score_ulp(np.abs(row) + max_distance * domain.unit)
    exact = model.astype(np.float64)
    end, lower_bound = monotonic() + seconds, np.inf
    for d in np.argsort(-exact.scores(row[None])[0], kind="stable").tolist():
        if d == y:
            continue
        search = ChangeSearch(exact, row, y, d, domain)
        if not search.build(n_columns, min(max_distance, best.distance), slack):
            continue
        optimum = search.milp.solve(max(1.0, end - monotonic()))
        lower_bound = min(lower_bound, optimum.lower_bound)
        if optimum.values is not None:
            flips = search.decode(optimum.values)
            several = _change(model, row, y, domain, *flips, names, imputed)
            best = min(best, several, key=lambda change: change.distance)
    if not best.feature.size and lower_bound < np.inf:
        # The search was stopped before infeasibility was proven.
        best = best._replace(text="no change of this many columns was found")
    return best._replace(lower_bound=min(lower_bound, best.distance))


def _largest_distance(x: NDArray, domain: Domain) -> float:
    """Return the largest distance of a change of one column; raise ValueError if it is infinite."""
    is_numeric = domain.is_continuous | domain.is_unlisted
    ends = np.maximum(domain.high - x, x - domain.low) / domain.unit
    feature, value = domain.candidates
    listed = domain.distances(x, domain.changed(x, feature, value))
    largest = max(ends[is_numeric].max(initial=0.0), listed.max(initial=0.0))
    if not np.isfinite(largest):
        p = int(np.flatnonzero(is_numeric & ~np.isfinite(ends))[0])
        raise ValueError(
            "domain must have limits if no change of a single column changes the class; "
            f"{domain.names[p]!r} has none (give low and high)"
        )
    return float(largest)


def _apply_changes(x: NDArray, domain: Domain, feature: NDArray, value: NDArray) -> NDArray:
    """Return sample x after all changes."""
    for p, v in zip(feature.tolist(), value.tolist(), strict=True):
        x = domain.changed(x, p, v)[0]
    return x


def _no_change(x: NDArray) -> Change:
    """Return the result for a sample whose class does not change."""
    text = "no change of this many columns changes the prediction"
    return Change(np.empty(0, int), np.empty(0), -1, np.inf, np.inf, x, text)


def _change(
    model: TermSum,
    x: NDArray,
    y: int,
    domain: Domain,
    feature: NDArray,
    value: NDArray,
    class_names: Sequence[Any],
    imputed: Sequence[str],
) -> Change:
    """Return the change of these features, with its numbers rounded to few digits for printing."""
    distance = float(domain.distances(x, domain.changed(x, feature, value)).sum())
    row = _apply_changes(x, domain, feature, value)
    new_class = int(model.scores(row[None]).argmax())
    if new_class == y:  # Due to rounding in the model's float type, the class does not change.
        return _no_change(x)
    continuous = np.flatnonzero(domain.is_continuous[feature])
    for digits in DIGITS:
        shown = value.copy()
        for j in continuous.tolist():
            exponent = int(np.floor(np.log10(domain.unit[feature[j]]))) - digits
            shown[j] = rounded_away(float(value[j]), float(x[feature[j]]), exponent)
        tried = _apply_changes(x, domain, feature, shown)
        inside = (shown >= domain.low[feature]) & (shown <= domain.high[feature])
        if inside[continuous].all() and model.scores(tried[None]).argmax() == new_class:
            row = tried
            break
    phrases = []
    for p in feature.tolist():
        column = domain.column_names[p]
        before = "missing" if column in imputed else domain.text(x, p)
        phrases.append(f"{column} goes from {before} to {domain.text(row, p, exact=True)}")
    text = f"changes to {class_names[new_class]} if " + " and ".join(phrases)
    return Change(feature, value, new_class, distance, distance, row, text)


class _Option(NamedTuple):
    """Change of a feature to ``begin`` if the binary variable with index ``switch`` is 1.

    The variable with index ``fraction``, from 0 to 1, changes a number further, up to ``end``. The
    index is −1 if ``end`` equals ``begin``.
    """

    feature: int
    begin: float
    end: float
    switch: int
    fraction: int


class ChangeSearch:
    """Mixed-integer program for the smallest change of a sample x of class y to another class d.

    The range of a numeric feature is divided at the knots of its map and the breakpoints of the
    terms over this feature alone; in each segment, φ and the sum z_d − z_y of these terms are
    linear. Segments and changes among ``Domain.candidates`` are the options of a column, of which
    at most one is selected. A term over several features has two variables, v ≤ z_d and q ≥ z_y, as
    in `smallest_change`.
    """

    def __init__(self, model: TermSum, x: NDArray, y: int, d: int, domain: Domain) -> None:
        self.model, self.x, self.y, self.d, self.domain = model, x, y, d, domain
        self.milp = MILP()
        self.options: list[_Option] = []
        self.u = model.mapped(x[None])[0]
        # Effect of each variable on each mapped feature, and its largest decrease and increase.
        self.effects: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
        self.span = np.zeros((2, x.size))
        # Effect of each variable on the margin z_d − z_y of the terms over one feature.
        self.margin: dict[int, float] = defaultdict(float)
        self.shapes: dict[int, list[LMM]] = defaultdict(list)
        for features, lmm in model.terms:
            if features.size == 1:
                pair = LMM(lmm.W0, lmm.W1, lmm.W2[:, [y, d]])
                self.shapes[int(features[0])].append(pair)
        joint = [term.features for term in model.terms if term.features.size > 1]
        self.joint = set(np.concatenate([np.empty(0, int), *joint]).tolist())

    def build(self, n_columns: int, max_distance: float, slack: float) -> bool:
        """Add variables and constraints; return whether d can be predicted within ``max_distance``.

        ``slack`` is the minimum margin of d over y.
        """
        for p in np.flatnonzero(self.domain.is_continuous | self.domain.is_unlisted).tolist():
            self._add_segments(p, max_distance)
        feature, value = self.domain.candidates
        rows = self.domain.changed(self.x, feature, value)
        is_near = self.domain.distances(self.x, rows) <= max_distance
        for k in np.flatnonzero(is_near & (rows != self.x).any(axis=1)):
            self._add_options(int(feature[k]), value[[k]], value[[k]])
        columns: dict[str, list[_Option]] = defaultdict(list)
        for option in self.options:
            columns[self.domain.column_names[option.feature]].append(option)
        for options in columns.values():
            self.milp.at_most({option.switch: 1.0 for option in options}, 1.0)
        self.milp.at_most({option.switch: 1.0 for option in self.options}, float(n_columns))
        self.milp.at_most({j: cost for j, cost in enumerate(self.milp.cost) if cost}, max_distance)
        return bool(self.options) and self._add_scores(list(columns.values()), slack)

    def _shape(self, p: int, u: float) -> float:
        """Return z_d − z_y of the terms over feature p alone, for the mapped value u."""
        at = np.array([[u]])
        return sum((float(np.diff(lmm.scores(at))[0, 0]) for lmm in self.shapes.get(p, ())), 0.0)

    def _add_effect(self, p: int, variable: int, begin: float, end: float) -> None:
        """Add the effect of a variable that changes φ_p from ``begin`` (at 0) to ``end`` (at 1)."""
        change = self._shape(p, end) - self._shape(p, begin)
        if change:
            self.margin[variable] += change
        if p in self.joint and end != begin:
            self.effects[p][variable] += end - begin
        move = end - self.u[p]
        self.span[:, p] = min(move, self.span[0, p]), max(move, self.span[1, p])

    def _add_segments(self, p: int, max_distance: float) -> None:
        """Add an option for each segment of a numeric feature, above and below its value in x."""
        domain, at, unit = self.domain, float(self.x[p]), float(self.domain.unit[p])
        low = max(float(domain.low[p]), at - max_distance * unit)
        high = min(float(domain.high[p]), at + max_distance * unit)
        if domain.is_integer[p]:
            low, high = float(np.ceil(low)), float(np.floor(high))
        indicator = domain.indicators.get(p, -1)
        is_missing = indicator >= 0 and self.x[indicator] != 0.0
        if low > high or not (self.shapes[p] or p in self.joint or is_missing):
            return
        # Values at which the slope of φ_p or of a term may change.
        slope_changes = np.concatenate([np.empty(0), *(breakpoints(lmm) for lmm in self.shapes[p])])
        feature_map = self.model.feature_map
        if feature_map is not None:
            slope_changes = np.append(
                feature_map.inverse(p, slope_changes), feature_map.knots(p)[0]
            )
        first = len(self.options)
        for begin, end in ((max(at, low), high), (min(at, high), low)):
            least, most = min(begin, end), max(begin, end)
            inside = np.unique(slope_changes[(slope_changes > least) & (slope_changes < most)])
            points = np.concatenate([[begin], inside if begin < end else inside[::-1], [end]])
            if (end - begin) * (end - at) > 0.0:
                self._add_options(p, points[:-1], points[1:])
        if is_missing and low <= at <= high and len(self.options) == first:
            self._add_options(p, np.array([at]), np.array([at]))
        if domain.is_integer[p]:
            self._make_integer(self.options[first:], float(np.floor(at)))

    def _add_options(self, p: int, begin: NDArray, end: NDArray) -> None:
        """Add options that change feature p to ``begin[k]`` and further, up to ``end[k]``."""
        at_begin, at_end = (
            self.domain.changed(self.x, np.full(v.size, p), v) for v in (begin, end)
        )
        distance = self.domain.distances(self.x, at_begin)
        U, V = self.model.mapped(at_begin), self.model.mapped(at_end)
        lengths = np.abs(end - begin) / self.domain.unit[p]
        for k in range(begin.size):
            switch, fraction = self.milp.switch(cost=float(distance[k])), -1
            for q in np.flatnonzero(U[k] != self.u).tolist():
                self._add_effect(q, switch, float(self.u[q]), float(U[k, q]))
            if lengths[k] > 0.0:
                fraction = self.milp.variable(0.0, 1.0, cost=float(lengths[k]))
                self.milp.at_most({fraction: 1.0, switch: -1.0}, 0.0)
                self._add_effect(p, fraction, float(U[k, p]), float(V[k, p]))
            self.options.append(_Option(p, float(begin[k]), float(end[k]), switch, fraction))

    def _make_integer(self, options: list[_Option], origin: float) -> None:
        """Add the constraint that the new value of a feature minus ``origin`` is an integer."""
        coefficients = {option.switch: option.begin - origin for option in options}
        coefficients |= {
            option.fraction: option.end - option.begin for option in options if option.fraction >= 0
        }
        most = max(map(abs, coefficients.values()), default=0.0) + 1.0
        number = self.milp.variable(-np.ceil(2.0 * most), np.ceil(2.0 * most), is_integer=True)
        for sign in (1.0, -1.0):
            scaled = {j: sign * c / most for j, c in coefficients.items()}
            self.milp.at_most(scaled | {number: -sign / most}, 0.0)

    def _add_scores(self, columns: list[list[_Option]], slack: float) -> bool:
        """Add the constraint that d leads y, and those for the terms over several features.

        Return whether the constraint can be satisfied, according to an upper bound of the margin.
        """
        constant = float(self.model.intercept[self.d] - self.model.intercept[self.y])
        constant += sum(self._shape(p, float(self.u[p])) for p in self.shapes)
        coefficients = {j: -change for j, change in self.margin.items()}
        # Upper bound of the margin, and its range.
        most, size = constant, 0.0
        for options in columns:
            begin = np.array([self.margin.get(option.switch, 0.0) for option in options])
            further = np.array([self.margin.get(option.fraction, 0.0) for option in options])
            most += max(0.0, begin.max(), (begin + further).max())
            size += np.abs(begin).max() + np.abs(further).sum()
        for features, lmm in self.model.terms:
            if features.size > 1:
                term = _JointTerm(self, features, lmm)
                high, low = term.range(self.d)[1], term.range(self.y)[0]
                lower = term.add_lower_bound(self.d, coefficients)
                constant += lower - term.add_upper_bound(self.y, coefficients)
                most += high - low
                size += term.size
        margin = max(slack, MARGIN * size)
        if most < margin or size == 0.0:
            return False
        scaled = {j: c / size for j, c in coefficients.items()}
        self.milp.at_most(scaled, (constant - margin) / size)
        return True

    def decode(self, values: NDArray) -> tuple[NDArray, NDArray]:
        """Return the changed features, and their values, for these values of the variables."""
        changes = {}
        for option in self.options:
            if values[option.switch] > 0.5:
                p, value = option.feature, option.begin
                if option.fraction >= 0:
                    value += (option.end - option.begin) * float(values[option.fraction])
                    value = float(np.round(value)) if self.domain.is_integer[p] else value
                    value = float(np.clip(value, self.domain.low[p], self.domain.high[p]))
                if (self.domain.changed(self.x, p, value) != self.x).any():
                    changes[p] = value
        feature = np.array(sorted(changes), int)
        return feature, np.array([changes[p] for p in feature.tolist()], float)


class _JointTerm:
    """Variables and constraints for the scores of a term over several features.

    ``original`` (2m, H) are the values r_i(h) for the sample x. ``low`` and ``high`` (2m, H) are
    bounds on r_i(h) after all possible changes. ``lowest`` and ``highest`` (H,) are bounds on the
    units.
    """

    def __init__(self, search: ChangeSearch, features: NDArray, lmm: LMM) -> None:
        self.search, self.features, self.lmm = search, features, lmm
        column = np.repeat(features, 2)
        self.original = (lmm.W0 * search.u[column])[:, None] + lmm.W1
        ranges = np.sort(lmm.W0 * search.span[:, column], axis=0)
        self.low, self.high = (self.original + change[:, None] for change in ranges)
        self.lowest, self.highest = self.low.min(axis=0), self.high.min(axis=0)
        self.size = float((ranges[1] - ranges[0]).max())

    def range(self, d: int) -> tuple[float, float]:
        """Return the smallest and the largest score of class d."""
        heights = self.lmm.W2[:, d]
        return float((self.lowest + heights).max()), float((self.highest + heights).max())

    def _possible_minima(self, h: int) -> list[int]:
        """Return the rows of W0 that can be the minimum of unit h, at most one of them constant."""
        rows = np.flatnonzero(self.low[:, h] <= self.highest[h])
        moving = rows[self.low[rows, h] < self.high[rows, h]].tolist()
        staying = rows[self.low[rows, h] == self.high[rows, h]]
        return moving + staying[:1].tolist()

    def _add_bound(
        self, i: int, h: int, d: int, sign: float, bound: tuple[int, float], switch: int, big: float
    ) -> None:
        """Add the constraint sign·bound ≤ sign·(r_i(h) + W2[h, d]) if a binary variable is 1.

        ``bound`` is the sum of a variable and a constant. ``big`` is an upper bound of the
        violation if the binary variable ``switch`` is 0.
        """
        variable, least = bound
        rate = -sign * float(self.lmm.W0[i])
        effects = self.search.effects.get(int(self.features[i // 2]), {}) if rate else {}
        coefficients = {j: rate * effect for j, effect in effects.items()}
        coefficients |= {variable: sign, switch: big}
        limit = sign * (float(self.original[i, h] + self.lmm.W2[h, d]) - least) + big
        scaled = {j: c / self.size for j, c in coefficients.items()}
        self.search.milp.at_most(scaled, limit / self.size)

    def add_lower_bound(self, d: int, coefficients: dict[int, float]) -> float:
        """Add a variable v with the coefficient −1 to ``coefficients``, and return a constant c.

        The constraints imply that c + v is at most the score of class d: there is a unit h with
        c + v ≤ r_i(h) + W2[h, d] for all i.
        """
        least, most = self.range(d)
        if most <= least:
            return most
        program, heights = self.search.milp, self.lmm.W2[:, d]
        v = program.variable(0.0, most - least)
        coefficients[v] = -1.0
        units = np.flatnonzero(self.highest + heights >= least).tolist()
        switches = [program.switch() for _ in units]
        for h, switch in zip(units, switches, strict=True):
            for i in self._possible_minima(h):
                big = most - float(self.low[i, h] + heights[h])
                if big > 0.0:
                    self._add_bound(i, h, d, 1.0, (v, least), switch, big)
        program.at_least_one(switches)
        return least

    def add_upper_bound(self, y: int, coefficients: dict[int, float]) -> float:
        """Add a variable q with the coefficient 1 to ``coefficients``, and return a constant c.

        The constraints imply that c + q is at least the score of class y: for each unit h there is
        an i with r_i(h) + W2[h, y] ≤ c + q.
        """
        least, most = self.range(y)
        if most <= least:
            return most
        program, heights = self.search.milp, self.lmm.W2[:, y]
        q = program.variable(0.0, most - least)
        coefficients[q] = 1.0
        for h in np.flatnonzero(self.highest + heights > least).tolist():
            switches = []
            for i in self._possible_minima(h):
                switches.append(program.switch())
                big = max(float(self.high[i, h] + heights[h]) - least, 0.0)
                self._add_bound(i, h, y, -1.0, (q, least), switches[-1], big)
            program.at_least_one(switches)
        return least


class Optimum(NamedTuple):
    """Values of the variables in the best solution, or None, and a lower bound of the cost."""

    values: NDArray | None
    lower_bound: float


class MILP:
    """Mixed-integer linear program, built by adding variables and constraints.

    Minimise Σ cost·variable, subject to Σ coefficient·variable ≤ limit for each constraint.
    """

    def __init__(self) -> None:
        self.low: list[float] = []
        self.high: list[float] = []
        self.cost: list[float] = []
        self.is_integer: list[bool] = []
        self.constraints: list[tuple[Mapping[int, float], float]] = []

    def variable(
        self, low: float, high: float, *, is_integer: bool = False, cost: float = 0.0
    ) -> int:
        """Add a variable and return its index."""
        self.low.append(low)
        self.high.append(high)
        self.cost.append(cost)
        self.is_integer.append(is_integer)
        return len(self.low) - 1

    def switch(self, cost: float = 0.0) -> int:
        """Add a binary variable and return its index."""
        return self.variable(0.0, 1.0, is_integer=True, cost=cost)

    def at_most(self, coefficients: Mapping[int, float], limit: float) -> None:
        """Add the constraint Σ coefficients[j]·variable j ≤ limit."""
        self.constraints.append((coefficients, limit))

    def at_least_one(self, switches: Sequence[int]) -> None:
        """Add the constraint that at least one of these binary variables is 1."""
        self.at_most(dict.fromkeys(switches, -1.0), -1.0)

    def solve(self, seconds: float) -> Optimum:
        """Solve with HiGHS, and again with the integer variables rounded and fixed.

        HiGHS accepts integer variables that deviate from integers by up to 1e-6, and their
        coefficients amplify this error. The second problem, with fixed integer variables, has no
        such error. ``seconds`` is the time limit of each problem.
        """
        n_integers = sum(self.is_integer)
        if n_integers > MAX_INTEGERS:
            raise ValueError(
                f"the smallest change of several columns requires {n_integers} integer variables "
                f"here, more than {MAX_INTEGERS}: fix columns, or use the change of one column "
                "(explain, nearest_counterfactuals)"
            )
        low, high = np.array(self.low), np.array(self.high)
        first = self._run(low, high, seconds)
        if first.x is None:
            bound = np.inf if first.status == INFEASIBLE else first.mip_dual_bound
            return Optimum(None, 0.0 if bound is None else float(bound))
        rounded = np.round(first.x)
        second = self._run(
            np.where(self.is_integer, rounded, low),
            np.where(self.is_integer, rounded, high),
            seconds,
        )
        return Optimum(first.x if second.x is None else second.x, float(first.mip_dual_bound))

    def _run(self, low: NDArray, high: NDArray, seconds: float) -> OptimizeResult:
        """Run HiGHS with these limits of the variables."""
        rows = [coefficients for coefficients, _ in self.constraints]
        row = np.repeat(np.arange(len(rows)), [len(coefficients) for coefficients in rows])
        column = np.array([j for coefficients in rows for j in coefficients], int)
        value = np.array([c for coefficients in rows for c in coefficients.values()], float)
        matrix = coo_array((value, (row, column)), (len(rows), len(low))).tocsr()
        return milp(
            np.array(self.cost),
            integrality=np.array(self.is_integer, int),
            bounds=Bounds(low, high),
            constraints=LinearConstraint(matrix, ub=[limit for _, limit in self.constraints]),
            options={"time_limit": seconds, "mip_rel_gap": 0.0},
        )
