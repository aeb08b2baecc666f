"""The height and width of images that come as rows of pixels."""

from __future__ import annotations

import math
import operator
from typing import Any


def image_shape(shape: Any, n_pixels: int) -> tuple[int, int]:
    """(height, width) as given, or of a square; ValueError where the pixels do not fit."""
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
