"""Row hashes, for counting rows that are equal to training rows."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

# Number of rows that are converted to float64 at a time, to save memory.
ROWS_AT_ONCE = 4096
BITS = 63


def row_hashes(X: NDArray) -> NDArray:
    """Return a hash of each row, from 0 to 2^63 − 1; equal rows have equal hashes.

    Hashes do not depend on the float type. Two different rows collide with probability 2^−63.
    Hashes do not anonymise: if the possible rows are few enough to enumerate, rows can be recovered
    by hashing all of them. O(N·P).

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
    hashes = np.empty(len(X), np.int64)
    for lo in range(0, len(X), ROWS_AT_ONCE):
        # + 0.0 turns −0 into 0.
        rows = np.ascontiguousarray(X[lo : lo + ROWS_AT_ONCE], np.float64) + 0.0
        for n, row in enumerate(rows, lo):
            digest = blake2b(row.tobytes(), digest_size=8).digest()
            hashes[n] = int.from_bytes(digest, "little") >> (64 - BITS)
    return hashes
