"""Preprocessing of images: blur, and random shifts for augmentation."""

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

# The filter is truncated at this many standard deviations.
TRUNCATE = 3.0


def image_shape(shape: Any, n_pixels: int) -> tuple[int, int]:
    """Return (height, width), by default of a square; raise ValueError if n_pixels differs."""
    if shape is None:
        side = math.isqrt(n_pixels)
        if side * side != n_pixels:
            raise ValueError(
                f"shape is None, which means square images, but rows have {n_pixels} pixels; "
                "pass shape=(height, width)"
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
    """Gaussian blur of images, given as rows of pixels; pixels outside an image are 0.

    Each pixel becomes a weighted sum of its neighbours with weights that sum to at most 1, so the
    blur does not increase distances in the L∞ norm. A certified radius of a blurred image is
    therefore a certified radius of the image.

    Parameters
    ----------
    sigma : float, default=0.5
        Standard deviation of the filter in pixels. 0 does not blur.
    shape : (height, width), optional
        Shape of the images; square by default.

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
        """Validate the parameters.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Images as rows of pixels.
        y : ignored

        Returns
        -------
        self
            Fitted transformer.
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
        X : array of shape (n_samples, n_features)
            Images as rows of pixels.

        Returns
        -------
        array of shape (n_samples, n_features)
            Blurred images.
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
    """Random shifts of images by up to ``pixels`` in each direction, uniformly distributed.

    Pixels outside an image are 0. In a grid search, the parameter is ``augment__pixels``.

    Parameters
    ----------
    pixels : int, default=1
        Maximum shift in each direction.
    shape : (height, width), optional
        Shape of the images; square by default.

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
