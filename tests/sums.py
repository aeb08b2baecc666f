"""Sums of LMM terms, and estimators that have one, for tests of files and exports."""

import numpy as np

from maxplus import LMMClassifier, LMMRegressor
from maxplus.estimators.lmm_regressor import COVERAGES
from maxplus.explain import term_means
from maxplus.models import LMM, AdditiveLMM, FeatureMap, Term
from strategies import grid_array


def random_lmm(rng, n_features, n_hidden, n_classes, dtype=np.float64):
    """Return an LMM on a grid, where sums are exact, with slopes above and below 0."""
    W0 = np.abs(grid_array(rng, 2 * n_features, dtype)) + dtype(0.5)
    W0[1::2] *= -1
    W1 = grid_array(rng, (2 * n_features, n_hidden), dtype)
    return LMM(W0, W1, grid_array(rng, (n_hidden, n_classes), dtype))


def random_sum(seed=0, n_classes=3, dtype=np.float64, feature_map=None):
    """Return a sum over five features: shape functions, pairs, a larger term and two boxes."""
    rng = np.random.default_rng(seed)
    shapes = [([p], 4) for p in range(5)] + [([2], 2)]
    pairs = [([0, 3], 5), ([1, 2], 5)]
    boxes = [(list(range(5)), 6)] * 2
    terms = [
        Term(features, random_lmm(rng, len(features), H, n_classes, dtype))
        for features, H in [*shapes, *pairs, *boxes]
    ]
    return AdditiveLMM(terms, 5, feature_map, grid_array(rng, n_classes, dtype))


def mapped_sum(seed=0, n_classes=3, dtype=np.float64):
    """Return a sum over mapped features, and rows for it: levels, heavy tails, a constant."""
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [
            rng.normal(3, 2, 80),
            rng.integers(0, 3, 80),
            rng.normal(size=80) ** 5,
            np.full(80, 2.0),
            rng.exponential(size=80),
        ]
    ).astype(dtype)
    return random_sum(seed, n_classes, dtype, FeatureMap.fit(X)), X


def classifier(model, X, classes=None):
    """Return a classifier with this model, as if it had been fitted on X."""
    clf = LMMClassifier(n_jobs=1)
    classes = np.arange(model.n_classes) if classes is None else np.asarray(classes)
    y = model.scores(X).argmax(axis=1)
    losses = model.losses(X, y)
    clf.__dict__ |= {
        "model_": model,
        "classes_": classes,
        "n_features_in_": model.n_features,
        "n_iter_": 10,
        "status_": "max_iter",
        "max_loss_": float(losses.max()),
        "mean_loss_": float(losses.mean()),
        "inverse_temperature_": 1.5,
        "scale_": np.ones(model.n_features),
        "unit_activation_counts_": model.activation_counts(X),
        "term_means_": term_means(model, X),
        "loss_curve_": np.array([1.0, 0.5]),
        "feature_importances_": np.full(model.n_features, 1.0 / model.n_features),
        "training_labels_": classes[y],
        "training_losses_": losses,
        "search_": {
            "candidates": np.array(["shapes", "pairs"]),
            "chosen": 1,
            "losses": np.array([[0.5, np.inf, np.inf], [0.25, 0.5, 0.75]]),
        },
    }
    return clf


def regressor(model, X):
    """Return a regressor with this model of two outputs, as if it had been fitted on X."""
    values = np.diff(model.scores(X))[:, 0].astype(np.float64)
    low, high = np.quantile(values, [0.1, 0.9])
    reg = LMMRegressor(n_jobs=1)
    reg.__dict__ |= {
        "model_": model,
        "n_features_in_": model.n_features,
        "n_iter_": 10,
        "status_": "max_iter",
        "bounds_": np.array([low, high], model.dtype),
        "loss_curve_": np.array([1.0, 0.5]),
        "residual_quantiles_": np.linspace(0.1, 1.0, COVERAGES.size),
        "training_summary_": {"n_rows": len(X), "mean": 0.5, "deviation": 1.0},
    }
    return reg


def regression_values(reg, X):
    """Return the difference of both outputs within the bounds: the predictions."""
    Z = reg.model_.scores(X)
    return np.clip(Z[:, 1] - Z[:, 0], *reg.bounds_.astype(Z.dtype))
