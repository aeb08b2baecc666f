"""Figures as data that JSON can hold."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """Data classes as dicts, arrays and tuples as lists; NaN and infinity, which JSON lacks, None.

    Parameters
    ----------
    value : object

    Returns
    -------
    dict, list, str, number, bool or None

    Examples
    --------
    >>> import numpy as np
    >>> plain({"a": np.array([1.5, np.nan]), "b": (np.int64(2), "x")})
    {'a': [1.5, None], 'b': [2, 'x']}
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
