"""Iris: our training against a PyTorch MLP of the paper's shape, in one run.

105 flowers, widths (4, 8, 20, 3), as many iterations each: ours on the maximum
loss (float64, two-phase steps, W0 every 100), PyTorch's full-batch Adam on the
mean loss with rate 0.01 (float32, one thread, its fastest setting here).
"""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import Any

from numpy.typing import NDArray
from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split

from experiments.finding import Finding, Settings, Table
from experiments.measure import timed
from maxplus.estimators import SubgradientLMMClassifier

FULL_ITERATIONS, FULL_ROUNDS = 50_000, 3
QUICK_ITERATIONS, QUICK_ROUNDS = 500, 1
GOAL = 40.0


def run(settings: Settings) -> Finding:
    """Let both take turns; medians count."""
    iterations = QUICK_ITERATIONS if settings.quick else FULL_ITERATIONS
    rounds = QUICK_ROUNDS if settings.quick else FULL_ROUNDS
    X, y = load_iris(return_X_y=True)
    X, _, y, _ = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
    # Neither compiling nor loading counts.
    train_lmm(X, y, 100)
    train_mlp(X, y, 100)
    ours, theirs = [], []
    for _ in settings.track(range(rounds), "Iris, both"):
        ours.append(timed(partial(train_lmm, X, y, iterations)))
        theirs.append(timed(partial(train_mlp, X, y, iterations)))
    seconds = [median(s for s, _ in runs) for runs in (ours, theirs)]
    values = {
        "lmm_seconds": seconds[0], "mlp_seconds": seconds[1], "ratio": seconds[1] / seconds[0],
        "lmm_max_loss": ours[0][1], "mlp_mean_loss": theirs[0][1],
    }  # fmt: skip
    return describe(values, iterations, f"{iterations} iterations" if settings.quick else "")


def describe(values: dict[str, float], iterations: int, scale: str = "") -> Finding:
    """Both times and their ratio."""
    text = (
        f"{iterations:,} iterations each on 105 flowers. PyTorch's MLP takes "
        f"{values['ratio']:.0f} times as long as our training on the maximum loss (asked: "
        f"{GOAL:g})."
    )
    rows = [
        (
            "LMM, maximum loss",
            f"{values['lmm_seconds']:.2f}",
            f"largest loss {values['lmm_max_loss']:.3f}",
        ),
        (
            "PyTorch MLP, Adam",
            f"{values['mlp_seconds']:.2f}",
            f"mean loss {values['mlp_mean_loss']:.3f}",
        ),
    ]
    table = Table("Seconds of training", ("model", "seconds", "reached"), rows)
    return Finding("Iris against PyTorch", text, [table], dict(values), scale=scale)


def train_lmm(X: NDArray, y: NDArray, iterations: int) -> float:
    """Train ours; the lowest maximum loss."""
    model = SubgradientLMMClassifier(20, slope=4.0, max_iter=iterations, random_state=0)
    return float(model.fit(X, y).loss_curve_.min())


def train_mlp(X: NDArray, y: NDArray, iterations: int) -> float:
    """Train PyTorch's; the final mean loss."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.ReLU(),
        torch.nn.Linear(8, 20), torch.nn.ReLU(),
        torch.nn.Linear(20, 3),
    )  # fmt: skip
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
    inputs, labels = torch.tensor(X, dtype=torch.float32), torch.tensor(y)
    loss: Any = torch.zeros(())
    for _ in range(iterations):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(inputs), labels)
        loss.backward()
        optimiser.step()
    return float(loss.detach())
