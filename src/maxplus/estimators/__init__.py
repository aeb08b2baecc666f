"""scikit-learn estimators."""

from maxplus.estimators._effects import NoEffectWarning
from maxplus.estimators._pipelines import from_pipeline
from maxplus.estimators.linear_max_plus_classifier import LinearMaxPlusClassifier
from maxplus.estimators.lmm_classifier import LMMClassifier
from maxplus.estimators.lmm_ensemble_classifier import LMMEnsembleClassifier
from maxplus.estimators.lmm_regressor import LMMRegressor
from maxplus.estimators.max_plus_classifier import MaxPlusClassifier
from maxplus.estimators.subgradient_lmm_classifier import SubgradientLMMClassifier

__all__ = [
    "LMMClassifier",
    "LMMEnsembleClassifier",
    "LMMRegressor",
    "LinearMaxPlusClassifier",
    "MaxPlusClassifier",
    "NoEffectWarning",
    "SubgradientLMMClassifier",
    "from_pipeline",
]
