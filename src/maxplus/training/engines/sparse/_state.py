"""State of the sparse engine: chunks of samples, sizes, and declarations of arrays.

Every array is declared once, as the default of a field of a NamedTuple:

    class Minima(NamedTuple):
        g: Array = field("K H B", F)

A declaration consists of the shape in the letters of `Sizes` (K chunks of B lanes, P features, H
units, C classes, W workers, …), the type (F is the float type of the model, ROW the type of row
numbers) and the initial value, if any. `allocate` creates the tuple for given sizes, `reset_arrays`
resets it, and `count_bytes` returns its exact size. Fields without a declaration are scalars or
arrays of other objects.

The lanes of a chunk are samples of one class; the last chunk of a class may have padding lanes.
"""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple, get_type_hints

import numpy as np
from numpy.typing import DTypeLike, NDArray

from maxplus.models import LMM
from maxplus.models._lmm_kernels import LMMGradient, LMMWeights
from maxplus.training.problem import TopKLoss, TrainingProblem, TrimmedMaxLoss
from maxplus.trees._kernels import level_offsets

# -- chunks and lanes --------------------------------------------------------------------------

# Maximum number of lanes of a chunk, whose columns then fit into the first-level cache.
MAX_LANES = 256
# The widest vector registers hold sixteen float32.
LANE_STEP = 16


class ChunkLayout(NamedTuple):
    """The samples of each chunk, and the worker that searches it."""

    sample: NDArray  # (K, B)
    lanes: NDArray  # (K,)
    label: NDArray  # (K,)
    worker: NDArray  # (K,)
    leaf: NDArray  # (K,): position among the worker's chunks of the class


def lanes_per_chunk(y: NDArray) -> int:
    """Return B, a multiple of the vector length, not larger than the largest class requires."""
    largest = int(np.bincount(y).max(initial=1))
    return min(MAX_LANES, -(-largest // LANE_STEP) * LANE_STEP)


def chunks_per_class(y: NDArray, n_lanes: int) -> NDArray:
    """Return the number of chunks of each class; a chunk contains samples of one class."""
    return -(-np.bincount(y) // n_lanes)


def arrange(y: NDArray, order: NDArray, n_lanes: int, n_workers: int) -> ChunkLayout:
    """Divide the samples of each class, in the given order, into chunks.

    Chunks of a class are assigned to the workers round-robin: neighbours in the order have similar
    losses, so that all workers get the same share of large ones.
    """
    parts = []
    for label in range(int(y.max(initial=-1)) + 1):
        members = order[y[order] == label]
        parts += [members[lo : lo + n_lanes] for lo in range(0, len(members), n_lanes)]
    padded = [np.pad(part, (0, n_lanes - len(part)), mode="edge") for part in parts]
    n_chunks = chunks_per_class(y, n_lanes)
    # The position of each chunk among those of its class.
    number = np.arange(len(parts)) - np.repeat(np.cumsum(n_chunks) - n_chunks, n_chunks)
    return ChunkLayout(
        sample=np.array(padded, np.int64).reshape(-1, n_lanes),
        lanes=np.array([len(part) for part in parts], np.int64),
        label=np.repeat(np.arange(n_chunks.size), n_chunks),
        worker=number % n_workers,
        leaf=number // n_workers,
    )


# -- sizes -------------------------------------------------------------------------------------

# Iterations whose events are stored if each of them steps on one sample; a chunk that was not
# updated for longer is refreshed.
RING = 512
# Numbers per class in the path of a sample.
PATH = 4


class Sizes(NamedTuple):
    """Values of the letters in declarations."""

    K: int  # chunks
    B: int  # lanes of a chunk
    P: int  # features
    H: int  # units
    C: int  # classes
    W: int  # workers
    S: int  # workers of all ranks that share thresholds
    T: int  # ranks
    k: int  # worst samples that an iteration searches for
    n: int  # samples on which it steps: the last n of these k
    Q: int  # a worker's part of the k samples: k / S, rounded up
    E: int  # maximum number of entries of a layer that change in an iteration
    R: int  # iterations that the ring of events holds
    leaves: int  # of a tree: maximum number of chunks of one class and one worker
    nodes: int  # of such a tree
    bounds: int  # offsets of its levels
    path: int  # numbers of a sample's path in a message; 0 for a single process
    sent: int  # numbers in a rank's first message; 0 for a single process
    F: np.dtype  # the model's float type
    ROW: np.dtype  # holds row numbers and "no row"

    @classmethod
    def from_problem(
        cls, model: LMM, problem: TrainingProblem, n_workers: int, n_slots: int | None = None
    ) -> Sizes:
        """Return the sizes for ``n_workers`` workers of this rank; O(N).

        ``n_slots`` is the number of workers of all ranks that share thresholds, by default of this
        rank only.
        """
        B = lanes_per_chunk(problem.y)
        k, n = count_worst(problem)
        S = n_workers if n_slots is None else n_slots
        path = 0 if problem.comm.is_serial else 1 + PATH * model.n_classes
        found = 0 if problem.comm.is_serial else 2 * k
        chunks = chunks_per_class(problem.y, B)
        offsets = level_offsets(-(-int(chunks.max(initial=1)) // n_workers))
        fits_int16 = 2 * model.n_features < np.iinfo(np.int16).max
        return cls(
            K=int(chunks.sum()),
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
            ROW=np.dtype(np.int16 if fits_int16 else np.int32),
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
    """Return E: C for each sample, at most the size of the larger layer."""
    largest = model.n_hidden * max(2 * model.n_features, model.n_classes)
    return min(count_worst(problem)[1] * model.n_classes, largest)


def ring_length(n_samples: int) -> int:
    """Return R: iterations that the ring holds, n samples each; a power of two."""
    return 1 << max(1, (RING // n_samples).bit_length() - 1)


# -- declarations ------------------------------------------------------------------------------

# The type of a declared field in a tuple that has been allocated.
Array = np.ndarray
_EXTENT = re.compile(r"(\d*)([A-Za-z]*)")


class Field(NamedTuple):
    """Declaration of an array."""

    shape: str  # an extent per axis, each a number, a symbol or a multiple of one: "K 2P 4"
    dtype: Any  # a type, or the symbol of one
    fill: float | None  # None: not initialised


def field(shape: str, dtype: Any, fill: float | None = None) -> Any:
    """Declare an array as the default of a NamedTuple's field."""
    return Field(shape, dtype, fill)


def _shape_and_dtype(declared: Field, sizes: Sizes) -> tuple[tuple[int, ...], np.dtype]:
    """Return the shape and the type of a declared array."""
    extents = [_EXTENT.findall(word)[0] for word in declared.shape.split()]
    shape = tuple(int(n or 1) * (getattr(sizes, symbol) if symbol else 1) for n, symbol in extents)
    kind = declared.dtype
    return shape, np.dtype(getattr(sizes, kind) if isinstance(kind, str) else kind)


# Bytes of a cache line and of the widest vectors. NumPy aligns arrays to 16 bytes (numpy #5312), so
# that such vectors extend over two lines, which makes iterations up to 15 % slower.
LINE_BYTES = 64


def aligned_bytes(shape: tuple[int, ...], dtype: DTypeLike) -> int:
    """Return the memory of an array of `aligned_empty`."""
    return np.dtype(dtype).itemsize * math.prod(shape) + LINE_BYTES


def aligned_empty(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray:
    """Return an uninitialised array that begins at a cache line."""
    memory = np.empty(aligned_bytes(shape, dtype), np.uint8)
    first = -memory.ctypes.data % LINE_BYTES
    return memory[first : memory.size - LINE_BYTES + first].view(dtype).reshape(shape)


def allocate(kind: Any, sizes: Sizes, **others: Any) -> Any:
    """Return a tuple of ``kind`` with new arrays in all declared fields, and ``others``."""
    declared = kind._field_defaults.items()
    group = kind(
        **{name: aligned_empty(*_shape_and_dtype(d, sizes)) for name, d in declared}, **others
    )
    reset_arrays(group)
    return group


def reset_arrays(group: Any) -> None:
    """Reset every array that has an initial value, in place."""
    for name, declared in group._field_defaults.items():
        if declared.fill is not None:
            getattr(group, name).fill(declared.fill)


def count_bytes(kind: Any, sizes: Sizes) -> int:
    """Return the memory that `allocate` takes."""
    return sum(aligned_bytes(*_shape_and_dtype(d, sizes)) for d in kind._field_defaults.values())


# -- groups of arrays --------------------------------------------------------------------------

F, ROW = "F", "ROW"
INT, REAL = np.int64, np.float64
INF = np.inf

# Eight-byte numbers in a cache line; different threads write to different lines.
LINE = 8
# "No row" and "no unit".
NONE = -1
# "No sample", larger than any sample number.
SENTINEL = np.iinfo(np.int64).max
# Changed rows in the log of a unit; after more changes, a chunk scans the unit again.
LOG_SIZE = 4096
# Iterations of an epoch (see `Lift`).
EPOCH = 16


class Samples(NamedTuple):
    """The training set, by rows and by chunks."""

    X: Array  # (N, P) F
    y: Array  # (N,)
    columns: Array = field("K P B", F)  # each feature of a chunk, contiguous
    low: Array = field("K P", F)  # each feature's range in the chunk
    high: Array = field("K P", F)
    sample: Array = field("K B", INT)  # the lane's sample; padding repeats the last one
    lanes: Array = field("K", INT)  # lanes that are not padding
    label: Array = field("K", INT)  # the class of the chunk
    worker: Array = field("K", INT)  # the worker that searches it
    x_min: Array = field("P", REAL, 0)  # each feature's range over all samples
    x_max: Array = field("P", REAL, 0)


class Minima(NamedTuple):
    """Per (chunk, unit, lane): bounds on the smallest row.

    ``g`` is the value of row ``a``; all other rows have at least the value ``g2``, which ``a2``
    attains unless it is NONE. So the minimum is g if g ≤ g2, and in [g2, g] otherwise.
    """

    g: Array = field("K H B", F)
    g2: Array = field("K H B", F)
    a: Array = field("K H B", ROW)
    a2: Array = field("K H B", ROW)
    # Entries of the unit's log that have been replayed; initially so few that all rows are scanned.
    seen: Array = field("K H", INT, -1 - LOG_SIZE)
    raised_seen: Array = field("K H", REAL, 0)  # `RowLog.raised` at that time
    g_max: Array = field("K H", F)  # largest g of the chunk's lanes at the last replay
    cap: Array = field("K H", F)  # upper bound on g and g2 of the chunk's lanes at that time


class RowLog(NamedTuple):
    """Per unit: log of changed rows, and bounds on their rises."""

    # A ring; −1 where a later entry is for the same row.
    row: Array = field(f"H {LOG_SIZE}", np.int32)
    offset: Array = field(f"H {LOG_SIZE}", F)  # current W1T[h, row]
    n: Array = field("H", INT, 0)  # number of entries written
    last: Array = field("H 2P", INT, NONE)  # number of the latest entry of the row
    raised: Array = field("H", REAL, 0)  # sum over all steps of the largest rise of a row


class Lift(NamedTuple):
    """Rises and falls of the rows of each unit and of the score of each class.

    Iterations are divided into epochs. Within an epoch, the lift of a unit grows by the largest net
    rise of one of its rows, not by the sum of all rises. So since the beginning of an epoch, a unit
    has risen by at most the difference of its lifts. At an update, chunks store the lift at the
    beginning of the epoch, minus the fall of the unit within the epoch, and W2.
    """

    now: Array = field("2 H", REAL, 0)  # upwards and downwards
    begin: Array = field("2 H", REAL, 0)  # when the present epoch began
    epoch: Array = field("H 2P", INT, NONE)  # latest epoch in which the row changed
    value: Array = field("H 2P", F, 0)  # its value before the first change in that epoch
    seen: Array = field("K 2 H", REAL, 0)  # lifts that later ones are compared with
    W2T: Array = field("K C H", F, 0)  # the weights at the chunk's last update
    top: Array = field("K H", REAL, 0)  # bound on the unit's minima at the chunk's last update
    floor: Array = field("K C", REAL, 0)  # lowest bound of a lane on the class's score then
    lowest: Array = field("W C", REAL, INF)  # lowest floor that a worker has stored
    reach: Array = field("H", REAL)  # reach + `RowLog.raised` bounds the unit's minima
    raised: Array = field("C", REAL, 0)  # sums over all steps of bounds on the rise
    fallen: Array = field("C", REAL, 0)  # and on the fall of a class's score
    raised_seen: Array = field("K C", REAL, 0)  # their values at the chunk's last update
    fallen_seen: Array = field("K", REAL, 0)
    share: Array = field("K C", REAL, 1)  # largest share of the class in a lane's 1 + odds then


class Maxima(NamedTuple):
    """Per (chunk, class, lane): the two leading units, and a bound on all other units.

    For the chunk's own class, ``lead`` and ``second`` are lower bounds on the scores of the
    two units. For wrong classes, max(lead, rest) and max(second, rest) are upper bounds: a rise
    that stays below rest in all lanes is not merged. lead ≥ second. ``rest`` is an upper bound on
    the scores of all other units. The second unit avoids evaluating all units when a leader falls.
    """

    lead: Array = field("K C B", F, 0)
    unit: Array = field("K C B", np.int32, NONE)
    second: Array = field("K C B", F, 0)
    unit2: Array = field("K C B", np.int32, NONE)
    rest: Array = field("K C B", F, 0)
    rest_min: Array = field("K C", F, 0)  # lower bound on rest of all lanes
    leads_own: Array = field("K H", np.int8, 0)  # whether the unit may lead an own-class lane


class Events(NamedTuple):
    """A ring over iterations: the entries that changed, for chunks that are updated later.

    An iteration changes up to E entries of each layer, C for each sample that it steps on. The
    number of iterations R decreases with the number of samples, so that the number of stored
    entries is about constant.
    """

    n: Array = field("R 3", INT, 0)  # number of changed entries of W0, W1 and W2
    row0: Array = field("R E", INT)  # of W0: row
    change0: Array = field("R E", REAL)
    unit1: Array = field("R E", INT)  # of W1: unit, row, whether it rose, old value
    row1: Array = field("R E", INT)
    rose1: Array = field("R E", INT)
    old1: Array = field("R E", REAL)
    unit2: Array = field("R E", INT)  # of W2: unit, class, whether chunks must merge it, old value
    class2: Array = field("R E", INT)
    merge2: Array = field("R E", INT)
    old2: Array = field("R E", REAL)
    # Sums of changes of W2 that are too small for a merge so far.
    pending: Array = field("H C", REAL, 0)


class SearchState(NamedTuple):
    """Bounds on losses of lanes and chunks, and trees over the chunks.

    The losses of a chunk are at most key + growth[label]. The keys are leaves of one tree per
    (worker, class), so that one addition raises the bounds of all chunks of a class.
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
    """The k worst samples that a search has found: of each worker, and of all workers.

    A worker has k places. Their order is stored separately: during the search, a heap whose top has
    the smallest loss; afterwards, by decreasing loss.
    """

    threshold: Array  # (2, 8S): each worker's k-th and Q-th largest loss, by iteration parity
    first_slot: int  # of this rank's W workers, among all S that share thresholds
    n_ignored: int  # k − n: the worst samples, on which no step is taken
    quota: Array = field("W Q", REAL, 0)  # its Q largest losses, a heap with the smallest on top
    heap: Array = field("W k", INT)  # places in order
    loss: Array = field("W k", REAL, 0)
    sample: Array = field("W k", INT, 0)
    lane: Array = field("W k 2", INT, 0)  # chunk and lane
    scores: Array = field("W k C", F, 0)
    taken: Array = field("W", INT, 0)  # samples of a worker among the k worst of all
    order: Array = field("k 2", INT, 0)  # worker and place of the k worst of all, worst first


class RankExchange(NamedTuple):
    """Messages between T ranks in an iteration; unused by a single process.

    A path is the label of a sample and, for each class, (z, h*, i*, x[i* // 2]): the data of a step
    on the sample. Numbers of samples, units and rows are sent as float64, which is exact.
    """

    address: int  # of the callback that exchanges messages; 0 for a single process
    first_sample: int  # the number of this rank's first sample among all samples
    rank: int  # of this process
    sent: Array = field("sent", REAL, 0)  # k losses, k samples, and the path if k is 1
    received: Array = field("T sent", REAL, 0)  # the same of all ranks
    place: Array = field("T k", INT)  # positions of the samples in a message: 0, 1, …
    taken: Array = field("T", INT, 0)  # samples of a rank among the k worst of all
    order: Array = field("k 2", INT, 0)  # rank and place of the k worst of all, worst first
    path: Array = field("n path", REAL, 0)
    x: Array = field("P", F, 0)  # the features of the sample that its path uses


class Scale(NamedTuple):
    """Magnitudes that bounds depend on."""

    x_largest: float  # largest input in absolute value
    eps: float  # of the float type
    small_fall: float  # falls of W2 below this are ignored by bounds of wrong classes
    small_rise: float  # rises of a unit below this are added to bounds of wrong classes
    margin: float  # distance from the largest bound of the units that a refresh merges first
    noise: Array = field("1", REAL)  # bound on the rounding error of a score
    largest: Array = field("3", REAL)  # largest weight of each layer so far, in absolute value


class Scratch(NamedTuple):
    """Scratch space of each worker."""

    lam: Array = field("W 2P", F)
    bound: Array = field("W H", F)
    chosen: Array = field("W H", INT)  # units to be merged
    z: Array = field("W C", F)  # scores of a lane, and whether each is exact
    known: Array = field("W C", np.int8)
    odds: Array = field("W B", np.float32)
    shift: Array = field("W 4 B", F)  # by changed slopes: rise, fall; extremes of one step
    unit_change: Array = field("W 2 H", REAL)  # rise and fall by one step: of a unit's rows,
    class_change: Array = field("W 2 C", REAL)  # of a class's score
    unit_mark: Array = field("W H", INT, 0)  # number of the update that merged the unit,
    pair_mark: Array = field("W H C", INT, 0)  # the unit in this class
    counts: Array = field(f"W {LINE}", INT, 0)  # updates, and refreshes by `_exact_score`


class Total(NamedTuple):
    """A sum of subgradients: entries of each layer in the order of their first appearance.

    Rows and columns are those of the transposed weights: (slope, 0), (unit, row), (class, unit).
    ``place…`` is the position of an entry, or NONE.
    """

    n: Array = field("3", INT, 0)  # number of entries of each layer
    row: Array = field("3 E", INT)
    column: Array = field("3 E", INT)
    value: Array = field("3 E", REAL)
    place0: Array = field("2P 1", np.int32, NONE)
    place1: Array = field("H 2P", np.int32, NONE)
    place2: Array = field("C H", np.int32, NONE)


class State(NamedTuple):
    """All arrays that iterations read and write."""

    samples: Samples
    weights: LMMWeights  # views of the weights of the model
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
    grad: LMMGradient  # subgradient of one sample
    total: Total


# The groups that the engine allocates from their declarations.
GROUPS = {
    name: group
    for name, group in get_type_hints(State).items()
    if group not in (LMMWeights, LMMGradient)
}
