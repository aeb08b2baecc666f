"""The default classifier on every table of a folder, with other packages' models beside it.

Parts can be made for some models only, to go on with ``python -m experiments tables
--resume``, which keeps those of a full run in ``OUT/tables/parts-full-None``::

    MAXPLUS_TABLES=… python -m experiments.tables PARTS [MODEL…]
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed
from sklearn.model_selection import StratifiedKFold

from experiments.boosting_baselines import BOOSTING_BASELINES, installed_baselines
from experiments.folder_of_tables import LabelledTable, find_folder, read_folder
from experiments.harness import Cache, Result, Settings
from experiments.held_out import Figures, held_out
from experiments.table_goals import goals_table, table_goals
from experiments.table_results import OURS, Results, draw, tables_of
from maxplus.estimators import LMMClassifier
from maxplus.evaluation.comparison import SKLEARN_CLASSIFIERS

FULL_SEEDS, QUICK_SEEDS = 2, 1
FULL_FOLDS, QUICK_FOLDS = 5, 3
QUICK_TABLES = 3

# Constructors by name, given a seed.
Models = dict[str, Callable[[int], Any]]
MODELS: Models = {
    OURS: lambda seed: LMMClassifier(random_state=seed),
    **SKLEARN_CLASSIFIERS,
    **installed_baselines(),
}


def run(settings: Settings) -> Result:
    """Every model on every table with every seed."""
    tables = read_folder(find_folder())
    if settings.quick:
        tables = sorted(tables, key=lambda table: table.X.size)[:QUICK_TABLES]
    n_seeds = settings.n_seeds(FULL_SEEDS, QUICK_SEEDS)
    results = measure(tables, MODELS, settings)
    return Result(
        "Tables",
        _text(results, settings, n_seeds),
        [goals_table(table_goals(results)), *tables_of(results)],
        results.plain(),
        {"models": draw(results)},
        f"{len(tables)} small tables, {QUICK_FOLDS} folds, {n_seeds} seed"
        if settings.quick
        else "",
    )


def measure(tables: list[LabelledTable], models: Models, settings: Settings) -> Results:
    """Cross-validate each model on each table."""
    n_folds = QUICK_FOLDS if settings.quick else FULL_FOLDS
    return measure_splits(
        tables,
        models,
        settings,
        settings.n_seeds(FULL_SEEDS, QUICK_SEEDS),
        lambda seed: StratifiedKFold(n_folds, shuffle=True, random_state=seed),
    )


def measure_splits(
    tables: list[LabelledTable],
    models: Models,
    settings: Settings,
    n_seeds: int,
    splitter: Callable[[int], Any],
) -> Results:
    """The figures of each table and model, the mean over seeds; each model's splits are a part.

    A full run trains in as many processes as there are processors, one thread each.
    """
    runs = [(table, model, seed) for table in tables for seed in range(n_seeds) for model in models]
    parallel = Parallel(n_jobs=1 if settings.quick else os.cpu_count(), return_as="generator")
    parts = parallel(
        delayed(settings.cache.get)(
            f"{table.name} {model} {seed}",
            partial(held_out, models[model](seed), table.X, table.y, splitter(seed)),
        )
        for table, model, seed in runs
    )
    figures: dict[tuple[str, str], list[Figures]] = {}
    structures: dict[str, Counter[str]] = {}
    for (table, model, _), part in zip(settings.track(runs, "tables"), parts, strict=True):
        figures.setdefault((table.name, model), []).append(Figures.of(part))
        if model == OURS:
            own = structures.setdefault(table.name, Counter())
            own.update(part["structures"].tolist() if "structures" in part else [])
    return Results(
        {table.name: len(table.y) for table in tables},
        {key: Figures.mean(some) for key, some in figures.items()},
        structures,
    )


def _text(results: Results, settings: Settings, n_seeds: int) -> str:
    means = {model: results.mean(model) for model in results.models}
    ours = means[OURS]
    others = [model for model in results.models if model != OURS]
    accurate = max(others, key=lambda model: means[model].accuracy)
    calibrated = min(others, key=lambda model: means[model].log_loss)
    n_folds = QUICK_FOLDS if settings.quick else FULL_FOLDS
    missing = [model for model in BOOSTING_BASELINES if model not in means]
    return (
        f"`LMMClassifier()` on {len(results.rows)} tables as they are, words as 0 and 1, beside "
        "scikit-learn's models, which get standardised features, and boosted models of other "
        "packages; all with their defaults, but for longer trainings of logistic regression and "
        f"the MLP. {_left_out(missing)}{n_folds} stratified folds, "
        f"{n_seeds} seed{'s' * (n_seeds > 1)}; every row is judged by models that have not seen "
        f"it. Mean accuracy {ours.accuracy:.2f} % and log loss {ours.log_loss:.3f}; the most "
        f"accurate other is {accurate} with {means[accurate].accuracy:.2f} %, the one with the "
        f"lowest log loss {calibrated} with {means[calibrated].log_loss:.3f}. Probabilities below "
        "1e−15 count as that in the log loss. The calibration error (15 bins of the top "
        "probability) is that of a table's rows together; fold by fold it comes out larger, "
        "because few rows in a bin miss their mean by chance. Seconds are those of one fold, with "
        "other trainings beside it on the same machine; CPU seconds are those of all threads."
    )


def _left_out(missing: list[str]) -> str:
    if not missing:
        return ""
    names = ", ".join(missing)
    return f"Left out (`pip install 'maxplus[baselines]'` installs all of them): {names}. "


def main() -> None:
    """Make the parts of the models that are named, or of all."""
    folder, *models = sys.argv[1:]
    unknown = [model for model in models if model not in MODELS]
    if unknown:
        raise SystemExit(f"there is no model {unknown[0]!r}; choose from {', '.join(MODELS)}")

    def report(runs: Iterable[Any], text: str) -> Iterable[Any]:
        runs = list(runs)
        for k, (table, model, seed) in enumerate(runs, 1):
            yield table, model, seed
            print(f"{k} of {len(runs)}: {table.name}, {model}, seed {seed}", flush=True)

    settings = Settings(track=report, cache=Cache(Path(folder)))
    chosen = {model: MODELS[model] for model in models or MODELS}
    measure(read_folder(find_folder()), chosen, settings)


if __name__ == "__main__":
    main()
