"""
Callbacks
=========

A callback is called with a ``maxplus.training.Progress`` object after each epoch, block of
iterations or round of a polish. It can inspect the model or write a log. If it returns True,
training stops and the current model is kept.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from maxplus import LMMClassifier

X, y = load_digits(return_X_y=True)
X /= 16
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)

# %%
# This callback records the accuracy on a validation set and stops training after ten epochs without
# improvement. ``progress.model`` expects standardised features. With ``standardize=False``, these
# are the pixels.


class ValidationMonitor:
    """Callback that stops training if the validation accuracy does not improve."""

    def __init__(self, X, y, patience):
        self.X, self.y, self.patience = X, y, patience
        self.accuracy, self.loss = [], []

    def __call__(self, progress):
        predicted = progress.model.scores(self.X).argmax(axis=1)
        self.accuracy.append(np.mean(predicted == self.y))
        self.loss.append(progress.loss)
        return len(self.accuracy) - 1 - int(np.argmax(self.accuracy)) >= self.patience


monitor = ValidationMonitor(X_test, y_test, patience=10)
clf = LMMClassifier(
    100,
    slope=15.0,
    standardize=False,
    warmup_epochs=60,
    polish=None,
    random_state=0,
    callbacks=monitor,
)
clf.fit(X_train, y_train)
print(f"stopped after {clf.n_iter_} of 60 epochs")

# %%
# Loss and accuracy
# -----------------
#
# The best accuracy is an optimistic estimate, because the epoch was selected on the same images.

epochs = 1 + np.arange(len(monitor.accuracy))
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
left.plot(epochs, monitor.loss, "o-", color="#0072B2", markersize=3)
left.set(xlabel="epoch", ylabel="mean soft loss", title="Training images", ylim=(0, None))
right.plot(epochs, monitor.accuracy, "o-", color="#D55E00", markersize=3)
best = int(np.argmax(monitor.accuracy))
right.axvline(epochs[best], color="#222222", linestyle="--", linewidth=1)
right.annotate(
    f"best: {monitor.accuracy[best]:.1%}",
    (epochs[best], min(monitor.accuracy)),
    xytext=(5, 5),
    textcoords="offset points",
)
right.set(xlabel="epoch", ylabel="accuracy", title="Validation images")
for ax in (left, right):
    ax.xaxis.get_major_locator().set_params(integer=True)
plt.show()
