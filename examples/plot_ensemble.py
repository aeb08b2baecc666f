"""
Ensembles
=========

The networks of an ensemble differ in their initial clusters and batches. The score of the ensemble
is the mean of the scores of its networks. The ensemble is a sum of terms, so it supports
certificates, explanations and model files like any other model.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from maxplus import LMMClassifier, LMMEnsembleClassifier
from maxplus.certify import certified_at

X, y = load_digits(return_X_y=True)
X /= 16
X_train, X_test, y_train, y_test = train_test_split(
    X, y, train_size=400, stratify=y, random_state=0
)
clf = LMMEnsembleClassifier(LMMClassifier(60, polish=None), n_estimators=4, random_state=0)
clf.fit(X_train, y_train)

# %%
# Ensemble and single networks
# ----------------------------
#
# If ``n_hidden`` is set, each network is one term over all features, divided by the number of
# networks. The figure shows the log loss and the certified accuracy on test images:

models = {f"network {k + 1}": term.lmm.scaled(4.0) for k, term in enumerate(clf.model_.terms)}
models["ensemble"] = clf.model_
eps = np.linspace(0, 0.3, 16)
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
for name, model in models.items():
    colour = "#D55E00" if name == "ensemble" else "#56B4E9"
    loss = model.losses(X_test, y_test).mean()
    left.barh(name, loss, color=colour)
    left.text(loss, name, f" {loss:.3f}", va="center")
    is_correct = model.scores(X_test).argmax(axis=1) == y_test
    certified = [np.mean(is_correct & certified_at(model, X_test, radius)) for radius in eps]
    right.plot(eps, certified, color=colour, linewidth=2)
left.invert_yaxis()
left.set(title="Log loss", xlim=(0, 0.23))
right.set(title="Certified accuracy", xlabel="ε: largest change of each pixel", ylim=(0, 1))

# %%
# Disagreement
# ------------
#
# The figure shows images on which the networks disagree, with the predictions of all networks and
# of the ensemble.

*votes, final = (model.scores(X_test).argmax(axis=1) for model in models.values())
votes = np.stack(votes)
split = np.flatnonzero((votes != votes[0]).any(axis=0))
print(f"the networks disagree on {split.size} of {len(y_test)} images")
print(f"mean accuracy of a network there: {np.mean(votes[:, split] == y_test[split]):.0%}")
print(f"accuracy of the ensemble there: {np.mean(final[split] == y_test[split]):.0%}")
fig, axes = plt.subplots(2, 8, figsize=(9, 3.6), layout="constrained")
for ax, n in zip(axes.flat, split, strict=False):
    ax.imshow(X_test[n].reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
    digits = " ".join(str(vote) for vote in votes[:, n])
    ax.set_title(
        f"{digits} → {final[n]}", size=10, color="#009E73" if final[n] == y_test[n] else "#D55E00"
    )
    ax.axis("off")
fig.suptitle("Predictions of four networks and of the ensemble (green: correct)")
plt.show()
