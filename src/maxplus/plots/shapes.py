"""Plots of the shape functions of sums of terms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.explain import Contributions, Domain, contributions, shape_function, term_means
from maxplus.models import AdditiveLMM
from maxplus.plots._style import (
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
    style_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.collections import QuadMesh
    from matplotlib.figure import Figure

# Function of a group of columns and rows that returns the scores of the terms of this group.
_Scores = Callable[[tuple[int, ...], NDArray], NDArray]
# Number of panels per row, and maximum number of surfaces.
N_COLUMNS, MAX_PAIRS = 3, 3
# Columns with at most this many distinct values are plotted as discrete.
MAX_LEVELS = 8
# The axis limits are quantiles, because outliers would compress the curves.
QUANTILES = 0.01, 0.99
N_BINS, N_POINTS = 30, 80
# Fraction of the panel height that is used for the histogram.
HISTOGRAM_HEIGHT = 0.16
# Maximum number of characters of a name, of a name in a pair, and of the tick labels of an axis.
MAX_LENGTH, MAX_LENGTH_IN_PAIR, MAX_TICK_LENGTH = 26, 15, 36
# Colours of the classes; a colour map is used for more classes.
COLOURS = (BLUE, VERMILION, GREEN, ORANGE, "#CC79A7", "#56B4E9", INK)


class _Column(NamedTuple):
    """Points at which the scores of a column are plotted, and a histogram of its values."""

    name: str
    rows: NDArray  # (n, P): inputs with the values of the column and 0 elsewhere
    x: NDArray  # (n,): positions on the axis
    labels: list[str] | None  # tick labels of the positions; None for continuous columns
    limits: tuple[float, float]  # of the axis
    counts: NDArray  # (bins,): heights of the histogram
    edges: NDArray  # (2, bins): left and right edges of the bins


def plot_shape_functions(
    model: AdditiveLMM,
    X: ArrayLike,
    feature_names: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    max_features: int = 9,
    *,
    baseline: ArrayLike | None = None,
    domain: Domain | None = None,
) -> Figure:
    """Plot the shape functions of a sum of terms in descending order of importance.

    Each panel shows the sum of the terms of a column, centred over the reference rows, and the
    distribution of the column in X. For two classes, the curve is z_1 − z_0, and positive values
    favour the second class. For more classes, there is a curve for each class, relative to the mean
    over the classes. All curves share the score axis, and the axis of a continuous column covers
    the central 98 % of its values. Up to three pairs of columns among the ``max_features`` most
    important groups are plotted as surfaces. The importance is the mean absolute contribution to
    the margin of the predicted class.

    Parameters
    ----------
    model : AdditiveLMM
        Model with at least two classes.
    X : array of shape (N, P), N >= 1
        Rows, for example of the training set.
    feature_names : sequence of P str, optional
        Names of the features.
    class_names : sequence of C str, optional
        Names of the classes.
    max_features : int, default=9
        Maximum number of columns.
    baseline : array of shape (T, C), optional
        Mean scores of the terms over reference rows (`maxplus.explain.term_means`). By default,
        the means over X.
    domain : maxplus.explain.Domain, optional
        Mapping of features to columns, used instead of ``feature_names``.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> from maxplus.models import LMM, AdditiveLMM, Term
    >>> from maxplus.plots import plot_shape_functions
    >>> steps = LMM.from_boxes([[0.0], [1.0]], 0.5, np.eye(2), slope=1.0)
    >>> model = AdditiveLMM([Term([0], steps), Term([1], steps)], n_features=2)
    >>> X = np.random.default_rng(0).random((50, 2))
    >>> figure = plot_shape_functions(model, X, ["age", "dose"])
    >>> len(figure.axes)
    2
    """
    if max_features < 1:
        raise ValueError(f"max_features must be >= 1; got {max_features!r:.80}")
    means = term_means(model, X) if baseline is None else np.asarray(baseline)
    names = None if domain is not None else feature_names
    attributions = contributions(
        model, X, means, feature_names=names, class_names=class_names, domain=domain
    )
    singles, pairs = _select(attributions, max_features)
    n_panels = len(singles) + len(pairs)
    if not n_panels:
        raise ValueError("model must have terms over one or two columns to plot; it has none")
    n_columns = min(N_COLUMNS, n_panels)
    n_rows = -(-n_panels // n_columns)
    figure = new_figure(max(4.5, 3.0 * n_columns + 0.5), 2.3 * n_rows + 0.8)
    panels = [figure.add_subplot(n_rows, n_columns, k + 1) for k in range(n_panels)]
    colours = _class_colours(model.n_classes)
    scores_of = partial(_scores, model, means, attributions)
    _draw_curves(
        panels, [_column(attributions, p, model) for p in singles], scores_of, singles, colours
    )
    surfaces = [(_column(attributions, p), _column(attributions, q)) for p, q in pairs]
    mesh = _draw_surfaces(panels[len(singles) :], surfaces, scores_of, pairs, colours)
    if mesh is not None:
        bar = figure.colorbar(
            mesh, ax=panels, anchor=(0.0, 0.0), shrink=0.8 / n_rows, aspect=12, pad=0.01
        )
        bar.outline.set_visible(False)
        bar.ax.tick_params(color=PALE, labelcolor=GREY, labelsize=SMALL)
    _add_labels(figure, attributions.class_names, colours)
    return figure


def _select(
    attributions: Contributions, max_features: int
) -> tuple[list[int], list[tuple[int, ...]]]:
    """Return the most important columns, and the pairs among the most important groups."""
    importance = np.abs(attributions.contribution).mean(axis=0)
    ranked = [attributions.groups[g] for g in np.argsort(-importance, kind="stable")]
    plottable = [group for group in ranked if len(group) <= 2]
    pairs: list[tuple[int, ...]] = [group for group in plottable[:max_features] if len(group) == 2]
    return [group[0] for group in plottable if len(group) == 1][:max_features], pairs[:MAX_PAIRS]


def _column(attributions: Contributions, p: int, model: AdditiveLMM | None = None) -> _Column:
    """Return the points of the column with first feature p, including breakpoints of ``model``."""
    domain, X = attributions.domain, attributions.X
    name = domain.column_names[p]
    if domain.category_of[p] >= 0:
        category = domain.categories[domain.category_of[p]]
        counts = np.count_nonzero(X[:, list(category.features)], axis=0)
        top = np.sort(np.argsort(-counts, kind="stable")[:MAX_LEVELS])
        rows = np.zeros((top.size, domain.n_features))
        rows[np.arange(top.size), np.array(category.features)[top]] = 1.0
        labels = [str(category.values[k]) for k in top]
        return _discrete_column(name, rows, np.arange(float(top.size)), labels, counts[top])
    values = X[:, p]
    levels, level_counts = np.unique(values, return_counts=True)
    if levels.size <= MAX_LEVELS:
        rows = np.zeros((levels.size, domain.n_features))
        rows[:, p] = levels
        labels = [domain.number(p, float(f"{v:.4g}")).strip("'") for v in levels]
        return _discrete_column(name, rows, levels, labels, level_counts)
    low, high = np.quantile(values, QUANTILES)
    if not low < high:
        low, high = levels[0], levels[-1]
    x = np.linspace(low, high, N_POINTS)
    if model is not None:
        breakpoints = shape_function(model, p).x
        x = np.unique(np.concatenate([x, breakpoints[(breakpoints > low) & (breakpoints < high)]]))
    rows = np.zeros((x.size, domain.n_features))
    rows[:, p] = x
    counts, edges = np.histogram(values, bins=N_BINS, range=(low, high))
    bins = np.stack([edges[:-1], edges[1:]])
    return _Column(name, rows, x, None, (float(low), float(high)), counts, bins)


def _discrete_column(
    name: str, rows: NDArray, x: NDArray, labels: list[str], counts: NDArray
) -> _Column:
    gap = 0.5 * float(np.diff(x).min()) if x.size > 1 else 0.5
    limits = float(x[0]) - gap, float(x[-1]) + gap
    width = 0.04 * (limits[1] - limits[0])
    return _Column(name, rows, x, labels, limits, counts, np.stack([x - width / 2, x + width / 2]))


def _scores(
    model: AdditiveLMM,
    means: NDArray,
    attributions: Contributions,
    group: tuple[int, ...],
    rows: NDArray,
) -> NDArray:
    """Return z_1 − z_0, shape (n, 1), or scores centred over the classes, shape (n, C)."""
    U = model.mapped(rows)
    scores = np.zeros((len(U), model.n_classes))
    for t in np.flatnonzero(attributions.group_of_term == attributions.groups.index(group)):
        features, lmm = model.terms[t]
        scores += lmm.scores(U[:, features]) - means[t]
    if model.n_classes == 2:
        return scores[:, 1:] - scores[:, :1]
    return scores - scores.mean(axis=1, keepdims=True)


def _draw_curves(
    panels: list[Axes],
    curves: list[_Column],
    scores_of: _Scores,
    columns: list[int],
    colours: list[str],
) -> None:
    scores = [scores_of((p,), curve.rows) for p, curve in zip(columns, curves, strict=True)]
    flat = np.concatenate([[0.0], *(values.ravel() for values in scores)])
    low, high = float(flat.min()), float(flat.max())
    pad = 0.05 * (high - low) or 1.0
    low, high = low - pad, high + pad
    for ax, curve, values in zip(panels, curves, scores, strict=False):
        style_axes(ax, _truncate(curve.name), TEXT)
        _set_ticks(ax.xaxis, curve)
        ax.set(
            xlim=curve.limits,
            ylim=(low - (high - low) * HISTOGRAM_HEIGHT / (1.0 - HISTOGRAM_HEIGHT), high),
        )
        ax.axhline(0.0, color=PALE, lw=0.8, zorder=0)
        if values.shape[1] == 1:
            _draw_margin(ax, curve, values[:, 0], colours)
        else:
            style = "-" if curve.labels is None else "o:"
            for colour, z in zip(colours, values.T, strict=True):
                ax.plot(curve.x, z, style, color=colour, lw=1.4, ms=3.5)
        left, right = curve.edges
        height = 0.8 * HISTOGRAM_HEIGHT * curve.counts / max(1, curve.counts.max())
        transform = ax.get_xaxis_transform()
        ax.bar(left, height, right - left, align="edge", color=PALE, lw=0, transform=transform)


def _draw_margin(ax: Axes, curve: _Column, z: NDArray, colours: list[str]) -> None:
    """Draw z_1 − z_0, shaded in the colour of the favoured class."""
    if curve.labels is not None:
        width = 0.12 * (curve.limits[1] - curve.limits[0])
        ax.bar(curve.x, z, width, color=[colours[int(v > 0)] for v in z], alpha=0.25, lw=0)
        ax.plot(curve.x, z, color=INK, marker="o", ms=4, lw=0.8, ls=":")
        return
    ax.plot(curve.x, z, color=INK, lw=1.6)
    for colour, side in zip(colours, (z <= 0, z >= 0), strict=True):
        ax.fill_between(curve.x, z, where=side, interpolate=True, color=colour, alpha=0.2, lw=0)


def _draw_surfaces(
    panels: list[Axes],
    columns: list[tuple[_Column, _Column]],
    scores_of: _Scores,
    pairs: list[tuple[int, ...]],
    colours: list[str],
) -> QuadMesh | None:
    """Draw pairs of columns; for two classes, return the mesh for the colour bar."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgb

    surfaces = []
    for (x_column, y_column), pair in zip(columns, pairs, strict=True):
        rows = x_column.rows[None] + y_column.rows[:, None]
        values = scores_of(pair, rows.reshape(-1, rows.shape[2]))
        surfaces.append((x_column, y_column, values.reshape(*rows.shape[:2], -1)))
    reach = max((float(np.abs(values).max()) for *_, values in surfaces), default=0.0) or 1.0
    diverging = LinearSegmentedColormap.from_list("classes", [colours[0], "white", colours[1]])
    mesh = None
    for ax, (x_column, y_column, values) in zip(panels, surfaces, strict=True):
        names = [_truncate(column.name, MAX_LENGTH_IN_PAIR) for column in (x_column, y_column)]
        style_axes(ax, " × ".join(names), TEXT)
        for axis, column, name in ((ax.xaxis, x_column, names[0]), (ax.yaxis, y_column, names[1])):
            _set_ticks(axis, column)
            axis.set_label_text(name, fontsize=SMALL, color=GREY)
        options: dict[str, Any] = {"shading": "nearest", "rasterized": True}
        if values.shape[2] == 1:
            options |= {"cmap": diverging, "vmin": -reach, "vmax": reach}
            mesh = ax.pcolormesh(x_column.x, y_column.x, values[..., 0], **options)
        else:
            ordered = np.sort(values, axis=2)
            lead = ((ordered[..., -1] - ordered[..., -2]) / reach)[..., None]
            of_class = np.array([to_rgb(colour) for colour in colours])[values.argmax(axis=2)]
            cells = 1.0 - np.sqrt(np.clip(lead, 0.0, 1.0)) * (1.0 - of_class)
            ax.pcolormesh(x_column.x, y_column.x, cells, **options)
    return mesh


def _add_labels(figure: Figure, class_names: Sequence[str], colours: list[str]) -> None:
    """Add the title, the axis label and a legend of the classes."""
    from matplotlib.lines import Line2D

    names = [_truncate(name) for name in class_names]
    figure_title(figure, "Shape functions")
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


def _class_colours(n_classes: int) -> list[str]:
    if n_classes <= len(COLOURS):
        return list(COLOURS[:n_classes])
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colour) for colour in colormaps["turbo"](np.linspace(0.05, 0.95, n_classes))]


def _set_ticks(axis: Axis, column: _Column) -> None:
    from matplotlib.ticker import MaxNLocator

    if column.labels is None:
        axis.set_major_locator(MaxNLocator(4))
        return
    length = max(3, MAX_TICK_LENGTH // len(column.labels))
    axis.set_ticks(list(column.x), [_truncate(label, length) for label in column.labels])


def _truncate(name: str, max_length: int = MAX_LENGTH) -> str:
    return name if len(name) <= max_length else name[: max_length - 1] + "…"
