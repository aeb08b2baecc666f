"""How much probability the true classes got."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.metrics._checks import check_predictions

# Nearest neighbours and forests say 0 and 1; without a floor one mistake would cost infinity.
FLOOR = 1e-15


def log_losses(codes: ArrayLike, P: ArrayLike) -> NDArray:
    """−log P[n, codes[n]] of each sample, shape (N,); probabilities below 1e−15 count as that."""
    codes, P = check_predictions(codes, P)
    return -np.log(np.clip(P[np.arange(len(P)), codes], FLOOR, 1.0))
