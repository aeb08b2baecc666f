"""
Regression and Lipschitz interpolation
======================================

``LipschitzInterpolator`` computes the smallest and the largest function with Lipschitz constant K
through all points. Any K-Lipschitz function through the points lies between these envelopes. For
noisy data, ``LMMRegressor`` fits a curve with prediction intervals.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxplus import LipschitzInterpolator, LMMRegressor


def f(x):
    """Return a function with Lipschitz constant 1.7."""
    return np.sin(x) + 0.35 * np.sin(2 * x)


rng = np.random.default_rng(0)
x = np.linspace(0, 10, 500)[:, None]

# %%
# Lipschitz interpolation
# -----------------------
#
# The distance between the envelopes decreases with the number of points.

fig, axes = plt.subplots(1, 3, figsize=(11, 3.2), sharey=True, layout="constrained")
for ax, n in zip(axes, (5, 10, 20), strict=True):
    points = np.linspace(0.3, 9.7, n)[:, None]
    exact = LipschitzInterpolator(slope=1.7).fit(points, f(points[:, 0]))
    lower, upper = exact.envelopes(x)
    assert (lower <= f(x[:, 0]) + 1e-12).all()
    assert (f(x[:, 0]) <= upper + 1e-12).all()
    ax.fill_between(x[:, 0], lower, upper, color="#0072B2", alpha=0.2, linewidth=0)
    ax.plot(x, lower, color="#0072B2", linewidth=1)
    ax.plot(x, upper, color="#0072B2", linewidth=1)
    ax.plot(x, f(x), color="#222222", linestyle="--", linewidth=1)
    ax.plot(points, f(points), "o", color="#D55E00", markersize=5)
    ax.set_title(f"{n} points, largest distance {np.max(upper - lower):.2f}")

# %%
# Noisy data
# ----------
#
# The structure of the regressor is selected by cross-validation. The prediction intervals are
# computed from the residuals of held-out rows.

X = rng.uniform(0, 10, (300, 1))
y = f(X[:, 0]) + rng.normal(0, 0.25, 300)
learned = LMMRegressor(random_state=0).fit(X, y)
lower, upper = learned.predict_interval(x, coverage=0.9)
new = rng.uniform(0, 10, (2_000, 1))
low, high = learned.predict_interval(new, coverage=0.9)
target = f(new[:, 0]) + rng.normal(0, 0.25, 2_000)
print(
    f"{learned.n_hidden_} units; coverage of the 90 % interval on new points: "
    f"{np.mean((low <= target) & (target <= high)):.1%}"
)

fig, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
ax.fill_between(x[:, 0], lower, upper, color="#0072B2", alpha=0.15, linewidth=0, label="90 %")
ax.plot(X, y, ".", color="#6B6B6B", markersize=4)
ax.plot(x, learned.predict(x), color="#0072B2", linewidth=2, label="prediction")
ax.plot(x, f(x), color="#222222", linestyle="--", linewidth=1, label="function")
ax.legend(frameon=False, ncols=3, loc="lower left")
plt.show()
