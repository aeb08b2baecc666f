"""What the library's own recipes reach, beside the paper's figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments.finding import Finding, Settings, Table, mean_and_spread
from experiments.measure import timed
from experiments.metrics import LOG2
from experiments.parts import Part
from maxplus import datasets
from maxplus.certify import certified_at
from maxplus.estimators import LMMClassifier, LMMEnsembleClassifier
from maxplus.images import GaussianBlur, RandomShift
from maxplus.plots._canvas import BLUE, GREEN, GREY, INK, ORANGE, VERMILION, new_figure, quiet_frame

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FULL_SEEDS, QUICK_SEEDS = 3, 1
# An ensemble is several trainings by itself.
ENSEMBLE_SEEDS = 1
QUICK_IMAGES, QUICK_UNITS = 1_000, 30
FOLDS = 5
# Changes of every pixel, as shares of the whole range from black to white.
EPS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4)
COLOURS = (BLUE, VERMILION, GREEN, ORANGE, INK, GREY)


@dataclass(frozen=True)
class Recipe:
    """A way to train on images of one kind: one network, or an ensemble of several."""

    name: str
    data: str
    options: dict[str, Any] = field(default_factory=dict)
    blur: float = 0.0
    shift: int = 0
    members: int = 1

    def classifier(self, seed: int, quick: bool) -> LMMClassifier | LMMEnsembleClassifier:
        """Not trained yet; a quick one has few units."""
        options = self.options | {"random_state": seed}
        if quick:
            options["n_hidden"] = QUICK_UNITS
        if self.shift:
            options["augment"] = RandomShift(self.shift)
        if self.members > 1:
            n_networks, seed = 2 if quick else self.members, options.pop("random_state")
            return LMMEnsembleClassifier(LMMClassifier(**options), n_networks, random_state=seed)
        return LMMClassifier(**options)


# Everything here was chosen by training on 50,000 of the training images and judging on the other
# 10,000 (experiments/choose_recipes.py); test images had no say in it.
DEFAULT, PROVED = "default, 500 units", "blur, 2,000"
SHIFTED, ROBUST, VERY_ROBUST, FASHION = (
    "blur and shifts, 4 × 1,000",
    "robust at 0.1, 4 × 1,000",
    "robust at 0.3, 4 × 1,000",
    "Fashion, blur, 4 × 1,000",
)
MEMBER: dict[str, Any] = {"n_hidden": 1000, "polish": None}
RECIPES = (
    Recipe(DEFAULT, "mnist", {"n_hidden": 500}),
    Recipe(
        SHIFTED, "mnist", MEMBER | {"slope": 30.0, "warmup_epochs": 15},
        blur=0.75, shift=1, members=4,
    ),
    Recipe(PROVED, "mnist", {"n_hidden": 2000, "slope": 15.0, "polish": "log2"}, blur=0.75),
    Recipe(ROBUST, "mnist", MEMBER | {"robust_eps": 0.1, "slope": 15.0}, members=4),
    Recipe(VERY_ROBUST, "mnist", MEMBER | {"robust_eps": 0.3, "slope": 15.0}, members=4),
    Recipe(FASHION, "fashion_mnist", MEMBER, blur=0.5, members=4),
)  # fmt: skip


class Goal(NamedTuple):
    """A figure to reach: which recipe has it, under which name, and what is asked."""

    what: str
    recipe: str
    figure: str
    paper: str
    least: float
    hoped: float
    is_percentage: bool = True


SECONDS = "seconds to the model with 500 units"
GOALS = (
    Goal("MNIST test accuracy, 500 units, raw pixels", DEFAULT, "test", "88.75 %", 96.68, 97.5),
    Goal("certified test accuracy at ε = 0.1 of that model", DEFAULT, "at 0.1", "–", 91.8, 91.8),
    Goal("MNIST test accuracy, best recipe", SHIFTED, "test", "–", 98.2, 98.6),
    Goal("MNIST largest training loss", PROVED, "max_loss", "1.64", LOG2, 0.1, False),
    Goal("test accuracy of that certified model", PROVED, "test", "–", 97.0, 98.0),
    Goal("certified test accuracy at ε = 0.1", ROBUST, "at 0.1", "–", 94.5, 97.0),
    Goal("certified test accuracy at ε = 0.3", VERY_ROBUST, "at 0.3", "–", 80.0, 85.0),
    Goal(SECONDS, DEFAULT, "seconds", "6.7 h × 30", 90.0, 30.0, False),
    Goal("Fashion-MNIST test accuracy", FASHION, "test", "–", 87.5, 89.0),
)  # fmt: skip
# Accuracy asked for in five-fold cross-validation; features of some are standardised.
SMALL = {"iris": 96.0, "wine": 96.0, "breast_cancer": 95.5, "digits": 96.5}
SCALED = ("wine", "breast_cancer")


def run(settings: Settings) -> Finding:
    """Train every recipe with every seed; each model's figures are a part."""
    n_seeds = settings.n_seeds(FULL_SEEDS, QUICK_SEEDS)
    runs = [
        (recipe, seed)
        for recipe in RECIPES
        for seed in range(n_seeds if recipe.members == 1 else min(n_seeds, ENSEMBLE_SEEDS))
    ]
    images = {name: _images(name, settings.quick) for name in {r.data for r in RECIPES}}
    parts: dict[str, list[Part]] = {}
    for recipe, seed in settings.track(runs, "recipes"):
        make = partial(_train, recipe, seed, images[recipe.data], settings.quick)
        part = settings.parts.get(f"{recipe.name} {seed}".replace(",", ""), make)
        parts.setdefault(recipe.name, []).append(part)
    small = settings.parts.get("small", partial(_small_sets, settings, n_seeds))
    return Finding(
        "What the recipes reach",
        _text(parts, small, n_seeds),
        [_goals(parts), _recipes(parts), _small_table(small)],
        {
            "recipes": {name: [_plain(part) for part in some] for name, some in parts.items()},
            "small": _plain(small),
        },
        {"certified": _draw(parts)},
        f"{QUICK_IMAGES:,} images, {QUICK_UNITS} units, {n_seeds} seed" if settings.quick else "",
    )


def _images(name: str, quick: bool) -> Any:
    data = getattr(datasets, f"load_{name}")()
    if not quick:
        return data
    return data._replace(
        X_train=data.X_train[:QUICK_IMAGES], y_train=data.y_train[:QUICK_IMAGES],
        X_test=data.X_test[:QUICK_IMAGES], y_test=data.y_test[:QUICK_IMAGES],
    )  # fmt: skip


def _train(recipe: Recipe, seed: int, data: Any, quick: bool) -> Part:
    """One model and its figures; accuracies in percent."""
    blur = GaussianBlur(recipe.blur)
    X, X_test = blur.fit_transform(data.X_train), blur.transform(data.X_test)
    seconds, clf = timed(recipe.classifier(seed, quick).fit, X, data.y_train)
    # The certificate does not rest on training's own book-keeping: everything is computed again.
    losses = clf.model_.losses(X, np.searchsorted(clf.classes_, data.y_train))
    right_train, right = clf.predict(X) == data.y_train, clf.predict(X_test) == data.y_test
    if losses.max() < LOG2 and not right_train.all():
        raise AssertionError("a training loss below log 2 belongs to a wrong prediction")
    certified = [100 * (right & certified_at(clf.model_, X_test, eps)).mean() for eps in EPS]
    return {
        "seconds": np.array(seconds), "max_loss": np.array(losses.max()),
        "train": np.array(100 * right_train.mean()), "test": np.array(100 * right.mean()),
        "suspects": np.array(getattr(clf, "suspects_", np.empty(0)).size),
        "n_hidden": np.array(clf.n_hidden_), "certified": np.array(certified),
    }  # fmt: skip


def _small_sets(settings: Settings, n_seeds: int) -> Part:
    """Mean accuracies in percent by five-fold cross-validation, one for each shuffle."""
    rivals: dict[str, Callable[[int], Any]] = {
        "lmm": lambda seed: LMMClassifier(random_state=seed),
        "knn": lambda seed: KNeighborsClassifier(),
        "mlp": lambda seed: MLPClassifier(max_iter=1000, random_state=seed),
    }
    part: Part = {}
    names = list(SMALL)[:2] if settings.quick else list(SMALL)
    for name, rival in settings.track([(n, r) for n in names for r in rivals], "small sets"):
        data = getattr(datasets, f"load_{name}")()
        scores = []
        for seed in range(n_seeds):
            model = rivals[rival](seed)
            if name in SCALED:
                model = make_pipeline(StandardScaler(), model)
            folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
            scores.append(100 * cross_val_score(model, data.X, data.y, cv=folds).mean())
        part[f"{name} {rival}"] = np.array(scores)
    return part


def _figure(part: Part, name: str) -> float:
    if name.startswith("at "):
        return float(part["certified"][EPS.index(float(name.removeprefix("at ")))])
    return float(part[name])


def _reached(parts: dict[str, list[Part]], goal: Goal) -> list[float]:
    return [_figure(part, goal.figure) for part in parts[goal.recipe]]


def _judged(parts: dict[str, list[Part]], goal: Goal) -> float:
    """What the verdict is about: the mean over seeds; of losses the worst."""
    values = _reached(parts, goal)
    return max(values) if goal.figure == "max_loss" else float(np.mean(values))


def _is_met(value: float, goal: Goal, bound: float) -> bool:
    return value >= bound if goal.is_percentage else value < bound


def _goals(parts: dict[str, list[Part]]) -> Table:
    rows = []
    for goal in GOALS:
        values = _reached(parts, goal)
        unit, digits = (" %", 2) if goal.is_percentage else ("", 3 if goal.least < 1 else 0)
        asked = [
            f"{bound:.{digits}f}{unit}" if bound else "–" for bound in (goal.least, goal.hoped)
        ]
        rows.append((
            goal.what, goal.recipe, goal.paper, *asked,
            mean_and_spread(values, digits) + unit, _verdict(_judged(parts, goal), goal),
        ))  # fmt: skip
    return Table(
        "Asked and reached (mean ± standard deviation over seeds)",
        ("figure", "recipe", "paper", "must", "aim", "reached", "verdict"),
        rows,
    )


def _verdict(value: float, goal: Goal) -> str:
    if _is_met(value, goal, goal.hoped):
        return "aim reached"
    if not goal.least:
        return "aim missed"
    return "reached" if _is_met(value, goal, goal.least) else "missed"


def _recipes(parts: dict[str, list[Part]]) -> Table:
    columns = ("recipe", "units", "seconds", "largest training loss", "training %", "test %",
               "certified at 0.1 %", "certified at 0.3 %")  # fmt: skip
    names = (("seconds", 0), ("max_loss", 3), ("train", 2), ("test", 2), ("at 0.1", 2),
             ("at 0.3", 2))  # fmt: skip
    rows = [
        (name, int(some[0]["n_hidden"]),
         *(mean_and_spread([_figure(p, n) for p in some], d) for n, d in names))
        for name, some in parts.items()
    ]  # fmt: skip
    return Table("All recipes", columns, rows)


def _names(small: Part) -> list[str]:
    return list(dict.fromkeys(key.rsplit(" ", 1)[0] for key in small))


def _small_table(small: Part) -> Table:
    rows = [
        (name + (" (scaled)" if name in SCALED else ""), f"{SMALL[name]:.1f}",
         *(mean_and_spread(small[f"{name} {rival}"], 2) for rival in ("lmm", "knn", "mlp")))
        for name in _names(small)
    ]  # fmt: skip
    return Table(
        f"Accuracy in percent of LMMClassifier() with no arguments, {FOLDS}-fold, and of "
        "scikit-learn's KNeighborsClassifier() and MLPClassifier(max_iter=1000)",
        ("data", "must", "LMM", "kNN", "MLP"),
        rows,
    )


def _text(parts: dict[str, list[Part]], small: Part, n_seeds: int) -> str:
    met = sum("missed" not in _verdict(_judged(parts, g), g) for g in GOALS)
    good = sum(float(np.mean(small[f"{n} lmm"])) >= SMALL[n] for n in _names(small))
    proofs = ", ".join(
        f"{name}: {sum(float(p['max_loss']) < LOG2 for p in some)} of {len(some)}"
        for name, some in parts.items()
    )
    return (
        f"Boxes, a smoothed warm start and the worst-case polish, {n_seeds} "
        f"seed{'s' * (n_seeds > 1)} each, ensembles with one; options were chosen on a "
        f"validation split of the training images. {met} of {len(GOALS)} figures are what was "
        f"asked for or better, and {good} of {len(_names(small))} small data sets. "
        f"Models whose largest training loss is below log 2, by a fresh forward pass: {proofs}. "
        "ε is a change of every pixel, where black is 0 and white 1; blurred images are "
        "certified for changes of the raw ones, because the blur makes no change larger. Seconds "
        "include the clusters and the polish, and the compilation of kernels in the first run."
    )


def _draw(parts: dict[str, list[Part]]) -> Figure:
    figure = new_figure(7.0, 4.4)
    ax = figure.subplots()
    for colour, (name, some) in zip(COLOURS, parts.items(), strict=True):
        curves = np.array([part["certified"] for part in some])
        style = "--" if "Fashion" in name else "-"
        ax.plot(EPS, curves.mean(axis=0), style, color=colour, label=name, linewidth=1.8)
        ax.fill_between(EPS, curves.min(axis=0), curves.max(axis=0), color=colour, alpha=0.2)
    ax.axhline(88.75, color=GREY, linewidth=1)
    ax.text(EPS[-1], 88.75, "the paper, not certified", color=GREY, ha="right", va="bottom",
            fontsize=9)  # fmt: skip
    ax.set_xlabel("change of every pixel, ε")
    ax.set_ylabel("certified test accuracy, %")
    ax.legend(frameon=False, loc="lower left")
    quiet_frame(ax, "What no change up to ε can flip")
    return figure


def _plain(part: Part) -> dict[str, Any]:
    return {name: value.tolist() for name, value in part.items()}
