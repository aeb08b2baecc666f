"""Schema inference: ids, dates, ordinals, categories, numbers, missing values."""

import time

import numpy as np
import pytest

from maxplus.tables import Categorical, Category, Ordinal, RawTable, schema
from maxplus.tables.columns import column_from_json, extract_number, parse_numbers_with_unit
from table_helpers import decided


def column_of(cells, name="a", **choices):
    """Return the inferred column (None if dropped) and the message about it."""
    n = len(cells)
    if not isinstance(cells, Categorical):
        cells = np.array(cells, float if isinstance(cells[0], float) else object)
    columns = {name: cells, "rest": np.arange(n) * 0.37 % 1, "y": np.arange(n) % 2}
    encoding, decisions = decided(RawTable("t", columns), "y", **choices)
    found = [column for column in encoding.columns_ if column.name == name]
    return found[0] if found else None, " ".join(decisions)


RNG = np.random.default_rng(0)
SHUFFLED = RNG.permutation(50).astype(float)
DROPPED = {
    "rows in order": (np.arange(50.0) + 7, "a"),
    "rows in any order": (SHUFFLED, "a"),
    "ids by name": (SHUFFLED**2, "patient_id"),
    "ids by camel case": (SHUFFLED**2, "patientId"),
    "constant": (np.full(50, 2.5), "a"),
    "dates": ([f"{k % 28 + 1}.{k % 12 + 1}.2020" for k in range(50)], "a"),
    "times": ([f"2020-01-{k % 28 + 1:02d}T10:{k:02d}:00Z" for k in range(50)], "a"),
    "American dates": ([f"Mar {k % 28 + 1}, 2020" for k in range(50)], "a"),
    "names": ([f"Person {k}" for k in range(50)], "a"),
    "nearly all different": ([f"Person {k % 45}" for k in range(50)], "a"),
    "texts": ([f"a text of many words, number {k % 20}" for k in range(50)], "a"),
}
KEPT = {
    "measurements": (RNG.normal(size=50), "a"),
    "measurements named id": (RNG.normal(size=50), "id"),
    "whole numbers, all different": (SHUFFLED**2, "income"),
    "sorted numbers": (np.cumsum(np.arange(50.0)), "time"),
    "numbers": (np.arange(50.0) % 7, "id"),
    "few rows": (np.arange(10.0), "a"),
    "categories": (["x", "y"] * 25, "a"),
    "many words": ([f"w{k % 12}" for k in range(50)], "a"),
    "constant with missing values": (["x"] * 40 + [""] * 10, "a"),
}


@pytest.mark.parametrize(("cells", "name"), DROPPED.values(), ids=DROPPED)
def test_schema_drops_ids_constants_and_text(cells, name):
    column, message = column_of(list(cells), name)
    assert column is None
    assert f"dropped {name!r}" in message
    kept, _ = column_of(list(cells), name, keep=[name])
    assert kept is not None


@pytest.mark.parametrize(("cells", "name"), KEPT.values(), ids=KEPT)
def test_schema_keeps_informative_columns(cells, name):
    column, message = column_of(list(cells), name)
    assert column is not None
    assert "dropped" not in message


ORDERED = [
    ["low", "medium", "high"],
    ["small", "large"],
    ["XS", "S", "M", "L", "XL"],
    ["Mild", "Moderate", "Severe"],
    ["never", "rarely", "sometimes", "often", "always"],
    ["strongly disagree", "disagree", "neutral", "agree", "strongly agree"],
    ["I", "II", "III", "IV"],
    ["<5", "5-10", "11-20", ">20"],
    ["under 18", "18 to 64", "65 and over"],
    ["0", "1", "2", "3+"],
    ["0-2", "3-5", "6-8", "12-14"],
    ["<= 1,000", "1,001-5,000", "> 5,000"],
    ["-10--5", "-5-0", "0-5"],
]
NOT_ORDERED = [
    ["m", "s"],
    ["low", "blue"],
    ["medium", "moderate"],
    ["1-5", "3-8"],
    ["a-b", "c-d"],
    ["yes", "no"],
    ["10 mg", "20 mg"],
    ["5-1", "9-6"],
]


@pytest.mark.parametrize("words", ORDERED, ids=" ".join)
def test_schema_infers_ordinals(words):
    cells = [words[k * 7 % len(words)] for k in range(70)] + words
    random_order = [cells[k] for k in np.random.default_rng(0).permutation(len(cells))]
    column, message = column_of(random_order)
    assert isinstance(column, Ordinal)
    assert column.categories == tuple(words)
    assert "`categorical=['a']`" in message
    assert isinstance(column_of(random_order, categorical=["a"])[0], Category)


@pytest.mark.parametrize("words", NOT_ORDERED, ids=" ".join)
def test_schema_keeps_unordered_categories(words):
    assert schema.sort_levels(words) is None
    assert isinstance(column_of([words[k % 2] for k in range(40)])[0], Category)


@pytest.mark.parametrize(
    ("n_missing", "n", "number", "word"),
    [(4, 60, False, False), (5, 60, True, True), (5, 400, False, True), (20, 400, True, True)],
)
def test_schema_adds_missing_indicator(n_missing, n, number, word):
    cells = np.where(np.arange(n) < n_missing, np.nan, np.arange(n) % 3)
    column, message = column_of(cells.tolist())
    assert (column.indicator, column.had_missing) == (number, True)
    assert f"{n_missing} of {n} values are missing" in message
    words = np.where(np.isnan(cells), "", np.where(cells > 1, "x", "z")).tolist()
    column, message = column_of(words)
    assert (column.indicator, column.had_missing) == (word, True)
    assert ("missing: encoded as" in message) == word


def test_category_named_other_joins_rare_categories():
    cells = ["other"] * 40 + ["x"] * 30 + [f"w{k}" for k in range(40)]
    column, _ = column_of(cells)
    assert column.features == ["a = x", "a = other"]
    assert column_from_json(column.to_json()) == column


def test_schema_keeps_order_of_pandas_categories():
    codes = np.arange(60) % 3
    column, _ = column_of(Categorical(codes.astype(np.int32), ("gold", "silver", "bronze"), True))
    assert column.categories == ("gold", "silver", "bronze")


NUMBERS = {
    "12 mg": 12.0,
    "grade 2": 2.0,
    "T3": 3.0,
    "5-10": 7.5,
    "<5": 5.0,
    "1,250": 1250.0,
    "$1,250.50": 1250.5,
    "€5 - €10": 7.5,
    "60+": 60.0,
    "-3.5": -3.5,
    "  12   mg ": 12.0,
    "5  -  10": 7.5,
    "less  than 5": 5.0,
    "12" + " " * 200 + "mg": 12.0,
    "none": np.nan,
    "2 of 3": np.nan,
    "x" * 200 + " 12": np.nan,
}


@pytest.mark.parametrize(("text", "number"), NUMBERS.items())
def test_number_in_text_is_parsed(text, number):
    np.testing.assert_equal(extract_number(text), number)


# -- patterns in text -----------------------------------------------------------------------------


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
PARSERS = {
    "sort_levels": lambda word: schema.sort_levels([word, word + "1"]),
    "extract_number": extract_number,
    "parse_numbers_with_unit": lambda word: parse_numbers_with_unit([word]),
    "is_date": schema.is_date,
    "is_id_name": schema.is_id_name,
}


@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
@pytest.mark.parametrize("parse", PARSERS.values(), ids=PARSERS)
def test_parsing_of_long_text_is_not_quadratic(parse, cell):
    def seconds():
        began = time.process_time()
        parse(cell(16_000))
        return time.process_time() - began

    # A pattern of quadratic cost takes seconds.
    assert min(seconds() for _ in range(3)) < 0.02


def test_dates_and_ranges_are_recognised():
    assert schema.is_date("1 jan  2020")
    assert not schema.is_date("1 jan")
    assert schema.sort_levels(["1-" + "1" * 200, "3-4"]) is None
