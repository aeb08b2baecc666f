"""Text and numbers as the page shows them; ``assets/text.js`` has the same rules."""

from __future__ import annotations

UNKNOWN = "–"


def fixed(value: float | None) -> str:
    """Three decimals, so that a column lines up; powers of ten where they would say nothing."""
    if value is None:
        return UNKNOWN
    value += 0.0  # −0 is 0
    plain = value == 0 or 1e-3 <= abs(value) < 1e6
    return (f"{value:,.3f}" if plain else f"{value:.2e}").replace("-", "−")


def short(value: float | None) -> str:
    """As short as four digits allow: for prose and for inputs, which are often round."""
    if value is None:
        return UNKNOWN
    value += 0.0
    if value != 0 and not 1e-3 <= abs(value) < 1e6:
        return fixed(value)
    text = f"{value:.0f}" if abs(value) >= 1000 else repr(float(f"{value:.4g}"))
    return text.removesuffix(".0").replace("-", "−")


def probability(value: float | None) -> str:
    """Return three decimals, never 0 or 1 for a probability between them."""
    if value is not None and 0 < value < 1e-3:
        return "<0.001"
    if value is not None and 0.999 < value < 1:
        return ">0.999"
    return UNKNOWN if value is None else f"{value:.3f}"


def percent(share: float | None) -> str:
    """One decimal, with the same care: 100 % means all."""
    if share is not None and 0 < share < 1e-3:
        return "<0.1 %"
    if share is not None and 0.999 < share < 1:
        return ">99.9 %"
    return UNKNOWN if share is None else f"{100 * share:.1f} %"


def plural(count: int, noun: str) -> str:
    """A count and its noun, as in "1 row", "60,000 rows" and "3 classes"."""
    ending = "" if count == 1 else "es" if noun.endswith("s") else "s"
    return f"{count:,} {noun}{ending}"


def apart(a: float, b: float) -> tuple[str, str]:
    """Both numbers with as many decimals as it takes to tell them apart, at least three."""
    for digits in range(3, 10):
        texts = f"{a:.{digits}f}", f"{b:.{digits}f}"
        if texts[0] != texts[1]:
            break
    return texts
