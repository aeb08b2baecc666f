"""The paper's MNIST run and its tables: an MLP, the LMM on the mean loss and on the maximum."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import confusion_matrix, f1_score

from maxplus import datasets
from maxplus.lab.comparison import (
    SIDES,
    MLPSettings,
    PaperResult,
    Split,
    TrainedModel,
    beside_the_paper,
    train_lmm,
    train_mlp,
)
from maxplus.lab.finding import Finding, Settings, Table, mean_and_spread
from maxplus.lab.metrics import Evaluation
from maxplus.lab.parts import Part
from maxplus.plots import plot_confusion, plot_convergence, plot_probabilities

N_CLASSES, N_HIDDEN, BATCH = 10, 500, 32
N_ITERATIONS, QUICK_ITERATIONS, QUICK_IMAGES = 200_000, 1_000, 2_000
LMM_SETTINGS: dict[str, Any] = {"n_hidden": N_HIDDEN, "slope": 4.0, "linear_every": 100}
MEAN_SETTINGS: dict[str, Any] = {"objective": "mean", "step": "constant", "learning_rate": 0.1}
# Chosen by the maximum loss on training images, in shorter runs that were not all carried to their
# end: targets 0, 1, 1.2, 1.5 and 2, and ε from 0.03 to 8. Test images had no say in it.
MAX_SETTINGS: dict[str, Any] = {
    "objective": "max", "step": "two-phase", "polyak_fraction": 0.5, "polyak_target": 1.2,
    "learning_rate": 1.0,
}  # fmt: skip
MAIN, AS_WRITTEN, LEVEL = "LMM (max)", "LMM (max), L* = 0", "LMM (max), level"
# How often the main line is trained, from other starts.
FULL_SEEDS, QUICK_SEEDS = 3, 1
GOAL_LOSS, GOAL_TRAIN, GOAL_TEST = 1.64, 0.915, 0.8875

PAPER = {
    "MLP (mean)": PaperResult((27.63, 0.05, 0.9915), (27.63, 0.047, 0.88)),
    "LMM (mean)": PaperResult((5.02, 1.23, 0.69), (4.55, 1.22, 0.69)),
    "LMM (max)": PaperResult((1.64, 1.21, 0.9154), (3.59, 1.23, 0.8875)),
}
PAPER_F1 = 0.89
# An evaluation's arrays.
KEPT = ("losses", "labels", "predicted")


def run(settings: Settings) -> Finding:
    """Train all; each is kept as a part as soon as it is done."""
    split, iterations = _data(settings), QUICK_ITERATIONS if settings.quick else N_ITERATIONS
    n_features = split.X_train.shape[1]
    mlp = MLPSettings(hidden=(2 * n_features, N_HIDDEN), rate=1e-3, batch=BATCH)
    variants = {
        "LMM (mean)": MEAN_SETTINGS,
        MAIN: MAX_SETTINGS,
        AS_WRITTEN: MAX_SETTINGS | {"polyak_target": 0.0},
        LEVEL: {"objective": "max", "step": "level"},
    }

    def trained(name: str, training: Callable[[], TrainedModel]) -> TrainedModel:
        return _trained_model(name, settings.parts.get(name, partial(_part, training)))

    def trained_lmm(name: str, variant: dict[str, Any], seed: int = 0) -> TrainedModel:
        own = LMM_SETTINGS | variant
        return trained(name, partial(train_lmm, name, own, split, seed, iterations, settings.watch))

    models = {
        "MLP (mean)": trained(
            "MLP (mean)", partial(train_mlp, mlp, split, 0, iterations // BATCH, settings.watch)
        ),
        **{name: trained_lmm(name, variant) for name, variant in variants.items()},
    }
    lmm = models[MAIN]
    others = range(1, settings.n_seeds(FULL_SEEDS, QUICK_SEEDS))
    starts = [lmm, *(trained_lmm(f"{MAIN}, seed {s}", MAX_SETTINGS, s) for s in others)]
    matrix = confusion_matrix(lmm.test.labels, lmm.test.predicted, labels=range(N_CLASSES))
    f1 = {name: _macro_f1(model.test) for name, model in models.items()}
    switch = math.ceil(MAX_SETTINGS["polyak_fraction"] * iterations)
    digits = [str(d) for d in range(N_CLASSES)]
    return Finding(
        "MLP against LMM on MNIST",
        _text(models, starts, split, iterations, f1[MAIN]),
        [
            _table("train", models, starts),
            _table("test", models, starts),
            Table(
                f"Confusion matrix of the {MAIN} on test images, first seed: rows are true",
                ("", *digits),
                [(digit, *map(int, row)) for digit, row in zip(digits, matrix, strict=True)],
            ),
            _seeds_table(starts),
        ],
        {
            "iterations": iterations,
            "images": len(split.y_train),
            "macro_f1": f1,
            "best_in_polyak_phase": float(lmm.loss_curve[:switch].min()),
            **{name: model.values() for name, model in models.items()},
            "seeds": [model.values() for model in starts],
        },
        {
            "convergence": plot_convergence(
                lmm.loss_curve, N_CLASSES, switch=switch, sample="image", scale="linear"
            ),
            "confusion": plot_confusion(matrix, digits),
            "probabilities": plot_probabilities(
                {f"{name}, test": models[name].test.losses for name in PAPER}, "image"
            ),
        },
        f"{len(split.y_train):,} images, {iterations:,} iterations" if settings.quick else "",
    )


def _data(settings: Settings) -> Split:
    data = datasets.load_mnist()
    n = QUICK_IMAGES if settings.quick else len(data.y_train)
    m = QUICK_IMAGES if settings.quick else len(data.y_test)
    return Split(data.X_train[:n], data.X_test[:m], data.y_train[:n], data.y_test[:m])


def _text(
    models: dict[str, TrainedModel], starts: list[TrainedModel], split: Split, iterations: int,
    f1: float,
) -> str:  # fmt: skip
    mlp, as_written, level = models["MLP (mean)"], models[AS_WRITTEN], models[LEVEL]
    loss = np.mean([model.train.max_loss for model in starts])
    train, test = ([getattr(model, side).accuracy for model in starts] for side in SIDES)
    goals = (
        ("training maximum loss", loss, GOAL_LOSS, loss <= GOAL_LOSS),
        ("training accuracy", np.mean(train), GOAL_TRAIN, np.mean(train) >= GOAL_TRAIN),
        ("test accuracy", np.mean(test), GOAL_TEST, np.mean(test) >= GOAL_TEST),
    )
    missed = [f"{what} {got:.4f} (aim {goal})" for what, got, goal, met in goals if not met]
    text = (
        f"{len(split.y_train):,} training images; each model takes the (sub)gradients of "
        f"{iterations:,} single images: the LMM one per iteration, the MLP by batches of {BATCH} "
        "(Adam, rate 0.001). "
        f"The LMM has {N_HIDDEN} units, k = 4 on pixels in [0, 1], its slopes move every 100 "
        "iterations; Polyak steps in the first half, constant steps after. The paper aims its "
        "Polyak steps at L* = 0 and does not state its ε for the constant step. With L* = 0 we "
        f"get no lower than {as_written.train.max_loss:.3f} (the line L* = 0 of the "
        "tables): steps of the order of 1 undo each other. So the main run takes "
        f"L* = {MAX_SETTINGS['polyak_target']:g} and ε = {MAX_SETTINGS['learning_rate']:g}. "
        f"From {len(starts)} start{'s' * (len(starts) > 1)} it ends at a maximum loss of "
        f"{loss:.3f} (the paper: 1.64), {np.mean(train):.2%} of the training images and "
        f"{_from_to(test)} of the test images right (the paper: {GOAL_TEST:.2%}); the first has a "
        f"macro F1 of {f1:.3f} (the paper: {PAPER_F1}) and took {starts[0].seconds:.0f} s. "
        'With a target that rises from 0 to the lowest loss so far (step="level", the '
        "last line), neither L* nor ε is chosen by hand; at as many iterations the maximum loss is "
        f"{level.train.max_loss:.3f}, after {level.seconds:.0f} s. The MLP's largest training loss "
        f"is {mlp.train.max_loss:.3g}, on test images {mlp.test.max_loss:.3g}, not clipped; the "
        "paper's 27.63 is −log(1e−12), a clipped value, and its MLP test row repeats the mean loss "
        "and accuracy of its Iris table. Its conclusion's 92 % is the training accuracy; the test "
        "accuracy is 88.75 % in its table and 88.64 % by its confusion matrix."
    )
    if missed:
        text += " Missed: " + ", ".join(missed) + "."
    return text


def _from_to(shares: list[float]) -> str:
    low, high = min(shares), max(shares)
    return f"{low:.2%}" if low == high else f"{low:.2%} to {high:.2%}"


def _table(side: str, models: dict[str, TrainedModel], starts: list[TrainedModel]) -> Table:
    rows = []
    for name, model in models.items():
        found = [getattr(one, side) for one in (starts if name == MAIN else [model])]
        theirs = ("–", "–", "–")
        if name in PAPER:
            max_loss, mean_loss, accuracy = getattr(PAPER[name], side)
            theirs = (str(max_loss), str(mean_loss), f"{accuracy:.2%}")
        ours = (
            mean_and_spread(one.max_loss for one in found),
            mean_and_spread(one.mean_loss for one in found),
            mean_and_spread((one.accuracy for one in found), 2, 100.0) + " %",
        )
        rows.append((name, theirs, ours))
    return beside_the_paper(f"MNIST, {side} images", rows)


def _seeds_table(starts: list[TrainedModel]) -> Table:
    return Table(
        f"{MAIN} from different starts",
        ("seed", "max loss", "train accuracy", "test accuracy", "seconds"),
        [
            (
                seed, f"{model.train.max_loss:.3f}", f"{model.train.accuracy:.2%}",
                f"{model.test.accuracy:.2%}", f"{model.seconds:.0f}",
            )
            for seed, model in enumerate(starts)
        ],
    )  # fmt: skip


def _macro_f1(outcome: Evaluation) -> float:
    return float(f1_score(outcome.labels, outcome.predicted, average="macro"))


def _part(training: Callable[[], TrainedModel]) -> Part:
    """A trained model as arrays, to be kept in a file."""
    model = training()
    outcomes = {
        f"{side}_{what}": getattr(getattr(model, side), what) for side in SIDES for what in KEPT
    }
    return {"seconds": np.array(model.seconds), "loss_curve": model.loss_curve, **outcomes}


def _trained_model(name: str, part: Part) -> TrainedModel:
    train, test = (Evaluation(*(part[f"{side}_{what}"] for what in KEPT)) for side in SIDES)
    return TrainedModel(name, train, test, float(part["seconds"]), part["loss_curve"])
