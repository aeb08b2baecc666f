"""The default classifier on raw features of six tables on which scaling or capacity matters.

No model gets scaled features. The tables are those of the folder that ``tables`` reads.
"""

from __future__ import annotations

from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedShuffleSplit

from experiments.folder_of_tables import find_folder, read_folder
from experiments.harness import Result, Settings
from experiments.table_goals import Goal, goals_table
from experiments.table_results import OURS, tables_of
from experiments.tables import Models, measure_splits
from maxplus.estimators import LMMClassifier

TABLES = ("segment", "spambase", "letter", "magic", "satimage", "vehicle")
FULL_SPLITS, QUICK_SPLITS = 2, 1
QUICK_TABLES = 2
HELD_OUT = 0.3

MODELS: Models = {
    OURS: lambda seed: LMMClassifier(random_state=seed),
    "logistic": lambda seed: LogisticRegression(),
    "forest": lambda seed: RandomForestClassifier(random_state=seed),
    "boosting": lambda seed: HistGradientBoostingClassifier(random_state=seed),
}


def run(settings: Settings) -> Result:
    """Every model on every table and split."""
    tables = read_folder(find_folder(), TABLES)
    if settings.quick:
        tables = sorted(tables, key=lambda table: table.X.size)[:QUICK_TABLES]
    n_splits = settings.n_seeds(FULL_SPLITS, QUICK_SPLITS)
    results = measure_splits(
        tables,
        MODELS,
        settings,
        n_splits,
        lambda seed: StratifiedShuffleSplit(1, test_size=HELD_OUT, random_state=seed),
    )
    accuracy = {model: results.mean(model).accuracy for model in MODELS}
    others = ", ".join(f"{m} {value:.2f} %" for m, value in accuracy.items() if m != OURS)
    goal = Goal("mean accuracy %", accuracy[OURS], 90.3, 92.0, True, 2)
    return Result(
        "Raw tables",
        f"`LMMClassifier()` and scikit-learn's models, all with their defaults, on the raw "
        f"features of {len(tables)} tables: 70 % of the rows to train on, stratified, "
        f"{n_splits} split{'s' * (n_splits > 1)}. Mean accuracy on the others "
        f"{accuracy[OURS]:.2f} % ({others}).",
        [goals_table([goal]), *tables_of(results)],
        results.plain(),
        scale=f"{len(tables)} small tables, {n_splits} split" if settings.quick else "",
    )
