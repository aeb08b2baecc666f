"""What makes images easier to learn: a light blur, and shifted copies."""

from maxplus.images.blur import GaussianBlur
from maxplus.images.shifts import RandomShift

__all__ = ["GaussianBlur", "RandomShift"]
