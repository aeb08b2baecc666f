"""The smallest change of a few columns together that flips a prediction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.explain.crossings import ROUNDINGS, LMMCrossings
from maxplus.explain.digits import rounded_away
from maxplus.explain.domain import Domain
from maxplus.explain.flips import single_flips
from maxplus.explain.programme import Programme
from maxplus.models import LMM
from maxplus.models._checks import as_row

# Switches beyond which a search is refused.
MOST_SWITCHES = 5_000
# By which part of what scores can move another class has to win: more than a solver rounds.
MARGIN = 1e-6
# Printed numbers have a tenth of a unit, or as many digits more as they need.
DIGITS = range(1, 13)


class Change(NamedTuple):
    """Columns that change together: ``feature[j]`` takes ``value[j]``, as in `Flips`.

    Then the class is ``becomes``. ``distance`` is the sum of the columns' distances in units;
    none of so few columns is nearer than ``at_least``, which is the same, up to rounding,
    unless time ran out. ``row`` is the changed row for people: its numbers have few digits and
    are no nearer, and the model predicts ``becomes``; ``text`` says it in words. Where nothing
    flips, ``feature`` is empty, ``becomes`` −1 and ``distance`` infinite.
    """

    feature: NDArray
    value: NDArray
    becomes: int
    distance: float
    at_least: float
    row: NDArray
    text: str

    def __str__(self) -> str:
        """Return the change in words."""
        return self.text


def smallest_change(
    model: LMM,
    x: ArrayLike,
    domain: Domain,
    n_columns: int = 2,
    *,
    class_names: Sequence[str] | None = None,
    seconds: float = 60.0,
) -> Change:
    """The nearest change of at most ``n_columns`` columns with which another class wins.

    Class d ≠ y wins through unit h if all rows i of the unit are high enough, while each unit h'
    has a row that is low enough for class y, with one threshold T between:

        T ≤ r_i(h) + W2[h, d] for all i,    r_i(h') + W2[h', y] < T for some i,

    where r_i(h) = W0[i]·v[i // 2] + W1[i, h] is linear in what moves. "Some" is a switch for
    each (h', i), and so are h, the columns that move and the words that they take. Minimising
    the sum of distances is then a mixed-integer linear programme, of which only those
    switches are formed that can matter nearer than the nearest single flip. HiGHS solves it,
    with a bound that proves that nothing is nearer. So it is exact, but for wins by less than a
    millionth of what the scores can move. The time is exponential in the worst case: a
    problem of more than 5,000 switches is refused, and one that takes more than ``seconds`` ends
    with ``at_least`` < ``distance``.

    Parameters
    ----------
    model : LMM
    x : array of shape (P,)
    domain : Domain
        With finite limits, unless a single column flips x.
    n_columns : int
    class_names : C words, for the text; the classes' numbers by default
    seconds : float
    """
    if not isinstance(model, LMM):
        raise TypeError(
            f"changes of several columns are known for one LMM; got a {type(model).__name__}; "
            "single_flips takes it"
        )
    row = as_row(x, model.n_features, np.float64)
    if n_columns < 1:
        raise ValueError(f"n_columns must be at least 1; got {n_columns}")
    names = range(model.n_classes) if class_names is None else class_names
    y = int(model.scores(row[None]).argmax())
    single = single_flips(model, row[None], domain)
    if single.feature[0] >= 0:
        found = _Found(single.feature, single.value, float(single.distance[0]))
        best = _change(model, row, y, domain, found, names)
    else:
        best = _nothing(row)
    if n_columns == 1 or best.distance == 0.0:
        return best
    reach = best.distance if best.feature.size else n_columns * _farthest(row, domain)
    search = _Search(model.astype(np.float64), row, y, domain)
    slack = ROUNDINGS * LMMCrossings(model).rounding(np.abs(row) + reach * domain.unit)
    if not search.build(n_columns, reach, slack):
        return best
    optimum = search.programme.solve(seconds)
    if optimum.values is not None:
        several = _change(model, row, y, domain, search.read(optimum.values), names)
        best = min(best, several, key=lambda change: change.distance)
    return best._replace(at_least=min(optimum.at_least, best.distance))


class _Found(NamedTuple):
    """Features, the values that they take, and how far that is in all."""

    feature: NDArray
    value: NDArray
    distance: float


class _Number(NamedTuple):
    """A number that may move: x' = start + position where its switch is on."""

    feature: int
    start: float
    switch: int
    position: int
    distance: int


class _Option(NamedTuple):
    """A listed change with a switch of its own."""

    feature: int
    value: float
    switch: int


class _Search:
    """The programme for one row x of class y, and what its variables mean."""

    def __init__(self, model: LMM, x: NDArray, y: int, domain: Domain) -> None:
        self.model, self.x, self.y, self.domain = model, x, y, domain
        self.programme = Programme()
        self.numbers: list[_Number] = []
        self.options: list[_Option] = []
        # What moves each feature: (feature, variable, coefficient).
        self.effects: list[tuple[int, int, float]] = []
        # How far each feature can move, down and up.
        self.span = np.zeros((2, x.size))

    def build(self, n_columns: int, reach: float, slack: float) -> bool:
        """All variables and rows; False if nothing within reach can flip the row."""
        self._add_numbers(reach)
        self._add_options(reach)
        columns = [number.switch for number in self.numbers]
        columns += [option.switch for option in self.options]
        self.programme.at_most(dict.fromkeys(columns, 1.0), float(n_columns))
        costs = {j: cost for j, cost in enumerate(self.programme.cost) if cost}
        self.programme.at_most(costs, reach)
        return bool(columns) and self._add_scores(slack)

    def _add_numbers(self, reach: float) -> None:
        programme, domain = self.programme, self.domain
        for p in np.flatnonzero(domain.is_free | domain.is_long).tolist():
            at, unit, is_whole = float(self.x[p]), float(domain.unit[p]), bool(domain.whole[p])
            low = max(float(domain.low[p]), at - reach * unit)
            high = min(float(domain.high[p]), at + reach * unit)
            start = float(np.floor(at)) if is_whole else at
            if is_whole:
                low, high = float(np.ceil(low)), float(np.floor(high))
            if low > high:
                continue
            low, high = low - start, high - start
            switch = programme.switch()
            position = programme.variable(min(low, 0.0), max(high, 0.0), is_whole=is_whole)
            distance = programme.variable(0.0, reach, cost=1.0)
            programme.at_most({position: 1.0, switch: -high}, 0.0)
            programme.at_most({position: -1.0, switch: low}, 0.0)
            ahead = start - at
            for sign in (1.0, -1.0):
                line = {position: sign / unit, switch: sign * ahead / unit, distance: -1.0}
                programme.at_most(line, 0.0)
            self.numbers.append(_Number(p, start, switch, position, distance))
            self.effects += [(p, position, 1.0), (p, switch, ahead)]
            self.span[:, p] = min(low + ahead, 0.0), max(high + ahead, 0.0)
            indicator = domain.indicators.get(p)
            if indicator is not None and self.x[indicator] != 0.0:
                self._move(indicator, switch, -float(self.x[indicator]))

    def _add_options(self, reach: float) -> None:
        feature, value = self.domain.candidates
        rows = self.domain.changed(self.x, feature, value)
        distance = self.domain.distances(self.x, rows)
        of_column: dict[str, list[int]] = {}
        for k in np.flatnonzero((distance <= reach) & (rows != self.x).any(axis=1)).tolist():
            switch = self.programme.switch(cost=float(distance[k]))
            self.options.append(_Option(int(feature[k]), float(value[k]), switch))
            of_column.setdefault(self.domain.column_names[feature[k]], []).append(switch)
            for p in np.flatnonzero(rows[k] != self.x).tolist():
                self._move(p, switch, float(rows[k, p] - self.x[p]))
        for switches in of_column.values():
            self.programme.at_most(dict.fromkeys(switches, 1.0), 1.0)

    def _move(self, p: int, variable: int, move: float) -> None:
        self.effects.append((p, variable, move))
        self.span[:, p] = min(move, self.span[0, p]), max(move, self.span[1, p])

    def _add_scores(self, slack: float) -> bool:
        """Another class's unit above the threshold, all units of class y below."""
        model, programme = self.model, self.programme
        D = np.eye(self.x.size) if model.directions is None else model.directions
        E = np.zeros((self.x.size, len(programme.low)))
        for p, variable, coefficient in self.effects:
            E[p, variable] += coefficient
        rates = model.W0[:, None] * np.repeat(D @ E, 2, axis=0)
        now = (model.W0 * np.repeat(D @ self.x, 2))[:, None] + model.W1
        steep = model.W0[:, None] * np.repeat(D, 2, axis=0)
        down, up = (
            np.minimum(steep * self.span[0], steep * self.span[1]).sum(axis=1)[:, None],
            np.maximum(steep * self.span[0], steep * self.span[1]).sum(axis=1)[:, None],
        )
        own = model.W2[:, self.y]
        other = np.delete(model.W2, self.y, axis=1).max(axis=1, initial=-np.inf)
        low, high = now + down, now + up
        lowest, highest = low.min(axis=0), high.min(axis=0)
        # The threshold is some unit's output for another class: the highest there is.
        least, most = (lowest + other).max(), (highest + other).max()
        margin = max(slack, MARGIN * float((up - down).max()))
        size = max(most - least, margin)
        if most < max((lowest + own).max() + margin, least):
            return False
        threshold = programme.variable(0.0, (most - least) / size)

        def line(i: int, sign: float) -> dict[int, float]:
            return {j: sign * rates[i, j] / size for j in np.flatnonzero(rates[i]).tolist()}

        winners = []
        for h in np.flatnonzero(highest + other >= least).tolist():
            winners.append(programme.switch())
            for i in np.flatnonzero(low[:, h] + other[h] < most).tolist():
                room = (most - low[i, h] - other[h]) / size
                programme.at_most(
                    line(i, -1.0) | {threshold: 1.0, winners[-1]: room},
                    (now[i, h] + other[h] - least) / size + room,
                )
        programme.one_of(winners)
        for h in np.flatnonzero(highest + own + margin > least).tolist():
            below = []
            for i in np.flatnonzero(low[:, h] + own[h] + margin <= most).tolist():
                below.append(programme.switch())
                room = max(high[i, h] + own[h] + margin - least, 0.0) / size
                programme.at_most(
                    line(i, 1.0) | {threshold: -1.0, below[-1]: room},
                    (least - now[i, h] - own[h] - margin) / size + room,
                )
            if not below:
                return False
            programme.one_of(below)
        if programme.n_switches > MOST_SWITCHES:
            raise ValueError(
                f"the smallest change of several columns is a choice among {programme.n_switches} "
                f"switches here, more than {MOST_SWITCHES}: fix columns, or ask for single flips"
            )
        return True

    def read(self, values: NDArray) -> _Found:
        """What moves with these values of the variables."""
        taken = [(o.feature, o.value) for o in self.options if values[o.switch] > 0.5]
        for number in self.numbers:
            if values[number.switch] > 0.5:
                p, value = number.feature, number.start + float(values[number.position])
                if self.domain.whole[p]:
                    value = float(np.round(value))
                value = float(np.clip(value, self.domain.low[p], self.domain.high[p]))
                if value != self.x[p] or p in self.domain.indicators:
                    taken.append((p, value))
        taken.sort()
        rows = [self.domain.changed(self.x, p, value) for p, value in taken]
        distance = [float(self.domain.distances(self.x, row)[0]) for row in rows]
        feature, to = [p for p, _ in taken], [value for _, value in taken]
        return _Found(np.array(feature, int), np.array(to, float), sum(distance))


def _farthest(x: NDArray, domain: Domain) -> float:
    """The largest distance of a column; ValueError if there is none."""
    moves = domain.is_free | domain.is_long
    ends = np.maximum(domain.high - x, x - domain.low) / domain.unit
    feature, value = domain.candidates
    listed = domain.distances(x, domain.changed(x, feature, value))
    farthest = max(ends[moves].max(initial=0.0), listed.max(initial=0.0))
    if not np.isfinite(farthest):
        p = int(np.flatnonzero(moves & ~np.isfinite(ends))[0])
        raise ValueError(
            f"domain must have limits where no single column flips the row; "
            f"{domain.names[p]!r} has none (give low and high)"
        )
    return float(farthest)


def _after(x: NDArray, domain: Domain, feature: NDArray, value: NDArray) -> NDArray:
    """Row x after all changes."""
    for p, v in zip(feature.tolist(), value.tolist(), strict=True):
        x = domain.changed(x, p, v)[0]
    return x


def _nothing(x: NDArray) -> Change:
    text = "no change of so few columns flips it"
    return Change(np.empty(0, int), np.empty(0), -1, np.inf, np.inf, x, text)


def _change(
    model: LMM, x: NDArray, y: int, domain: Domain, found: _Found, class_names: Sequence[Any]
) -> Change:
    """What was found with its class, and its numbers with the fewest digits that still flip."""
    feature, value, distance = found
    row = _after(x, domain, feature, value)
    becomes = int(model.scores(row[None]).argmax())
    if becomes == y:  # the model's own rounding hides it
        return _nothing(x)
    free = np.flatnonzero(domain.is_free[feature])
    for digits in DIGITS:
        shown = value.copy()
        for j in free.tolist():
            step = int(np.floor(np.log10(domain.unit[feature[j]]))) - digits
            shown[j] = rounded_away(float(value[j]), float(x[feature[j]]), step)
        tried = _after(x, domain, feature, shown)
        inside = (shown >= domain.low[feature]) & (shown <= domain.high[feature])
        if inside[free].all() and model.scores(tried[None]).argmax() == becomes:
            row = tried
            break
    moves = [
        f"{domain.column_names[p]} goes from {domain.text(x, p)} to "
        f"{domain.text(row, p, exact=True)}"
        for p in feature.tolist()
    ]
    text = f"flips to {class_names[becomes]} if " + " and ".join(moves)
    return Change(feature, value, becomes, distance, distance, row, text)
