"""The smallest change of a few columns together that flips a prediction."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.explain._checks import as_additive, check_class_names, check_model
from maxplus.explain.additive_change import AdditiveChangeSearch, Found
from maxplus.explain.crossings import ROUNDINGS, TermCrossings
from maxplus.explain.digits import rounded_away
from maxplus.explain.domain import Domain
from maxplus.explain.flips import single_flips
from maxplus.models import LMM, AdditiveLMM
from maxplus.models._checks import as_row

# Printed numbers have a tenth of a unit, or as many digits more as they need.
DIGITS = range(1, 13)


class Change(NamedTuple):
    """Columns that change together: ``feature[j]`` takes ``value[j]``, as in `Flips`.

    Then the class is ``becomes``. ``distance`` is the sum of the columns' distances in units;
    none of so few columns is nearer than ``at_least``, which is the same, up to rounding,
    unless time ran out. ``row`` is the changed row for people: its numbers have few digits and
    are no nearer, and the model predicts ``becomes``; ``text`` says it in words. Where nothing
    flips, ``feature`` is empty, ``becomes`` −1 and ``distance`` infinite.
    """

    feature: NDArray
    value: NDArray
    becomes: int
    distance: float
    at_least: float
    row: NDArray
    text: str

    def __str__(self) -> str:
        """Return the change in words."""
        return self.text


def smallest_change(
    model: LMM | AdditiveLMM,
    x: ArrayLike,
    domain: Domain,
    n_columns: int = 2,
    *,
    class_names: Sequence[str] | None = None,
    seconds: float = 60.0,
) -> Change:
    """The nearest change of at most ``n_columns`` columns with which another class wins.

    Class d ≠ y wins if Σ_t (v_t − q_t) > 0, where v_t is at most the score of d in term t, and q_t
    at least that of y: one unit h has all rows above v_t, and each unit h' has a row below q_t,

        v_t ≤ r_i(h) + W2[h, d] for all i,    r_i(h') + W2[h', y] ≤ q_t for some i,

    where r_i(h) = W0[i]·φ(x)[i // 2] + W1[i, h]. "Some" is a switch for each (h', i), and so are
    h, the segments of φ, the columns that move and the words that they take. Terms over one
    feature need no units: their sum is piecewise linear, too. Minimising the sum of distances is
    then a mixed-integer linear programme for each class d, of which only those switches are
    formed that can matter nearer than the nearest change that is known. HiGHS solves it, with a
    bound that proves that nothing is nearer. So it is exact, but for wins by less than a
    millionth of what the scores can move. The time is exponential in the worst case: a
    problem of more than 5,000 switches is refused, and one that takes more than ``seconds`` ends
    with ``at_least`` < ``distance``.

    Parameters
    ----------
    model : LMM or AdditiveLMM
    x : array of shape (P,)
    domain : Domain
        With finite limits, unless a single column flips x.
    n_columns : int
    class_names : C words, for the text; the classes' numbers by default
    seconds : float

    Returns
    -------
    Change

    Examples
    --------
    >>> from maxplus.explain import Domain, smallest_change
    >>> from maxplus.models import LMM, AdditiveLMM
    >>> model = LMM.of_boxes([[0.0, 0.0], [2.0, 2.0]], 0.5, [[0.0, -4.0], [-4.0, 0.0]], 1.0)
    >>> domain = Domain.free(2).within(-3.0, 3.0)
    >>> smallest_change(model, [0.1, 0.2], domain, n_columns=2).becomes
    1
    """
    check_model(model)
    row = as_row(x, model.n_features, np.float64)
    if n_columns < 1:
        raise ValueError(f"n_columns must be at least 1; got {n_columns}")
    names = range(model.n_classes) if class_names is None else class_names
    check_class_names(names, model)
    y = int(model.scores(row[None]).argmax())
    single = single_flips(model, row[None], domain)
    if single.feature[0] >= 0:
        found = Found(single.feature, single.value, float(single.distance[0]))
        best = _change(model, row, y, domain, found, names)
    else:
        best = _nothing(row)
    if n_columns == 1 or best.distance == 0.0:
        return best
    reach = best.distance if best.feature.size else n_columns * _farthest(row, domain)
    lines = TermCrossings(as_additive(model))
    slack = ROUNDINGS * lines.rounding(np.abs(row) + reach * domain.unit)
    exact = as_additive(model).astype(np.float64)
    end, at_least = monotonic() + seconds, np.inf
    for d in np.argsort(-exact.scores(row[None])[0], kind="stable").tolist():
        if d == y:
            continue
        search = AdditiveChangeSearch(exact, row, y, d, domain)
        if not search.build(n_columns, min(reach, best.distance), slack):
            continue
        optimum = search.programme.solve(max(1.0, end - monotonic()))
        at_least = min(at_least, optimum.at_least)
        if optimum.values is not None:
            several = _change(model, row, y, domain, search.read(optimum.values), names)
            best = min(best, several, key=lambda change: change.distance)
    return best._replace(at_least=min(at_least, best.distance))


def _farthest(x: NDArray, domain: Domain) -> float:
    """The largest distance of a column; ValueError if there is none."""
    moves = domain.is_free | domain.is_long
    ends = np.maximum(domain.high - x, x - domain.low) / domain.unit
    feature, value = domain.candidates
    listed = domain.distances(x, domain.changed(x, feature, value))
    farthest = max(ends[moves].max(initial=0.0), listed.max(initial=0.0))
    if not np.isfinite(farthest):
        p = int(np.flatnonzero(moves & ~np.isfinite(ends))[0])
        raise ValueError(
            f"domain must have limits where no single column flips the row; "
            f"{domain.names[p]!r} has none (give low and high)"
        )
    return float(farthest)


def _after(x: NDArray, domain: Domain, feature: NDArray, value: NDArray) -> NDArray:
    """Row x after all changes."""
    for p, v in zip(feature.tolist(), value.tolist(), strict=True):
        x = domain.changed(x, p, v)[0]
    return x


def _nothing(x: NDArray) -> Change:
    text = "no change of so few columns flips it"
    return Change(np.empty(0, int), np.empty(0), -1, np.inf, np.inf, x, text)


def _change(
    model: LMM | AdditiveLMM,
    x: NDArray,
    y: int,
    domain: Domain,
    found: Found,
    class_names: Sequence[Any],
) -> Change:
    """What was found with its class, and its numbers with the fewest digits that still flip."""
    feature, value, distance = found
    row = _after(x, domain, feature, value)
    becomes = int(model.scores(row[None]).argmax())
    if becomes == y:  # the model's own rounding hides it
        return _nothing(x)
    free = np.flatnonzero(domain.is_free[feature])
    for digits in DIGITS:
        shown = value.copy()
        for j in free.tolist():
            step = int(np.floor(np.log10(domain.unit[feature[j]]))) - digits
            shown[j] = rounded_away(float(value[j]), float(x[feature[j]]), step)
        tried = _after(x, domain, feature, shown)
        inside = (shown >= domain.low[feature]) & (shown <= domain.high[feature])
        if inside[free].all() and model.scores(tried[None]).argmax() == becomes:
            row = tried
            break
    moves = [
        f"{domain.column_names[p]} goes from {domain.text(x, p)} to "
        f"{domain.text(row, p, exact=True)}"
        for p in feature.tolist()
    ]
    text = f"flips to {class_names[becomes]} if " + " and ".join(moves)
    return Change(feature, value, becomes, distance, distance, row, text)
