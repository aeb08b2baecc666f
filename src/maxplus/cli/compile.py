"""``maxplus compile``: ahead-of-time compilation of kernels."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import typer

from maxplus.cli import _options as opt
from maxplus.cli._console import open_console

# Number of copies of the rows, large enough to use the parallel kernels.
N_COPIES = 3_000


def compile_kernels(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PART",
            help="Parts of the library to compile: default, subgradient, engines, regression, "
            "products. All by default.",
        ),
    ] = None,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Compile kernels ahead of their first use.

    They are stored in the __pycache__ folders of the package, or in the folder named by the
    environment variable NUMBA_CACHE_DIR, and are valid for this processor and these versions of
    maxplus, Numba and NumPy.

    Example: maxplus compile default subgradient
    """
    selected = list(dict.fromkeys(names or PARTS))
    unknown = [name for name in selected if name not in PARTS]
    if unknown:
        raise typer.BadParameter(
            f"there is no part {unknown[0]!r}; choose from {', '.join(PARTS)}", param_hint="PART"
        )
    seconds = {}
    with open_console(as_json, quiet) as console, warnings.catch_warnings():
        # Short fits warn that they did not converge.
        warnings.simplefilter("ignore")
        for name in selected:
            summary, _ = PARTS[name]
            start = time.perf_counter()
            with console.stderr.status(f"{name}: {summary}"):
                compile_part(name)
            seconds[name] = time.perf_counter() - start
            console.print(f"{name:<12} {seconds[name]:5.1f} s  {summary}")
        console.print_json({"seconds": seconds})


def compile_part(name: str) -> None:
    """Compile the kernels of a part by running them on a few rows in both precisions."""
    _, run = PARTS[name]
    X, y = np.random.default_rng(0).normal(size=(60, 4)), np.arange(60) % 3
    for dtype in (np.float64, np.float32):
        run(X.astype(dtype), y)


def _default(X: Any, y: Any) -> None:
    from maxplus import LMMClassifier

    single = LMMClassifier(12, warmup_epochs=1, polish="log2", random_state=0)
    for clf in (LMMClassifier(warmup_epochs=1, random_state=0).fit(X, y), single.fit(X, y)):
        clf.certified_accuracy(X, y, 0.1)
        clf.explain(X[:3])
        many = np.tile(X, (N_COPIES, 1))
        clf.predict(many)
        clf.model_.losses(many, np.tile(y, N_COPIES))
        clf.model_.activation_counts(many)


def _subgradient(X: Any, y: Any) -> None:
    from maxplus import SubgradientLMMClassifier

    SubgradientLMMClassifier(6, engine="sparse", max_iter=3, random_state=0).fit(X, y)


def _engines(X: Any, y: Any) -> None:
    from maxplus import SubgradientLMMClassifier

    for engine, objective in (("dense", "max"), ("tree", "max"), ("sgd", "mean")):
        SubgradientLMMClassifier(
            6, engine=engine, objective=objective, max_iter=3, random_state=0
        ).fit(X, y)


def _regression(X: Any, y: Any) -> None:
    from maxplus import LMMRegressor

    LMMRegressor(random_state=0).fit(X, y).predict_interval(X)


def _products(X: Any, y: Any) -> None:
    from maxplus.algebra import maxplus, minplus

    for product in (minplus, maxplus):
        for A in (X, np.tile(X, (N_COPIES, 1))):
            product(A, X.T, return_index=True)


# Parts of the library: description, and function that runs their kernels on X and y.
PARTS: dict[str, tuple[str, Callable[[Any, Any], None]]] = {
    "default": ("LMMClassifier: fits, predictions, certificates, explanations", _default),
    "subgradient": ("SubgradientLMMClassifier with the sparse engine", _subgradient),
    "engines": ("SubgradientLMMClassifier with the other engines", _engines),
    "regression": ("LMMRegressor", _regression),
    "products": ("min-plus and max-plus products", _products),
}
