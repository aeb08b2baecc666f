"""Splits of rows into training and test rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
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

# Maximum numbers of rows for five and for three folds; a fifth of larger tables is held out once.
MAX_ROWS_OF_FIVE_FOLDS, MAX_ROWS_OF_THREE_FOLDS, TEST_SHARE = 2_000, 10_000, 0.2

Split = tuple[NDArray, NDArray]


@dataclass(frozen=True)
class Splits:
    """Pairs of training rows and test rows.

    Attributes
    ----------
    description : the kind of split, as text
    pairs : arrays of row numbers, to train on and to test on
    n_untested : number of rows that are never tested, because no other row or group has their class
    """

    description: str
    pairs: tuple[Split, ...]
    n_untested: int = 0


def make_splits(
    y: NDArray,
    cv: str | int | float = "auto",
    *,
    classes: bool = True,
    seed: int = 0,
    groups: NDArray | None = None,
) -> Splits:
    """Return stratified splits; by default their number depends on the number of rows.

    Parameters
    ----------
    y : labels or, without ``classes``, numbers
    cv : "auto"; "cv" for five folds, or three for more than 2,000 rows; a number of folds, which
        is reduced if no class has as many rows; or a share in (0, 1) to hold out once
    classes : whether this is a classification
    seed : seed of the shuffling
    groups : the group of each row, shape (N,); rows of one group are held out together

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
    number = _number(cv, n)
    if groups is not None:
        return _grouped(y, number, classes, seed, groups)
    tested = _of_classes_with_several(y) if classes else np.arange(n)
    if len(tested) < 2:
        raise ValueError("every class has one row only: nothing can be held out to validate with")
    if isinstance(number, int):
        most = int(np.unique(y[tested], return_counts=True)[1].max()) if classes else n
        n_folds = min(number, most)
        folds = (StratifiedKFold if classes else KFold)(n_folds, shuffle=True, random_state=seed)
        description = f"{n_folds}-fold cross-validation"
    else:
        kind = StratifiedShuffleSplit if classes else ShuffleSplit
        folds = kind(1, test_size=number, random_state=seed)
        description = f"{number:.0%} of the rows held out"
    tests = [tested[test] for _, test in _split(folds, y[tested], description)]
    pairs = tuple((np.setdiff1d(np.arange(n), test), test) for test in tests)
    return Splits(description, pairs, n - len(tested))


def _grouped(y: NDArray, number: int | float, classes: bool, seed: int, groups: NDArray) -> Splits:
    """Return splits of whole groups; test rows of classes without training rows are left out."""
    n_groups = np.unique(groups).size
    if n_groups < 2:
        raise ValueError("all rows are of one group: nothing can be held out to validate with")
    if isinstance(number, int):
        n_folds = min(number, n_groups)
        kind = StratifiedGroupKFold if classes else GroupKFold
        folds = kind(n_folds, shuffle=True, random_state=seed)
        description = f"{n_folds}-fold cross-validation, groups kept together"
    else:
        folds = GroupShuffleSplit(1, test_size=number, random_state=seed)
        description = f"{number:.0%} of the groups held out, groups kept together"
    found = _split(folds, y, description, groups)
    pairs = []
    for training, test in found:
        tested = test[np.isin(y[test], y[training])] if classes else test
        if len(tested) and len(training):
            pairs.append((training, tested))
    if not pairs:
        raise ValueError("every class is in one group only: nothing can be held out")
    held = sum(len(test) for _, test in found)
    return Splits(description, tuple(pairs), held - sum(len(test) for _, test in pairs))


def _split(folds: Any, y: NDArray, description: str, groups: NDArray | None = None) -> list[Split]:
    """Return the splits of a splitter of scikit-learn."""
    try:
        with warnings.catch_warnings():
            # A class with fewer rows than folds is absent from some folds, which is acceptable.
            warnings.filterwarnings("ignore", "The least populated class")
            return list(folds.split(y, y, groups))
    except ValueError as error:
        raise ValueError(f"{len(y)} rows cannot be validated with {description}: {error}") from None


def _number(cv: str | int | float, n: int) -> int | float:
    """Return the number of folds, or the share to hold out."""
    if cv == "auto":
        return TEST_SHARE if n > MAX_ROWS_OF_THREE_FOLDS else _number("cv", n)
    if cv == "cv":
        return 5 if n <= MAX_ROWS_OF_FIVE_FOLDS else 3
    if isinstance(cv, float) and 0 < cv < 1:
        return cv
    if isinstance(cv, int) and not isinstance(cv, bool) and cv >= 2:
        return cv
    raise ValueError(
        f"cv must be 'auto', 'cv', a number of folds from 2 on, or a share > 0 and < 1 to hold "
        f"out; got {cv!r}"
    )


def _of_classes_with_several(y: NDArray) -> NDArray:
    """Return the rows whose class has another row to train on."""
    _, code, count = np.unique(y, return_inverse=True, return_counts=True)
    return np.flatnonzero(count[code] > 1)
