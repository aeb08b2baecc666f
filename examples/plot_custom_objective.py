"""
Custom objectives
=================

An objective is a function of the losses of all samples. This example implements the tilted loss,
which lies between the mean and the maximum, and compares it with the objectives of the library on
data with wrong labels.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import logsumexp, softmax
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from maxplus import SubgradientLMMClassifier
from maxplus.training import ObjectiveValue

X, y = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(X)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0)
rng = np.random.default_rng(0)
is_wrong = rng.random(len(y_train)) < 0.05
y_noisy = np.where(is_wrong, 1 - y_train, y_train)

# %%
# The tilted loss is L = T·log(mean(exp(Loss_n / T))). It converges to the maximum for T → 0 and to
# the mean for T → ∞. Its subgradient is a weighted mean of the subgradients of the samples, with
# the softmax of Loss_n / T as weights.


class TiltedLoss:
    """Objective between the maximum (temperature 0) and the mean (infinite temperature)."""

    name = "tilted"

    def __init__(self, temperature):
        self.temperature = temperature

    def value(self, losses, weight):
        """Return the objective for the losses of all samples."""
        T = self.temperature
        return ObjectiveValue(float(T * (logsumexp(losses / T) - np.log(len(losses)))))

    def subgradient(self, model, problem, at, layers):
        """Return a subgradient at the weights of the model, where the objective is ``at``."""
        share = softmax(model.losses(problem.X, problem.y) / self.temperature)
        return model.mean_subgradient(problem.X, problem.y, share).only(layers)


# %%
# Pass the object to the estimator instead of a name. The estimator uses the dense engine, which
# supports any objective. ``"trimmed-max"`` ignores the largest losses, and ``"top-k"`` is the mean
# of the k largest losses.

objectives = {
    "maximum": {"objective": "max"},
    "tilted, T = 0.1": {"objective": TiltedLoss(0.1)},
    "tilted, T = 1": {"objective": TiltedLoss(1.0)},
    "top-k, a tenth": {"objective": "top-k", "top_k": 0.1},
    "trimmed, a tenth": {"objective": "trimmed-max", "n_trimmed": 0.1},
    "mean": {"objective": "mean", "engine": "dense"},
}
models = {
    name: SubgradientLMMClassifier(50, step="level", max_iter=1000, random_state=0, **options).fit(
        X_train, y_noisy
    )
    for name, options in objectives.items()
}
for name, clf in models.items():
    print(f"{name}: {clf.score(X_test, y_test):.1%} of the test samples are classified correctly")

# %%
# The figure shows the sorted training losses for each objective. With the maximum, most losses are
# large because of a few wrong labels. With the trimmed maximum, the largest losses are ignored.

fig, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for (name, clf), colour in zip(
    models.items(),
    ("#D55E00", "#E69F00", "#CC79A7", "#0072B2", "#009E73", "#555555"),
    strict=True,
):
    losses = np.sort(clf.training_losses_)[::-1]
    ax.plot(1 + np.arange(losses.size), losses, color=colour, linewidth=2, label=name)
ax.axhline(np.log(2), color="#222222", linestyle="--", linewidth=1)
ax.axvline(is_wrong.sum(), color="#222222", linestyle=":", linewidth=1)
ax.annotate("wrong labels", (is_wrong.sum(), 0), xytext=(4, 4), textcoords="offset points")
ax.set(xlabel="training sample, sorted by loss", ylabel="loss", xscale="log")
ax.legend(frameon=False)
plt.show()
