"""The data and the start that all MNIST benchmarks share: the paper's size, slope and classes."""

from __future__ import annotations

import gzip
import os
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from maxplus.models import LMM
from maxplus.models.initialisation import choose_prototypes, prototype_lmm
from maxplus.training import StepRule, constant, paper_alpha, polyak, two_phase
from maxplus.training.engines import Engine
from maxplus.training.result import Block

N_HIDDEN, SLOPE, N_CLASSES, LINEAR_EVERY = 500, 4.0, 10, 100
RESULTS = Path(__file__).parent / "results"


def load_mnist() -> tuple[NDArray, NDArray]:
    """All training images, scaled to [0, 1] in float32, and their labels."""
    folder = Path(os.environ.get("MAXPLUS_DATA", "")) / "mnist"
    if not folder.is_dir():
        raise SystemExit(f"no folder {str(folder)!r}; set MAXPLUS_DATA to where mnist/ is")
    images = gzip.decompress((folder / "train-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((folder / "train-labels-idx1-ubyte.gz").read_bytes())
    X = np.frombuffer(images, np.uint8, offset=16).reshape(-1, 784).astype(np.float32) / 255
    return X, np.frombuffer(labels, np.uint8, offset=8).astype(np.int64)


def start(X: NDArray, y: NDArray, n_hidden: int = N_HIDDEN) -> LMM:
    """The paper's start, from random images."""
    chosen = choose_prototypes(y, n_hidden, np.random.default_rng(0))
    return prototype_lmm(X[chosen], y[chosen], N_CLASSES, SLOPE, SLOPE)


def paper_rule(n_polyak: int) -> StepRule:
    """Polyak steps first, constant steps after."""
    return two_phase(polyak(), constant(paper_alpha(0.1, N_CLASSES)), n_polyak)


def advance(engine: Engine, n: int, size: int = 200) -> float:
    """Seconds per iteration over n iterations, in blocks as training makes them."""
    began = time.perf_counter()
    for done in range(0, n, size):
        engine.advance(Block(min(size, n - done)))
    return (time.perf_counter() - began) / n
