"""Figures of compared models."""

from types import SimpleNamespace

import numpy as np
import pytest

from experiments.iris import IrisComparison, plot_comparison
from experiments.mnist import _draw_probabilities
from figure_helpers import pixels, texts

pytest.importorskip("matplotlib")

CURVE = 2.0 / np.sqrt(np.arange(1, 3000))


def outcome(losses, accuracy):
    return SimpleNamespace(losses=np.array(losses), accuracy=accuracy)


MODELS = [
    SimpleNamespace(name="MLP", train=outcome([1e-9, 1e-3], 1.0), test=outcome([80.0, 0.0], 0.5)),
    SimpleNamespace(name="LMM", train=outcome([0.4, 0.1], 1.0), test=outcome([1.0, 0.2], 0.75)),
    SimpleNamespace(name="max", train=outcome([0.4, 0.1], 1.0), test=outcome([1.0, 0.2], 0.75)),
]
MODELS[2].loss_curve = CURVE
COMPARISON = IrisComparison(0, CURVE.size, *MODELS, switch=1500, n_classes=3)


def test_probability_histograms_count_all_samples():
    losses = {"sure": np.array([0.01, 0.02]), "unsure": np.array([3.0, 0.1, 50.0, 2.0])}
    figure = _draw_probabilities(losses)
    assert "sure: 0.0% below ½" in texts(figure)
    assert "unsure: 75.0% below ½" in texts(figure)
    for ax in figure.axes:
        (bars,) = ax.patches
        assert bars.get_data().values.sum() == pytest.approx(1.0)


def test_iris_figure_has_models_and_metrics():
    figure = plot_comparison(COMPARISON)
    written = texts(figure)
    for words in ("MLP", "LMM", "$10^{-35}$", "0.67", "50.0%", "75.0%", "worst training flower"):
        assert words in written
    assert np.ptp(pixels(figure)) > 200


def test_iris_figure_has_a_dot_per_sample():
    dots = plot_comparison(COMPARISON).axes[1].collections
    assert [len(row.get_offsets()) for row in dots] == [2] * 6
    np.testing.assert_allclose(dots[2].get_offsets()[:, 0], np.exp([-0.4, -0.1]))
