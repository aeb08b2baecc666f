"""scikit-learn estimators."""

from maxplus.estimators._lmm import from_pipeline
from maxplus.estimators._parameters import NoEffectWarning
from maxplus.estimators.lipschitz_interpolator import LipschitzInterpolator
from maxplus.estimators.lmm_classifier import LMMClassifier
from maxplus.estimators.lmm_ensemble_classifier import LMMEnsembleClassifier
from maxplus.estimators.lmm_regressor import LMMRegressor
from maxplus.estimators.subgradient_classifiers import (
    LinearMaxPlusClassifier,
    MaxPlusClassifier,
    SubgradientLMMClassifier,
)

__all__ = [
    "LMMClassifier",
    "LMMEnsembleClassifier",
    "LMMRegressor",
    "LinearMaxPlusClassifier",
    "LipschitzInterpolator",
    "MaxPlusClassifier",
    "NoEffectWarning",
    "SubgradientLMMClassifier",
    "from_pipeline",
]
