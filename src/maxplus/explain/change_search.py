"""Which columns to change, and to what: one row's search as a mixed-integer linear programme."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.explain.domain import Domain
from maxplus.explain.programme import Programme
from maxplus.models import LMM

# Switches beyond which a search is refused.
MOST_SWITCHES = 5_000
# By which part of what scores can move another class has to win: more than a solver rounds.
MARGIN = 1e-6


class Found(NamedTuple):
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


class ChangeSearch:
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

    def read(self, values: NDArray) -> Found:
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
        return Found(np.array(feature, int), np.array(to, float), sum(distance))
