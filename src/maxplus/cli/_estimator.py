"""Construction of estimators from the options of ``maxplus train``."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

ALGORITHMS = SMOOTH, SUBGRADIENT = ("smooth", "subgradient")
# Parameters with a dedicated option.
OPTIONS = {"random_state": "--seed", "monotonic_cst": "--increasing or --decreasing"}
# The parameter that selects an ensemble.
N_ESTIMATORS = "n_estimators"
# Spellings of literals in shells and in JSON.
LITERALS = {"none": None, "null": None, "true": True, "false": False}


def build_estimator(
    algorithm: str = SMOOTH,
    *,
    increasing: Sequence[str] = (),
    decreasing: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    regression: bool = False,
) -> Any:
    """Return the unfitted estimator; raise ValueError for options that exclude each other.

    Parameters
    ----------
    algorithm, increasing, decreasing, seed : options of the command
    settings : values of --set by name
    regression : whether the target is a number
    """
    settings = dict(settings or {})
    name = _class_name(algorithm, N_ESTIMATORS in settings, regression)
    from maxplus import estimators as available

    estimator = getattr(available, name)(random_state=seed)
    if name == "LMMEnsembleClassifier":
        estimator.set_params(estimator=available.LMMClassifier())
    if increasing or decreasing:
        if algorithm == SUBGRADIENT:
            raise ValueError(
                f"--increasing and --decreasing are not for --algorithm {SUBGRADIENT}; leave them "
                "out, or leave the algorithm out"
            )
        if both := set(increasing) & set(decreasing):
            raise ValueError(
                f"--increasing and --decreasing both name {min(both)!r}; leave one of them out"
            )
        signs = dict.fromkeys(increasing, 1) | dict.fromkeys(decreasing, -1)
        set_parameter(estimator, "monotonic_cst", signs)
    for key, value in settings.items():
        if key in OPTIONS:
            raise ValueError(f"--set {key}={value}: use {OPTIONS[key]} for {key}")
        set_parameter(estimator, key, value)
    # Fail before a large table is read.
    estimator._check_parameters()
    return estimator


def parse_settings(texts: Sequence[str] | None) -> dict[str, Any]:
    """Parse NAME=VALUE pairs, whose values are Python literals, none, true, false, or text."""
    settings: dict[str, Any] = {}
    for text in texts or ():
        name, equals, value = map(str.strip, text.partition("="))
        if not (equals and name):
            raise ValueError(f"--set {text}: write NAME=VALUE, such as --set slope=2")
        if value.lower() in LITERALS:
            settings[name] = LITERALS[value.lower()]
            continue
        try:
            settings[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            settings[name] = value
    return settings


def set_parameter(estimator: Any, name: str, value: Any) -> None:
    """Set a parameter of an estimator, or of its base estimator."""
    params = estimator.get_params(deep=True)
    known = name if name in params else f"estimator__{name}"
    if known not in params:
        names = sorted(name for name in params if name not in ("callbacks", *OPTIONS))
        similar = get_close_matches(name, names, n=1)
        hint = f"; is it {similar[0]}?" if similar else f"; it has {', '.join(names)}"
        raise ValueError(
            f"--set {name}={value}: {type(estimator).__name__} has no parameter {name!r}{hint}"
        )
    estimator.set_params(**{known: value})


def _class_name(algorithm: str, ensemble: bool, regression: bool) -> str:
    if algorithm not in ALGORITHMS:
        raise ValueError(
            f"--algorithm must be one of {', '.join(ALGORITHMS)}; got {algorithm!r:.60}"
        )
    if algorithm == SUBGRADIENT:
        if regression:
            raise ValueError(
                f"--algorithm {SUBGRADIENT} is for classes, but the target is a number; leave it "
                "out, or add --task classification"
            )
        return "SubgradientLMMClassifier"
    if regression:
        return "LMMRegressor"
    return "LMMEnsembleClassifier" if ensemble else "LMMClassifier"
