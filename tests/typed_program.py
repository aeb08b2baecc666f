"""Example of a typed user program, checked by ``mypy --strict`` in `make lint`.

Run as a script, it prints another program for mypy, which shows that no public name has the type
``Any``: every other type is an error in a list of ``Nothing``, and mypy reports ignore comments
that are not needed.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import assert_type

import maxplus
from maxplus import (
    LipschitzInterpolator,
    LMMClassifier,
    LMMEnsembleClassifier,
    LMMRegressor,
    SubgradientLMMClassifier,
)
from maxplus.algebra import minplus
from maxplus.certify import Bounds, box_bounds
from maxplus.evaluation import Comparison, Validation
from maxplus.explain import Explanation, Rules
from maxplus.models import LMM, AdditiveLMM
from maxplus.training import MaxLoss, Progress, StepRule, TrainingProblem, polyak, train
from maxplus.training.engines import DenseEngine
from maxplus.training.stages import IterationsOutcome

Array = NDArray[Any]


def stop_early(progress: Progress) -> bool:
    """Stop a training, as a callback."""
    return assert_type(progress.best_loss, float) < 0.1


def classify(X: Array, y: Array) -> None:
    """Check the types of one classifier: fit, predict, explain, certify, save, load."""
    clf = assert_type(LMMClassifier(12, callbacks=stop_early).fit(X, y), LMMClassifier)
    assert_type(clf.predict(X), Array)
    assert_type(clf.predict_proba(X), Array)
    assert_type(clf.decision_function(X), Array)
    assert_type(clf.certified_radius(X), Array)
    assert_type(clf.certified_accuracy(X, y, 0.1), float)
    assert_type(clf.certified_accuracy(X, y, [0.1, 0.2]), Array)
    assert_type(clf.explain(X), Explanation)
    assert_type(clf.explain(X).text(0), str)
    assert_type(clf.rules(X, y), Rules)
    assert_type(clf.max_loss_, float)
    assert_type(clf.perfect_fit_, bool)
    assert_type(clf.suspects_, Array)
    assert_type(clf.n_hidden_, int)
    assert_type(clf.model_, LMM | AdditiveLMM)
    if isinstance(clf.model_, LMM):
        assert_type(box_bounds(clf.model_, X, 0.1), Bounds)
    clf.save("model.maxplus")
    maxplus.load("model.maxplus")
    maxplus.export_onnx(clf, "model.onnx")


def others(X: Array, y: Array) -> None:
    """Check the types of the other estimators."""
    ensemble = LMMEnsembleClassifier(LMMClassifier(6), 2).fit(X, y)
    assert_type(ensemble, LMMEnsembleClassifier)
    assert_type(ensemble.predict(X), Array)
    curve = assert_type(LMMRegressor().fit(X, y), LMMRegressor)
    assert_type(curve.predict_interval(X, coverage=0.9), tuple[Array, Array])
    exact = assert_type(LipschitzInterpolator().fit(X, y), LipschitzInterpolator)
    assert_type(exact.envelopes(X), tuple[Array, Array])
    paper = SubgradientLMMClassifier(8, max_iter=100).fit(X, y).partial_fit(X, y)
    assert_type(paper, SubgradientLMMClassifier)
    assert_type(paper.history_["loss"], Array)


def evaluate(X: Array, y: Array) -> None:
    """Check the types of evaluation."""
    assert_type(maxplus.validate(LMMClassifier(12), X, y), Validation)
    assert_type(maxplus.compare(X, y), Comparison)


def train_with_an_engine(X: Array, y: Array) -> None:
    """Check the types of products, models and engines."""
    values, index = minplus(X, X.T, return_index=True)
    assert_type(values, Array)
    assert_type(index, Array)
    assert_type(minplus(X, X.T), Array)
    model = LMM.from_boxes(X, 0.0, np.eye(len(X)), 1.0)
    rule = assert_type(polyak(), StepRule)
    done = train(DenseEngine(model, TrainingProblem(X, y, MaxLoss(), rule)), 100)
    assert_type(done, IterationsOutcome)
    assert_type(done.history["step"], Array)


def public_names() -> list[str]:
    """Return the public names of all packages and modules that have ``__all__``."""
    found = pkgutil.walk_packages(maxplus.__path__, "maxplus.")
    public = [
        one for one in found if "._" not in one.name and not one.name.startswith("maxplus.cli")
    ]
    names = [one.name for one in public if one.ispkg or one.name.count(".") == 1]
    modules = [importlib.import_module(name) for name in ("maxplus", *names)]
    return [f"{m.__name__}.{name}" for m in modules for name in getattr(m, "__all__", ())]


def main() -> None:
    """Print the program."""
    names = public_names()
    print(*sorted({f"import {name.rpartition('.')[0]}" for name in names}), sep="\n")
    print("class Nothing: ...\nPUBLIC: list[Nothing] = [")
    print(*(f"    {name},  # type: ignore[list-item]" for name in names), "]", sep="\n")


if __name__ == "__main__":
    main()
