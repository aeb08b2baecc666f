"""Number formatting and conversion to JSON-compatible types."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

# Numbers outside this range are formatted in scientific notation.
MIN_DECIMAL, MAX_DECIMAL = 1e-4, 1e12


def format_number(value: float | None, digits: int = 4) -> str:
    """Format a number with ``digits`` significant digits; None and NaN as a dash.

    Examples
    --------
    >>> format_number(16180.4), format_number(0.012345), format_number(-175.62)
    ('16,180', '0.01235', '−175.6')
    """
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value != 0 and not MIN_DECIMAL <= abs(value) < MAX_DECIMAL:
        return f"{value:.{digits - 1}e}".replace("-", "−")
    return _with_decimals(value, digits - 1 - _magnitude(value, digits))


def format_with_error(value: float, error: float) -> str:
    """Format a number and its error, rounded to two significant digits of the error.

    Examples
    --------
    >>> format_with_error(16180.4, 970.1), format_with_error(0.51234, 0.0234)
    ('16,180 ± 970', '0.512 ± 0.023')
    """
    is_decimal = math.isfinite(value) and error >= MIN_DECIMAL
    if not is_decimal or max(abs(value), error) >= MAX_DECIMAL:
        return f"{format_number(value)} ± {format_number(error, 2)}"
    decimals = 1 - _magnitude(error, 2)
    return f"{_with_decimals(value, decimals)} ± {_with_decimals(error, decimals)}"


def _magnitude(value: float, digits: int) -> int:
    """Return the decimal exponent of a number rounded to ``digits`` significant digits."""
    return int(f"{value:.{digits - 1}e}".partition("e")[2])


def _with_decimals(value: float, decimals: int) -> str:
    rounded = round(value, decimals) + 0.0
    return f"{rounded:,.{max(decimals, 0)}f}".replace("-", "−")


def to_jsonable(value: Any) -> Any:
    """Convert dataclasses to dicts, arrays and tuples to lists, and NaN and infinity to None.

    Parameters
    ----------
    value : object

    Returns
    -------
    dict, list, str, number, bool or None

    Examples
    --------
    >>> import numpy as np
    >>> to_jsonable({"a": np.array([1.5, np.nan]), "b": (np.int64(2), "x")})
    {'a': [1.5, None], 'b': [2, 'x']}
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: to_jsonable(getattr(value, name)) for name in names}
    if isinstance(value, dict):
        return {str(name): to_jsonable(item) for name, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return to_jsonable(value.tolist())
    if isinstance(value, list | tuple):
        return [to_jsonable(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
