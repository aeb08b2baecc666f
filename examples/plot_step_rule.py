"""
Custom step rules
=================

A step rule, such as Polyak's rule with a target, is passed to compiled loops as plain data. An
adaptive rule can be implemented by running an engine in several parts, with a new rule for each
part. This example adapts the target to the lowest loss so far and compares the result with the
rules of the library.
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
# The paper's initialisation: units centred at random samples.
rng = np.random.default_rng(0)
chosen = np.concatenate([rng.choice(np.flatnonzero(y == d), 60, replace=False) for d in (0, 1)])
heights = np.where(np.eye(2)[y[chosen]] == 1, 0.0, -1.0)
start = LMM.from_boxes(X[chosen], 0.0, heights, slope=1.0)
N_ITER = 5_000

# %%
# The initial target of the adaptive rule is half of the lowest loss so far. After a part without
# improvement, the target is moved halfway towards the lowest loss. Each part starts from the best
# model so far.


def train_adaptively(part):
    """Return the loss of each iteration, with Polyak steps and an adaptive target."""
    model, losses, share = start.copy(), start.losses(X, y).max(keepdims=True), 0.5
    while losses.size < N_ITER:
        rule = polyak(share * losses.min())
        engine = SparseEngine(model, TrainingProblem(X, y, MaxLoss(), rule, start=losses.size))
        new = train(engine, min(part, N_ITER - losses.size)).history["loss"]
        if new.min() >= losses.min():
            share = (1 + share) / 2
        losses, model = np.concatenate([losses, new]), engine.best.copy()
    return losses


# %%
# The rules of the library:


def train_with(rule):
    """Return the loss of each iteration with one rule."""
    return train(
        SparseEngine(start.copy(), TrainingProblem(X, y, MaxLoss(), rule)), N_ITER
    ).history["loss"]


curves = {
    "constant": train_with(constant(0.05)),
    "Polyak, then constant": train_with(two_phase(polyak(0.0), constant(0.05), N_ITER // 2)),
    "level": train_with(level(N_ITER)),
    "adaptive target": train_adaptively(500),
}

# %%
# The figure shows the lowest value so far of the largest loss. The best rule depends on the
# initialisation.

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
