"""What a report says about a fitted classifier, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import maxplus
from maxplus.estimators._lmm import BaseLMMClassifier
from maxplus.explain import unit_boxes
from maxplus.models import LMM, LOG2
from maxplus.report import certificates, figures, unseen
from maxplus.report._text import plural
from maxplus.report.asked import Asked
from maxplus.report.deciding import Decisions
from maxplus.report.editing import column_of_features, editable_columns
from maxplus.report.weights import MOST_WEIGHTS, members_of, model_data, n_weights

# The explorer holds this many rows at most: half of them the worst, the others spread evenly.
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
    low, high : what features can be, as in `LMMClassifier.explain`
    scale : how far each feature moves for a radius of 1, as in `LMMClassifier.certified_radius`
    unit : what that is called
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
    shown = _choose(np.argsort(-losses, kind="stable"), len(y))
    decisions = Decisions(clf.model_, X[shown], words, getattr(clf, "scale_", None))
    return {
        "title": _title(clf, name),
        "made_by": f"maxplus {maxplus.__version__}",
        "made_at": datetime.now(timezone.utc).isoformat(timespec="minutes"),
        "model": _model(clf, labels),
        "data": {"name": name, "n_rows": len(y), "n_shown": len(shown)},
        **_performance(clf, asked, log_proba, is_new),
        "fit": _fit(clf, asked, right),
        "importances": _importances(clf, X, words) if image_shape is None else [],
        "rules": _rules(clf, asked, words) if image_shape is None else None,
        "search": _search(clf),
        "certified": certificates.certified(
            asked, right, radius, is_new, factors, unit, _columns(clf, words)
        ),
        "training": figures.training_figures(clf),
        "certificate": certificates.training_certificate(clf),
        "features": words,
        "labels": labels,
        "image_shape": None if image_shape is None else list(image_shape),
        "radius_unit": unit,
        "rows": _rows(clf, asked, shown, decisions, radius, words, low, high),
        "units": _units(clf, X, decisions) if image_shape is not None else {},
        **_what_if(clf, words, factors, image_shape),
    }  # fmt: skip


def _title(clf: BaseLMMClassifier, name: str) -> str:
    preparation = getattr(clf, "preparation_", None)
    target = name if preparation is None else f"“{preparation.encoding.target}”"
    return f"A model that tells {target}"


def _choose(worst: NDArray, n: int) -> NDArray:
    """Rows for the explorer: all, or the worst and others at even distances."""
    if n <= MAX_ROWS:
        return np.arange(n)
    spread = np.linspace(0, n - 1, MAX_ROWS - MAX_ROWS // 2).astype(int)
    return np.unique(np.concatenate([worst[: MAX_ROWS // 2], spread]))


def _columns(clf: BaseLMMClassifier, words: Sequence[str]) -> list[str]:
    """The column that each feature is made of."""
    return column_of_features(getattr(clf, "preparation_", None), words)


def _model(clf: BaseLMMClassifier, labels: list[str]) -> dict[str, Any]:
    parameters = {
        name: str(value)
        for name, value in clf.get_params(deep=False).items()
        if name not in ("callbacks", "verbose", "n_jobs", "warm_start")
    }
    preparation = getattr(clf, "preparation_", None)
    return {
        "kind": type(clf).__name__,
        "n_hidden": clf.n_hidden_,
        "n_members": len(members_of(clf.model_)),
        "n_features": clf.n_features_in_,
        "n_columns": clf.n_features_in_ if preparation is None
            else len(preparation.encoding.columns),
        "classes": labels,
        "target": None if preparation is None else preparation.encoding.target,
        "trained_on": None if preparation is None else PurePath(preparation.data).name,
        "n_training": len(clf.training_labels_),
        "decisions": [] if preparation is None else list(preparation.decisions),
        "parameters": parameters,
        "training": {
            "rows": f"{len(clf.training_losses_):,}",
            "iterations": f"{clf.n_iter_:,}",
            "ended": clf.status_,
            "maximum loss": f"{clf.max_loss_:.6g}",
            "mean loss": f"{clf.mean_loss_:.6g}",
        },
    }  # fmt: skip


def _performance(
    clf: BaseLMMClassifier, asked: Asked, log_proba: NDArray, is_new: NDArray | None
) -> dict[str, Any]:
    """How well it does on new rows by all that is known, and by what counts most rows."""
    n, name = len(asked.y), asked.name
    validation = unseen.of_validation(clf, asked)
    sources = [] if validation is None else [validation]
    if is_new is None:
        where = f"Whether rows of {name} were used in training is not known to this model."
        why = "No validation is kept with the model. " + where
        everything = "It is not known whether some of these rows were used in training."
    else:
        new = np.flatnonzero(is_new)
        part = "None" if not new.size else "All" if len(new) == n else f"{len(new):,}"
        where = f"{part} of the {plural(n, 'row')} of {name} were not used in training."
        if new.size:
            sources.append(unseen.of_rows(clf, asked, log_proba, new, where))
        why = f"No validation is kept with the model. {where}"
        everything = "The model was trained on these rows: this says nothing about new ones."
    remedy = " Train with maxplus train, or give rows that were not used in training."
    main = max(sources, key=lambda source: source["figures"]["n_rows"], default=None)
    judged = main or {
        **unseen.of_rows(clf, asked, log_proba, np.arange(n), everything), "is_new": False,
    }  # fmt: skip
    bins = judged["bins"]
    return {
        "headline": unseen.headline(main, why + remedy),
        "where": where,
        "sources": sources,
        "judged": {"is_new": True, **judged},
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


def _importances(
    clf: BaseLMMClassifier, X: NDArray, words: Sequence[str]
) -> list[dict[str, Any]]:
    """Columns by how much they decide, the most first; those that never do are left out."""
    shares = getattr(clf, "feature_importances_", None)
    if shares is None:
        return []
    sums: dict[str, float] = {}
    for column, share in zip(_columns(clf, words), shares, strict=True):
        sums[column] = sums.get(column, 0.0) + float(share)
    order = sorted(sums, key=lambda column: -sums[column])
    return [{"name": column, "share": sums[column]} for column in order if sums[column] > 0.0]


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


def _search(clf: BaseLMMClassifier) -> dict[str, str] | None:
    search = getattr(clf, "search_", None)
    return None if search is None else figures.search_figure(search)


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
    """The smallest change of one column that flips each row; it is not sought for committees."""
    if not isinstance(clf.model_, LMM):
        return [None] * len(shown)
    lacked = None if asked.missing is None else asked.missing[shown]
    why = clf.explain(asked.X[shown], feature_names=words, low=low, high=high, missing=lacked)
    first = why.to_records()[:: len(clf.classes_)]
    return [
        {"column": str(line["flip_feature"]), "from": str(line["flip_from"]),
         "to": str(line["flip_to"]), "becomes": str(line["flip_class"])}
        if line["flip_feature"] else None
        for line in first
    ]  # fmt: skip


def _units(clf: BaseLMMClassifier, X: NDArray, decisions: Decisions) -> dict[str, list[float]]:
    """The centres of the units that the rows shown need, to be drawn as pictures."""
    low, high = float(X.min()), float(X.max())
    found = {}
    for member in decisions.members:
        centre = unit_boxes(member.model).centre
        if centre.shape[1] != X.shape[1]:
            continue  # directions are no pixels
        for unit in np.unique(member.paths.unit):
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
