"""Iris: our training against a PyTorch MLP of the paper's shape, in one run.

105 flowers, widths (4, 8, 20, 3), 50,000 iterations each: ours on the maximum
loss (float64, two-phase steps, W0 every 100), PyTorch's full-batch Adam on the
mean loss with rate 0.01 (float32, one thread, its fastest setting here).

    python benchmarks/iris.py [--iterations 50000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import median

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split

from machine import machine_facts
from maxplus import SubgradientLMMClassifier

GOAL = 40.0
RESULTS = Path(__file__).parent / "results"


def train_lmm(X: NDArray, y: NDArray, n: int) -> tuple[float, float]:
    """(seconds, lowest maximum loss) of our training."""
    model = SubgradientLMMClassifier(20, slope=4.0, max_iter=n, random_state=0)
    began = time.perf_counter()
    model.fit(X, y)
    return time.perf_counter() - began, float(model.history_["loss"].min())


def train_mlp(X: NDArray, y: NDArray, n: int) -> tuple[float, float]:
    """(seconds, final mean loss) of PyTorch's."""
    torch.manual_seed(0)
    widths = (4, 8, 20, 3)
    net = torch.nn.Sequential(
        torch.nn.Linear(widths[0], widths[1]), torch.nn.ReLU(),
        torch.nn.Linear(widths[1], widths[2]), torch.nn.ReLU(),
        torch.nn.Linear(widths[2], widths[3]),
    )  # fmt: skip
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
    inputs, labels = torch.tensor(X, dtype=torch.float32), torch.tensor(y)
    loss = torch.zeros(())
    began = time.perf_counter()
    for _ in range(n):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(inputs), labels)
        loss.backward()
        optimiser.step()
    return time.perf_counter() - began, float(loss.detach())


def main() -> None:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--iterations", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    X, y = load_iris(return_X_y=True)
    X, _, y, _ = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
    train_lmm(X, y, 100)
    train_mlp(X, y, 100)
    ours, theirs = [], []
    for _ in range(options.rounds):
        ours.append(train_lmm(X, y, options.iterations))
        theirs.append(train_mlp(X, y, options.iterations))
    seconds = [median(np.array(runs)[:, 0]) for runs in (ours, theirs)]
    result = {
        "lmm_seconds": seconds[0], "mlp_seconds": seconds[1], "ratio": seconds[1] / seconds[0],
        "lmm_max_loss": ours[0][1], "mlp_mean_loss": theirs[0][1],
    }  # fmt: skip
    style = "green" if result["ratio"] >= GOAL else "red"
    Console(highlight=False).print(
        f"Iris, {options.iterations:,} iterations: maxplus {seconds[0]:.2f} s, "
        f"PyTorch {seconds[1]:.1f} s, ratio [{style}]{result['ratio']:.0f}[/] (goal {GOAL:.0f})"
    )
    RESULTS.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"machine": machine_facts("torch"), **result}, indent=2)
    (RESULTS / "iris.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
