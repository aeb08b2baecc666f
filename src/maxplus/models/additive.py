"""Sums of Linear-Min-Max terms over subsets of the features, and pruning of units."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from maxplus.algebra import minplus
from maxplus.models._checks import check_affine, check_number
from maxplus.models.feature_map import FeatureMap
from maxplus.models.lmm import LMM, Term, TermSum


class AdditiveLMM(TermSum):
    """Sum of LMMs over subsets of the features, z(x) = b + Σ_t z_t(φ(x)[features_t]).

    Terms over one feature are the summands of shape functions, terms over two features model
    interactions, and terms over all features are complete LMMs. The scores of a single term over
    all features, without a feature map or an intercept, are equal to those of its LMM. The mean of
    K networks is the sum of their terms times 1/K.

    Parameters
    ----------
    terms : iterable of `Term`
        At least one term, all with the same number of classes and the same float type.
    n_features : int
    feature_map : FeatureMap, optional
        Map φ of all features; the identity by default.
    intercept : array of shape (C,), optional
        Intercept b; zeros by default.

    Notes
    -----
    Scores are added in the order of the terms, in their float type; the intercept comes first. A
    term over m features with H units costs O(N·H·(m + C)).

    Examples
    --------
    >>> import numpy as np
    >>> from maxplus.models import LMM, AdditiveLMM, Term
    >>> steps = LMM.from_boxes([[0.0], [1.0]], 0.5, np.eye(2), slope=1.0)
    >>> model = AdditiveLMM([Term([0], steps), Term([1], steps)], n_features=2)
    >>> model.scores(np.array([[0.0, 1.0]]))
    array([[2., 2.]])
    """

    is_sum = True

    def __init__(
        self,
        terms: Iterable[Term | tuple[ArrayLike, LMM]],
        n_features: int,
        feature_map: FeatureMap | None = None,
        intercept: ArrayLike | None = None,
    ) -> None:
        self._n_features = n_features
        self._terms = tuple(
            Term(_feature_indices(t, features, lmm, n_features), lmm)
            for t, (features, lmm) in enumerate(terms)
        )
        if not self.terms:
            raise ValueError("terms must hold at least one term; got none")
        for name in ("n_classes", "dtype"):
            values = [getattr(term.lmm, name) for term in self.terms]
            if any(value != values[0] for value in values):
                listed = ", ".join(map(str, values))
                raise ValueError(f"terms must have the same {name}; got {listed}")
        if feature_map is not None and feature_map.n_features != n_features:
            raise ValueError(
                f"feature_map must have {n_features} features, like the model; "
                f"got {feature_map.n_features}"
            )
        self._feature_map = feature_map
        b = np.zeros(self.n_classes) if intercept is None else np.asarray(intercept)
        if b.shape != (self.n_classes,) or not np.isfinite(b).all():
            raise ValueError(
                f"intercept must hold {self.n_classes} finite numbers, one for each class; "
                f"got {intercept!r:.80}"
            )
        self._intercept = b.astype(self.dtype)

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms of the sum."""
        return self._terms

    @property
    def feature_map(self) -> FeatureMap | None:
        """φ, or None for the identity."""
        return self._feature_map

    @property
    def intercept(self) -> NDArray:
        """b, shape (C,)."""
        return self._intercept

    @property
    def n_features(self) -> int:
        """Number of inputs P."""
        return self._n_features

    @property
    def n_classes(self) -> int:
        """Number of classes C."""
        return self.terms[0].lmm.n_classes

    @property
    def dtype(self) -> np.dtype:
        """Float type of weights and scores."""
        return self.terms[0].lmm.dtype

    @property
    def n_hidden(self) -> int:
        """Number of hidden units H of all terms."""
        return sum(term.lmm.n_hidden for term in self.terms)

    def scores(self, X: ArrayLike) -> NDArray:
        """Return the scores z, shape (N, C); O(N·Σ_t H_t·(m_t + C))."""
        U = self.mapped(X)
        Z = np.tile(self.intercept, (len(U), 1))
        for lmm, rows in self.term_rows(U):
            Z += lmm.scores(rows)
        return Z

    def weights_by_name(self) -> dict[str, NDArray]:
        """Return the weights of each term, "0.W2", "0.W1", …, and the intercept."""
        named = {
            f"{t}.{name}": W
            for t, term in enumerate(self.terms)
            for name, W in term.lmm.weights_by_name().items()
        }
        return {**named, "intercept": self.intercept}

    @classmethod
    def mean(cls, models: Sequence[AdditiveLMM | LMM]) -> AdditiveLMM:
        """Return the mean of K models as one sum: all their terms, in order, times 1/K.

        Parameters
        ----------
        models : sequence of AdditiveLMM or LMM
            At least one model, all with the same features, classes, float type and feature map.

        Returns
        -------
        AdditiveLMM

        Examples
        --------
        >>> import numpy as np
        >>> from maxplus.models import LMM, AdditiveLMM
        >>> one, other = (LMM.from_boxes([[c]], 0.0, [[1.0, 0.0]], slope=1.0) for c in (0.0, 2.0))
        >>> AdditiveLMM.mean([one, other]).scores(np.array([[0.0]]))
        array([[ 0., -1.]])
        """
        if not models:
            raise ValueError("models must hold at least one model; got none")
        n_features, feature_map = models[0].n_features, models[0].feature_map
        for k, model in enumerate(models):
            if model.n_features != n_features or model.feature_map != feature_map:
                raise ValueError(
                    f"models must have the same number of features and the same feature map; "
                    f"model {k} differs from model 0"
                )
        factor = 1.0 / len(models)
        terms = [Term(f, lmm.scaled(factor)) for model in models for f, lmm in model.terms]
        b = np.mean([model.intercept for model in models], axis=0, dtype=np.float64)
        return cls(terms, n_features, feature_map, b)

    def folded(self, centre: ArrayLike, spread: ArrayLike) -> AdditiveLMM:
        """Return a model whose scores at x are those of this model at (x − centre) / spread.

        Scores are equal up to rounding. The transformation is applied to the knots of the feature
        map or, without a feature map, to the weights of each term (`LMM.folded`).
        """
        c, s = check_affine(centre, spread, self.n_features)
        terms, feature_map = self.terms, self.feature_map
        if feature_map is not None:
            feature_map = feature_map.folded(c, s)
        else:
            terms = tuple(Term(f, lmm.folded(c[f], s[f])) for f, lmm in terms)
        return AdditiveLMM(terms, self.n_features, feature_map, self.intercept)

    def scaled(self, factor: float) -> AdditiveLMM:
        """Return the model with all weights, and hence all scores, times factor > 0."""
        f = check_number("factor", factor, above=0.0)
        terms = [Term(features, lmm.scaled(f)) for features, lmm in self.terms]
        return AdditiveLMM(terms, self.n_features, self.feature_map, f * self.intercept)

    def astype(self, dtype: DTypeLike) -> AdditiveLMM:
        """Return the model in another float type."""
        terms = [Term(features, lmm.astype(dtype)) for features, lmm in self.terms]
        return AdditiveLMM(terms, self.n_features, self.feature_map, self.intercept)


def _feature_indices(t: int, features: ArrayLike, lmm: LMM, n_features: int) -> NDArray:
    """Return the features of term t as an array; ValueError if they are not valid."""
    indices = np.asarray(features)
    if (
        indices.ndim != 1
        or indices.size == 0
        or indices.dtype.kind not in "iu"
        or indices.min() < 0
        or indices.max() >= n_features
        or (np.diff(indices) <= 0).any()
    ):
        raise ValueError(
            f"features of term {t} must be increasing integers 0..{n_features - 1}; "
            f"got {features!r:.80}"
        )
    if lmm.n_features != indices.size:
        raise ValueError(
            f"the LMM of term {t} must have {indices.size} features, like the term; "
            f"got {lmm.n_features}"
        )
    return indices.astype(np.int64)


def terms_by_shape(model: TermSum) -> list[list[Term]]:
    """Return the terms in groups with equal numbers of features and units."""
    groups: dict[tuple[int, ...], list[Term]] = {}
    for term in model.terms:
        groups.setdefault(term.lmm.W1.shape, []).append(term)
    return list(groups.values())


def breakpoints(lmm: LMM) -> NDArray:
    """Return the unsorted points at which the slope of a score of an LMM of one feature changes.

    z_d(u) = max_h min(a·u + p_h, b·u + q_h) with a > b is the maximum of H concave functions, which
    differ only by a translation. A function is dominated if neither p_h nor q_h is larger than
    that of another function. Every function that is not dominated attains the maximum on one
    interval. There are at most 2H − 1 points for each class; O(C·H·log H).
    """
    (a, b), (P, Q) = lmm.W0, lmm.W1
    if a < b:
        a, b, P, Q = b, a, Q, P
    found = [np.empty(0)]
    for heights in lmm.W2.T if a > b else ():
        p, q = P + heights, Q + heights
        order = np.lexsort((-q, -p))
        p, q = p[order], q[order]
        is_kept = np.append(True, q[1:] > np.maximum.accumulate(q)[:-1])
        p, q = p[is_kept], q[is_kept]
        with np.errstate(over="ignore"):
            found += [(q - p) / (a - b), (q[:-1] - p[1:]) / (a - b)]
    points = np.concatenate(found)
    return points[np.isfinite(points)]


def dominated_units(model: TermSum) -> NDArray:
    """Return the mask, of shape (H,), of dominated units.

    Their removal does not change any score, up to rounding. Units are numbered consecutively, in
    the order of the terms, and compared within a term; at least one unit of each term is not
    dominated. O(Σ_t H_t²·(m_t + C)).
    """
    return np.concatenate([_dominated_in_term(lmm) for _, lmm in model.terms])


def _dominated_in_term(lmm: LMM) -> NDArray:
    """Return the mask, of shape (H,), of dominated units of an LMM.

    g_k(x) − g_h(x) ≥ D[h, k] = min_i (W1[i, k] − W1[i, h]) for all x, because the same λ_i is added
    to both. So if D[h, k] + W2[k, d] ≥ W2[h, d], unit k dominates unit h for class d. A unit is
    dominated if, for each class, a unit that is not dominated dominates it. Of several equal units,
    the one with the lowest index is kept. D is a min-plus product.
    """
    W1, W2 = lmm.W1.astype(np.float64), lmm.W2.astype(np.float64)
    D = minplus(np.ascontiguousarray(-W1.T), W1)
    np.fill_diagonal(D, -np.inf)
    dominated = np.zeros(lmm.n_hidden, bool)
    for h in reversed(range(lmm.n_hidden)):
        dominates = (D[h][:, None] + W2 >= W2[h]) & ~dominated[:, None]
        dominated[h] = dominates.any(axis=0).all()
    return dominated


def with_units(model: LMM | AdditiveLMM, units: NDArray) -> LMM | AdditiveLMM:
    """Return the network with a subset of its units, in increasing order.

    ValueError if a term would have no units.
    """
    ends = np.cumsum([lmm.n_hidden for _, lmm in model.terms])
    kept = np.unique(units)
    parts = np.split(kept, np.searchsorted(kept, ends[:-1]))
    terms = []
    for t, ((features, lmm), part) in enumerate(zip(model.terms, parts, strict=True)):
        if part.size == 0:
            raise ValueError(f"units must hold at least one unit of each term; term {t} has none")
        index = part - (ends[t] - lmm.n_hidden)
        terms.append(Term(features, LMM(lmm.W0.copy(), lmm.W1[:, index], lmm.W2[index])))
    if not model.is_sum:
        return terms[0].lmm
    return AdditiveLMM(terms, model.n_features, model.feature_map, model.intercept)
