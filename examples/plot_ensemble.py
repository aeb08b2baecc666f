"""
Ensembles
=========

The networks of an ensemble start at clusters of their own and see batches in an order of their own.
Their mean score decides: what one gets wrong by chance, the others may outvote. The mean is a sum
of terms, so that certificates, explanations and files are those of any other model.
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
# Better than each network
# ------------------------
#
# With ``n_hidden`` given, each network is one term over all features, divided by their number. On
# new images, the log loss and the share that is right and stays right within ε:

models = {f"network {k + 1}": term.lmm.scaled(4.0) for k, term in enumerate(clf.model_.terms)}
models["ensemble"] = clf.model_
eps = np.linspace(0, 0.3, 16)
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
for name, model in models.items():
    colour = "#D55E00" if name == "ensemble" else "#56B4E9"
    loss = model.losses(X_test, y_test).mean()
    left.barh(name, loss, color=colour)
    left.text(loss, name, f" {loss:.3f}", va="center")
    is_right = model.scores(X_test).argmax(axis=1) == y_test
    stays = [np.mean(is_right & certified_at(model, X_test, radius)) for radius in eps]
    right.plot(eps, stays, color=colour, linewidth=2)
left.invert_yaxis()
left.set(title="Log loss", xlim=(0, 0.23))
right.set(title="Certified accuracy", xlabel="ε: how far every pixel may move", ylim=(0, 1))

# %%
# Where networks disagree
# -----------------------
#
# Each image with the digit that each network takes it for, and that of the ensemble.

*votes, final = (model.scores(X_test).argmax(axis=1) for model in models.values())
votes = np.stack(votes)
split = np.flatnonzero((votes != votes[0]).any(axis=0))
print(f"networks disagree about {split.size} of {len(y_test)} images")
print(f"of these a network has {np.mean(votes[:, split] == y_test[split]):.0%} right")
print(f"and the ensemble {np.mean(final[split] == y_test[split]):.0%}")
fig, axes = plt.subplots(2, 8, figsize=(9, 3.6), layout="constrained")
for ax, n in zip(axes.flat, split, strict=False):
    ax.imshow(X_test[n].reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
    said = " ".join(str(vote) for vote in votes[:, n])
    ax.set_title(
        f"{said} → {final[n]}", size=10, color="#009E73" if final[n] == y_test[n] else "#D55E00"
    )
    ax.axis("off")
fig.suptitle("Four votes and the ensemble's: green if it is right")
plt.show()
