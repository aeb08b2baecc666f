"""Estimators from the options of ``maxplus train``."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

ALGORITHMS = SMOOTH, SUBGRADIENT = ("smooth", "subgradient")
# Parameters that have an option of their own.
OPTIONS = {"n_hidden": "--hidden", "n_estimators": "--estimators", "n_jobs": "--jobs",
           "random_state": "--seed"}  # fmt: skip
# Literals as they are written in shells and in JSON.
LITERALS = {"none": None, "null": None, "true": True, "false": False}


def build_estimator(
    algorithm: str = SMOOTH,
    *,
    hidden: int | None = None,
    estimators: int | None = None,
    settings: Sequence[str] | None = None,
    seed: int = 0,
    jobs: int | None = None,
    regression: bool = False,
) -> Any:
    """Return the estimator, not fitted; ValueError for options that exclude each other.

    Parameters
    ----------
    algorithm, hidden, estimators, seed, jobs : options of the command
    settings : values of --set
    regression : whether the target is a number
    """
    name = _class_name(algorithm, hidden, estimators, regression)
    from maxplus import estimators as available

    estimator = getattr(available, name)(random_state=seed, n_jobs=jobs)
    if estimators is not None:
        estimator.set_params(estimator=available.LMMClassifier())
    if hidden is not None:
        set_parameter(estimator, "n_hidden", hidden)
    if estimators is not None:
        set_parameter(estimator, "n_estimators", estimators)
    for text in settings or ():
        key, value = parse_setting(text)
        if key in OPTIONS:
            raise ValueError(f"--set {text}: use {OPTIONS[key]} for {key}")
        set_parameter(estimator, key, value)
    # Before a large table is read.
    estimator._check_parameters()
    return estimator


def parse_setting(text: str) -> tuple[str, Any]:
    """Return name and value of NAME=VALUE: a number, a truth value, none, or else text."""
    name, equals, value = text.partition("=")
    if not (equals and name.strip()):
        raise ValueError(f"--set {text}: write NAME=VALUE, such as --set slope=2")
    value = value.strip()
    if value.lower() in LITERALS:
        return name.strip(), LITERALS[value.lower()]
    try:
        return name.strip(), ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return name.strip(), value


def set_parameter(estimator: Any, name: str, value: Any) -> None:
    """Set a parameter of an estimator, or of the one that it is composed of."""
    own = estimator.get_params(deep=True)
    known = name if name in own else f"estimator__{name}"
    if known not in own:
        names = sorted(name for name in own if name not in ("callbacks", *OPTIONS))
        similar = get_close_matches(name, names, n=1)
        meant = f"; is it {similar[0]}?" if similar else f"; it has {', '.join(names)}"
        raise ValueError(
            f"--set {name}={value}: {type(estimator).__name__} has no parameter {name!r}{meant}"
        )
    estimator.set_params(**{known: value})


def _class_name(
    algorithm: str, hidden: int | None, estimators: int | None, regression: bool
) -> str:
    if algorithm not in ALGORITHMS:
        raise ValueError(
            f"--algorithm must be one of {', '.join(ALGORITHMS)}; got {algorithm!r:.60}"
        )
    if regression:
        remedy = "leave it out, or add --task classification"
        for option, is_given in (
            (f"--algorithm {SUBGRADIENT}", algorithm == SUBGRADIENT),
            ("--hidden", hidden is not None),
            ("--estimators", estimators is not None),
        ):
            if is_given:
                raise ValueError(f"{option} is for classes, but the target is a number; {remedy}")
        return "LMMRegressor"
    if algorithm == SUBGRADIENT:
        if estimators is not None:
            raise ValueError(
                f"--estimators is not for --algorithm {SUBGRADIENT}, which trains one network; "
                "leave one of both out"
            )
        return "SubgradientLMMClassifier"
    return "LMMClassifier" if estimators is None else "LMMEnsembleClassifier"
