"""Explanations of predictions: contributions or active paths, and counterfactuals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.explain._shared import Tabular, check_class_names, check_domain, check_lmm, records
from maxplus.explain.contributions import Contributions, contributions, signed
from maxplus.explain.counterfactuals import Counterfactuals, nearest_counterfactuals
from maxplus.explain.domain import Domain
from maxplus.explain.units import Paths, active_paths, unit_boxes
from maxplus.models import LMM
from maxplus.models._checks import as_rows, check_index
from maxplus.models._softmax import softmax
from maxplus.models.additive import breakpoints
from maxplus.models.lmm import TermSum


class CounterfactualText(NamedTuple):
    """A counterfactual as text; all fields are empty if no change of a column is sufficient."""

    column: str = ""
    before: str = ""
    after: str = ""
    new_class: str = ""


@dataclass(frozen=True)
class Explanation(Tabular):
    """Explanations of the predicted classes of samples, and their counterfactuals.

    A sum of terms is explained by ``contributions`` to the margin of the predicted class over the
    runner-up. A single network is explained by ``paths``: each class score is determined by one
    unit and one of its walls. The other attribute is None.

    Attributes
    ----------
    model : LMM or AdditiveLMM
    X : array of shape (N, P), the samples
    score : array of shape (N, C)
    counterfactuals : Counterfactuals, the smallest change of one column that changes the class
    class_names : names of the C classes
    domain : Domain, the columns and the values that they may take
    contributions : Contributions, the margin over the runner-up as an exact sum over columns
    paths : Paths, the unit, the wall and the second-best unit of each score
    prototypes : index of the training sample at which each unit was initialised, or None
    missing : bool array of shape (N, number of columns), or None
        Mask of missing values, which were imputed.
    row_numbers : N integers, the numbers of the samples in the text; None for 1 to N

    Notes
    -----
    In texts, samples are called rows and numbered from 1, like the training samples. In arrays and
    tables, indices start at 0.
    """

    model: TermSum
    X: NDArray
    score: NDArray
    counterfactuals: Counterfactuals
    class_names: Sequence[str]
    domain: Domain
    contributions: Contributions | None = None
    paths: Paths | None = None
    prototypes: NDArray | None = None
    missing: NDArray | None = None
    row_numbers: Sequence[int] | None = None

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.X)

    @property
    def feature_names(self) -> Sequence[str]:
        """Names of the features."""
        return self.domain.names

    @cached_property
    def probability(self) -> NDArray:
        """Probabilities of the classes, (N, C)."""
        return softmax(self.score)

    @cached_property
    def order(self) -> NDArray:
        """Classes of each sample by decreasing score, (N, C)."""
        return np.argsort(-self.score, axis=1, kind="stable")

    @property
    def predicted(self) -> NDArray:
        """Index of the predicted class of each sample, (N,)."""
        return self.order[:, 0]

    def _require_contributions(self) -> Contributions:
        if self.contributions is None:
            raise AttributeError("a single network has no contributions; see its paths")
        return self.contributions

    def _require_paths(self) -> Paths:
        if self.paths is None:
            raise AttributeError("a sum of terms has no active units; see its contributions")
        return self.paths

    @cached_property
    def linear_range(self) -> NDArray:
        """Interval around each value in which its contribution is linear, (N, G, 2).

        Only available for a sum of terms. In the interval, the contributions to the scores of the
        predicted class and the runner-up are linear functions of the mapped value. The ends are in
        raw units. They are infinite if the slope does not change on that side, for missing values,
        for groups of several columns, and for categorical, ordinal and two-valued columns.
        O(N·log H) for each numeric column, and O(C·H·log H) for its terms.
        """
        found, domain, model = self._require_contributions(), self.domain, self.model
        U = model.mapped(found.X).astype(np.float64)
        linear_range = np.tile([-np.inf, np.inf], (*found.contribution.shape, 1))
        few = {p for p, values in domain.values.items() if len(values) <= 2} | set(domain.ordinals)
        for g, group in enumerate(found.groups):
            p = group[0]
            terms = [model.terms[t] for t in np.flatnonzero(found.group_of_term == g)]
            lmms = [lmm.astype(np.float64) for features, lmm in terms if features.tolist() == [p]]
            is_joint = any(features.size > 1 for features, _ in terms)
            if is_joint or not lmms or p in few or domain.category_of[p] >= 0:
                continue
            for classes in (found.predicted, found.rival):
                for d in np.unique(classes):
                    rows = np.flatnonzero((classes == d) & ~found.is_missing[:, p])
                    ends = _adjacent_breakpoints(lmms, d, U[rows, p])
                    if model.feature_map is not None:
                        ends = model.feature_map.inverse(p, ends)
                    linear_range[rows, g, 0] = np.maximum(linear_range[rows, g, 0], ends[:, 0])
                    linear_range[rows, g, 1] = np.minimum(linear_range[rows, g, 1], ends[:, 1])
        return linear_range

    @property
    def prototype(self) -> NDArray:
        """Training sample at which the active unit of each score was initialised, (N, C).

        Only available for a single network. −1 if it is unknown.
        """
        units = self._require_paths().unit
        return np.full_like(units, -1) if self.prototypes is None else self.prototypes[units]

    @cached_property
    def centres(self) -> NDArray:
        """Feature values at which each unit of a single network is highest, (H, P).

        NaN for features that do not have a wall on both sides.
        """
        self._require_paths()
        return unit_boxes(self.model.terms[0].lmm).centre

    @cached_property
    def slope(self) -> NDArray:
        """Slope of the active wall of each score of a single network, (N, C)."""
        return self.model.terms[0].lmm.W0[self._require_paths().row]

    @cached_property
    def cancels(self) -> NDArray:
        """Mask of scores whose active feature cancels in the margin over the rival, (N, C).

        Only available for a single network. The rival of the predicted class is the runner-up. The
        rival of any other class is the predicted class. A feature cancels if it determines both
        scores with the same slope, so that their difference does not depend on it.
        """
        feature = self._require_paths().feature
        if self.order.shape[1] < 2:
            return np.zeros(self.order.shape, bool)
        is_same = feature == np.take_along_axis(feature, self._rivals, axis=1)
        return is_same & (self.slope == np.take_along_axis(self.slope, self._rivals, axis=1))

    @cached_property
    def _rivals(self) -> NDArray:
        """Rival of each class, (N, C): the predicted class or, for that class, the runner-up."""
        rivals = np.repeat(self.order[:, :1], self.order.shape[1], axis=1)
        np.put_along_axis(rivals, self.order[:, :1], self.order[:, :2][:, -1:], axis=1)
        return rivals

    @cached_property
    def counterfactual_texts(self) -> list[CounterfactualText]:
        """Counterfactual of each sample as text."""
        return [self._counterfactual_text(n) for n in range(len(self))]

    def _counterfactual_text(self, n: int) -> CounterfactualText:
        p = int(self.counterfactuals.feature[n])
        if p < 0:
            return CounterfactualText()
        column = self.domain.column_names[p]
        was_missing = column in self._missing_columns(n)
        changed = self.domain.changed(self.X[n], p, self.counterfactuals.shown[n])[0]
        return CounterfactualText(
            column,
            "missing" if was_missing else self.domain.text(self.X[n], p),
            self.domain.text(changed, p, exact=True),
            str(self.class_names[self.counterfactuals.new_class[n]]),
        )

    def _missing_columns(self, n: int) -> list[str]:
        if self.missing is None:
            return []
        return [self.domain.columns[k] for k in np.flatnonzero(self.missing[n])]

    def to_records(self) -> np.recarray:
        """Return a record for each sample and group of columns, or for each sample and class.

        ``row`` is the index of the sample. For a sum of terms, the records of a sample are sorted
        by decreasing |contribution|. ``baseline`` plus the ``contribution`` of all records of a
        sample is its ``margin``, the difference of the scores of ``class`` and ``rival``. ``low``
        and ``high`` are the ends of `linear_range`.

        For a single network, there is a record for each class. ``feature`` determines the score of
        ``class``, and ``value`` is its value. ``cancels`` is the mask of the same name, and
        ``margin`` is the value of the unit minus that of ``runner_up``.

        ``counterfactual_class`` is the class that is predicted if ``counterfactual_feature``, a
        column, changes from ``counterfactual_from`` to ``counterfactual_to``. In these texts,
        numbers are rounded. ``counterfactual_value`` is the exact number; for a category it is 1,
        or 0 for none of the known categories. ``counterfactual_distance`` is its distance in units.
        """
        columns = (
            self._path_columns() if self.contributions is None else self._contribution_columns()
        )
        column, before, after, new_class = np.array(self.counterfactual_texts, str).reshape(-1, 4).T
        flips = {
            "feature": column,
            "from": before,
            "to": after,
            "value": self.counterfactuals.value,
            "distance": self.counterfactuals.distance,
            "class": new_class,
        }
        row = columns["row"]
        return records(
            columns | {f"counterfactual_{name}": values[row] for name, values in flips.items()}
        )

    def _contribution_columns(self) -> dict[str, NDArray]:
        found = self._require_contributions()
        columns = found.columns()
        row, g = columns.pop("row"), columns.pop("group")
        classes = np.array([str(name) for name in self.class_names])
        return {
            "row": row,
            "class": classes[found.predicted][row],
            "rival": classes[found.rival][row],
            "probability": self.probability[row, found.predicted[row]],
            **columns,
            "low": self.linear_range[row, g, 0],
            "high": self.linear_range[row, g, 1],
        }

    def _path_columns(self) -> dict[str, NDArray]:
        path = self._require_paths()
        row, d = (axis.ravel() for axis in np.indices(path.unit.shape))
        p = path.feature.ravel()
        return {
            "row": row,
            "class": np.array([str(name) for name in self.class_names])[d],
            "predicted": self.predicted[row] == d,
            "score": path.score.ravel(),
            "probability": self.probability.ravel(),
            "unit": path.unit.ravel(),
            "prototype": self.prototype.ravel(),
            "feature": np.array([str(name) for name in self.feature_names])[p],
            "value": self.X[row, p],
            "slope": self.slope.ravel(),
            "cancels": self.cancels.ravel(),
            "runner_up": path.runner_up.ravel(),
            "margin": path.margin.ravel(),
        }

    def __str__(self) -> str:
        """Return the texts of all samples, separated by empty lines."""
        return "\n\n".join(self.text(n) for n in range(len(self)))

    def text(self, n: int) -> str:
        """Return the prediction, explanation and counterfactual of sample n (zero-based)."""
        n = check_index("n", n, len(self))
        number = n + 1 if self.row_numbers is None else self.row_numbers[n]
        winner = self.predicted[n]
        head = f"Row {number}: {self.class_names[winner]}"
        lines = [f"{head} (probability {self.probability[n, winner]:.3f})"]
        reasons = self._path_lines(n) if self.contributions is None else self._contribution_lines(n)
        return "\n".join(lines + [f"  {line}" for line in reasons + self._counterfactual_lines(n)])

    def _counterfactual_lines(self, n: int) -> list[str]:
        """Return a line for the counterfactual of sample n and one for each missing value."""
        flip = self.counterfactual_texts[n]
        text = "no change of a single feature changes the prediction"
        if flip.column:
            text = (
                f"changes to {flip.new_class} if {flip.column} goes from {flip.before} to "
                f"{flip.after}, the smallest change of a single feature"
            )
        lines = [text]
        for name in self._missing_columns(n):
            p = self.domain.column_names.index(name)
            is_own_category = self.domain.category_of[p] >= 0 and p in self.domain.indicators
            value = f" and was imputed with {self.domain.text(self.X[n], p)}"
            lines.append(
                f"{name} was missing"
                + (", which is a category of its own" if is_own_category else value)
            )
        return lines

    def _contribution_lines(self, n: int) -> list[str]:
        """Return the margin over the runner-up, and the largest contributions to it."""
        found = self._require_contributions()
        winner, rival = (str(self.class_names[d]) for d in (found.predicted[n], found.rival[n]))
        lines = [
            f"{winner} rather than {rival}: margin {signed(found.margin[n], '')}, the sum of",
            f"  {signed(found.baseline[n], '')} on average",
        ]
        for g in found.listed_groups(n):
            phrase = found.phrase(n, g) + self._interval_text(n, g)
            lines.append(f"  {signed(found.contribution[n, g], '')} from {phrase}")
        value, count = found.remainder(n)
        return lines + ([f"  {signed(value, '')} from {count}"] if count else [])

    def _interval_text(self, n: int, g: int) -> str:
        """Return the interval of `linear_range` for group g as text: " (between 54.5 and 68)"."""
        p = self._require_contributions().groups[g][0]
        decimals = 1 - int(np.floor(np.log10(self.domain.unit[p])))
        low, high = (
            self.domain.number(p, round(float(end), decimals)) if np.isfinite(end) else ""
            for end in self.linear_range[n, g]
        )
        if low and high:
            return f" (between {low} and {high})"
        return f" (above {low})" if low else f" (below {high})" if high else ""

    def _path_lines(self, n: int) -> list[str]:
        """Return a line for each class, by decreasing score."""
        order = self.order[n].tolist()
        lines = [self._path_line(n, d) for d in order]
        if self.cancels[n, order[0]]:
            first, second = (self.class_names[d] for d in order[:2])
            lines.append(
                f"{first} rather than {second}: the margin depends on the offsets of the units, "
                "not on a column"
            )
        return lines

    def _path_line(self, n: int, d: int) -> str:
        """Return a line with the score, the active unit and the active wall of class d."""
        path = self._require_paths()
        unit, p = int(path.unit[n, d]), int(path.feature[n, d])
        text = f"class {self.class_names[d]}: score {path.score[n, d]:.4g}, unit {unit}"
        if self.prototypes is not None:
            text += f", initialised at training row {self.prototypes[unit] + 1}"
        wall = f"{self.domain.phrase(p, float(self.X[n, p]))} (slope {self.slope[n, d]:.3g})"
        if self.cancels[n, d]:
            text += f"; {wall} cancels against class {self.class_names[self._rivals[n, d]]}"
        else:
            text += f"; decided by {wall}"
        if path.runner_up[n, d] >= 0:
            text += f"; ahead of unit {path.runner_up[n, d]} by {path.margin[n, d]:.3g}"
        return text


def explain_predictions(
    model: TermSum,
    X: ArrayLike,
    baseline: ArrayLike | None,
    class_names: Sequence[str],
    domain: Domain,
    *,
    prototypes: NDArray | None = None,
    missing: NDArray | None = None,
    row_numbers: Sequence[int] | None = None,
) -> Explanation:
    """Explain predictions by contributions of columns or, for one network, by active units.

    Parameters
    ----------
    model : LMM or AdditiveLMM
    X : array of shape (N, P), in raw units
    baseline : array of shape (T, C), or None
        Mean scores of each term over the training samples (`term_means`), to which contributions
        are relative. If None, the model must be an LMM and is explained by its active units.
    class_names : C strings
    domain : Domain
        The columns, their names, and the values that they may take.
    prototypes : array of shape (H,), optional
        Index of the training sample at which each unit of a single network was initialised.
    missing : bool array of shape (N, number of columns), optional
        Mask of missing values, which were imputed.
    row_numbers : N integers, optional
        Numbers of the samples in the text; 1 to N by default.

    Returns
    -------
    Explanation

    Examples
    --------
    >>> import numpy as np
    >>> from maxplus.explain import Domain, explain_predictions, term_means
    >>> from maxplus.models import LMM, AdditiveLMM, Term
    >>> steps = LMM.from_boxes([[0.0], [1.0]], 0.5, np.eye(2), slope=1.0)
    >>> model = AdditiveLMM([Term([0], steps), Term([1], steps)], n_features=2)
    >>> means = term_means(model, np.array([[0.0, 0.0], [1.0, 0.0]]))
    >>> domain = Domain.unrestricted(2, names=["age", "mg"]).within(0, 1)
    >>> print(explain_predictions(model, [[1.0, 0.25]], means, ["ill", "well"], domain))
    Row 1: well (probability 0.622)
      well rather than ill: margin +0.50, the sum of
        −1.00 on average
        +1.00 from age = 1 (above 1)
        +0.50 from mg = 0.25 (between 0 and 1)
      changes to ill if age goes from 1 to 0.7, the smallest change of a single feature
    """
    check_class_names(class_names, model)
    check_domain(domain, model.n_features)
    X = as_rows(X, model.n_features, np.float64)
    if row_numbers is not None and len(row_numbers) != len(X):
        raise ValueError(
            f"row_numbers must hold {len(X)} numbers, one for each row of X; got {len(row_numbers)}"
        )
    paths = parts = None
    if baseline is None:
        remedy = "compute the baseline of a sum of terms with term_means"
        paths = active_paths(check_lmm(model, "an explanation without a baseline", remedy), X)
    else:
        parts = contributions(model, X, baseline, class_names=class_names, domain=domain)
    score = model.scores(X) if paths is None else paths.score
    flips = nearest_counterfactuals(model, X, domain)
    return Explanation(
        model, X, score, flips, class_names, domain, parts, paths, prototypes, missing, row_numbers
    )


def missing_columns(missing: ArrayLike | None, n_rows: int, domain: Domain) -> NDArray | None:
    """Return the mask of missing values, (N, columns), from a mask of columns or of features."""
    if missing is None:
        return None
    mask = np.asarray(missing)
    n_columns = len(domain.columns)
    if mask.dtype != bool or mask.shape not in ((n_rows, n_columns), (n_rows, domain.n_features)):
        raise ValueError(
            f"missing must be a boolean mask of {n_rows} rows and {n_columns} columns; got dtype "
            f"{mask.dtype} and shape {mask.shape}"
        )
    if mask.shape[1] == n_columns:
        return mask
    names = np.array(domain.column_names)
    return np.stack([mask[:, names == name].any(axis=1) for name in domain.columns], axis=1)


def _adjacent_breakpoints(lmms: Sequence[LMM], d: int, u: NDArray) -> NDArray:
    """Return the nearest breakpoints of class d below and above each mapped value, (N, 2).

    They are infinite if there is no breakpoint on that side.
    """
    points = [breakpoints(LMM(lmm.W0, lmm.W1, lmm.W2[:, [d]])) for lmm in lmms]
    ends = np.concatenate([[-np.inf], np.sort(np.concatenate(points)), [np.inf]])
    k = np.clip(np.searchsorted(ends, u, side="right"), 1, ends.size - 1)
    return np.stack([ends[k - 1], ends[k]], axis=1)
