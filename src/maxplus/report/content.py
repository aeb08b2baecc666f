"""Content of the report of a fitted classifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.certify import CertifiedRows
from maxplus.estimators._base import is_training_table, training_summary
from maxplus.estimators._lmm import BaseLMMClassifier
from maxplus.explain.domain import fixed_columns
from maxplus.metrics import robust_errors, to_jsonable
from maxplus.models import LOG2
from maxplus.report import figures, model
from maxplus.report._text import percent, plural
from maxplus.report.data import MAX_SAMPLED_ROWS, PageRows, column_of_features, editable_columns
from maxplus.report.explanations import contribution_groups, explorer_rows, unit_images
from maxplus.report.model import MAX_WEIGHTS, model_data, n_weights
from maxplus.report.performance import performance_on_new_rows

# Maximum number of rows in the explorer.
MAX_EXPLORER_ROWS = 200
N_RULES = 8
CURVE_POINTS = 41
# Maximum number of rows for the distributions in figures.
MAX_PLOTTED_ROWS = 2_000
# Radius for which the text states the certified accuracy.
SMALL_RADIUS = 0.1


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
    """Return the content of the report of a fitted classifier, for `render_page`.

    Labelled rows are treated as test data, unless they are the training rows. The stored validation
    is included if it is available. Without labels, the report contains predictions, certified radii
    and explanations, but no metrics on these rows.

    Parameters
    ----------
    clf : fitted LMMClassifier, LMMEnsembleClassifier or SubgradientLMMClassifier
    X : array of shape (N, P), the rows
    y : array of shape (N,), the true labels, or None
    name : name of the data
    row_numbers : N row numbers, optional; 1, 2, … by default
    ids : N identifiers of the rows, optional
    missing : bool array of shape (N, number of columns), optional
        Mask of missing values.
    feature_names : P strings, optional; those of the encoder or of the training data by default
    image_shape : (height, width) if a row is an image, optional
    low, high : limits of the features, as in `maxplus.LMMClassifier.explain`, optional
    scale : change of each feature for a radius of 1, as in
        `maxplus.LMMClassifier.certified_radius`, optional
    unit : str, default="raw units"
        Unit of the radius in texts.

    Returns
    -------
    dict
        Content as dicts, lists, numbers and strings.

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
    domain = clf._domain(None, feature_names)
    names, n = list(domain.names), table.n
    is_image = image_shape is not None
    correct = None if table.y is None else predicted == table.y
    # Without labels, use the loss of the predicted class.
    codes = log_proba.argmax(axis=1) if table.y is None else np.searchsorted(clf.classes_, table.y)
    losses = -log_proba[np.arange(n), codes]
    is_training = table.y is not None and is_training_table(clf, losses)
    factors = np.ones(len(names)) if scale is None else np.asarray(scale, float)
    performance = performance_on_new_rows(clf, table, log_proba, is_training)
    listed = _listed_rows(table, performance["listed"])
    shown = _select_explorer_rows(listed, losses, table)
    explanation = clf.explain(
        X[shown],
        domain=domain,
        low=low,
        high=high,
        missing=None if missing is None else missing[shown],
    )
    is_sum = clf.model_.is_sum
    sample = None if is_image else table.evenly_spaced(MAX_SAMPLED_ROWS)
    X_sample = X[:0] if sample is None else X[sample]
    return {
        **model.about_page(clf, table.name),
        "task": "classification",
        "model": model.about_model(clf),
        "data": {"name": table.name, "n_rows": n, "n_shown": len(shown)},
        **performance,
        "predicted": None if table.y is not None else _predicted(clf, predicted),
        "fit": _fit(clf, correct if is_training else None),
        "importances": None if is_image else model.importances(clf, X_sample, names),
        "rules": None
        if sample is None or table.y is None
        else _rules(clf, X_sample, table.y[sample], names),
        "shapes": figures.shapes_figure(clf, X_sample[:MAX_PLOTTED_ROWS], domain)
        if is_sum and not is_image
        else None,
        "search": figures.search_figure(clf),
        "certified": {
            **_certified(correct, radius, factors, unit, column_of_features(clf, names)),
            "whose": f"the {plural(n, 'row')} of {table.name}"
            + (", which the model was trained on" if is_training else ""),
            "robust": _robust(clf, table),
        },
        "training": figures.training_figures(clf),
        "certificate": training_certificate(clf),
        "features": names,
        "labels": list(explanation.class_names),
        "image_shape": None if image_shape is None else list(image_shape),
        "radius_unit": unit,
        "rows": explorer_rows(explanation, table, shown, radius),
        "units": unit_images(explanation, X) if is_image else {},
        "contributions": contribution_groups(explanation, clf.term_means_) if is_sum else None,
        **_what_if(clf, names, factors, image_shape),
    }


def _select_explorer_rows(listed: list[int], losses: NDArray, table: PageRows) -> NDArray:
    """Select rows for the explorer: listed rows, rows with a high loss, and evenly spaced rows."""
    if len(losses) <= MAX_EXPLORER_ROWS:
        return np.arange(len(losses))
    worst = np.argsort(-losses, kind="stable")[: MAX_EXPLORER_ROWS // 2]
    first = np.union1d(np.array(listed, int), worst)
    return np.union1d(first, table.evenly_spaced(MAX_EXPLORER_ROWS - len(first)))


def _listed_rows(table: PageRows, listed: dict[str, Any]) -> list[int]:
    """Return the indices of the rows listed on the page, which link to the explorer."""
    rows = (*listed["least_confident"], *listed["highest_loss"])
    numbers = {row["row"] for row in rows if row["of_data"]}
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


def _fit(clf: BaseLMMClassifier, correct: NDArray | None) -> dict[str, Any]:
    """Return the number of correct training predictions, or a lower bound of it.

    ``correct`` is the mask of correct predictions of the training rows, or None if the rows of the
    report are other rows.
    """
    if correct is not None:
        return {"correct": int(correct.sum()), "rows": len(correct), "exact": True}
    # If the loss is below log 2, the probability of the label is above 0.5. For two classes, the
    # converse is also true, so that the bound is exact.
    summary = training_summary(clf)
    return {
        "correct": summary["n_below_log2"],
        "rows": summary["n_rows"],
        "exact": len(clf.classes_) == 2,
    }


def _rules(clf: BaseLMMClassifier, X: NDArray, y: NDArray, names: Sequence[str]) -> dict[str, Any]:
    """Return the rules of the model, with the numbers of rows and of correct rows of ``X``."""
    rules = clf.rules(X, y, N_RULES, feature_names=names)
    return {
        "n_rows": rules.n_rows,
        "rules": [
            {
                "conditions": [condition.text for condition in rule.conditions],
                "class": rule.label,
                "rows": rule.n_rows,
                "correct": rule.n_correct,
                "unit": rule.unit,
            }
            for rule in rules
        ],
    }


def _what_if(
    clf: BaseLMMClassifier,
    names: Sequence[str],
    scale: NDArray,
    image_shape: tuple[int, int] | None,
) -> dict[str, Any]:
    """Return the model and the editable columns, or the reason why editing is disabled."""
    weights = n_weights(clf.model_)
    reason = None
    if image_shape is not None:
        reason = "Values are pixels here, which cannot be edited one by one."
    elif weights > MAX_WEIGHTS:
        reason = (
            f"The model has {weights:,} weights, too many for this page to compute with: values "
            "cannot be edited here. In Python, change a row and call explain and certified_radius."
        )
    if reason is not None:
        return {"network": None, "columns": [], "disabled_reason": reason}
    return {
        "network": model_data(clf.model_, scale),
        "columns": editable_columns(getattr(clf, "encoder_", None), names),
        "disabled_reason": None,
    }


def _certified(
    correct: NDArray | None, radius: NDArray, scale: NDArray, unit: str, columns: Sequence[str]
) -> dict[str, Any]:
    """Return the certified accuracy as a function of the radius.

    Without labels (``correct`` is None), it is the fraction of rows whose prediction is certified.
    ``columns`` are the columns from which the features are derived.
    """
    n = len(radius)
    selected = np.ones(n, bool) if correct is None else correct
    radii = radius[selected]
    largest = radii[np.isfinite(radii)].max(initial=0.0)
    eps = np.linspace(0.0, largest if largest > 0.0 else 1.0, CURVE_POINTS)
    fixed = fixed_columns(columns, scale)
    n_certified = int((radii >= SMALL_RADIUS).sum())
    return {
        "has_labels": correct is not None,
        "n_rows": n,
        "eps": eps.tolist(),
        "accuracy": [float((radii >= e).sum() / n) for e in eps],
        "small": SMALL_RADIUS,
        "n_certified": n_certified,
        "share": percent(n_certified / n),
        "median_radius": CertifiedRows.from_radii(radius, selected).median_radius,
        "unit": unit,
        "fixed": fixed,
        "n_moving": len(dict.fromkeys(columns)) - len(fixed),
        "figure": None if correct is None else figures.certified_figure(radius, correct, unit),
    }


def _robust(clf: BaseLMMClassifier, table: PageRows) -> dict[str, Any] | None:
    """Return the error rates within ``robust_eps``, or None without labels or ``robust_eps_``."""
    if table.y is None or not table.n or not hasattr(clf, "robust_eps_"):
        return None
    return to_jsonable(robust_errors(clf, table.X, table.y))


def training_certificate(estimator: Any) -> dict[str, Any]:
    """Return the maximum training loss, and which training predictions are provably correct."""
    summary = training_summary(estimator)
    n = summary["n_rows"]
    if estimator.perfect_fit_:
        text = f"This proves that the predictions of all {plural(n, 'training row')} are correct."
    else:
        below = summary["n_below_log2"]
        rows = plural(n, "training row")
        text = (
            f"The losses of {below:,} of {rows} are below log 2, so their predictions are provably "
            "correct."
        )
    return {
        "max_loss": estimator.max_loss_,
        "threshold": LOG2,
        "text": text,
        "holds": estimator.perfect_fit_,
    }
