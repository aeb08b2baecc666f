"""
Certified digits
================

How far may all pixels move before a prediction *could* change? For an LMM this has a proven lower
bound, from exact bounds of every unit over a box of images. Training can make it larger.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from maxplus import LMMClassifier

X, y = load_digits(return_X_y=True)
X /= 16  # pixels from 0 to 1
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
models = {
    eps: LMMClassifier(
        150, slope=30, standardize=False, robust_eps=eps, polish=None, random_state=0
    )
    for eps in (0.0, 0.1, 0.2)
}

# %%
# Certified accuracy
# ------------------
#
# The share of new images that are right, and stay right whatever happens to the pixels within ε.
# With ``robust_eps`` the training acts as if the worst change had happened already.

eps = np.linspace(0, 0.3, 31)
fig, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
for (trained_for, clf), colour in zip(
    models.items(), ("#0072B2", "#E69F00", "#D55E00"), strict=True
):
    shares = clf.fit(X_train, y_train).certified_accuracy(X_test, y_test, eps)
    ax.plot(eps, shares, color=colour, linewidth=2, label=f"robust_eps={trained_for:g}")
    print(
        f"robust_eps={trained_for:g}: {shares[0]:.1%} right, {shares[20]:.1%} at ε = {eps[20]:.1f}"
    )
ax.set(xlabel="ε: how far every pixel may move", ylabel="certified accuracy", ylim=(0, 1.03))
ax.legend(frameon=False)

# %%
# The least and the most certain digits
# -------------------------------------
#
# ``certified_radius`` has a number for each image. Small ones belong to digits that people would
# find hard as well.

robust = models[0.2]
radius = robust.certified_radius(X_test)
order = np.argsort(radius)
fig, axes = plt.subplots(2, 7, figsize=(9, 3), layout="constrained")
for ax, n in zip(axes.flat, [*order[:7], *order[-7:]], strict=True):
    ax.imshow(X_test[n].reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
    ax.set_title(f"{y_test[n]} as {robust.predict(X_test[n : n + 1])[0]}, {radius[n]:.3f}", size=9)
    ax.axis("off")
fig.suptitle("True and predicted digit, and the certified radius")

# %%
# A try to break it
# -----------------
#
# Random corners of the box around each image, just inside its radius: none flips, as proven.

rng = np.random.default_rng(0)
before = robust.predict(X_test)
for _ in range(100):
    corner = rng.choice([-1.0, 1.0], X_test.shape)
    assert (robust.predict(X_test + 0.999 * radius[:, None] * corner) == before).all()
print(f"{100 * len(X_test):,} changed images, no prediction changed")
plt.show()
