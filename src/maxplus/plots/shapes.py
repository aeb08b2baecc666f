"""Shape functions of a sum of terms, as small multiples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.explain import Contributions, contributions, shape_function, term_means
from maxplus.models import AdditiveLMM
from maxplus.plots._canvas import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PALE,
    SMALL,
    TEXT,
    VERMILION,
    figure_title,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.figure import Figure

# Panels in a row, and the most surfaces that are drawn.
N_COLUMNS, MOST_PAIRS = 3, 3
# A column with at most this many distinct values is drawn level by level.
MAX_LEVELS = 5
# Panels show the rows between these quantiles, so that an outlier does not compress a curve.
SHOWN = 0.01, 0.99
N_BINS, N_CELLS = 30, 80
# The part of a panel's height that the distribution of the data takes.
BAND = 0.16
# Letters of a name that are shown: of a feature or class alone, and of one in a pair.
LONGEST, LONGEST_IN_PAIR = 26, 15
# Lines of classes; more classes than these take the colours of a colour map.
COLOURS = (BLUE, VERMILION, GREEN, ORANGE, "#CC79A7", "#56B4E9", INK)


def plot_shape_functions(
    model: AdditiveLMM,
    X: ArrayLike,
    feature_names: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    max_features: int = 9,
) -> Figure:
    """Draw what each feature adds to the scores, the most important feature first.

    A panel for each feature: the sum of its terms in raw units, centred over X, above the
    distribution of its values. For two classes the curve is z_1 − z_0: above 0, the value speaks
    for the second class. For several classes there is a line for each, less the mean of all.
    Panels have one scale of scores, and show the middle 98 % of the rows. Pairs of features that
    are among the ``max_features`` most important groups, three at most, are drawn as surfaces: for
    two classes z_1 − z_0, for several classes the class that gains most. Importance is the mean
    |contribution| to the margin of the predicted class.

    Parameters
    ----------
    model : AdditiveLMM with at least two classes
    X : array of shape (N, P), N >= 1, for example the training rows
    feature_names : P words, optional
    class_names : C words, optional
    max_features : int, >= 1
        The most features to draw.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> from maxplus.models import LMM, AdditiveLMM, Term
    >>> from maxplus.plots import plot_shape_functions
    >>> steps = LMM.of_boxes([[0.0], [1.0]], 0.5, np.eye(2), slope=1.0)
    >>> model = AdditiveLMM([Term([0], steps), Term([1], steps)], n_features=2)
    >>> X = np.random.default_rng(0).random((50, 2))
    >>> figure = plot_shape_functions(model, X, ["age", "dose"])
    >>> len(figure.axes)
    2
    """
    if max_features < 1:
        raise ValueError(f"max_features must be >= 1; got {max_features!r:.80}")
    means = term_means(model, X)
    found = contributions(model, X, means, feature_names=feature_names, class_names=class_names)
    singles, pairs = _chosen(found, max_features)
    n_panels = len(singles) + len(pairs)
    if not n_panels:
        raise ValueError("model must have terms over one or two features to draw; it has none")
    n_columns = min(N_COLUMNS, n_panels)
    n_rows = -(-n_panels // n_columns)
    figure = new_figure(max(4.5, 3.0 * n_columns + 0.5), 2.3 * n_rows + 0.8)
    panels = [figure.add_subplot(n_rows, n_columns, k + 1) for k in range(n_panels)]
    colours = _class_colours(model.n_classes)
    _draw_curves(panels, model, means, found, singles, colours)
    mesh = _draw_surfaces(panels[len(singles) :], model, means, found, pairs, colours)
    if mesh is not None:
        bar = figure.colorbar(
            mesh, ax=panels, anchor=(0.0, 0.0), shrink=0.8 / n_rows, aspect=12, pad=0.01
        )
        bar.outline.set_visible(False)
        bar.ax.tick_params(color=PALE, labelcolor=GREY, labelsize=SMALL)
    _label(figure, found, colours)
    return figure


def _chosen(found: Contributions, most: int) -> tuple[list[int], list[tuple[int, ...]]]:
    """Return the most important features, and pairs among the most important groups."""
    importance = np.abs(found.contribution).mean(axis=0)
    ranked = [found.groups[g] for g in np.argsort(-importance, kind="stable")]
    drawn = [group for group in ranked if len(group) <= 2]
    pairs: list[tuple[int, ...]] = [group for group in drawn[:most] if len(group) == 2]
    return [group[0] for group in drawn if len(group) == 1][:most], pairs[:MOST_PAIRS]


def _draw_curves(
    panels: list[Axes],
    model: AdditiveLMM,
    means: NDArray,
    found: Contributions,
    features: list[int],
    colours: list[str],
) -> None:
    curves = []
    for p in features:
        x, scores = shape_function(model, p, means)
        at = _points(found.X[:, p], x)
        curves.append((at, _relative(np.stack([np.interp(at, x, z) for z in scores.T], axis=1))))
    ends = [end for _, values in curves for end in (values.min(), values.max())]
    low, high = min([0.0, *ends]), max([0.0, *ends])
    pad = 0.05 * (high - low) or 1.0
    low, high = low - pad, high + pad
    for ax, p, (at, values) in zip(panels, features, curves, strict=False):
        column = found.X[:, p]
        _frame(ax, _short(found.domain.names[p]))
        _limit(ax.set_xlim, ax.xaxis, column)
        ax.set_ylim(low - (high - low) * BAND / (1.0 - BAND), high)
        ax.axhline(0.0, color=PALE, lw=0.8, zorder=0)
        levels = _levels(column)
        if values.shape[1] == 1:
            _draw_margin(ax, at, values[:, 0], levels, colours)
        else:
            marker = "o" if levels is not None else ""
            for colour, z in zip(colours, values.T, strict=True):
                ax.plot(at, z, color=colour, lw=1.4, marker=marker, ms=3.5)
        _draw_distribution(ax, column)


def _draw_margin(
    ax: Axes, at: NDArray, z: NDArray, levels: NDArray | None, colours: list[str]
) -> None:
    """Draw z_1 − z_0, shaded by the class that it speaks for; bars where there are levels."""
    if levels is not None:
        width = 0.12 * float(np.subtract(*ax.get_xlim()[::-1]))
        ax.bar(at, z, width, color=[colours[int(v > 0)] for v in z], alpha=0.25, lw=0)
        ax.plot(at, z, color=INK, marker="o", ms=4, lw=0.8, ls=":")
        return
    ax.plot(at, z, color=INK, lw=1.6)
    for colour, side in zip(colours, (z <= 0, z >= 0), strict=True):
        ax.fill_between(at, z, where=side, interpolate=True, color=colour, alpha=0.2, lw=0)


def _draw_distribution(ax: Axes, column: NDArray) -> None:
    """Draw the numbers of rows along the bottom of a panel."""
    levels = _levels(column)
    low, high = ax.get_xlim()
    if levels is None:
        counts, edges = np.histogram(column, bins=N_BINS, range=(low, high))
        left, width = edges[:-1], np.diff(edges)
    else:
        counts = np.array([(column == level).sum() for level in levels])
        width = np.full(levels.size, 0.04 * (high - low))
        left = levels - width / 2
    height = 0.8 * BAND * counts / max(1, counts.max())
    ax.bar(left, height, width, align="edge", color=PALE, lw=0, transform=ax.get_xaxis_transform())


def _draw_surfaces(
    panels: list[Axes],
    model: AdditiveLMM,
    means: NDArray,
    found: Contributions,
    pairs: list[tuple[int, ...]],
    colours: list[str],
) -> QuadMesh | None:
    """Draw pairs of features; return what a colour bar is of, for two classes."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgb

    surfaces = [_surface(model, means, found.X, pair) for pair in pairs]
    reach = max((float(np.abs(values).max()) for _, _, values in surfaces), default=0.0) or 1.0
    diverging = LinearSegmentedColormap.from_list("classes", [colours[0], "white", colours[1]])
    mesh = None
    for ax, (p, q), (x, y, values) in zip(panels, pairs, surfaces, strict=True):
        across, up = (_short(found.domain.names[k], LONGEST_IN_PAIR) for k in (p, q))
        _frame(ax, f"{across} × {up}")
        _limit(ax.set_xlim, ax.xaxis, found.X[:, p])
        _limit(ax.set_ylim, ax.yaxis, found.X[:, q])
        ax.set_xlabel(across, fontsize=SMALL, color=GREY)
        ax.set_ylabel(up, fontsize=SMALL, color=GREY)
        if values.shape[2] == 1:
            mesh = ax.pcolormesh(
                x,
                y,
                values[..., 0],
                cmap=diverging,
                vmin=-reach,
                vmax=reach,
                shading="nearest",
                rasterized=True,
            )
        else:
            ordered = np.sort(values, axis=2)
            lead = (ordered[..., -1] - ordered[..., -2])[..., None] / reach
            of_class = np.array([to_rgb(colour) for colour in colours])[values.argmax(axis=2)]
            cells = 1.0 - np.sqrt(np.clip(lead, 0.0, 1.0)) * (1.0 - of_class)
            ax.pcolormesh(x, y, cells, shading="nearest", rasterized=True)
    return mesh


def _surface(
    model: AdditiveLMM, means: NDArray, X: NDArray, pair: tuple[int, ...]
) -> tuple[NDArray, NDArray, NDArray]:
    """Return values of two features, and the centred scores of their terms, (y, x, classes)."""
    x, y = (_points(X[:, p], np.linspace(*_limits(X[:, p]), N_CELLS)) for p in pair)
    rows = np.zeros((y.size, x.size, model.n_features))
    rows[..., pair[0]], rows[..., pair[1]] = x, y[:, None]
    U = model.mapped(rows.reshape(-1, model.n_features))
    scores = np.zeros((len(U), model.n_classes))
    for t, (features, lmm) in enumerate(model.terms):
        if tuple(features.tolist()) == pair:
            scores += lmm.scores(U[:, features]) - means[t]
    return x, y, _relative(scores).reshape(y.size, x.size, -1)


def _label(figure: Figure, found: Contributions, colours: list[str]) -> None:
    """Add the title, the name of the scale, and what the colours are."""
    from matplotlib.lines import Line2D

    names = [_short(name) for name in found.class_names]
    figure_title(figure, "What features add to the score")
    is_binary = len(names) == 2
    scale = f"score of {names[1]} − score of {names[0]}" if is_binary else "score − mean of classes"
    figure.supylabel(scale, fontsize=TEXT, color=GREY)
    figure.legend(
        [Line2D([], [], color=colour, lw=6 if is_binary else 2) for colour in colours],
        [f"for {name}" if is_binary else name for name in names],
        loc="outside lower center",
        ncols=min(6, len(names)),
        frameon=False,
        fontsize=SMALL,
        labelcolor=GREY,
    )


def _relative(scores: NDArray) -> NDArray:
    """Return z_1 − z_0 of two classes, (N, 1), else scores less the mean of all classes, (N, C)."""
    if scores.shape[1] == 2:
        return scores[:, 1:] - scores[:, :1]
    return scores - scores.mean(axis=1, keepdims=True)


def _class_colours(n_classes: int) -> list[str]:
    if n_classes <= len(COLOURS):
        return list(COLOURS[:n_classes])
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colour) for colour in colormaps["turbo"](np.linspace(0.05, 0.95, n_classes))]


def _levels(column: NDArray) -> NDArray | None:
    """Return the values of a column that has few, else None."""
    levels = np.unique(column)
    return levels if levels.size <= MAX_LEVELS else None


def _limits(column: NDArray) -> tuple[float, float]:
    """Return the ends of what a panel shows of a column."""
    levels = _levels(column)
    if levels is None:
        low, high = np.quantile(column, SHOWN)
        if low < high:
            return float(low), float(high)
        return float(column.min()), float(column.max())
    beside = 0.5 * float(np.diff(levels).min()) if levels.size > 1 else 0.5
    return float(levels[0]) - beside, float(levels[-1]) + beside


def _points(column: NDArray, x: NDArray) -> NDArray:
    """Return the values of a column to draw: its levels, or its limits and those of x between."""
    levels = _levels(column)
    if levels is not None:
        return levels
    low, high = _limits(column)
    return np.unique(np.concatenate([[low, high], x[(x > low) & (x < high)]]))


def _limit(set_limits, axis, column: NDArray) -> None:  # type: ignore[no-untyped-def]
    """Set the limits of an axis, and few ticks."""
    from matplotlib.ticker import MaxNLocator

    levels = _levels(column)
    set_limits(*_limits(column))
    if levels is None:
        axis.set_major_locator(MaxNLocator(4))
    else:
        axis.set_ticks(levels, [f"{level:.4g}" for level in levels])


def _frame(ax: Axes, title: str) -> None:
    ax.set_title(title, loc="left", fontsize=TEXT, fontweight="bold", color=INK, pad=5)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(PALE)
    ax.tick_params(which="both", color=PALE, labelcolor=GREY, labelsize=SMALL)


def _short(name: str, longest: int = LONGEST) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"
