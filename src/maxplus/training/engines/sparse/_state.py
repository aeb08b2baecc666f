"""What the sparse engine keeps, grouped by idea: every array is declared here, once.

A declaration gives the shape in the letters of `Sizes` (K chunks of B lanes, P features,
H units, C classes, W workers, …), the type (F is the model's float type, ROW holds row
numbers) and the first value, if there is one. A chunk's lanes are samples of one class;
the last chunk of a class may have padding lanes.
"""

from typing import NamedTuple, get_type_hints

import numpy as np

from maxplus.models._lmm_kernels import LMMGradient, LMMWeights
from maxplus.training.engines.sparse._fields import Array, field

F, ROW = "F", "ROW"
INT, REAL = np.int64, np.float64
INF = np.inf

# "No row" and "no unit".
NONE = -1
# "No sample" where the lowest one wins.
NOBODY = np.iinfo(np.int64).max
# Changed rows a unit remembers; a chunk that missed more scans the unit afresh.
LOG_SIZE = 4096
# Iterations of an epoch (see `Lift`).
EPOCH = 16


class Samples(NamedTuple):
    """The training set, by rows and by chunks."""

    X: Array  # (N, P) F and
    y: Array  # (N,), the problem's own
    columns: Array = field("K P B", F)  # each feature of a chunk, contiguous
    low: Array = field("K P", F)  # each feature's range in the chunk
    high: Array = field("K P", F)
    sample: Array = field("K B", INT)  # the lane's sample; padding repeats the last one
    lanes: Array = field("K", INT)  # lanes that are not padding
    label: Array = field("K", INT)  # the class of the chunk
    worker: Array = field("K", INT)  # who searches it
    x_min: Array = field("P", REAL)  # each feature's range over all samples
    x_max: Array = field("P", REAL)


class Minima(NamedTuple):
    """Per (chunk, unit, lane): the smallest row as far as it is known.

    ``g`` is the value of row ``a``; every other row has at least the value
    ``g2``, and ``a2``, if it is not NONE, attains it. So the minimum is exactly
    g when g ≤ g2, and lies in [g2, g] otherwise.
    """

    g: Array = field("K H B", F)
    g2: Array = field("K H B", F)
    a: Array = field("K H B", ROW)
    a2: Array = field("K H B", ROW)
    seen: Array = field("K H", INT, 0)  # how much of the unit's log has been replayed
    raised_seen: Array = field("K H", REAL, 0)  # `RowLog.raised` at that time
    g_max: Array = field("K H", F)  # largest g of the chunk's lanes at the last replay
    cap: Array = field("K H", F)  # no g or g2 of the chunk's lanes was above this then


class RowLog(NamedTuple):
    """Per unit: which rows changed, in order, and by how much they can have risen."""

    # A ring; −1 where a later entry is about the same row.
    row: Array = field(f"H {LOG_SIZE}", np.int32)
    offset: Array = field(f"H {LOG_SIZE}", F)  # the row's, W1T[h, row], as it is now
    n: Array = field("H", INT, 0)  # entries ever written
    last: Array = field("H 2P", INT, NONE)  # number of the row's latest entry
    raised: Array = field("H", REAL, 0)  # sum over all steps of the largest rise of a row


class Lift(NamedTuple):
    """How far each unit's rows, and each class's score, have risen and fallen.

    Time is cut into epochs. Within one, a unit's lift is the largest net rise of
    one of its rows since the epoch began, not the sum of all; epochs add up. So
    since the beginning of an epoch a unit has risen by no more than its present
    lift less its lift then. Chunks remember the latter at a visit, less what the
    unit had fallen within the epoch until the visit, and W2.
    """

    now: Array = field("2 H", REAL, 0)  # upwards and downwards
    begin: Array = field("2 H", REAL, 0)  # when the present epoch began
    epoch: Array = field("H 2P", INT, NONE)  # the row's latest epoch, and its value at the
    value: Array = field("H 2P", F, 0)  # first change in it
    seen: Array = field("K 2 H", REAL, 0)  # where to count from since the chunk's last visit
    W2T: Array = field("K C H", F, 0)  # the weights at the chunk's last visit
    top: Array = field("K H", REAL, 0)  # bound on the unit's minima at the chunk's last visit
    floor: Array = field("K C", REAL, 0)  # lowest of the lanes' bounds on the class's score then
    lowest: Array = field("W C", REAL, INF)  # lowest floor that a worker has remembered
    reach: Array = field("H", REAL, INF)  # no minimum of a unit is above this + `RowLog.raised`
    raised: Array = field("C", REAL, 0)  # sums over all steps of the most that each can have
    fallen: Array = field("C", REAL, 0)  # raised and lowered a class's score, and what
    raised_seen: Array = field("K C", REAL, 0)  # they were at the chunk's last visit
    fallen_seen: Array = field("K", REAL, 0)
    share: Array = field("K C", REAL, 1)  # largest part that a class had in a lane's 1 + odds then


class Maxima(NamedTuple):
    """Per (chunk, class, lane): the two leading units and a bound on all others.

    For the chunk's own class ``lead`` and ``second`` bound the two units' scores
    from below. For wrong classes max(lead, rest) and max(second, rest) bound them
    from above: a rise that stays below all of rest is not merged. lead ≥ second.
    ``rest`` bounds every other unit's score from above. When a leader falls, the
    next one is known by name, and nobody has to look at all units again.
    """

    lead: Array = field("K C B", F, 0)
    unit: Array = field("K C B", np.int32, NONE)
    second: Array = field("K C B", F, 0)
    unit2: Array = field("K C B", np.int32, NONE)
    rest: Array = field("K C B", F, 0)
    rest_min: Array = field("K C", F, 0)  # not above any lane's rest
    leads_own: Array = field("K H", np.int8, 0)  # whether the unit may lead an own-class lane


# Rows of the rings in `Events`.
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

    n: Array = field("R 3", INT, 0)  # how many of each
    number: Array = field("R 7 E", INT, 0)
    value: Array = field("R 3 E", REAL, 0)
    pending: Array = field("H C", REAL, 0)  # falls of W2, too small so far to ask for a merge


class Search(NamedTuple):
    """Bounds on losses: of lanes, of chunks, and trees over the chunks.

    A chunk's loss is at most key + growth[label]; the keys are leaves of one
    tree per (worker, class), so all chunks of a class grow by one addition.
    """

    odds: Array = field("K B", np.float32, 0)  # bound on exp(loss) − 1; −1 when resolved
    visited: Array = field("K", INT, NONE)  # iteration of the last visit
    base: Array = field("K", REAL, INF)  # bound on the chunk's losses then
    narrowed: Array = field("K", INT, NONE)  # iteration in which the key was last narrowed
    worst: Array = field("K", REAL, 0)  # largest resolved loss of the iteration
    refreshed: Array = field("K C", INT, NONE)  # iteration of the last refresh
    leaf: Array = field("K", INT)  # the chunk's leaf
    chunk: Array = field("W C leaves", INT, NONE)  # the leaf's chunk
    keys: Array = field("W C nodes", REAL, -INF)
    offsets: Array = field("bounds", INT)  # of the trees' levels
    growth: Array = field("C", REAL, 0)


class Worst(NamedTuple):
    """The k worst samples that a search has found: each worker's, and of all.

    A worker has k places. Their order is kept beside them: a heap with the mildest
    sample on top during the search, the worst sample first after it.
    """

    threshold: Array  # (2, 8S): each seat's k-th and Q-th largest loss, by the iteration's parity
    first_seat: int  # of this rank's W workers, among all S that see each other's thresholds
    quota: Array = field("W Q", REAL, 0)  # its Q largest losses, a heap with the least on top
    heap: Array = field("W k", INT)  # places in order
    loss: Array = field("W k", REAL, 0)
    sample: Array = field("W k", INT, 0)
    seat: Array = field("W k 2", INT, 0)  # chunk and lane
    scores: Array = field("W k C", F, 0)
    taken: Array = field("W", INT, 0)  # how many of a worker's are among the k worst of all
    rank: Array = field("k 2", INT, 0)  # worker and place of the k worst of all, worst first


class Meeting(NamedTuple):
    """What T ranks tell each other in an iteration; alone, only the paths are used.

    A path is a sample's label and, for each class, (z, h*, i*, x[i* // 2]): all that a step on
    the sample takes. Numbers of samples, units and rows travel as float64: it holds them exactly.
    """

    address: int  # of the function that carries messages; 0 if alone
    first: int  # the number of this rank's first sample among all samples
    me: int  # this rank
    told: Array = field("told", REAL, 0)  # k times (loss, sample), and the path if k is 1
    heard: Array = field("T told", REAL, 0)  # the same of all ranks
    taken: Array = field("T", INT, 0)  # how many of a rank's are among the k worst of all
    rank: Array = field("k 2", INT, 0)  # rank and place of the k worst of all, worst first
    path: Array = field("k path", REAL, 0)
    x: Array = field("P", F, 0)  # the sample, as far as its path goes


class Scale(NamedTuple):
    """Magnitudes that bounds are made with."""

    x_largest: float  # largest input in absolute value
    eps: float  # of the float type
    small: float  # a fall of W2 that wrong classes need not hear of
    small_rise: float  # rises of a unit that wrong classes need not know exactly
    margin: float  # how far below the top a refresh looks first
    noise: Array = field("1", REAL)  # more than any rounding error of a score
    largest: Array = field("3", REAL)  # largest weight of each layer so far, in absolute value


class Scratch(NamedTuple):
    """Room that each worker has for itself."""

    lam: Array = field("W 2P", F)
    bound: Array = field("W H", F)
    chosen: Array = field("W H", INT)  # units to be merged
    z: Array = field("W C", F)  # a lane's scores, and which of them are exact
    known: Array = field("W C", np.int8)
    odds: Array = field("W B", np.float32)
    shift: Array = field("W 4 B", F)  # what moved slopes can do to a lane: up, down, of one step
    unit_change: Array = field("W 2 H", REAL)  # rise and fall by one step: of a unit's rows,
    class_change: Array = field("W 2 C", REAL)  # of a class's score
    unit_mark: Array = field("W H", INT, 0)  # number of the visit that dealt with the unit,
    pair_mark: Array = field("W H C", INT, 0)  # the unit in this class
    # Marks given, and for whoever measures: visits, lanes looked at, refreshes,
    # scans of single lanes, narrowed chunks.
    counts: Array = field("W 8", INT, 0)


class Total(NamedTuple):
    """A sum of samples' subgradients: each layer's entries as they first appeared.

    Rows and columns are those of the transposed weights: (slope, 0), (unit, row),
    (class, unit). The place of an entry that has not appeared is NONE.
    """

    n: Array = field("3", INT, 0)  # how many entries of each layer
    row: Array = field("3 E", INT)
    column: Array = field("3 E", INT)
    value: Array = field("3 E", REAL)
    place0: Array = field("2P 1", np.int32, NONE)
    place1: Array = field("H 2P", np.int32, NONE)
    place2: Array = field("C H", np.int32, NONE)


class State(NamedTuple):
    """Everything that iterations work on."""

    samples: Samples
    weights: LMMWeights  # views of the model's own
    log: RowLog
    lift: Lift
    minima: Minima
    maxima: Maxima
    events: Events
    search: Search
    worst: Worst
    meeting: Meeting
    scale: Scale
    scratch: Scratch
    grad: LMMGradient  # one sample's subgradient
    total: Total


# The groups that the engine allocates by their declarations; the others are the model's.
GROUPS = {
    name: group
    for name, group in get_type_hints(State).items()
    if group not in (LMMWeights, LMMGradient)
}
