"""Words for what an LMM sees: features, and weighted sums of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

# Terms of a sum that are named; the others are dots.
N_TERMS = 3


def view_names(
    directions: NDArray | None, feature_names: Sequence[str], scale: NDArray | None = None
) -> list[str]:
    """A name for each view: its feature's, or the sum that it is, "0.61·age + 0.4·bmi + …".

    Terms come by size, |D_mp|·scale_p, and only the largest are named.

    Parameters
    ----------
    directions : array of shape (M, P), or None where the views are the features
    feature_names : P words
    scale : array of shape (P,), optional
        How much each feature varies; all alike by default.
    """
    words = [str(name) for name in feature_names]
    if directions is None:
        return words
    sizes = np.abs(directions) if scale is None else np.abs(directions) * scale
    return [_sum(row, size, words) for row, size in zip(directions, sizes, strict=True)]


def view_features(directions: NDArray | None, n_features: int) -> NDArray:
    """Which feature each view is, x_p itself; −1 for a sum."""
    if directions is None:
        return np.arange(n_features)
    is_feature = (np.count_nonzero(directions, axis=1) == 1) & (directions == 1.0).any(axis=1)
    return np.where(is_feature, directions.argmax(axis=1), -1)


def view_terms(
    directions: NDArray | None, n_features: int, scale: NDArray | None = None
) -> list[list[int]]:
    """The features that each view's name speaks of: itself, or a sum's largest terms."""
    if directions is None:
        return [[p] for p in range(n_features)]
    sizes = np.abs(directions) if scale is None else np.abs(directions) * scale
    return [
        _by_size(row, size)[:N_TERMS].tolist() for row, size in zip(directions, sizes, strict=True)
    ]


def in_product(name: str) -> str:
    """A name as a factor: in brackets where it has several words, as "colour = red" has."""
    return f"({name})" if " " in name else name


def _by_size(weights: NDArray, sizes: NDArray) -> NDArray:
    terms = np.flatnonzero(weights)
    return terms[np.argsort(-sizes[terms], kind="stable")]


def _sum(weights: NDArray, sizes: NDArray, words: list[str]) -> str:
    terms = _by_size(weights, sizes)
    if not terms.size:
        return "0"
    text = ""
    for p in terms[:N_TERMS]:
        sign = "−" if weights[p] < 0 else "+"
        text += f" {sign} " if text else sign.replace("+", "")
        size = abs(float(weights[p]))
        text += words[p] if size == 1.0 else f"{size:.2g}·{in_product(words[p])}"
    return text + " + …" * (terms.size > N_TERMS)
