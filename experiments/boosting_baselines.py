"""Boosted models of other packages, each with its defaults, on one thread; all are optional."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

Constructor = Callable[[int], Any]


def _xgboost(seed: int) -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(random_state=seed, n_jobs=1, verbosity=0)


def _lightgbm(seed: int) -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(random_state=seed, n_jobs=1, verbosity=-1)


def _catboost(seed: int) -> Any:
    from catboost import CatBoostClassifier

    return CatBoostClassifier(
        random_seed=seed, thread_count=1, verbose=False, allow_writing_files=False
    )


def _ebm(seed: int) -> Any:
    from interpret.glassbox import ExplainableBoostingClassifier

    return ExplainableBoostingClassifier(random_state=seed, n_jobs=1)


# By the name in results: the module that is imported, and a constructor, given a seed.
BOOSTING_BASELINES: dict[str, tuple[str, Constructor]] = {
    "XGBoost": ("xgboost", _xgboost),
    "LightGBM": ("lightgbm", _lightgbm),
    "CatBoost": ("catboost", _catboost),
    "EBM": ("interpret", _ebm),
}


def installed_baselines() -> dict[str, Constructor]:
    """Return the constructors of those models whose packages are installed."""
    return {
        name: constructor
        for name, (module, constructor) in BOOSTING_BASELINES.items()
        if find_spec(module) is not None
    }
