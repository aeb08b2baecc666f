"""Options that count only beside others: where they do not, they are a warning and no error.

A search over a grid meets such combinations, and a fold that is refused there is a NaN among its
scores; one that is told nothing takes equal scores for a finding.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from maxplus.estimators._warning import warn_user


class NoEffectWarning(UserWarning):
    """A parameter was set that changes nothing beside the others."""


class Effect(NamedTuple):
    """Parameters, when they have an effect, and that in words: "step is 'polyak'"."""

    names: tuple[str, ...]
    counts: Callable[[Any], bool]
    condition: str


def warn_of_no_effect(estimator: Any, effects: Iterable[Effect]) -> None:
    """A `NoEffectWarning` for each parameter that was set, and changes nothing as others are."""
    for effect in effects:
        if effect.counts(estimator):
            continue
        for name in effect.names:
            if is_set(estimator, name):
                value = getattr(estimator, name)
                say_no_effect(f"{name}={value!r}", f"unless {effect.condition}")


def say_no_effect(what: str, why: str) -> None:
    """The warning itself; one line, whatever the value is."""
    warn_user(f"{what:.80} has no effect {why}", NoEffectWarning)


def is_set(estimator: Any, name: str) -> bool:
    """Whether a parameter is not what it is by default."""
    default = inspect.signature(type(estimator)).parameters[name].default
    value = getattr(estimator, name)
    # Arrays do not compare as one; none is a default.
    return hasattr(value, "__array__") or not (value is default or value == default)
