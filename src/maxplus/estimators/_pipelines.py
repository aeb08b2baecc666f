"""A classifier at the end of a pipeline, as one that takes the pipeline's own features."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, NamedTuple

from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    RobustScaler,
    StandardScaler,
)
from sklearn.utils.validation import check_is_fitted

from maxplus.estimators._lmm import BaseLMMClassifier

FOLDABLE = "StandardScaler, MinMaxScaler, MaxAbsScaler and RobustScaler"


class Affine(NamedTuple):
    """What a step makes of a feature: (x − centre) / spread."""

    centre: NDArray | float
    spread: NDArray | float


def from_pipeline(pipeline: Any) -> Any:
    """The classifier of a fitted pipeline, for raw features: it explains and certifies in them.

    What is before the classifier must be affine in each feature, such as a StandardScaler; it is
    folded into the weights of a copy (`LMMClassifier.fold`), whose predictions are the pipeline's,
    up to rounding. Its methods (``explain``, ``certified_accuracy``, ``rules``, ``save``, …) then
    take what the pipeline takes, with the names and units that features have there.

    Parameters
    ----------
    pipeline : Pipeline, or a search over one
        Fitted; its last step is an `LMMClassifier`, `LMMEnsembleClassifier` or
        `SubgradientLMMClassifier`.

    Returns
    -------
    the classifier; the pipeline stays as it is

    Examples
    --------
    >>> import maxplus
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_iris(return_X_y=True)
    >>> pipeline = make_pipeline(StandardScaler(), maxplus.LMMClassifier(9, random_state=0))
    >>> clf = maxplus.from_pipeline(pipeline.fit(X, y))
    >>> bool((clf.predict(X) == pipeline.predict(X)).all())
    True
    >>> clf.certified_radius(X).shape
    (150,)
    """
    pipeline = getattr(pipeline, "best_estimator_", pipeline)
    steps = pipeline.steps if isinstance(pipeline, Pipeline) else [("", pipeline)]
    *before, (_, last) = steps
    if not isinstance(last, BaseLMMClassifier):
        raise TypeError(
            "pipeline must end in an LMMClassifier, LMMEnsembleClassifier or "
            f"SubgradientLMMClassifier; got {type(last).__name__}"
        )
    check_is_fitted(last, "model_")
    maps = [_affine_of(name, step) for name, step in before if step not in (None, "passthrough")]
    if maps and hasattr(last, "preparation_"):
        raise ValueError(
            "the pipeline's classifier has columns of words, dates or missing values beside the "
            "scaled ones, which cannot be told apart; give the data frame to the classifier itself"
        )
    classifier = deepcopy(last)
    for centre, spread in reversed(maps):
        classifier.fold(centre, spread)
    if maps:
        # A step may have named what it gives; what it takes may have no names.
        classifier.__dict__.pop("feature_names_in_", None)
        if hasattr(pipeline, "feature_names_in_"):
            classifier.feature_names_in_ = pipeline.feature_names_in_
    return classifier


def _affine_of(name: str, step: Any) -> Affine:
    """The step as an affine map of each feature; ValueError if it is none."""
    if isinstance(step, StandardScaler):
        return Affine(
            step.mean_ if step.with_mean else 0.0, step.scale_ if step.with_std else 1.0
        )  # fmt: skip
    if isinstance(step, RobustScaler):
        return Affine(
            step.center_ if step.with_centering else 0.0,
            step.scale_ if step.with_scaling else 1.0,
        )
    if isinstance(step, MaxAbsScaler):
        return Affine(0.0, step.scale_)
    if isinstance(step, MinMaxScaler) and not step.clip:
        # x·scale + min, where the names are scikit-learn's.
        return Affine(-step.min_ / step.scale_, 1.0 / step.scale_)
    if isinstance(step, FunctionTransformer) and step.func is None:
        return Affine(0.0, 1.0)
    raise ValueError(
        f"the step {name!r} of the pipeline, a {type(step).__name__}, is not affine in each "
        f"feature and cannot be folded into the weights, as {FOLDABLE} can; explain and certify "
        f"what it gives with pipeline[-1]"
    )
