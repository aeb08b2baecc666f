"""What a classifier looks at: features in units of their spread, and directions beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from sklearn.covariance import ledoit_wolf

from maxplus.distributed import SharedRows
from maxplus.estimators._scaling import FAR, Scaling, in_parts
from maxplus.models import LMM
from maxplus.training.state import StateError, TrainingState

# Rows that directions are found from.
ENOUGH = 20_000
CENTRE, SPREAD, DIRECTIONS, FEATURES = "centre", "spread", "directions", "sees_features"


class Views(NamedTuple):
    """v = D·(x − centre): features in units of their spread, directions, or both.

    Attributes
    ----------
    scaling : of the features
    directions : array of shape (K, P) on the raw features, or None
    sees_features : whether the features are among the views; then they come first
    """

    scaling: Scaling
    directions: NDArray | None = None
    sees_features: bool = True

    @classmethod
    def of_facts(cls, facts: Mapping[str, NDArray]) -> Views:
        """Those that `facts` describes."""
        scaling = Scaling(facts[CENTRE], facts[SPREAD])
        return cls(scaling, facts.get(DIRECTIONS), bool(facts[FEATURES][0]))

    @property
    def facts(self) -> dict[str, NDArray]:
        """All of it as arrays."""
        facts = {
            CENTRE: self.scaling.centre, SPREAD: self.scaling.spread,
            FEATURES: np.array([self.sees_features], np.int64),
        }  # fmt: skip
        return facts if self.directions is None else facts | {DIRECTIONS: self.directions}

    @property
    def matrix(self) -> NDArray:
        """D, shape (M, P), on the raw features."""
        own = [] if self.directions is None else [self.directions]
        features = [np.diag(1.0 / self.scaling.spread)] if self.sees_features else []
        return np.concatenate(features + own)

    def __call__(self, X: NDArray) -> NDArray:
        """The views (N, M), in X's type; O(N·P·K). Rows of ranks are seen where they are."""
        if isinstance(X, SharedRows):
            return X.seen(self)
        D = self.directions
        if D is None:
            return self.scaling(X)
        V = in_parts(X, lambda rows: (rows - self.scaling.centre) @ D.T, len(D))
        return np.concatenate([self.scaling(X), V], axis=1) if self.sees_features else V

    def features(self, V: NDArray) -> NDArray:
        """x, up to rounding, of views that have the features among them."""
        if self.directions is None and self.scaling.is_none:
            return V
        P, dtype = self.scaling.spread.size, V.dtype
        return (V[:, :P] * self.scaling.spread + self.scaling.centre).astype(dtype)

    @property
    def reach(self) -> float:
        """How far a view moves at most when each feature moves by its spread: max Σ|D|·spread."""
        if self.directions is None:
            return 1.0
        return float((np.abs(self.matrix) @ self.scaling.spread).max())

    def model(self, model: LMM) -> LMM:
        """The same function of x, for a model of these views."""
        if self.directions is not None:
            return model.through(self.matrix, self.scaling.centre)
        return model if self.scaling.is_none else model.folded(*self.scaling)


def discriminants(Z: NDArray, y: NDArray) -> NDArray | None:
    """Fisher's directions, (at most C − 1, P): the leading solutions of B·d = w·S·d.

    B is the covariance between the classes' means, S the one within classes with Ledoit and
    Wolf's shrinkage, so that few rows of many features give no direction that separates the
    training rows alone. None where nothing varies. O(N·P² + P³).
    """
    labels, y = np.unique(y, return_inverse=True)
    means = np.stack([Z[y == d].mean(axis=0) for d in range(labels.size)])
    between = (means - Z.mean(axis=0)) * np.sqrt(np.bincount(y) / len(y))[:, None]
    S, _ = ledoit_wolf(Z - means[y], assume_centered=True)
    B, P = between.T @ between, Z.shape[1]
    ridge = 1e-9 * float(np.trace(S) + np.trace(B)) / P
    n = min(labels.size - 1, P)
    if not (n and 0.0 < ridge < np.inf):
        return None
    _, v = eigh(B, S + ridge * np.eye(P), subset_by_index=[P - n, P - 1])
    return v[:, ::-1].T


def find_directions(
    X: NDArray, y: NDArray, scaling: Scaling, given: NDArray | None = None
) -> NDArray | None:
    """Directions (K, P) on raw features that vary as much as a typical feature; None if none does.

    They are discriminants, or those that are given. Of many rows some are enough: O(P² + P³)
    beyond 20,000. Lengths are such that a distance along a direction and one along a feature
    compare: both have the same variance, in units of the features' spread.
    """
    if X.shape[1] == 1 and given is None:
        return None  # it would be the feature
    every = -(-len(X) // ENOUGH)
    Z = scaling(X[::every]).astype(np.float64)
    if not scaling.is_none:
        Z = np.clip(Z, -FAR, FAR)
    with np.errstate(over="ignore", invalid="ignore"):
        D = discriminants(Z, y[::every]) if given is None else given * scaling.spread
        if D is None:
            return None
        variances, deviation = Z.var(axis=0), (Z @ D.T).std(axis=0)
    varies = deviation > 1e-9 * np.abs(D).sum(axis=1) * np.sqrt(variances.max())
    if not (varies.any() and np.isfinite(deviation).all()):
        return None
    typical = np.sqrt(variances[variances > 0].mean())
    return D[varies] * (typical / deviation[varies])[:, None] / scaling.spread


def views_by_kind(
    kinds: set[str], X: NDArray, y: NDArray, scale: bool, given: ArrayLike | None
) -> dict[str, Views]:
    """Views of the kinds "features", "directions" and "both"; features alone if nothing varies.

    Directions are those that are ``given``, brought to the features' measure where these are
    scaled, or else discriminants.
    """
    scaling = Scaling.of(X) if scale else Scaling.none(X.shape[1])
    seen = {"features": Views(scaling)}
    if kinds == {"features"}:
        return seen
    own = None if given is None else np.asarray(given, float)
    if own is None or scale:
        own = find_directions(X, y, scaling, own)
    if own is None:
        return seen
    return seen | {
        "directions": Views(scaling, own, sees_features=False), "both": Views(scaling, own),
    }  # fmt: skip


def check_views(state: TrainingState, n_features: int) -> None:
    """StateError if the views that a state knows cannot be."""
    n = state.array(f"before.{CENTRE}", np.float64, (None,)).size
    if n != n_features:
        raise StateError(f"its weights are for {n} features, but X has {n_features}")
    if not (state.array(f"before.{SPREAD}", np.float64, (n_features,)) > 0).all():
        raise StateError("its spread is not above 0 everywhere")
    sees = state.array(f"before.{FEATURES}", np.int64, (1,))[0]
    if DIRECTIONS in state.before:
        state.array(f"before.{DIRECTIONS}", np.float64, (None, n_features))
    if sees not in (0, 1) or not (sees or DIRECTIONS in state.before):
        raise StateError("it sees neither features nor directions")
