"""Recognition of ordinal scales, ranges, numbers with units, and dates in text."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise

# Ordinal scales in ascending order. Slashes separate synonyms.
SCALES = [
    [level.split("/") for level in scale.split(", ")]
    for scale in (
        "very low, low, medium/moderate/middle/mid/normal/average, high, very high",
        "tiny, xs/extra small, s/small, m/medium/mid, l/large/big, xl/extra large, xxl/huge",
        "absent/no, mild/slight/minor, moderate, severe/serious/major, critical/very severe",
        "very poor/very bad/terrible, poor/bad, fair/acceptable/satisfactory/average, good, "
        "very good, excellent/outstanding",
        "strongly disagree, disagree, neutral/undecided, agree, strongly agree",
        "never, rarely/seldom, sometimes/occasionally, often/frequently, always",
        "first/1st, second/2nd, third/3rd, fourth/4th, fifth/5th",
        "primary/elementary, secondary, tertiary",
        "i, ii, iii, iv, v",
        "stage i, stage ii, stage iii, stage iv",
        "young, middle-aged/middle aged, old",
    )
]

_NUMBER = r"[-+]?\d+(?:[,\s]\d{3})*(?:\.\d+)?"
_UNIT = r"\s*(?:%|€|\$|[a-zµ]+(?:/[a-z]+)?)?"
_BELOW = re.compile(rf"(?:<=?|≤|under|below|less than|up to)\s*({_NUMBER}){_UNIT}")
_ABOVE = re.compile(rf"(?:>=?|≥|over|above|more than|from)\s*({_NUMBER}){_UNIT}")
_AND_MORE = re.compile(rf"({_NUMBER}){_UNIT}\s*(?:\+|plus|and over|and above|and more|or more)")
_BETWEEN = re.compile(rf"({_NUMBER}){_UNIT}\s*(?:-|–|\.\.|to)\s*({_NUMBER}){_UNIT}")
_EXACTLY = re.compile(rf"({_NUMBER})({_UNIT})")

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_TIME = r"(?:[t ,]+\d{1,2}:\d{2}.*)?"
_DATE = re.compile(
    rf"(?:\d{{4}}([-/.])\d{{1,2}}\1\d{{1,2}}|\d{{1,2}}([-/.])\d{{1,2}}\2(?:\d{{4}}|\d{{2}})"
    rf"|\d{{1,2}}\.?[ -]{_MONTH}[ ,-]*\d{{2,4}}|{_MONTH} \d{{1,2}},? \d{{4}}){_TIME}"
    r"|\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?"
)


# Longer strings are not matched, to bound the run time of regular expressions.
MAX_LENGTH = 100


def _normalized(text: str) -> str:
    """Convert text to lower case with single spaces, or to "" if it is too long."""
    text = " ".join(text.lower().split())
    return text if len(text) <= MAX_LENGTH else ""


def is_date(text: str) -> bool:
    """Return whether text is a date or a time in a common format."""
    return _DATE.fullmatch(_normalized(text)) is not None


def ordered(texts: Sequence[str]) -> tuple[str, ...] | None:
    """Sort the levels of a scale or disjoint ranges; return None for other strings."""
    if len(texts) < 2:
        return None
    return _by_scale(texts) or _by_range(texts)


def with_unit(texts: Sequence[str]) -> tuple[list[float], str] | None:
    """Parse numbers such as "70 kg" or "1,250".

    Returns the numbers and their unit, or None if they have no common unit.
    """
    matches = [match for text in texts if (match := _EXACTLY.fullmatch(_normalized(text)))]
    units = {match[2].strip() for match in matches}
    if len(matches) < len(texts) or len(units) != 1:
        return None
    return [_number(match[1]) for match in matches], units.pop()


def number_in(text: str) -> float:
    """Return the number in a string such as "grade 2", the midpoint of a range, or NaN.

    An open range such as ">5" is converted to its bound. The result is NaN if the string does not
    contain exactly one number.
    """
    text = _normalized(text)
    bounds = _bounds(text)
    if bounds is None:
        digits = re.findall(_NUMBER, text)
        return _number(digits[0].lstrip("-")) if len(digits) == 1 else math.nan
    low, high = bounds
    if math.isinf(low) or math.isinf(high):
        return high if math.isinf(low) else low
    return (low + high) / 2.0


def _by_scale(texts: Sequence[str]) -> tuple[str, ...] | None:
    # Two single letters are ambiguous: s and m may mean single and married.
    if len(texts) < 3 and all(len(text) <= 2 for text in texts):
        return None
    for scale in SCALES:
        position = {name: k for k, level in enumerate(scale) for name in level}
        positions = [position.get(text.lower(), -1) for text in texts]
        if min(positions) >= 0 and len(set(positions)) == len(positions):
            return tuple(text for _, text in sorted(zip(positions, texts, strict=True)))
    return None


def _by_range(texts: Sequence[str]) -> tuple[str, ...] | None:
    parsed = [(_bounds(_normalized(text)), text) for text in texts]
    ranges = sorted((bounds, text) for bounds, text in parsed if bounds is not None)
    if len(ranges) < len(texts) or all(low == high for (low, high), _ in ranges):
        return None
    overlaps = any(
        before[1] > after[0] or before == after for (before, _), (after, _) in pairwise(ranges)
    )
    return None if overlaps else tuple(text for _, text in ranges)


def _bounds(text: str) -> tuple[float, float] | None:
    """Return the bounds of a range or number, or None for other text."""
    if match := _BELOW.fullmatch(text):
        return -math.inf, _number(match[1])
    if match := (_ABOVE.fullmatch(text) or _AND_MORE.fullmatch(text)):
        return _number(match[1]), math.inf
    if match := _BETWEEN.fullmatch(text):
        low, high = _number(match[1]), _number(match[2])
        return (low, high) if low < high else None
    if match := _EXACTLY.fullmatch(text):
        return _number(match[1]), _number(match[1])
    return None


def _number(digits: str) -> float:
    return float(re.sub(r"[,\s]", "", digits))
