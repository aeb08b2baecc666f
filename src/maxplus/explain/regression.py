"""Explanations of regressions by sums of terms: what each feature adds to a prediction."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.explain.contributions import Contributions, contributions
from maxplus.explain.domain import Domain
from maxplus.explain.explanation import records
from maxplus.models import AdditiveLMM


@dataclass(frozen=True)
class PredictionContributions(Contributions):
    """Predictions z_1 − z_0 of a regression, as exact sums over groups of features.

    ``margin`` = ``baseline`` + Σ_g ``contribution[:, g]``, up to rounding, where the baseline is
    the mean over the reference rows. The prediction is the margin within the bounds.

    Attributes
    ----------
    prediction : array of shape (N,), the margin within the bounds
    """

    prediction: NDArray
    _least: ClassVar[float] = 0.0

    def to_records(self) -> np.recarray:
        """Return a record per row and group of columns, the largest contributions of a row first.

        ``baseline`` plus the ``contribution`` of all records of a row is its ``margin``, and
        ``prediction`` is that within the bounds.

        Returns
        -------
        numpy.recarray
        """
        lines = self.lines()
        row = lines["row"]
        return records(
            {
                "row": row,
                "prediction": self.prediction[row],
                "margin": self.margin[row],
                "baseline": self.baseline[row],
                "columns": lines["columns"],
                "value": lines["value"],
                "contribution": lines["contribution"],
            }
        )

    def _head(self, n: int) -> str:
        clipped = ""
        if self.prediction[n] != self.margin[n]:
            clipped = f", the nearest bound of {self.margin[n]:.4g}"
        return f"{self.prediction[n]:.4g}{clipped} = {self.baseline[n]:.4g} (mean)"

    def _amount(self, value: float) -> str:
        return f"{'−' if value < 0 else '+'} {abs(value):.4g}"


def prediction_contributions(
    model: AdditiveLMM, X: ArrayLike, baseline: ArrayLike, bounds: ArrayLike, domain: Domain
) -> PredictionContributions:
    """Explain predictions of a regression, z_1 − z_0 within bounds, as exact sums.

    O(N·Σ_t m_t·H_t).

    Parameters
    ----------
    model : AdditiveLMM with two outputs
    X : array of shape (N, P), in raw units
    baseline : array of shape (T, 2)
        Mean scores of each term over reference rows: `term_means`.
    bounds : two numbers
        The least and the greatest prediction.
    domain : Domain
        The columns that features belong to, with names.

    Returns
    -------
    PredictionContributions

    Examples
    --------
    >>> import numpy as np
    >>> from maxplus.explain import Domain, prediction_contributions, term_means
    >>> from maxplus.models import LMM, AdditiveLMM, Term
    >>> steps = LMM.of_boxes([[0.0], [1.0]], 0.5, np.eye(2), slope=1.0)
    >>> model = AdditiveLMM([Term([0], steps), Term([1], steps)], n_features=2)
    >>> means = term_means(model, np.array([[0.0, 0.0], [1.0, 0.0]]))
    >>> domain = Domain.free(2, names=["age", "mg"])
    >>> print(prediction_contributions(model, [[1, 0.25]], means, (-2.0, 2.0), domain))
    0.5 = -1 (mean) + 1 from age = 1 + 0.5 from mg = 0.25
    """
    found = contributions(model, X, baseline, domain=domain)
    # Classes are compared the other way round where z_0 is the higher score.
    sign = np.where(found.predicted == 1, 1.0, -1.0)
    own = {field.name: getattr(found, field.name) for field in fields(found)}
    own["predicted"], own["rival"] = np.ones_like(found.predicted), np.zeros_like(found.rival)
    own |= {"margin": sign * found.margin, "baseline": sign * found.baseline}
    own["contribution"] = sign[:, None] * found.contribution
    low, high = np.asarray(bounds, np.float64)
    return PredictionContributions(**own, prediction=np.clip(own["margin"], low, high))
