"""
Detection of label errors
=========================

A polish reduces all training losses below log 2. With ``max_suspects``, it can leave some samples
above this threshold. These samples are likely to be mislabelled.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from maxplus import LMMClassifier

X, truth = load_digits(return_X_y=True)
X /= 16
rng = np.random.default_rng(0)
wrong = rng.choice(len(truth), 36, replace=False)  # 2 % of the labels
y = truth.copy()
y[wrong] = (truth[wrong] + rng.integers(1, 10, wrong.size)) % 10

# %%
# Few units, a small slope and a short warm-up prevent boxes around single images. The parameters
# were chosen with knowledge of the wrong labels. With more units or epochs, fewer wrong labels are
# found.

clf = LMMClassifier(
    100, slope=7.0, warmup_epochs=10, polish="log2", max_suspects=0.05, random_state=0
).fit(X, y)
suspects = clf.suspects_
found = np.isin(suspects, wrong)
print(f"{suspects.size} suspects, {found.sum()} of them among the {wrong.size} wrong labels")

# %%
# Suspects with the largest losses
# --------------------------------
#
# The figure shows images with their label and the prediction. Wrong labels are orange.

order = suspects[np.argsort(-clf.training_losses_[suspects])][:24]
fig, axes = plt.subplots(3, 8, figsize=(9, 5), layout="constrained")
for ax, n in zip(axes.flat, order, strict=True):
    ax.imshow(X[n].reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
    changed = n in wrong
    ax.set_title(
        f"label {y[n]}\npredicted {clf.predict(X[n : n + 1])[0]}",
        size=9,
        color="#D55E00" if changed else "#222222",
    )
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set(color="#D55E00" if changed else "#DCDCDC", linewidth=2)

# %%
# Losses of correct and wrong labels
# ----------------------------------

loss = clf.training_losses_
fig, ax = plt.subplots(figsize=(8, 3.4), layout="constrained")
bins = np.geomspace(max(loss.min(), 1e-6), loss.max() * 1.01, 60)
ax.hist(np.maximum(np.delete(loss, wrong), bins[0]), bins, color="#0072B2", label="correct labels")
ax.hist(np.maximum(loss[wrong], bins[0]), bins, color="#D55E00", label="wrong labels")
ax.axvline(np.log(2), color="#222222", linestyle="--", linewidth=1, label="log 2")
ax.set(xscale="log", yscale="symlog", xlabel="training loss", ylabel="images")
ax.legend(frameon=False)
plt.show()
