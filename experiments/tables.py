"""Cross-validated comparison of classifiers on a folder of tables.

The tables are CSV files whose last column is the class. The folder is given by the environment
variable MAXPLUS_TABLES, or is the subfolder ``tables`` of MAXPLUS_DATA.
"""

from __future__ import annotations

import os
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold

from experiments.harness import Axes, Figure, Result, Settings, Table, data_folder, panels
from experiments.measure import timed
from maxplus.datasets import DataNotFoundError
from maxplus.estimators import LMMClassifier
from maxplus.evaluation.comparison import SKLEARN_CLASSIFIERS
from maxplus.metrics import expected_calibration_error, log_losses
from maxplus.plots._style import BLUE, GREEN, GREY, INK, ORANGE, PALE, SMALL, VERMILION
from maxplus.tables import TableEncoder, TableError, read_table, split_target

ENDINGS = (".csv", ".csv.gz")
find_folder = partial(
    data_folder, "MAXPLUS_TABLES", "tables", "CSV files whose last column is the class"
)
FULL_SEEDS, QUICK_SEEDS = 2, 1
FULL_FOLDS, QUICK_FOLDS = 5, 3
QUICK_TABLES = 3
OURS = "LMM"
# Predictions and times, see `held_out`.
Part = dict[str, NDArray]
# Column heading and number of decimals of each metric. Times are per fold.
METRICS = {
    "accuracy": ("accuracy %", 2),
    "log_loss": ("log loss", 4),
    "calibration_error": ("calibration error", 4),
    "calibration_error_within": ("within folds", 4),
    "fit_seconds": ("fit: seconds", 2),
    "fit_cpu_seconds": ("fit: CPU seconds", 2),
    "predict_seconds": ("predict: seconds", 3),
}

# Factories by name, which take a seed.
Models = dict[str, Callable[[int], Any]]
# Module, class and non-default parameters of boosting models of optional packages.
BOOSTING_BASELINES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "XGBoost": ("xgboost", "XGBClassifier", {"n_jobs": 1, "verbosity": 0}),
    "LightGBM": ("lightgbm", "LGBMClassifier", {"n_jobs": 1, "verbosity": -1}),
    "CatBoost": (
        "catboost",
        "CatBoostClassifier",
        {"thread_count": 1, "verbose": False, "allow_writing_files": False},
    ),
    "EBM": ("interpret.glassbox", "ExplainableBoostingClassifier", {"n_jobs": 1}),
}


def installed_baselines() -> Models:
    """Return the factories of boosting models whose packages are installed."""

    def boosted(name: str, seed: int) -> Any:
        module, class_name, options = BOOSTING_BASELINES[name]
        return getattr(import_module(module), class_name)(random_state=seed, **options)

    return {
        name: partial(boosted, name)
        for name, (module, _, _) in BOOSTING_BASELINES.items()
        if find_spec(module.partition(".")[0]) is not None
    }


MODELS: Models = {
    OURS: lambda seed: LMMClassifier(random_state=seed),
    **SKLEARN_CLASSIFIERS,
    **installed_baselines(),
}


def run(settings: Settings) -> Result:
    """Cross-validate every model on every table with every seed."""
    tables = read_folder(find_folder())
    if settings.quick:
        tables = sorted(tables, key=lambda table: table.X.size)[:QUICK_TABLES]
    n_seeds = settings.pick(FULL_SEEDS, QUICK_SEEDS)
    results = measure(tables, MODELS, settings)
    return Result(
        "Classification of tables",
        _text(results, settings.pick(FULL_FOLDS, QUICK_FOLDS), n_seeds),
        tables_of(results),
        results.plain(),
        {"models": draw(results)},
        f"{len(tables)} small tables, {QUICK_FOLDS} folds, {n_seeds} seed",
    )


def measure(tables: list[LabelledTable], models: Models, settings: Settings) -> Results:
    """Return the cross-validated metrics of each model on each table, averaged over seeds.

    The predictions of a model with a seed are cached. A full run uses one single-threaded process
    per CPU.
    """
    n_folds = settings.pick(FULL_FOLDS, QUICK_FOLDS)
    n_seeds = settings.pick(FULL_SEEDS, QUICK_SEEDS)
    runs = [(table, model, seed) for table in tables for seed in range(n_seeds) for model in models]

    def part_of(table: LabelledTable, model: str, seed: int) -> Any:
        splitter = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
        make = partial(held_out, models[model](seed), table.X, table.y, splitter)
        return delayed(settings.cache.get)(f"{table.name} {model} {seed}", make)

    parallel = Parallel(n_jobs=settings.pick(os.cpu_count(), 1), return_as="generator")
    parts = parallel(part_of(*run) for run in runs)
    metrics = []
    structures: dict[str, Counter[str]] = {}
    for (table, model, _), part in zip(settings.track(runs, "tables"), parts, strict=True):
        metrics.append({"table": table.name, "model": model, **metrics_of(part)})
        if model == OURS:
            structures.setdefault(table.name, Counter()).update(part["structures"].tolist())
    return Results(
        {table.name: len(table.y) for table in tables},
        pd.DataFrame(metrics).groupby(["table", "model"], sort=False).mean(),
        structures,
    )


def _text(results: Results, n_folds: int, n_seeds: int) -> str:
    ours, others = results.means.loc[OURS], results.means.drop(OURS)
    accurate, calibrated = others["accuracy"].idxmax(), others["log_loss"].idxmin()
    missing = ", ".join(model for model in BOOSTING_BASELINES if model not in others.index)
    left_out = f"Left out (`pip install 'maxplus[baselines]'` installs them): {missing}. "
    return (
        f"`LMMClassifier()` on {len(results.rows)} tables with unscaled numbers and one-hot "
        "encoded categories, scikit-learn's models on standardised features, and boosted models "
        "of other packages; all with their defaults, except more iterations for logistic "
        f"regression and the MLP. {left_out if missing else ''}"
        f"{n_folds} stratified folds, {n_seeds} "
        f"seed{'s' * (n_seeds > 1)}. Mean accuracy {ours.accuracy:.2f} % and log loss "
        f"{ours.log_loss:.3f}; the most accurate other model is {accurate} with "
        f"{others['accuracy'].max():.2f} %, the one with the lowest log loss {calibrated} with "
        f"{others['log_loss'].min():.3f}. Probabilities are clipped at 1e−15 in the log loss. "
        "The calibration error (15 bins of the top probability) is that of all rows of a table; "
        "within folds it is larger, because bins have fewer rows. Seconds are those of one fold, "
        "with other fits running on the same machine; CPU seconds are summed over threads."
    )


class LabelledTable(NamedTuple):
    """Features of shape (N, P) and class indices of shape (N,)."""

    name: str
    X: NDArray
    y: NDArray


def read_folder(folder: Path) -> list[LabelledTable]:
    """Read all .csv and .csv.gz files, sorted by the number of rows."""
    paths = [path for path in sorted(folder.iterdir()) if path.name.endswith(ENDINGS)]
    if not paths:
        raise DataNotFoundError(f"{folder} contains no file that ends in {' or '.join(ENDINGS)}")
    return sorted(map(_read, paths), key=lambda table: (len(table.y), table.name))


def _read(path: Path) -> LabelledTable:
    table = read_table(path)
    *features, target = table.columns
    text = [name for name in features if table.columns[name].dtype == object]
    try:
        # Imputation would use the held-out rows.
        encoder = TableEncoder(categorical=text, missing="error")
        data = split_target(table, target, "classification").encoded(encoder)
        X, labels = data.X, data.y
        assert labels is not None
    except TableError as error:
        raise DataNotFoundError(f"{error}; or remove the table from {path.parent}") from error
    return LabelledTable(path.name.split(".")[0], X, np.unique(labels, return_inverse=True)[1])


def held_out(model: Any, X: NDArray, y: NDArray, splitter: Any) -> Part:
    """Return the results of a clone of the model in each fold.

    They are ``labels``, ``fold`` and ``probabilities`` of each held-out row, and the times
    ``fit``, ``fit_cpu`` and ``predict`` and the chosen structure, if any, of each fold.
    """
    P, fold = np.zeros((len(y), int(y.max()) + 1)), np.empty(len(y), int)
    seconds, structures = [], []
    for k, (train, test) in enumerate(splitter.split(X, y)):
        with warnings.catch_warnings():
            # Some models reach max_iter, and EBM warns about plots.
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.filterwarnings("ignore", "For multiclass we cannot currently visualize pairs")
            # The CPU time includes all threads.
            start = time.process_time()
            fit, fitted = timed(clone(model).fit, X[train], y[train])
            fit_cpu = time.process_time() - start
        predict, probabilities = timed(fitted.predict_proba, X[test])
        seconds.append((fit, fit_cpu, predict))
        # Classes without training rows have no column.
        P[np.ix_(test, fitted.classes_)] = probabilities
        fold[test] = k
        if hasattr(fitted, "search_"):
            search = fitted.search_
            structures.append(str(search["candidates"][search["chosen"]]))
    return {
        "labels": y,
        "fold": fold,
        "probabilities": P,
        **dict(zip(("fit", "fit_cpu", "predict"), np.transpose(seconds), strict=True)),
        "structures": np.array(structures),
    }


def metrics_of(part: Part) -> dict[str, float]:
    """Return the metrics in `METRICS` of a result of `held_out`."""
    y, P, fold = part["labels"], part["probabilities"], part["fold"]
    within = [expected_calibration_error(y[fold == k], P[fold == k]) for k in np.unique(fold)]
    values = (
        100 * (P.argmax(axis=1) == y).mean(),
        log_losses(y, P).mean(),
        expected_calibration_error(y, P),
        np.mean(within),
        *(part[name].mean() for name in ("fit", "fit_cpu", "predict")),
    )
    return dict(zip(METRICS, map(float, values), strict=True))


@dataclass(frozen=True)
class Results:
    """Table sizes, metrics by table and model, and counts of chosen structures."""

    rows: dict[str, int]
    metrics: pd.DataFrame
    structures: dict[str, Counter[str]] = field(default_factory=dict)

    @property
    def models(self) -> list[str]:
        """Names of the models."""
        return list(self.metrics.index.unique("model"))

    @property
    def means(self) -> pd.DataFrame:
        """Mean metrics of each model over all tables."""
        return self.metrics.groupby("model", sort=False).mean()

    def by_table(self, metric: str) -> pd.DataFrame:
        """Return a metric by table (rows) and model (columns)."""
        return self.metrics[metric].unstack("model").loc[list(self.rows), self.models]

    def plain(self) -> dict[str, Any]:
        """Return all results as JSON types."""
        return {
            "rows": self.rows,
            "figures": {m: self.metrics.xs(m, level="model").to_dict("index") for m in self.models},
            "structures": {table: dict(counts) for table, counts in self.structures.items()},
        }


def tables_of(results: Results) -> list[Table]:
    """Return all tables of the report."""
    means = [
        (model, *(f"{mean[name]:.{digits}f}" for name, (_, digits) in METRICS.items()))
        for model, mean in results.means.iterrows()
    ]
    columns = ("model", *(heading for heading, _ in METRICS.values()))
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
    """Return mean differences between LMM and the other models, with standard errors."""
    rows = []
    accuracies, losses = results.by_table("accuracy"), results.by_table("log_loss")
    for model in results.means.drop(OURS).index:
        points, nats = accuracies[OURS] - accuracies[model], losses[OURS] - losses[model]
        higher, lower = str((points > 0).sum()), str((points < 0).sum())
        better, worse = str((nats < 0).sum()), str((nats > 0).sum())
        shown = _mean_and_error(points, 2), _mean_and_error(nats, 4)
        rows.append((model, shown[0], higher, lower, shown[1], better, worse))
    columns = ("accuracy, points", "higher on", "lower on", "log loss", "better on", "worse on")
    caption = f"{OURS} minus each other model, mean ± standard error over tables"
    return Table(caption, ("model", *columns), rows)


def _mean_and_error(values: pd.Series, digits: int) -> str:
    return f"{values.mean():+.{digits}f} ± {values.sem():.{digits}f}".replace("-", "−")


def structures_table(results: Results) -> Table:
    """Return the number of times each structure was chosen."""
    chosen = sum(results.structures.values(), Counter[str]())
    rows = [
        (
            structure,
            f"{n}",
            f"{100 * n / chosen.total():.1f}",
            ", ".join(t for t, counts in results.structures.items() if counts[structure]),
        )
        for structure, n in chosen.most_common()
    ]
    columns = ("structure", "fits", "%", "tables")
    return Table(f"Structures chosen by {OURS}Classifier()", columns, rows)


def _by_table(results: Results, caption: str, metric: str, digits: int) -> Table:
    rows = [
        (table, f"{results.rows[table]:,}", *(f"{value:.{digits}f}" for value in values))
        for table, values in results.by_table(metric).iterrows()
    ]
    return Table(caption, ("table", "rows", *results.models), rows)


# Shape and colour of the marker of each model.
COLOURS = (VERMILION, BLUE, GREY, GREEN, GREEN, ORANGE, INK, BLUE, ORANGE, BLUE, INK, GREEN)
MARKS = tuple(zip("osv^<DPXh>*p", COLOURS, strict=True))
# Differences are clipped at this value, because outliers would compress the axis.
MIN_DIFFERENCE = -16.0


def draw(results: Results) -> Figure:
    """Plot the accuracy relative to the best model on each table, and the mean log losses."""
    height = 1.8 + 0.27 * max(len(results.rows), len(MARKS))
    titles = ("Accuracy on each table", "Log loss over all tables")
    figure, (left, right) = panels(11.0, height, titles, width_ratios=[3, 2])
    _draw_differences(left, results)
    _draw_log_losses(right, results)
    return figure


def _draw_differences(ax: Axes, results: Results) -> None:
    """Draw the difference from the best accuracy for each table and model."""
    accuracy = results.by_table("accuracy")
    best = accuracy.max(axis=1)
    for k, model in enumerate(results.models):
        shape, colour = MARKS[k % len(MARKS)]
        difference = (accuracy[model] - best).clip(MIN_DIFFERENCE)
        # Draw the first model filled, behind the outlines of the other models.
        style: dict[str, Any] = {"ms": 5.5, "mfc": "none", "zorder": 2}
        if k == 0:
            style = {"ms": 9, "mfc": colour, "zorder": 1}
        ax.plot(difference, range(len(best)), shape, mec=colour, alpha=0.9, **style)
    for k, own in enumerate(accuracy.sub(best, axis=0).to_numpy()):
        clipped = [f"−{-points:.0f}" for points in own if points < MIN_DIFFERENCE]
        _annotate(ax, MIN_DIFFERENCE, k, ", ".join(clipped))
        ax.axhline(k, color=PALE, linewidth=0.5, zorder=0)
    names = [f"{table}, {best[table]:.1f} %" for table in results.rows]
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlabel("percentage points below the most accurate, whose accuracy is at the left")


def _draw_log_losses(ax: Axes, results: Results) -> None:
    """Draw the mean log loss of each model, which also serves as legend."""
    losses = results.means["log_loss"].sort_values()
    for k, (model, loss) in enumerate(losses.items()):
        shape, colour = MARKS[results.models.index(model) % len(MARKS)]
        ax.plot([0, loss], [k, k], color=PALE, linewidth=2, zorder=0)
        ax.plot(loss, k, shape, color=colour, ms=9, clip_on=False)
        _annotate(ax, loss, k, f"{loss:.3f}")
    ax.set_yticks(range(len(losses)), list(losses.index))
    ax.set_ylim(len(losses) - 0.5, -0.5)
    ax.set_xlim(0, 1.15 * losses.max())
    ax.set_xlabel("mean log loss")


def _annotate(ax: Axes, x: float, y: float, text: str) -> None:
    ax.annotate(
        text, (x, y), xytext=(9, 0), textcoords="offset points", va="center", size=SMALL, color=GREY
    )
