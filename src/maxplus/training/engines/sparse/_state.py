"""Everything that the sparse engine keeps: chunks of samples, sizes, and declared arrays.

Every array is declared once, as the default of a field of a NamedTuple:

    class Minima(NamedTuple):
        g: Array = field("K H B", F)

A declaration gives the shape in the letters of `Sizes` (K chunks of B lanes, P features,
H units, C classes, W workers, …), the type (F is the model's float type, ROW holds row
numbers) and the initial value, if there is one. From it `allocate` makes the tuple for given
sizes, `refill` resets it, and `count_bytes` returns its exact size. Fields without a
declaration are arrays of other objects, or are no arrays.

A chunk's lanes are samples of one class; the last chunk of a class may have padding lanes.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, get_type_hints

import numpy as np
from numpy.typing import NDArray

from maxplus._compile import aligned
from maxplus.models import LMM
from maxplus.models._lmm_kernels import LMMGradient, LMMWeights
from maxplus.training.problem import TopKLoss, TrainingProblem, TrimmedMaxLoss
from maxplus.trees._kernels import level_offsets

# -- chunks and lanes --------------------------------------------------------------------------

# Lanes of a chunk, where there are enough samples: its columns fit into the first-level cache.
MAX_LANES = 256
# A vector register holds sixteen float32.
LANE_STEP = 16


class ChunkLayout(NamedTuple):
    """The samples of each chunk, and the worker that searches it."""

    sample: NDArray  # (K, B)
    lanes: NDArray  # (K,)
    label: NDArray  # (K,)
    worker: NDArray  # (K,)
    leaf: NDArray  # (K,): position among the worker's chunks of the class


def lanes_per_chunk(y: NDArray) -> int:
    """Return B: a multiple of the vector length, no larger than the largest class needs."""
    largest = int(np.bincount(y).max(initial=1))
    return min(MAX_LANES, -(-largest // LANE_STEP) * LANE_STEP)


def count_chunks(y: NDArray, n_lanes: int) -> int:
    """Return K: each class fills whole chunks of its own."""
    return int((-(-np.bincount(y) // n_lanes)).sum())


def count_leaves(y: NDArray, n_lanes: int, n_workers: int) -> int:
    """Return the most chunks of one class that `arrange` gives to one worker, at least 1."""
    largest = -(-int(np.bincount(y).max(initial=1)) // n_lanes)
    return -(-largest // n_workers)


def arrange(y: NDArray, order: NDArray, n_lanes: int, n_workers: int) -> ChunkLayout:
    """Cut each class's samples, taken in ``order``, into chunks.

    Chunks of a class go to the workers in turn: neighbours in the order are
    about equally hard, so all workers get the same share of hard ones.
    """
    samples, lanes, labels, workers, leaves = [], [], [], [], []
    for label in range(int(y.max(initial=-1)) + 1):
        members = order[y[order] == label]
        for number, lo in enumerate(range(0, len(members), n_lanes)):
            part = members[lo : lo + n_lanes]
            samples.append(np.pad(part, (0, n_lanes - len(part)), mode="edge"))
            lanes.append(len(part))
            labels.append(label)
            workers.append(number % n_workers)
            leaves.append(number // n_workers)
    return ChunkLayout(
        np.array(samples, np.int64).reshape(-1, n_lanes),
        np.array(lanes, np.int64),
        np.array(labels, np.int64),
        np.array(workers, np.int64),
        np.array(leaves, np.int64),
    )


# -- sizes -------------------------------------------------------------------------------------

# Iterations whose events are remembered if each steps on one sample; a chunk that
# missed more is rebuilt.
RING = 512
# Numbers per class in the path of a sample.
PATH = 4


class Sizes(NamedTuple):
    """One letter for each extent, as in the declarations, and two types."""

    K: int  # chunks
    B: int  # lanes of a chunk
    P: int  # features
    H: int  # units
    C: int  # classes
    W: int  # workers
    S: int  # workers of all ranks that share thresholds
    T: int  # ranks
    k: int  # samples that an iteration searches for
    n: int  # samples that it steps on, the last ones of them
    Q: int  # k / S, rounded up
    E: int  # entries of a layer that an iteration moves at most
    R: int  # iterations that the ring of events holds
    leaves: int  # of a tree: the most chunks of one class that a worker has
    nodes: int  # of such a tree
    bounds: int  # of its levels: where each begins and the last one ends
    path: int  # numbers of a sample's path in a message; 0 for a single process
    sent: int  # numbers in a rank's first message; 0 for a single process
    F: np.dtype  # the model's float type
    ROW: np.dtype  # holds row numbers and "no row"

    @classmethod
    def of(
        cls, model: LMM, problem: TrainingProblem, n_workers: int, n_slots: int | None = None
    ) -> Sizes:
        """Return the sizes for a number of workers, of ``n_slots`` that share thresholds; O(N)."""
        B = lanes_per_chunk(problem.y)
        k, n = count_worst(problem)
        S = n_workers if n_slots is None else n_slots
        path = 0 if problem.comm.is_alone else 1 + PATH * model.n_classes
        found = 0 if problem.comm.is_alone else 2 * k
        offsets = level_offsets(count_leaves(problem.y, B, n_workers))
        return cls(
            K=count_chunks(problem.y, B),
            B=B,
            P=model.n_features,
            H=model.n_hidden,
            C=model.n_classes,
            W=n_workers,
            S=S,
            T=problem.comm.size,
            k=k,
            n=n,
            Q=-(-k // S),
            E=entries_per_step(model, problem),
            R=ring_length(n),
            leaves=int(offsets[1]),
            nodes=int(offsets[-1]),
            bounds=offsets.size,
            path=path,
            sent=found + path if k == 1 else found,
            F=model.dtype,
            ROW=np.dtype(_index_type(2 * model.n_features)),
        )


def count_worst(problem: TrainingProblem) -> tuple[int, int]:
    """Return (k, n): an iteration finds the k worst samples and steps on the last n of them."""
    objective = problem.objective
    if isinstance(objective, TopKLoss):
        k = objective.count(problem.n_samples)
        return k, k
    if isinstance(objective, TrimmedMaxLoss):
        return objective.count(problem.n_samples) + 1, 1
    return 1, 1


def entries_per_step(model: LMM, problem: TrainingProblem) -> int:
    """Return E: C for each sample, but no more than the larger layer has."""
    largest = model.n_hidden * max(2 * model.n_features, model.n_classes)
    return min(count_worst(problem)[1] * model.n_classes, largest)


def ring_length(n_samples: int) -> int:
    """Return R: iterations that the ring holds, n samples each; a power of two."""
    return 1 << max(1, (RING // n_samples).bit_length() - 1)


def _index_type(n: int) -> type[np.signedinteger]:
    """Return the smallest integer type for numbers below n and −1."""
    return np.int16 if n < np.iinfo(np.int16).max else np.int32


# -- declarations ------------------------------------------------------------------------------

# The type of a declared field in a tuple that has been allocated.
Array = np.ndarray
_EXTENT = re.compile(r"(\d*)([A-Za-z]*)")


class Field(NamedTuple):
    """An array in terms of sizes that are not known yet."""

    shape: str  # an extent per axis, each a number, a symbol or a multiple of one: "K 2P 4"
    dtype: Any  # a type, or the symbol of one
    fill: float | None  # None: not initialised


def field(shape: str, dtype: Any, fill: float | None = None) -> Any:
    """Declare an array as the default of a NamedTuple's field."""
    return Field(shape, dtype, fill)


def _extent(word, sizes):
    factor, symbol = _EXTENT.fullmatch(word).groups()
    return int(factor or 1) * (getattr(sizes, symbol) if symbol else 1)


def _shape(declared, sizes):
    return tuple(_extent(word, sizes) for word in declared.shape.split())


def _dtype(declared, sizes):
    kind = declared.dtype
    return np.dtype(getattr(sizes, kind) if isinstance(kind, str) else kind)


def allocate(kind, sizes, **others):
    """Return a tuple of ``kind`` with new arrays in all declared fields, and ``others``."""
    declared = kind._field_defaults
    arrays = {
        name: aligned.empty(_shape(d, sizes), _dtype(d, sizes)) for name, d in declared.items()
    }
    group = kind(**arrays, **others)
    refill(group)
    return group


def refill(group):
    """Reset every array that has an initial value, in place."""
    for name, declared in group._field_defaults.items():
        if declared.fill is not None:
            getattr(group, name).fill(declared.fill)


def count_bytes(kind, sizes) -> int:
    """Return the bytes that `allocate` takes."""
    declared = kind._field_defaults.values()
    return sum(aligned.count_bytes(_shape(d, sizes), _dtype(d, sizes)) for d in declared)


# -- groups of arrays --------------------------------------------------------------------------

F, ROW = "F", "ROW"
INT, REAL = np.int64, np.float64
INF = np.inf

# Eight-byte numbers in a cache line: what different threads write is in different lines.
LINE = 8
# "No row" and "no unit".
NONE = -1
# "No sample" where the lowest number wins.
SENTINEL = np.iinfo(np.int64).max
# Changed rows in a unit's log; a chunk that missed more scans the unit again.
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
    worker: Array = field("K", INT)  # the worker that searches it
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

    # A ring; −1 where a later entry is for the same row.
    row: Array = field(f"H {LOG_SIZE}", np.int32)
    offset: Array = field(f"H {LOG_SIZE}", F)  # the row's, W1T[h, row], as it is now
    n: Array = field("H", INT, 0)  # entries ever written
    last: Array = field("H 2P", INT, NONE)  # number of the row's latest entry
    raised: Array = field("H", REAL, 0)  # sum over all steps of the largest rise of a row


class Lift(NamedTuple):
    """Rises and falls of each unit's rows and of each class's score.

    Time is cut into epochs. Within one, a unit's lift is the largest net rise of
    one of its rows since the epoch began, not the sum of all; epochs add up. So
    since the beginning of an epoch a unit has risen by no more than its present
    lift less its lift then. Chunks store the latter at an update, less what the
    unit had fallen within the epoch until then, and W2.
    """

    now: Array = field("2 H", REAL, 0)  # upwards and downwards
    begin: Array = field("2 H", REAL, 0)  # when the present epoch began
    epoch: Array = field("H 2P", INT, NONE)  # the row's latest epoch, and its value at the
    value: Array = field("H 2P", F, 0)  # first change in it
    seen: Array = field("K 2 H", REAL, 0)  # the origin of counts since the chunk's last update
    W2T: Array = field("K C H", F, 0)  # the weights at the chunk's last update
    top: Array = field("K H", REAL, 0)  # bound on the unit's minima at the chunk's last update
    floor: Array = field("K C", REAL, 0)  # lowest of the lanes' bounds on the class's score then
    lowest: Array = field("W C", REAL, INF)  # lowest floor that a worker has stored
    reach: Array = field("H", REAL, INF)  # no minimum of a unit is above this + `RowLog.raised`
    raised: Array = field("C", REAL, 0)  # sums over all steps of the most that each can have
    fallen: Array = field("C", REAL, 0)  # raised and lowered a class's score, and what
    raised_seen: Array = field("K C", REAL, 0)  # they were at the chunk's last update
    fallen_seen: Array = field("K", REAL, 0)
    share: Array = field("K C", REAL, 1)  # largest part that a class had in a lane's 1 + odds then


class Maxima(NamedTuple):
    """Per (chunk, class, lane): the two leading units and a bound on all others.

    For the chunk's own class ``lead`` and ``second`` bound the two units' scores
    from below. For wrong classes max(lead, rest) and max(second, rest) bound them
    from above: a rise that stays below all of rest is not merged. lead ≥ second.
    ``rest`` bounds every other unit's score from above. When a leader falls, the
    next one is known, and not all units have to be evaluated again.
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
    """A ring over iterations: the entries that moved, for chunks that are updated later.

    An iteration has up to E entries, C for each sample that it steps on, of W2
    (MERGE_…: unit, class, whether every chunk must merge it, old value), of W1
    (ROW_…: unit, row, whether it rose, old value) and of W0 (SLOPE_…: row, change).
    The more samples, the fewer iterations R: a chunk is rebuilt after about as many entries.
    """

    n: Array = field("R 3", INT, 0)  # how many of each
    number: Array = field("R 7 E", INT, 0)
    value: Array = field("R 3 E", REAL, 0)
    pending: Array = field(
        "H C", REAL, 0
    )  # sums of changes of W2 that are too small for a merge so far


class SearchState(NamedTuple):
    """Bounds on losses: of lanes, of chunks, and trees over the chunks.

    A chunk's loss is at most key + growth[label]; the keys are leaves of one
    tree per (worker, class), so all chunks of a class grow by one addition.
    """

    odds: Array = field("K B", np.float32, 0)  # bound on exp(loss) − 1; −1 when resolved
    updated: Array = field("K", INT, NONE)  # iteration of the last update
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

    threshold: Array  # (2, 8S): each worker's k-th and Q-th largest loss, by iteration parity
    first_slot: int  # of this rank's W workers, among all S that share thresholds
    n_ignored: int  # k − n: the worst samples, on which no step is taken
    quota: Array = field("W Q", REAL, 0)  # its Q largest losses, a heap with the least on top
    heap: Array = field("W k", INT)  # places in order
    loss: Array = field("W k", REAL, 0)
    sample: Array = field("W k", INT, 0)
    lane: Array = field("W k 2", INT, 0)  # chunk and lane
    scores: Array = field("W k C", F, 0)
    taken: Array = field("W", INT, 0)  # how many of a worker's are among the k worst of all
    order: Array = field("k 2", INT, 0)  # worker and place of the k worst of all, worst first


class RankExchange(NamedTuple):
    """Messages between T ranks in an iteration; unused by a single process.

    A path is a sample's label and, for each class, (z, h*, i*, x[i* // 2]): all that a step on
    the sample needs. Numbers of samples, units and rows are sent as float64, which holds them
    exactly.
    """

    address: int  # of the callback that exchanges messages; 0 for a single process
    first_sample: int  # the number of this rank's first sample among all samples
    rank: int  # of this process
    sent: Array = field("sent", REAL, 0)  # k losses, k samples, and the path if k is 1
    received: Array = field("T sent", REAL, 0)  # the same of all ranks
    place: Array = field("T k", INT)  # positions of the samples in a message: 0, 1, …
    taken: Array = field("T", INT, 0)  # how many of a rank's are among the k worst of all
    order: Array = field("k 2", INT, 0)  # rank and place of the k worst of all, worst first
    path: Array = field("n path", REAL, 0)
    x: Array = field("P", F, 0)  # the sample, as far as its path reads it


class Scale(NamedTuple):
    """Magnitudes that bounds depend on."""

    x_largest: float  # largest input in absolute value
    eps: float  # of the float type
    small: float  # a fall of W2 that bounds of wrong classes may ignore
    small_rise: float  # rises of a unit that bounds of wrong classes need not follow exactly
    margin: float  # how far below the top a refresh looks first
    noise: Array = field("1", REAL)  # more than any rounding error of a score
    largest: Array = field("3", REAL)  # largest weight of each layer so far, in absolute value


class Scratch(NamedTuple):
    """Scratch space of each worker."""

    lam: Array = field("W 2P", F)
    bound: Array = field("W H", F)
    chosen: Array = field("W H", INT)  # units to be merged
    z: Array = field("W C", F)  # a lane's scores, and which of them are exact
    known: Array = field("W C", np.int8)
    odds: Array = field("W B", np.float32)
    shift: Array = field("W 4 B", F)  # effect of moved slopes on a lane: up, down, of one step
    unit_change: Array = field("W 2 H", REAL)  # rise and fall by one step: of a unit's rows,
    class_change: Array = field("W 2 C", REAL)  # of a class's score
    unit_mark: Array = field("W H", INT, 0)  # number of the update that merged the unit,
    pair_mark: Array = field("W H C", INT, 0)  # the unit in this class
    # Marks given, and statistics: updates, lanes resolved, refreshes, scans of single
    # lanes, narrowed chunks.
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
    """All arrays that iterations read and write."""

    samples: Samples
    weights: LMMWeights  # views of the model's own
    log: RowLog
    lift: Lift
    minima: Minima
    maxima: Maxima
    events: Events
    search: SearchState
    worst: Worst
    exchange: RankExchange
    scale: Scale
    scratch: Scratch
    grad: LMMGradient  # one sample's subgradient
    total: Total


# The groups that the engine allocates from their declarations.
GROUPS = {
    name: group
    for name, group in get_type_hints(State).items()
    if group not in (LMMWeights, LMMGradient)
}
