"""How a model did on rows that it had not seen, as a model file holds it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from maxplus.io.container import FileError

Check = Callable[[Any], bool]


def check_validation(record: Any, classes: list[str] | None) -> dict[str, Any]:
    """The document that `maxplus.evaluation.Validation.to_json` gives; FileError if it is none.

    ``classes`` are the model's, in words; None for a regression.
    """
    _require(record, _fields(GENERAL), "")
    regression = classes is None
    _require(record["figures"], _fields(NUMBERS if regression else FIGURES), "figures")
    _require(record["guess"], _fields(NUMBERS_GUESSED if regression else GUESSED), "guess")
    if classes is None:
        return record
    figures, C = record["figures"], len(classes)
    _require(figures["classes"], lambda v: [one["label"] for one in v] == classes, "classes")
    _require(figures["confusion"], lambda v: [len(row) for row in v] == [C] * C, "confusion")
    for name, check in OPTIONAL.items():
        if name in record:
            _require(record[name], check, name)
    return record


def _require(value: Any, is_good: Check, what: str) -> None:
    if not is_good(value):
        where = f"'s {what}" if what else ""
        raise FileError(f"the validation{where} cannot be {value!r:.60}")


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_some(value: Any) -> bool:
    return _is_count(value) and value > 0


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _may_be(check: Check) -> Check:
    """Figures that rows do not tell are None."""
    return lambda value: value is None or check(value)


def _is_share(value: Any) -> bool:
    return _is_number(value) and 0.0 <= value <= 1.0


def _is_size(value: Any) -> bool:
    return _is_number(value) and value >= 0.0


def _is_word(value: Any) -> bool:
    return isinstance(value, str)


def _list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _fields(checks: dict[str, Check]) -> Check:
    """A dict that has at least these fields."""
    return lambda value: (
        isinstance(value, dict)
        and all(name in value and check(value[name]) for name, check in checks.items())
    )


_share, _size = _may_be(_is_share), _may_be(_is_size)

GENERAL: dict[str, Check] = {
    "how": _is_word, "rows_never_held_out": _is_count, "seconds": _is_size,
    "figures": lambda v: isinstance(v, dict), "guess": lambda v: isinstance(v, dict),
}  # fmt: skip
CLASS: dict[str, Check] = {
    "label": _is_word, "n_rows": _is_count, "n_predicted": _is_count,
    "precision": _share, "recall": _share, "f1": _share, "auc": _share,
}  # fmt: skip
FIGURES: dict[str, Check] = {
    "n_rows": _is_some, "accuracy": _is_share, "accuracy_error": _is_size,
    "balanced_accuracy": _share, "macro_f1": _share, "log_loss": _size, "auc": _share,
    "calibration_error": _share, "max_loss": _size, "worst": _may_be(_is_some),
    "classes": _list_of(_fields(CLASS)), "confusion": _list_of(_list_of(_is_count)),
}  # fmt: skip
GUESSED: dict[str, Check] = {
    "accuracy": _is_share, "balanced_accuracy": _share, "log_loss": _size, "label": _is_word,
}  # fmt: skip
NUMBERS: dict[str, Check] = {
    "n_rows": _is_some, "r2": _may_be(_is_number), "mae": _is_size, "mae_error": _is_size,
    "rmse": _is_size, "covered": _share, "width": _size,
}  # fmt: skip
NUMBERS_GUESSED: dict[str, Check] = {"mae": _is_size, "rmse": _is_size}
ROW: dict[str, Check] = {
    "row": _is_some, "label": _is_word, "predicted": _is_word, "probability": _is_share,
    "own_probability": _is_share,
}  # fmt: skip
OPTIONAL: dict[str, Check] = {
    "dispersion": lambda v: _is_number(v) and v >= 1.0,
    "accuracy_interval": lambda v: _list_of(_is_share)(v) and len(v) == 2,
    "certified": _fields({"eps": _is_size, "accuracy": _is_share}),
    "reliability": _fields({
        "count": _list_of(_is_count),
        "confidence": _list_of(_share),
        "accuracy": _list_of(_share),
    }),
    "least_sure": _list_of(_fields(ROW)),
    "most_surprising": _list_of(_fields(ROW)),
}  # fmt: skip
