"""Validation of training data, scaling of features, and prediction in batches."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, validate_data

from maxplus.distributed import Communicator, SharedRows, current
from maxplus.distributed.communicator import mark_collective
from maxplus.distributed.shared_rows import count_nonzero
from maxplus.estimators._frames import (
    COLUMNS,
    encode_frame,
    encoders_differ,
    for_encoded_features,
    is_number,
    numeric_features,
)
from maxplus.estimators._parameters import threads
from maxplus.models import LMM, Network
from maxplus.models.lmm import TermSum

FLOATS = (np.float64, np.float32)
DIGEST_BITS = 128
# Number of values (features and scores of all samples) per batch in prediction (8 MB in float64).
BATCH_VALUES = 1 << 20
# Outliers are outside these quantiles by more than OUTLIER_FACTOR times the distance between them.
QUANTILES, OUTLIER_FACTOR = (0.05, 0.95), 1.5
# Relative standard deviation below which a feature is constant up to rounding.
ROUNDING = 1e-12
# Images have more features than MIN_PIXELS, and at least this fraction of zeros.
MIN_PIXELS, MIN_ZEROS = 50, 0.25
# Number of values per batch in conversions to float64.
SCALING_VALUES = 4_000_000

MISSING_VALUES = (
    "Input X contains NaN. Missing values are imputed if fit is called with a data frame that has "
    "missing values. Otherwise, impute them in a pipeline, for example with "
    "maxplus.TableEncoder() for data frames or sklearn.impute.SimpleImputer() for arrays."
)

T = TypeVar("T")


def _empty() -> NDArray:
    return np.empty(0, np.int64)


@dataclass(frozen=True)
class TrainingData:
    """Validated training data of this rank."""

    # Features of shape (N, P), in C order.
    X: NDArray
    # Class indices, or targets of a regression.
    y: NDArray
    # Sample weights of shape (N,).
    weight: NDArray | None = None
    # Sorted class labels of all ranks.
    classes: NDArray = field(default_factory=_empty)
    # Indices of the samples in the input of `fit`, without samples of weight 0. Indices and labels
    # are empty for a regression and in a subset (`part`).
    index: NDArray = field(default_factory=_empty)
    # Labels of all samples of the input.
    labels: NDArray = field(default_factory=_empty)
    # Fitted attributes about the columns: n_features_in_, and optionally feature_names_in_ and
    # encoder_.
    columns: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def for_classification(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        classes: ArrayLike | None = None,
        *,
        model: Network | None = None,
    ) -> TrainingData:
        """Validate the arguments of `fit` of a classifier.

        If training continues from a ``model``, columns, classes and dtype are those of the
        estimator, which is not modified. Columns, dtypes and classes must agree between ranks.
        """
        comm = current()
        with comm.raise_on_all_ranks():
            # With several ranks, a rank may have no samples.
            options = {} if comm.is_serial else {"ensure_min_samples": 0}
            X, y, columns = _validated(
                estimator, X, y, "classification", continues=model is not None, **options
            )
            X = np.ascontiguousarray(X, None if model is None else model.dtype)
            check_magnitude(X)
            if len(y):
                check_classification_targets(y)
            weight = check_sample_weight(sample_weight, len(y), allow_zeros=not comm.is_serial)
        labels, index = np.array(y), np.arange(len(y))
        if weight is not None:
            index = np.flatnonzero(weight)
            X, y, weight = X[index], y[index], weight[index]
        data = cls(X, y, weight, y[:0], index, labels, columns)
        if not comm.is_serial:
            _check_ranks_agree(comm, data, sample_weight is not None, classes)
        given = None if classes is None else np.unique(np.asarray(classes))
        if model is not None:
            known = estimator.classes_
        elif given is not None:
            known = given
        else:
            of_ranks = [part for part in comm.allgather(np.unique(y)) if part.size]
            known = np.unique(np.concatenate(of_ranks))
        with comm.raise_on_all_ranks():
            if given is not None and not np.array_equal(given, known):
                raise ValueError(
                    f"classes is {given.tolist()}, but training continues with the classes "
                    f"{known.tolist()} of the first call; pass these, or call fit"
                )
            remedy = (
                "; pass all classes to the first call of partial_fit, or call fit with "
                "warm_start=False"
            )
            check_labels(y, known, remedy)
            if known.size < 2:
                raise ValueError(
                    f"y has one class only ({known.tolist()[0]!r}), but a classifier requires at "
                    "least two; add samples of another class"
                )
        codes = np.searchsorted(known, y) if len(y) else np.empty(0, np.int64)
        return replace(data, y=codes, classes=known)

    @classmethod
    def for_regression(
        cls, estimator: Any, X: Any, y: Any, sample_weight: ArrayLike | None
    ) -> TrainingData:
        """Validate the arguments of `fit` of a regressor; samples of weight 0 are kept."""
        X, y, columns = _validated(estimator, X, y, "regression", y_numeric=True)
        y = y.astype(np.float64) if y.dtype.kind in "SUT" else y
        weight = check_sample_weight(sample_weight, len(y))
        return cls(np.ascontiguousarray(X), y, weight, columns=columns)

    def part(self, index: NDArray) -> TrainingData:
        """Return a subset of the samples, without ``index`` and ``labels``."""
        weight = None if self.weight is None else self.weight[index]
        return TrainingData(self.X[index], self.y[index], weight, self.classes)

    def monotonic_signs(self, monotonic_cst: Any) -> NDArray | None:
        """Return the monotonicity constraint of each feature (1, 0 or −1), or None."""
        if monotonic_cst is None:
            return None
        encoder, n = self.columns.get("encoder_"), self.columns["n_features_in_"]
        names = list(self.columns.get("feature_names_in_", ()))
        if isinstance(monotonic_cst, Mapping):
            unknown = [name for name in monotonic_cst if name not in names]
            if unknown:
                raise ValueError(
                    f"monotonic_cst has the column {unknown[0]!r}, which does not exist; "
                    + (f"X has {names[:20]}" if names else "X has no column names")
                )
            signs = np.array([monotonic_cst.get(name, 0) for name in names], np.int64)
        else:
            signs = np.asarray(monotonic_cst).astype(np.int64)
        if signs.shape != (n,):
            raise ValueError(
                f"monotonic_cst must hold one number for each of the {n} columns of X; "
                f"got shape {signs.shape}"
            )
        if encoder is None:
            return signs
        if not names:
            raise ValueError("monotonic_cst requires a data frame whose column names are strings")
        features = np.zeros(self.X.shape[1], np.int64)
        sign_of = dict(zip(names, signs.tolist(), strict=True))
        for column, part in zip(encoder.columns_, encoder.feature_slices, strict=True):
            sign = sign_of.get(column.name, 0)
            if sign and column.kind == "category":
                raise ValueError(
                    f"monotonic_cst has {sign} for the column {column.name!r}, whose categories "
                    "have no order; set it to 0, or make the column ordinal"
                )
            features[part.start] = sign
        return features

    def with_class_weight(self, class_weight: Mapping[Any, float] | str | None) -> TrainingData:
        """Return the samples with weights multiplied by class weights.

        "balanced" gives all classes the same total weight and preserves the sum of all weights.
        """
        if class_weight is None:
            return self
        weight = np.ones(len(self.y)) if self.weight is None else self.weight
        if isinstance(class_weight, str):
            sums = current().sum(np.bincount(self.y, weight, self.n_classes))
            present = sums > 0
            factor = np.divide(sums.sum() / present.sum(), sums, where=present, out=sums * 0.0)
        else:
            labels = self.classes.tolist()
            unknown = [label for label in class_weight if label not in labels]
            if unknown and any(label not in class_weight for label in labels):
                raise ValueError(
                    f"class_weight has the label {unknown[0]!r}, which is not one of the classes "
                    f"{labels}; its keys are labels"
                )
            factor = np.array([float(class_weight.get(label, 1.0)) for label in labels])
        return replace(self, weight=weight * factor[self.y])

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.classes.size

    @property
    def digest(self) -> str:
        """Hash of the samples of all ranks, independent of the partition; cached."""
        # Before Python 3.12, cached_property holds a lock, which would block ranks in threads.
        cache = vars(self)
        if "_digest" not in cache:
            comm = current()
            n, first = comm.total(len(self.y)), comm.exscan(len(self.y))
            head = f"{self.X.dtype.str}{(n, self.X.shape[1])}{self.weight is not None}"
            # A sum of hashes does not depend on the partition. Each includes the sample number.
            hashes = _sum_of_hashes(self.X, self.y, self.weight, first)
            total = sum(comm.allgather(hashes)) % (1 << DIGEST_BITS)
            cache["_digest"] = hashlib.sha256(f"{head} {total}".encode()).hexdigest()
        digest: str = cache["_digest"]
        return digest

    @property
    def index_of_all(self) -> NDArray:
        """Indices of the samples of all ranks in the concatenated input."""
        comm = current()
        return comm.allgatherv(self.index + comm.exscan(len(self.labels)))

    def on_first_rank(
        self, work: Callable[[TrainingData], T], rng: np.random.Generator | None = None
    ) -> T:
        """Call ``work`` on rank 0 with the samples of all ranks, and broadcast the result.

        X can be indexed like an array of all samples. The state of ``rng`` is broadcast afterwards.
        """
        comm = current()
        all_rows = replace(
            self,
            y=comm.gather(self.y),
            weight=None if self.weight is None else comm.gather(self.weight),
            index=comm.gather(self.index + comm.exscan(len(self.labels))),
        )

        def run(X: Any) -> tuple[T, Any]:
            result = work(replace(all_rows, X=X))
            return result, None if rng is None else rng.bit_generator.state

        result, state = comm.root_only(run, self.X)
        if rng is not None:
            rng.bit_generator.state = state
        return result


def _validated(
    estimator: Any, X: Any, y: Any, task: str, *, continues: bool = False, **options: Any
) -> tuple[NDArray, NDArray, dict[str, Any]]:
    """Return X and y as arrays, and the fitted attributes about the columns."""
    _check_target(y, task)
    X, encoded = encode_frame(estimator, X, y, task, continues=continues)
    # `validate_data` sets attributes of the estimator that it is given.
    probe = copy(for_encoded_features(estimator) if continues else estimator)
    with _advice_on_missing_values():
        X, y = validate_data(probe, X, y, dtype=FLOATS, reset=not continues, **options)
    return X, y, encoded or {n: v for n, v in vars(probe).items() if n in COLUMNS}


def _check_target(y: Any, task: str) -> None:
    """Raise ValueError for missing values in text, and for text in a regression."""
    try:
        # A conversion of a list to an array of text would replace missing values by text.
        values = np.asarray(y, object if isinstance(y, (list, tuple)) else None)
    except ValueError:  # `validate_data` explains it.
        return
    if y is None or values.dtype.kind not in "OSUT":
        return
    values = values.ravel()
    n_missing = sum(map(_is_missing, values.tolist()))
    if n_missing:
        raise ValueError(
            f"y has missing values ({n_missing} of {values.size}); remove these samples"
        )
    if task == "regression":
        text = next((v for v in values.tolist() if isinstance(v, str) and not is_number(v)), None)
        if text is not None:
            raise ValueError(
                f"y must hold numbers in a regression; got {text[:40]!r}; use a classifier to "
                "predict classes"
            )


def _is_missing(value: Any) -> bool:
    is_nan = isinstance(value, float) and value != value
    return is_nan or value is None or type(value).__name__ in ("NAType", "NaTType")


def loss_attributes(
    losses: NDArray, weight: NDArray | None, index: NDArray, n_samples: int
) -> dict[str, Any]:
    """Return the fitted attributes about the losses of the samples ``index``, NaN for others."""
    comm, all_losses = current(), np.full(n_samples, np.nan)
    all_losses[index] = losses
    max_loss = comm.largest(float(losses.max(initial=-np.inf)))
    if comm.is_serial:
        mean = np.average(losses, weights=weight)
    else:
        weight = np.ones(len(losses)) if weight is None else weight
        total, weights = comm.sum(np.array([weight @ losses, weight.sum()]))
        mean = total / weights
    return {"training_losses_": all_losses, "max_loss_": max_loss, "mean_loss_": float(mean)}


def _sum_of_hashes(X: NDArray, y: NDArray, weight: NDArray | None, first: int) -> int:
    """Return the sum of the hashes of all samples, including labels, weights and sample numbers."""
    columns = [np.arange(first, first + len(y)), np.asarray(y, np.int64)]
    if weight is not None:
        columns.append(np.asarray(weight, np.float64).view(np.int64))
    total = 0
    for x, values in zip(X, np.stack(columns, axis=1), strict=True):
        row = hashlib.blake2b(x.data, digest_size=DIGEST_BITS // 8, salt=b"row")
        row.update(values.data)
        total += int.from_bytes(row.digest(), "little")
    return total


def _check_ranks_agree(
    comm: Communicator, data: TrainingData, is_weighted: bool, classes: ArrayLike | None
) -> None:
    """Raise DifferentRanksError or ValueError if the data of the ranks are incompatible."""
    if encoders_differ(comm, data.columns):
        raise mark_collective(
            ValueError(
                "ranks have inferred different encodings of their data frames; fit one "
                "TableEncoder to all rows, and pass the encoded features"
            )
        )
    names = data.columns.get("feature_names_in_")
    comm.require_equal(
        {
            "number of features": data.X.shape[1],
            "names of features": None if names is None else tuple(names),
            "type of features": data.X.dtype.str,
            "classes": None if classes is None else np.asarray(classes).tolist(),
            "use of sample_weight": is_weighted,
        }
    )
    weights = 1.0 if data.weight is None else float(data.weight.sum())
    if not comm.total(len(data.y)) or not comm.largest(weights):
        raise mark_collective(ValueError("there are no samples of positive weight on any rank"))


def check_labels(y: NDArray, classes: NDArray, remedy: str = "") -> None:
    """Raise ValueError if a label is not one of the classes."""
    is_known = np.isin(y, classes)
    if not is_known.all():
        raise ValueError(
            f"y has the label {y[~is_known].tolist()[0]!r}, which is not one of the classes "
            f"{classes.tolist()}{remedy}"
        )


def check_magnitude(X: NDArray) -> None:
    """Raise ValueError if the norm of a subgradient would overflow."""
    limit = 1e-4 * math.sqrt(float(np.finfo(X.dtype).max))
    largest = float(np.abs(X).max(initial=0.0))
    if largest > limit:
        raise ValueError(
            f"X reaches {largest:g}, but training in {X.dtype} supports at most {limit:g}; scale "
            "the features, for example with StandardScaler"
        )


def check_sample_weight(
    sample_weight: ArrayLike | None, n_samples: int, *, allow_zeros: bool = False
) -> NDArray | None:
    """Validate sample weights: finite, >= 0 and, unless ``allow_zeros``, not all 0."""
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
    if not allow_zeros and not weight.any():
        raise ValueError("sample_weight is zero for all samples; at least one must be above zero")
    return weight


def validate_samples(estimator: Any, X: Any, model: Network) -> NDArray:
    """Validate the samples of X for a fitted estimator, and convert them to the model's dtype."""
    return _within_range(_check_samples(estimator, X), model)


def _check_samples(estimator: Any, X: Any, *, finite: bool = True) -> NDArray:
    """Validate the samples of X, without copying numeric arrays.

    With ``finite=False``, `_within_range` must check for values that are not finite.
    """
    X = numeric_features(estimator, X)
    # Integers are not converted to floats, which would copy all samples.
    is_integer = getattr(getattr(X, "dtype", None), "kind", "") in ("b", "i", "u")
    dtype = None if is_integer else FLOATS
    with _advice_on_missing_values():
        return validate_data(
            for_encoded_features(estimator), X, dtype=dtype, reset=False, ensure_all_finite=finite
        )


@contextmanager
def _advice_on_missing_values() -> Iterator[None]:
    """Replace scikit-learn's advice on missing values, which recommends other estimators."""
    try:
        yield
    except ValueError as error:
        if str(error).startswith("Input X contains NaN"):
            raise ValueError(MISSING_VALUES) from None
        raise


def _within_range(X: NDArray, model: Network, estimator: Any = None) -> NDArray:
    """Convert X to the model's dtype, clipped to the range in which no score overflows.

    With an ``estimator``, raise ValueError for values that are not finite.
    """
    if isinstance(model, TermSum):
        limit = model.largest_input
    else:
        steepest = max(1.0, float(np.abs(getattr(model, "A", 1.0)).max()))
        limit = float(np.finfo(model.dtype).max) / (8.0 * steepest * model.n_features)
    # np.abs(X).max() would allocate a temporary array.
    high, low = float(X.max(initial=0.0)), float(X.min(initial=0.0))
    if not (high <= limit and -low <= limit):
        if estimator is not None:
            with _advice_on_missing_values():
                assert_all_finite(X, estimator_name=type(estimator).__name__, input_name="X")
        X = np.clip(X, -limit, limit)
    return np.ascontiguousarray(X, model.dtype)


def predict_in_batches(
    estimator: Any,
    X: Any,
    model: Network,
    output: Callable[[NDArray], NDArray],
) -> NDArray:
    """Return ``output(scores)`` for all samples of X.

    The argument of ``output`` has shape (n, C), and its result has n rows. Temporary arrays have
    the size of a batch.
    """
    X = _check_samples(estimator, X, finite=False)
    n_samples = X.shape[0]
    size = max(1, BATCH_VALUES // (model.n_features + model.n_classes))
    outputs = None
    with threads(estimator.n_jobs):
        for start in range(0, n_samples, size):
            rows = slice(start, start + size)
            part = output(model.scores(_within_range(X[rows], model, estimator)))
            if n_samples <= size:
                return np.ascontiguousarray(part)
            if outputs is None:
                outputs = np.empty((n_samples, *part.shape[1:]), part.dtype)
            outputs[rows] = part
    assert outputs is not None
    return outputs


class Scaling(NamedTuple):
    """Affine map z = (x − centre) / spread of the features."""

    centre: NDArray
    spread: NDArray

    @classmethod
    def identity(cls, n_features: int) -> Scaling:
        """Return the identity map."""
        return cls(np.zeros(n_features), np.ones(n_features))

    @classmethod
    def from_rows(cls, X: NDArray) -> Scaling:
        """Estimate the mean and standard deviation of each feature after clipping outliers.

        Outliers are outside the 5 % and 95 % quantiles by more than 1.5 times the distance
        between the quantiles. Features whose quantiles coincide are not clipped. The spread of
        constant features is 1. Features that look like pixels (`looks_like_pixels`) are not scaled.
        """
        N, P = X.shape
        if looks_like_pixels(X):
            return cls.identity(P)
        centre, spread = np.empty(P), np.empty(P)
        step = max(1, SCALING_VALUES // N)
        for start in range(0, P, step):
            part = slice(start, start + step)
            Z = X[:, part].astype(np.float64)
            low, high = np.quantile(Z, QUANTILES, axis=0)
            width = np.where(high > low, OUTLIER_FACTOR * (high - low), np.inf)
            Z = np.clip(Z, low - width, high + width)
            centre[part], spread[part] = Z.mean(axis=0), Z.std(axis=0)
        minimum = np.maximum(ROUNDING * np.abs(centre), 1e4 * float(np.finfo(X.dtype).tiny))
        return cls(centre, np.where(spread > minimum, spread, 1.0))

    @property
    def is_identity(self) -> bool:
        """True if the scaling is the identity."""
        return not self.centre.any() and bool((self.spread == 1.0).all())

    def __call__(self, X: NDArray) -> NDArray:
        """Scale X, preserving its dtype. The identity map returns X itself."""
        if isinstance(X, SharedRows):
            return X.transformed(self)
        if self.is_identity:
            return X
        scaled = np.empty(X.shape, X.dtype)
        step = max(1, SCALING_VALUES // max(X.shape[1], 1))
        for start in range(0, len(X), step):
            part = slice(start, start + step)
            scaled[part] = (X[part].astype(np.float64) - self.centre) / self.spread
        return scaled

    def inverse(self, Z: NDArray) -> NDArray:
        """Invert the scaling, preserving the dtype of Z."""
        return Z if self.is_identity else (Z * self.spread + self.centre).astype(Z.dtype)

    def folded(self, model: LMM) -> LMM:
        """Convert a model that takes z to the equivalent model that takes x."""
        return model if self.is_identity else model.folded(self.centre, self.spread)


def looks_like_pixels(X: NDArray) -> bool:
    """Return whether the features look like pixels on an empty background.

    There must be more than 50 features and no negative values. At least a quarter of the values
    must be 0. Features must have a common range: all values are in [0, 1], or the median of the
    features' maxima is at least half of the largest maximum. Standardisation would amplify border
    pixels that are almost always 0.
    """
    if X.shape[1] <= MIN_PIXELS or X.min() < 0 or count_nonzero(X) > (1.0 - MIN_ZEROS) * X.size:
        return False
    highest = X.max(axis=0)
    return bool(highest.max() <= 1.0 or np.median(highest) >= 0.5 * highest.max())
