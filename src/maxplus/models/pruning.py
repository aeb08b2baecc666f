"""Hidden units that a network can do without."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maxplus.algebra import minplus
from maxplus.models.additive import AdditiveLMM, Term
from maxplus.models.lmm import LMM


def useless_units(model: LMM | AdditiveLMM) -> NDArray:
    """Return which units provably give no class its score, whatever the input; mask of shape (H,).

    g_h'(x) − g_h(x) ≥ D[h, h'] = min_i (W1[i, h'] − W1[i, h]) at every x, because the same
    λ_i is added to both. So where D[h, h'] + W2[h', d] ≥ W2[h, d], unit h never beats h' for
    class d. A unit is useless if for each class another one beats it that is not itself
    left out; of equal units the lowest stays. D is a min-plus product. O(H²·(P + C)).

    Units of a sum are numbered through, in the order of its terms, and compared within a term;
    at least one unit of each term is not useless.
    """
    if isinstance(model, AdditiveLMM):
        return np.concatenate([useless_units(lmm) for _, lmm in model.terms])
    W1, W2 = model.W1.astype(np.float64), model.W2.astype(np.float64)
    D = minplus(np.ascontiguousarray(-W1.T), W1)
    np.fill_diagonal(D, -np.inf)
    useless = np.zeros(model.n_hidden, bool)
    for h in reversed(range(model.n_hidden)):
        beaten = (D[h][:, None] + W2 >= W2[h]) & ~useless[:, None]
        useless[h] = beaten.any(axis=0).all()
    return useless


def with_units(model: LMM | AdditiveLMM, units: NDArray) -> LMM | AdditiveLMM:
    """Return the network with some of its units only, in increasing order if it is a sum.

    ValueError if a term of a sum is left without units.
    """
    if isinstance(model, LMM):
        return LMM(model.W0.copy(), model.W1[:, units], model.W2[units])
    ends = np.cumsum([lmm.n_hidden for _, lmm in model.terms])
    numbers = np.unique(units)
    parts = np.split(numbers, np.searchsorted(numbers, ends[:-1]))
    terms = []
    for t, ((features, lmm), own) in enumerate(zip(model.terms, parts, strict=True)):
        if own.size == 0:
            raise ValueError(f"units must hold at least one unit of each term; term {t} has none")
        kept = own - (ends[t] - lmm.n_hidden)
        terms.append(Term(features, LMM(lmm.W0.copy(), lmm.W1[:, kept], lmm.W2[kept])))
    return AdditiveLMM(terms, model.n_features, model.feature_map, model.intercept)
