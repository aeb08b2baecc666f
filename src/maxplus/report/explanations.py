"""Explanations of rows for the explorer, and drawings of shape functions."""

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
    """Scores and probabilities of N rows, and what decided them.

    Of a single network that is a wall for each class; of a sum of terms, the contributions of
    columns to the margin of the predicted class over the next one.

    Parameters
    ----------
    model : LMM or AdditiveLMM
    X : array of shape (N, P)
    feature_names : P words
    domain : Domain, the columns that contributions are of
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
        # In float64 whatever the scores' type, as the page does it.
        self.probability = special.softmax(self.score.astype(np.float64), axis=1)
        self.paths = self.found = None
        if isinstance(model, LMM):
            self.paths = decisive_paths(model, X)
        elif means is not None:
            self.found = contributions(model, X, means, domain=domain)
        self.means, self.domain = means, domain

    def classes(self, n: int, labels: Sequence[str]) -> list[dict[str, Any]]:
        """Return all classes of row n, the highest score first."""
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
        """Return the unit, feature and wall that set a score."""
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
            # The zero of the unit's line: one side of its box.
            "wall": None if slope == 0.0 else -offset / slope,
            "slope": slope,
            "runner_up": None if runner_up < 0 else runner_up,
            "margin": None if runner_up < 0 else float(path.margin[n, d]),
        }

    def reasons(self, n: int, labels: Sequence[str]) -> dict[str, Any] | None:
        """Return contributions to the lead over the next class in row n, of a sum of terms."""
        if self.found is None:
            return None
        return {
            "rival": labels[self.found.rival[n]],
            "margin": float(self.found.margin[n]),
            "baseline": float(self.found.baseline[n]),
            "amounts": self.found.contribution[n].tolist(),
        }

    def groups(self) -> dict[str, Any] | None:
        """Return the columns that contributions are of, with their terms and mean scores."""
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


# Rows that distributions and importances are taken from, and drawings at most.
MOST_DRAWN, MOST_CURVES, MOST_SURFACES = 2_000, 9, 4
# A column with at most this many values is drawn value by value.
MAX_LEVELS = 8
# Numbers between these quantiles are drawn, so that an outlier does not compress a curve.
SHOWN = 0.01, 0.99
N_POINTS, N_BINS, N_CELLS = 41, 24, 32
# Pixels of a drawing: the plot from left to right and from top to bottom, and the bars below it.
LEFT, RIGHT, TOP, BOTTOM, BARS = 40.0, 272.0, 8.0, 104.0, 128.0
# Letters that fit left of a surface.
MOST_LETTERS = 6
# Blue, vermilion, green, orange, purple, sky, grey: told apart in light, in dark, and by most eyes.
COLOURS = ("0072b2", "d55e00", "009e73", "e69f00", "cc79a7", "56b4e9", "888888")


class _Axis(NamedTuple):
    """Values of a column to draw: rows with these in its features, places in 0..1 and words."""

    rows: NDArray
    place: NDArray
    words: list[str]
    is_levels: bool


def shape_drawings(
    model: AdditiveLMM, X: NDArray, means: NDArray, domain: Domain, classes: Sequence[Any]
) -> dict[str, Any] | None:
    """Return drawings of the most important columns and pairs of columns; None if there are none.

    Of two classes the curve is z_1 − z_0, of several each class less the mean of all; scores are
    centred over the training rows. All curves have one scale.

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
        "curves": [_drawn_curve(domain, X, one, reach) for one in curves],
        "surfaces": [_drawn_surface(domain, one, depth) for one in surfaces],
        "reach": short(float(f"{reach:.2g}")),
        "n_more": max(0, len(singles) - MOST_CURVES) + max(0, len(pairs) - MOST_SURFACES),
        "n_larger": sum(len(group) > 2 for group in ranked),
    }


def _features_of(domain: Domain, column: int) -> list[int]:
    """Return the features of a column without the indicator of a missing value."""
    columns, indicators = columns_of(domain), set(domain.indicators.values())
    return [int(p) for p in np.flatnonzero(columns == column) if int(p) not in indicators]


def _axis(model: AdditiveLMM, domain: Domain, X: NDArray, column: int, n_points: int) -> _Axis:
    """Return what to draw of a column: its words or few values, else points of an interval."""
    features = _features_of(domain, column)
    if domain.category_of[column] >= 0:
        category = domain.categories[domain.category_of[column]]
        share = X[:, list(category.features)].mean(axis=0)
        shown = np.sort(np.argsort(-share, kind="stable")[:MAX_LEVELS])
        rows = np.zeros((len(shown), domain.n_features))
        rows[np.arange(len(shown)), np.array(category.features)[shown]] = 1.0
        words = [str(category.words[k]) for k in shown]
        return _Axis(rows, (np.arange(len(shown)) + 0.5) / len(shown), words, True)
    (p,) = features
    levels = np.unique(X[:, p])
    if levels.size <= MAX_LEVELS:
        rows = np.zeros((levels.size, domain.n_features))
        rows[:, p] = levels
        words = [domain.number(p, float(f"{v:.4g}")).strip("'") for v in levels]
        return _Axis(rows, (np.arange(levels.size) + 0.5) / levels.size, words, True)
    low, high = np.quantile(X[:, p], SHOWN)
    if not low < high:
        low, high = levels[0], levels[-1]
    x = np.linspace(low, high, n_points)
    if n_points == N_POINTS:
        bends = shape_function(model, p).x
        x = np.unique(np.concatenate([x, bends[(bends > low) & (bends < high)]]))
    rows = np.zeros((x.size, domain.n_features))
    rows[:, p] = x
    return _Axis(rows, (x - low) / (high - low), [short(low), short(high)], False)


def _scores(
    model: AdditiveLMM, found: Contributions, means: NDArray, group: tuple[int, ...], rows: NDArray
) -> NDArray:
    """Return z_1 − z_0 of the terms over a group of columns, (n, 1), or of all classes, (n, C)."""
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


def _drawn_curve(
    domain: Domain, X: NDArray, curve: tuple[int, _Axis, NDArray], reach: float
) -> dict[str, Any]:
    column, axis, values = curve
    x = LEFT + (RIGHT - LEFT) * axis.place
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
        "words": axis.words,
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
        "alt": _words(axis, values),
    }


def _words(axis: _Axis, values: NDArray) -> str:
    """Return a description of a curve for screen readers."""
    if values.shape[1] > 1:
        return f"from {axis.words[0]} to {axis.words[-1]}, a line for each class"
    if axis.is_levels:
        return ", ".join(f"{w}: {short(v)}" for w, v in zip(axis.words, values[:, 0], strict=True))
    first, last = short(values[0, 0]), short(values[-1, 0])
    return f"{first} at {axis.words[0]}, {last} at {axis.words[-1]}"


def _drawn_surface(
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
        "across": {"name": names[0], "ends": [axes[0].words[0], axes[0].words[-1]]},
        "up": {"name": names[1], "ends": [axes[1].words[k][:MOST_LETTERS] for k in (0, -1)]},
        "image": "data:image/png;base64," + base64.b64encode(_png(pixels)).decode("ascii"),
    }


def _png(pixels: NDArray) -> bytes:
    """Return an image of shape (height, width, 4) of bytes, red, green, blue and alpha, as PNG."""
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
