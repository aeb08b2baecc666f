"""What every export starts from: the network inside a fitted classifier."""

from collections.abc import Sequence
from typing import Any

from sklearn.utils.validation import check_is_fitted

from maxplus.estimators._lmm import BaseLMMClassifier
from maxplus.models import LMM, Committee


def fitted_model(clf: Any) -> LMM | Committee:
    """The network of a fitted `LMMClassifier` or `LMMCommittee`; anything else is refused."""
    if not isinstance(clf, BaseLMMClassifier):
        raise TypeError(
            f"clf must be a fitted LMMClassifier; got {type(clf).__name__}. Of a pipeline or a "
            "search, give the classifier inside (pipeline[-1], search.best_estimator_)"
        )
    check_is_fitted(clf, "model_")
    return clf.model_


def members_of(model: LMM | Committee) -> Sequence[LMM]:
    """The networks whose mean score decides: one, or several."""
    return model.members if isinstance(model, Committee) else (model,)
