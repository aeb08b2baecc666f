"""Files whose bytes were damaged."""

import numpy as np


def damaged(rng, content):
    """Bytes flipped, cut off, doubled, missing, overwritten or swapped, once or a few times."""
    data = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        # The beginning holds most that can go wrong.
        at = int(rng.integers(len(data) if rng.random() < 0.5 else min(3000, len(data))))
        length, kind = int(rng.integers(1, 200)), rng.integers(6)
        if kind == 0:
            data[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            del data[max(at, 1) :]
        elif kind == 2:
            data[at:at] = data[at : at + length]
        elif kind == 3 and len(data) > length:
            del data[at : at + length]
        elif kind == 4:
            data[at : at + 8] = rng.bytes(8)
        else:
            other = int(rng.integers(len(data)))
            data[at], data[other] = data[other], data[at]
    return bytes(data)


def mutations(content, n):
    """N damaged versions, the same at every run."""
    rng = np.random.default_rng(0)
    return (damaged(rng, content) for _ in range(n))
