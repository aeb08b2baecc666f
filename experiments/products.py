"""Speed of min-plus and max-plus products compared with tropical-gemm and NumPy.

The shape is that of a min-plus layer of an MNIST network: 4096 images, 2 × 784 rows, 500 units.
Each implementation runs once without measurement, then all run alternately, and medians are
reported. Results must be bit-identical: a minimum of rounded sums does not depend on their order.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from experiments.harness import Result, Settings, Table
from experiments.measure import in_a_process, timed
from maxplus.algebra import maxplus, minplus

FULL_SHAPE, FULL_ROUNDS = (4096, 1568, 500), 5
QUICK_SHAPE, QUICK_ROUNDS = (256, 98, 50), 2
OURS, OURS_ALONE, TROPICAL_GEMM = "maxplus", "maxplus, 1 thread", "tropical-gemm"
# NumPy broadcasts a block of rows at a time. 64 rows is a common choice; 2 rows, whose sums fit
# into the cache, were the fastest.
NUMPY, NUMPY_FASTEST = "NumPy, 64 rows", "NumPy, 2 rows"
COMPARED = (TROPICAL_GEMM, NUMPY, NUMPY_FASTEST)

Product = Callable[[NDArray, NDArray], object]


def run(settings: Settings) -> Result:
    """Time all implementations in a process with an empty kernel cache."""
    shape = QUICK_SHAPE if settings.quick else FULL_SHAPE
    rounds = QUICK_ROUNDS if settings.quick else FULL_ROUNDS
    with TemporaryDirectory() as folder:
        timings = in_a_process(
            measure, {"shape": shape, "rounds": rounds}, {"NUMBA_CACHE_DIR": folder}
        )
    return describe(timings, shape, " × ".join(map(str, shape)) if settings.quick else "")


def measure(shape: list[int], rounds: int) -> list[dict[str, Any]]:
    """Compare and time all implementations; ``first`` is the time of the first call."""
    rng = np.random.default_rng(0)
    n, m, k = shape
    timings = []
    A: NDArray = rng.standard_normal((n, m)).astype(np.float32)
    B: NDArray = rng.standard_normal((m, k)).astype(np.float32)
    for case, implementations in _cases().items():
        firsts = {name: timed(product, A, B) for name, product in implementations.items()}
        check({name: result for name, (_, result) in firsts.items()})
        seconds: dict[str, list[float]] = {name: [] for name in implementations}
        for _ in range(rounds):
            for name, product in implementations.items():
                seconds[name].append(timed(product, A, B)[0])
        ours = median(seconds[OURS])
        timings += [
            {
                "case": case,
                "contender": name,
                "first": firsts[name][0],
                "seconds": seconds[name],
                "median": median(seconds[name]),
                "ratio": median(seconds[name]) / ours,
            }
            for name in implementations
        ]
    return timings


def describe(timings: list[dict[str, Any]], shape: tuple[int, int, int], scale: str = "") -> Result:
    """Return the table of all times, and the ratios of the min-plus product."""
    n, m, k = shape
    rows = [
        (
            row["case"],
            row["contender"],
            f"{1e3 * row['median']:.1f}",
            f"{n * m * k / row['median'] / 1e9:.1f}",
            f"{row['ratio']:.1f}",
            f"{row['first'] - row['median']:.1f} s" if row["contender"] == OURS else "",
        )
        for row in timings
    ]
    columns = ("product", "by", "ms", "G sums/s", "ratio", "compiling")
    plain = {row["contender"]: row for row in timings if row["case"] == "min-plus"}
    ratios = {name: plain[name]["ratio"] for name in COMPARED}
    verdicts = ", ".join(f"{ratio:.1f} times as fast as {name}" for name, ratio in ratios.items())
    text = (
        f"A product of {n} × {m} by {m} × {k} numbers, as one min-plus layer of an MNIST network "
        "takes it. Results are bit-identical; times are medians of alternating runs. maxplus "
        f"does {n * m * k / plain[OURS]['median'] / 1e9:.0f} G sums/s in float32: {verdicts}."
    )
    return Result(
        "Products over the two semirings",
        text,
        [Table(f"{n} × {m} times {m} × {k}", columns, rows)],
        {"shape": list(shape), "ratios": ratios, "timings": timings},
        scale=scale,
    )


def _cases() -> dict[str, dict[str, Product]]:
    """Return the implementations of each product."""
    import tropical_gemm

    return {
        "min-plus": {
            OURS: minplus,
            OURS_ALONE: one_thread(minplus),
            TROPICAL_GEMM: tropical_gemm.minplus_matmul_2d,
            NUMPY: row_blocks(np.min, 64),
            NUMPY_FASTEST: row_blocks(np.min, 2),
        },
        "max-plus": {
            OURS: maxplus,
            TROPICAL_GEMM: tropical_gemm.maxplus_matmul_2d,
            NUMPY_FASTEST: row_blocks(np.max, 2),
        },
    }


def one_thread(product: Product) -> Product:
    """Return a product that uses one thread."""

    def run(A: NDArray, B: NDArray) -> object:
        before = numba.get_num_threads()
        numba.set_num_threads(1)
        try:
            return product(A, B)
        finally:
            numba.set_num_threads(before)

    return run


def row_blocks(reduce: Callable, size: int) -> Product:
    """Return the product by broadcasting ``size`` rows at a time."""

    def run(A: NDArray, B: NDArray) -> NDArray:
        BT = np.ascontiguousarray(B.T)
        parts = [reduce(A[i : i + size, None] + BT, axis=2) for i in range(0, len(A), size)]
        return np.concatenate(parts)

    return run


def check(results: dict[str, Any]) -> None:
    """Raise AssertionError unless all values are bit-identical."""
    ours = results[OURS]
    for name, result in results.items():
        np.testing.assert_array_equal(ours, np.reshape(result, ours.shape), err_msg=name)
