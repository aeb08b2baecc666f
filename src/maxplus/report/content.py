"""What a report says about a fitted model, as plain data."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import confusion_matrix

import maxplus
from maxplus.estimators._lmm import BaseLMMClassifier
from maxplus.explain import CommitteeExplanation, Explanation
from maxplus.explain.naming import view_features
from maxplus.metrics import Reliability, reliability
from maxplus.models import LOG2
from maxplus.plots import (
    plot_certified_accuracy,
    plot_convergence,
    plot_probabilities,
    plot_reliability,
    plot_stages,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The explorer holds this many rows at most: half of them the worst, the others spread evenly.
MAX_ROWS = 200
N_WORST = 25
CURVE_POINTS = 101


def report_content(
    clf: BaseLMMClassifier,
    X: NDArray,
    y: NDArray,
    *,
    name: str,
    feature_names: Sequence[str] | None = None,
    image_shape: tuple[int, int] | None = None,
    low: ArrayLike | None = None,
    high: ArrayLike | None = None,
    scale: ArrayLike | None = None,
    unit: str = "the features' own units",
    row_numbers: ArrayLike | None = None,
) -> dict[str, Any]:
    """Everything `render_page` shows, for a fitted classifier on labelled rows.

    Parameters
    ----------
    clf : fitted LMMClassifier, LMMCommittee or SubgradientLMMClassifier
    X, y : rows and their true labels
    name : what the data are called
    feature_names : words for the features
    image_shape : (height, width) if a row is an image
    low, high : what features can be, as in `LMMClassifier.explain`
    scale : how far each feature moves for a radius of 1, as in `LMMClassifier.certified_radius`
    unit : what that is called
    row_numbers : what the rows are called; 1, 2, … by default
    """
    numbers = np.arange(1, len(y) + 1) if row_numbers is None else np.asarray(row_numbers)
    codes = np.searchsorted(clf.classes_, y)
    log_proba = clf.predict_log_proba(X)
    losses = -log_proba[np.arange(len(y)), codes]
    bins = reliability(codes, np.exp(log_proba))
    predicted = clf.predict(X)
    radius = clf.certified_radius(X, scale)
    worst = np.argsort(-losses, kind="stable")
    shown = _choose(worst, len(y))
    why = clf.explain(X[shown], feature_names=feature_names, low=low, high=high)
    eps = np.linspace(0.0, _reach(radius), CURVE_POINTS)
    certified = [float((radius[predicted == y] >= e).sum() / len(y)) for e in eps]
    labels = [str(label) for label in clf.classes_]
    return {
        "title": f"LMM classifier on {name}",
        "made_by": f"maxplus {maxplus.__version__}",
        "made_at": datetime.now(timezone.utc).isoformat(timespec="minutes"),
        "model": _model(clf, labels),
        "certificate": _certificate(clf),
        "data": {"name": name, "n_rows": len(y), "n_shown": len(shown)},
        "scores": {
            "accuracy": float((predicted == y).mean()),
            "mean_loss": float(losses.mean()),
            "max_loss": float(losses.max()),
            "median_radius": float(np.median(radius)),
            "calibration_error": bins.error,
        },
        "radius_unit": unit,
        "figures": [
            *_figures(clf, losses, radius, predicted == y, unit),
            _calibration_figure(bins),
        ],
        "confusion": {
            "labels": labels,
            "counts": confusion_matrix(y, predicted, labels=clf.classes_).tolist(),
        },
        "certified": {"eps": eps.tolist(), "accuracy": certified},
        "worst": [
            {
                "row": int(numbers[n]), "label": str(y[n]), "predicted": str(predicted[n]),
                "loss": float(losses[n]), "probability": float(np.exp(-losses[n])),
            }
            for n in worst[:N_WORST]
        ],
        "features": list(why.feature_names),
        "image_shape": None if image_shape is None else list(image_shape),
        "rows": [
            _row(why, k, int(numbers[n]), str(y[n]), float(radius[n])) for k, n in enumerate(shown)
        ],
        "units": _units(why) if image_shape is not None and why.directions is None else {},
    }  # fmt: skip


def _choose(worst: NDArray, n: int) -> NDArray:
    """Rows for the explorer: all, or the worst and others at even distances."""
    if n <= MAX_ROWS:
        return np.arange(n)
    spread = np.linspace(0, n - 1, MAX_ROWS - MAX_ROWS // 2).astype(int)
    return np.unique(np.concatenate([worst[: MAX_ROWS // 2], spread]))


def _reach(radius: NDArray) -> float:
    finite = radius[np.isfinite(radius)]
    return float(finite.max()) if finite.size and finite.max() > 0 else 1.0


def _model(clf: BaseLMMClassifier, labels: list[str]) -> dict[str, Any]:
    parameters = {
        name: str(value)
        for name, value in clf.get_params(deep=False).items()
        if name not in ("callbacks", "verbose", "n_jobs", "warm_start")
    }
    return {
        "kind": type(clf).__name__,
        "n_hidden": clf.n_hidden_,
        "n_members": len(getattr(clf, "members_", [])),
        "n_features": clf.n_features_in_,
        "classes": labels,
        "parameters": parameters,
        "training": {
            "samples": f"{len(clf.training_losses_):,}",
            "iterations": f"{clf.n_iter_:,}",
            "ended": clf.status_,
            "maximum loss": f"{clf.max_loss_:.6g}",
            "mean loss": f"{clf.mean_loss_:.6g}",
        },
    }


def _certificate(clf: BaseLMMClassifier) -> dict[str, Any]:
    n = int(np.isfinite(clf.training_losses_).sum())
    if clf.certified_:
        text = f"Every one of the {n:,} training samples is classified right: this is a proof."
    else:
        right = int((clf.training_losses_ < LOG2).sum())
        text = f"{right:,} of the {n:,} training samples are below log 2 and right for certain."
    return {"max_loss": clf.max_loss_, "threshold": LOG2, "holds": clf.certified_, "text": text}


def _figures(
    clf: BaseLMMClassifier, losses: NDArray, radius: NDArray, correct: NDArray, unit: str
) -> list[dict[str, str]]:
    curve = clf.history_["loss"] if hasattr(clf, "history_") else np.empty(0)
    warmup = getattr(clf, "warmup_losses_", np.empty(0))
    polish = getattr(clf, "polish_losses_", np.empty(0))
    level = getattr(clf, "polish", None) or LOG2
    figures = []
    if warmup.size:
        figures.append((
            "stages", "How training went",
            f"The mean soft loss over {warmup.size:,} epochs of the warm-up"
            + (", and the largest loss over the rounds of the polish." if polish.size else "."),
            plot_stages(warmup, polish, LOG2 if isinstance(level, str) else level),
        ))  # fmt: skip
    if curve.size and np.isfinite(curve).all():
        figures.append((
            "convergence", "How training went",
            f"The training loss over {curve.size:,} iterations; its lowest value is "
            f"{curve.min():.3g}.",
            plot_convergence(curve, len(clf.classes_)),
        ))  # fmt: skip
    below = float((losses > LOG2).mean())
    figures.append((
        "confidence", "How sure the model is",
        f"Histogram of the probability given to the true label; {below:.1%} of the rows are "
        "below one half.",
        plot_probabilities({"this data": losses}, "row"),
    ))  # fmt: skip
    figures.append((
        "robustness", "What small changes cannot do",
        f"Certified accuracy against the size of the change in {unit}; it begins at "
        f"{correct.mean():.1%}.",
        plot_certified_accuracy(radius, correct, unit=unit),
    ))  # fmt: skip
    return [
        {"id": key, "title": title, "alt": alt, "svg": _svg(figure)}
        for key, title, alt, figure in figures
    ]


def _calibration_figure(bins: Reliability) -> dict[str, str]:
    return {
        "id": "reliability",
        "title": "How far probabilities can be trusted",
        "alt": "How often the predicted class is right against its probability, in "
        f"{len(bins.count)} bins; the expected calibration error is {bins.error:.3f}.",
        "svg": _svg(plot_reliability(bins)),
    }


def _svg(figure: Figure) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()


def _row(
    why: Explanation | CommitteeExplanation, k: int, n: int, label: str, radius: float
) -> dict[str, Any]:
    order = np.argsort(-why.paths.score[k], kind="stable")
    row = {
        "row": n,
        "label": label,
        "predicted": why.class_names[order[0]],
        "radius": radius,
        "values": [float(f"{v:.6g}") for v in why.X[k]],
        "classes": [_path(why, k, int(d)) for d in order],
    }
    # Nobody has looked for a committee's, which is not the same as that there is none.
    return row if isinstance(why, CommitteeExplanation) else row | {"flip": _flip(why, k)}


def _flip(why: Explanation, k: int) -> dict[str, Any] | None:
    feature, value, becomes = (field[k] for field in why.flips[:3])
    if feature < 0:
        return None
    return {
        "feature": why.feature_names[feature],
        "value": float(why.X[k, feature]),
        "new_value": float(value),
        "becomes": why.class_names[becomes],
    }


def _path(why: Explanation | CommitteeExplanation, k: int, d: int) -> dict[str, Any]:
    """What decided a class's score; in a committee, in the member that is most for the class."""
    path = why.paths
    own = why.members[why.leader[k, d]] if isinstance(why, CommitteeExplanation) else why
    view, unit = int(path.view[k, d]), int(path.unit[k, d])
    feature = int(view_features(own.directions, why.X.shape[1])[view])
    runner_up = int(path.runner_up[k, d])
    prototypes = getattr(why, "prototypes", None)
    return {
        "class": why.class_names[d],
        "score": float(path.score[k, d]),
        "probability": float(why.probability[k, d]),
        "unit": unit,
        "prototype": None if prototypes is None else int(prototypes[unit]) + 1,
        "feature": own.view_names[view],
        # Where the page lists its value; a direction is none of the features.
        "feature_index": None if feature < 0 else feature,
        "value": float(own.views[k, view]),
        "slope": float(own.slopes[path.row[k, d]]),
        "runner_up": None if runner_up < 0 else runner_up,
        "margin": None if runner_up < 0 else float(path.margin[k, d]),
    }


def _units(why: Explanation | CommitteeExplanation) -> dict[str, list[float]]:
    """The centres of the units that the rows shown need, to be drawn as pictures."""
    low, high = float(why.X.min()), float(why.X.max())
    needed = np.unique(why.paths.unit)
    pictures = np.clip(np.nan_to_num(why.centres[needed], nan=low), low, high)
    return {
        str(unit): [float(f"{v:.3g}") for v in picture]
        for unit, picture in zip(needed, pictures, strict=True)
    }
