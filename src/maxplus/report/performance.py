"""Performance of a classifier on rows that were not used in training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxplus.estimators._base import training_summary
from maxplus.metrics import classification_metrics, reliability, to_jsonable
from maxplus.metrics._intervals import Z_95, mean_auc_error, wilson_interval
from maxplus.report._text import percent, plural
from maxplus.report.data import PageRows
from maxplus.report.figures import reliability_figure
from maxplus.tables import row_hashes

# Maximum number of rows in a list.
MAX_LISTED_ROWS = 25
REMEDY = (
    "Train with maxplus train, without --validate none, or pass labelled rows that were not used "
    "in training."
)


def equal_to_training(estimator: Any, hashes: NDArray) -> NDArray | None:
    """Return whether each hash is that of a training row; None if no hashes are stored."""
    known = getattr(estimator, "training_rows_", None)
    return None if known is None else np.isin(hashes, known)


def training_overlap(
    estimator: Any, table: PageRows, is_training: bool, target: str
) -> tuple[str, bool]:
    """Describe the overlap of the rows with the training rows.

    ``target`` is the plural noun for the labels. Also return whether a labelled table that is not
    the training table has rows with the values of a training row.
    """
    if table.y is None:
        return f"{table.name} has no {target} to compare with.", False
    rows = f"{plural(table.n, 'row')} of {table.name}"
    if is_training:
        return f"The model was trained on the {rows}.", False
    equal = equal_to_training(estimator, row_hashes(table.X))
    if equal is None:
        text = (
            "The model file has no hashes of training rows, so it is not known whether some of the "
            f"{rows} were used in training."
        )
        return text, False
    n = int(equal.sum())
    if n == 0:
        return f"None of the {rows} has the values of a training row.", False
    has = "has" if n == 1 else "have"
    same = f"{n:,} of the {rows} {has} the same values as a training row"
    return f"{same}; the metrics include all rows.", True


def validation_source(estimator: Any, table: PageRows, is_training: bool) -> dict[str, Any] | None:
    """Return the validation results stored with the model, or None."""
    record = getattr(estimator, "validation_", None)
    if record is None:
        return None
    encoder = getattr(estimator, "encoder_", None)
    data = "the training data" if encoder is None else PurePath(encoder.data_).name
    return _source(
        title=record["description"],
        whose="held out of training",
        on="new rows",
        description=f"each row of {data} was predicted by a model that was trained without it; the "
        "model of this page was trained on all rows.",
        metrics=record["metrics"],
        dispersion=record.get("dispersion", 1.0),
        baseline=record["baseline"],
        bins=record.get("reliability"),
        least_confident=_with_ids(record.get("least_confident", ()), table, is_training),
        highest_loss=_with_ids(record.get("highest_loss", ()), table, is_training),
    )


def _with_ids(rows: Sequence[dict], table: PageRows, is_same: bool) -> list[dict[str, Any]]:
    """Return validation rows; with their identifiers if the table is the training table."""
    index = {table.number(n): n for n in range(table.n)}
    if not (is_same and all(row["row"] in index for row in rows)):
        return [{**row, "id": None, "of_data": False} for row in rows]
    return [{**row, **table.identifiers(index[row["row"]]), "of_data": True} for row in rows]


def evaluation_source(
    estimator: Any, table: PageRows, log_proba: NDArray, description: str
) -> dict[str, Any]:
    """Return the metrics of the model on the rows of the report."""
    assert table.y is not None
    classes = estimator.classes_
    codes = np.searchsorted(classes, table.y)
    P = np.exp(log_proba)
    P /= P.sum(axis=1, keepdims=True)
    losses, best = -log_proba[np.arange(table.n), codes], log_proba.argmax(axis=1)
    metrics = classification_metrics(codes, P, classes, predicted=best, losses=losses)
    return _source(
        title=table.name,
        whose=f"of {table.name}",
        on=table.name,
        description=description,
        metrics=metrics.to_json(),
        dispersion=1.0,
        baseline=_baseline(estimator, codes),
        bins=to_jsonable(reliability(codes, P)),
        least_confident=listed_rows(estimator, table, P, np.argsort(P.max(axis=1), kind="stable")),
        highest_loss=listed_rows(estimator, table, P, np.argsort(-losses, kind="stable")),
    )


def listed_rows(
    estimator: Any, table: PageRows, P: NDArray, order: NDArray
) -> list[dict[str, Any]]:
    """Return the first rows in the given order, with labels and predictions."""
    classes = [str(label) for label in estimator.classes_]
    best = P.argmax(axis=1)
    rows = []
    for n in order[:MAX_LISTED_ROWS].tolist():
        code = None if table.y is None else int(np.searchsorted(estimator.classes_, table.y[n]))
        rows.append(
            {
                **table.identifiers(n),
                "of_data": True,
                "label": None if code is None else classes[code],
                "predicted": classes[best[n]],
                "probability": float(P[n].max()),
                "own_probability": None if code is None else float(P[n, code]),
            }
        )
    return rows


def _baseline(estimator: Any, codes: NDArray) -> dict[str, Any]:
    """Return the metrics of a baseline that predicts the class frequencies in training."""
    classes = estimator.classes_
    counts = np.array(training_summary(estimator)["class_counts"])
    P = np.tile(counts / counts.sum(), (len(codes), 1))
    metrics = classification_metrics(codes, P, classes).to_json()
    names = ("accuracy", "balanced_accuracy", "log_loss")
    return {name: metrics[name] for name in names} | {
        "auc": 0.5,
        "label": str(classes[counts.argmax()]),
    }


def _source(metrics: dict, dispersion: float, **others: Any) -> dict[str, Any]:
    """Return a source of metrics with confidence intervals.

    The number of rows is divided by ``dispersion`` for the intervals.
    """
    classes = [
        {**one, "interval": wilson_interval(one["recall"], one["n_rows"] / dispersion)}
        for one in metrics["classes"]
    ]
    return {
        **others,
        "metrics": {
            **metrics,
            "classes": classes,
            "interval": wilson_interval(metrics["accuracy"], metrics["n_rows"] / dispersion),
        },
    }


def headline(
    sources: Sequence[dict[str, Any]],
    overlap: str,
    is_overlapping: bool,
    compare: Callable[[dict[str, Any]], tuple[bool, str]],
) -> dict[str, Any]:
    """Return the result, the title and the text of the comparison with the baseline on new rows.

    The first source is used. ``compare`` returns whether the model is significantly better
    according to a source, and the text. ``overlap`` and ``is_overlapping`` are the results of
    `training_overlap`.
    """
    if not sources:
        text = f"No validation is stored with the model. {overlap} {REMEDY}"
        return {"holds": None, "title": "Not measured on new rows", "text": text}
    is_better, text = compare(sources[0])
    title = "Not shown to be better than the baseline"
    if is_better:
        title = f"Better than the baseline on {sources[0]['on']}"
    text += f" {overlap}" if is_overlapping else ""
    return {"holds": is_better, "title": title, "text": text}


def compare_accuracy(source: dict[str, Any]) -> tuple[bool, str]:
    """Return whether the accuracy is significantly better than that of the baseline, and a text."""
    metrics, baseline = source["metrics"], source["baseline"]
    low, high = metrics["interval"]
    rows, accuracy = plural(metrics["n_rows"], "row"), percent(metrics["accuracy"])
    text = (
        f"The accuracy on {rows} {source['whose']} is {accuracy} (95 % confidence interval: "
        f"{percent(low)} to {percent(high)}). Always predicting {baseline['label']} has an "
        f"accuracy of {percent(baseline['accuracy'])}."
    )
    is_better = low > baseline["accuracy"]
    if not is_better and _is_auc_significant(metrics):
        text += f" The ROC AUC, {metrics['auc']:.3f}, is better than chance."
    return is_better, text


def _is_auc_significant(metrics: dict[str, Any]) -> bool:
    """Return whether the ROC AUC is significantly above 0.5."""
    areas = [(one["auc"], one["n_rows"]) for one in metrics["classes"] if one["auc"] is not None]
    if metrics["auc"] is None or not areas:
        return False
    return metrics["auc"] - Z_95 * mean_auc_error(areas, metrics["n_rows"]) > 0.5


def performance_on_new_rows(
    clf: Any, table: PageRows, log_proba: NDArray, is_training: bool
) -> dict[str, Any]:
    """Return the performance on new rows, from the given rows and the stored validation."""
    overlap, is_overlapping = training_overlap(clf, table, is_training, "true labels")
    validation = validation_source(clf, table, is_training)
    sources = [] if validation is None else [validation]
    if table.y is None:
        P = np.exp(log_proba)
        order = np.argsort(P.max(axis=1), kind="stable")
        evaluated = sources[0] if sources else None
        listed = {"least_confident": listed_rows(clf, table, P, order), "highest_loss": []}
    else:
        given = evaluation_source(clf, table, log_proba, overlap)
        if not is_training:
            sources.insert(0, given)
        evaluated = sources[0] if sources else given
        listed = evaluated if evaluated["least_confident"] else given
    bins = None if evaluated is None else evaluated["bins"]
    return {
        "headline": headline(sources, overlap, is_overlapping, compare_accuracy),
        "where": overlap,
        "sources": sources,
        "evaluated": None if evaluated is None else {"is_new": bool(sources), **evaluated},
        "listed": listed,
        "reliability": None if bins is None else reliability_figure(bins),
    }
