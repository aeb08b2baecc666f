"""Which rows are held out of which trainings."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    ShuffleSplit,
    StratifiedGroupKFold,
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
    unjudged : rows that are in no test, because no other row or group has their class
    """

    words: str
    splits: tuple[Split, ...]
    unjudged: int = 0


def plan_for(
    y: NDArray,
    how: str | int | float = "auto",
    *,
    classes: bool = True,
    seed: int = 0,
    groups: NDArray | None = None,
) -> Plan:
    """Decide by the number of rows, or do as told; each class is spread evenly.

    Parameters
    ----------
    y : labels or, without ``classes``, numbers
    how : "auto"; "cv" for five folds, or three of more than 2,000 rows; a number of folds, which
        are fewer if no class has as many rows; or a share > 0 and < 1 to hold out once
    classes : whether this is a classification
    seed : of the shuffling
    groups : what each row belongs to, shape (N,); rows of one group are held out together

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
    if groups is not None:
        return _grouped(y, how, classes, seed, groups)
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


def _grouped(
    y: NDArray, how: int | float, classes: bool, seed: int, groups: NDArray
) -> Plan:  # fmt: skip
    """Splits with whole groups on one side; rows of a class that is not trained on are unjudged."""
    n_groups = np.unique(groups).size
    if n_groups < 2:
        raise ValueError("all rows are of one group: nothing can be held out to validate with")
    if isinstance(how, int):
        n_folds = min(how, n_groups)
        kind = StratifiedGroupKFold if classes else GroupKFold
        folds = kind(n_folds, shuffle=True, random_state=seed)
        words = f"{n_folds}-fold cross-validation, groups kept together"
    else:
        folds = GroupShuffleSplit(1, test_size=how, random_state=seed)
        words = f"{how:.0%} of the groups held out, groups kept together"
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The least populated class")
            found = list(folds.split(y, y, groups))
    except ValueError as error:
        raise ValueError(f"{len(y)} rows cannot be validated with {words}: {error}") from None
    splits = []
    for training, test in found:
        judged = test[np.isin(y[test], y[training])] if classes else test
        if len(judged) and len(training):
            splits.append((training, judged))
    if not splits:
        raise ValueError("every class is in one group only: nothing can be held out")
    held = sum(len(test) for _, test in found)
    return Plan(words, tuple(splits), held - sum(len(test) for _, test in splits))


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
