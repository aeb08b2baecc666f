"""Validated training data, and predictions of many rows in batches."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, validate_data

from maxplus.distributed import Communicator, current
from maxplus.distributed.communicator import mark_collective
from maxplus.estimators._frames import COLUMNS, PREPARATION, as_numbers, of_features, prepared
from maxplus.estimators._parameters import threads
from maxplus.models import Network
from maxplus.models.lmm import TermSum

FLOATS = (np.float64, np.float32)
DIGEST_BITS = 128

T = TypeVar("T")


@dataclass(frozen=True)
class LabelledData:
    """Samples with a weight above 0, their classes as numbers, and where they come from.

    Attributes
    ----------
    X : array of shape (N, P), C order
    y : classes 0..C−1, shape (N,)
    weight : of each sample, or None
    classes : labels in ascending order, shape (C,); those of all ranks
    index : which of the rows that were given are in X
    labels : of all rows that were given
    columns : what scikit-learn notes of X's columns, n_features_in_ and, perhaps, their names;
        and ``preparation_``, if X was a data frame that had to be made into numbers
    """

    X: NDArray
    y: NDArray
    weight: NDArray | None
    classes: NDArray
    index: NDArray
    labels: NDArray
    columns: dict[str, Any]

    @classmethod
    def of(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        classes: ArrayLike | None = None,
        *,
        like: Network | None = None,
    ) -> LabelledData:
        """Check what `fit` was given; nothing of the estimator changes.

        With a model ``like`` which the training goes on from, columns, classes and float type
        are those of the estimator. Ranks that fit together agree on columns, types and classes;
        rows stay where they are.
        """
        comm = current()
        with comm.raise_on_all_ranks():
            own = cls._own(estimator, X, y, sample_weight, comm, like)
        if not comm.is_alone:
            _agree(comm, own, sample_weight is not None, classes)
        known = None if like is None else estimator.classes_
        if classes is None and known is None:
            classes = _labels(comm, own.y)
        found, codes = _encode(comm, own.y, classes, known)
        return replace(own, y=codes, classes=found)

    @classmethod
    def _own(
        cls, estimator: Any, X: Any, y: Any, sample_weight: ArrayLike | None, comm: Communicator,
        like: Network | None,
    ) -> LabelledData:  # fmt: skip
        """What this rank has, checked; its labels are not numbered yet."""
        X, preparation = prepared(estimator, X, y, "classification", goes_on=like is not None)
        # scikit-learn notes the columns on the estimator that it is given.
        witness = copy(of_features(estimator)) if like is not None else copy(estimator)
        # One of several ranks may have no rows at all.
        least = {} if comm.is_alone else {"ensure_min_samples": 0}
        X, y = validate_data(witness, X, y, dtype=FLOATS, reset=like is None, **least)
        columns = preparation or {n: v for n, v in vars(witness).items() if n in COLUMNS}
        X = np.ascontiguousarray(X, None if like is None else like.dtype)
        check_magnitude(X)
        if len(y):
            check_classification_targets(y)
        weight = check_sample_weight(sample_weight, len(y), some=comm.is_alone)
        index = np.arange(len(y)) if weight is None else np.flatnonzero(weight)
        labels = y
        if weight is not None:
            X, y, weight = X[index], y[index], weight[index]
        return cls(X, y, weight, y[:0], index, np.array(labels), columns)

    def weighted(self, class_weight: Mapping[Any, float] | str | None) -> LabelledData:
        """The same samples, each of its class's weight times its own.

        "balanced" gives all classes the same sum of weights, and keeps the sum of all.
        """
        if class_weight is None:
            return self
        own = np.ones(len(self.y)) if self.weight is None else self.weight
        if isinstance(class_weight, str):
            sums = current().sum(np.bincount(self.y, own, self.n_classes))
            present = sums > 0
            factor = np.divide(sums.sum() / present.sum(), sums, where=present, out=sums * 0.0)
        else:
            labels = self.classes.tolist()
            strangers = [label for label in class_weight if label not in labels]
            if strangers and any(label not in class_weight for label in labels):
                raise ValueError(
                    f"class_weight has the label {strangers[0]!r}, which is not one of the classes "
                    f"{labels}; its keys are labels"
                )
            factor = np.array([float(class_weight.get(label, 1.0)) for label in labels])
        return replace(self, weight=own * factor[self.y])

    @property
    def n_classes(self) -> int:
        """C."""
        return self.classes.size

    @property
    def digest(self) -> str:
        """What tells one training set from another; O(N·P), once."""
        known: str = vars(self).get("_digest") or self._found_digest()
        vars(self)["_digest"] = known
        return known

    def _found_digest(self) -> str:
        comm = current()
        n, first = comm.total(len(self.y)), comm.before(len(self.y))
        head = f"{self.X.dtype.str}{(n, self.X.shape[1])}{self.weight is not None}"
        # A sum over rows, each with its number, is the same however ranks divide them.
        own = _sum_of_rows(self.X, self.y, self.weight, first)
        total = sum(comm.allgather(own)) % (1 << DIGEST_BITS)
        return hashlib.sha256(f"{head} {total}".encode()).hexdigest()

    @property
    def given(self) -> NDArray:
        """``index`` over all ranks: the numbers of samples among all rows that were given."""
        comm = current()
        return comm.allgatherv(self.index + comm.before(len(self.labels)))

    def on_first(self, work: Callable[[LabelledData], T], rng: np.random.Generator) -> T:
        """What ``work`` makes of the samples of all ranks; rank 0 does it, for everybody.

        There y, weight and index are those of all ranks, and X can be indexed as if it were; what
        is drawn from ``rng`` there counts for all.
        """
        comm = current()
        if comm.is_alone:
            return work(self)
        y, index = comm.gather(self.y), comm.gather(self.index + comm.before(len(self.labels)))
        weight = None if self.weight is None else comm.gather(self.weight)

        def draw(X: Any) -> tuple[T, Any]:
            done = work(replace(self, X=X, y=y, weight=weight, index=index))
            return done, rng.bit_generator.state

        done, rng.bit_generator.state = comm.root_only(draw, self.X)
        return done


def mean_loss(losses: NDArray, weight: NDArray | None) -> float:
    """The weighted mean over the samples of all ranks."""
    comm = current()
    if comm.is_alone:
        return float(np.average(losses, weights=weight))
    weight = np.ones(len(losses)) if weight is None else weight
    total, weights = comm.sum(np.array([weight @ losses, weight.sum()]))
    return float(total / weights)


def _sum_of_rows(X: NDArray, y: NDArray, weight: NDArray | None, first: int) -> int:
    """A sum of numbers, one for each sample, its label, its weight and its place; O(N·P)."""
    facts = [np.arange(first, first + len(y)), np.asarray(y, np.int64)]
    if weight is not None:
        facts.append(np.asarray(weight, np.float64).view(np.int64))
    told = np.stack(facts, axis=1)
    total = 0
    for x, about in zip(X, told, strict=True):
        row = hashlib.blake2b(x.data, digest_size=DIGEST_BITS // 8, salt=b"row")
        row.update(about.data)
        total += int.from_bytes(row.digest(), "little")
    return total


def _agree(
    comm: Communicator, own: LabelledData, is_weighted: bool, classes: ArrayLike | None
) -> None:
    """DifferentRanksError, or a ValueError, unless ranks can be fitted together."""
    if comm.any(PREPARATION in own.columns):
        raise mark_collective(
            ValueError(
                "ranks cannot agree on what words, dates and missing values of their data frames "
                "become; make one Preparation of all rows, and give its features"
            )
        )
    names = own.columns.get("feature_names_in_")
    comm.agree({
        "number of features": own.X.shape[1],
        "names of features": None if names is None else tuple(names),
        "type of features": own.X.dtype.str,
        "classes": None if classes is None else np.asarray(classes).tolist(),
        "sample_weight, given or not": is_weighted,
    })  # fmt: skip
    weights = 1.0 if own.weight is None else float(own.weight.sum())
    if not comm.total(len(own.y)) or not comm.largest(weights):
        raise mark_collective(ValueError("there are no samples to train on, on any of the ranks"))


def _labels(comm: Communicator, y: NDArray) -> NDArray:
    """All different labels of all ranks, in order."""
    own = np.unique(y)
    if comm.is_alone:
        return own
    return np.unique(np.concatenate([labels for labels in comm.allgather(own) if labels.size]))


def _encode(
    comm: Communicator, y: NDArray, classes: ArrayLike | None, known: NDArray | None
) -> tuple[NDArray, NDArray]:
    """All labels in order, and y as positions among them."""
    labels = np.unique(np.asarray(classes)) if known is None else known
    with comm.raise_on_all_ranks():
        _check_labels(y, labels)
    return labels, np.searchsorted(labels, y) if len(y) else np.empty(0, np.int64)


def _check_labels(y: NDArray, labels: NDArray) -> None:
    is_known = np.isin(y, labels)
    if not is_known.all():
        raise ValueError(
            f"y has the label {y[~is_known].tolist()[0]!r}, which is not one of the classes "
            f"{labels.tolist()}; name all classes at the first partial_fit, or fit anew"
        )
    if labels.size < 2:
        raise ValueError(
            f"y holds one class only ({labels.tolist()[0]!r}); a classifier needs at least "
            "two, so add samples of another"
        )


def check_magnitude(X: NDArray) -> None:
    """Refuse features whose squares, as they enter a subgradient's norm, would overflow."""
    limit = 1e-4 * math.sqrt(float(np.finfo(X.dtype).max))
    largest = float(np.abs(X).max(initial=0.0))
    if largest > limit:
        raise ValueError(
            f"X reaches {largest:g}, too large to train with in {X.dtype} (at most {limit:g}); "
            "scale the features first, for example with StandardScaler"
        )


def check_sample_weight(
    sample_weight: ArrayLike | None, n_samples: int, *, some: bool = True
) -> NDArray | None:
    """None, or one finite number >= 0 per sample, not all zero if there must be ``some``."""
    if sample_weight is None:
        return None
    try:
        weight = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"sample_weight must hold numbers; got {sample_weight!r:.60}") from None
    if weight.shape != (n_samples,):
        raise ValueError(
            f"sample_weight must have shape ({n_samples},), one weight per sample; "
            f"got shape {weight.shape}"
        )
    if not np.isfinite(weight).all() or (weight < 0).any():
        bad = weight[~np.isfinite(weight) | (weight < 0)][0]
        raise ValueError(f"sample_weight must hold finite numbers >= 0; got {bad}")
    if some and not weight.any():
        raise ValueError("sample_weight is zero for every sample: none is left to train on")
    return weight


def rows_for(estimator: Any, X: Any, model: Network, slopes: Sequence[str]) -> NDArray:
    """What a fitted estimator is asked about, checked and as its model takes it."""
    return within_range(checked_rows(estimator, X), model, slopes)


def checked_rows(estimator: Any, X: Any, *, finite: bool = True) -> NDArray:
    """What a fitted estimator is asked about: numbers, not copied if they were so.

    Whether they are ``finite`` may be left to `within_range`, which has to look at them all.
    """
    X = as_numbers(estimator, X)
    # Whole numbers are finite, and as floats they would be another copy of all rows.
    whole = getattr(getattr(X, "dtype", None), "kind", "") in ("b", "i", "u")
    dtype = None if whole else FLOATS
    return validate_data(
        of_features(estimator), X, dtype=dtype, reset=False, ensure_all_finite=finite
    )


def within_range(X: NDArray, model: Network, slopes: Sequence[str], asked: Any = None) -> NDArray:
    """X in the model's type, with numbers so large that a score would overflow moved closer.

    ``slopes`` names the weights that multiply an input. Where an estimator is
    ``asked``, numbers that are not finite are scikit-learn's error.
    """
    limit = _largest_input(model, slopes)
    # Two passes and no array of absolute values.
    high, low = float(X.max(initial=0.0)), float(X.min(initial=0.0))
    if not (high <= limit and -low <= limit):
        if asked is not None:
            assert_all_finite(X, estimator_name=type(asked).__name__, input_name="X")
        X = np.clip(X, -limit, limit)
    return np.ascontiguousarray(X, model.dtype)


def _largest_input(model: Network, slopes: Sequence[str]) -> float:
    """Return how large an input may be without a score that overflows."""
    if isinstance(model, TermSum):
        return model.largest_input
    largest = float(np.finfo(model.dtype).max)
    steepest = max([1.0, *(float(np.abs(getattr(model, name)).max()) for name in slopes)])
    return largest / (8.0 * steepest * model.n_features)


# Features and scores of the rows that are looked at together: 8 MB in float64, and many enough
# for every thread.
VALUES_AT_ONCE = 1 << 20

Answer = Callable[[NDArray], NDArray]


def answers(estimator: Any, X: Any, model: Network, slopes: Sequence[str], say: Answer) -> NDArray:
    """What ``say`` makes of the scores (n, C), one entry or row for each of X's; O(N·P·H).

    Beyond the answers, memory does not grow with the number of rows: neither their scores nor
    rows in the model's own type are there all at once.
    """
    X = checked_rows(estimator, X, finite=False)
    n_rows = X.shape[0]
    size = max(1, VALUES_AT_ONCE // (model.n_features + model.n_classes))
    found = None
    with threads(estimator.n_jobs):
        for start in range(0, n_rows, size):
            rows = slice(start, start + size)
            block = within_range(X[rows], model, slopes, estimator)
            part = say(model.scores(block))
            if n_rows <= size:
                return np.ascontiguousarray(part)
            if found is None:
                found = np.empty((n_rows, *part.shape[1:]), part.dtype)
            found[rows] = part
    assert found is not None
    return found
