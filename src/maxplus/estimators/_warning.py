"""Warnings that name the user's own line."""

from __future__ import annotations

import sys
import warnings


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn as if from the line that called into this library, however deep we are in it."""
    level, frame = 1, sys._getframe()
    while frame.f_globals.get("__name__", "").startswith("maxplus.") and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
