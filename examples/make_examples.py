"""Generate the example tables: ``python examples/make_examples.py``."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from sklearn.datasets import load_iris

HERE = Path(__file__).parent


def iris() -> Iterable[list]:
    """Yield the iris data of scikit-learn."""
    data = load_iris()
    yield ["sepal length", "sepal width", "petal length", "petal width", "species"]
    for values, code in zip(data.data, data.target, strict=True):
        yield [*(f"{value:g}" for value in values), data.target_names[code]]


def orchard(n: int = 240) -> Iterable[list]:
    """Yield synthetic apples, classified by three numbers and a category."""
    rng = np.random.default_rng(7)
    yield ["variety", "weight g", "sugar %", "bruise mm", "goes to"]
    for _ in range(n):
        variety = rng.choice(["Boskoop", "Elstar", "Gala"])
        heavy = {"Boskoop": 210, "Elstar": 160, "Gala": 150}[variety]
        weight, sugar = rng.normal(heavy, 25), rng.normal(12.5, 1.4)
        bruise = rng.gamma(1.3, 4.0)
        if bruise > 12:
            place = "compost"
        elif bruise > 5 or sugar < 11 or weight < 0.85 * heavy:
            place = "juice"
        else:
            place = "shop"
        yield [variety, f"{weight:.0f}", f"{sugar:.1f}", f"{bruise:.1f}", place]


def main() -> None:
    """Write both tables."""
    for name, rows in (("iris", iris()), ("orchard", orchard())):
        with open(HERE / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    main()
