"""Why an image got its class: its deciding units and pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maxplus.plots._canvas import GREY, INK, SMALL, TEXT, VERMILION, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Pictures in a row.
N_COLUMNS = 6


def plot_explanation(explanation: Any, n: int, image_shape: tuple[int, int]) -> Figure:
    """The input and, best class first, each class's unit with the pixel that decided.

    Parameters
    ----------
    explanation : what `maxplus.LMMClassifier.explain` returns
    n : int
        Which of its rows.
    image_shape : (height, width), with height · width features

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from maxplus import LMMClassifier
    >>> from maxplus.plots import plot_explanation
    >>> X, y = load_digits(n_class=2, return_X_y=True)
    >>> clf = LMMClassifier(4, slope=1.0, scale=False, warmup_epochs=2, random_state=0).fit(X, y)
    >>> figure = plot_explanation(clf.explain(X[:1]), 0, (8, 8))
    >>> len(figure.axes)  # the image, and a unit for each class
    3
    """
    if explanation.directions is not None:
        raise ValueError(
            "explanation is of a model with directions, whose scores no single pixel decides; "
            "print it, or train without directions (directions=None)"
        )
    P = explanation.X.shape[1]
    if len(image_shape) != 2 or min(image_shape) < 1 or image_shape[0] * image_shape[1] != P:
        raise ValueError(
            f"image_shape must be two positive numbers whose product is {P}; got {image_shape}"
        )
    order = np.argsort(-explanation.paths.score[n], kind="stable")
    rows = -(-(1 + order.size) // N_COLUMNS)
    figure = new_figure(1.75 * min(N_COLUMNS, 1 + order.size), 2.25 * rows)
    panels = figure.subplots(rows, min(N_COLUMNS, 1 + order.size), squeeze=False).ravel()
    for ax in panels:
        ax.axis("off")
    limits = float(explanation.X.min()), float(explanation.X.max())
    _picture(panels[0], explanation.X[n], image_shape, limits, "input", "")
    for ax, d in zip(panels[1:], order, strict=False):
        unit, pixel = explanation.paths.unit[n, d], int(explanation.paths.feature[n, d])
        # Where no value is best, the input's own is as good as any.
        centre = explanation.centres[unit]
        image = np.where(np.isnan(centre), explanation.X[n], centre)
        name, p = explanation.class_names[d], explanation.probability[n, d]
        _picture(ax, image, image_shape, limits, f"{name}: {p:.0%}", f"unit {unit}")
        row, column = divmod(pixel, image_shape[1])
        for panel in (ax, panels[0]) if d == order[0] else (ax,):
            panel.plot(column, row, "s", ms=7, mfc="none", mec=VERMILION, mew=1.6)
    return figure


def _picture(
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
        0.5, -0.03, note, transform=ax.transAxes, ha="center", va="top",
        fontsize=SMALL, color=GREY,
    )  # fmt: skip
