"""Plots of explanations and feature importances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.explain import Contributions, PredictionContributions
from maxplus.models._checks import check_index
from maxplus.plots._style import (
    BLUE,
    GREY,
    INK,
    PALE,
    SMALL,
    TEXT,
    VERMILION,
    new_figure,
    style_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Number of images per row.
N_COLUMNS = 6
# Maximum number of bars; the remaining contributions are summed.
MAX_BARS = 12


def plot_explanation(
    explanation: Any, n: int, image_shape: tuple[int, int] | None = None
) -> Figure:
    """Plot the explanation of one prediction.

    For a sum of terms, plot the largest contributions to the margin over the second-best class or,
    for a regressor, to the prediction. For a single network trained on images, plot the input and
    the active unit and pixel of each class, in descending order of the scores.

    Parameters
    ----------
    explanation : Explanation or PredictionContributions
        Result of `maxplus.LMMClassifier.explain` or `maxplus.LMMRegressor.explain`.
    n : int
        Index of the sample.
    image_shape : (height, width), optional
        Shape of the images, with height · width features. Only for a single network, where it is
        required.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from maxplus import LMMClassifier
    >>> from maxplus.plots import plot_explanation
    >>> X, y = load_digits(n_class=2, return_X_y=True)
    >>> clf = LMMClassifier(4, slope=1.0, standardize=False, warmup_epochs=2, random_state=0)
    >>> clf = clf.fit(X, y)
    >>> figure = plot_explanation(clf.explain(X[:1]), 0, (8, 8))
    >>> len(figure.axes)  # the image, and a unit for each class
    3
    """
    n = check_index("n", n, len(explanation))
    if isinstance(explanation, PredictionContributions):
        title = f"prediction {explanation.prediction[n]:.4g}"
        return _plot_contributions(explanation, n, title, "prediction")
    contributions = explanation.contributions
    if contributions is not None:
        first, second = (
            explanation.class_names[d] for d in (contributions.predicted[n], contributions.rival[n])
        )
        return _plot_contributions(contributions, n, f"{first} rather than {second}", "margin")
    P = explanation.X.shape[1]
    if (
        image_shape is None
        or len(image_shape) != 2
        or min(image_shape) < 1
        or image_shape[0] * image_shape[1] != P
    ):
        raise ValueError(
            f"image_shape must be two positive integers whose product is {P}; got {image_shape}"
        )
    order = np.argsort(-explanation.paths.score[n], kind="stable")
    n_columns = min(N_COLUMNS, 1 + order.size)
    n_rows = -(-(1 + order.size) // n_columns)
    figure = new_figure(1.75 * n_columns, 2.25 * n_rows)
    panels = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
    for ax in panels:
        ax.axis("off")
    limits = float(explanation.X.min()), float(explanation.X.max())
    _draw_image(panels[0], explanation.X[n], image_shape, limits, "input", "")
    for ax, d in zip(panels[1:], order, strict=False):
        unit, pixel = explanation.paths.unit[n, d], int(explanation.paths.feature[n, d])
        # The centre of a unit is NaN for features that it does not bound.
        centre = explanation.centres[unit]
        image = np.where(np.isnan(centre), explanation.X[n], centre)
        name, p = explanation.class_names[d], explanation.probability[n, d]
        _draw_image(ax, image, image_shape, limits, f"{name}: {p:.0%}", f"unit {unit}")
        row, column = divmod(pixel, image_shape[1])
        for panel in (ax, panels[0]) if d == order[0] else (ax,):
            panel.plot(column, row, "s", ms=7, mfc="none", mec=VERMILION, mew=1.6)
    return figure


def _plot_contributions(contributions: Contributions, n: int, title: str, total: str) -> Figure:
    """Plot the contributions of sample n to ``total`` in descending order of their magnitude."""
    shown, rest = contributions.order[n, :MAX_BARS], contributions.order[n, MAX_BARS:]
    bars = [("baseline", float(contributions.baseline[n]))]
    bars += [
        (contributions.phrase(n, int(g)), float(contributions.contribution[n, g])) for g in shown
    ]
    if rest.size:
        bars.append((f"{rest.size} more", float(contributions.contribution[n, rest].sum())))
    labels, values = zip(*bars, strict=True)
    colours = [GREY, *(BLUE if value > 0 else VERMILION for value in values[1:])]
    figure, ax = _bar_plot(labels, values, title, 1.3, color=colours)
    ax.axvline(0.0, color=PALE, lw=1.0, zorder=0)
    ax.set_xlabel(
        f"contribution to the {total}, {contributions.margin[n]:+.4g} in total".replace("-", "−")
    )
    return figure


def _bar_plot(
    labels: Sequence[str], values: ArrayLike, title: str, height: float, **options: Any
) -> tuple[Figure, Axes]:
    """Plot horizontal bars; ``height`` is the height of the title and the axis in inches."""
    figure = new_figure(6.5, height + 0.28 * len(labels))
    ax = figure.subplots()
    style_axes(ax, title)
    positions = np.arange(len(labels))
    ax.barh(positions, values, height=0.7, **options)
    ax.set_yticks(positions, labels, fontsize=SMALL, color=INK)
    ax.invert_yaxis()
    return figure, ax


def _draw_image(
    ax: Axes,
    values: NDArray,
    shape: tuple[int, int],
    limits: tuple[float, float],
    title: str,
    note: str,
) -> None:
    low, high = limits
    ax.imshow(values.reshape(shape), cmap="gray_r", interpolation="nearest", vmin=low, vmax=high)
    ax.set_title(title, fontsize=TEXT, color=INK, pad=4)
    ax.text(
        0.5, -0.03, note, transform=ax.transAxes, ha="center", va="top", fontsize=SMALL, color=GREY
    )


def plot_importances(
    importances: ArrayLike,
    names: Sequence[str],
    *,
    errors: ArrayLike | None = None,
    n: int = 15,
    label: str = "importance",
) -> Figure:
    """Plot the n most important features in descending order.

    Parameters
    ----------
    importances : array of shape (P,)
        Importance of each feature, for example ``feature_importances_``, or ``importances_mean`` of
        `sklearn.inspection.permutation_importance`.
    names : sequence of P str
        Names of the features.
    errors : array of shape (P,), optional
        Half-lengths of the error bars, for example ``importances_std``.
    n : int, default=15
        Maximum number of features.
    label : str, default="importance"
        Label of the axis.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from maxplus.plots import plot_importances
    >>> figure = plot_importances([0.2, 0.5, 0.3], ["age", "bmi", "sex"])
    """
    values = np.asarray(importances, np.float64)
    if values.ndim != 1 or len(names) != len(values):
        raise ValueError(
            "names must have one entry for each importance; got "
            f"{len(names)} names and importances of shape {values.shape}"
        )
    top = np.argsort(-values, kind="stable")[:n]
    xerr = None if errors is None else np.asarray(errors, np.float64)[top]
    labels = [str(names[p]) for p in top]
    figure, ax = _bar_plot(
        labels, values[top], "Feature importances", 1.1, color=BLUE, xerr=xerr, ecolor=INK
    )
    ax.set_xlabel(label)
    return figure
