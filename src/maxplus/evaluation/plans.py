"""Which rows are held out of which trainings."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import (
    KFold,
    ShuffleSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
)

# Up to so many rows there are five folds, which is some seconds; up to so many three, about
# twice the work of the training itself; beyond, a fifth is held out once, which is less than that.
FEW, SOME = 2_000, 10_000
FOLDS_OF_FEW, FOLDS_OF_SOME, SHARE_OF_MANY = 5, 3, 0.2

Split = tuple[NDArray, NDArray]


@dataclass(frozen=True)
class Plan:
    """How a model is judged on rows that it has not been trained on.

    Attributes
    ----------
    words : for people
    splits : pairs of row numbers, to train on and to judge by
    unjudged : rows that are in no test: the only ones of their class are always trained on
    """

    words: str
    splits: tuple[Split, ...]
    unjudged: int = 0


def plan_for(
    y: NDArray, how: str | int | float = "auto", *, classes: bool = True, seed: int = 0
) -> Plan:
    """Decide by the number of rows, or do as told; each class is spread evenly.

    Parameters
    ----------
    y : labels or, without ``classes``, numbers
    how : "auto"; "cv" for five folds, or three of more than 2,000 rows; a number of folds, which
        are fewer if no class has as many rows; or a share > 0 and < 1 to hold out once
    classes : whether this is a classification
    seed : of the shuffling

    Returns
    -------
    Plan

    Examples
    --------
    >>> import numpy as np
    >>> from maxplus.evaluation import plan_for
    >>> plan_for(np.arange(30) % 3).words
    '5-fold cross-validation'
    """
    n = len(y)
    how = _settled(how, n)
    judged = _of_classes_with_several(y) if classes else np.arange(n)
    if len(judged) < 2:
        raise ValueError("every class has one row only: nothing can be held out to validate with")
    unjudged = n - len(judged)
    if isinstance(how, int):
        most = int(np.unique(y[judged], return_counts=True)[1].max()) if classes else n
        n_folds = min(how, most)
        folds = (StratifiedKFold if classes else KFold)(n_folds, shuffle=True, random_state=seed)
        words = f"{n_folds}-fold cross-validation"
    else:
        kind = StratifiedShuffleSplit if classes else ShuffleSplit
        folds = kind(1, test_size=how, random_state=seed)
        words = f"{how:.0%} of the rows held out"
    everyone = np.arange(n)
    try:
        with warnings.catch_warnings():
            # A class with fewer rows than folds is in some of them.
            warnings.filterwarnings("ignore", "The least populated class")
            tests = [judged[test] for _, test in folds.split(judged, y[judged])]
    except ValueError as error:
        raise ValueError(f"{n} rows cannot be validated with {words}: {error}") from None
    return Plan(words, tuple((np.setdiff1d(everyone, test), test) for test in tests), unjudged)


def _settled(how: str | int | float, n: int) -> int | float:
    """A number of folds, or a share."""
    if how == "auto":
        return SHARE_OF_MANY if n > SOME else _settled("cv", n)
    if how == "cv":
        return FOLDS_OF_FEW if n <= FEW else FOLDS_OF_SOME
    if isinstance(how, float) and 0 < how < 1:
        return how
    if isinstance(how, int) and not isinstance(how, bool) and how >= 2:
        return how
    raise ValueError(
        f"how must be 'auto', 'cv', a number of folds from 2 on, or a share > 0 and < 1 to hold "
        f"out; got {how!r}"
    )


def _of_classes_with_several(y: NDArray) -> NDArray:
    """Rows of whose class there is another to train on."""
    _, code, count = np.unique(y, return_inverse=True, return_counts=True)
    return np.flatnonzero(count[code] > 1)
