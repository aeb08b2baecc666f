"""Which options the recipes of ``python -m experiments quality`` should have.

Candidates train on the first 50,000 training images and are judged on the other 10,000; test images
have no say. All of them take about an hour on two cores; name some to try only those::

    MAXPLUS_DATA=… python -m experiments.choose_recipes [NAME…]
"""

import sys
from dataclasses import replace
from typing import Any

import numpy as np

from experiments.measure import timed
from experiments.quality import RECIPES, Recipe
from maxplus import datasets
from maxplus.certify import certified_at
from maxplus.images import GaussianBlur

N_TRAIN = 50_000
# No polish here but where it is the question: it costs about 0.1 points of accuracy.
PLAIN: dict[str, Any] = {"polish": None}
ROBUST = PLAIN | {"n_hidden": 2000, "slope": 15.0}
SHIFTED = PLAIN | {"n_hidden": 3000, "warmup_epochs": 15}


def mnist(name: str, blur: float = 0.0, shift: int = 0, **options: Any) -> Recipe:
    """A candidate on handwritten digits."""
    return Recipe(name, "mnist", options, blur, shift)


CANDIDATES = [
    *(replace(recipe, name=f"chosen: {recipe.name}") for recipe in RECIPES),
    *(mnist(f"500 units, slope {k:g}", n_hidden=500, slope=k) for k in (10.0, 12.0, 15.0, 20.0)),
    *(mnist(f"500 units, margin {eps}", n_hidden=500, slope=15.0, robust_eps=eps, **PLAIN)
      for eps in (0.1, 0.2, 0.3)),
    *(mnist(f"blur {sigma}", sigma, n_hidden=2000, slope=15.0, **PLAIN)
      for sigma in (0.5, 0.75, 1.0)),
    *(mnist(f"blur and shifts, slope {k:g}", 0.75, 1, slope=k, **SHIFTED)
      for k in (15.0, 20.0, 30.0, 40.0)),
    *(mnist(f"robust, margin {eps}", robust_eps=eps, **ROBUST) for eps in (0.1, 0.15, 0.3)),
    mnist("robust, shifts", 0.0, 1, robust_eps=0.1, **ROBUST),
    *(Recipe(f"fashion, {H} units, blur {sigma}", "fashion_mnist", PLAIN | {"n_hidden": H}, sigma)
      for H, sigma in ((500, 0.0), (1000, 0.5), (2000, 0.5))),
]  # fmt: skip


def judge(recipe: Recipe) -> str:
    """Train one candidate and say how it does."""
    data = getattr(datasets, f"load_{recipe.data}")()
    X = GaussianBlur(recipe.blur).fit_transform(data.X_train)
    X_val, y_val = X[N_TRAIN:], data.y_train[N_TRAIN:]
    seconds, clf = timed(recipe.classifier(0, quick=False).fit, X[:N_TRAIN], data.y_train[:N_TRAIN])
    right = clf.predict(X_val) == y_val
    certified = [np.mean(right & certified_at(clf.model_, X_val, eps)) for eps in (0.1, 0.3)]
    return (
        f"{recipe.name:<42} {seconds:5.0f} s  largest training loss {clf.max_loss_:7.3f}  "
        f"validation {right.mean():.2%}  certified at 0.1 {certified[0]:.2%}, "
        f"at 0.3 {certified[1]:.2%}"
    )


def main() -> None:
    """Judge the candidates whose names are given, or all."""
    wanted = sys.argv[1:]
    for recipe in CANDIDATES:
        if not wanted or any(word in recipe.name for word in wanted):
            print(judge(recipe), flush=True)


if __name__ == "__main__":
    main()
