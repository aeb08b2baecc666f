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
from maxplus.metrics import robust_errors, to_jsonable
from maxplus.models import LMM, LOG2, AdditiveLMM
from maxplus.report import figures, model
from maxplus.report._text import percent, plural
from maxplus.report.data import MAX_COUNTED, PageRows, editable_columns
from maxplus.report.explanations import Decisions
from maxplus.report.model import MAX_WEIGHTS, model_data, n_weights
from maxplus.report.performance import performance_on_new_rows

# Maximum number of rows in the explorer: the rows listed on the page, the rows with the highest
# loss (half of the maximum), and evenly spaced rows.
MAX_ROWS = 200
N_RULES = 8
CURVE_POINTS = 41
# Maximum number of rows whose distribution is drawn.
MAX_DRAWN = 2_000
# Radius for which the text states the certified accuracy.
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
    unit: str = "raw units",
) -> dict[str, Any]:
    """Return the content of the page about a fitted classifier, for `render_page`.

    Labelled rows other than the training rows are treated as test data, and their metrics come
    first. For the training rows, the stored validation comes first, if there is one. Without labels
    the page shows predictions, certified radii and explanations, but no metrics.

    Parameters
    ----------
    clf : fitted LMMClassifier, LMMEnsembleClassifier or SubgradientLMMClassifier
    X, y : rows and their true labels, or None
    name : name of the data
    row_numbers, ids : row numbers, 1, 2, … by default, and identifiers, none by default
    missing : bool array of shape (N, number of columns), the missing values
    feature_names : names of the features
    image_shape : (height, width) if a row is an image
    low, high : limits of the features, as in `maxplus.LMMClassifier.explain`
    scale : change of each feature for a radius of 1, as in
        `maxplus.LMMClassifier.certified_radius`
    unit : unit of the radius, as text

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
    table = PageRows(X, None if y is None else np.asarray(y), name, row_numbers, ids, missing)
    log_proba, predicted = clf.predict_log_proba(X), clf.predict(X)
    radius = clf.certified_radius(X, scale)
    names, n = list(clf._domain(feature_names=feature_names).names), table.n
    is_image = image_shape is not None
    right = None if table.y is None else predicted == table.y
    # Without labels, the loss is that of the predicted class.
    codes = log_proba.argmax(axis=1) if table.y is None else np.searchsorted(clf.classes_, table.y)
    losses = -log_proba[np.arange(n), codes]
    is_training = table.y is not None and is_training_table(clf, losses)
    factors = np.ones(len(names)) if scale is None else np.asarray(scale, float)
    performance = performance_on_new_rows(clf, table, log_proba, is_training)
    shown = _choose(_named_places(table, performance["named"]), losses, table)
    shown_X = X[shown]
    domain = clf._domain(None, names)
    means = clf.term_means_ if isinstance(clf.model_, AdditiveLMM) else None
    decisions = Decisions(clf.model_, shown_X, names, domain, means)
    flips = _flips(clf, table, shown, domain.within(low, high))
    sampled = None if is_image else table.sample(MAX_COUNTED)
    counted = X[:0] if sampled is None else X[sampled]
    return {
        **model.about_page(clf, table.name),
        "task": "classification",
        "model": model.about_model(clf),
        "data": {"name": table.name, "n_rows": n, "n_shown": len(shown)},
        **performance,
        "predicted": None if table.y is not None else _predicted(clf, predicted),
        "fit": _fit(clf, right if is_training else None),
        "importances": None if is_image else model.importances(clf, counted, names),
        "rules": None
        if sampled is None or table.y is None
        else _rules(clf, counted, table.y[sampled], names),
        "shapes": figures.shapes_figure(
            clf.model_, counted[:MAX_DRAWN], means, domain, [str(label) for label in clf.classes_]
        )
        if isinstance(clf.model_, AdditiveLMM) and means is not None and sampled is not None
        else None,
        "search": model.search(clf),
        "certified": {
            **certified(
                right,
                radius,
                _whose(table, is_training),
                factors,
                unit,
                model.columns_of(clf, names),
            ),
            "robust": _robust(clf, table),
        },
        "training": figures.training_figures(clf),
        "certificate": training_certificate(clf),
        "features": names,
        "labels": [str(label) for label in clf.classes_],
        "image_shape": None if image_shape is None else list(image_shape),
        "radius_unit": unit,
        "rows": _rows(clf, table, shown, decisions, radius, flips),
        "units": _units(X, decisions) if is_image else {},
        "contributions": decisions.groups(),
        **_what_if(clf, names, factors, image_shape),
    }


def _choose(named: list[int], losses: NDArray, table: PageRows) -> NDArray:
    """Return row indices for the explorer: listed rows, highest losses, evenly spaced rows."""
    if len(losses) <= MAX_ROWS:
        return np.arange(len(losses))
    worst = np.argsort(-losses, kind="stable")[: MAX_ROWS // 2]
    first = np.union1d(np.array(named, int), worst)
    return np.union1d(first, table.sample(MAX_ROWS - len(first)))


def _named_places(table: PageRows, named: dict[str, Any]) -> list[int]:
    """Return the indices of the rows listed on the page, which link to the explorer."""
    numbers = {
        row["row"]
        for kind in ("least_confident", "highest_loss")
        for row in named[kind]
        if row["of_data"]
    }
    return [n for n in range(table.n) if table.number(n) in numbers]


def _predicted(clf: BaseLMMClassifier, predicted: NDArray) -> list[dict[str, Any]]:
    """Return the count and share of each predicted class."""
    return [
        {
            "label": str(label),
            "rows": int((predicted == label).sum()),
            "share": float((predicted == label).mean()),
        }
        for label in clf.classes_
    ]


def _whose(table: PageRows, is_training: bool) -> str:
    rows = f"the {plural(table.n, 'row')} of {table.name}"
    return f"{rows}, which the model was trained on" if is_training else rows


def _fit(clf: BaseLMMClassifier, right: NDArray | None) -> dict[str, Any]:
    """Return the number of correct training rows: a count if ``right`` is given, else a bound."""
    if right is not None:
        return {"right": int(right.sum()), "rows": len(right), "exact": True}
    # For two classes the bound is exact: a loss below log 2 means a probability above 0.5.
    summary = training_summary(clf)
    return {
        "right": summary["n_below_log2"],
        "rows": summary["n_rows"],
        "exact": len(clf.classes_) == 2,
    }


def _rules(clf: BaseLMMClassifier, X: NDArray, y: NDArray, names: Sequence[str]) -> dict[str, Any]:
    """Return the rules of the model, with coverage and precision on ``X`` and ``y``."""
    found = clf.rules(X, y, N_RULES, feature_names=names)
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
    table: PageRows,
    shown: NDArray,
    decisions: Decisions,
    radius: NDArray,
    flips: list[dict[str, Any] | None],
) -> list[dict[str, Any]]:
    """Return the data of each row in the explorer."""
    labels = [str(label) for label in clf.classes_]
    rows = []
    for k, n in enumerate(shown.tolist()):
        classes = decisions.classes(k, labels)
        rows.append(
            {
                **table.name_of(n),
                "label": None if table.y is None else str(table.y[n]),
                "predicted": classes[0]["class"],
                "radius": float(radius[n]),
                "values": table.X[n].astype(float).tolist(),
                "missing": table.lacks(n),
                "classes": classes,
                "flip": flips[k],
                "reasons": decisions.reasons(k, labels),
            }
        )
    return rows


def _flips(
    clf: BaseLMMClassifier, table: PageRows, shown: NDArray, domain: Domain
) -> list[dict[str, Any] | None]:
    """Return the nearest one-column counterfactual of each row, or None."""
    X = table.X[shown]
    lacked = None if table.missing is None else table.missing[shown]
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
    """Return the centres of the active units, which are drawn as images."""
    if decisions.paths is None or not isinstance(decisions.model, LMM):
        return {}  # Scores of an additive model depend on several units.
    low, high = float(X.min()), float(X.max())
    centre = unit_boxes(decisions.model).centre
    pictures = np.clip(np.nan_to_num(centre, nan=low), low, high)
    return {
        str(unit): [float(f"{v:.3g}") for v in pictures[unit]]
        for unit in np.unique(decisions.paths.unit)
    }


def _what_if(
    clf: BaseLMMClassifier,
    names: Sequence[str],
    scale: NDArray,
    image_shape: tuple[int, int] | None,
) -> dict[str, Any]:
    """Return the model and the editable columns, or the reason why editing is disabled."""
    weights = n_weights(clf.model_)
    why_not = None
    if image_shape is not None:
        why_not = "Values are pixels here, which cannot be edited one by one."
    elif weights > MAX_WEIGHTS:
        why_not = (
            f"The model has {weights:,} weights, too many for this page to compute with: values "
            "cannot be edited here. In Python, change a row and call explain and certified_radius."
        )
    if why_not is not None:
        return {"network": None, "columns": [], "why_not": why_not}
    return {
        "network": model_data(clf.model_, scale),
        "columns": editable_columns(getattr(clf, "encoder_", None), names),
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
    """Return the certified accuracy as a function of the radius.

    Without labels, return the share of rows whose prediction is certified.

    Parameters
    ----------
    right, radius : whether each prediction is correct (or None), and the certified radii
    whose : description of the rows
    scale, unit : change of each feature for a radius of 1, and the unit of the radius
    columns : the column from which each feature is derived
    """
    n = len(radius)
    has_labels = right is not None
    counted = np.ones(n, bool) if right is None else right
    radii = radius[counted]
    eps = np.linspace(0.0, _max_radius(radii), CURVE_POINTS)
    held = held_columns(columns, scale)
    kept = int((radii >= SMALL).sum())
    return {
        "whose": whose,
        "has_labels": has_labels,
        "n_rows": n,
        "eps": eps.tolist(),
        "accuracy": [float((radii >= e).sum() / n) for e in eps],
        "small": SMALL,
        "kept": kept,
        "share": percent(kept / n),
        "median_radius": CertifiedRows.of(radius, counted).median,
        "unit": unit,
        "held": held,
        "n_moving": len(dict.fromkeys(columns)) - len(held),
        "figure": figures.certified_figure(radius, counted, unit) if has_labels else None,
    }


def _robust(clf: BaseLMMClassifier, table: PageRows) -> dict[str, Any] | None:
    """Return error rates within ``robust_eps``, if the model was trained with it."""
    if table.y is None or not table.n or not hasattr(clf, "robust_reach_"):
        return None
    return to_jsonable(robust_errors(clf, table.X, table.y))


def _max_radius(radius: NDArray) -> float:
    finite = radius[np.isfinite(radius)]
    return float(finite.max()) if finite.size and finite.max() > 0 else 1.0


def training_certificate(estimator: Any) -> dict[str, Any]:
    """Return the maximum training loss and the statement that it proves."""
    summary = training_summary(estimator)
    n = summary["n_rows"]
    if estimator.perfect_fit_:
        text = f"This proves that the predictions of all {plural(n, 'training row')} are correct."
    else:
        below = summary["n_below_log2"]
        text = f"{below:,} of the {plural(n, 'training row')} are below log 2 and provably correct."
    return {
        "max_loss": estimator.max_loss_,
        "threshold": LOG2,
        "text": text,
        "holds": estimator.perfect_fit_,
    }
