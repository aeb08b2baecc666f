"""
The subgradient algorithm on Iris
=================================

Each iteration of the subgradient algorithm selects the sample with the largest loss and changes the
few weights that determine its scores. If the *largest* loss is below log 2, the predicted
probability of the true class exceeds one half for each training sample. This is called a perfect
fit.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split

from maxplus import SubgradientLMMClassifier

X, y = load_iris(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
clf = SubgradientLMMClassifier(
    50, slope=4.0, w0_update_interval=0, learning_rate=0.05, max_iter=10_000, random_state=1
).fit(X_train, y_train)

print(f"largest training loss: {clf.max_loss_:.3f} (log 2 is {np.log(2):.3f})")
print(f"perfect fit: {clf.perfect_fit_}")
print(f"test accuracy: {clf.score(X_test, y_test):.1%}")

# %%
# Loss curve
# ----------
#
# Polyak steps are followed by constant steps, and the best iterate is kept. Not every
# initialisation reaches a loss below log 2. In this example, the number of units and the seed were
# chosen such that it does.

loss = clf.loss_curve_
t = 1 + np.arange(loss.size)
fig, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
ax.plot(t, loss, color="#0072B2", alpha=0.3, linewidth=0.8, label="largest loss")
ax.plot(t, np.minimum.accumulate(loss), color="#0072B2", linewidth=2, label="lowest so far")
for level, name in ((np.log(3), "log 3: uniform probabilities"), (np.log(2), "log 2: perfect fit")):
    ax.axhline(level, color="#222222", linestyle="--", linewidth=1)
    ax.annotate(name, (t[-1], level), xytext=(0, 4), textcoords="offset points", ha="right")
ax.set(xscale="log", xlabel="iteration", ylabel="largest training loss")
ax.legend(frameon=False, loc="upper right")

# %%
# Worst samples
# -------------
#
# ``history_["sample"]`` is the worst sample of each iteration. These samples lie near the decision
# boundary. Most other samples are never the worst sample.

times = np.bincount(clf.history_["sample"], minlength=len(y_train))
fig, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for species, colour in zip(range(3), ("#009E73", "#0072B2", "#D55E00"), strict=True):
    own = y_train == species
    size = 12 + 400 * times[own] / times.max()
    name = load_iris().target_names[species]
    ax.scatter(*X_train[own][:, 2:].T, s=size, color=colour, alpha=0.6, linewidth=0, label=name)
ax.set(xlabel="petal length (cm)", ylabel="petal width (cm)")
ax.set_title(f"Area: iterations on a sample; {(times == 0).sum()} samples had none")
for handle in ax.legend(frameon=False, loc="upper left").legend_handles:
    handle.set_sizes([40])
plt.show()
