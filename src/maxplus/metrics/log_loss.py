"""How much probability the true classes got."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.metrics._checks import check_predictions

# Nearest neighbours and forests say 0 and 1; without a floor one mistake would cost infinity.
FLOOR = 1e-15


def log_losses(codes: ArrayLike, P: ArrayLike) -> NDArray:
    """−log P[n, codes[n]] of each sample, shape (N,); probabilities below 1e−15 count as that.

    Parameters
    ----------
    codes : array of shape (N,)
        The true classes as columns of P.
    P : array of shape (N, C)
        Probabilities.

    Returns
    -------
    array of shape (N,)

    Examples
    --------
    >>> from maxplus.metrics import log_losses
    >>> log_losses([0, 1], [[0.9, 0.1], [0.5, 0.5]]).round(3).tolist()
    [0.105, 0.693]
    """
    codes, P = check_predictions(codes, P)
    return -np.log(np.clip(P[np.arange(len(P)), codes], FLOOR, 1.0))
