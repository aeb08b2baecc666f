"""What is asked of the default classifier on tables, and whether it was reached."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from maxplus.lab.finding import Table
from maxplus.lab.table_results import Results

OURS = "LMM"
# Choosing a capacity may take longer, compared with the training itself, where that is short.
MANY_ROWS = 5_000


class Goal(NamedTuple):
    """A figure, what must be and what should be reached, and which way is better."""

    what: str
    reached: float
    must: float
    aim: float
    more_is_better: bool
    digits: int
    remark: str = ""

    @property
    def verdict(self) -> str:
        """By comparison; a bound that is met exactly is met."""
        if self._meets(self.aim):
            return "aim reached"
        return "reached" if self._meets(self.must) else "missed"

    def _meets(self, bound: float) -> bool:
        return self.reached >= bound if self.more_is_better else self.reached <= bound


def goals_table(results: Results) -> Table:
    """Asked and reached."""
    rows = []
    for goal in goals(results):
        sign = "≥" if goal.more_is_better else "≤"
        must, aim, reached = (
            f"{value:.{goal.digits}f}".replace("-", "−")
            for value in (goal.must, goal.aim, goal.reached)
        )
        rows.append(
            (goal.what, f"{sign} {must}", f"{sign} {aim}", reached, goal.verdict, goal.remark)
        )
    columns = ("figure", "must", "aim", "reached", "verdict", "remark")
    return Table(f"Asked of {OURS}Classifier() and reached", columns, rows)


def goals(results: Results) -> list[Goal]:
    """All goals that these tables and models can tell about."""
    means = {model: results.mean(model) for model in results.models}
    ours, peers = means[OURS], [model for model in means if model != OURS]
    accuracy = {model: means[model].accuracy for model in peers}
    log_loss = {model: means[model].log_loss for model in peers}
    table, behind = _worst_table(results)
    return [
        Goal(
            "mean accuracy %", ours.accuracy,
            max(accuracy["MLP"], accuracy["logistic"], accuracy["forest"] - 0.5),
            max(accuracy.values()), True, 2,
            f"MLP, logistic, forest − 0.5; {max(accuracy, key=lambda m: accuracy[m])}",
        ),
        Goal(
            "mean log loss", ours.log_loss,
            min(log_loss[model] for model in ("forest", "MLP", "logistic")),
            min(log_loss.values()), False, 4,
            f"forest, MLP, logistic; {min(log_loss, key=lambda m: log_loss[m])}",
        ),
        Goal(
            "worst table against the better of logistic and kNN, points", behind, -2.5, -1.0,
            True, 2, table,
        ),
        Goal("mean calibration error", ours.calibration_error, 0.04, 0.025, False, 4),
        *_times(results),
    ]  # fmt: skip


def _worst_table(results: Results) -> tuple[str, float]:
    """Where the accuracy is furthest below the better of two simple models, and by how much."""
    behind = {
        table: ours.accuracy
        - max(results.figures[table, model].accuracy for model in ("logistic", "kNN"))
        for table, ours in results.of(OURS).items()
    }
    worst = min(behind, key=lambda table: behind[table])
    return worst, behind[worst]


def _times(results: Results) -> Iterable[Goal]:
    """Training with the choice of a capacity over training with it given, by tables' sizes."""
    for what, low, high, must, aim in (
        (f"under {MANY_ROWS:,} rows", 0, MANY_ROWS, 12.0, 6.0),
        (f"from {MANY_ROWS:,} rows on", MANY_ROWS, math.inf, 3.0, 2.0),
    ):
        times = {
            table: figures.times_given
            for table, figures in results.of(OURS).items()
            if low <= results.rows[table] < high
        }
        if times:
            slowest = max(times, key=lambda table: times[table])
            yield Goal(
                f"times as long as with the capacity given, {what}, mean",
                sum(times.values()) / len(times), must, aim, False, 1,
                f"the most is {times[slowest]:.1f} on {slowest}",
            )  # fmt: skip
