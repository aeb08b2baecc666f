"""
Probability calibration
=======================

A large network is overconfident. Temperature scaling multiplies all scores by a single factor,
which is estimated on held-out rows of short fits. It does not change predictions or certified
radii.
"""

import matplotlib.pyplot as plt
from scipy.special import softmax
from sklearn.datasets import make_classification
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from maxplus import LMMClassifier
from maxplus.metrics import reliability

X, y = make_classification(
    3_000, n_features=8, n_informative=5, flip_y=0.15, class_sep=0.8, random_state=0
)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.6, random_state=0)
# Use too many units and a large slope to obtain an overconfident model.
clf = LMMClassifier(100, slope=8.0, polish=None, calibrate=True, random_state=0)
clf.fit(X_train, y_train)
print(f"all weights were multiplied by {clf.inverse_temperature_:.2f}")

# %%
# The inverse temperature is included in the weights. Dividing the scores by it gives the
# uncalibrated scores. In the figure, points below the diagonal are overconfident, and the area of a
# point grows with the number of samples.

scores = clf.model_.scores(X_test)
outcomes = {
    "as trained": softmax(scores / clf.inverse_temperature_, axis=1),
    "calibrated": clf.predict_proba(X_test),
}
fig, axes = plt.subplots(1, 2, figsize=(9, 4.2), sharey=True, layout="constrained")
for ax, (name, P) in zip(axes, outcomes.items(), strict=True):
    bins = reliability(y_test, P)
    size = 10 + 1_000 * bins.count / bins.count.sum()
    ax.plot([0.5, 1], [0.5, 1], color="#6B6B6B", linestyle="--", linewidth=1)
    ax.vlines(bins.confidence, bins.confidence, bins.accuracy, color="#0072B2", alpha=0.4)
    ax.scatter(bins.confidence, bins.accuracy, s=size, color="#0072B2", alpha=0.8, linewidth=0)
    ax.set(xlabel="probability of the predicted class", xlim=(0.48, 1.02), ylim=(0.4, 1.02))
    ax.set_title(f"{name}\nlog loss {log_loss(y_test, P):.3f}, calibration error {bins.error:.3f}")
axes[0].set_ylabel("accuracy")
plt.show()
