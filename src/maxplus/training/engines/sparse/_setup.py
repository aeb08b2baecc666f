"""Jitted set-up: the first forward pass with witnesses, chunk by chunk."""

from numba import njit, prange

from maxplus.training.engines.sparse._minima import lane_max, scan_unit


@njit(cache=True)
def _scan_chunk(c, samples, weights, minima):
    for h in range(weights.W1T.shape[0]):
        g = minima.g[c, h]
        scan_unit(
            samples.columns[c], weights.W0, weights.W1T[h],
            g, minima.g2[c, h], minima.a[c, h], minima.a2[c, h],
        )  # fmt: skip
        minima.g_max[c, h] = lane_max(g)


@njit(cache=True, parallel=True)
def scan_all(samples, weights, minima):
    """Exact minima, runners-up and witnesses of all samples and units; O(N·P·H)."""
    for c in prange(samples.label.size):
        _scan_chunk(c, samples, weights, minima)
