"""Randomly shifted images, as an augmentation of batches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from maxplus.images._shape import image_shape


class RandomShift(BaseEstimator):
    """Moves each image by up to ``pixels`` in each direction, all shifts equally likely.

    What moves in from outside is 0. Its parameters can be searched over, as
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

    def __repr__(self) -> str:
        """As it was made."""
        return f"RandomShift({self.pixels}, shape={self.shape})"
