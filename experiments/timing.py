"""Seconds per iteration and memory of all engines, and how they grow."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments import measure, paper
from experiments.harness import Result, Settings, Table
from experiments.measure import in_a_process
from maxplus import datasets
from maxplus.models import LMM
from maxplus.plots._canvas import BLUE, GREEN, GREY, INK, SMALL, VERMILION, new_figure, quiet_frame
from maxplus.training import MaxLoss, TrainingProblem, polyak
from maxplus.training.engines import TreeEngine
from maxplus.training.memory import human_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Features and classes of MNIST; how often W⁰ moves.
N_FEATURES, N_CLASSES, ALWAYS, SELDOM = 784, 10, 1, paper.LINEAR_EVERY
TREE_LIMIT = 8_000_000_000


@dataclass(frozen=True)
class TimedRun:
    """An engine at one size: ``iterations`` Polyak steps, then as many constant ones."""

    engine: str
    samples: int
    hidden: int
    w0_update_interval: int
    iterations: int

    def measure(self, X: NDArray, y: NDArray) -> dict[str, Any]:
        """Return seconds per iteration of both phases and of set-up, and the peak memory."""
        steps = paper.two_phases(y, 1 + self.iterations)
        set_up, engine = measure.timed(
            paper.engine_on, X, y, steps, self.engine, self.hidden, self.w0_update_interval
        )
        measure.warm_up(engine)
        seconds = {
            phase: measure.seconds_per_iteration(engine, self.iterations)
            for phase in ("polyak", "constant")
        }
        return asdict(self) | seconds | {"set_up": set_up, "peak": measure.peak_bytes()}


class Variant(NamedTuple):
    """An engine, how often W⁰ moves, and its iterations, colour and line style."""

    engine: str
    w0_update_interval: int
    iterations: int
    colour: str
    line: str

    @property
    def name(self) -> str:
        """Name in the paper's table."""
        return self.engine + (", W⁰ every 100" if self.w0_update_interval == SELDOM else "")


class Sizes(NamedTuple):
    """Numbers of images (at ``n_hidden`` units) and of units that are measured."""

    samples: tuple[int, ...]
    hidden: tuple[int, ...]
    n_hidden: int

    @property
    def full(self) -> int:
        """Largest number of images."""
        return self.samples[-1]

    @property
    def common(self) -> int:
        """Most images whose trees fit into memory, where all engines can be compared."""
        return bisect_right(
            range(1, self.full + 1), TREE_LIMIT, key=lambda n: tree_bytes(n, self.n_hidden)
        )

    def growth_in_units_at(self, engine: str) -> int:
        """Return the number of images at which growth with the units is measured."""
        return self.common if engine == "tree" else self.full

    def runs_of(self, variant: Variant) -> list[TimedRun]:
        """Return all runs that fit into memory, each once."""
        at = self.growth_in_units_at(variant.engine)
        pairs = [(n, self.n_hidden) for n in (*self.samples, self.common)]
        pairs += [(at, h) for h in self.hidden]
        return [
            TimedRun(variant.engine, n, h, variant.w0_update_interval, variant.iterations)
            for n, h in dict.fromkeys(pairs)
            if variant.engine != "tree" or tree_bytes(n, h) <= TREE_LIMIT
        ]


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
    """Measure a `TimedRun`, given as its fields, on the first samples of a folder's X and y."""
    wanted = TimedRun(**run)
    return wanted.measure(*_load(folder, wanted.samples))


def _load(folder: str, n: int) -> tuple[NDArray, NDArray]:
    X, y = (np.array(np.load(Path(folder) / f"{name}.npy", "r")[:n]) for name in "Xy")
    return X, y


PHASES = {"polyak": "Polyak steps", "constant": "constant steps"}


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


FULL = Sizes((250, 1_000, 4_000, 15_000, 60_000), (60, 125, 250, 500, 1_000), 500)
QUICK = Sizes((100, 400), (40, 80), 40)


def run(settings: Settings) -> Result:
    """Measure each engine at each size in a process of its own."""
    sizes = QUICK if settings.quick else FULL
    wanted = [run for variant in VARIANTS for run in sizes.runs_of(variant)]
    results = []
    with TemporaryDirectory() as folder:
        _save_images(Path(folder), sizes.full)
        for timed in settings.track(wanted, "engines"):
            name = "-".join(str(value) for value in asdict(timed).values())
            options = {"folder": folder, "run": asdict(timed)}
            make = partial(in_a_process, measure_first_samples, options)
            results.append(settings.cache.get_json(name, make))
    scale = f"at most {sizes.full:,} images and {sizes.n_hidden} units" if settings.quick else ""
    return describe(results, sizes, scale)


def describe(results: list[dict[str, Any]], sizes: Sizes, scale: str = "") -> Result:
    """Return tables, ratios, exponents and the figure of the measurements."""
    common, full = sizes.common, sizes.full
    tables = [_table(f"{full:,} images, {sizes.n_hidden} units", results, full, sizes, PAPER)]
    if common < full:
        caption = (
            f"{common:,} images, {sizes.n_hidden} units: the most whose trees fit into "
            f"{human_bytes(TREE_LIMIT)}"
        )
        tables.append(_table(caption, results, common, sizes, {}))
    exponents, ratios = _exponents(results, sizes), _ratios(results, sizes)
    tables.append(_exponents_table(exponents))
    return Result(
        "Cost of an iteration",
        _text(results, ratios, sizes),
        tables,
        {"runs": results, "common": common, "ratios": ratios, "exponents": exponents},
        {"growth": _draw(results, ratios, sizes)},
        scale,
    )


def _save_images(folder: Path, n: int) -> None:
    """Save the first n images of MNIST in a random order, for processes that need some."""
    data = datasets.load_mnist()
    order = np.random.default_rng(0).permutation(len(data.y_train))[:n]
    np.save(folder / "X.npy", data.X_train[order])
    np.save(folder / "y.npy", data.y_train[order])


def _find(results: list[dict], variant: Variant, n: int, h: int) -> dict[str, Any] | None:
    wanted = (variant.engine, variant.w0_update_interval, n, h)
    keys = ("engine", "w0_update_interval", "samples", "hidden")
    return next((r for r in results if tuple(r[key] for key in keys) == wanted), None)


def _largest(results: list[dict], variant: Variant, sizes: Sizes) -> dict[str, Any]:
    """Return the run at the largest size."""
    found = _find(results, variant, sizes.full, sizes.n_hidden)
    if found is None:
        raise ValueError(f"{variant.name} was not timed at {sizes.full:,} images")
    return found


def _ratios(results: list[dict], sizes: Sizes) -> dict[str, dict[str, float]]:
    """Return how many sparse iterations fit into a dense one, at the largest size."""
    dense = _largest(results, DENSE, sizes)
    return {
        variant.name: {
            phase: dense[phase] / _largest(results, variant, sizes)[phase] for phase in PHASES
        }
        for variant in VARIANTS
        if variant.engine == "sparse"
    }


def _text(results: list[dict], ratios: dict[str, dict[str, float]], sizes: Sizes) -> str:
    fast, ratio = _largest(results, VARIANTS[-1], sizes), ratios[VARIANTS[-1].name]
    return (
        "Each engine runs in a process of its own, Polyak steps from the start and constant steps "
        f"after, on {sizes.n_hidden} units and up to {sizes.full:,} images of MNIST. At the "
        f"largest size an iteration with W⁰ every 100 takes {1e3 * fast['polyak']:.2g} ms with "
        f"Polyak steps and {1e3 * fast['constant']:.2g} ms with constant ones, "
        f"{ratio['polyak']:.0f} and {ratio['constant']:.0f} "
        f"times less than a dense one, in {human_bytes(fast['peak'])} (the paper: 120 ms on 30 "
        "processors, 158 times less than its dense one, in 513 GB). The "
        f"tree engine, the paper's own algorithm, would need "
        f"{human_bytes(tree_bytes(sizes.full, sizes.n_hidden))} there. All engines take the same "
        "steps. The paper times 300 iterations from the start: its column belongs to Polyak steps. "
        "Right after the start nearly all units tie, which is the sparse engine's hardest time: "
        "long runs go faster (`long-run`)."
    )


def _table(
    caption: str, results: list[dict], n: int, sizes: Sizes, paper: dict[str, tuple[float, float]]
) -> Table:
    rows = []
    for variant in VARIANTS:
        found = _find(results, variant, n, sizes.n_hidden)
        theirs = paper.get(variant.name)
        row: tuple[Any, ...] = (variant.name,)
        if paper:
            row += (f"{1e3 * theirs[0]:,.0f}", f"{theirs[1]} GB") if theirs else ("–", "–")
        if found is None:
            needed = human_bytes(tree_bytes(n, sizes.n_hidden))
            row += ("–", "–", f"would need {needed}")
        else:
            row += tuple(f"{1e3 * found[phase]:.3g}" for phase in PHASES)
            row += (human_bytes(found["peak"]),)
        rows.append(row)
    columns: tuple[str, ...] = ("engine",)
    if paper:
        columns += ("ms (paper)", "memory (paper)")
    columns += tuple(f"ms, {phase}" for phase in PHASES.values())
    return Table(caption, (*columns, "peak memory"), rows)


def _curve(
    results: list[dict], variant: Variant, sizes: Sizes, along: str, phase: str
) -> tuple[list[int], list[float]]:
    """Return sizes and seconds per iteration along "samples" or "hidden"."""
    at = sizes.growth_in_units_at(variant.engine)
    pairs = (
        [(n, sizes.n_hidden) for n in sorted({*sizes.samples, sizes.common})]
        if along == "samples"
        else [(at, h) for h in sizes.hidden]
    )
    found = [r for n, h in pairs if (r := _find(results, variant, n, h)) is not None]
    return [r[along] for r in found], [r[phase] for r in found]


def _exponents(results: list[dict], sizes: Sizes) -> dict[str, dict[str, float | None]]:
    """Return b of log(seconds) = a + b·log(size), by variant, along N and H, of both phases."""

    def fitted(variant: Variant, along: str, phase: str) -> float | None:
        x, seconds = _curve(results, variant, sizes, along, phase)
        return float(np.polyfit(np.log(x), np.log(seconds), 1)[0]) if len(x) > 1 else None

    return {
        variant.name: {
            f"{symbol}, {words}": fitted(variant, along, phase)
            for symbol, along in (("N", "samples"), ("H", "hidden"))
            for phase, words in PHASES.items()
        }
        for variant in VARIANTS
    }


def _exponents_table(exponents: dict[str, dict[str, float | None]]) -> Table:
    rows = [
        (name, *("–" if b is None else f"{b:.2f}" for b in of_variant.values()))
        for name, of_variant in exponents.items()
    ]
    columns = ("engine", *next(iter(exponents.values())))
    return Table("Exponents of growth with the images N and the units H", columns, rows)


def _draw(results: list[dict], ratios: dict[str, dict[str, float]], sizes: Sizes) -> Figure:
    figure = new_figure(16.0, 4.8)
    left, middle, right = figure.subplots(1, 3, gridspec_kw={"width_ratios": (1.1, 1, 1)})
    right.sharey(middle)
    _draw_ratios(left, ratios, f"{sizes.full:,} images, {sizes.n_hidden} units")
    for ax, along, label in (
        (middle, "samples", f"images N ({sizes.n_hidden} units)"),
        (right, "hidden", f"units H ({sizes.full:,} images; trees: {sizes.common:,})"),
    ):
        for variant in VARIANTS:
            _draw_variant(ax, results, variant, sizes, along)
        ax.set(xscale="log", yscale="log", xlabel=label)
        ax.grid(color=GREY, alpha=0.15)
    middle.set_ylabel("seconds per iteration")
    quiet_frame(middle, "Polyak steps (line), constant steps (dots)")
    quiet_frame(right, "")
    right.legend(frameon=False, fontsize=SMALL, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _draw_ratios(ax: Axes, ratios: dict[str, dict[str, float]], size: str) -> None:
    """Draw how many sparse iterations fit into a dense one; the paper's as diamonds."""
    bars = [(name, phase) for name in ratios for phase in PHASES][::-1]
    for place, (name, phase) in enumerate(bars):
        ratio = ratios[name][phase]
        ax.barh(place, ratio, 0.55, color=BLUE)
        end = ratio
        if phase == "polyak":
            theirs = PAPER["dense"][0] / PAPER[name][0]
            ax.plot(theirs, place, "D", color=VERMILION)
            # A number beside the bar would be under a diamond that is just beyond it.
            end = max(ratio, 1.1 * theirs) if theirs < 2 * ratio else ratio
        ax.text(1.08 * end, place, f"{ratio:.0f}×", va="center", color=INK)
    ax.set_yticks(range(len(bars)), [f"{name}\n{PHASES[phase]}" for name, phase in bars])
    ax.set(xscale="log", xlim=(1, 5 * max(max(r.values()) for r in ratios.values())))
    ax.set_xlabel("sparse iterations in the time of a dense one (◆ the paper's)")
    quiet_frame(ax, size)


def _draw_variant(
    ax: Axes, results: list[dict], variant: Variant, sizes: Sizes, along: str
) -> None:
    for phase, style, label in (("polyak", variant.line, variant.name), ("constant", ":", None)):
        x, seconds = _curve(results, variant, sizes, along, phase)
        ax.plot(x, seconds, style, marker="o", ms=3.5, color=variant.colour, label=label)
