"""Cross-validation splits."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Integral
from typing import Any

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

# Maximum number of rows for 5-fold and 3-fold cross-validation; larger tables are split once.
MAX_ROWS_5_FOLDS, MAX_ROWS_3_FOLDS, TEST_SIZE = 2_000, 10_000, 0.2

Split = tuple[NDArray, NDArray]


@dataclass(frozen=True)
class Splits:
    """Training and test rows of each split.

    Attributes
    ----------
    description : str
        Description of the splitting method.
    pairs : tuple of (ndarray, ndarray)
        Indices of the training rows and of the test rows of each split.
    n_untested : int, default=0
        Number of rows that cannot be tested, because their class has no other row or group.
    """

    description: str
    pairs: tuple[Split, ...]
    n_untested: int = 0


def make_splits(
    y: NDArray,
    cv: str | int | float = "auto",
    *,
    classification: bool = True,
    seed: int = 0,
    groups: NDArray | None = None,
) -> Splits:
    """Return cross-validation splits, stratified by class in classification.

    Parameters
    ----------
    y : ndarray of shape (n_samples,)
        Class labels, or target values of a regression.
    cv : {"auto", "cv"}, int or float, default="auto"
        "cv" is five folds, or three for more than 2,000 rows. "auto" is "cv" up to 10,000 rows,
        and a single split with 20 % test rows for more. An int is the number of folds, which is
        reduced to the number of groups or, without groups, of rows of the largest class. A float in
        (0, 1) is the test size of a single split.
    classification : bool, default=True
        If True, ``y`` contains class labels.
    seed : int, default=0
        Seed for shuffling.
    groups : ndarray of shape (n_samples,), optional
        Group labels. A group is never split.

    Returns
    -------
    Splits

    Examples
    --------
    >>> import numpy as np
    >>> from maxplus.evaluation import make_splits
    >>> make_splits(np.arange(30) % 3).description
    '5-fold cross-validation'
    """
    n = len(y)
    n_folds_or_size = _folds_or_size(cv, n)
    if groups is not None:
        return _grouped(y, n_folds_or_size, classification, seed, groups)
    testable = _rows_of_repeated_classes(y) if classification else np.arange(n)
    if len(testable) < 2:
        reason = "each class has one row" if classification else f"the number of rows is {n}"
        raise ValueError(f"no row can be held out for validation, because {reason}")
    if isinstance(n_folds_or_size, int):
        max_count = (
            int(np.unique(y[testable], return_counts=True)[1].max()) if classification else n
        )
        n_folds = min(n_folds_or_size, max_count)
        splitter = (StratifiedKFold if classification else KFold)(
            n_folds, shuffle=True, random_state=seed
        )
        description = f"{n_folds}-fold cross-validation"
    else:
        splitter_class = StratifiedShuffleSplit if classification else ShuffleSplit
        splitter = splitter_class(1, test_size=n_folds_or_size, random_state=seed)
        description = f"{_percent(n_folds_or_size)} of the rows held out"
    test_rows = [testable[test] for _, test in _split(splitter, y[testable], description)]
    pairs = tuple((np.setdiff1d(np.arange(n), test), test) for test in test_rows)
    return Splits(description, pairs, n - len(testable))


def _grouped(
    y: NDArray, n_folds_or_size: int | float, classification: bool, seed: int, groups: NDArray
) -> Splits:
    """Split by group; drop test rows whose class has no training row."""
    n_groups = np.unique(groups).size
    if n_groups < 2:
        raise ValueError("no group can be held out for validation, because there is only one group")
    if isinstance(n_folds_or_size, int):
        n_folds = min(n_folds_or_size, n_groups)
        splitter_class = StratifiedGroupKFold if classification else GroupKFold
        splitter = splitter_class(n_folds, shuffle=True, random_state=seed)
        description = f"{n_folds}-fold cross-validation, groups kept together"
    else:
        splitter = GroupShuffleSplit(1, test_size=n_folds_or_size, random_state=seed)
        description = f"{_percent(n_folds_or_size)} of the groups held out, groups kept together"
    splits = _split(splitter, y, description, groups)
    pairs = []
    for training, test in splits:
        testable = test[np.isin(y[test], y[training])] if classification else test
        if len(testable) and len(training):
            pairs.append((training, testable))
    if not pairs:
        raise ValueError("no group can be held out, because each class occurs in only one group")
    n_held_out = sum(len(test) for _, test in splits)
    return Splits(description, tuple(pairs), n_held_out - sum(len(test) for _, test in pairs))


def _percent(size: float) -> str:
    return f"{100 * size:.3g}%"


def _split(
    splitter: Any, y: NDArray, description: str, groups: NDArray | None = None
) -> list[Split]:
    """Return the splits of a scikit-learn splitter."""
    try:
        with warnings.catch_warnings():
            # A class may have fewer rows than there are folds.
            warnings.filterwarnings("ignore", "The least populated class")
            return list(splitter.split(y, y, groups))
    except ValueError as error:
        raise ValueError(f"{len(y)} rows cannot be validated with {description}: {error}") from None


def _folds_or_size(cv: str | int | float, n: int) -> int | float:
    """Return the number of folds, or the test size of a single split."""
    if cv == "auto":
        return TEST_SIZE if n > MAX_ROWS_3_FOLDS else _folds_or_size("cv", n)
    if cv == "cv":
        return 5 if n <= MAX_ROWS_5_FOLDS else 3
    if isinstance(cv, float) and 0 < cv < 1:
        return cv
    if isinstance(cv, Integral) and not isinstance(cv, bool) and cv >= 2:
        return int(cv)
    raise ValueError(
        f"cv must be 'auto', 'cv', a number of folds >= 2, or a test size > 0 and < 1; got {cv!r}"
    )


def _rows_of_repeated_classes(y: NDArray) -> NDArray:
    """Return the rows whose class has at least two rows."""
    _, code, count = np.unique(y, return_inverse=True, return_counts=True)
    return np.flatnonzero(count[code] > 1)
