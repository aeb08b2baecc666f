"""Seconds per iteration and memory of all engines, and how they grow."""

from __future__ import annotations

import json
import subprocess
import sys
from bisect import bisect_right
from dataclasses import asdict
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from maxplus import datasets
from maxplus.models import LMM
from maxplus.plots._canvas import BLUE, GREEN, GREY, SMALL, VERMILION, new_figure, quiet_frame
from maxplus.reproduce._timed_run import N_CLASSES, TimedRun
from maxplus.reproduce.finding import Finding, Settings, Table
from maxplus.reproduce.parts import Part
from maxplus.training import MaxLoss, Task, polyak
from maxplus.training.engines import TreeEngine
from maxplus.training.memory import human_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

N_FEATURES, ALWAYS, SELDOM = 784, 1, 100
TREE_LIMIT = 8_000_000_000
PHASES = {"polyak": "Polyak steps", "constant": "constant steps"}


class Variant(NamedTuple):
    """An engine, how often W⁰ moves, and what to time and draw it with."""

    engine: str
    linear_every: int
    iterations: int
    colour: str
    line: str

    @property
    def name(self) -> str:
        """As the paper's table calls it."""
        return self.engine + (", W⁰ every 100" if self.linear_every == SELDOM else "")


VARIANTS = (
    Variant("dense", ALWAYS, 5, GREY, "-"),
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
    """What is measured: growth with the images at ``n_hidden`` units, and with the units."""

    samples: tuple[int, ...]
    hidden: tuple[int, ...]
    n_hidden: int

    @property
    def full(self) -> int:
        """All images."""
        return self.samples[-1]

    @property
    def together(self) -> int:
        """The most images whose trees fit: all engines can be compared there."""
        return bisect_right(
            range(1, self.full + 1), TREE_LIMIT, key=lambda n: tree_bytes(n, self.n_hidden)
        )

    def growth_in_units_at(self, engine: str) -> int:
        """How many images growth with the units is measured at."""
        return self.together if engine == "tree" else self.full

    def runs_of(self, variant: Variant) -> list[TimedRun]:
        """All that fit, each once."""
        at = self.growth_in_units_at(variant.engine)
        pairs = [(n, self.n_hidden) for n in (*self.samples, self.together)]
        pairs += [(at, h) for h in self.hidden]
        return [
            TimedRun(variant.engine, n, h, variant.linear_every, variant.iterations)
            for n, h in dict.fromkeys(pairs)
            if variant.engine != "tree" or tree_bytes(n, h) <= TREE_LIMIT
        ]


FULL = Sizes((250, 1_000, 4_000, 15_000, 60_000), (60, 125, 250, 500, 1_000), 500)
QUICK = Sizes((100, 400), (40, 80), 40)


def run(settings: Settings) -> Finding:
    """Measure each engine at each size in a process of its own."""
    sizes = QUICK if settings.quick else FULL
    wanted = [run for variant in VARIANTS for run in sizes.runs_of(variant)]
    results = []
    with TemporaryDirectory() as folder:
        _save_images(Path(folder), sizes.full)
        for timed in settings.track(wanted, "engines"):
            name = "-".join(str(value) for value in asdict(timed).values())
            part = settings.parts.get(name, partial(_in_a_process, timed, folder))
            results.append(json.loads(str(part["json"])))
    together, full = sizes.together, sizes.full
    tables = [_table(f"{full:,} images, {sizes.n_hidden} units", results, full, sizes, PAPER)]
    if together < full:
        caption = (
            f"{together:,} images, {sizes.n_hidden} units: the most whose trees fit into "
            f"{human_bytes(TREE_LIMIT)}"
        )
        tables.append(_table(caption, results, together, sizes, {}))
    return Finding(
        "Cost of an iteration",
        _text(results, sizes),
        [*tables, _exponents(results, sizes)],
        {"runs": results, "together": together},
        {"growth": _draw(results, sizes)},
        f"at most {full:,} images and {sizes.n_hidden} units" if settings.quick else "",
    )


def tree_bytes(n: int, n_hidden: int) -> int:
    """What the tree engine needs for n images."""
    rows, dtype = 2 * N_FEATURES, np.float32
    model = LMM(
        np.empty(rows, dtype), np.empty((rows, n_hidden), dtype), np.empty((n_hidden, N_CLASSES))
    )
    images = np.empty((0, N_FEATURES), dtype)
    return TreeEngine.bytes_needed(model, Task(images, np.empty(n, int), MaxLoss(), polyak()))


def _save_images(folder: Path, n: int) -> None:
    """The first n images of MNIST in a random order, for processes that need only some."""
    data = datasets.load_mnist()
    order = np.random.default_rng(0).permutation(len(data.y_train))[:n]
    np.save(folder / "X.npy", data.X_train[order])
    np.save(folder / "y.npy", data.y_train[order])


def _in_a_process(timed: TimedRun, folder: str) -> Part:
    """The run's JSON, from a new process: memory and caches are its own."""
    module, asked = "maxplus.reproduce._timed_run", json.dumps(asdict(timed))
    command = [sys.executable, "-m", module, folder, asked]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{timed} failed:\n{done.stderr}")
    return {"json": np.array(done.stdout)}


def _find(results: list[dict], variant: Variant, n: int, h: int) -> dict[str, Any] | None:
    wanted = (variant.engine, variant.linear_every, n, h)
    keys = ("engine", "linear_every", "samples", "hidden")
    return next((r for r in results if tuple(r[key] for key in keys) == wanted), None)


def _text(results: list[dict], sizes: Sizes) -> str:
    dense = _find(results, VARIANTS[0], sizes.full, sizes.n_hidden)
    fast = _find(results, VARIANTS[-1], sizes.full, sizes.n_hidden)
    assert dense is not None
    assert fast is not None
    return (
        "Each engine runs in a process of its own, Polyak steps from the start and constant steps "
        f"after, on {sizes.n_hidden} units and up to {sizes.full:,} images of MNIST. At the "
        f"largest size an iteration with W⁰ every 100 takes {1e3 * fast['polyak']:.2g} ms with "
        f"Polyak steps and {1e3 * fast['constant']:.2g} ms with constant ones, "
        f"{dense['polyak'] / fast['polyak']:.0f} and {dense['constant'] / fast['constant']:.0f} "
        f"times less than a dense one, in {human_bytes(fast['peak'])} (the paper: 120 ms on 30 "
        "processors, 158 times less than its dense one, in 513 GB). The "
        f"tree engine, the paper's own algorithm, would need "
        f"{human_bytes(tree_bytes(sizes.full, sizes.n_hidden))} there. All engines take the same "
        "steps. The paper times 300 iterations from the start: its column belongs to Polyak steps. "
        "Right after the start nearly all units tie, which is the sparse engine's hardest time: "
        "long runs go faster."
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
    """Sizes and seconds per iteration along "samples" or "hidden"."""
    at = sizes.growth_in_units_at(variant.engine)
    pairs = (
        [(n, sizes.n_hidden) for n in sorted({*sizes.samples, sizes.together})]
        if along == "samples"
        else [(at, h) for h in sizes.hidden]
    )
    found = [r for n, h in pairs if (r := _find(results, variant, n, h)) is not None]
    return [r[along] for r in found], [r[phase] for r in found]


def _exponents(results: list[dict], sizes: Sizes) -> Table:
    """Fits log(seconds) = a + b·log(size); b for each variant."""
    rows = []
    for variant in VARIANTS:
        cells = []
        for along in ("samples", "hidden"):
            for phase in PHASES:
                x, seconds = _curve(results, variant, sizes, along, phase)
                slope = np.polyfit(np.log(x), np.log(seconds), 1)[0] if len(x) > 1 else np.nan
                cells.append(f"{slope:.2f}")
        rows.append((variant.name, *cells))
    columns = (
        "engine", "N, Polyak steps", "N, constant steps", "H, Polyak steps", "H, constant steps",
    )  # fmt: skip
    return Table("Exponents of growth with the images N and the units H", columns, rows)


def _draw(results: list[dict], sizes: Sizes) -> Figure:
    figure = new_figure(12.0, 4.8)
    left, right = figure.subplots(1, 2, sharey=True)
    for ax, along, label in (
        (left, "samples", f"images N ({sizes.n_hidden} units)"),
        (right, "hidden", f"units H ({sizes.full:,} images; trees: {sizes.together:,})"),
    ):
        for variant in VARIANTS:
            _draw_variant(ax, results, variant, sizes, along)
        ax.set(xscale="log", yscale="log", xlabel=label)
        ax.grid(color=GREY, alpha=0.15)
    left.set_ylabel("seconds per iteration")
    quiet_frame(left, "Cost of an iteration with Polyak steps (line) and constant steps (dots)")
    quiet_frame(right, "")
    right.legend(frameon=False, fontsize=SMALL, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _draw_variant(
    ax: Axes, results: list[dict], variant: Variant, sizes: Sizes, along: str
) -> None:
    for phase, style, label in (("polyak", variant.line, variant.name), ("constant", ":", None)):
        x, seconds = _curve(results, variant, sizes, along, phase)
        ax.plot(x, seconds, style, marker="o", ms=3.5, color=variant.colour, label=label)
