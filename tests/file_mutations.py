"""Damaged files: random bytes, or valid model files with one value removed or changed."""

import copy
import json
import math

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file

from maxplus.io import container

# A lone surrogate, which JSON can represent and UTF-8 cannot.
SURROGATE = "\ud800"


def values(document, at=()):
    """Yield the paths of all values in a JSON document, and of the first two items of lists."""
    if isinstance(document, dict):
        items = list(document.items())
    elif isinstance(document, list):
        items = list(enumerate(document))[:2]
    else:
        items = []
    for key, value in items:
        yield (*at, key)
        yield from values(value, (*at, key))


def replaced(document, at, change):
    """Return a copy of the document with a change of the container of a value."""
    document = copy.deepcopy(document)
    place = document
    for key in at[:-1]:
        place = place[key]
    change(place, at[-1])
    return document


def document_mutations(document):
    """Yield (description, document) with a value removed, of another type or out of range."""
    others = (None, math.nan, -1, 10**30, 1e308, 0.5, 5e-324, "", SURROGATE, [], {}, True)
    for at in values(document):
        name = ".".join(map(str, at))
        yield f"{name} removed", replaced(document, at, lambda place, key: place.pop(key))
        for other in others:
            yield (
                f"{name} = {other!r}",
                replaced(document, at, lambda p, k, other=other: p.__setitem__(k, other)),
            )


def array_mutations(arrays):
    """Yield (description, arrays) for each mutated array."""
    for name, array in arrays.items():
        yield f"{name} removed", {key: value for key, value in arrays.items() if key != name}
        changed = {
            "shorter": array[:-1],
            "longer": np.concatenate([array, array[:1]]),
            "empty": array[:0],
            "nested": array[None],
            "of another type": array.astype(np.float16),
            "negative": -1 - np.abs(array),
            "huge": np.full_like(array, 10**15),
        }
        if array.dtype.kind == "f":
            changed |= {
                "NaN": np.full_like(array, np.nan),
                "infinite": np.full_like(array, np.inf),
                "largest": np.full_like(array, np.finfo(array.dtype).max),
                "smallest": np.full_like(array, np.finfo(array.dtype).smallest_subnormal),
            }
        for how, value in changed.items():
            yield f"{name} {how}", {**arrays, name: value}


def mutations(document, arrays):
    """Yield (description, document, arrays) for each mutated value and array."""
    document = json.loads(json.dumps(document))
    for what, changed in document_mutations(document):
        yield what, changed, arrays
    for what, changed_arrays in array_mutations(arrays):
        yield what, document, changed_arrays


def write(path, kind, document, arrays):
    """Write a file with a valid digest; texts need not be valid Unicode."""
    path.write_bytes(container.pack(kind, json.dumps(document, sort_keys=True), arrays))


def tamper(path, change):
    """Rewrite a model file with a valid digest, so that only later checks can fail."""
    with safe_open(path, "np") as file:
        metadata = dict(file.metadata())
    arrays, document = load_file(path), json.loads(metadata["document"])
    change(document, arrays)
    container.write_container(path, metadata["format"], document, arrays)


def damaged(rng, content):
    """Return bytes with one to three random flips, cuts, copies, overwrites or swaps."""
    data = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        # Prefer the beginning, which contains the header.
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


def damaged_copies(content, n):
    """Yield n damaged versions, which are the same in each run."""
    rng = np.random.default_rng(0)
    return (damaged(rng, content) for _ in range(n))
