"""Seconds per iteration and memory of all engines, and their growth with the size."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from experiments import measure
from experiments.harness import Result, Settings, Table
from experiments.measure import in_a_process
from maxplus import datasets
from maxplus.models import LMM
from maxplus.plots._canvas import BLUE, GREEN, GREY, SMALL, VERMILION, new_figure, quiet_frame
from maxplus.training import MaxLoss, TrainingProblem, polyak
from maxplus.training.engines import TreeEngine
from maxplus.training.memory import human_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Features and classes of MNIST; intervals between updates of W⁰.
N_FEATURES, N_CLASSES, ALWAYS, SELDOM = 784, 10, 1, measure.W0_UPDATE_INTERVAL
TREE_LIMIT = 8_000_000_000
PHASES = {"polyak": "Polyak steps", "constant": "constant steps"}


@dataclass(frozen=True)
class TimedRun:
    """An engine at one size: ``iterations`` Polyak steps, then the same number of constant ones."""

    engine: str
    samples: int
    hidden: int
    w0_update_interval: int
    iterations: int

    def measure(self, X: NDArray, y: NDArray) -> dict[str, Any]:
        """Return seconds per iteration of both phases and of set-up, and the peak memory."""
        steps = measure.two_phases(y, 1 + self.iterations)
        set_up, engine = measure.timed(
            measure.engine_on, X, y, steps, self.engine, self.hidden, self.w0_update_interval
        )
        measure.warm_up(engine)
        seconds = {
            phase: measure.seconds_per_iteration(engine, self.iterations) for phase in PHASES
        }
        return asdict(self) | seconds | {"set_up": set_up, "peak": measure.peak_bytes()}


class Variant(NamedTuple):
    """An engine, the update interval of W⁰, iterations, colour and line style."""

    engine: str
    w0_update_interval: int
    iterations: int
    colour: str
    line: str

    @property
    def name(self) -> str:
        """Name in the paper's table."""
        return self.engine + (", W⁰ every 100" if self.w0_update_interval == SELDOM else "")

    def at(self, samples: int, hidden: int) -> tuple[Any, ...]:
        """Return the key of a run in the frame of results."""
        return self.engine, self.w0_update_interval, samples, hidden


DENSE = Variant("dense", ALWAYS, 5, GREY, "-")
VARIANTS = (
    DENSE,
    Variant("tree", ALWAYS, 30, VERMILION, "--"),
    Variant("tree", SELDOM, 100, VERMILION, "-"),
    Variant("sparse", ALWAYS, 100, GREEN, "-"),
    Variant("sparse", SELDOM, 300, BLUE, "-"),
)
# Seconds per iteration and gigabytes in the paper, on 30 processors.
PAPER: dict[str, tuple[float, float]] = {
    "sparse, W⁰ every 100": (0.12, 513),
    "sparse": (3.48, 513),
    "dense": (18.96, 10),
}


class Sizes(NamedTuple):
    """Numbers of images (with ``n_hidden`` units) and of units that are measured."""

    samples: tuple[int, ...]
    hidden: tuple[int, ...]
    n_hidden: int

    @property
    def full(self) -> int:
        """Largest number of images."""
        return self.samples[-1]

    @property
    def common(self) -> int:
        """Largest number of images whose trees fit into memory."""
        return bisect_right(
            range(1, self.full + 1), TREE_LIMIT, key=lambda n: tree_bytes(n, self.n_hidden)
        )

    def pairs(self, engine: str, along: str) -> list[tuple[int, int]]:
        """Return numbers of images and units, along "samples" or "hidden"."""
        if along == "samples":
            return [(n, self.n_hidden) for n in sorted({*self.samples, self.common})]
        return [(self.common if engine == "tree" else self.full, h) for h in self.hidden]

    def runs_of(self, variant: Variant) -> list[TimedRun]:
        """Return all runs that fit into memory, each once."""
        pairs = [
            pair for along in ("samples", "hidden") for pair in self.pairs(variant.engine, along)
        ]
        return [
            TimedRun(variant.engine, n, h, variant.w0_update_interval, variant.iterations)
            for n, h in dict.fromkeys(pairs)
            if variant.engine != "tree" or tree_bytes(n, h) <= TREE_LIMIT
        ]


FULL = Sizes((250, 1_000, 4_000, 15_000, 60_000), (60, 125, 250, 500, 1_000), 500)
QUICK = Sizes((100, 400), (40, 80), 40)


def tree_bytes(n: int, n_hidden: int) -> int:
    """Return the memory of the tree engine for n images."""
    rows, dtype = 2 * N_FEATURES, np.float32
    shapes: tuple[tuple[int, ...], ...] = ((rows,), (rows, n_hidden), (n_hidden, N_CLASSES))
    model = LMM(*(np.empty(shape, dtype) for shape in shapes))
    images = np.empty((0, N_FEATURES), dtype)
    return TreeEngine.bytes_needed(
        model, TrainingProblem(images, np.empty(n, int), MaxLoss(), polyak())
    )


def measure_first_samples(folder: str, run: dict[str, Any]) -> dict[str, Any]:
    """Measure a `TimedRun`, given by its fields, on the first samples in a folder."""
    timed_run = TimedRun(**run)
    X, y = (
        np.array(np.load(Path(folder) / f"{name}.npy", "r")[: timed_run.samples]) for name in "Xy"
    )
    return timed_run.measure(X, y)


def run(settings: Settings) -> Result:
    """Measure each engine at each size in a process of its own."""
    sizes = QUICK if settings.quick else FULL
    runs = [run for variant in VARIANTS for run in sizes.runs_of(variant)]
    results = []
    with TemporaryDirectory() as folder:
        data = datasets.load_mnist()
        order = np.random.default_rng(0).permutation(len(data.y_train))[: sizes.full]
        np.save(Path(folder) / "X.npy", data.X_train[order])
        np.save(Path(folder) / "y.npy", data.y_train[order])
        for timed_run in settings.track(runs, "engines"):
            name = "-".join(str(value) for value in asdict(timed_run).values())
            options = {"folder": folder, "run": asdict(timed_run)}
            make = partial(in_a_process, measure_first_samples, options)
            results.append(settings.cache.get_json(name, make))
    scale = f"at most {sizes.full:,} images and {sizes.n_hidden} units" if settings.quick else ""
    return describe(results, sizes, scale)


def describe(results: list[dict[str, Any]], sizes: Sizes, scale: str = "") -> Result:
    """Return tables, ratios, exponents and the figure of the measurements."""
    keys = ["engine", "w0_update_interval", "samples", "hidden"]
    frame = pd.DataFrame(results).set_index(keys)
    full, common, n_hidden = sizes.full, sizes.common, sizes.n_hidden
    tables = [_table(f"{full:,} images, {n_hidden} units", frame, full, n_hidden, PAPER)]
    if common < full:
        caption = (
            f"{common:,} images, {n_hidden} units: the largest size whose trees fit into "
            f"{human_bytes(TREE_LIMIT)}"
        )
        tables.append(_table(caption, frame, common, n_hidden, {}))
    dense = frame.loc[DENSE.at(full, n_hidden)]
    # Number of sparse iterations in the time of a dense one, at the largest size.
    ratios = {
        variant.name: {
            phase: float(dense[phase] / frame.loc[variant.at(full, n_hidden)][phase])
            for phase in PHASES
        }
        for variant in VARIANTS
        if variant.engine == "sparse"
    }
    exponents = {variant.name: _exponents(frame, variant, sizes) for variant in VARIANTS}
    rows = [
        (name, *("–" if b is None else f"{b:.2f}" for b in found.values()))
        for name, found in exponents.items()
    ]
    columns = ("engine", *next(iter(exponents.values())))
    tables.append(Table("Exponents of growth with the images N and the units H", columns, rows))
    fast = frame.loc[VARIANTS[-1].at(full, n_hidden)]
    return Result(
        "Cost of an iteration",
        _text(fast, ratios[VARIANTS[-1].name], sizes),
        tables,
        {"runs": results, "common": common, "ratios": ratios, "exponents": exponents},
        {"growth": _draw(frame, sizes)},
        scale,
    )


def _text(fast: Any, ratio: dict[str, float], sizes: Sizes) -> str:
    return (
        f"Each engine runs in its own process, first Polyak steps, then constant steps, with "
        f"{sizes.n_hidden} units and up to {sizes.full:,} images of MNIST. At the largest size an "
        f"iteration with W⁰ every 100 takes {1e3 * fast['polyak']:.2g} ms with Polyak steps and "
        f"{1e3 * fast['constant']:.2g} ms with constant steps, {ratio['polyak']:.0f} and "
        f"{ratio['constant']:.0f} times less than a dense one, in {human_bytes(fast['peak'])} (the "
        "paper: 120 ms on 30 processors, 158 times less than its dense one, in 513 GB). The tree "
        "engine, the paper's algorithm, would need "
        f"{human_bytes(tree_bytes(sizes.full, sizes.n_hidden))}. All engines take the same steps. "
        "The paper times the first 300 iterations, which are Polyak steps. At the start nearly all "
        "units tie, which is the most expensive case of the sparse engine: long runs are faster "
        "(`long-run`)."
    )


def _table(
    caption: str,
    frame: pd.DataFrame,
    n: int,
    n_hidden: int,
    paper: dict[str, tuple[float, float]],
) -> Table:
    rows = []
    for variant in VARIANTS:
        key = variant.at(n, n_hidden)
        row: tuple[Any, ...] = (variant.name,)
        if paper:
            theirs = paper.get(variant.name)
            row += (f"{1e3 * theirs[0]:,.0f}", f"{theirs[1]} GB") if theirs else ("–", "–")
        if key in frame.index:
            found = frame.loc[key]
            row += tuple(f"{1e3 * found[phase]:.3g}" for phase in PHASES)
            row += (human_bytes(found["peak"]),)
        else:
            row += ("–", "–", f"would need {human_bytes(tree_bytes(n, n_hidden))}")
        rows.append(row)
    columns = ("engine", *(("ms (paper)", "memory (paper)") if paper else ()))
    columns += tuple(f"ms, {phase}" for phase in PHASES.values())
    return Table(caption, (*columns, "peak memory"), rows)


def _curve(
    frame: pd.DataFrame, variant: Variant, sizes: Sizes, along: str, phase: str
) -> tuple[list[int], list[float]]:
    """Return sizes and seconds per iteration along "samples" or "hidden"."""
    keys = [variant.at(*pair) for pair in sizes.pairs(variant.engine, along)]
    keys = [key for key in keys if key in frame.index]
    place = 2 if along == "samples" else 3
    return [key[place] for key in keys], [float(frame.loc[key][phase]) for key in keys]


def _exponents(frame: pd.DataFrame, variant: Variant, sizes: Sizes) -> dict[str, float | None]:
    """Return b of log(seconds) = a + b·log(size), along N and H, for both phases."""
    found: dict[str, float | None] = {}
    for symbol, along in (("N", "samples"), ("H", "hidden")):
        for phase, text in PHASES.items():
            x, seconds = _curve(frame, variant, sizes, along, phase)
            b = float(np.polyfit(np.log(x), np.log(seconds), 1)[0]) if len(x) > 1 else None
            found[f"{symbol}, {text}"] = b
    return found


def _draw(frame: pd.DataFrame, sizes: Sizes) -> Figure:
    figure = new_figure(11.0, 4.8)
    left, right = figure.subplots(1, 2, sharey=True)
    for ax, along, label in (
        (left, "samples", f"images N ({sizes.n_hidden} units)"),
        (right, "hidden", f"units H ({sizes.full:,} images; trees: {sizes.common:,})"),
    ):
        for variant in VARIANTS:
            for phase, style, name in (
                ("polyak", variant.line, variant.name),
                ("constant", ":", None),
            ):
                x, seconds = _curve(frame, variant, sizes, along, phase)
                ax.plot(x, seconds, style, marker="o", ms=3.5, color=variant.colour, label=name)
        ax.set(xscale="log", yscale="log", xlabel=label)
        ax.grid(color=GREY, alpha=0.15)
    left.set_ylabel("seconds per iteration")
    quiet_frame(left, "Polyak steps (line), constant steps (dots)")
    quiet_frame(right, "")
    right.legend(frameon=False, fontsize=SMALL, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure
