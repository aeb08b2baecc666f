"""What all measures ask of labels and probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Sums of many exponentials may end a little above 1.
TOLERANCE = 1e-6


def check_predictions(codes: ArrayLike, P: ArrayLike) -> tuple[NDArray, NDArray]:
    """Labels 0..C−1 of shape (N,) and probabilities (N, C), as arrays; ValueError otherwise."""
    codes, P = np.asarray(codes), np.asarray(P, float)
    if P.ndim != 2 or not P.size:
        raise ValueError(f"P must have shape (N, C) with a row for each sample, got {P.shape}")
    if not ((P >= 0).all() and (P <= 1 + TOLERANCE).all()):
        bad = int(np.flatnonzero(~((P >= 0) & (P <= 1 + TOLERANCE)).all(axis=1))[0])
        raise ValueError(f"P must hold probabilities from 0 to 1; row {bad} is {P[bad]}")
    if codes.shape != (len(P),) or codes.dtype.kind not in "iu":
        raise ValueError(
            f"codes must be {len(P)} whole numbers, one for each row of P; got shape "
            f"{codes.shape} of {codes.dtype}"
        )
    if codes.min() < 0 or codes.max() >= P.shape[1]:
        raise ValueError(
            f"codes must be from 0 to {P.shape[1] - 1}, the columns of P; got "
            f"{codes.min()} to {codes.max()}"
        )
    return codes, P
