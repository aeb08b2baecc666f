"""Hashes of rows, to count rows that are equal to training rows."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

# Rows that are converted to float64 at once.
ROWS_AT_ONCE = 4096
BITS = 63


def row_hashes(X: NDArray) -> NDArray:
    """Return a hash from 0 to 2^63 − 1 of each row, equal for equal rows; int64, shape (N,).

    The same for any float type that holds the values. Two different rows have the same hash
    once in 2^63 pairs. A hash hides nothing: where values are few enough to be enumerated, the
    rows can be found by hashing guesses. O(N·P).

    Parameters
    ----------
    X : array of shape (N, P)

    Returns
    -------
    array of int64 of shape (N,)

    Examples
    --------
    >>> import numpy as np
    >>> a, b, c = row_hashes(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -0.0]]))
    >>> bool(a == c), bool(a == b)
    (True, False)
    """
    found = np.empty(len(X), np.int64)
    for lo in range(0, len(X), ROWS_AT_ONCE):
        # + 0.0 makes −0 the 0 that it equals.
        rows = np.ascontiguousarray(X[lo : lo + ROWS_AT_ONCE], np.float64) + 0.0
        for n, row in enumerate(rows, lo):
            digest = blake2b(row.tobytes(), digest_size=8).digest()
            found[n] = int.from_bytes(digest, "little") >> (64 - BITS)
    return found
