"""Min-plus and max-plus products against tropical-gemm and NumPy, in one run.

The shape is a min-plus layer of an MNIST network: 4096 images, 2 × 784 rows,
500 units. Every contender runs once unmeasured, then all take turns, so that a
busy moment of the machine hits each of them; medians count. All results must be
equal to the last bit: a minimum of rounded sums does not depend on their order.

    python benchmarks/products.py [--rounds 5] [--out benchmarks/results/products.json]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

import numba
import numpy as np
import tropical_gemm
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from machine import machine_facts

SHAPE = (4096, 1568, 500)
OURS, OURS_ALONE, RIVAL = "maxplus", "maxplus, 1 thread", "tropical-gemm"
# NumPy broadcasts a block of rows at a time. 64 rows is what one writes; 2 rows, whose sums
# stay in the cache, were the fastest of all sizes tried.
NUMPY, NUMPY_FASTEST = "NumPy, 64 rows", "NumPy, 2 rows"
GOALS = {RIVAL: 3.0, NUMPY: 40.0, NUMPY_FASTEST: 40.0}

Product = Callable[[NDArray, NDArray], object]


@dataclass
class Timing:
    """One contender's seconds in one case; ``first`` holds the first call, compilation included."""

    case: str
    contender: str
    first: float = 0.0
    seconds: list[float] = field(default_factory=list)
    ratio: float = 1.0

    @property
    def median(self) -> float:
        """The median of the rounds."""
        return median(self.seconds)


def cases() -> dict[str, tuple[type, dict[str, Product]]]:
    """What is computed: case → (float type, contender → product)."""
    from maxplus.algebra import maxplus, minplus

    tg = tropical_gemm
    return {
        "min-plus": (
            np.float32,
            {
                OURS: minplus,
                OURS_ALONE: one_thread(minplus),
                RIVAL: tg.minplus_matmul_2d,
                NUMPY: row_blocks(np.min, 64),
                NUMPY_FASTEST: row_blocks(np.min, 2),
            },
        ),
        "max-plus": (
            np.float32,
            {OURS: maxplus, RIVAL: tg.maxplus_matmul_2d, NUMPY_FASTEST: row_blocks(np.max, 2)},
        ),
        "… with winners": (
            np.float32,
            {
                OURS: lambda A, B: minplus(A, B, return_index=True),
                RIVAL: tg.minplus_matmul_with_argmax,
                NUMPY_FASTEST: row_blocks(np.argmin, 2),
            },
        ),
        "… in float64": (
            np.float64,
            {OURS: minplus, RIVAL: tg.minplus_matmul_2d_f64, NUMPY_FASTEST: row_blocks(np.min, 2)},
        ),
    }


def one_thread(product: Product) -> Product:
    """The same product on one core."""

    def run(A: NDArray, B: NDArray) -> object:
        before = numba.get_num_threads()
        numba.set_num_threads(1)
        try:
            return product(A, B)
        finally:
            numba.set_num_threads(before)

    return run


def row_blocks(reduce: Callable, size: int) -> Product:
    """The product by broadcasting ``size`` rows at a time."""

    def run(A: NDArray, B: NDArray) -> NDArray:
        BT = np.ascontiguousarray(B.T)
        parts = [reduce(A[i : i + size, None] + BT, axis=2) for i in range(0, len(A), size)]
        return np.concatenate(parts)

    return run


def run(rounds: int) -> list[Timing]:
    """Check and time all contenders in all cases."""
    rng = np.random.default_rng(0)
    n, m, k = SHAPE
    timings = []
    for case, (dtype, contenders) in cases().items():
        A = rng.standard_normal((n, m)).astype(dtype)
        B = rng.standard_normal((m, k)).astype(dtype)
        rows = {name: Timing(case, name) for name in contenders}
        results = {}
        for name, product in contenders.items():
            rows[name].first, results[name] = timed(product, A, B)
        check(A, B, results)
        for _ in range(rounds):
            for name, product in contenders.items():
                rows[name].seconds.append(timed(product, A, B)[0])
        for row in rows.values():
            row.ratio = row.median / rows[OURS].median
        timings += rows.values()
    return timings


def timed(product: Product, A: NDArray, B: NDArray) -> tuple[float, object]:
    """Seconds and result of one call."""
    started = time.perf_counter()
    result = product(A, B)
    return time.perf_counter() - started, result


def check(A: NDArray, B: NDArray, results: dict[str, object]) -> None:
    """All values are equal to the last bit; every winner attains its value."""
    ours = results[OURS]
    values, winners = ours if isinstance(ours, tuple) else (ours, None)
    for name, result in results.items():
        value, index = result if isinstance(result, tuple) else (result, None)
        if winners is not None and index is None:
            # NumPy, too, takes the first among equals.
            np.testing.assert_array_equal(winners, value, err_msg=name)
            continue
        np.testing.assert_array_equal(values, np.reshape(value, values.shape), err_msg=name)
        if index is not None:
            j = np.reshape(index, values.shape)
            attained = np.take_along_axis(A, j, 1) + np.take_along_axis(B, j, 0)
            np.testing.assert_array_equal(values, attained, err_msg=name)


def goals(timings: list[Timing]) -> dict[str, dict[str, object]]:
    """Whether the float32 min-plus product is as many times faster as it must be."""
    ratios = {row.contender: row.ratio for row in timings if row.case == "min-plus"}
    return {
        name: {"goal": goal, "ratio": ratios[name], "met": ratios[name] >= goal}
        for name, goal in GOALS.items()
    }


def show(console: Console, timings: list[Timing], facts: dict[str, object]) -> None:
    """Print machine, times and verdicts."""
    console.print(*(f"{name} {fact}" for name, fact in facts.items()), sep=" · ", style="dim")
    n, m, k = SHAPE
    table = Table("product", "by", title=f"{n} × {m} times {m} × {k}", title_justify="left")
    for head in ("ms", "G sums/s", "ratio", "compiling"):
        table.add_column(head, justify="right", no_wrap=True)
    last = None
    for row in timings:
        compiled = f"{row.first - row.median:.1f} s" if row.contender == OURS else ""
        table.add_row(
            row.case if row.case != last else "",
            row.contender,
            f"{1e3 * row.median:.1f}",
            f"{n * m * k / row.median / 1e9:.1f}",
            f"{row.ratio:.1f}",
            compiled,
        )
        last = row.case
    console.print(table)
    for name, verdict in goals(timings).items():
        word = "[green]met[/]" if verdict["met"] else "[red]missed[/]"
        console.print(
            f"at least {verdict['goal']:g} times as fast as {name}: {word} ({verdict['ratio']:.1f})"
        )


def main() -> None:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results" / "products.json"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # An empty cache, set before maxplus is imported: the first call really compiles.
        numba.config.CACHE_DIR = folder
        facts, timings = machine_facts("tropical-gemm"), run(options.rounds)
    show(Console(highlight=False), timings, facts)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    report = {
        "machine": facts,
        "shape": SHAPE,
        "goals": goals(timings),
        "timings": [asdict(row) | {"median": row.median} for row in timings],
    }
    options.out.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
