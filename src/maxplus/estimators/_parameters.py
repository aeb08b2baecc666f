"""What hyper-parameters may be, as a table that each estimator states.

An estimator has ``_parameters``, a mapping from each name to the kinds of values that are
allowed. `check_parameters` compares; the message names the parameter, all that is
allowed, and what was given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from maxplus.distributed import current


class ParameterError(ValueError, TypeError):
    """A hyper-parameter that cannot be."""


class Kind(NamedTuple):
    """Some values that are allowed, in words and as a test."""

    words: str
    admits: Callable[[Any], bool]


def whole(minimum: int) -> Kind:
    """A whole number, at least ``minimum``; 0.0 is as good as 0."""

    def admits(v: Any) -> bool:
        return (_is_whole(v) and v >= minimum) or (minimum == 0 and _is_zero(v))

    return Kind(f"an integer >= {minimum}", admits)


def real(
    *, above: float = -math.inf, minimum: float = -math.inf, maximum: float = math.inf
) -> Kind:
    """A finite number, > ``above``, >= ``minimum`` and <= ``maximum``."""
    bounds = [f"> {above:g}"] * (above > -math.inf)
    bounds += [f">= {minimum:g}"] * (minimum > -math.inf)
    bounds += [f"<= {maximum:g}"] * (maximum < math.inf)

    def admits(v: Any) -> bool:
        if not isinstance(v, Real) or isinstance(v, bool):
            return False
        try:
            number = float(v)
        except OverflowError:
            return False  # A whole number beyond all floats.
        return math.isfinite(number) and number > above and minimum <= number <= maximum

    return Kind(" ".join(["a finite number", " and ".join(bounds)]).strip(), admits)


def samples(minimum: int) -> Kind:
    """How many samples, at least ``minimum``, or which part of them."""

    def admits(v: Any) -> bool:
        if isinstance(v, bool) or not isinstance(v, Real):
            return False
        return 0 < v < 1 or whole(minimum).admits(v)  # type: ignore[operator]

    words = "(how many samples) or a fraction > 0 and < 1 (which part of them)"
    return Kind(f"an integer >= {minimum} {words}", admits)


def one_of(*words: str) -> Kind:
    """One of a few words."""
    listed = ", ".join(map(repr, words))
    is_one = len(words) == 1
    return Kind(
        listed if is_one else f"one of {listed}", lambda v: isinstance(v, str) and v in words
    )


NOTHING = Kind("None", lambda v: v is None)
TRUTH = Kind("True or False", lambda v: isinstance(v, (bool, np.bool_)))
FALSE = Kind("False", lambda v: isinstance(v, (bool, np.bool_)) and not v)
CALLABLE = Kind("a callable", callable)
CALLBACKS = Kind(
    "None, a callable or a list of them",
    lambda v: v is None or callable(v) or (_is_several(v) and all(callable(c) for c in v)),
)
# True is 1, as in scikit-learn.
VERBOSE = Kind(
    "True, False or an integer >= 0",
    lambda v: isinstance(v, (bool, np.bool_)) or whole(0).admits(v),
)
THREADS = Kind(
    "None, a number of threads as an integer, or -1 for all; not 0",
    lambda v: v is None or (_is_whole(v) and v != 0),
)
SCORER = Kind("the name of a scorer of scikit-learn", lambda v: _is_scorer(v))
CLASS_WEIGHTS = Kind(
    "a dict of labels and finite numbers > 0",
    lambda v: isinstance(v, Mapping) and all(real(above=0.0).admits(w) for w in v.values()),
)
# scikit-learn checks it itself, where it is used.
ANYTHING = Kind("anything", lambda v: True)

Parameters = Mapping[str, tuple[Kind, ...]]
# What every estimator has.
COMMON: Parameters = {"n_jobs": (THREADS,), "random_state": (ANYTHING,)}
# What every estimator has that trains.
TRAINED: Parameters = {**COMMON, "verbose": (VERBOSE,), "callbacks": (CALLBACKS,)}


def check_parameters(estimator: Any, table: Parameters) -> None:
    """`ParameterError` for the first parameter that is not what the table allows."""
    for name, kinds in table.items():
        check_value(name, getattr(estimator, name), *kinds)


def check_value(name: str, value: Any, *kinds: Kind) -> Any:
    """``value``, if one of the kinds admits it."""
    if any(kind.admits(value) for kind in kinds):
        return value
    words = [kind.words for kind in kinds]
    allowed = " or ".join([", ".join(words[:-1]), words[-1]] if words[:-1] else words)
    raise ParameterError(f"{name} must be {allowed}; got {value!r}")


def as_callbacks(callbacks: Any) -> list[Callable]:
    """Those that were given, as a list."""
    if callbacks is None:
        return []
    return [callbacks] if callable(callbacks) else list(callbacks)


def needs_state(callback: Callable) -> bool:
    """Whether a callback keeps a training's state."""
    return bool(getattr(callback, "needs_state", False))


def refuse_checkpoints(callbacks: Any, whose: str) -> None:
    """ValueError for a callback that keeps a training's state, where a training has none."""
    for callback in as_callbacks(callbacks):
        if needs_state(callback):
            raise ValueError(
                f"callbacks has a {type(callback).__name__}, but {whose} has no state that could "
                "be kept; leave it out, or train an LMMClassifier"
            )


def refuse_ranks(what: str, remedy: str) -> None:
    """ValueError where several ranks cannot share a training."""
    size = current().size
    if size > 1:
        raise ValueError(f"{what} cannot be trained over {size} ranks; {remedy}")


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_zero(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and value == 0


def _is_several(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str)


def _is_scorer(v: Any) -> bool:
    from sklearn.metrics import get_scorer_names

    return isinstance(v, str) and v in get_scorer_names()
