"""Training and outcome side by side: the worst sample's loss, and everyone's confidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from maxplus.plots._canvas import new_figure
from maxplus.plots.confidence import Compared, draw_confidence
from maxplus.plots.convergence import draw_convergence

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_comparison(
    loss_curve: ArrayLike,
    models: Sequence[Compared],
    n_classes: int,
    *,
    switch: int | None = None,
    sample: str = "sample",
) -> Figure:
    """Left, how the maximum loss of one model falls; right, how sure several models are.

    Parameters
    ----------
    loss_curve : array of shape (n_iter,)
        As in `plot_convergence`.
    models : sequence of at most three results
        Each has a ``name``, and ``losses`` and ``accuracy`` on ``train`` and on ``test``.
    n_classes : int
    switch : int, optional
        Both as in `plot_convergence`.
    sample : str
        What one sample is called.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from types import SimpleNamespace as Record
    >>> import numpy as np
    >>> from maxplus.plots import plot_comparison
    >>> seen = Record(losses=np.array([0.1, 0.4]), accuracy=1.0)
    >>> model = Record(name="LMM", train=seen, test=seen)
    >>> figure = plot_comparison([1.0, 0.6, 0.4], [model], n_classes=3)
    >>> len(figure.axes)
    2
    """
    figure = new_figure(12.0, 4.8)
    left, right = figure.subplots(1, 2, gridspec_kw={"wspace": 0.08})
    draw_convergence(left, loss_curve, n_classes, switch, sample)
    draw_confidence(right, models, sample)
    return figure
