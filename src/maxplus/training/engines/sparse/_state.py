"""What the sparse engine keeps, grouped by idea.

Sizes: K chunks of B lanes (samples of one class), P features, H units, C
classes; F is the model's float type. The last chunk of a class may
have padding lanes.
"""

from typing import NamedTuple

import numpy as np

# "No row" and "no unit".
NONE = -1
# "No sample" where the lowest one wins.
NOBODY = np.iinfo(np.int64).max
# Changed rows a unit remembers; a chunk that missed more scans the unit afresh.
LOG_SIZE = 4096
# Iterations whose events are remembered if each steps on one sample; a chunk that
# missed more is rebuilt.
RING = 512


class Samples(NamedTuple):
    """The training set, by rows and by chunks."""

    X: np.ndarray  # (N, P) F
    y: np.ndarray  # (N,)
    columns: np.ndarray  # (K, P, B) F: each feature of a chunk, contiguous
    low: np.ndarray  # (K, P) F: each feature's range in the chunk
    high: np.ndarray
    sample: np.ndarray  # (K, B): the lane's sample; padding repeats the last one
    lanes: np.ndarray  # (K,): lanes that are not padding
    label: np.ndarray  # (K,): the class of the chunk
    x_min: np.ndarray  # (P,): each feature's range over all samples
    x_max: np.ndarray


class Minima(NamedTuple):
    """Per (chunk, unit, lane): the smallest row as far as it is known.

    ``g`` is the value of row ``a``; every other row has at least the value
    ``g2``, and ``a2``, if it is not NONE, attains it. So the minimum is exactly
    g when g ≤ g2, and lies in [g2, g] otherwise.
    """

    g: np.ndarray  # (K, H, B) F
    g2: np.ndarray
    a: np.ndarray  # (K, H, B) row numbers
    a2: np.ndarray
    seen: np.ndarray  # (K, H): how much of the unit's log has been replayed
    raise_seen: np.ndarray  # (K, H): the unit's cumulative raise at that time
    g_max: np.ndarray  # (K, H) F: largest g of the chunk's lanes at the last replay
    cap: np.ndarray  # (K, H) F: no g or g2 of the chunk's lanes was above this then


class RowLog(NamedTuple):
    """Per unit: which rows changed, in order, and by how much they can have risen."""

    row: np.ndarray  # (H, LOG_SIZE), a ring
    n: np.ndarray  # (H,): entries ever written
    last: np.ndarray  # (H, 2P): number of the row's latest entry
    raised: np.ndarray  # (H,): sum over all steps of the largest rise of a row


class Lift(NamedTuple):
    """How far each unit's rows, and each class's score, have risen and fallen.

    Time is cut into epochs. Within one, a unit's lift is the largest net rise of
    one of its rows since the epoch began, not the sum of all; epochs add up. So
    since the beginning of an epoch a unit has risen by no more than its present
    lift less its lift then. Chunks remember the latter at a visit, less what the
    unit had fallen within the epoch until the visit, and W2.
    """

    now: np.ndarray  # (2, H): rise and fall
    begin: np.ndarray  # (2, H): when the present epoch began
    epoch: np.ndarray  # (H, 2P): the row's latest epoch, and its value at the
    value: np.ndarray  # (H, 2P) F: first change in it
    seen: np.ndarray  # (K, 2, H): where to count from since the chunk's last visit
    W2T: np.ndarray  # (K, C, H) F: the weights at the chunk's last visit
    top: np.ndarray  # (K, H): bound on the unit's minima at the chunk's last visit
    floor: np.ndarray  # (K, C): lowest of the lanes' bounds on the class's score then
    lowest: np.ndarray  # (W, C): lowest floor that a worker has remembered
    reach: np.ndarray  # (H,): no minimum of a unit is above this plus `RowLog.raised`
    rise: np.ndarray  # (C,): sums of all rises and falls that a step can
    fall: np.ndarray  # (C,)  have brought a class's score, and what
    rise_seen: np.ndarray  # (K, C): they were at the chunk's last visit
    fall_seen: np.ndarray  # (K,)
    share: np.ndarray  # (K, C): the largest part that a class had in a lane's 1 + odds then


class Maxima(NamedTuple):
    """Per (chunk, class, lane): the two leading units and a bound on all others.

    For the chunk's own class ``lead`` and ``second`` bound the two units' scores
    from below. For wrong classes max(lead, rest) and max(second, rest) bound them
    from above: a rise that stays below all of rest is not merged. lead ≥ second.
    ``rest`` bounds every other unit's score from above. When a leader falls, the
    next one is known by name, and nobody has to look at all units again.
    """

    lead: np.ndarray  # (K, C, B) F
    unit: np.ndarray  # (K, C, B)
    second: np.ndarray  # (K, C, B) F
    unit2: np.ndarray  # (K, C, B)
    rest: np.ndarray  # (K, C, B) F
    rest_min: np.ndarray  # (K, C) F: not above any lane's rest
    leads_own: np.ndarray  # (K, H): whether the unit may lead a lane of the own class


# Iterations of an epoch (see `Lift`).
EPOCH = 16
# Columns of the rings in `Events`.
MERGES, ROWS, SLOPES = 0, 1, 2
MERGE_UNIT, MERGE_CLASS, MERGE_NOW, ROW_UNIT, ROW_INDEX, ROW_ROSE, SLOPE_ROW = range(7)
MERGE_OLD, ROW_OLD, SLOPE_CHANGE = range(3)


class Events(NamedTuple):
    """A ring over iterations: what moved, for chunks that look later.

    An iteration has up to E entries, C for each sample that it steps on, of W2
    (MERGE_…: unit, class, whether every chunk must take notice, old value), of W1
    (ROW_…: unit, row, whether it rose, old value) and of W0 (SLOPE_…: row, change).
    The more samples, the fewer iterations R: a chunk is rebuilt after about as many entries.
    """

    n: np.ndarray  # (R, 3): how many of each
    number: np.ndarray  # (R, 7, E)
    value: np.ndarray  # (R, 3, E)
    fall: np.ndarray  # (H, C): small falls of W2 that no merge has been asked for yet


def ring_length(n_samples: int) -> int:
    """Iterations that the ring holds if each steps on so many samples; a power of two."""
    return 1 << max(1, (RING // n_samples).bit_length() - 1)


class Search(NamedTuple):
    """Bounds on losses: of lanes, of chunks, and trees over the chunks.

    A chunk's loss is at most key + growth[label]; the keys are leaves of one
    tree per (worker, class), so all chunks of a class grow by one addition.
    """

    odds: np.ndarray  # (K, B) float32: bound on exp(loss) − 1; −1 when resolved
    visited: np.ndarray  # (K,): iteration of the last visit
    base: np.ndarray  # (K,): bound on the chunk's losses then
    narrowed: np.ndarray  # (K,): iteration in which the key was last narrowed
    worst: np.ndarray  # (K,): largest resolved loss of the iteration
    refreshed: np.ndarray  # (K, C): iteration of the last refresh
    leaf: np.ndarray  # (K,): the chunk's leaf
    chunk: np.ndarray  # (W, C, leaves): the leaf's chunk, or NONE
    keys: np.ndarray  # (W, C, nodes)
    offsets: np.ndarray
    growth: np.ndarray  # (C,)


class Worst(NamedTuple):
    """The k worst samples that a search has found: each worker's, and of all.

    A worker has k places. Their order is kept beside them: a heap with the mildest
    sample on top during the search, the worst sample first after it.
    """

    threshold: np.ndarray  # (8·W,): each worker's k-th and (k / W)-th largest loss, a line apart
    share: np.ndarray  # (W, k / W): its largest losses so far, a heap with the least on top
    heap: np.ndarray  # (W, k): places in order
    loss: np.ndarray  # (W, k)
    sample: np.ndarray  # (W, k)
    seat: np.ndarray  # (W, k, 2): chunk and lane
    scores: np.ndarray  # (W, k, C) F
    taken: np.ndarray  # (W,): how many of a worker's are among the k worst of all
    rank: np.ndarray  # (k, 2): worker and place of the k worst of all, worst first


class Total(NamedTuple):
    """A sum of samples' subgradients: each layer's entries as they first appeared.

    Rows and columns are those of the transposed weights: (slope, 0), (unit, row),
    (class, unit). The place of an entry that has not appeared is NONE.
    """

    n: np.ndarray  # (3,): how many entries of each layer
    row: np.ndarray  # (3, E)
    column: np.ndarray  # (3, E)
    value: np.ndarray  # (3, E)
    place0: np.ndarray  # (2P, 1)
    place1: np.ndarray  # (H, 2P)
    place2: np.ndarray  # (C, H)


class Scale(NamedTuple):
    """Magnitudes that bounds are made with."""

    noise: np.ndarray  # (1,): more than any rounding error of a score
    largest: np.ndarray  # (3,): largest weight of each layer so far, in absolute value
    x_largest: float  # largest input in absolute value
    eps: float  # of the float type
    small: float  # a fall of W2 that wrong classes need not hear of
    small_rise: float  # rises of a unit that wrong classes need not know exactly
    margin: float  # how far below the top a refresh looks first


class Scratch(NamedTuple):
    """Room that each worker has for itself."""

    lam: np.ndarray  # (W, 2P) F
    bound: np.ndarray  # (W, H) F
    chosen: np.ndarray  # (W, H): units to be merged
    z: np.ndarray  # (W, C) F: a lane's scores, and which of them are exact
    known: np.ndarray  # (W, C)
    odds: np.ndarray  # (W, B) float32
    shift: np.ndarray  # (W, 4, B) F: what moved slopes can do to a lane: up, down, of one step
    reach: np.ndarray  # (W, 2, H): rise and fall of a unit's rows,
    change: np.ndarray  # (W, 2, C): of a class's score
    unit_mark: np.ndarray  # (W, H): number of the visit that dealt with the unit,
    pair_mark: np.ndarray  # (W, H, C): the unit in this class
    # (W, 8): marks given, and for whoever measures: visits, lanes looked at, refreshes,
    # scans of single lanes, narrowed chunks.
    counts: np.ndarray
