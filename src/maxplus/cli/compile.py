"""``maxplus compile``: ahead-of-time compilation of kernels."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer

from maxplus.cli._common import plain_errors
from maxplus.cli._console import Console, JsonOption, QuietOption

# Number of copies of the rows, large enough to use the parallel kernels.
N_COPIES = 3_000


def compile_kernels(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PART…]",
            help="Parts of the library to compile: default, paper, engines, regression, products. "
            "All by default.",
        ),
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Compile kernels ahead of their first use.

    They are stored next to the package, or in the folder NUMBA_CACHE_DIR, and are valid for this
    processor and these versions of maxplus, Numba and NumPy.

    Example: maxplus compile default paper
    """
    console = Console(as_json, quiet)
    selected = list(dict.fromkeys(names or PARTS))
    unknown = [name for name in selected if name not in PARTS]
    if unknown:
        raise typer.BadParameter(
            f"there is no part {unknown[0]!r}; choose from {', '.join(PARTS)}", param_hint="PART"
        )
    seconds = {}
    with plain_errors(quiet), warnings.catch_warnings():
        # Short fits warn that they did not converge.
        warnings.simplefilter("ignore")
        for name in selected:
            start = time.perf_counter()
            with console.busy(f"{name}: {SUMMARIES[name]}"):
                compile_part(name)
            seconds[name] = time.perf_counter() - start
            console.print(f"{name:<12} {seconds[name]:5.1f} s  {SUMMARIES[name]}")
    console.result({"seconds": seconds})


def compile_part(name: str) -> None:
    """Compile the kernels of a part by running them on a few rows in both precisions."""
    import numpy as np

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), np.arange(60) % 3
    for dtype in (np.float64, np.float32):
        PARTS[name](X.astype(dtype), y)


def _default(X: Any, y: Any) -> None:
    import numpy as np

    from maxplus import LMMClassifier

    single = LMMClassifier(12, warmup_epochs=1, polish="log2", random_state=0)
    for clf in (LMMClassifier(warmup_epochs=1, random_state=0).fit(X, y), single.fit(X, y)):
        clf.certified_accuracy(X, y, 0.1), clf.explain(X[:3])
        many = np.tile(X, (N_COPIES, 1))
        clf.predict(many), clf.model_.losses(many, np.tile(y, N_COPIES)), clf.model_.wins(many)


def _paper(X: Any, y: Any) -> None:
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
    import numpy as np

    from maxplus.algebra import maxplus, minplus

    for product in (minplus, maxplus):
        for A in (X, np.tile(X, (N_COPIES, 1))):
            product(A, X.T, return_index=True)


PARTS: dict[str, Callable[[Any, Any], None]] = {
    "default": _default,
    "paper": _paper,
    "engines": _engines,
    "regression": _regression,
    "products": _products,
}
SUMMARIES = {
    "default": "LMMClassifier: fits, predictions, certificates, explanations",
    "paper": "SubgradientLMMClassifier with the sparse engine",
    "engines": "SubgradientLMMClassifier with the other engines",
    "regression": "LMMRegressor",
    "products": "min-plus and max-plus products",
}
