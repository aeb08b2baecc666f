"""A mixed-integer linear programme, put together variable by variable and row by row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

# Switches beyond which a search is refused.
MOST_SWITCHES = 5_000
# How SciPy's solver says that it ended.
OPTIMAL, INFEASIBLE = 0, 2


class Optimum(NamedTuple):
    """The best values found, None if there are none, and what no values can be below."""

    values: NDArray | None
    at_least: float


class Programme:
    """Minimise Σ cost·variable, where Σ coefficient·variable ≤ limit for each row."""

    def __init__(self) -> None:
        self.low: list[float] = []
        self.high: list[float] = []
        self.cost: list[float] = []
        self.is_whole: list[bool] = []
        self.rows: list[tuple[Mapping[int, float], float]] = []

    def variable(
        self, low: float, high: float, *, is_whole: bool = False, cost: float = 0.0
    ) -> int:
        """Add a variable; its number."""
        self.low.append(low)
        self.high.append(high)
        self.cost.append(cost)
        self.is_whole.append(is_whole)
        return len(self.low) - 1

    def switch(self, cost: float = 0.0) -> int:
        """A variable that is 0 or 1."""
        return self.variable(0.0, 1.0, is_whole=True, cost=cost)

    @property
    def n_switches(self) -> int:
        """How many variables are whole."""
        return sum(self.is_whole)

    def check_size(self) -> None:
        """Raise ValueError if there are too many switches to be solved."""
        if self.n_switches > MOST_SWITCHES:
            raise ValueError(
                f"the smallest change of several columns is a choice among {self.n_switches} "
                f"switches here, more than {MOST_SWITCHES}: fix columns, or take the change of one "
                "column (explain, single_flips)"
            )

    def at_most(self, line: Mapping[int, float], limit: float) -> None:
        """Add a row Σ line[j]·variable j ≤ limit."""
        self.rows.append((line, limit))

    def one_of(self, switches: Iterable[int]) -> None:
        """At least one of some switches is on."""
        self.at_most(dict.fromkeys(switches, -1.0), -1.0)

    def solve(self, seconds: float) -> Optimum:
        """By HiGHS, in two goes: all of it; then what is whole is rounded and held.

        A solver's switch may be a millionth off, and move what it multiplies by more than that.
        With the switches held, what is left is a linear programme, where they do not.
        """
        first = self._run(np.array(self.low), np.array(self.high), seconds)
        if first.x is None:
            bound = np.inf if first.status == INFEASIBLE else first.mip_dual_bound
            return Optimum(None, 0.0 if bound is None else float(bound))
        held = np.where(self.is_whole, np.round(first.x), np.nan)
        low, high = (np.where(np.isnan(held), end, held) for end in (self.low, self.high))
        second = self._run(low, high, seconds)
        at_least = float(first.mip_dual_bound)
        return Optimum(first.x if second.x is None else second.x, at_least)

    def _run(self, low: NDArray, high: NDArray, seconds: float):  # type: ignore[no-untyped-def]
        lines = [line for line, _ in self.rows]
        row = np.repeat(np.arange(len(lines)), [len(line) for line in lines])
        column = np.array([j for line in lines for j in line], int)
        value = np.array([c for line in lines for c in line.values()], float)
        matrix = coo_array((value, (row, column)), (len(lines), len(self.low))).tocsr()
        limits = LinearConstraint(matrix, -np.inf, np.array([limit for _, limit in self.rows]))
        return milp(
            np.array(self.cost), integrality=np.array(self.is_whole, int),
            bounds=Bounds(low, high), constraints=limits,
            options={"time_limit": seconds, "mip_rel_gap": 0.0},
        )  # fmt: skip
