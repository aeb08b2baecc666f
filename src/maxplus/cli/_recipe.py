"""From the options of ``maxplus train`` to an estimator; what would do nothing is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

Options = Mapping[str, Any]

# Options, and the parameters that they set.
CAPACITY = {"hidden": "n_hidden", "slope": "slope"}
CLASSES = {**CAPACITY, "confidence": "init_margin"}
OWN = {
    **CLASSES, "structure": "structure", "max_features": "max_features",
    "scoring": "scoring", "epochs": "warmup_epochs",
    "robust_eps": "robust_eps", "early_stopping": "early_stopping", "polish": "polish",
    "no_polish": "polish", "max_suspects": "max_suspects", "class_weight": "class_weight",
    "calibrate": "calibrate",
}  # fmt: skip
ENSEMBLE = {**OWN, "estimators": "n_estimators", "bootstrap": "bootstrap"}
PAPER = {
    **CLASSES, "iterations": "max_iter", "init": "init", "objective": "objective",
    "top_k": "top_k", "step": "step", "polyak_target": "polyak_target",
    "polyak_fraction": "polyak_fraction", "learning_rate": "learning_rate",
    "linear_every": "w0_update_interval", "engine": "engine", "iterate": "keep",
}  # fmt: skip
REGRESSION = {"epochs": "epochs", "loss": "loss"}
ALL = {**ENSEMBLE, **PAPER, **REGRESSION}


def _or_none(value: str) -> str | None:
    return None if value == "none" else value


def _level(value: str) -> str | float:
    """A word, or a number."""
    try:
        return float(value)
    except ValueError:
        return value


def _count_or_share(value: float) -> float:
    """A whole number as one: 5 samples are not the share 5.0."""
    return int(value) if value.is_integer() else value


MEANING: dict[str, Callable[[Any], Any]] = {
    "class_weight": _or_none,
    "polish": _level,
    "no_polish": lambda value: None,
    "max_suspects": _count_or_share,
    "top_k": _count_or_share,
}


class Way(NamedTuple):
    """A way to train: an estimator's name, its options, and what to say of others."""

    estimator: str
    options: Mapping[str, str]
    refusal: str


def recipe(options: Options, *, regression: bool = False) -> Any:
    """The estimator, not fitted; ValueError for what does not belong together.

    Parameters
    ----------
    options : those of the command by name, without the ones that were not given
    regression : whether numbers are to be predicted
    """
    from maxplus import estimators

    way = _way(options, regression)
    for name in options:
        if name in ALL and name not in way.options:
            raise ValueError(f"{flag(name)} {_refusal(name, way)}")
    if "polish" in options and "no_polish" in options:
        raise ValueError(
            f"--polish {options['polish']} and --no-polish exclude each other; give one"
        )
    parameters = {
        way.options[name]: MEANING.get(name, lambda value: value)(value)
        for name, value in options.items()
        if name in way.options
    }
    if way.options is ENSEMBLE:
        own: dict[str, Any] = {
            n: parameters.pop(n) for n in ("n_estimators", "bootstrap") if n in parameters
        }
        parameters = {"estimator": estimators.LMMClassifier(**parameters), **own}
    estimator = getattr(estimators, way.estimator)(
        **parameters, n_jobs=options.get("jobs"), random_state=options["seed"]
    )
    # Before a large table is read.
    estimator._check_parameters()
    return estimator


def flag(name: str) -> str:
    """An option as it is typed."""
    return "--" + name.replace("_", "-")


def _way(options: Options, regression: bool) -> Way:
    if options.get("paper"):
        if regression:
            raise ValueError(
                "--paper trains classifiers, but the target is to be predicted as a number; leave "
                "--paper out, or add --task classification"
            )
        return Way("SubgradientLMMClassifier", PAPER, "is not the paper's; leave it out")
    if regression:
        remedy = "leave it out, or add --task classification"
        return Way(
            "LMMRegressor", REGRESSION, f"is for classes, but the target is a number; {remedy}"
        )
    if "estimators" in options:
        return Way("LMMEnsembleClassifier", ENSEMBLE, "is for --paper; leave it out")
    return Way("LMMClassifier", OWN, "is for --paper; add --paper, or leave it out")


def _refusal(name: str, way: Way) -> str:
    if way.options is OWN and name == "bootstrap":
        return "is for ensembles; add --estimators, or leave it out"
    if name == "loss":
        return "is for a regression; leave it out, or add --task regression"
    return way.refusal
