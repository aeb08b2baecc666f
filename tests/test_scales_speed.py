"""Recognisers of numbers, ranges, scales and dates take time linear in the length of a cell."""

import time

import pytest

from maxplus.tables import scales
from maxplus.tables.column_filters import is_id_name

CELLS = {
    "spaces": lambda n: " " * n,
    "number and spaces": lambda n: "1" + " " * n + "x",
    "digits": lambda n: "1" * n + "x",
    "groups of digits": lambda n: "1" + ",111" * (n // 4) + "x",
    "spaced groups": lambda n: "1" + " 111" * (n // 4) + "!",
    "letters": lambda n: "1" + "a" * n + "!",
    "range": lambda n: "1 " + " " * n + "-" + " " * n + "2!",
    "below": lambda n: "<" + " " * n + "!",
    "plus": lambda n: "1" + "plus" * (n // 4) + "!",
    "points": lambda n: "1." * (n // 2),
    "date": lambda n: "1 jan" + " " * n + "!",
    "time": lambda n: "2020-01-01" + "t, " * (n // 3) + "!",
    "separators": lambda n: "_-. " * (n // 4) + "!",
}
RECOGNISERS = {
    "ordered": lambda word: scales.ordered([word, word + "1"]),
    "number_in": scales.number_in,
    "measured": lambda word: scales.with_unit([word]),
    "is_date": scales.is_date,
    "is_called_id": is_id_name,
}


def seconds(recognise, word):
    """The least processor time of three attempts."""
    found = []
    for _ in range(3):
        began = time.process_time()
        recognise(word)
        found.append(time.process_time() - began)
    return min(found)


@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
@pytest.mark.parametrize("recognise", RECOGNISERS.values(), ids=RECOGNISERS)
def test_recognisers_are_not_quadratic(recognise, cell):
    short, long = (seconds(recognise, cell(n)) for n in (8_000, 16_000))
    assert long < 0.05
    # Times below some milliseconds are noise; a quadratic pattern takes seconds.
    assert long < max(3.0 * short, 5e-3)


@pytest.mark.parametrize("word", ["  12   mg ", "5  -  10", "less  than 5", "1 jan  2020"])
def test_cells_with_several_spaces_are_still_recognised(word):
    assert scales.is_date(word) or scales.number_in(word) > 0


def test_long_cells_hold_no_number():
    assert scales.number_in("12" + " " * 200 + "mg") == 12.0
    assert scales.number_in("x" * 200 + " 12") != scales.number_in("x" * 200 + " 12")
    assert scales.ordered(["1-" + "1" * 200, "3-4"]) is None
