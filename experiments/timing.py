"""Time per iteration and memory of all engines as functions of the problem size."""

from __future__ import annotations

from bisect import bisect_right
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from experiments import measure
from experiments.harness import Figure, Result, Settings, Table, panels
from experiments.measure import in_a_process
from maxplus import datasets
from maxplus.models import LMM
from maxplus.plots._style import BLUE, GREEN, GREY, SMALL, VERMILION
from maxplus.training import MaxLoss, TrainingProblem, polyak
from maxplus.training.engines import TreeEngine
from maxplus.training.memory import human_bytes
from maxplus.training.result import Block

# Numbers of features and classes of MNIST, and update intervals of W⁰.
N_FEATURES, N_CLASSES, ALWAYS, SELDOM = 784, 10, 1, measure.W0_UPDATE_INTERVAL
TREE_LIMIT = 8_000_000_000
PHASES = {"polyak": "Polyak steps", "constant": "constant steps"}
# Dimensions of the problem: symbol of each.
SYMBOLS = {"samples": "N", "hidden": "H"}

# Results by name of the variant, number of images and number of units.
Costs = dict[tuple[str, int, int], dict[str, Any]]


class Variant(NamedTuple):
    """Engine, update interval of W⁰, number of iterations, colour and line style."""

    engine: str
    w0_update_interval: int
    iterations: int
    colour: str
    line: str

    @property
    def name(self) -> str:
        """Name in the paper's table."""
        return self.engine + (", W⁰ every 100" if self.w0_update_interval == SELDOM else "")


DENSE = Variant("dense", ALWAYS, 5, GREY, "-")
VARIANTS = (
    DENSE,
    Variant("tree", ALWAYS, 30, VERMILION, "--"),
    Variant("tree", SELDOM, 100, VERMILION, "-"),
    Variant("sparse", ALWAYS, 100, GREEN, "-"),
    Variant("sparse", SELDOM, 300, BLUE, "-"),
)
# Milliseconds per iteration and memory reported in the paper, on 30 processors.
PAPER = {
    "sparse, W⁰ every 100": ("120", "513 GB"),
    "sparse": ("3,480", "513 GB"),
    "dense": ("18,960", "10 GB"),
}


class Sizes(NamedTuple):
    """Measured numbers of images (with ``n_hidden`` units) and of units."""

    samples: tuple[int, ...]
    hidden: tuple[int, ...]
    n_hidden: int

    @property
    def full(self) -> int:
        """Largest number of images."""
        return self.samples[-1]

    @property
    def common(self) -> int:
        """Largest number of images for which the tree engine fits into memory."""
        return bisect_right(
            range(1, self.full + 1), TREE_LIMIT, key=lambda n: tree_bytes(n, self.n_hidden)
        )

    def along(self, dimension: str, engine: str) -> list[tuple[int, int]]:
        """Return the numbers of images and units along "samples" or "hidden" that fit."""
        is_tree = engine == "tree"
        if dimension == "samples":
            pairs = [(n, self.n_hidden) for n in sorted({*self.samples, self.common})]
        else:
            pairs = [(self.common if is_tree else self.full, h) for h in self.hidden]
        return [pair for pair in pairs if not is_tree or tree_bytes(*pair) <= TREE_LIMIT]


FULL = Sizes((250, 1_000, 4_000, 15_000, 60_000), (60, 125, 250, 500, 1_000), 500)
QUICK = Sizes((100, 400), (40, 80), 40)


def tree_bytes(n: int, n_hidden: int) -> int:
    """Return the memory of the tree engine for n images."""
    rows, dtype = 2 * N_FEATURES, np.float32
    shapes: tuple[tuple[int, ...], ...] = ((rows,), (rows, n_hidden), (n_hidden, N_CLASSES))
    model = LMM(*(np.empty(shape, dtype) for shape in shapes))
    images = np.empty((0, N_FEATURES), dtype)
    problem = TrainingProblem(images, np.empty(n, int), MaxLoss(), polyak())
    return TreeEngine.bytes_needed(model, problem)


def measure_run(
    folder: str, engine: str, samples: int, hidden: int, w0_update_interval: int, iterations: int
) -> dict[str, Any]:
    """Return time per iteration, set-up time and peak memory on the first samples in a folder.

    The run has ``iterations`` Polyak steps, followed by equally many constant steps.
    """
    X, y = (np.array(np.load(Path(folder) / f"{name}.npy", "r")[:samples]) for name in "Xy")
    steps = measure.two_phases(y, 1 + iterations)
    set_up, running = measure.timed(
        measure.engine_on, X, y, steps, engine, hidden, w0_update_interval
    )
    # Compile or load the kernels.
    running.advance(Block(1))
    seconds = {phase: measure.seconds_per_iteration(running, iterations) for phase in PHASES}
    return {**seconds, "set_up": set_up, "peak": measure.peak_bytes()}


def run(settings: Settings) -> Result:
    """Measure each engine at each size in a separate process."""
    sizes = settings.pick(FULL, QUICK)
    costs: Costs = {}
    runs = [
        (v, *size) for v in VARIANTS for along in SYMBOLS for size in sizes.along(along, v.engine)
    ]
    with TemporaryDirectory() as folder:
        data = datasets.load_mnist()
        order = np.random.default_rng(0).permutation(len(data.y_train))[: sizes.full]
        np.save(Path(folder) / "X.npy", data.X_train[order])
        np.save(Path(folder) / "y.npy", data.y_train[order])
        for v, samples, hidden in settings.track(dict.fromkeys(runs), "engines"):
            options = {"engine": v.engine, "samples": samples, "hidden": hidden}
            options |= {"w0_update_interval": v.w0_update_interval, "iterations": v.iterations}
            make = partial(in_a_process, measure_run, {"folder": folder, **options})
            name = "-".join(map(str, options.values()))
            costs[v.name, samples, hidden] = options | settings.cache.get(name, make)
    full, common, n_hidden = sizes.full, sizes.common, sizes.n_hidden
    tables = [_table(f"{full:,} images, {n_hidden} units", costs, full, n_hidden, PAPER)]
    if common < full:
        caption = (
            f"{common:,} images, {n_hidden} units: the largest size whose trees fit into "
            f"{human_bytes(TREE_LIMIT)}"
        )
        tables.append(_table(caption, costs, common, n_hidden, {}))
    at_full = {v.name: costs.get((v.name, full, n_hidden), {}) for v in VARIANTS}
    # Speed-up of the sparse engine over the dense engine at the largest size.
    ratios = {
        v.name: {phase: at_full[DENSE.name][phase] / at_full[v.name][phase] for phase in PHASES}
        for v in VARIANTS
        if v.engine == "sparse"
    }
    exponents = {
        v.name: {
            f"{symbol}, {text}": _exponent(*_curve(costs, v, sizes, along, phase))
            for along, symbol in SYMBOLS.items()
            for phase, text in PHASES.items()
        }
        for v in VARIANTS
    }
    rows = [
        (name, *("–" if b is None else f"{b:.2f}" for b in own.values()))
        for name, own in exponents.items()
    ]
    columns = ("engine", *exponents[DENSE.name])
    tables.append(Table("Exponents of growth with the images N and the units H", columns, rows))
    fast = VARIANTS[-1].name
    return Result(
        "Cost of an iteration",
        _text(at_full[fast], ratios[fast], sizes),
        tables,
        {"runs": [*costs.values()], "common": common, "ratios": ratios, "exponents": exponents},
        {"growth": _draw(costs, sizes)},
        f"at most {full:,} images and {n_hidden} units",
    )


def _text(fast: dict[str, Any], ratio: dict[str, float], sizes: Sizes) -> str:
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
    caption: str, costs: Costs, n: int, n_hidden: int, paper: dict[str, tuple[str, str]]
) -> Table:
    rows = []
    for variant in VARIANTS:
        published: tuple[str, ...] = paper.get(variant.name, ("–", "–")) if paper else ()
        cost = costs.get((variant.name, n, n_hidden))
        if cost is None:
            measured = ("–", "–", f"would need {human_bytes(tree_bytes(n, n_hidden))}")
        else:
            polyak_ms, constant_ms = (f"{1e3 * cost[phase]:.3g}" for phase in PHASES)
            measured = (polyak_ms, constant_ms, human_bytes(cost["peak"]))
        rows.append((variant.name, *published, *measured))
    columns = ("engine", *(("ms (paper)", "memory (paper)") if paper else ()))
    columns += tuple(f"ms, {phase}" for phase in PHASES.values())
    return Table(caption, (*columns, "peak memory"), rows)


def _curve(
    costs: Costs, variant: Variant, sizes: Sizes, along: str, phase: str
) -> tuple[list[int], list[float]]:
    """Return the sizes and times per iteration along "samples" or "hidden"."""
    runs = [costs[variant.name, n, h] for n, h in sizes.along(along, variant.engine)]
    return [run[along] for run in runs], [run[phase] for run in runs]


def _exponent(x: list[int], seconds: list[float]) -> float | None:
    """Fit log(seconds) = a + b·log(x) and return b, or None for a single point."""
    return float(np.polyfit(np.log(x), np.log(seconds), 1)[0]) if len(x) > 1 else None


def _draw(costs: Costs, sizes: Sizes) -> Figure:
    titles = ("Polyak steps (line), constant steps (dots)", "")
    figure, (left, right) = panels(11.0, 4.8, titles, sharey=True)
    for ax, along, label in (
        (left, "samples", f"images N ({sizes.n_hidden} units)"),
        (right, "hidden", f"units H ({sizes.full:,} images; trees: {sizes.common:,})"),
    ):
        for variant in VARIANTS:
            style: dict[str, Any] = {"marker": "o", "ms": 3.5, "color": variant.colour}
            for phase, line, name in (
                ("polyak", variant.line, variant.name),
                ("constant", ":", None),
            ):
                x, seconds = _curve(costs, variant, sizes, along, phase)
                ax.plot(x, seconds, line, label=name, **style)
        ax.set(xscale="log", yscale="log", xlabel=label)
        ax.grid(color=GREY, alpha=0.15)
    left.set_ylabel("seconds per iteration")
    right.legend(frameon=False, fontsize=SMALL, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure
