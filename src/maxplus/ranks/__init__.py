"""Ranks: processes that train one model together, each with rows of its own."""

from maxplus.ranks.current import current, distributed, using
from maxplus.ranks.shared_rows import SharedRows
from maxplus.ranks.team import ALONE, DifferentRanksError, Team

__all__ = ["ALONE", "DifferentRanksError", "SharedRows", "Team", "current", "distributed", "using"]
