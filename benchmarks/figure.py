"""One picture of what the engine benchmarks measured, from benchmarks/results/*.json.

python benchmarks/figure.py [--out docs/engines.png]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from maxplus.plots._canvas import BLUE, DASHED, GREEN, GREY, INK, VERMILION, new_figure, quiet_frame

RESULTS = Path(__file__).parent / "results"
# What the paper reports: dense / sparse iteration on 30 processors.
PAPER = {
    "Polyak phase": 158.0,
    "constant phase": 158.0,
    "constant phase, W0 always": 5.5,
    "Polyak phase, W0 always": 5.5,
}


def draw_ratios(ax: Axes, ratios: dict[str, float]) -> None:
    """How many sparse iterations fit into a dense one."""
    names = list(PAPER)
    places = np.arange(len(names))[::-1]
    ax.barh(places, [ratios[name] for name in names], 0.55, color=BLUE)
    ax.scatter(PAPER.values(), places, marker="D", color=VERMILION, zorder=3)
    for place, name in zip(places, names, strict=True):
        ax.text(ratios[name] * 1.08, place, f"{ratios[name]:.0f}×", va="center", color=INK)
    ax.set_xscale("log")
    ax.set_xlim(1, 3_000)
    ax.set_yticks(places, names)
    ax.text(
        1.3, -0.75, "◆ the paper's own ratio, 30 processors", color=VERMILION, fontsize=9, va="top"
    )
    ax.set_ylim(-1.2, len(names) - 0.5)
    ax.set_xlabel("time of a dense iteration / time of a sparse one")
    quiet_frame(ax, "MNIST, 60,000 images, 500 units")


def draw_growth(ax: Axes, growth: dict, what: str) -> None:
    """Cost against size, both axes logarithmic."""
    sizes = growth["sizes"]
    for phase, colour, name in (("polyak", GREEN, "Polyak"), ("constant", BLUE, "constant")):
        ms = [1e3 * cost[phase] for cost in growth["costs"]]
        exponent = growth["exponents"][phase]
        ax.plot(sizes, ms, "o-", color=colour, label=f"{name}: exponent {exponent:.2f}")
    reference = [ms[0] * size / sizes[0] for size in sizes]
    ax.plot(sizes, reference, color=GREY, linestyle=DASHED, linewidth=1, label="linear")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xticks(sizes, [f"{size:,}" for size in sizes])
    lowest, highest = ax.get_ylim()
    ticks = [tick for tick in (0.1, 0.3, 1, 3, 10, 30) if lowest <= tick <= highest]
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.set_xlabel(what)
    ax.legend(frameon=False, fontsize=9)
    quiet_frame(ax, f"ms per iteration, by {what}")


def main() -> None:
    """Read, draw, write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("docs/engines.png"))
    options = parser.parse_args()
    engines, growth = (
        json.loads((RESULTS / f"{name}.json").read_text()) for name in ("engines", "growth")
    )
    figure = new_figure(15.0, 4.4)
    axes = figure.subplots(1, 3, gridspec_kw={"width_ratios": (1.2, 1, 1)})
    draw_ratios(axes[0], engines["ratios"])
    draw_growth(axes[1], growth["samples"], "training samples")
    draw_growth(axes[2], growth["hidden"], "hidden units")
    figure.savefig(options.out)


if __name__ == "__main__":
    main()
