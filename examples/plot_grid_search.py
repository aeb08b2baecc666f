"""
Pipelines and GridSearchCV
==========================

The estimators are compatible with scikit-learn's pipelines and model selection. This example
searches for the slope of a single network together with a parameter of a preceding step.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline

from maxplus import LMMClassifier

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, train_size=500, stratify=y, random_state=0
)

# %%
# Search for the best number of components and the best slope:

pipeline = make_pipeline(
    PCA(random_state=0), LMMClassifier(60, warmup_epochs=8, polish=None, random_state=0)
)
grid = {"pca__n_components": [8, 16, 32], "lmmclassifier__slope": [2.0, 4.0, 8.0, 16.0]}
search = GridSearchCV(pipeline, grid, cv=3, scoring="neg_log_loss").fit(X_train, y_train)
print("best:", search.best_params_)
print(f"test accuracy: {search.best_estimator_.score(X_test, y_test):.1%}")

# %%
# Results of the search
# ---------------------

results = search.cv_results_
loss = np.empty((3, 4))
for score, parameters in zip(results["mean_test_score"], results["params"], strict=True):
    row = grid["pca__n_components"].index(parameters["pca__n_components"])
    loss[row, grid["lmmclassifier__slope"].index(parameters["lmmclassifier__slope"])] = -score
fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
image = ax.imshow(loss, cmap="viridis_r", aspect="auto")
for (row, column), value in np.ndenumerate(loss):
    best = value == loss.min()
    ax.text(
        column,
        row,
        f"{value:.3f}",
        ha="center",
        va="center",
        weight="bold" if best else None,
        color="white" if value > loss.mean() else "black",
    )
ax.set_xticks(range(4), grid["lmmclassifier__slope"])
ax.set_yticks(range(3), grid["pca__n_components"])
ax.set(xlabel="slope", ylabel="components", title="Cross-validated log loss")
fig.colorbar(image)
plt.show()
