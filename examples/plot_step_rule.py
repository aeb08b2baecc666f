"""
A step rule of one's own
========================

A step rule is plain data that compiled loops read, such as Polyak's with a target. Rules that
change their mind are made by running an engine in pieces, with a new rule for each. Here the target
follows the lowest loss so far; the library's own rules are beside it.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from maxplus.models import LMM
from maxplus.training import MaxLoss, TrainingProblem, constant, level, polyak, train, two_phase
from maxplus.training.engines import SparseEngine

X, y = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(X)
# The paper's start: pyramids at some samples, high for their own class.
rng = np.random.default_rng(0)
chosen = np.concatenate([rng.choice(np.flatnonzero(y == d), 60, replace=False) for d in (0, 1)])
heights = np.where(np.eye(2)[y[chosen]] == 1, 0.0, -1.0)
start = LMM.of_boxes(X[chosen], 0.0, heights, slope=1.0)
N_ITER = 5_000

# %%
# Ours: aim at half of the lowest loss so far. Where a piece brings nothing, that was too much, and
# the aim comes halfway closer. Each piece begins at the best model so far.


def following(piece):
    """Loss of each iteration: Polyak steps whose target follows."""
    model, losses, share = start.copy(), start.losses(X, y).max(keepdims=True), 0.5
    while losses.size < N_ITER:
        rule = polyak(share * losses.min())
        engine = SparseEngine(model, TrainingProblem(X, y, MaxLoss(), rule, start=losses.size))
        new = train(engine, min(piece, N_ITER - losses.size)).history["loss"]
        if new.min() >= losses.min():
            share = (1 + share) / 2
        losses, model = np.concatenate([losses, new]), engine.best.copy()
    return losses


# %%
# The library's: one rule for the whole training.


def plain(rule):
    """Loss of each iteration with one rule."""
    return train(
        SparseEngine(start.copy(), TrainingProblem(X, y, MaxLoss(), rule)), N_ITER
    ).history["loss"]


curves = {
    "constant": plain(constant(0.05)),
    "Polyak, then constant": plain(two_phase(polyak(0.0), constant(0.05), N_ITER // 2)),
    "level": plain(level(N_ITER)),
    "ours": following(500),
}

# %%
# The lowest loss so far; it is the largest of all samples' that counts. Which rule does best
# depends on the start: from fewer units, all of them can get stuck at log 2.

fig, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for (name, loss), colour in zip(
    curves.items(), ("#E69F00", "#0072B2", "#009E73", "#D55E00"), strict=True
):
    best = np.minimum.accumulate(loss)
    ax.plot(1 + np.arange(best.size), best, color=colour, linewidth=2, label=name)
    print(f"{name}: {best[-1]:.3f} after {best.size:,} iterations")
ax.axhline(np.log(2), color="#222222", linestyle="--", linewidth=1)
ax.annotate("log 2", (1, np.log(2)), xytext=(4, 4), textcoords="offset points")
ax.set(xscale="log", xlabel="iteration", ylabel="largest loss, lowest so far")
ax.legend(frameon=False)
plt.show()
