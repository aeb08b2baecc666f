"""Words that can be read: well-known scales, ranges of numbers, numbers with a unit; dates."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise

# Low to high; words of one step mean the same, so that only one of them is in a column.
SCALES = [
    [step.split("/") for step in scale.split(", ")]
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


# No longer cell is a number, a range or a date: patterns that backtrack see short words only.
LONGEST_WORD = 100


def _cleaned(word: str) -> str:
    """Return a word in lower case with single spaces, or nothing if it is too long to be read."""
    word = " ".join(word.lower().split())
    return word if len(word) <= LONGEST_WORD else ""


def is_date(word: str) -> bool:
    """Whether a word is a day or a time, written in one of the usual ways."""
    return _DATE.fullmatch(_cleaned(word)) is not None


def in_order(words: Sequence[str]) -> tuple[str, ...] | None:
    """The words from low to high, if they are of one scale or ranges that do not overlap."""
    if len(words) < 2:
        return None
    return _by_scale(words) or _by_range(words)


def measured(words: Sequence[str]) -> tuple[list[float], str] | None:
    """The numbers of "70 kg", "81.5 kg", or of "1,250", and their unit, if all have the same."""
    found = [match for word in words if (match := _EXACTLY.fullmatch(_cleaned(word)))]
    units = {match[2].strip() for match in found}
    if len(found) < len(words) or len(units) != 1:
        return None
    return [_number(match[1]) for match in found], units.pop()


def number_in(word: str) -> float:
    """The number that a word is about: the middle of a range, the bound of an open one.

    Otherwise the only number in it, as in "grade 2" or "12 mg"; NaN if there is none.
    """
    word = _cleaned(word)
    found = _bounds(word)
    if found is None:
        digits = re.findall(_NUMBER, word)
        return _number(digits[0].lstrip("-")) if len(digits) == 1 else math.nan
    low, high = found
    if math.isinf(low) or math.isinf(high):
        return high if math.isinf(low) else low
    return (low + high) / 2.0


def _by_scale(words: Sequence[str]) -> tuple[str, ...] | None:
    # Single letters mean many things: s and m may be single and married.
    if len(words) < 3 and all(len(word) <= 2 for word in words):
        return None
    for scale in SCALES:
        place = {name: k for k, step in enumerate(scale) for name in step}
        places = [place.get(word.lower(), -1) for word in words]
        if min(places) >= 0 and len(set(places)) == len(places):
            return tuple(word for _, word in sorted(zip(places, words, strict=True)))
    return None


def _by_range(words: Sequence[str]) -> tuple[str, ...] | None:
    found = [(_bounds(_cleaned(word)), word) for word in words]
    ranges = sorted((bounds, word) for bounds, word in found if bounds is not None)
    if len(ranges) < len(words) or all(low == high for (low, high), _ in ranges):
        return None
    overlaps = any(
        before[1] > after[0] or before == after for (before, _), (after, _) in pairwise(ranges)
    )
    return None if overlaps else tuple(word for _, word in ranges)


def _bounds(word: str) -> tuple[float, float] | None:
    """What a range spans, if the word is one, or a number with a unit at most."""
    if match := _BELOW.fullmatch(word):
        return -math.inf, _number(match[1])
    if match := (_ABOVE.fullmatch(word) or _AND_MORE.fullmatch(word)):
        return _number(match[1]), math.inf
    if match := _BETWEEN.fullmatch(word):
        low, high = _number(match[1]), _number(match[2])
        return (low, high) if low < high else None
    if match := _EXACTLY.fullmatch(word):
        return _number(match[1]), _number(match[1])
    return None


def _number(digits: str) -> float:
    return float(re.sub(r"[,\s]", "", digits))
