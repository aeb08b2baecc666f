"""Speed of min-plus and max-plus products compared with tropical-gemm and NumPy.

The shape corresponds to the min-plus layer of an MNIST network: 4096 images, 2 × 784 rows, 500
units. After a warm-up, the implementations are run alternately, and medians are reported. Results
must be bit-identical, because a minimum of rounded sums does not depend on their order.
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
# NumPy broadcasts blocks of rows. Blocks of 2 rows fit into the cache and were the fastest.
NUMPY, NUMPY_FASTEST = "NumPy, 64 rows", "NumPy, 2 rows"
COMPARED = (TROPICAL_GEMM, NUMPY, NUMPY_FASTEST)

Product = Callable[[NDArray, NDArray], object]


def run(settings: Settings) -> Result:
    """Time all implementations in a subprocess with an empty kernel cache."""
    shape = settings.pick(FULL_SHAPE, QUICK_SHAPE)
    rounds = settings.pick(FULL_ROUNDS, QUICK_ROUNDS)
    with TemporaryDirectory() as folder:
        timings = in_a_process(
            measure, {"shape": shape, "rounds": rounds}, {"NUMBA_CACHE_DIR": folder}
        )
    return describe(timings, shape)


def measure(shape: tuple[int, int, int], rounds: int) -> list[dict[str, Any]]:
    """Check and time all implementations; ``first`` is the time of the first call."""
    rng = np.random.default_rng(0)
    n, m, k = shape
    timings = []
    A: NDArray = rng.standard_normal((n, m)).astype(np.float32)
    B: NDArray = rng.standard_normal((m, k)).astype(np.float32)
    for case, implementations in _cases().items():
        first_calls = {name: timed(product, A, B) for name, product in implementations.items()}
        check({name: result for name, (_, result) in first_calls.items()})
        seconds: dict[str, list[float]] = {name: [] for name in implementations}
        for _ in range(rounds):
            for name, product in implementations.items():
                seconds[name].append(timed(product, A, B)[0])
        ours = median(seconds[OURS])
        timings += [
            {
                "case": case,
                "contender": name,
                "first": first_calls[name][0],
                "seconds": seconds[name],
                "median": median(seconds[name]),
                "ratio": median(seconds[name]) / ours,
            }
            for name in implementations
        ]
    return timings


def describe(timings: list[dict[str, Any]], shape: tuple[int, int, int]) -> Result:
    """Return the result of the experiment."""
    n, m, k = shape
    columns = {
        "product": "case",
        "by": "contender",
        "ms": "{ms:.1f}",
        "G sums/s": "{speed:.1f}",
        "ratio": "{ratio:.1f}",
        "compiling": "compiling",
    }
    cells = [
        row
        | {
            "ms": 1e3 * row["median"],
            "speed": n * m * k / row["median"] / 1e9,
            "compiling": f"{row['first'] - row['median']:.1f} s" * (row["contender"] == OURS),
        }
        for row in timings
    ]
    minplus_rows = {row["contender"]: row for row in timings if row["case"] == "min-plus"}
    ratios = {name: minplus_rows[name]["ratio"] for name in COMPARED}
    comparisons = ", ".join(
        f"{ratio:.1f} times as fast as {name}" for name, ratio in ratios.items()
    )
    text = (
        f"A product of {n} × {m} by {m} × {k} numbers, as in the min-plus layer of an MNIST "
        "network. Results are bit-identical; times are medians of alternating runs. maxplus "
        f"does {n * m * k / minplus_rows[OURS]['median'] / 1e9:.0f} G sums/s in float32: "
        f"{comparisons}."
    )
    return Result(
        "Products over the two semirings",
        text,
        [Table.of(f"{n} × {m} times {m} × {k}", cells, columns)],
        {"shape": list(shape), "ratios": ratios, "timings": timings},
        scale=" × ".join(map(str, shape)),
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
    """Return a single-threaded version of a product."""

    def run(A: NDArray, B: NDArray) -> object:
        before = numba.get_num_threads()
        numba.set_num_threads(1)
        try:
            return product(A, B)
        finally:
            numba.set_num_threads(before)

    return run


def row_blocks(reduce: Callable, size: int) -> Product:
    """Return a product that broadcasts blocks of ``size`` rows."""

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
