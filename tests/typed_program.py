"""A user's program, for a type checker: ``mypy --strict tests/typed_program.py``, in `make lint`.

Nothing runs it. The first part shows that no public name is ``Any``: whatever has a type cannot
stand in a list of `Nothing`, so that each line needs its comment, and mypy reports a comment that
is not needed. The second part shows what users get from the names they use most. A test compares
the list with ``__all__``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import assert_type

import maxplus
import maxplus.training.engines
import maxplus.training.stages
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
from maxplus.training.stages import Iterated

Array = NDArray[Any]


class Nothing:
    """A type that no public name has."""


PUBLIC: list[Nothing] = [
    maxplus.LMMClassifier,  # type: ignore[list-item]
    maxplus.LMMEnsembleClassifier,  # type: ignore[list-item]
    maxplus.LMMRegressor,  # type: ignore[list-item]
    maxplus.LipschitzInterpolator,  # type: ignore[list-item]
    maxplus.LinearMaxPlusClassifier,  # type: ignore[list-item]
    maxplus.MaxPlusClassifier,  # type: ignore[list-item]
    maxplus.SubgradientLMMClassifier,  # type: ignore[list-item]
    maxplus.TableEncoder,  # type: ignore[list-item]
    maxplus.compare,  # type: ignore[list-item]
    maxplus.export_onnx,  # type: ignore[list-item]
    maxplus.from_pipeline,  # type: ignore[list-item]
    maxplus.load,  # type: ignore[list-item]
    maxplus.resume,  # type: ignore[list-item]
    maxplus.to_torch,  # type: ignore[list-item]
    maxplus.validate,  # type: ignore[list-item]
    maxplus.algebra.maxplus,  # type: ignore[list-item]
    maxplus.algebra.minplus,  # type: ignore[list-item]
    maxplus.algebra.morphological_perceptron,  # type: ignore[list-item]
    maxplus.certify.Bounds,  # type: ignore[list-item]
    maxplus.certify.CertifiedRows,  # type: ignore[list-item]
    maxplus.certify.box_bounds,  # type: ignore[list-item]
    maxplus.certify.certified_at,  # type: ignore[list-item]
    maxplus.certify.certified_radius,  # type: ignore[list-item]
    maxplus.datasets.DamagedFileError,  # type: ignore[list-item]
    maxplus.datasets.DataNotFoundError,  # type: ignore[list-item]
    maxplus.datasets.ImageData,  # type: ignore[list-item]
    maxplus.datasets.load_fashion_mnist,  # type: ignore[list-item]
    maxplus.datasets.load_mnist,  # type: ignore[list-item]
    maxplus.estimators.LMMClassifier,  # type: ignore[list-item]
    maxplus.estimators.LMMEnsembleClassifier,  # type: ignore[list-item]
    maxplus.estimators.LMMRegressor,  # type: ignore[list-item]
    maxplus.estimators.LipschitzInterpolator,  # type: ignore[list-item]
    maxplus.estimators.LinearMaxPlusClassifier,  # type: ignore[list-item]
    maxplus.estimators.MaxPlusClassifier,  # type: ignore[list-item]
    maxplus.estimators.NoEffectWarning,  # type: ignore[list-item]
    maxplus.estimators.SubgradientLMMClassifier,  # type: ignore[list-item]
    maxplus.estimators.from_pipeline,  # type: ignore[list-item]
    maxplus.evaluation.Comparison,  # type: ignore[list-item]
    maxplus.evaluation.Splits,  # type: ignore[list-item]
    maxplus.evaluation.Validation,  # type: ignore[list-item]
    maxplus.evaluation.compare,  # type: ignore[list-item]
    maxplus.evaluation.make_splits,  # type: ignore[list-item]
    maxplus.evaluation.usual_models,  # type: ignore[list-item]
    maxplus.evaluation.validate,  # type: ignore[list-item]
    maxplus.explain.Boxes,  # type: ignore[list-item]
    maxplus.explain.OneHotGroup,  # type: ignore[list-item]
    maxplus.explain.Change,  # type: ignore[list-item]
    maxplus.explain.Contributions,  # type: ignore[list-item]
    maxplus.explain.Counterfactuals,  # type: ignore[list-item]
    maxplus.explain.Domain,  # type: ignore[list-item]
    maxplus.explain.Explanation,  # type: ignore[list-item]
    maxplus.explain.Paths,  # type: ignore[list-item]
    maxplus.explain.PredictionContributions,  # type: ignore[list-item]
    maxplus.explain.Rule,  # type: ignore[list-item]
    maxplus.explain.Rules,  # type: ignore[list-item]
    maxplus.explain.ShapeFunction,  # type: ignore[list-item]
    maxplus.explain.contributions,  # type: ignore[list-item]
    maxplus.explain.decisive_paths,  # type: ignore[list-item]
    maxplus.explain.explain_predictions,  # type: ignore[list-item]
    maxplus.explain.feature_importances,  # type: ignore[list-item]
    maxplus.explain.prediction_contributions,  # type: ignore[list-item]
    maxplus.explain.shape_function,  # type: ignore[list-item]
    maxplus.explain.nearest_counterfactuals,  # type: ignore[list-item]
    maxplus.explain.smallest_change,  # type: ignore[list-item]
    maxplus.explain.strongest_rules,  # type: ignore[list-item]
    maxplus.explain.term_boxes,  # type: ignore[list-item]
    maxplus.explain.term_means,  # type: ignore[list-item]
    maxplus.explain.unit_boxes,  # type: ignore[list-item]
    maxplus.export.export_onnx,  # type: ignore[list-item]
    maxplus.export.to_torch,  # type: ignore[list-item]
    maxplus.images.GaussianBlur,  # type: ignore[list-item]
    maxplus.images.RandomShift,  # type: ignore[list-item]
    maxplus.io.Checkpoint,  # type: ignore[list-item]
    maxplus.io.FileError,  # type: ignore[list-item]
    maxplus.io.load,  # type: ignore[list-item]
    maxplus.io.resume,  # type: ignore[list-item]
    maxplus.io.save,  # type: ignore[list-item]
    maxplus.metrics.ClassMetrics,  # type: ignore[list-item]
    maxplus.metrics.ClassificationMetrics,  # type: ignore[list-item]
    maxplus.metrics.RegressionMetrics,  # type: ignore[list-item]
    maxplus.metrics.Reliability,  # type: ignore[list-item]
    maxplus.metrics.expected_calibration_error,  # type: ignore[list-item]
    maxplus.metrics.classification_metrics,  # type: ignore[list-item]
    maxplus.metrics.regression_metrics,  # type: ignore[list-item]
    maxplus.metrics.log_losses,  # type: ignore[list-item]
    maxplus.metrics.to_jsonable,  # type: ignore[list-item]
    maxplus.metrics.reliability,  # type: ignore[list-item]
    maxplus.metrics.RobustErrors,  # type: ignore[list-item]
    maxplus.metrics.attack,  # type: ignore[list-item]
    maxplus.metrics.robust_errors,  # type: ignore[list-item]
    maxplus.models.AdditiveLMM,  # type: ignore[list-item]
    maxplus.models.SparseUpdate,  # type: ignore[list-item]
    maxplus.models.FeatureMap,  # type: ignore[list-item]
    maxplus.models.LMM,  # type: ignore[list-item]
    maxplus.models.LOG2,  # type: ignore[list-item]
    maxplus.models.LinearMaxPlus,  # type: ignore[list-item]
    maxplus.models.Model,  # type: ignore[list-item]
    maxplus.models.Network,  # type: ignore[list-item]
    maxplus.models.Subgradient,  # type: ignore[list-item]
    maxplus.models.Term,  # type: ignore[list-item]
    maxplus.models.ZeroHidden,  # type: ignore[list-item]
    maxplus.plots.plot_certified_accuracy,  # type: ignore[list-item]
    maxplus.plots.plot_convergence,  # type: ignore[list-item]
    maxplus.plots.plot_explanation,  # type: ignore[list-item]
    maxplus.plots.plot_importances,  # type: ignore[list-item]
    maxplus.plots.plot_reliability,  # type: ignore[list-item]
    maxplus.plots.plot_search,  # type: ignore[list-item]
    maxplus.plots.plot_shape_functions,  # type: ignore[list-item]
    maxplus.plots.plot_stages,  # type: ignore[list-item]
    maxplus.distributed.SERIAL,  # type: ignore[list-item]
    maxplus.distributed.DifferentRanksError,  # type: ignore[list-item]
    maxplus.distributed.SharedRows,  # type: ignore[list-item]
    maxplus.distributed.Communicator,  # type: ignore[list-item]
    maxplus.distributed.current,  # type: ignore[list-item]
    maxplus.distributed.use_mpi,  # type: ignore[list-item]
    maxplus.distributed.using,  # type: ignore[list-item]
    maxplus.report.regression_content,  # type: ignore[list-item]
    maxplus.report.render_page,  # type: ignore[list-item]
    maxplus.report.report_content,  # type: ignore[list-item]
    maxplus.tables.Categorical,  # type: ignore[list-item]
    maxplus.tables.Category,  # type: ignore[list-item]
    maxplus.tables.Column,  # type: ignore[list-item]
    maxplus.tables.Dataset,  # type: ignore[list-item]
    maxplus.tables.Number,  # type: ignore[list-item]
    maxplus.tables.Ordinal,  # type: ignore[list-item]
    maxplus.tables.Ranges,  # type: ignore[list-item]
    maxplus.tables.RawTable,  # type: ignore[list-item]
    maxplus.tables.TableEncoder,  # type: ignore[list-item]
    maxplus.tables.TableError,  # type: ignore[list-item]
    maxplus.tables.Target,  # type: ignore[list-item]
    maxplus.tables.UnknownValues,  # type: ignore[list-item]
    maxplus.tables.is_frame,  # type: ignore[list-item]
    maxplus.tables.load_dataset,  # type: ignore[list-item]
    maxplus.tables.load_training,  # type: ignore[list-item]
    maxplus.tables.read_batches,  # type: ignore[list-item]
    maxplus.tables.read_table,  # type: ignore[list-item]
    maxplus.tables.row_hashes,  # type: ignore[list-item]
    maxplus.tables.split_target,  # type: ignore[list-item]
    maxplus.tables.stream_dataset,  # type: ignore[list-item]
    maxplus.tables.table_of,  # type: ignore[list-item]
    maxplus.training.TrainingMonitor,  # type: ignore[list-item]
    maxplus.training.History,  # type: ignore[list-item]
    maxplus.training.Iterations,  # type: ignore[list-item]
    maxplus.training.KeepBestOnInterrupt,  # type: ignore[list-item]
    maxplus.training.MaxLoss,  # type: ignore[list-item]
    maxplus.training.MeanLoss,  # type: ignore[list-item]
    maxplus.training.Objective,  # type: ignore[list-item]
    maxplus.training.ObjectiveValue,  # type: ignore[list-item]
    maxplus.training.Polish,  # type: ignore[list-item]
    maxplus.training.Progress,  # type: ignore[list-item]
    maxplus.training.Status,  # type: ignore[list-item]
    maxplus.training.StepRule,  # type: ignore[list-item]
    maxplus.training.TrainingProblem,  # type: ignore[list-item]
    maxplus.training.TopKLoss,  # type: ignore[list-item]
    maxplus.training.TrimmedMaxLoss,  # type: ignore[list-item]
    maxplus.training.WarmUp,  # type: ignore[list-item]
    maxplus.training.constant,  # type: ignore[list-item]
    maxplus.training.level,  # type: ignore[list-item]
    maxplus.training.paper_alpha,  # type: ignore[list-item]
    maxplus.training.polyak,  # type: ignore[list-item]
    maxplus.training.run_stages,  # type: ignore[list-item]
    maxplus.training.train,  # type: ignore[list-item]
    maxplus.training.two_phase,  # type: ignore[list-item]
    maxplus.training.engines.DenseEngine,  # type: ignore[list-item]
    maxplus.training.engines.ENGINES,  # type: ignore[list-item]
    maxplus.training.engines.Engine,  # type: ignore[list-item]
    maxplus.training.engines.SGDEngine,  # type: ignore[list-item]
    maxplus.training.engines.SparseEngine,  # type: ignore[list-item]
    maxplus.training.engines.TreeEngine,  # type: ignore[list-item]
    maxplus.training.stages.Annealing,  # type: ignore[list-item]
    maxplus.training.stages.ValidatedPolish,  # type: ignore[list-item]
    maxplus.training.stages.Iterated,  # type: ignore[list-item]
    maxplus.training.stages.Iterations,  # type: ignore[list-item]
    maxplus.training.stages.Outcome,  # type: ignore[list-item]
    maxplus.training.stages.Polish,  # type: ignore[list-item]
    maxplus.training.stages.Polished,  # type: ignore[list-item]
    maxplus.training.stages.Stage,  # type: ignore[list-item]
    maxplus.training.stages.TrainingResult,  # type: ignore[list-item]
    maxplus.training.stages.WarmUp,  # type: ignore[list-item]
    maxplus.training.stages.WarmedUp,  # type: ignore[list-item]
    maxplus.training.stages.run_stages,  # type: ignore[list-item]
    maxplus.training.stages.train,  # type: ignore[list-item]
    maxplus.trees.ShortComputationalForest,  # type: ignore[list-item]
    maxplus.trees.ShortComputationalTree,  # type: ignore[list-item]
]


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


def judge(X: Array, y: Array) -> None:
    """Check the types of evaluation."""
    assert_type(maxplus.validate(LMMClassifier(12), X, y), Validation)
    assert_type(maxplus.compare(X, y), Comparison)


def research(X: Array, y: Array) -> None:
    """Check the types of products, models and engines."""
    values, index = minplus(X, X.T, return_index=True)
    assert_type(values, Array)
    assert_type(index, Array)
    assert_type(minplus(X, X.T), Array)
    model = LMM.of_boxes(X, 0.0, np.eye(len(X)), 1.0)
    rule = assert_type(polyak(), StepRule)
    done = train(DenseEngine(model, TrainingProblem(X, y, MaxLoss(), rule)), 100)
    assert_type(done, Iterated)
    assert_type(done.history["step"], Array)
