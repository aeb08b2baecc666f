"""What matters overall, as bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from maxplus.plots._canvas import BLUE, INK, SMALL, new_figure, quiet_frame

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_importances(
    importances: ArrayLike,
    names: Sequence[str],
    *,
    errors: ArrayLike | None = None,
    n: int = 15,
    label: str = "share of what decides",
) -> Figure:
    """A bar for each of the n most important features, the most important on top.

    Parameters
    ----------
    importances : P numbers, for example ``feature_importances_``, or ``importances_mean`` of
        scikit-learn's ``permutation_importance``
    names : P words
    errors : P numbers, optional
        Drawn as whiskers, for example ``importances_std``.
    n : int
    label : what the numbers are

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
            f"names must be one for each importance; got {len(names)} and shape {values.shape}"
        )
    top = np.argsort(-values, kind="stable")[:n]
    figure = new_figure(6.5, 1.1 + 0.28 * len(top))
    ax = figure.subplots()
    quiet_frame(ax, "What decides")
    whiskers = None if errors is None else np.asarray(errors, np.float64)[top]
    places = np.arange(len(top))
    ax.barh(places, values[top], color=BLUE, height=0.7, xerr=whiskers, ecolor=INK)
    ax.set_yticks(places, [str(names[p]) for p in top], fontsize=SMALL, color=INK)
    ax.invert_yaxis()
    ax.set_xlabel(label)
    return figure
