"""Explanations of single rows for the explorer, and plots of shape functions."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from maxplus.explain import Contributions, Domain, contributions, decisive_paths, shape_function
from maxplus.explain.contributions import columns_of, groups_of
from maxplus.models import LMM, AdditiveLMM
from maxplus.report._text import short


class Decisions:
    """Scores, probabilities and explanations of N rows.

    For a single network the explanation is the active wall of each class; for a sum of terms, the
    contributions of the columns to the margin of the predicted class over the runner-up.

    Parameters
    ----------
    model : LMM or AdditiveLMM
    X : array of shape (N, P)
    feature_names : P names
    domain : Domain, which groups the features into columns
    means : array of shape (T, C), mean scores of the terms of a sum
    """

    def __init__(
        self,
        model: LMM | AdditiveLMM,
        X: NDArray,
        feature_names: Sequence[str],
        domain: Domain,
        means: NDArray | None = None,
    ) -> None:
        self.model, self.X, self.names = model, X, feature_names
        self.score = model.scores(X)
        # In float64 for scores of any dtype, as in the page's scripts.
        self.probability = special.softmax(self.score.astype(np.float64), axis=1)
        self.paths = self.found = None
        if isinstance(model, LMM):
            self.paths = decisive_paths(model, X)
        elif means is not None:
            self.found = contributions(model, X, means, domain=domain)
        self.means, self.domain = means, domain

    def classes(self, n: int, labels: Sequence[str]) -> list[dict[str, Any]]:
        """Return all classes for row n, in descending order of their scores."""
        order = np.argsort(-self.score[n], kind="stable")
        return [
            {
                "class": labels[d],
                "score": float(self.score[n, d]),
                "probability": float(self.probability[n, d]),
                **self._path(n, int(d)),
            }
            for d in order
        ]

    def _path(self, n: int, d: int) -> dict[str, Any]:
        """Return the unit, feature and wall that determine a score."""
        path = self.paths
        if path is None:
            return {}
        assert isinstance(self.model, LMM)
        unit, row, feature = (int(a[n, d]) for a in (path.unit, path.row, path.feature))
        slope, offset = float(self.model.W0[row]), float(self.model.W1[row, unit])
        runner_up = int(path.runner_up[n, d])
        return {
            "unit": unit,
            "feature": self.names[feature],
            "feature_index": feature,
            "value": float(self.X[n, feature]),
            # The zero of the active line of the unit, which is one side of its box.
            "wall": None if slope == 0.0 else -offset / slope,
            "slope": slope,
            "runner_up": None if runner_up < 0 else runner_up,
            "margin": None if runner_up < 0 else float(path.margin[n, d]),
        }

    def reasons(self, n: int, labels: Sequence[str]) -> dict[str, Any] | None:
        """Return the contributions to the margin in row n; None for a single network."""
        if self.found is None:
            return None
        return {
            "rival": labels[self.found.rival[n]],
            "margin": float(self.found.margin[n]),
            "baseline": float(self.found.baseline[n]),
            "amounts": self.found.contribution[n].tolist(),
        }

    def groups(self) -> dict[str, Any] | None:
        """Return the groups of columns with contributions, their terms and mean scores."""
        if self.found is None or self.means is None:
            return None
        assert isinstance(self.model, AdditiveLMM)
        _, group_of = groups_of(self.model, columns_of(self.domain))
        return {
            "groups": [
                {
                    "name": name,
                    "features": list(columns),
                    "terms": np.flatnonzero(group_of == g).tolist(),
                }
                for g, (name, columns) in enumerate(
                    zip(self.found.group_names, self.found.groups, strict=True)
                )
            ],
            "means": np.asarray(self.means, np.float64).tolist(),
        }


# Maximum numbers of rows for distributions and importances, of curves, and of surfaces.
MOST_DRAWN, MOST_CURVES, MOST_SURFACES = 2_000, 9, 4
# A column with at most this many values is drawn value by value.
MAX_LEVELS = 8
# Numbers between these quantiles are drawn, so that an outlier does not compress a curve.
SHOWN = 0.01, 0.99
N_POINTS, N_BINS, N_CELLS = 41, 24, 32
# Pixels of a drawing: the plot from left to right and from top to bottom, and the bars below it.
LEFT, RIGHT, TOP, BOTTOM, BARS = 40.0, 272.0, 8.0, 104.0, 128.0
# Characters that fit left of a surface.
MOST_LETTERS = 6
# Okabe-Ito colours and grey: distinguishable in light and dark mode and with colour blindness.
COLOURS = ("0072b2", "d55e00", "009e73", "e69f00", "cc79a7", "56b4e9", "888888")


class _Axis(NamedTuple):
    """Axis of a column: rows with its values, their positions in [0, 1] and the tick labels."""

    rows: NDArray
    position: NDArray
    labels: list[str]
    is_levels: bool


def shape_drawings(
    model: AdditiveLMM, X: NDArray, means: NDArray, domain: Domain, classes: Sequence[Any]
) -> dict[str, Any] | None:
    """Return plots of the most important columns and pairs of columns, or None.

    For two classes the curve is z_1 − z_0; for more, the score of each class minus the mean of all
    classes. Scores are centred over the training rows. All curves share one scale.

    Parameters
    ----------
    model : AdditiveLMM
    X : array of shape (N, P), N >= 1, for distributions and importances
    means : array of shape (T, C), mean scores of the terms
    domain : Domain, the columns
    classes : C labels
    """
    found = contributions(model, X, means, domain=domain)
    size = np.abs(found.contribution).mean(axis=0)
    ranked = [found.groups[g] for g in np.argsort(-size, kind="stable") if size[g] > 0.0]
    singles = [group for group in ranked if len(group) == 1]
    pairs = [group for group in ranked if len(group) == 2]
    curves = [_curve(model, found, means, group) for group in singles[:MOST_CURVES]]
    surfaces = [_surface(model, found, means, group) for group in pairs[:MOST_SURFACES]]
    if not curves and not surfaces:
        return None
    reach = max((float(np.abs(values).max()) for _, _, values in curves), default=0.0) or 1.0
    depth = max((float(np.abs(values).max()) for *_, values in surfaces), default=0.0) or 1.0
    return {
        "is_binary": len(classes) == 2,
        "colours": [f"#{COLOURS[d % len(COLOURS)]}" for d in range(len(classes))],
        "curves": [_curve_data(domain, X, one, reach) for one in curves],
        "surfaces": [_surface_data(domain, one, depth) for one in surfaces],
        "reach": short(float(f"{reach:.2g}")),
        "n_more": max(0, len(singles) - MOST_CURVES) + max(0, len(pairs) - MOST_SURFACES),
        "n_larger": sum(len(group) > 2 for group in ranked),
    }


def _features_of(domain: Domain, column: int) -> list[int]:
    """Return the features of a column, except its missing-value indicator."""
    columns, indicators = columns_of(domain), set(domain.indicators.values())
    return [int(p) for p in np.flatnonzero(columns == column) if int(p) not in indicators]


def _axis(model: AdditiveLMM, domain: Domain, X: NDArray, column: int, n_points: int) -> _Axis:
    """Return the axis of a column: its levels if there are few, else points in an interval."""
    features = _features_of(domain, column)
    if domain.category_of[column] >= 0:
        category = domain.categories[domain.category_of[column]]
        share = X[:, list(category.features)].mean(axis=0)
        shown = np.sort(np.argsort(-share, kind="stable")[:MAX_LEVELS])
        rows = np.zeros((len(shown), domain.n_features))
        rows[np.arange(len(shown)), np.array(category.features)[shown]] = 1.0
        labels = [str(category.words[k]) for k in shown]
        return _Axis(rows, (np.arange(len(shown)) + 0.5) / len(shown), labels, True)
    (p,) = features
    levels = np.unique(X[:, p])
    if levels.size <= MAX_LEVELS:
        rows = np.zeros((levels.size, domain.n_features))
        rows[:, p] = levels
        labels = [domain.number(p, float(f"{v:.4g}")).strip("'") for v in levels]
        return _Axis(rows, (np.arange(levels.size) + 0.5) / levels.size, labels, True)
    low, high = np.quantile(X[:, p], SHOWN)
    if not low < high:
        low, high = levels[0], levels[-1]
    x = np.linspace(low, high, n_points)
    if n_points == N_POINTS:
        knots = shape_function(model, p).x
        x = np.unique(np.concatenate([x, knots[(knots > low) & (knots < high)]]))
    rows = np.zeros((x.size, domain.n_features))
    rows[:, p] = x
    return _Axis(rows, (x - low) / (high - low), [short(low), short(high)], False)


def _scores(
    model: AdditiveLMM, found: Contributions, means: NDArray, group: tuple[int, ...], rows: NDArray
) -> NDArray:
    """Return z_1 − z_0, (n, 1), or all centred scores, (n, C), of the terms over some columns."""
    _, group_of = groups_of(model, columns_of(found.domain))
    U = model.mapped(rows)
    scores = np.zeros((len(U), model.n_classes))
    for t in np.flatnonzero(group_of == found.groups.index(group)):
        features, lmm = model.terms[t]
        scores += lmm.scores(U[:, features]) - means[t]
    if model.n_classes == 2:
        return scores[:, 1:] - scores[:, :1]
    return scores - scores.mean(axis=1, keepdims=True)


def _curve(
    model: AdditiveLMM, found: Contributions, means: NDArray, group: tuple[int, ...]
) -> tuple[int, _Axis, NDArray]:
    axis = _axis(model, found.domain, found.X, group[0], N_POINTS)
    return group[0], axis, _scores(model, found, means, group, axis.rows)


def _surface(
    model: AdditiveLMM, found: Contributions, means: NDArray, group: tuple[int, ...]
) -> tuple[tuple[int, ...], list[_Axis], NDArray]:
    across, up = (_axis(model, found.domain, found.X, column, N_CELLS) for column in group)
    rows = across.rows[None] + up.rows[:, None]
    values = _scores(model, found, means, group, rows.reshape(-1, rows.shape[2]))
    return group, [across, up], values.reshape(*rows.shape[:2], -1)


def _curve_data(
    domain: Domain, X: NDArray, curve: tuple[int, _Axis, NDArray], reach: float
) -> dict[str, Any]:
    column, axis, values = curve
    x = LEFT + (RIGHT - LEFT) * axis.position
    y = (TOP + BOTTOM) / 2 - (BOTTOM - TOP) / 2 * values / reach
    if axis.is_levels:
        features = _features_of(domain, column)
        same = (X[:, None, features] == axis.rows[None][:, :, features]).all(axis=2)
        counts, width = same.sum(axis=0), 0.4 * (RIGHT - LEFT) / len(x)
        left = x - width / 2
    else:
        p = _features_of(domain, column)[0]
        ends = axis.rows[[0, -1], p]
        counts, edges = np.histogram(X[:, p], bins=N_BINS, range=tuple(ends))
        width = (RIGHT - LEFT) / N_BINS
        left = LEFT + (RIGHT - LEFT) * (edges[:-1] - ends[0]) / (ends[1] - ends[0])
    height = 20.0 * counts / max(1, counts.max())
    name = domain.column_names[column]
    return {
        "name": name,
        "is_levels": axis.is_levels,
        "words": axis.labels,
        "places": [round(float(v), 1) for v in x] if axis.is_levels else [LEFT, RIGHT],
        "lines": [" ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, own, strict=True)) for own in y.T],
        "dots": [
            [(round(float(a), 1), round(float(b), 1)) for a, b in zip(x, own, strict=True)]
            for own in y.T
        ]
        if axis.is_levels
        else [],
        "bars": [
            (round(float(a), 1), round(BARS - float(h), 1), round(float(h), 1))
            for a, h in zip(left, height, strict=True)
            if h > 0
        ],
        "bar_width": round(float(width), 1),
        "alt": _curve_text(axis, values),
    }


def _curve_text(axis: _Axis, values: NDArray) -> str:
    """Return a description of a curve for screen readers."""
    if values.shape[1] > 1:
        return f"from {axis.labels[0]} to {axis.labels[-1]}, a line for each class"
    if axis.is_levels:
        return ", ".join(
            f"{label}: {short(v)}" for label, v in zip(axis.labels, values[:, 0], strict=True)
        )
    first, last = short(values[0, 0]), short(values[-1, 0])
    return f"{first} at {axis.labels[0]}, {last} at {axis.labels[-1]}"


def _surface_data(
    domain: Domain, surface: tuple[tuple[int, ...], list[_Axis], NDArray], depth: float
) -> dict[str, Any]:
    group, axes, values = surface
    if values.shape[2] == 1:
        lead, which = values[..., 0] / depth, (values[..., 0] > 0).astype(int)
    else:
        ordered = np.sort(values, axis=2)
        lead, which = (ordered[..., -1] - ordered[..., -2]) / depth, values.argmax(axis=2)
    colours = np.array([list(bytes.fromhex(colour)) for colour in COLOURS], np.uint8)
    alpha = np.round(255 * np.sqrt(np.clip(np.abs(lead), 0.0, 1.0))).astype(np.uint8)
    pixels = np.dstack([colours[which % len(COLOURS)], alpha])[::-1]
    names = [domain.column_names[p] for p in group]
    return {
        "name": " × ".join(names),
        "across": {"name": names[0], "ends": [axes[0].labels[0], axes[0].labels[-1]]},
        "up": {"name": names[1], "ends": [axes[1].labels[k][:MOST_LETTERS] for k in (0, -1)]},
        "image": "data:image/png;base64," + base64.b64encode(_png(pixels)).decode("ascii"),
    }


def _png(pixels: NDArray) -> bytes:
    """Encode an RGBA image, a uint8 array of shape (height, width, 4), as PNG."""
    height, width = pixels.shape[:2]

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    lines = b"".join(b"\0" + line.tobytes() for line in np.ascontiguousarray(pixels))
    head = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(lines, 9))
        + chunk(b"IEND", b"")
    )
