"""Numbers for people: few digits, and still true."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

import numpy as np
from numpy.typing import NDArray

# Decimals beyond which a float's own digits are taken; whole numbers are written out up to here.
MOST_DECIMALS = 15
WRITTEN_OUT = 1e15


def number_text(value: float) -> str:
    """A number that reads back as itself: whole ones without a point."""
    value = float(value)
    if value == round(value, 0) and abs(value) < WRITTEN_OUT:
        return str(int(value))
    return repr(value)


def roundings(value: float, upwards: bool) -> list[float]:
    """The value rounded up, or down, to 10, 1, 0.1, … and last itself: from few digits to many."""
    exact = Decimal(repr(float(value)))
    towards = ROUND_CEILING if upwards else ROUND_FLOOR
    first = -max(exact.adjusted(), 0)
    last = max(MOST_DECIMALS, MOST_DECIMALS - exact.adjusted())
    rounded = [
        float(exact.quantize(Decimal(1).scaleb(-decimals), rounding=towards))
        for decimals in range(first, last)
        if exact.adjusted() + decimals < MOST_DECIMALS
    ]
    return list(dict.fromkeys([*rounded, float(value)]))


def rounded_away(value: float, origin: float, exponent: int) -> float:
    """The value to a multiple of 10^exponent, seen from the origin at it or beyond."""
    towards = ROUND_CEILING if value >= origin else ROUND_FLOOR
    exact = Decimal(repr(float(value)))
    if exact.adjusted() - exponent > MOST_DECIMALS:
        return float(value)
    return float(exact.quantize(Decimal(1).scaleb(exponent), rounding=towards))


def fewest_digits(
    value: float, origin: float, farther: float, holds: Callable[[NDArray], NDArray]
) -> float:
    """The number of fewest digits beyond a value, seen from the origin, for which a claim holds.

    At most ``farther`` beyond; the value itself where there is no other.
    """
    tried = np.array([v for v in roundings(value, value >= origin) if abs(v - value) <= farther])
    good = tried[holds(tried)]
    return float(good[0]) if good.size else float(value)
