"""Sparsity of the subgradients of the average loss and of single samples."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.harness import Figure, Result, Settings, Table, axes
from experiments.measure import N_HIDDEN, initial_model
from maxplus import datasets
from maxplus.models import LinearMaxPlus, Model, ZeroHidden
from maxplus.models.initialization import glorot_uniform
from maxplus.plots._style import BLUE, GREY, INK, SMALL, VERMILION

N_CLASSES = 10
WIDTHS = (5, 10, 20, 50, 100, 200, 500)
QUICK_WIDTHS, QUICK_IMAGES = (5, 20, 100), 500
PAPER_MEAN, PAPER_SINGLE = 0.82, 0.048


class Sparsity(NamedTuple):
    """Fraction γ of nonzero entries in subgradients of the average loss and of single samples."""

    of_mean: float
    of_single: float


def run(settings: Settings) -> Result:
    """Measure γ of linear max-plus models of several widths and of two other models."""
    data = datasets.load_mnist()
    rng = np.random.default_rng(0)
    n = settings.pick(len(data.y_train), QUICK_IMAGES)
    part = np.sort(rng.permutation(len(data.y_train))[:n])
    X, y = data.X_train[part], data.y_train[part]
    widths = settings.pick(WIDTHS, QUICK_WIDTHS)
    models: dict[str, Model] = {
        f"Linear Max-Plus, H = {H}": _linear_max_plus(X.shape[1], H, rng) for H in widths
    }
    models["zero hidden layers"] = ZeroHidden(
        glorot_uniform(X.shape[1], N_CLASSES, rng).T.astype(np.float32)
    )
    models[f"LMM, H = {N_HIDDEN}"] = initial_model(X, y, rng=rng)
    sparsities = {
        name: measure(model, X, y) for name, model in settings.track(list(models.items()), "γ")
    }
    curve = [sparsities[f"Linear Max-Plus, H = {H}"] for H in widths]
    nearest = int(np.argmin([abs(np.log(g.of_single / PAPER_SINGLE)) for g in curve]))
    text = (
        "γ is the share of a subgradient's entries that are not zero. The paper reports "
        f"{PAPER_MEAN} for the average loss and {PAPER_SINGLE} on average for single images, for a "
        "Linear Max-Plus model on MNIST at Glorot's initialisation, and does not state its width. "
        f"Over {n:,} images the width that comes nearest to the paper's single-image value is "
        f"H = {widths[nearest]}: {curve[nearest].of_mean:.2f} and {curve[nearest].of_single:.3f}. "
        "Both decrease with the width, because a single image updates at most one unit per class. "
        "Pixels that are black in all images have no effect, which bounds γ of the average loss."
    )
    rows = [(name, f"{g.of_mean:.3g}", f"{g.of_single:.3g}") for name, g in sparsities.items()]
    columns = ("model", "γ of the average loss", "mean γ of one image")
    paper_row = ("Linear Max-Plus (paper, width not stated)", PAPER_MEAN, PAPER_SINGLE)
    return Result(
        "Sparsity of subgradients",
        text,
        [Table("Share of non-zero entries, MNIST", columns, [paper_row, *rows])],
        {"images": n, **{name: g._asdict() for name, g in sparsities.items()}},
        {"widths": _draw(widths, curve)},
        f"{n:,} images",
    )


def measure(model: Model, X: NDArray, y: NDArray) -> Sparsity:
    """Compute γ from the subgradients of all samples."""
    total = {name: np.zeros(getattr(model, name).shape) for name in model.layers}
    n_updates = 0
    for x, label in zip(X, y, strict=True):
        subgradient = model.subgradient(x, int(label))
        n_updates += subgradient.n_nonzero()
        for name, entries in subgradient.items():
            total[name][entries.index] += entries.value
    n_nonzero = sum(int(np.count_nonzero(G)) for G in total.values())
    return Sparsity(n_nonzero / model.n_weights(), n_updates / len(y) / model.n_weights())


def _linear_max_plus(n_features: int, n_hidden: int, rng: np.random.Generator) -> LinearMaxPlus:
    return LinearMaxPlus(
        glorot_uniform(n_features, n_hidden, rng).astype(np.float32),
        np.zeros(n_hidden, np.float32),
        glorot_uniform(n_hidden, N_CLASSES, rng).astype(np.float32),
    )


def _draw(widths: tuple[int, ...], curve: list[Sparsity]) -> Figure:
    title = "Linear Max-Plus, MNIST: sparsity of subgradients"
    labels = {"xlabel": "hidden units H", "ylabel": "γ, share of non-zero entries"}
    figure, ax = axes(7.0, 4.4, title, xscale="log", yscale="log", **labels)
    for values, colour, label, paper in (
        ([g.of_mean for g in curve], VERMILION, "average loss", PAPER_MEAN),
        ([g.of_single for g in curve], BLUE, "one image (mean)", PAPER_SINGLE),
    ):
        ax.plot(widths, values, "o-", color=colour)
        ax.axhline(paper, color=colour, linewidth=1, linestyle="--", alpha=0.6)
        style: dict[str, Any] = {"textcoords": "offset points", "ha": "right", "fontsize": SMALL}
        end = widths[-1]
        ax.annotate(f"the paper: {paper}", (end, paper), (4, 3), color=colour, alpha=0.8, **style)
        ax.annotate(label, (end, values[-1]), (-8, -10), color=INK, **style)
    ax.set_xticks(widths, [str(H) for H in widths])
    ax.minorticks_off()
    ax.grid(axis="y", color=GREY, alpha=0.2)
    return figure
