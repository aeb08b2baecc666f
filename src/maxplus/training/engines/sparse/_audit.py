"""The audit, for tests: check all bounds of the engine by brute force."""

import numpy as np

from maxplus._compile.jit import compile_variant, inner
from maxplus.models._softmax import sample_loss
from maxplus.training.engines.sparse._kernels import sparse_block

VALID = 0
# Codes that differ from all values of `Signal`.
WITNESS, OTHER_ROW, RUNNER_UP, UNIT, WRONG_CLASS, OWN_CLASS, REST, CHUNK = range(101, 109)
VIOLATIONS = {
    WITNESS: "g is not the value of its witness",
    OTHER_ROW: "a row lies below g2",
    RUNNER_UP: "a2 does not attain g2",
    UNIT: "a minimum lies above its bound",
    WRONG_CLASS: "a wrong class's score lies above its bound",
    OWN_CLASS: "the score of the chunk's own class lies below its bound",
    REST: "a unit that does not lead lies above rest",
    CHUNK: "a loss lies above its chunk's bound",
}


@inner
def _audit_unit(state, c, h, q, x):
    """Return (code of the first violated bound, minimum) of one unit in one lane; O(P)."""
    weights, log, minima = state.weights, state.log, state.minima
    w1 = weights.W1T[h]
    g, g2 = minima.g[c, h, q], minima.g2[c, h, q]
    a, a2 = minima.a[c, h, q], minima.a2[c, h, q]
    least = weights.W0.dtype.type(np.inf)
    current = minima.seen[c, h] == log.n[h]
    for i in range(w1.size):
        v = weights.W0[i] * x[i // 2] + w1[i]
        least = min(least, v)
        if current:
            if i == a and v != g:
                return WITNESS, least
            if i != a and v < g2:
                return OTHER_ROW, least
            if i == a2 and v != g2:
                return RUNNER_UP, least
    if least > g + (log.raised[h] - minima.raised_seen[c, h]) + state.scale.noise[0]:
        return UNIT, least
    return VALID, least


@inner
def _audit(state, t):
    """Return the code of the first violated bound after the search of iteration t; O(N·P·H)."""
    samples, weights, maxima, search = state.samples, state.weights, state.maxima, state.search
    C, H = weights.W2T.shape
    z = np.empty(C, weights.W0.dtype)
    score = np.empty((C, H), weights.W0.dtype)
    noise = state.scale.noise[0]
    for c in range(samples.label.size):
        label = samples.label[c]
        leaf = search.leaf[c]
        key = search.keys[samples.worker[c], label, leaf] + search.growth[label]
        for q in range(samples.lanes[c]):
            x = samples.X[samples.sample[c, q]]
            z[:] = -np.inf
            for h in range(H):
                code, g = _audit_unit(state, c, h, q, x)
                if code != VALID:
                    return code
                for d in range(C):
                    score[d, h] = g + weights.W2T[d, h]
                    z[d] = max(z[d], score[d, h])
            if sample_loss(z, label) > key:
                return CHUNK
            if search.updated[c] != t:
                continue
            for d in range(C):
                lead, rest = maxima.lead[c, d, q], maxima.rest[c, d, q]
                if d == label and z[d] < lead:
                    return OWN_CLASS
                if d != label and z[d] > max(lead, rest) + noise:
                    return WRONG_CLASS
                unit, unit2 = maxima.unit[c, d, q], maxima.unit2[c, d, q]
                for h in range(H):
                    bound = max(rest, maxima.second[c, d, q]) if h == unit2 else rest
                    if h != unit and score[d, h] > bound + noise:
                        return REST
    return VALID


# `sparse_block`, with an audit after each search.
audited_block = compile_variant({"audit": _audit}, sparse_block, "audited_block", nogil=True)
