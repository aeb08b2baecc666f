"""Certified robustness as estimator methods."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.certify import certified_at, certified_radius
from maxplus.estimators._threads import threads
from maxplus.models import LMM


class CertificatesMixin:
    """For classifiers whose ``model_`` is an LMM."""

    model_: LMM
    classes_: NDArray
    n_jobs: int | None

    def certified_radius(self, X: Any, scale: ArrayLike | None = None) -> NDArray:
        """How far each row may move, in the L∞ norm, before its prediction could change.

        No x' with |x'_p − x_p| ≤ radius·scale_p for all features p is classified
        differently. The radius is at least (z₁ − z₂) / (2·max_p |W0|·scale_p), up to
        rounding, and more where slopes differ or units are capped: see
        `maxplus.certify.box_bounds` for the proof.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        scale : array of shape (n_features,), optional
            How far each feature may move for a radius of 1, for example its
            standard deviation; 0 holds a feature fixed. All ones by default.

        Returns
        -------
        array of shape (n_samples,)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from maxplus import LMMClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = LMMClassifier(random_state=0).fit(X, y)
        >>> radius = clf.certified_radius(X)
        >>> bool((clf.predict(X + 0.99 * radius[:, None]) == clf.predict(X)).all())
        True
        """
        X = self._validated(X)  # type: ignore[attr-defined]
        with threads(self.n_jobs):
            return certified_radius(self.model_, X, scale)

    def certify(
        self, X: Any, y: Any, eps: ArrayLike, scale: ArrayLike | None = None
    ) -> float | NDArray:
        """Certified accuracy: the share of rows that are right and stay right within eps.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        y : true labels of shape (n_samples,)
        eps : number >= 0, or several
            Features may move by up to eps·scale_p each.
        scale : array of shape (n_features,), optional
            As in `certified_radius`.

        Returns
        -------
        float, or an array with one share for each eps
        """
        X = self._validated(X)  # type: ignore[attr-defined]
        y = np.asarray(y)
        if y.shape != (len(X),):
            raise ValueError(f"y must have shape ({len(X)},), a label for each row; got {y.shape}")
        try:
            radii = np.asarray(eps, np.float64)
        except (TypeError, ValueError):
            radii = np.array(np.nan)
        if not (radii.ndim <= 1 and np.isfinite(radii).all() and (radii >= 0).all()):
            raise ValueError(f"eps must be a finite number >= 0, or a list of them; got {eps!r}")
        with threads(self.n_jobs):
            right = self.classes_[self.model_.scores(X).argmax(axis=1)] == y
            # Only what is right needs a certificate, and each eps a test of its own.
            kept = [certified_at(self.model_, X[right], r, scale).sum() for r in radii.ravel()]
        shares = np.array(kept, float) / max(len(y), 1)
        return float(shares[0]) if radii.ndim == 0 else shares
