"""What came out for every table and model: as tables and as a picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from maxplus.lab.finding import Table
from maxplus.lab.held_out import Figures
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


@dataclass(frozen=True)
class Results:
    """Figures by table and model, and how many rows each table has."""

    rows: dict[str, int]
    figures: dict[tuple[str, str], Figures]

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
        }


def tables_of(results: Results) -> list[Table]:
    """The means of each model, and accuracy, log loss and calibration of each table."""
    means = [
        (model, f"{m.accuracy:.2f}", f"{m.log_loss:.4f}", f"{m.calibration_error:.4f}",
         f"{m.calibration_error_within:.4f}", f"{m.seconds:.2f}")
        for model in results.models
        if (m := results.mean(model))
    ]  # fmt: skip
    columns = ("model", "accuracy %", "log loss", "calibration error", "within folds", "seconds")
    return [
        Table(f"Means over {len(results.rows)} tables", columns, means),
        _by_table(results, "Accuracy in percent", "accuracy", 2),
        _by_table(results, "Log loss", "log_loss", 4),
        _by_table(results, "Expected calibration error", "calibration_error", 4),
        _by_table(results, "Seconds to train and predict one fold", "seconds", 3),
    ]


def _by_table(results: Results, caption: str, figure: str, digits: int) -> Table:
    rows = [
        (table, f"{n:,}", *(f"{getattr(results.figures[table, model], figure):.{digits}f}"
                            for model in results.models))
        for table, n in results.rows.items()
    ]  # fmt: skip
    return Table(caption, ("table", "rows", *results.models), rows)


# The first model stands out; the others are told apart by shape as well as by colour.
MARKS = (
    ("o", VERMILION), ("s", BLUE), ("v", GREY), ("^", GREEN), ("<", GREEN), ("D", ORANGE),
    ("P", INK), ("X", BLUE),
)  # fmt: skip

# What is further behind is drawn here, with its number: a model that cannot learn a table must not
# squeeze all others together.
FURTHEST = -16.0


def draw(results: Results) -> Figure:
    """How far each model is from the best on each table; log loss and accuracy over all."""
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
            [max(points, FURTHEST) for points in behind], range(len(behind)), shape,
            ms=9 if ours else 5.5, mfc=colour if ours else "none", mec=colour, alpha=0.9,
            zorder=1 if ours else 2, linestyle="none",
        )  # fmt: skip
        for row, points in enumerate(behind):
            if points < FURTHEST:
                far.setdefault(row, []).append(f"−{-points:.0f}")
    for row, points_behind in far.items():
        _write_beside(ax, FURTHEST, row, ", ".join(points_behind))
    for place in range(len(results.rows)):
        ax.axhline(place, color=PALE, linewidth=0.5, zorder=0)
    names = [f"{table}, {best[table]:.1f} %" for table in results.rows]
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlabel("percentage points below the most accurate, whose accuracy is at the left")
    quiet_frame(ax, "Accuracy on each table")


def _draw_log_losses(ax: Axes, results: Results) -> None:
    """The mean log loss, lowest first, and its number; also tells which mark is which model's."""
    losses = {model: results.mean(model).log_loss for model in results.models}
    order = sorted(losses, key=lambda model: losses[model])
    for place, model in enumerate(order):
        shape, colour = MARKS[results.models.index(model) % len(MARKS)]
        ax.plot([0, losses[model]], [place, place], color=PALE, linewidth=2, zorder=0)
        ax.plot(losses[model], place, shape, color=colour, ms=9, clip_on=False)
        _write_beside(ax, losses[model], place, f"{losses[model]:.3f}")
    ax.set_yticks(range(len(order)), order)
    ax.set_ylim(len(order) - 0.5, -0.5)
    ax.set_xlim(0, 1.15 * max(losses.values()))
    ax.set_xlabel("mean log loss")
    quiet_frame(ax, "Log loss over all tables")


def _write_beside(ax: Axes, x: float, y: float, text: str) -> None:
    ax.annotate(
        text, (x, y), xytext=(9, 0), textcoords="offset points", va="center", size=SMALL, color=GREY
    )
