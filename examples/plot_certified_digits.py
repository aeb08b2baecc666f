"""
Certified robustness on digits
==============================

The certified radius of an image is a bound for changes of all pixels: smaller changes are proven
not to change the prediction. It is computed from exact bounds of each unit over a box of images.
Robust training increases the radius.
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
# The certified accuracy is the fraction of test images that are classified correctly and certified
# for changes up to ε. With ``robust_eps``, training minimises an upper bound of the loss over all
# changes of this size.

eps = np.linspace(0, 0.3, 31)
fig, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
for (trained_for, clf), colour in zip(
    models.items(), ("#0072B2", "#E69F00", "#D55E00"), strict=True
):
    shares = clf.fit(X_train, y_train).certified_accuracy(X_test, y_test, eps)
    ax.plot(eps, shares, color=colour, linewidth=2, label=f"robust_eps={trained_for:g}")
    print(
        f"robust_eps={trained_for:g}: accuracy {shares[0]:.1%}, certified {shares[20]:.1%}",
        f"at ε = {eps[20]:.1f}",
    )
ax.set(xlabel="ε: largest change of each pixel", ylabel="certified accuracy", ylim=(0, 1.03))
ax.legend(frameon=False)

# %%
# Smallest and largest radii
# --------------------------
#
# ``certified_radius`` returns a radius for each image. Images with a small radius are usually
# difficult to read.

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
# Empirical check
# ---------------
#
# The predictions do not change at random corners of the box around each image.

rng = np.random.default_rng(0)
before = robust.predict(X_test)
for _ in range(100):
    corner = rng.choice([-1.0, 1.0], X_test.shape)
    assert (robust.predict(X_test + 0.999 * radius[:, None] * corner) == before).all()
print(f"{100 * len(X_test):,} changed images, no prediction changed")
plt.show()
