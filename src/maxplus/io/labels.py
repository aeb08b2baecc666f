"""Class labels and hyper-parameters as JSON, and back, exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

# Kinds of NumPy types whose values JSON can hold: bools, integers, floats, strings.
_KINDS = "biufU"
# Memory of all labels together: of strings, each takes as much as the longest may.
MAX_BYTES = 64_000_000


def labels_to_json(labels: NDArray) -> dict[str, Any]:
    """Labels with their type; only plain values, nothing that would have to be unpickled."""
    if labels.nbytes > MAX_BYTES:
        raise ValueError(
            f"classes that take {labels.nbytes:,} bytes cannot be saved, only {MAX_BYTES:,}; "
            "use shorter labels"
        )
    if labels.dtype.kind in _KINDS:
        return {"type": labels.dtype.str, "values": labels.tolist()}
    if labels.dtype == object and all(type(label) is str for label in labels):
        return {"type": "object", "values": labels.tolist()}
    raise TypeError(
        f"classes of type {labels.dtype} cannot be saved; use strings, numbers or booleans"
    )


def labels_from_json(record: Any) -> NDArray:
    """The labels as they were; ValueError if they are not what `labels_to_json` writes."""
    if not (isinstance(record, dict) and isinstance(record.get("values"), list)):
        raise ValueError("labels are not a list with a type")
    values, name = record["values"], record.get("type")
    if name == "object":
        if not all(type(value) is str for value in values):
            raise ValueError("labels of type object are not all strings")
        labels = np.empty(len(values), object)
        labels[:] = values
        return labels
    if not isinstance(name, str) or len(name) > 12:
        raise ValueError(f"labels have no known type: {name!r:.40}")
    try:
        dtype = np.dtype(name)
        if dtype.kind not in _KINDS or dtype.itemsize * max(1, len(values)) > MAX_BYTES:
            raise ValueError(f"{len(values):,} labels have the type {name!r}")
        labels = np.array(values, dtype)
    except (TypeError, OverflowError) as error:
        raise ValueError(f"labels do not fit their type: {error}") from None
    if labels.ndim != 1 or labels.tolist() != values:
        raise ValueError("labels do not fit their type")
    return labels


def parameters_to_json(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return parameters as JSON values.

    Plain values stay, a dict becomes pairs; what no file can hold (a callback) becomes None.
    """
    return {name: _plain(value) for name, value in parameters.items()}


def parameters_from_json(record: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters as they were."""
    # JSON's own keys are strings, labels need not be.
    return {n: dict(value) if isinstance(value, list) else value for n, value in record.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return [[_plain(key), _plain(item)] for key, item in value.items()]
    if isinstance(value, np.generic):
        value = value.item()
    return value if isinstance(value, (bool, int, float, str)) else None
