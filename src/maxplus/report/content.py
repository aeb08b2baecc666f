"""Content of the page about a fitted classifier, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.certify import CertifiedRows
from maxplus.estimators._base import is_training_table, training_summary
from maxplus.estimators._lmm import BaseLMMClassifier
from maxplus.explain import Domain, nearest_counterfactuals, unit_boxes
from maxplus.explain.counterfactuals import CounterfactualText, missing_columns
from maxplus.explain.domain import held_columns
from maxplus.models import LMM, LOG2, AdditiveLMM
from maxplus.report import figures, model, unseen
from maxplus.report._text import percent, plural
from maxplus.report.data import MOST_COUNTED, PageRows, editable_columns
from maxplus.report.explanations import MOST_DRAWN, Decisions, shape_drawings
from maxplus.report.model import MOST_WEIGHTS, model_data, n_weights

# The explorer holds this many rows at most: those that the page names, the worst, half of all, and
# others spread evenly.
MAX_ROWS = 200
N_RULES = 8
CURVE_POINTS = 41
# The size of changes that sentences are about.
SMALL = 0.1


def report_content(
    clf: BaseLMMClassifier,
    X: NDArray,
    y: NDArray | None,
    *,
    name: str,
    row_numbers: Sequence[int] | None = None,
    ids: Sequence[str] | None = None,
    missing: NDArray | None = None,
    feature_names: Sequence[str] | None = None,
    image_shape: tuple[int, int] | None = None,
    low: ArrayLike | None = None,
    high: ArrayLike | None = None,
    scale: ArrayLike | None = None,
    unit: str = "the features' own units",
) -> dict[str, Any]:
    """Return everything `render_page` shows, for a fitted classifier on rows, labelled or not.

    Labelled rows are test data, and lead the page, unless they are the training rows: then a
    validation does, if the classifier has one. Without labels there are predictions, certificates
    and explanations, and no figures of these rows.

    Parameters
    ----------
    clf : fitted LMMClassifier, LMMEnsembleClassifier or SubgradientLMMClassifier
    X, y : rows and their true labels, or None
    name : what the data are called
    row_numbers, ids : what people call the rows: 1, 2, … by default, and no further name
    missing : which columns each row lacked, (N, columns) of bool
    feature_names : words for the features
    image_shape : (height, width) if a row is an image
    low, high : what features can be, as in `maxplus.LMMClassifier.explain`
    scale : how far each feature moves for a radius of 1, as in
        `maxplus.LMMClassifier.certified_radius`
    unit : what that is called

    Returns
    -------
    dict
        Plain JSON types.

    Examples
    --------
    >>> from maxplus.report import render_page, report_content
    >>> from sklearn.datasets import load_iris
    >>> from maxplus import LMMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = LMMClassifier(6, slope=4.0, warmup_epochs=2, random_state=0).fit(X, y)
    >>> page = render_page(report_content(clf, X[::5], y[::5], name="iris"))
    >>> "</html>" in page
    True
    """
    asked = PageRows(X, None if y is None else np.asarray(y), name, row_numbers, ids, missing)
    log_proba, predicted = clf.predict_log_proba(X), clf.predict(X)
    radius = clf.certified_radius(X, scale)
    words, n = list(clf._domain(feature_names=feature_names).names), asked.n
    is_image = image_shape is not None
    right = None if asked.y is None else predicted == asked.y
    # Without labels, rows are surprising where no class is probable.
    judged = log_proba.argmax(axis=1) if asked.y is None else np.searchsorted(clf.classes_, asked.y)
    losses = -log_proba[np.arange(n), judged]
    is_training = asked.y is not None and is_training_table(clf, losses)
    factors = np.ones(len(words)) if scale is None else np.asarray(scale, float)
    performance = unseen.performance(clf, asked, log_proba, is_training)
    shown = _choose(_named_places(asked, performance["named"]), losses, asked)
    shown_X = X[shown]
    domain = clf._domain(None, words)
    means = clf.term_means_ if isinstance(clf.model_, AdditiveLMM) else None
    decisions = Decisions(clf.model_, shown_X, words, domain, means)
    flips = _flips(clf, asked, shown, domain.within(low, high))
    some = None if is_image else asked.some(MOST_COUNTED)
    counted = X[:0] if some is None else X[some]
    return {
        **model.about_page(clf, asked.name),
        "task": "classification",
        "model": model.about_model(clf),
        "data": {"name": asked.name, "n_rows": n, "n_shown": len(shown)},
        **performance,
        "predicted": None if asked.y is not None else _predicted(clf, predicted),
        "fit": _fit(clf, right if is_training else None),
        "importances": None if is_image else model.importances(clf, counted, words),
        "rules": None
        if some is None or asked.y is None
        else _rules(clf, counted, asked.y[some], words),
        "shapes": shape_drawings(
            clf.model_, counted[:MOST_DRAWN], means, domain, list(clf.classes_)
        )
        if isinstance(clf.model_, AdditiveLMM) and means is not None and some is not None
        else None,
        "search": model.search(clf),
        "certified": certified(
            right, radius, _whose(asked, is_training), factors, unit, model.columns_of(clf, words)
        ),
        "training": figures.training_figures(clf),
        "certificate": training_certificate(clf),
        "features": words,
        "labels": [str(label) for label in clf.classes_],
        "image_shape": None if image_shape is None else list(image_shape),
        "radius_unit": unit,
        "rows": _rows(clf, asked, shown, decisions, radius, flips),
        "units": _units(X, decisions) if is_image else {},
        "contributions": decisions.groups(),
        **_what_if(clf, words, factors, image_shape),
    }


def _choose(named: list[int], losses: NDArray, asked: PageRows) -> NDArray:
    """Return rows for the explorer: those named, the worst, and others at even distances."""
    if len(losses) <= MAX_ROWS:
        return np.arange(len(losses))
    worst = np.argsort(-losses, kind="stable")[: MAX_ROWS // 2]
    first = np.union1d(np.array(named, int), worst)
    return np.union1d(first, asked.some(MAX_ROWS - len(first)))


def _named_places(asked: PageRows, named: dict[str, Any]) -> list[int]:
    """Return the indices of rows that the page names, to which its links lead."""
    numbers = {
        row["row"]
        for kind in ("least_sure", "most_surprising")
        for row in named[kind]
        if row["of_data"]
    }
    return [n for n in range(asked.n) if asked.number(n) in numbers]


def _predicted(clf: BaseLMMClassifier, predicted: NDArray) -> list[dict[str, Any]]:
    """Return how often each class is predicted."""
    return [
        {
            "label": str(label),
            "rows": int((predicted == label).sum()),
            "share": float((predicted == label).mean()),
        }
        for label in clf.classes_
    ]


def _whose(asked: PageRows, is_training: bool) -> str:
    rows = f"the {plural(asked.n, 'row')} of {asked.name}"
    return f"{rows}, which the model was trained on" if is_training else rows


def _fit(clf: BaseLMMClassifier, right: NDArray | None) -> dict[str, Any]:
    """Return how many training rows are right, counted where they are here, else a bound."""
    if right is not None:
        return {"right": int(right.sum()), "rows": len(right), "exact": True}
    # Of two classes the one with more than half is the predicted one, and the other is wrong.
    summary = training_summary(clf)
    return {
        "right": summary["n_below_log2"],
        "rows": summary["n_rows"],
        "exact": len(clf.classes_) == 2,
    }


def _rules(clf: BaseLMMClassifier, X: NDArray, y: NDArray, words: Sequence[str]) -> dict[str, Any]:
    """Return the boxes as rules, counted on these rows."""
    found = clf.rules(X, y, N_RULES, feature_names=words)
    return {
        "n_rows": found.n_rows,
        "rules": [
            {
                "conditions": [condition.text for condition in rule.conditions],
                "class": rule.label,
                "rows": rule.rows,
                "right": rule.right,
                "unit": rule.unit,
            }
            for rule in found
        ],
    }


def _rows(
    clf: BaseLMMClassifier,
    asked: PageRows,
    shown: NDArray,
    decisions: Decisions,
    radius: NDArray,
    flips: list[dict[str, Any] | None],
) -> list[dict[str, Any]]:
    """Return the rows of the explorer."""
    labels = [str(label) for label in clf.classes_]
    rows = []
    for k, n in enumerate(shown.tolist()):
        classes = decisions.classes(k, labels)
        rows.append(
            {
                **asked.name_of(n),
                "label": None if asked.y is None else str(asked.y[n]),
                "predicted": classes[0]["class"],
                "radius": float(radius[n]),
                "values": asked.X[n].astype(float).tolist(),
                "missing": asked.lacks(n),
                "classes": classes,
                "flip": flips[k],
                "reasons": decisions.reasons(k, labels),
            }
        )
    return rows


def _flips(
    clf: BaseLMMClassifier, asked: PageRows, shown: NDArray, domain: Domain
) -> list[dict[str, Any] | None]:
    """Return the smallest change of one column that flips each row, None where none does."""
    X = asked.X[shown]
    lacked = None if asked.missing is None else asked.missing[shown]
    found = CounterfactualText(
        X,
        nearest_counterfactuals(clf.model_, X, domain),
        domain,
        [str(label) for label in clf.classes_],
        missing_columns(lacked, len(X), domain),
    )
    return [
        {
            "column": found.column(k),
            "from": found.before(k),
            "to": found.after(k),
            "becomes": found.becomes(k),
        }
        if found.column(k)
        else None
        for k in range(len(X))
    ]


def _units(X: NDArray, decisions: Decisions) -> dict[str, list[float]]:
    """Return the centres of the units that decided, to be drawn as pictures."""
    if decisions.paths is None or not isinstance(decisions.model, LMM):
        return {}  # no single unit decides a sum
    low, high = float(X.min()), float(X.max())
    centre = unit_boxes(decisions.model).centre
    pictures = np.clip(np.nan_to_num(centre, nan=low), low, high)
    return {
        str(unit): [float(f"{v:.3g}") for v in pictures[unit]]
        for unit in np.unique(decisions.paths.unit)
    }


def _what_if(
    clf: BaseLMMClassifier,
    words: Sequence[str],
    scale: NDArray,
    image_shape: tuple[int, int] | None,
) -> dict[str, Any]:
    """Return the model and the columns to edit, or why nothing can be edited."""
    weights = n_weights(clf.model_)
    why_not = None
    if image_shape is not None:
        why_not = "Values are pixels here, which cannot be edited one by one."
    elif weights > MOST_WEIGHTS:
        why_not = (
            f"The model has {weights:,} weights, too many for this page to compute with: values "
            "cannot be edited here. In Python, change a row and ask explain and certified_radius."
        )
    if why_not is not None:
        return {"network": None, "columns": [], "why_not": why_not}
    return {
        "network": model_data(clf.model_, scale),
        "columns": editable_columns(getattr(clf, "encoder_", None), words),
        "why_not": None,
    }


def certified(
    right: NDArray | None,
    radius: NDArray,
    whose: str,
    scale: NDArray,
    unit: str,
    columns: Sequence[str],
) -> dict[str, Any]:
    """Return how many rows are right and stay so, for changes of all sizes.

    Without labels, how many keep their class.

    Parameters
    ----------
    right, radius : whether each row is, None if there are no labels, and how far it may move
    whose : which rows these are, in words
    scale, unit : how far each feature moves for a radius of 1, and what that is called
    columns : the column that each feature is made of
    """
    n = len(radius)
    has_labels = right is not None
    counted = np.ones(n, bool) if right is None else right
    own = radius[counted]
    eps = np.linspace(0.0, _reach(own), CURVE_POINTS)
    held = held_columns(columns, scale)
    kept = int((own >= SMALL).sum())
    return {
        "whose": whose,
        "has_labels": has_labels,
        "n_rows": n,
        "eps": eps.tolist(),
        "accuracy": [float((own >= e).sum() / n) for e in eps],
        "small": SMALL,
        "kept": kept,
        "share": percent(kept / n),
        "median_radius": CertifiedRows.of(radius, counted).median,
        "unit": unit,
        "held": held,
        "n_moving": len(dict.fromkeys(columns)) - len(held),
        "figure": figures.certified_figure(radius, counted, unit) if has_labels else None,
    }


def _reach(radius: NDArray) -> float:
    finite = radius[np.isfinite(radius)]
    return float(finite.max()) if finite.size and finite.max() > 0 else 1.0


def training_certificate(estimator: Any) -> dict[str, Any]:
    """Return the largest training loss, and what follows of it for the training rows."""
    summary = training_summary(estimator)
    n = summary["n_rows"]
    if estimator.perfect_fit_:
        text = f"So every one of the {plural(n, 'training row')} is right: this is a proof."
    else:
        below = summary["n_below_log2"]
        text = (
            f"{below:,} of the {plural(n, 'training row')} are below log 2 and right for certain."
        )
    return {
        "max_loss": estimator.max_loss_,
        "threshold": LOG2,
        "text": text,
        "holds": estimator.perfect_fit_,
    }
