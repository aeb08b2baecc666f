"""Jitted passes over all chunks: the first scan, and moving samples between chunks."""

import numpy as np
from numba import prange

from maxplus._compile.jit import njit
from maxplus._compile.references import referenced
from maxplus.training.engines.sparse._minima import (
    close_unit,
    lane_max,
    lane_min,
    replay,
    scan_unit,
)


@njit(cache=True)
def _fill_chunk(c, samples):
    for q in range(samples.sample.shape[1]):
        x = samples.X[samples.sample[c, q]]
        for p in range(x.size):
            samples.columns[c, p, q] = x[p]
    for p in range(samples.low.shape[1]):
        samples.low[c, p] = lane_min(samples.columns[c, p])
        samples.high[c, p] = lane_max(samples.columns[c, p])


@njit(cache=True, parallel=True)
def fill_columns(samples):
    """Copy each chunk's samples, feature by feature; O(N·P)."""
    for c in prange(samples.label.size):
        _fill_chunk(c, samples)


@njit(cache=True)
def _scan_chunk(c, samples, weights, minima):
    for h in range(weights.W1T.shape[0]):
        scan_unit(
            samples.columns[c], weights.W0, weights.W1T[h],
            minima.g[c, h], minima.g2[c, h], minima.a[c, h], minima.a2[c, h],
        )  # fmt: skip
        close_unit(c, h, minima)


@njit(cache=True, parallel=True)
def scan_all(samples, weights, minima):
    """Exact minima, runners-up and witnesses of all samples and units; O(N·P·H)."""
    for c in prange(samples.label.size):
        _scan_chunk(c, samples, weights, minima)


@njit(cache=True, nogil=True)
def replay_chunks(state, first, step):
    """Bring every unit of every ``step``-th chunk from ``first`` on up to date."""
    state = referenced(state)
    for c in range(first, state.samples.label.size, step):
        for h in range(state.log.n.size):
            replay(state, c, h)


@njit(cache=True)
def _move(values, source, spare):
    """values[c, q] ← the lane ``source[c, q]`` (counted through) of what values was."""
    K, B = values.shape
    for c in range(K):
        for q in range(B):
            spare[c * B + q] = values[c, q]
    for c in range(K):
        for q in range(B):
            values[c, q] = spare[source[c, q]]


@njit(cache=True)
def _move_unit(h, source, minima):
    _move(minima.g[:, h], source, np.empty(source.size, minima.g.dtype))
    _move(minima.g2[:, h], source, np.empty(source.size, minima.g.dtype))
    _move(minima.a[:, h], source, np.empty(source.size, minima.a.dtype))
    _move(minima.a2[:, h], source, np.empty(source.size, minima.a.dtype))
    for c in range(source.shape[0]):
        close_unit(c, h, minima)


@njit(cache=True, parallel=True)
def move_lanes(source, minima):
    """Give every lane the minima of lane ``source[c, q]``, unit by unit; O(N·H)."""
    for h in prange(minima.g.shape[1]):
        _move_unit(h, source, minima)
