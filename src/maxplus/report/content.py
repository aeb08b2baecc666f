"""What a report says about a fitted classifier, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.estimators._lmm import BaseLMMClassifier
from maxplus.explain import single_flips, unit_boxes
from maxplus.explain.flip_words import FlipWords, missing_columns
from maxplus.models import LMM, LOG2
from maxplus.report import about, certificates, figures, unseen
from maxplus.report.asked import Asked
from maxplus.report.deciding import Decisions
from maxplus.report.editing import editable_columns
from maxplus.report.weights import MOST_WEIGHTS, model_data, n_weights

# The explorer holds this many rows at most: those that the page names, the worst, half of all, and
# others spread evenly.
MAX_ROWS = 200
N_RULES = 8


def report_content(
    clf: BaseLMMClassifier,
    X: NDArray,
    y: NDArray,
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
    """Everything `render_page` shows, for a fitted classifier on labelled rows.

    Parameters
    ----------
    clf : fitted LMMClassifier, LMMCommittee or SubgradientLMMClassifier
    X, y : rows and their true labels
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
    asked = Asked(X, np.asarray(y), name, row_numbers, ids, missing)
    words = clf._words_of(feature_names)
    labels = [str(label) for label in clf.classes_]
    log_proba = clf.predict_log_proba(X)
    losses = -log_proba[np.arange(len(y)), np.searchsorted(clf.classes_, y)]
    right = clf.predict(X) == y
    radius = clf.certified_radius(X, scale)
    is_new = unseen.unseen_rows(clf, X)
    factors = np.ones(len(words)) if scale is None else np.asarray(scale, float)
    performance = _performance(clf, asked, log_proba, is_new)
    shown = _choose(_named_places(asked, performance["named"]), losses)
    decisions = Decisions(clf.model_, X[shown], words, getattr(clf, "scale_", None))
    return {
        **about.about_page(clf, name),
        "task": "classification",
        "model": about.about_model(clf),
        "data": {"name": name, "n_rows": len(y), "n_shown": len(shown)},
        **performance,
        "fit": _fit(clf, asked, right),
        "importances": about.importances(clf, X, words) if image_shape is None else None,
        "rules": _rules(clf, asked, words) if image_shape is None else None,
        "search": about.search(clf),
        "certified": certificates.certified(
            asked, right, radius, is_new, factors, unit, about.columns_of(clf, words)
        ),
        "training": figures.training_figures(clf),
        "certificate": certificates.training_certificate(clf),
        "features": words,
        "labels": labels,
        "image_shape": None if image_shape is None else list(image_shape),
        "radius_unit": unit,
        "rows": _rows(clf, asked, shown, decisions, radius, words, low, high),
        "units": _units(X, decisions) if image_shape is not None else {},
        **_what_if(clf, words, factors, image_shape),
    }  # fmt: skip


def _choose(named: list[int], losses: NDArray) -> NDArray:
    """Rows for the explorer: all, or those named, the worst, and others at even distances."""
    n = len(losses)
    if n <= MAX_ROWS:
        return np.arange(n)
    worst = np.argsort(-losses, kind="stable")[: MAX_ROWS // 2]
    first = np.union1d(np.array(named, int), worst)
    return np.union1d(first, np.linspace(0, n - 1, MAX_ROWS - len(first)).astype(int))


def _named_places(asked: Asked, named: dict[str, Any]) -> list[int]:
    """Where the rows are that the page names: its links lead to them."""
    numbers = {row["row"] for kind in ("least_sure", "most_surprising") for row in named[kind]
               if row["of_data"]}  # fmt: skip
    return [n for n in range(len(asked.y)) if asked.number(n) in numbers]


def _performance(
    clf: BaseLMMClassifier, asked: Asked, log_proba: NDArray, is_new: NDArray | None
) -> dict[str, Any]:
    """How well it does on new rows by all that is known, and by what counts most rows."""
    validation = unseen.of_validation(clf, asked)
    sources = [] if validation is None else [validation]
    where = unseen.which_are_new(asked, is_new)
    if is_new is not None and is_new.any():
        new = np.flatnonzero(is_new)
        sources.append(unseen.of_rows(clf, asked, log_proba, new, where))
    main = max(sources, key=lambda source: source["figures"]["n_rows"], default=None)
    judged = main or {
        **unseen.of_rows(clf, asked, log_proba, np.arange(len(asked.y)), where), "is_new": False,
    }  # fmt: skip
    bins = judged["bins"]
    return {
        "headline": unseen.headline(main, where),
        "where": where,
        "sources": sources,
        "judged": {"is_new": True, **judged},
        # Rows that can be looked at here tell more than those that cannot.
        "named": sources[-1] if sources else judged,
        "reliability": None if bins is None else figures.reliability_figure(bins),
    }


def _fit(clf: BaseLMMClassifier, asked: Asked, right: NDArray) -> dict[str, Any]:
    """How many training rows are right: counted where they are here, else at least so many."""
    n = int(np.isfinite(clf.training_losses_).sum())
    if unseen.training_order(clf, asked.X):
        return {"right": int(right.sum()), "rows": len(right), "exact": True}
    # Of two classes the one with more than half is the predicted one, and the other is wrong.
    certain = int((clf.training_losses_ < LOG2).sum())
    return {"right": certain, "rows": n, "exact": len(clf.classes_) == 2}


def _rules(clf: BaseLMMClassifier, asked: Asked, words: Sequence[str]) -> dict[str, Any] | None:
    """The strongest boxes as rules, counted on the page's rows; None for a committee."""
    if not isinstance(clf.model_, LMM):
        return None
    found = clf.rules(asked.X, asked.y, N_RULES)
    return {
        "n_rows": found.n_rows,
        "rules": [
            {"conditions": [condition.text for condition in rule.conditions], "class": rule.label,
             "rows": rule.rows, "right": rule.right, "unit": rule.unit}
            for rule in found
        ],
        "sums": found.definitions,
    }  # fmt: skip


def _rows(
    clf: BaseLMMClassifier, asked: Asked, shown: NDArray, decisions: Decisions, radius: NDArray,
    words: Sequence[str], low: ArrayLike | None, high: ArrayLike | None,
) -> list[dict[str, Any]]:  # fmt: skip
    """The explorer's rows."""
    labels = [str(label) for label in clf.classes_]
    flips = _flips(clf, asked, shown, words, low, high)
    rows = []
    for k, n in enumerate(shown.tolist()):
        classes = decisions.classes(k, labels)
        rows.append({
            **asked.name_of(n), "label": str(asked.y[n]), "predicted": classes[0]["class"],
            "radius": float(radius[n]), "values": asked.X[n].astype(float).tolist(),
            "missing": asked.lacks(n), "classes": classes, "flip": flips[k],
        })  # fmt: skip
    return rows


def _flips(
    clf: BaseLMMClassifier, asked: Asked, shown: NDArray, words: Sequence[str],
    low: ArrayLike | None, high: ArrayLike | None,
) -> list[dict[str, Any] | None]:  # fmt: skip
    """The smallest change of one column that flips each row, None where none does."""
    X, domain = asked.X[shown], clf._domain(None, words).within(low, high)
    lacked = None if asked.missing is None else asked.missing[shown]
    found = FlipWords(
        X, single_flips(clf.model_, X, domain), domain, [str(label) for label in clf.classes_],
        missing_columns(lacked, len(X), domain),
    )  # fmt: skip
    return [
        {"column": found.column(k), "from": found.before(k), "to": found.after(k),
         "becomes": found.becomes(k)}
        if found.column(k) else None
        for k in range(len(X))
    ]  # fmt: skip


def _units(X: NDArray, decisions: Decisions) -> dict[str, list[float]]:
    """The centres of the units that decided, to be drawn as pictures."""
    low, high = float(X.min()), float(X.max())
    found = {}
    for k, member in enumerate(decisions.members):
        if member.model.directions is not None:
            continue  # sums are no pixels
        centre = unit_boxes(member.model).centre
        for unit in np.unique(member.paths.unit[decisions.leader == k]):
            picture = np.clip(np.nan_to_num(centre[unit], nan=low), low, high)
            found[str(member.first_unit + unit)] = [float(f"{v:.3g}") for v in picture]
    return found


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
        "network": model_data(clf.model_, scale, words, getattr(clf, "scale_", None)),
        "columns": editable_columns(getattr(clf, "preparation_", None), words),
        "why_not": None,
    }
