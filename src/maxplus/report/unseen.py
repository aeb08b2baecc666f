"""How well a classifier does on rows that it was not trained on, as far as that is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxplus.metrics import judge_classifier, plain, reliability
from maxplus.report._text import percent, plural
from maxplus.report.asked import Asked

# Rows of each kind that the page names.
N_NAMED = 25
# A share is within so many standard errors of the one that is counted, 95 times of 100.
ERRORS = 1.96
REMEDY = "Train with maxplus train, or give rows that were not used in training."


def unseen_rows(estimator: Any, prints: NDArray) -> NDArray | None:
    """Which rows, by their fingerprints, the estimator was not trained on; None: it cannot say."""
    known = getattr(estimator, "training_rows_", None)
    return None if known is None else ~np.isin(prints, known)


def training_order(estimator: Any, asked: Asked) -> bool:
    """Whether the rows are the training rows, one by one."""
    known = getattr(estimator, "training_rows_", None)
    return known is not None and np.array_equal(asked.prints, known)


def which_are_new(asked: Asked, is_new: NDArray | None) -> str:
    """How many of the page's rows were not used in training, in a sentence."""
    n, rows = len(asked.y), f"{plural(len(asked.y), 'row')} of {asked.name}"
    if is_new is None:
        return f"Whether rows of {asked.name} were used in training is not known to this model."
    new = int(is_new.sum())
    if new == 0:
        return f"All {rows} were used in training."
    if new == n:
        return f"None of the {rows} were used in training."
    return f"{new:,} of the {rows} were not used in training."


def interval(share: float | None, n: int) -> tuple[float, float] | None:
    """Wilson's 95 % interval of a share that was counted on n rows."""
    if share is None or not n:
        return None
    z2 = ERRORS**2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = ERRORS / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def of_validation(estimator: Any, asked: Asked) -> dict[str, Any] | None:
    """What the validation in training found; None if there was none."""
    record = getattr(estimator, "validation_", None)
    if record is None:
        return None
    same = training_order(estimator, asked)
    preparation = getattr(estimator, "preparation_", None)
    data = "the training data" if preparation is None else PurePath(preparation.data).name
    return _source(
        title=record["how"],
        words=f"each of these rows of {data} was judged by a model that was trained without it; "
        "the model of this page was trained on all of them.",
        figures=record["figures"],
        guess=record["guess"],
        bins=record.get("reliability"),
        least_sure=_renamed(record.get("least_sure", ()), asked, same),
        most_surprising=_renamed(record.get("most_surprising", ()), asked, same),
    )


def _renamed(rows: Sequence[dict], asked: Asked, same: bool) -> list[dict[str, Any]]:
    """Rows of a validation, by the names that they have where the page shows the same table."""
    place = {asked.number(n): n for n in range(len(asked.y))}
    if not (same and all(row["row"] in place for row in rows)):
        return [{**row, "id": None, "of_data": False} for row in rows]
    return [{**row, **asked.name_of(place[row["row"]]), "of_data": True} for row in rows]


def of_rows(
    estimator: Any, asked: Asked, log_proba: NDArray, rows: NDArray, words: str
) -> dict[str, Any]:
    """The model itself on some of the rows that the page is about."""
    classes = estimator.classes_
    codes = np.searchsorted(classes, asked.y[rows])
    logs = log_proba[rows]
    P = np.exp(logs)
    P /= P.sum(axis=1, keepdims=True)
    losses, best = -logs[np.arange(len(rows)), codes], logs.argmax(axis=1)
    figures = judge_classifier(codes, P, classes, predicted=best, losses=losses)

    def named(order: NDArray) -> list[dict[str, Any]]:
        return [
            {
                **asked.name_of(int(rows[k])), "of_data": True, "label": str(classes[codes[k]]),
                "predicted": str(classes[best[k]]), "probability": float(P[k].max()),
                "own_probability": float(np.exp(-losses[k])),
            }
            for k in order[:N_NAMED]
        ]  # fmt: skip

    return _source(
        title=asked.name,
        words=words,
        figures=figures.to_json(),
        guess=_guess(estimator, codes),
        bins=plain(reliability(codes, P)),
        least_sure=named(np.argsort(P.max(axis=1), kind="stable")),
        most_surprising=named(np.argsort(-losses, kind="stable")),
    )


def _guess(estimator: Any, codes: NDArray) -> dict[str, Any]:
    """Figures of the training rows' frequencies, which know no feature."""
    classes = estimator.classes_
    counts = (estimator.training_labels_[:, None] == classes).sum(axis=0)
    P = np.tile(counts / counts.sum(), (len(codes), 1))
    found = judge_classifier(codes, P, classes).to_json()
    names = ("accuracy", "balanced_accuracy", "log_loss")
    return {name: found[name] for name in names} | {
        "auc": 0.5, "label": str(classes[counts.argmax()])
    }  # fmt: skip


def _source(figures: dict, bins: Any, **others: Any) -> dict[str, Any]:
    """With intervals beside what was counted."""
    classes = [
        {**one, "interval": interval(one["recall"], one["n_rows"])} for one in figures["classes"]
    ]
    return {
        **others, "bins": bins,
        "figures": {
            **figures, "classes": classes,
            "interval": interval(figures["accuracy"], figures["n_rows"]),
        },
    }  # fmt: skip


def headline(source: dict[str, Any] | None, where: str) -> dict[str, Any]:
    """The one thing to know first: whether it is better than a guess on rows it has not seen."""
    if source is None:
        text = f"No validation is kept with the model. {where} {REMEDY}"
        return {"holds": None, "words": "Not measured on new rows", "text": text}
    figures, guess = source["figures"], source["guess"]
    low, high = figures["interval"]
    rows, right = plural(figures["n_rows"], "row"), percent(figures["accuracy"])
    text = (
        f"Of {rows} that it had not seen, {right} were right (95 % interval: {percent(low)} to "
        f"{percent(high)}). Always guessing {guess['label']} would have been right for "
        f"{percent(guess['accuracy'])}."
    )
    if low > guess["accuracy"]:
        return {"holds": True, "words": "Better than guessing on new rows", "text": text}
    if figures["auc"] is not None and figures["auc"] > 0.5:
        text += (
            f" It does rank rows: the area under the curve is {figures['auc']:.3f}; chance is 0.5."
        )
    return {"holds": False, "words": "Not shown to be better than guessing", "text": text}
