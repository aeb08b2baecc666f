"""What a report says about a fitted classifier, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.distributed import SharedRows, current
from maxplus.estimators._base import is_training_table, training_summary
from maxplus.estimators._lmm import BaseLMMClassifier
from maxplus.explain import nearest_counterfactuals, unit_boxes
from maxplus.explain.counterfactuals import CounterfactualText, missing_columns
from maxplus.models import LMM, AdditiveLMM
from maxplus.report import about, certificates, figures, unseen
from maxplus.report._text import plural
from maxplus.report.asked import MOST_COUNTED, Asked, answered
from maxplus.report.deciding import Decisions
from maxplus.report.editing import editable_columns
from maxplus.report.shapes import MOST_DRAWN, shape_drawings
from maxplus.report.weights import MOST_WEIGHTS, model_data, n_weights

# The explorer holds this many rows at most: those that the page names, the worst, half of all, and
# others spread evenly.
MAX_ROWS = 200
N_RULES = 8


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
    """Everything `render_page` shows, for a fitted classifier on rows, labelled or not.

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
    asked = Asked.of(X, None if y is None else np.asarray(y), name, row_numbers, ids, missing)
    # Each rank asks about its own rows; rank 0 writes, and looks at a few of the others'.
    said = Said(
        answered(clf.predict_log_proba, X), answered(clf.predict, X),
        answered(lambda rows: clf.certified_radius(rows, scale), X),
    )  # fmt: skip
    page = Page(feature_names, image_shape, low, high, scale, unit)
    return current().root_only(lambda rows: _content(clf, asked.seen(rows), said, page), X)


class Said(NamedTuple):
    """What the classifier says of each row: log-probabilities (N, C), a label, a radius."""

    log_proba: NDArray
    predicted: NDArray
    radius: NDArray


class Page(NamedTuple):
    """How a page speaks of its rows; see `report_content`."""

    feature_names: Sequence[str] | None
    image_shape: tuple[int, int] | None
    low: ArrayLike | None
    high: ArrayLike | None
    scale: ArrayLike | None
    unit: str


def _content(clf: BaseLMMClassifier, asked: Asked, said: Said, page: Page) -> dict[str, Any]:
    words, n = list(clf._domain(feature_names=page.feature_names).names), asked.n
    log_proba, is_image = said.log_proba, page.image_shape is not None
    right = None if asked.y is None else said.predicted == asked.y
    # Without labels, rows are surprising where no class is probable.
    judged = log_proba.argmax(axis=1) if asked.y is None else np.searchsorted(clf.classes_, asked.y)
    losses = -log_proba[np.arange(n), judged]
    is_training = asked.y is not None and is_training_table(clf, losses)
    factors = np.ones(len(words)) if page.scale is None else np.asarray(page.scale, float)
    performance = _performance(clf, asked, log_proba, is_training)
    shown = _choose(_named_places(asked, performance["named"]), losses, asked)
    X = asked.X[shown]
    domain = clf._domain(None, words)
    means = clf.term_means_ if isinstance(clf.model_, AdditiveLMM) else None
    decisions = Decisions(clf.model_, X, words, domain, means)
    some = None if is_image else asked.some(MOST_COUNTED)
    counted = X[:0] if some is None else asked.X[some]
    return {
        **about.about_page(clf, asked.name),
        "task": "classification",
        "model": about.about_model(clf),
        "data": {"name": asked.name, "n_rows": n, "n_shown": len(shown)},
        **performance,
        "predicted": None if asked.y is not None else _predicted(clf, said.predicted),
        "fit": _fit(clf, right if is_training else None),
        "importances": None if is_image else about.importances(clf, counted, words),
        "rules": None if some is None or asked.y is None
        else _rules(clf, counted, asked.y[some], words),
        "shapes": shape_drawings(
            clf.model_, counted[:MOST_DRAWN], means, domain, list(clf.classes_)
        )
        if isinstance(clf.model_, AdditiveLMM) and means is not None and some is not None
        else None,
        "search": about.search(clf),
        "certified": certificates.certified(
            right, said.radius, _whose(asked, is_training), factors, page.unit,
            about.columns_of(clf, words),
        ),
        "training": figures.training_figures(clf),
        "certificate": certificates.training_certificate(clf),
        "features": words,
        "labels": [str(label) for label in clf.classes_],
        "image_shape": None if page.image_shape is None else list(page.image_shape),
        "radius_unit": page.unit,
        "rows": _rows(clf, asked, shown, X, decisions, said.radius, words, page),
        "units": _units(asked.X, decisions) if is_image else {},
        "contributions": decisions.groups(),
        **_what_if(clf, words, factors, page.image_shape),
    }  # fmt: skip


def _choose(named: list[int], losses: NDArray, asked: Asked) -> NDArray:
    """Rows for the explorer: all, or those named, the worst, and others at even distances."""
    if len(losses) <= MAX_ROWS:
        return np.arange(len(losses))
    worst = np.argsort(-losses, kind="stable")[: MAX_ROWS // 2]
    first = np.union1d(np.array(named, int), worst)
    return np.union1d(first, asked.some(MAX_ROWS - len(first)))


def _named_places(asked: Asked, named: dict[str, Any]) -> list[int]:
    """Where the rows are that the page names: its links lead to them."""
    numbers = {row["row"] for kind in ("least_sure", "most_surprising") for row in named[kind]
               if row["of_data"]}  # fmt: skip
    return [n for n in range(asked.n) if asked.number(n) in numbers]


def _performance(
    clf: BaseLMMClassifier, asked: Asked, log_proba: NDArray, is_training: bool
) -> dict[str, Any]:
    """How well it does on new rows: on those that are given, else by a validation in training."""
    validation = unseen.of_validation(clf, asked, is_training)
    sources = [] if validation is None else [validation]
    equal = unseen.equal_to_training(clf, asked.prints)
    where = unseen.which_rows(asked, is_training, equal)
    own = None
    if asked.y is None:
        where = f"{asked.name} has no true labels to compare with."
    else:
        own = unseen.of_rows(clf, asked, log_proba, where)
        if not is_training:
            sources.insert(0, own)
    headline = unseen.headline(sources[0] if sources else None, where)
    if own in sources and equal is not None and equal.any():
        headline["text"] += f" {where}"
    judged = sources[0] if sources else own
    bins = None if judged is None else judged["bins"]
    named = next((one for one in (*sources[:1], own) if one and one["least_sure"]), None)
    return {
        "headline": headline,
        "where": where,
        "sources": sources,
        "judged": None if judged is None else {"is_new": bool(sources), **judged},
        "named": _least_sure(clf, asked, log_proba) if asked.y is None else named,
        "reliability": None if bins is None else figures.reliability_figure(bins),
    }


def _least_sure(clf: BaseLMMClassifier, asked: Asked, log_proba: NDArray) -> dict[str, Any]:
    """The rows without labels whose predictions are least probable."""
    P = np.exp(log_proba)
    order = np.argsort(P.max(axis=1), kind="stable")
    return {"least_sure": unseen.named_rows(clf, asked, P, order), "most_surprising": []}


def _predicted(clf: BaseLMMClassifier, predicted: NDArray) -> list[dict[str, Any]]:
    """How often each class is predicted."""
    return [
        {"label": str(label), "rows": int((predicted == label).sum()),
         "share": float((predicted == label).mean())}
        for label in clf.classes_
    ]  # fmt: skip


def _whose(asked: Asked, is_training: bool) -> str:
    rows = f"the {plural(asked.n, 'row')} of {asked.name}"
    return f"{rows}, which the model was trained on" if is_training else rows


def _fit(clf: BaseLMMClassifier, right: NDArray | None) -> dict[str, Any]:
    """How many training rows are right: counted where they are here, else at least so many."""
    if right is not None:
        return {"right": int(right.sum()), "rows": len(right), "exact": True}
    # Of two classes the one with more than half is the predicted one, and the other is wrong.
    summary = training_summary(clf)
    return {
        "right": summary["n_below_log2"], "rows": summary["n_rows"],
        "exact": len(clf.classes_) == 2,
    }  # fmt: skip


def _rules(clf: BaseLMMClassifier, X: NDArray, y: NDArray, words: Sequence[str]) -> dict[str, Any]:
    """Return the boxes as rules, counted on these rows."""
    found = clf.rules(X, y, N_RULES)
    return {
        "n_rows": found.n_rows,
        "rules": [
            {"conditions": [condition.text for condition in rule.conditions], "class": rule.label,
             "rows": rule.rows, "right": rule.right, "unit": rule.unit}
            for rule in found
        ],
    }  # fmt: skip


def _rows(
    clf: BaseLMMClassifier, asked: Asked, shown: NDArray, X: NDArray, decisions: Decisions,
    radius: NDArray, words: Sequence[str], page: Page,
) -> list[dict[str, Any]]:  # fmt: skip
    """The explorer's rows."""
    labels = [str(label) for label in clf.classes_]
    flips = _flips(clf, asked, shown, X, words, page)
    rows = []
    for k, n in enumerate(shown.tolist()):
        classes = decisions.classes(k, labels)
        rows.append({
            **asked.name_of(n), "label": None if asked.y is None else str(asked.y[n]),
            "predicted": classes[0]["class"],
            "radius": float(radius[n]), "values": X[k].astype(float).tolist(),
            "missing": asked.lacks(n), "classes": classes, "flip": flips[k],
            "reasons": decisions.reasons(k, labels),
        })  # fmt: skip
    return rows


def _flips(
    clf: BaseLMMClassifier, asked: Asked, shown: NDArray, X: NDArray, words: Sequence[str],
    page: Page,
) -> list[dict[str, Any] | None]:  # fmt: skip
    """The smallest change of one column that flips each row, None where none does."""
    domain = clf._domain(None, words).within(page.low, page.high)
    lacked = None if asked.missing is None else asked.missing[shown]
    found = CounterfactualText(
        X, nearest_counterfactuals(clf.model_, X, domain), domain,
        [str(label) for label in clf.classes_], missing_columns(lacked, len(X), domain),
    )  # fmt: skip
    return [
        {"column": found.column(k), "from": found.before(k), "to": found.after(k),
         "becomes": found.becomes(k)}
        if found.column(k) else None
        for k in range(len(X))
    ]  # fmt: skip


def _units(X: NDArray | SharedRows, decisions: Decisions) -> dict[str, list[float]]:
    """The centres of the units that decided, to be drawn as pictures."""
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
    clf: BaseLMMClassifier, words: Sequence[str], scale: NDArray,
    image_shape: tuple[int, int] | None,
) -> dict[str, Any]:  # fmt: skip
    """The model itself and the columns to edit, or why there is nothing to edit."""
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
