"""
Committees
==========

Members start at clusters of their own and see batches in an order of their own. Their mean score
decides: what one gets wrong by chance, the others may outvote. Certificates, explanations and files
know committees as well.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from maxplus import LMMCommittee

X, y = load_digits(return_X_y=True)
X /= 16
X_train, X_test, y_train, y_test = train_test_split(
    X, y, train_size=400, stratify=y, random_state=0
)
committee = LMMCommittee(4, n_hidden=60, polish=None, random_state=0).fit(X_train, y_train)
models = {f"member {k + 1}": member for k, member in enumerate(committee.members_)}
models["committee"] = committee

# %%
# Better than each member
# -----------------------
#
# On new images, the log loss and the share that is right and stays right within ε:

eps = np.linspace(0, 0.3, 16)
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
for name, clf in models.items():
    colour = "#D55E00" if name == "committee" else "#56B4E9"
    loss = log_loss(y_test, clf.predict_proba(X_test))
    left.barh(name, loss, color=colour)
    left.text(loss, name, f" {loss:.3f}", va="center")
    right.plot(eps, clf.certify(X_test, y_test, eps), color=colour, linewidth=2)
left.invert_yaxis()
left.set(title="Log loss", xlim=(0, 0.23))
right.set(title="Certified accuracy", xlabel="ε: how far every pixel may move", ylim=(0, 1))

# %%
# Where members disagree
# ----------------------
#
# Each image with the digit that the members take it for, and what the committee says in the end.

votes = np.stack([member.predict(X_test) for member in committee.members_])
final = committee.predict(X_test)
split = np.flatnonzero((votes != votes[0]).any(axis=0))
print(f"members disagree about {split.size} of {len(y_test)} images")
print(f"of these a member has {np.mean(votes[:, split] == y_test[split]):.0%} right")
print(f"and the committee {np.mean(final[split] == y_test[split]):.0%}")
fig, axes = plt.subplots(2, 8, figsize=(9, 3.6), layout="constrained")
for ax, n in zip(axes.flat, split, strict=False):
    ax.imshow(X_test[n].reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
    said = " ".join(str(vote) for vote in votes[:, n])
    ax.set_title(f"{said} → {final[n]}", size=10,
                 color="#009E73" if final[n] == y_test[n] else "#D55E00")  # fmt: skip
    ax.axis("off")
fig.suptitle("Four votes and the committee's: green if it is right")

# %%
# Who says what about one image
# -----------------------------

print(committee.explain(X_test[split[:1]]).text(0))
plt.show()
