"""Formatting of text and numbers, consistent with ``assets/text.js``."""

from __future__ import annotations

UNKNOWN = "–"


def fixed(value: float | None) -> str:
    """Format a number with three decimals, or in scientific notation if very small or large."""
    if value is None:
        return UNKNOWN
    value += 0.0  # Convert −0.0 to 0.0.
    is_decimal = value == 0 or 1e-3 <= abs(value) < 1e6
    return (f"{value:,.3f}" if is_decimal else f"{value:.2e}").replace("-", "−")


def probability(value: float | None) -> str:
    """Format a probability with three decimals; only exact 0 and 1 are shown as 0.000 and 1.000."""
    if value is not None and 0 < value < 1e-3:
        return "<0.001"
    if value is not None and 0.999 < value < 1:
        return ">0.999"
    return UNKNOWN if value is None else f"{value:.3f}"


def percent(share: float | None) -> str:
    """Format a fraction as a percentage; only exact 0 and 1 are shown as 0 % and 100 %."""
    if share is not None and 0 < share < 1e-3:
        return "<0.1 %"
    if share is not None and 0.999 < share < 1:
        return ">99.9 %"
    return UNKNOWN if share is None else f"{100 * share:.1f} %"


def plural(count: int, noun: str) -> str:
    """Format a count and its noun, as in "1 row", "60,000 rows" and "3 classes"."""
    ending = "" if count == 1 else "es" if noun.endswith("s") else "s"
    return f"{count:,} {noun}{ending}"


def distinguishable(a: float, b: float) -> tuple[str, str]:
    """Format two numbers with the fewest decimals, from three to nine, with which they differ."""
    for digits in range(3, 10):
        texts = f"{a:.{digits}f}", f"{b:.{digits}f}"
        if texts[0] != texts[1]:
            break
    return texts
