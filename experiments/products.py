"""Speed of min-plus and max-plus products compared with tropical-gemm and NumPy.

The shape corresponds to the min-plus layer of an MNIST network: 4096 images, 2 × 784 rows, 500
units. After a warm-up, the implementations are run alternately, and medians are reported. Results
must be bit-identical, because a minimum of rounded sums does not depend on their order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numba import get_num_threads, set_num_threads
from numpy.typing import NDArray

from experiments.harness import Result, Settings, Table
from experiments.measure import in_a_process, timed
from maxplus.algebra import maxplus, minplus

Shape = tuple[int, int, int]
FULL_SHAPE, FULL_ROUNDS = (4096, 1568, 500), 5
QUICK_SHAPE, QUICK_ROUNDS = (256, 98, 50), 2
OURS, OURS_ALONE, TROPICAL_GEMM = "maxplus", "maxplus, 1 thread", "tropical-gemm"
# NumPy broadcasts blocks of rows. Blocks of 2 rows fit into the cache and were the fastest.
NUMPY, NUMPY_FASTEST = "NumPy, 64 rows", "NumPy, 2 rows"
COMPARED = (TROPICAL_GEMM, NUMPY, NUMPY_FASTEST)
COLUMNS = {
    "product": "case",
    "by": "contender",
    "ms": "{ms:.1f}",
    "G sums/s": "{speed:.1f}",
    "ratio": "{ratio:.1f}",
    "compiling": "compiling",
}

Product = Callable[[NDArray, NDArray], Any]


def run(settings: Settings) -> Result:
    """Time all implementations in a subprocess with an empty kernel cache."""
    shape = settings.pick(FULL_SHAPE, QUICK_SHAPE)
    sizes = {"shape": shape, "rounds": settings.pick(FULL_ROUNDS, QUICK_ROUNDS)}
    n, m, k = shape
    with TemporaryDirectory() as folder:
        timings = in_a_process(measure, sizes, {"NUMBA_CACHE_DIR": folder})
    cells = [
        row
        | {
            "ms": 1e3 * row["median"],
            "speed": n * m * k / row["median"] / 1e9,
            "compiling": f"{row['first'] - row['median']:.1f} s" * (row["contender"] == OURS),
        }
        for row in timings
    ]
    minplus_rows = {row["contender"]: row for row in cells if row["case"] == "min-plus"}
    ratios = {name: minplus_rows[name]["ratio"] for name in COMPARED}
    faster = ", ".join(f"{ratio:.1f} times as fast as {name}" for name, ratio in ratios.items())
    text = (
        f"Products of a {n} × {m} and a {m} × {k} matrix in float32, as in the min-plus layer of "
        "an MNIST network. Results are bit-identical, and times are medians of alternating runs. "
        f"maxplus computes {minplus_rows[OURS]['speed']:.0f} G sums/s and is {faster}."
    )
    return Result(
        "Min-plus and max-plus products",
        text,
        [Table.from_records(f"{n} × {m} times {m} × {k}", cells, COLUMNS)],
        {"shape": list(shape), "ratios": ratios, "timings": timings},
        scale=" × ".join(map(str, shape)),
    )


def measure(shape: Shape, rounds: int) -> list[dict[str, Any]]:
    """Check and time all implementations; ``first`` is the time of the first call."""
    rng = np.random.default_rng(0)
    n, m, k = shape
    A: NDArray = rng.standard_normal((n, m)).astype(np.float32)
    B: NDArray = rng.standard_normal((m, k)).astype(np.float32)
    timings = []
    for case, products in _products().items():
        first = {name: timed(product, A, B) for name, product in products.items()}
        for name, (_, result) in first.items():
            np.testing.assert_array_equal(first[OURS][1], np.reshape(result, (n, k)), name)
        seconds: dict[str, list[float]] = {name: [] for name in products}
        for _ in range(rounds):
            for name, product in products.items():
                seconds[name].append(timed(product, A, B)[0])
        timings += [
            {
                "case": case,
                "contender": name,
                "first": first[name][0],
                "seconds": seconds[name],
                "median": median(seconds[name]),
                "ratio": median(seconds[name]) / median(seconds[OURS]),
            }
            for name in products
        ]
    return timings


def _products() -> dict[str, dict[str, Product]]:
    """Return the implementations of each product."""
    import tropical_gemm

    return {
        "min-plus": {
            OURS: minplus,
            OURS_ALONE: _minplus_on_one_thread,
            TROPICAL_GEMM: tropical_gemm.minplus_matmul_2d,
            NUMPY: partial(numpy_product, np.min, 64),
            NUMPY_FASTEST: partial(numpy_product, np.min, 2),
        },
        "max-plus": {
            OURS: maxplus,
            TROPICAL_GEMM: tropical_gemm.maxplus_matmul_2d,
            NUMPY_FASTEST: partial(numpy_product, np.max, 2),
        },
    }


def _minplus_on_one_thread(A: NDArray, B: NDArray) -> Any:
    before = get_num_threads()
    set_num_threads(1)
    try:
        return minplus(A, B)
    finally:
        set_num_threads(before)


def numpy_product(reduce: Callable, size: int, A: NDArray, B: NDArray) -> NDArray:
    """Return a product, computed by broadcasting blocks of ``size`` rows."""
    BT = np.ascontiguousarray(B.T)
    parts = [reduce(A[i : i + size, None] + BT, axis=2) for i in range(0, len(A), size)]
    return np.concatenate(parts)
