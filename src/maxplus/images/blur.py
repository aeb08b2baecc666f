"""A light Gaussian blur as a scikit-learn transformer."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from maxplus.images._shape import image_shape

# Beyond this many standard deviations the filter is cut off.
TRUNCATE = 3.0


class GaussianBlur(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Rows of pixels, blurred; outside the image everything is 0.

    Each pixel becomes a weighted mean of its neighbours with weights that sum to at
    most 1, so no pixel changes by more than the largest change of any: in the L∞ norm
    the blur never makes a change larger. A radius that is certified on blurred
    images is therefore certified on the images themselves.

    Parameters
    ----------
    sigma : float
        Standard deviation of the filter in pixels; 0 changes nothing.
    shape : (height, width), optional
        Of the images; square by default.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from maxplus import LMMClassifier
    >>> from maxplus.images import GaussianBlur
    >>> clf = make_pipeline(GaussianBlur(0.5), LMMClassifier())
    """

    shape_: tuple[int, int]

    def __init__(self, sigma: float = 0.5, shape: tuple[int, int] | None = None) -> None:
        self.sigma = sigma
        self.shape = shape

    def fit(self, X: Any, y: Any = None) -> GaussianBlur:
        """Check the parameters against the rows; nothing is learnt.

        Parameters
        ----------
        X : array of shape (N, P)
            Images as rows of pixels.
        y : ignored

        Returns
        -------
        GaussianBlur
        """
        X = validate_data(self, X, dtype=[np.float64, np.float32])
        if not (isinstance(self.sigma, Real) and 0 <= self.sigma < np.inf):
            raise ValueError(f"sigma must be a finite number >= 0; got {self.sigma!r}")
        self.shape_ = image_shape(self.shape, X.shape[1])
        return self

    def transform(self, X: Any) -> NDArray:
        """The blurred rows; O(N·P·sigma).

        Parameters
        ----------
        X : array of shape (N, P)

        Returns
        -------
        array of shape (N, P)
        """
        check_is_fitted(self, "shape_")
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        if self.sigma == 0:
            return X
        images = X.reshape(len(X), *self.shape_)
        for axis in (1, 2):
            images = gaussian_filter1d(
                images, self.sigma, axis=axis, mode="constant", truncate=TRUNCATE
            )
        return images.reshape(X.shape)
