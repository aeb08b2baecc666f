"""Results of every table and model, as tables and as a picture."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from experiments.harness import Table
from experiments.held_out import Figures
from maxplus.plots._canvas import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PALE,
    SMALL,
    VERMILION,
    new_figure,
    quiet_frame,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


OURS = "LMM"


@dataclass(frozen=True)
class Results:
    """Figures by table and model, the rows of each table, and how often structures were chosen."""

    rows: dict[str, int]
    figures: dict[tuple[str, str], Figures]
    structures: dict[str, Counter[str]] = field(default_factory=dict)

    @property
    def models(self) -> list[str]:
        """In the order in which they were trained."""
        return list(dict.fromkeys(model for _, model in self.figures))

    def of(self, model: str) -> dict[str, Figures]:
        """One model's figures by table."""
        return {table: self.figures[table, model] for table in self.rows}

    def mean(self, model: str) -> Figures:
        """Over all tables."""
        return Figures.mean(list(self.of(model).values()))

    def plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "rows": self.rows,
            "figures": {
                model: {table: figures._asdict() for table, figures in self.of(model).items()}
                for model in self.models
            },
            "structures": {table: dict(own) for table, own in self.structures.items()},
        }


def tables_of(results: Results) -> list[Table]:
    """Means of each model, differences, structures, and the figures of each table."""
    means = [
        (
            model,
            f"{m.accuracy:.2f}",
            f"{m.log_loss:.4f}",
            f"{m.calibration_error:.4f}",
            f"{m.calibration_error_within:.4f}",
            f"{m.fit_seconds:.2f}",
            f"{m.fit_cpu_seconds:.2f}",
            f"{m.predict_seconds:.3f}",
        )
        for model in results.models
        if (m := results.mean(model))
    ]
    columns = (
        "model",
        "accuracy %",
        "log loss",
        "calibration error",
        "within folds",
        "fit: seconds",
        "fit: CPU seconds",
        "predict: seconds",
    )
    return [
        Table(f"Means over {len(results.rows)} tables", columns, means),
        differences_table(results),
        structures_table(results),
        _by_table(results, "Accuracy in percent", "accuracy", 2),
        _by_table(results, "Log loss", "log_loss", 4),
        _by_table(results, "Expected calibration error", "calibration_error", 4),
        _by_table(results, "CPU seconds to train one fold", "fit_cpu_seconds", 3),
    ]


def differences_table(results: Results) -> Table:
    """Differences from each other model: the mean over tables ± its standard error."""
    ours = results.of(OURS)
    rows = []
    for model in results.models:
        if model == OURS:
            continue
        theirs = results.of(model)
        accuracy = np.array([ours[t].accuracy - theirs[t].accuracy for t in results.rows])
        log_loss = np.array([ours[t].log_loss - theirs[t].log_loss for t in results.rows])
        rows.append(
            (
                model,
                _mean_and_error(accuracy, 2),
                f"{(accuracy > 0).sum()}",
                f"{(accuracy < 0).sum()}",
                _mean_and_error(log_loss, 4),
                f"{(log_loss < 0).sum()}",
                f"{(log_loss > 0).sum()}",
            )
        )
    columns = (
        "model",
        "accuracy, points",
        "higher on",
        "lower on",
        "log loss",
        "better on",
        "worse on",
    )
    return Table(f"{OURS} minus each other model, mean ± standard error over tables", columns, rows)


def _mean_and_error(values: NDArray, digits: int) -> str:
    error = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else np.nan
    return f"{values.mean():+.{digits}f} ± {error:.{digits}f}".replace("-", "−")


def structures_table(results: Results) -> Table:
    """Return how often each structure was chosen, the most frequent first."""
    chosen = sum(results.structures.values(), Counter[str]())
    rows = [
        (
            structure,
            f"{n}",
            f"{100 * n / chosen.total():.1f}",
            ", ".join(t for t, own in results.structures.items() if own[structure]),
        )
        for structure, n in chosen.most_common()
    ]
    columns = ("structure", "trainings", "%", "on tables")
    return Table(f"Structures that {OURS}Classifier() has chosen", columns, rows)


def _by_table(results: Results, caption: str, figure: str, digits: int) -> Table:
    rows = [
        (
            table,
            f"{n:,}",
            *(
                f"{getattr(results.figures[table, model], figure):.{digits}f}"
                for model in results.models
            ),
        )
        for table, n in results.rows.items()
    ]
    return Table(caption, ("table", "rows", *results.models), rows)


# The first model is emphasised; the others differ in shape as well as in colour.
MARKS = (
    ("o", VERMILION),
    ("s", BLUE),
    ("v", GREY),
    ("^", GREEN),
    ("<", GREEN),
    ("D", ORANGE),
    ("P", INK),
    ("X", BLUE),
    ("h", ORANGE),
    (">", BLUE),
    ("*", INK),
    ("p", GREEN),
)

# Larger differences are drawn here, with their number: a model that cannot learn a table must not
# squeeze all others together.
FURTHEST = -16.0


def draw(results: Results) -> Figure:
    """Draw the distance of each model from the best on each table, and log losses."""
    figure = new_figure(11.0, 1.8 + 0.27 * max(len(results.rows), len(MARKS)))
    left, right = figure.subplots(1, 2, gridspec_kw={"width_ratios": [3, 2]})
    _draw_differences(left, results)
    _draw_log_losses(right, results)
    return figure


def _draw_differences(ax: Axes, results: Results) -> None:
    """A row for each table, a mark for each model, 0 for the best."""
    best = {
        table: max(results.figures[table, model].accuracy for model in results.models)
        for table in results.rows
    }
    far: dict[int, list[str]] = {}
    for place, model in enumerate(results.models):
        shape, colour = MARKS[place % len(MARKS)]
        behind = [m.accuracy - best[table] for table, m in results.of(model).items()]
        # Ours is filled and below the others, which are outlines, so that none hides another.
        ours = place == 0
        ax.plot(
            [max(points, FURTHEST) for points in behind],
            range(len(behind)),
            shape,
            ms=9 if ours else 5.5,
            mfc=colour if ours else "none",
            mec=colour,
            alpha=0.9,
            zorder=1 if ours else 2,
            linestyle="none",
        )
        for row, points in enumerate(behind):
            if points < FURTHEST:
                far.setdefault(row, []).append(f"−{-points:.0f}")
    for row, points_behind in far.items():
        _annotate(ax, FURTHEST, row, ", ".join(points_behind))
    for place in range(len(results.rows)):
        ax.axhline(place, color=PALE, linewidth=0.5, zorder=0)
    names = [f"{table}, {best[table]:.1f} %" for table in results.rows]
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlabel("percentage points below the most accurate, whose accuracy is at the left")
    quiet_frame(ax, "Accuracy on each table")


def _draw_log_losses(ax: Axes, results: Results) -> None:
    """Draw the mean log loss, lowest first, with its number; this is also the legend."""
    losses = {model: results.mean(model).log_loss for model in results.models}
    order = sorted(losses, key=lambda model: losses[model])
    for place, model in enumerate(order):
        shape, colour = MARKS[results.models.index(model) % len(MARKS)]
        ax.plot([0, losses[model]], [place, place], color=PALE, linewidth=2, zorder=0)
        ax.plot(losses[model], place, shape, color=colour, ms=9, clip_on=False)
        _annotate(ax, losses[model], place, f"{losses[model]:.3f}")
    ax.set_yticks(range(len(order)), order)
    ax.set_ylim(len(order) - 0.5, -0.5)
    ax.set_xlim(0, 1.15 * max(losses.values()))
    ax.set_xlabel("mean log loss")
    quiet_frame(ax, "Log loss over all tables")


def _annotate(ax: Axes, x: float, y: float, text: str) -> None:
    ax.annotate(
        text, (x, y), xytext=(9, 0), textcoords="offset points", va="center", size=SMALL, color=GREY
    )
