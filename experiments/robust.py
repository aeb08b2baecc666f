"""Certified robustness: clean and certified errors compared with robust trees.

Tables are in the folder ``robust`` of MAXPLUS_DATA, or in that of MAXPLUS_ROBUST: twelve with the
columns ``class`` and ``fold`` (Vos & Verwer 2021, "Efficient Training of Robust Decision Trees"),
and two in the order of Andriushchenko & Hein 2019, "Provably Robust Boosted Decision Stumps and
Trees", where the first 80 % of the rows are the training set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from experiments.harness import (
    Figure,
    Result,
    Settings,
    Split,
    Table,
    axes,
    data_folder,
    load_images,
)
from experiments.measure import timed
from maxplus.certify import certified_at
from maxplus.estimators import LMMClassifier
from maxplus.images import RandomShift
from maxplus.plots._style import BLUE, GREY, VERMILION

find_folder = partial(
    data_folder, "MAXPLUS_ROBUST", "robust", "tables with the columns class and fold"
)
TRAINED_PART = 0.8
# Number of random points in the box of each certified row that are checked for a change of class.
ATTACKS, ATTACKS_ON_IMAGES, ATTACKED_IMAGES = 200, 5, 500
QUICK_ROWS, QUICK_IMAGES, QUICK_EPOCHS = 120, 200, 2
QUICK_TASKS = ("haberman", "A&H diabetes", "MNIST 1-5")
# Share of the images of a batch that are shifted by up to a pixel.
SHIFTED = 0.4
PIXELS = 784

TABLE_EPS = {
    "SPECTF": 0.1,
    "banknote-authentication": 0.1,
    "blood-transfusion": 0.1,
    "breast-cancer": 0.3,
    "climate-model-simulation": 0.1,
    "cylinder-bands": 0.1,
    "diabetes": 0.05,
    "haberman": 0.1,
    "ionosphere": 0.2,
    "parkinsons": 0.1,
    "planning-relax": 0.1,
    "sonar": 0.1,
}
# Clean and certified error of the papers' trees, in percent; None if the paper has no number.
Errors = tuple[float | None, float | None]


@dataclass(frozen=True)
class Task:
    """Data set, size of the certified changes, and errors of robust trees.

    Attributes
    ----------
    name : str
    eps : change of each feature
    load : function that returns the splits of the data
    trees : clean and certified error of robust trees in their papers
    options : options of the classifier
    """

    name: str
    eps: float
    load: Callable[[], list[Split]]
    trees: Errors = (None, None)
    options: dict[str, Any] = field(default_factory=dict)

    def classifier(self, seed: int, quick: bool) -> LMMClassifier:
        """Return an unfitted classifier."""
        options = {"standardize": False, "random_state": seed, **self.options}
        if quick:
            options |= {"warmup_epochs": QUICK_EPOCHS, "structure": "shapes"}
        return LMMClassifier(robust_eps=self.eps, **options)


def table_splits(name: str) -> list[Split]:
    """Return the five splits of a table by its column ``fold``."""
    frame = pd.read_csv(find_folder() / f"{name}.csv.gz")
    X = frame.drop(columns=["class", "fold"]).to_numpy(float)
    y, fold = np.unique(frame["class"], return_inverse=True)[1], frame["fold"].to_numpy()
    return [Split(X[fold != k], y[fold != k], X[fold == k], y[fold == k]) for k in np.unique(fold)]


def boosting_split(name: str, first: int = 0) -> list[Split]:
    """Return the split of Andriushchenko & Hein, scaled to [0, 1] on the training rows."""
    has_header = name == "ah-diabetes"
    frame = pd.read_csv(
        find_folder() / f"{name}.csv.gz", header=0 if has_header else None, na_values="?"
    ).dropna()
    values = frame.to_numpy(float)
    X, y = values[:, first:-1], np.unique(values[:, -1], return_inverse=True)[1]
    n = int(TRAINED_PART * len(X))
    low, high = X[:n].min(axis=0), X[:n].max(axis=0)
    X = (X - low) / np.where(high > low, high - low, 1.0)
    return [Split(X[:n], y[:n], X[n:], y[n:])]


def image_split(name: str, classes: tuple[int, int] | None = None) -> list[Split]:
    """Return the images of all classes, or of two classes as 0 and 1."""
    split = load_images(name)
    if classes is None:
        return [split]
    X, y, X_test, y_test = split
    train, test = np.isin(y, classes), np.isin(y_test, classes)
    y, y_test = (y == classes[1]).astype(int), (y_test == classes[1]).astype(int)
    return [Split(X[train], y[train], X_test[test], y_test[test])]


def shift_some(rows: NDArray, rng: np.random.Generator) -> NDArray:
    """Return the images, a share of them shifted by up to a pixel."""
    is_moved = rng.random(len(rows)) < SHIFTED
    return np.where(is_moved[:, None], RandomShift(1)(rows, rng), rows)


# Options for images were chosen on the last 2,000 or 3,000 training images. The classifier chooses
# those for tables by cross-validation on the training rows.
SHIFTED_DIGITS: dict[str, Any] = {"robust_training": 1.0, "augment": shift_some}
BLACK_OR_WHITE = SHIFTED_DIGITS | {"clip": (0.4, 0.6), "warmup_epochs": 20}
TWO_LEVELS = SHIFTED_DIGITS | {"clip": ((0.2, 0.4), (0.6, 0.8)), "warmup_epochs": 10}
CLOTHES: dict[str, Any] = {"robust_training": 1.0, "clip": ((0.1, 0.4), (0.5, 0.8))}
ALL_CLOTHES = CLOTHES | {"robust_training": 1.1, "warmup_epochs": 20}
MNIST, FASHION = partial(image_split, "mnist"), partial(image_split, "fashion_mnist")
TASKS = (
    *(Task(name, eps, partial(table_splits, name)) for name, eps in TABLE_EPS.items()),
    Task("A&H breast-cancer", 0.3, partial(boosting_split, "ah-breast-cancer"), (0.7, 6.6)),
    Task("A&H breast-cancer without id", 0.3, partial(boosting_split, "ah-breast-cancer", 1)),
    Task("A&H diabetes", 0.05, partial(boosting_split, "ah-diabetes"), (27.3, 35.7)),
    Task("MNIST at 0.1", 0.1, MNIST, options=TWO_LEVELS),
    Task("MNIST 1-5", 0.3, partial(MNIST, (1, 5)), (0.2, 1.3), BLACK_OR_WHITE),
    Task("MNIST 2-6", 0.3, partial(MNIST, (2, 6)), (0.7, 3.8), BLACK_OR_WHITE),
    Task(
        "sandal-sneaker", 0.1, partial(FASHION, (5, 7)), (3.6, 8.0), CLOTHES | {"warmup_epochs": 10}
    ),
    Task("MNIST at 0.3", 0.3, MNIST, (None, 12.46), BLACK_OR_WHITE),
    Task("Fashion-MNIST at 0.1", 0.1, FASHION, (None, 23.17), ALL_CLOTHES),
)
MEAN_OF_TREES = (21.8, 26.9)
ERRORS = ["error", "certified", "constant"]
COLUMNS = {
    "task": "name",
    "ε": "eps",
    "error": "{error:.2f}",
    "certified error": "{certified:.2f}",
    "constant": "{constant:.1f}",
    "trees (papers)": "papers",
    "seconds": "{seconds:.0f}",
}


def run(settings: Settings) -> Result:
    """Train on every task; errors on test rows, in percent."""
    tasks = {task.name: task for task in TASKS if task.name in QUICK_TASKS or not settings.quick}
    runs = settings.runs(
        lambda name, _: measure(tasks[name], settings.quick), dict.fromkeys(tasks, 1), "robust"
    )
    measured = {name: result for name, (result,) in runs.items()}
    return Result(
        "Certified robustness",
        _text(measured),
        [Table.from_records("Errors in percent, lower is better", _rows(measured), COLUMNS)],
        {"tasks": measured},
        {"errors": _draw(measured)},
        f"{QUICK_ROWS} rows of tables, {QUICK_IMAGES} images, {QUICK_EPOCHS} epochs, one "
        "structure, one fold",
    )


def measure(task: Task, quick: bool = False) -> dict[str, Any]:
    """Return mean errors over the splits of a task in percent, seconds, and counts of attacks."""
    splits = task.load()[: 1 if quick else None]
    found = pd.DataFrame([_measure_split(task, k, split, quick) for k, split in enumerate(splits)])
    return {
        **found[ERRORS].mean().to_dict(),
        **found[["seconds", "attacks", "flips"]].sum().astype(float).to_dict(),
        "eps": task.eps,
        "trees": list(task.trees),
        "chosen": found["chosen"].tolist(),
    }


def _measure_split(task: Task, seed: int, split: Split, quick: bool) -> dict[str, Any]:
    is_image = split.X_train.shape[1] == PIXELS
    if quick:
        n = QUICK_IMAGES if is_image else QUICK_ROWS
        split = Split(*(part[:: max(1, len(part) // n)] for part in split))
    X, y, X_test, y_test = split
    seconds, clf = timed(task.classifier(seed, quick).fit, X, y)
    n_attacks = ATTACKS_ON_IMAGES if is_image or quick else ATTACKS
    search = getattr(clf, "search_", None)
    return {
        "error": 100 * float((clf.predict(X_test) != y_test).mean()),
        "certified": 100 - 100 * clf.certified_accuracy(X_test, y_test),
        "constant": 100 * float((y_test != np.bincount(y).argmax()).mean()),
        "seconds": seconds,
        "chosen": "fixed" if search is None else str(search["candidates"][search["chosen"]]),
        **attack(clf, X_test, np.random.default_rng(seed), n_attacks),
    }


def attack(
    clf: LMMClassifier, X: NDArray, rng: np.random.Generator, n_attacks: int
) -> dict[str, int]:
    """Move certified rows within their boxes; return the numbers of attacks and of class changes.

    Half of the features are moved to an end of their interval, the others to random points. Models
    with constant scores are not attacked.
    """
    some = X[:: max(1, len(X) // ATTACKED_IMAGES)]
    scores = clf.model_.scores(some)
    if not len(some) or not np.ptp(scores, axis=0).any():
        return {"attacks": 0, "flips": 0}
    rows = some[certified_at(clf.model_, some, 1.0, clf.robust_eps_)].astype(float)
    own, flips = clf.model_.scores(rows).argmax(axis=1), 0
    for _ in range(n_attacks):
        move = rng.uniform(-1.0, 1.0, rows.shape)
        is_end = rng.random(rows.shape) < 0.5
        moved = rows + clf.robust_eps_ * np.where(is_end, np.sign(move), move)
        flips += int((clf.model_.scores(moved).argmax(axis=1) != own).sum())
    return {"attacks": n_attacks * len(rows), "flips": flips}


def _rows(measured: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the results of each task, after their mean over the twelve tables if all were run."""
    tables = [measured[name] for name in TABLE_EPS if name in measured]
    rows = [{"name": name, **one} for name, one in measured.items()]
    if len(tables) == len(TABLE_EPS):
        found = pd.DataFrame(tables)
        mean = {"name": "mean of 12 tables", "eps": "", "trees": MEAN_OF_TREES}
        rows.insert(0, mean | found[ERRORS].mean().to_dict() | {"seconds": found["seconds"].sum()})
    return [row | {"papers": _pair(*row["trees"])} for row in rows]


def _pair(*errors: float | None) -> str:
    shown = ["–" if error is None else f"{error:g}" for error in errors]
    return "–" if {*shown} == {"–"} else " / ".join(shown)


def _text(measured: dict[str, dict[str, Any]]) -> str:
    attacks, changes = (
        int(sum(one[name] for one in measured.values())) for name in ("attacks", "flips")
    )
    return (
        "Errors on test rows as they are, and within |x' − x| ≤ ε of every feature, where a row "
        "counts as right if that is certified. Tables: features in [0, 1], size of "
        "boxes in training chosen by cross-validation on training rows. Images: options fixed on "
        "validation images. A constant prediction is certified everywhere. "
        f"{attacks:,} attacks on certified rows changed {changes} predictions."
    )


def _draw(measured: dict[str, dict[str, Any]]) -> Figure:
    rows = pd.DataFrame(_rows(measured))
    of_trees = [np.nan if error is None else error for _, error in rows["trees"]]
    figure, ax = axes(
        7.0, 1.2 + 0.26 * len(rows), "Certified robustness", xlabel="% of the test rows"
    )
    for colour, marker, label, values in (
        (BLUE, "o", "error", rows["error"]),
        (VERMILION, "s", "certified error", rows["certified"]),
        (GREY, "|", "constant", rows["constant"]),
        (GREY, "x", "trees, certified (papers)", of_trees),
    ):
        ax.plot(values, range(len(rows)), marker, color=colour, label=label, ms=6)
    ax.set_yticks(range(len(rows)), rows["name"])
    ax.invert_yaxis()
    ax.legend(frameon=False, loc="upper right")
    return figure
