"""Validation of hyper-parameters, warnings, and thread limits.

As in scikit-learn, estimators have a table of the valid values of each parameter, here
``_parameters``: strings, None and `Constraint` objects. A parameter without an effect causes a
warning instead of an error, because grid searches often include such combinations.
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
    """Issue a warning that points to the caller of this library."""
    level, frame = 1, sys._getframe()
    while frame.f_globals.get("__name__", "").startswith("maxplus.") and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


class NoEffectWarning(UserWarning):
    """Warning about a parameter without an effect for the values of the other parameters."""


class Effect(NamedTuple):
    """Names of parameters, and the condition under which they have an effect."""

    names: tuple[str, ...]
    is_met: Callable[[Any], bool]
    condition: str


def warn_of_unused_parameters(estimator: Any, effects: Iterable[Effect]) -> None:
    """Issue a `NoEffectWarning` for each parameter that was set but has no effect."""
    for effect in effects:
        if effect.is_met(estimator):
            continue
        for name in effect.names:
            if is_set(estimator, name):
                value = getattr(estimator, name)
                warn_no_effect(f"{name}={value!r}", f"unless {effect.condition}")


def warn_no_effect(setting: str, reason: str) -> None:
    """Issue a one-line `NoEffectWarning`."""
    warn_user(f"{setting:.80} has no effect {reason}", NoEffectWarning)


def is_set(estimator: Any, name: str) -> bool:
    """Return whether a parameter differs from its default."""
    default = inspect.signature(type(estimator)).parameters[name].default
    value = getattr(estimator, name)
    # No default is an array, and arrays are compared elementwise.
    return hasattr(value, "__array__") or not (value is default or value == default)


class ParameterError(ValueError, TypeError):
    """Error raised for a hyper-parameter with an invalid value."""


class Constraint(NamedTuple):
    """Set of valid values of a parameter: its description and its predicate."""

    text: str
    is_valid: Callable[[Any], bool]


def _is_number(value: Any, numbers: type = Real) -> bool:
    return isinstance(value, numbers) and not isinstance(value, (bool, np.bool_))


def integer(minimum: int) -> Constraint:
    """Return a constraint for integers >= ``minimum``; 0.0 is accepted as 0."""

    def is_valid(v: Any) -> bool:
        is_zero = minimum == 0 and _is_number(v) and v == 0
        return is_zero or (_is_number(v, Integral) and v >= minimum)

    return Constraint(f"an integer >= {minimum}", is_valid)


def real(
    *, above: float = -math.inf, minimum: float = -math.inf, maximum: float = math.inf
) -> Constraint:
    """Return a constraint for finite numbers > ``above``, >= ``minimum`` and <= ``maximum``."""
    bounds = [f"> {above:g}"] * (above > -math.inf)
    bounds += [f">= {minimum:g}"] * (minimum > -math.inf)
    bounds += [f"<= {maximum:g}"] * (maximum < math.inf)

    def is_valid(v: Any) -> bool:
        if not _is_number(v):
            return False
        try:
            number = float(v)
        except OverflowError:
            return False  # Integer outside the range of floats.
        return math.isfinite(number) and number > above and minimum <= number <= maximum

    return Constraint(f"a finite number {' and '.join(bounds)}", is_valid)


def samples(minimum: int) -> Constraint:
    """Return a constraint for a number of samples >= ``minimum`` or a fraction in (0, 1)."""
    return Constraint(
        f"an integer >= {minimum} (number of samples) or a fraction > 0 and < 1",
        lambda v: _is_number(v) and (0 < v < 1 or integer(minimum).is_valid(v)),
    )


def _is_scorer(v: Any) -> bool:
    from sklearn.metrics import get_scorer_names

    return isinstance(v, str) and v in get_scorer_names()


def _are_sizes(v: Any) -> bool:
    try:
        values = np.asarray(v, np.float64)
    except (TypeError, ValueError):
        return False
    return bool(values.ndim == 1 and np.isfinite(values).all() and (values >= 0).all())


def _are_clips(v: Any) -> bool:
    try:
        clip_ends(v, np.zeros((1, 1)))
    except ValueError:
        return False
    return not isinstance(v, str)


def _are_signs(v: Any) -> bool:
    values = v.values() if isinstance(v, Mapping) else v
    try:
        return all(not isinstance(sign, (bool, str)) and sign in (-1, 0, 1) for sign in values)
    except (TypeError, ValueError):
        return False


BOOLEAN = Constraint("True or False", lambda v: isinstance(v, (bool, np.bool_)))
FALSE = Constraint("False", lambda v: BOOLEAN.is_valid(v) and not v)
CALLABLE = Constraint("a callable", callable)
CALLBACKS = Constraint(
    "a callable or a list of them",
    # Other iterables could be exhausted by their validation.
    lambda v: callable(v) or (isinstance(v, (list, tuple)) and all(map(callable, v))),
)
# As in scikit-learn, True is 1.
VERBOSE = Constraint(
    "True, False or an integer >= 0", lambda v: BOOLEAN.is_valid(v) or integer(0).is_valid(v)
)
THREADS = Constraint(
    "a nonzero integer (number of threads, -1 for all)",
    lambda v: _is_number(v, Integral) and v != 0,
)
SCORER = Constraint("the name of a scorer of scikit-learn", _is_scorer)
CLASS_WEIGHTS = Constraint(
    "a dict that maps labels to finite numbers > 0",
    lambda v: isinstance(v, Mapping) and all(map(real(above=0.0).is_valid, v.values())),
)
SIZES = Constraint("an array with such a number for each feature", _are_sizes)
SIZES_BY_COLUMN = Constraint(
    "a dict that maps column names to finite numbers >= 0, or to 'any' for categories",
    lambda v: (
        isinstance(v, Mapping)
        and all(size == "any" or real(minimum=0.0).is_valid(size) for size in v.values())
    ),
)
CLIPS = Constraint("(low, high) with low < high, or several such pairs in order", _are_clips)
MONOTONIC = Constraint(
    "an array of 1, 0 and -1, one for each column, or a dict that maps column names to them",
    _are_signs,
)

Parameters = Mapping[str, tuple[Constraint | str | None, ...]]
# Parameters of all estimators, and of iteratively trained ones.
COMMON: Parameters = {"n_jobs": (None, THREADS)}
TRAINED: Parameters = {**COMMON, "verbose": (VERBOSE,), "callbacks": (None, CALLBACKS)}


def check_value(name: str, value: Any, *valid: Constraint | str | None) -> Any:
    """Return ``value``; raise `ParameterError` if it is not valid."""
    constraints = [v for v in valid if isinstance(v, Constraint)]
    names = [v for v in valid if isinstance(v, str)]
    is_name = isinstance(value, str) and value in names
    is_none = value is None and None in valid
    if is_name or is_none or any(constraint.is_valid(value) for constraint in constraints):
        return value
    # Names are listed together, at the position of the first one.
    listed = ("one of " if len(names) > 1 else "") + ", ".join(map(repr, names))
    texts = [
        v.text if isinstance(v, Constraint) else "None" if v is None else listed for v in valid
    ]
    *texts, last = dict.fromkeys(texts)
    allowed = f"{', '.join(texts)} or {last}" if texts else last
    raise ParameterError(f"{name} must be {allowed}; got {value!r}")


def as_callbacks(callbacks: Any) -> list[Callable]:
    """Return the callbacks as a list."""
    if callbacks is None:
        return []
    return [callbacks] if callable(callbacks) else list(callbacks)


def needs_state(callback: Callable) -> bool:
    """Return whether a callback stores checkpoints."""
    return bool(getattr(callback, "needs_state", False))


def reject_checkpoints(
    callbacks: Any, estimator: str, remedy: str = "train an LMMClassifier with n_hidden"
) -> None:
    """Raise ValueError for checkpoint callbacks of an estimator that cannot resume training."""
    for callback in filter(needs_state, as_callbacks(callbacks)):
        raise ValueError(
            f"callbacks contains a {type(callback).__name__}, but {estimator} has no state to "
            f"save; remove it, or {remedy}"
        )


@contextmanager
def threads(n_jobs: int | None) -> Iterator[None]:
    """Limit Numba and BLAS to ``n_jobs`` threads; −1 uses all threads, −2 all but one.

    None keeps the current setting of Numba. MPI ranks on the same machine divide the cores equally.
    """
    available = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    if n_jobs is None:
        n_threads = numba.get_num_threads()
        cores_per_rank = current().cores
        if cores_per_rank is not None:
            n_threads, n_jobs = min(n_threads, cores_per_rank), cores_per_rank
    else:
        jobs = int(check_value("n_jobs", n_jobs, None, THREADS))
        n_threads = min(jobs, available) if jobs > 0 else available + 1 + jobs
    before = numba.get_num_threads()
    numba.set_num_threads(max(1, n_threads))
    try:
        with nullcontext() if n_jobs is None else threadpool_limits(max(1, n_threads), "blas"):
            yield
    finally:
        numba.set_num_threads(before)


def progress_bar(estimator: Any) -> ProgressBar:
    """Return a progress bar with the name of the estimator."""
    # Imported lazily, because it imports rich.
    from maxplus.training.progress import ProgressBar

    return ProgressBar(type(estimator).__name__)
