"""Preprocessing of images: a light blur, and random shifts as an augmentation."""

from __future__ import annotations

import math
import operator
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

__all__ = ["GaussianBlur", "RandomShift"]

# Beyond this many standard deviations the filter is cut off.
TRUNCATE = 3.0


def image_shape(shape: Any, n_pixels: int) -> tuple[int, int]:
    """Return (height, width) as given, or of a square; ValueError where the pixels do not fit."""
    if shape is None:
        side = math.isqrt(n_pixels)
        if side * side != n_pixels:
            raise ValueError(
                f"shape is None, which means square images, but rows have {n_pixels} pixels; "
                "give shape=(height, width)"
            )
        return side, side
    try:
        height, width = (operator.index(side) for side in shape)
        if min(height, width) < 1:
            raise ValueError
    except (TypeError, ValueError):
        raise ValueError(
            f"shape must be (height, width), two integers >= 1, or None; got {shape!r}"
        ) from None
    if height * width != n_pixels:
        raise ValueError(
            f"shape={(height, width)} has {height * width} pixels, but rows have {n_pixels}"
        )
    return height, width


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
        """Return the blurred rows; O(N·P·sigma).

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


class RandomShift(BaseEstimator):
    """Random shifts of each image by up to ``pixels`` in each direction, all equally likely.

    Pixels from outside are 0. Its parameters can be searched over, as
    ``augment__pixels`` of a classifier.

    Parameters
    ----------
    pixels : int
    shape : (height, width), optional
        Of the images; square by default.

    Examples
    --------
    >>> from maxplus import LMMClassifier
    >>> from maxplus.images import RandomShift
    >>> clf = LMMClassifier(2000, augment=RandomShift(1))
    """

    def __init__(self, pixels: int = 1, shape: tuple[int, int] | None = None) -> None:
        self.pixels = pixels
        self.shape = shape

    def __call__(self, rows: NDArray, rng: np.random.Generator) -> NDArray:
        """Return shifted copies of the rows; O(N·P)."""
        if not isinstance(self.pixels, (int, np.integer)) or self.pixels < 0:
            raise ValueError(f"pixels must be an integer >= 0; got {self.pixels!r}")
        k = int(self.pixels)
        height, width = image_shape(self.shape, rows.shape[1])
        padded = np.zeros((len(rows), height + 2 * k, width + 2 * k), rows.dtype)
        padded[:, k : k + height, k : k + width] = rows.reshape(-1, height, width)
        windows = np.lib.stride_tricks.sliding_window_view(padded, (height, width), axis=(1, 2))
        down, right = rng.integers(0, 2 * k + 1, size=(2, len(rows)))
        return windows[np.arange(len(rows)), down, right].reshape(rows.shape)
