"""
A callback
==========

A callback is called with a ``maxplus.training.Progress`` after each epoch, block of iterations or
round of a polish. It may look at the model, draw, write a log, and end the training by returning
True. What was trained so far is kept.
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
# This one notes how the model does on images that it is not trained on, and ends the training when
# ten epochs in a row brought nothing. ``progress.model`` sees what the stages train on; with
# ``standardize=False`` these are the pixels themselves.


class Watch:
    """Accuracy on other images after each epoch; True when it has not risen for a while."""

    def __init__(self, X, y, patience):
        self.X, self.y, self.patience = X, y, patience
        self.accuracy, self.loss = [], []

    def __call__(self, progress):
        guess = progress.model.scores(self.X).argmax(axis=1)
        self.accuracy.append(np.mean(guess == self.y))
        self.loss.append(progress.loss)
        return len(self.accuracy) - 1 - int(np.argmax(self.accuracy)) >= self.patience


watch = Watch(X_test, y_test, patience=10)
clf = LMMClassifier(
    100,
    slope=15.0,
    standardize=False,
    warmup_epochs=60,
    polish=None,
    random_state=0,
    callbacks=watch,
)
clf.fit(X_train, y_train)
print(f"ended by the callback after {clf.n_iter_} of 60 epochs")

# %%
# What it saw
# -----------
#
# The best accuracy is a little too good to be true: these images chose the epoch. Judge on others.

epochs = 1 + np.arange(len(watch.accuracy))
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
left.plot(epochs, watch.loss, "o-", color="#0072B2", markersize=3)
left.set(xlabel="epoch", ylabel="mean soft loss", title="On the training images", ylim=(0, None))
right.plot(epochs, watch.accuracy, "o-", color="#D55E00", markersize=3)
best = int(np.argmax(watch.accuracy))
right.axvline(epochs[best], color="#222222", linestyle="--", linewidth=1)
right.annotate(
    f"best: {watch.accuracy[best]:.1%}",
    (epochs[best], min(watch.accuracy)),
    xytext=(5, 5),
    textcoords="offset points",
)
right.set(xlabel="epoch", ylabel="accuracy", title="On other images")
for ax in (left, right):
    ax.xaxis.get_major_locator().set_params(integer=True)
plt.show()
