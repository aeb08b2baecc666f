"""Search for the smallest change of several columns as a mixed-integer linear programme."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.explain.domain import Domain
from maxplus.explain.programme import Programme
from maxplus.models import LMM, AdditiveLMM
from maxplus.models.additive import breakpoints

# By which part of what scores can move another class has to win: more than a solver rounds.
MARGIN = 1e-6


class Found(NamedTuple):
    """Features, the values that they take, and how far that is in all."""

    feature: NDArray
    value: NDArray
    distance: float


class _Side(NamedTuple):
    """A number that rises or falls: to ``begin`` with the switch, then segment by segment."""

    feature: int
    sign: float
    switch: int
    begin: float
    lengths: NDArray
    shares: list[int]


class _Option(NamedTuple):
    """A listed change with a switch of its own."""

    feature: int
    value: float
    switch: int


class AdditiveChangeSearch:
    """The programme for one row x of class y that another class d has to win.

    A number rises or falls from segment to segment, of its map and of the terms over it alone,
    and in a segment φ and the sum of these terms, z_d − z_y, are linear. Listed changes add
    constants. A term over several features has two variables, v ≤ z_d for one unit whose
    walls are all above, and q ≥ z_y, below which each unit has some wall.
    """

    def __init__(self, model: AdditiveLMM, x: NDArray, y: int, d: int, domain: Domain) -> None:
        self.model, self.x, self.y, self.d, self.domain = model, x, y, d, domain
        self.programme = Programme()
        self.sides: list[_Side] = []
        self.options: list[_Option] = []
        self.columns: list[int] = []
        # Switches of missing numbers that may keep the value that was filled in.
        self.filled: dict[int, int] = {}
        self.u = model.mapped(x[None])[0]
        # Moves of each mapped feature by variable, and its largest fall and rise.
        self.effects: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
        self.span = np.zeros((2, x.size))
        # Change of the margin z_d − z_y by variable, of terms over one feature.
        self.margin: dict[int, float] = defaultdict(float)
        self.shapes: dict[int, list[LMM]] = defaultdict(list)
        for features, lmm in model.terms:
            if features.size == 1:
                pair = LMM(lmm.W0, lmm.W1, lmm.W2[:, [y, d]])
                self.shapes[int(features[0])].append(pair)
        joint = [term.features for term in model.terms if term.features.size > 1]
        self.joint = set(np.concatenate([np.empty(0, int), *joint]).tolist())

    def build(self, n_columns: int, reach: float, slack: float) -> bool:
        """Add all variables and rows; return False if nothing within reach lets class d win."""
        self._add_numbers(reach)
        self._add_options(reach)
        self.programme.at_most(dict.fromkeys(self.columns, 1.0), float(n_columns))
        costs = {j: cost for j, cost in enumerate(self.programme.cost) if cost}
        self.programme.at_most(costs, reach)
        return bool(self.columns) and self._add_scores(slack)

    def _mapped(self, p: int, values: NDArray) -> NDArray:
        rows = np.repeat(self.x[None], values.size, axis=0)
        rows[:, p] = values
        return self.model.mapped(rows)[:, p]

    def _shape(self, p: int, u: NDArray) -> NDArray:
        """z_d − z_y of the terms over feature p alone."""
        found = np.zeros(u.size)
        for lmm in self.shapes.get(p, ()):
            found += np.diff(lmm.scores(u[:, None]), axis=1)[:, 0]
        return found

    def _move(self, p: int, variable: int, begin: NDArray, end: NDArray) -> None:
        """Let a variable between 0 and 1 move φ_p from one value to another."""
        change = float(self._shape(p, end)[0] - self._shape(p, begin)[0])
        if change:
            self.margin[variable] += change
        if p in self.joint and end[0] != begin[0]:
            self.effects[p][variable] += float(end[0] - begin[0])

    def _grid(self, p: int, low: float, high: float) -> NDArray:
        """Values strictly between two at which the slope of φ_p or of a term may change."""
        bends = np.concatenate([np.empty(0), *(breakpoints(lmm) for lmm in self.shapes[p])])
        feature_map = self.model.feature_map
        if feature_map is not None:
            bends = np.append(feature_map.inverse(p, bends), feature_map.knots(p)[0])
        return np.unique(bends[(bends > low) & (bends < high)])

    def _add_numbers(self, reach: float) -> None:
        programme, domain = self.programme, self.domain
        for p in np.flatnonzero(domain.is_free | domain.is_long).tolist():
            at, unit = float(self.x[p]), float(domain.unit[p])
            low = max(float(domain.low[p]), at - reach * unit)
            high = min(float(domain.high[p]), at + reach * unit)
            if domain.whole[p]:
                low, high = float(np.ceil(low)), float(np.floor(high))
            indicator = domain.indicators.get(p, -1)
            is_missing = indicator >= 0 and self.x[indicator] != 0.0
            if low > high or not (self.shapes[p] or p in self.joint or is_missing):
                continue
            sides = [
                self._add_side(p, sign, max(at, low) if sign > 0 else min(at, high), end)
                for sign, end in ((1.0, high), (-1.0, low))
                if sign * (end - at) > 0.0
            ]
            switches = dict.fromkeys(sides, 1.0)
            if is_missing:
                filled = programme.switch()
                programme.at_most(switches | {filled: -1.0}, 0.0)
                if not low <= at <= high or (domain.whole[p] and at != np.floor(at)):
                    programme.at_most(dict.fromkeys(sides, -1.0) | {filled: 1.0}, 0.0)
                self.filled[p] = filled
                self.columns.append(filled)
                off = self._mapped(indicator, np.zeros(1))
                self._move(indicator, filled, self.u[[indicator]], off)
                self._reach(indicator, off)
            elif sides:
                programme.at_most(switches, 1.0)
                self.columns += sides
            if domain.whole[p] and sides:
                self._add_whole(p)

    def _add_side(self, p: int, sign: float, begin: float, end: float) -> int:
        """Let a number rise (sign 1) or fall: to where it may begin, and up to an end."""
        programme, unit = self.programme, float(self.domain.unit[p])
        switch = programme.switch(cost=abs(begin - float(self.x[p])) / unit)
        inside = self._grid(p, min(begin, end), max(begin, end))
        points = np.concatenate([[begin], inside if sign > 0 else inside[::-1], [end]])
        u = self._mapped(p, points)
        self._move(p, switch, self.u[[p]], u[:1])
        lengths = np.abs(np.diff(points))
        shares: list[int] = []
        # Segment k begins once segment k − 1 is at its end: λ_k ≤ switch ≤ λ_{k−1}.
        before = switch
        for k, length in enumerate(lengths.tolist()):
            shares.append(programme.variable(0.0, 1.0, cost=length / unit))
            programme.at_most({shares[-1]: 1.0, before: -1.0}, 0.0)
            self._move(p, shares[-1], u[k : k + 1], u[k + 1 : k + 2])
            if k + 1 < lengths.size:
                before = programme.switch()
                programme.at_most({before: 1.0, shares[-1]: -1.0}, 0.0)
        self.sides.append(_Side(p, sign, switch, begin, lengths, shares))
        self._reach(p, u)
        return switch

    def _add_whole(self, p: int) -> None:
        """Let x'_p be a whole number if it moves: x'_p − x_p = n − (x_p − ⌊x_p⌋)·switch."""
        at = float(self.x[p])
        fraction = at - np.floor(at)
        line: dict[int, float] = defaultdict(float)
        for side in self.sides:
            if side.feature == p:
                line[side.switch] += side.begin - at + fraction
                for length, share in zip(side.lengths.tolist(), side.shares, strict=True):
                    line[share] += side.sign * length
        most = sum(map(abs, line.values()))
        number = self.programme.variable(-np.ceil(most), np.ceil(most), is_whole=True)
        scale = max(1.0, most)
        for sign in (1.0, -1.0):
            exact = {j: sign * c / scale for j, c in line.items()}
            self.programme.at_most(exact | {number: -sign / scale}, 0.0)

    def _add_options(self, reach: float) -> None:
        feature, value = self.domain.candidates
        rows = self.domain.changed(self.x, feature, value)
        distance = self.domain.distances(self.x, rows)
        U = self.model.mapped(rows)
        of_column: dict[str, list[int]] = {}
        for k in np.flatnonzero((distance <= reach) & (rows != self.x).any(axis=1)).tolist():
            switch = self.programme.switch(cost=float(distance[k]))
            self.options.append(_Option(int(feature[k]), float(value[k]), switch))
            of_column.setdefault(self.domain.column_names[feature[k]], []).append(switch)
            for p in np.flatnonzero(U[k] != self.u).tolist():
                self._move(p, switch, self.u[[p]], U[k, [p]])
                self._reach(p, U[k, [p]])
        for switches in of_column.values():
            self.programme.at_most(dict.fromkeys(switches, 1.0), 1.0)
            self.columns += switches

    def _reach(self, p: int, u: NDArray) -> None:
        moves = u - self.u[p]
        self.span[:, p] = min(moves.min(), self.span[0, p]), max(moves.max(), self.span[1, p])

    def _add_scores(self, slack: float) -> bool:
        """Let class d win: a row with the sum of all terms, and rows for those that are joint."""
        now = float(self.model.intercept[self.d] - self.model.intercept[self.y])
        now += sum(float(self._shape(p, self.u[[p]])[0]) for p in self.shapes)
        # Changes of one column exclude each other, but the sum of all bounds what is possible.
        size = sum(map(abs, self.margin.values()))
        line = {j: -change for j, change in self.margin.items()}
        most = now + sum(max(change, 0.0) for change in self.margin.values())
        for features, lmm in self.model.terms:
            if features.size > 1:
                term = _Walls(self, features, lmm)
                high, low = term.range(self.d)[1], term.range(self.y)[0]
                now += term.add_at_most(self.d, line) - term.add_at_least(self.y, line)
                most += high - low
                size += term.size
        margin = max(slack, MARGIN * size)
        if most < margin or size == 0.0:
            return False
        self.programme.at_most({j: c / size for j, c in line.items()}, (now - margin) / size)
        self.programme.check_size()
        return True

    def read(self, values: NDArray) -> Found:
        """Return the change that these values of the variables stand for."""
        taken = {o.feature: o.value for o in self.options if values[o.switch] > 0.5}
        taken |= {p: float(self.x[p]) for p, s in self.filled.items() if values[s] > 0.5}
        for side in self.sides:
            if values[side.switch] > 0.5:
                p = side.feature
                value = side.begin + side.sign * float(side.lengths @ values[side.shares])
                value = float(np.round(value)) if self.domain.whole[p] else value
                value = float(np.clip(value, self.domain.low[p], self.domain.high[p]))
                if value != self.x[p] or p in self.filled:
                    taken[p] = value
        feature = np.array(sorted(taken), int)
        rows = [self.domain.changed(self.x, p, taken[p]) for p in feature.tolist()]
        distance = sum(float(self.domain.distances(self.x, row)[0]) for row in rows)
        return Found(feature, np.array([taken[p] for p in feature.tolist()], float), distance)


class _Walls:
    """The units of a term over several features: r_i(h) now, at least and at most."""

    def __init__(self, search: AdditiveChangeSearch, features: NDArray, lmm: LMM) -> None:
        self.search, self.features, self.lmm = search, features, lmm
        column = np.repeat(features, 2)
        self.now = (lmm.W0 * search.u[column])[:, None] + lmm.W1
        moves = np.sort(lmm.W0 * search.span[:, column], axis=0)
        self.low, self.high = (self.now + move[:, None] for move in moves)
        self.lowest, self.highest = self.low.min(axis=0), self.high.min(axis=0)
        self.size = float((moves[1] - moves[0]).max())

    def range(self, d: int) -> tuple[float, float]:
        """The least and the largest score of class d."""
        heights = self.lmm.W2[:, d]
        return float((self.lowest + heights).max()), float((self.highest + heights).max())

    def _line(self, i: int, sign: float) -> dict[int, float]:
        rate = sign * float(self.lmm.W0[i])
        effects = self.search.effects.get(int(self.features[i // 2]), {})
        return {j: rate * move for j, move in effects.items()} if rate else {}

    def _deciding(self, h: int) -> list[int]:
        """The rows that can be the lowest of unit h; of those that stay, the lowest."""
        rows = np.flatnonzero(self.low[:, h] <= self.highest[h])
        moving = rows[self.low[rows, h] < self.high[rows, h]].tolist()
        staying = rows[self.low[rows, h] == self.high[rows, h]]
        return moving + staying[:1].tolist()

    def add_at_most(self, d: int, line: dict[int, float]) -> float:
        """Subtract v ≤ z_d from a line, where one unit has all its rows above; return the rest."""
        least, most = self.range(d)
        if most <= least:
            return most
        programme, heights = self.search.programme, self.lmm.W2[:, d]
        v = programme.variable(0.0, most - least)
        line[v] = -1.0
        units = np.flatnonzero(self.highest + heights >= least).tolist()
        winners = [programme.switch() for _ in units]
        for h, winner in zip(units, winners, strict=True):
            for i in self._deciding(h):
                room = most - float(self.low[i, h] + heights[h])
                if room > 0.0:
                    limit = float(self.now[i, h] + heights[h]) - least + room
                    row = self._line(i, -1.0) | {v: 1.0, winner: room}
                    programme.at_most({j: c / self.size for j, c in row.items()}, limit / self.size)
        programme.one_of(winners)
        return least

    def add_at_least(self, y: int, line: dict[int, float]) -> float:
        """Add q ≥ z_y to a line, where each unit has some row below; return the rest."""
        least, most = self.range(y)
        if most <= least:
            return most
        programme, heights = self.search.programme, self.lmm.W2[:, y]
        q = programme.variable(0.0, most - least)
        line[q] = 1.0
        for h in np.flatnonzero(self.highest + heights > least).tolist():
            below = []
            for i in self._deciding(h):
                below.append(programme.switch())
                room = max(float(self.high[i, h] + heights[h]) - least, 0.0)
                limit = least - float(self.now[i, h] + heights[h]) + room
                row = self._line(i, 1.0) | {q: -1.0, below[-1]: room}
                programme.at_most({j: c / self.size for j, c in row.items()}, limit / self.size)
            programme.one_of(below)
        return least
