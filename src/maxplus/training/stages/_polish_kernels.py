"""Jitted sweeps of the polish."""

from maxplus._compile.jit import njit
from maxplus.models._lmm_kernels import active_path, squared_norm, subgradient_entries
from maxplus.models._softmax import sample_loss
from maxplus.training.engines._descent import fall
from maxplus.training.steps import polyak_step


@njit(cache=True)
def sweep(X, y, order, weights, lam, g, grad, target, damping, moved):
    """A damped Polyak step on each sample of ``order`` whose loss is above the target.

    W0 stays. Losses are those of the present weights, not of the sweep's beginning. ``moved`` tells
    for which samples of ``order`` there was a step; lam (2P) and g (H) are room for one
    sample's. O(P·H) for each sample.
    """
    for k in range(order.size):
        n = order[k]
        active_path(X[n], weights, lam, g, grad.z, grad.h_star, grad.i_star)
        loss = sample_loss(grad.z, y[n])
        moved[k] = loss > target
        if not moved[k]:
            continue
        subgradient_entries(X[n], y[n], False, grad)
        norm = squared_norm(grad)
        if norm == 0.0:
            continue
        alpha = polyak_step(target + damping * (loss - target), target, norm)
        for d in range(grad.e.size):
            fall(weights.W2T, d, grad.h_star[d], alpha * grad.e[d])
        for j in range(grad.n[0]):
            fall(weights.W1T, grad.unit1[j], grad.row1[j], alpha * grad.value1[j])
