"""Validation of hyper-parameters, warnings, and the number of threads.

The attribute ``_parameters`` of an estimator maps each name to the kinds of values that are valid.
`check_parameters` validates them; the error message contains the parameter, all valid values, and
the given value.

A parameter without an effect causes a warning, not an error: grid searches produce such
combinations, for which an error would turn into a NaN score, and identical scores without a warning
would be misleading.
"""

from __future__ import annotations

import inspect
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numba
import numpy as np
from threadpoolctl import threadpool_limits

from maxplus.distributed import current
from maxplus.models.feature_map import clip_ends

if TYPE_CHECKING:
    from maxplus.training.progress import ProgressBar


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn with the location of the user's call into this library."""
    level, frame = 1, sys._getframe()
    while frame.f_globals.get("__name__", "").startswith("maxplus.") and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


class NoEffectWarning(UserWarning):
    """Warning about a parameter that has no effect in combination with the others."""


class Effect(NamedTuple):
    """Parameters and the condition under which they have an effect, as a function and as text."""

    names: tuple[str, ...]
    counts: Callable[[Any], bool]
    condition: str


def warn_of_no_effect(estimator: Any, effects: Iterable[Effect]) -> None:
    """Issue a `NoEffectWarning` for each parameter that was set but has no effect."""
    for effect in effects:
        if effect.counts(estimator):
            continue
        for name in effect.names:
            if is_set(estimator, name):
                value = getattr(estimator, name)
                warn_no_effect(f"{name}={value!r}", f"unless {effect.condition}")


def warn_no_effect(what: str, why: str) -> None:
    """Issue a one-line `NoEffectWarning`."""
    warn_user(f"{what:.80} has no effect {why}", NoEffectWarning)


def is_set(estimator: Any, name: str) -> bool:
    """Return whether a parameter differs from its default."""
    default = inspect.signature(type(estimator)).parameters[name].default
    value = getattr(estimator, name)
    # Comparison of arrays is elementwise; no default is an array.
    return hasattr(value, "__array__") or not (value is default or value == default)


class ParameterError(ValueError, TypeError):
    """Error about a hyper-parameter with an invalid value."""


class Kind(NamedTuple):
    """A set of valid values, as text and as a predicate."""

    words: str
    admits: Callable[[Any], bool]


def whole(minimum: int) -> Kind:
    """Return the kind of integers >= ``minimum``; 0.0 counts as 0."""

    def admits(v: Any) -> bool:
        return (_is_whole(v) and v >= minimum) or (minimum == 0 and _is_zero(v))

    return Kind(f"an integer >= {minimum}", admits)


def real(
    *, above: float = -math.inf, minimum: float = -math.inf, maximum: float = math.inf
) -> Kind:
    """Return the kind of finite numbers > ``above``, >= ``minimum`` and <= ``maximum``."""
    bounds = [f"> {above:g}"] * (above > -math.inf)
    bounds += [f">= {minimum:g}"] * (minimum > -math.inf)
    bounds += [f"<= {maximum:g}"] * (maximum < math.inf)

    def admits(v: Any) -> bool:
        if not isinstance(v, Real) or isinstance(v, bool):
            return False
        try:
            number = float(v)
        except OverflowError:
            return False  # An integer beyond the range of floats.
        return math.isfinite(number) and number > above and minimum <= number <= maximum

    return Kind(" ".join(["a finite number", " and ".join(bounds)]).strip(), admits)


def samples(minimum: int) -> Kind:
    """Return the kind of numbers of samples, at least ``minimum``, or fractions of them."""

    def admits(v: Any) -> bool:
        if isinstance(v, bool) or not isinstance(v, Real):
            return False
        return 0 < v < 1 or whole(minimum).admits(v)  # type: ignore[operator]

    words = "(how many samples) or a fraction > 0 and < 1 (which part of them)"
    return Kind(f"an integer >= {minimum} {words}", admits)


def one_of(*words: str) -> Kind:
    """Return the kind of these strings."""
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
SIZES = Kind("an array with such a number for each feature", lambda v: _are_sizes(v))
SIZES_BY_COLUMN = Kind(
    "a dict of column names and finite numbers >= 0",
    lambda v: isinstance(v, Mapping) and all(real(minimum=0.0).admits(e) for e in v.values()),
)
LEVELS = Kind("(low, high) with low < high, or several such pairs in order", lambda v: _clips(v))
MONOTONIC = Kind(
    "an array of 1, 0 and -1, one for each column, or a dict of column names and these numbers",
    lambda v: _are_signs(v.values() if isinstance(v, Mapping) else v),
)
# Validated by scikit-learn where it is used.
ANYTHING = Kind("anything", lambda v: True)

Parameters = Mapping[str, tuple[Kind, ...]]
# Parameters of all estimators.
COMMON: Parameters = {"n_jobs": (THREADS,), "random_state": (ANYTHING,)}
# Parameters of iteratively trained estimators.
TRAINED: Parameters = {**COMMON, "verbose": (VERBOSE,), "callbacks": (CALLBACKS,)}


def check_parameters(estimator: Any, table: Parameters) -> None:
    """Raise `ParameterError` for the first parameter with an invalid value."""
    for name, kinds in table.items():
        check_value(name, getattr(estimator, name), *kinds)


def check_value(name: str, value: Any, *kinds: Kind) -> Any:
    """Return ``value``; raise `ParameterError` if none of the kinds admits it."""
    if any(kind.admits(value) for kind in kinds):
        return value
    words = [kind.words for kind in kinds]
    allowed = " or ".join([", ".join(words[:-1]), words[-1]] if words[:-1] else words)
    raise ParameterError(f"{name} must be {allowed}; got {value!r}")


def as_callbacks(callbacks: Any) -> list[Callable]:
    """Return the callbacks as a list."""
    if callbacks is None:
        return []
    return [callbacks] if callable(callbacks) else list(callbacks)


def needs_state(callback: Callable) -> bool:
    """Return whether a callback stores a training's state."""
    return bool(getattr(callback, "needs_state", False))


def refuse_checkpoints(callbacks: Any, whose: str) -> None:
    """Raise ValueError for a checkpoint callback if the training has no state to store."""
    for callback in as_callbacks(callbacks):
        if needs_state(callback):
            raise ValueError(
                f"callbacks has a {type(callback).__name__}, but {whose} has no state that could "
                "be kept; leave it out, or train an LMMClassifier"
            )


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_zero(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and value == 0


def _is_several(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str)


def _are_sizes(v: Any) -> bool:
    try:
        values = np.asarray(v, np.float64)
    except (TypeError, ValueError):
        return False
    return bool(values.ndim == 1 and np.isfinite(values).all() and (values >= 0).all())


def _clips(v: Any) -> bool:
    try:
        clip_ends(v, np.zeros((1, 1)))
    except ValueError:
        return False
    return not isinstance(v, str)


def _is_scorer(v: Any) -> bool:
    from sklearn.metrics import get_scorer_names

    return isinstance(v, str) and v in get_scorer_names()


@contextmanager
def threads(n_jobs: int | None) -> Iterator[None]:
    """Run kernels on ``n_jobs`` threads; −1 uses all threads of Numba, −2 all but one.

    None keeps Numba's setting, which is all threads unless the user changed it; ranks on the same
    machine divide its cores.

    Kernels give identical results with any number of threads; matrix products, which are used only
    in a warm-up, may differ by rounding.
    """
    available = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    if n_jobs is None:
        wanted = numba.get_num_threads()
        shared = current().cores
        if shared is not None:
            wanted, n_jobs = min(wanted, shared), shared
    else:
        jobs = int(check_value("n_jobs", n_jobs, THREADS))
        wanted = min(jobs, available) if jobs > 0 else available + 1 + jobs
    before = numba.get_num_threads()
    numba.set_num_threads(max(1, wanted))
    try:
        with nullcontext() if n_jobs is None else threadpool_limits(max(1, wanted), "blas"):
            yield
    finally:
        numba.set_num_threads(before)


def progress_bar(estimator: Any) -> ProgressBar:
    """Return a progress bar with the estimator's name; rich is imported lazily."""
    from maxplus.training.progress import ProgressBar

    return ProgressBar(type(estimator).__name__)


def _are_signs(values: Any) -> bool:
    try:
        return all(not isinstance(v, (bool, str)) and v in (-1, 0, 1) for v in values)
    except (TypeError, ValueError):
        return False
