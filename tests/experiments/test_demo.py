"""The Iris comparison and ``python -m experiments.demo``, the MLP, and figures."""

import math

import numpy as np
import pytest

from experiments import demo as demo_module
from experiments.comparison import MLP, Evaluation, TrainedModel, train_by_adam
from experiments.iris import LMM_MAX, PAPER, compare_on_iris, plot_comparison
from experiments.mnist import _draw_probabilities
from figure_helpers import pixels, texts

pytestmark = pytest.mark.filterwarnings("ignore::maxplus.estimators.NoEffectWarning")


@pytest.fixture(scope="module")
def comparison():
    return compare_on_iris(seed=1, iterations=300)


def test_demo_prints_the_table_and_saves_the_figure(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("COLUMNS", "200")
    out = tmp_path / "new" / "folder"
    demo_module.demo(out, iterations=50)
    printed = capsys.readouterr().out
    assert (out / "iris.png").read_bytes().startswith(b"\x89PNG")
    for words in ("seed 8", *PAPER, "(paper)", "0.426", "certificate", f"Figure: {out}"):
        assert words in printed


def test_iris_comparison_has_all_samples_and_models(comparison):
    assert list(comparison) == list(PAPER)
    for model in comparison.values():
        assert model.train.losses.shape == (105,)
        assert model.test.losses.shape == (45,)
        assert model.seconds > 0
    assert comparison[LMM_MAX].loss_curve.shape == (300,)
    assert comparison[LMM_MAX].train.max_loss == comparison[LMM_MAX].loss_curve.min()


def test_iris_comparison_is_reproducible(comparison):
    again = compare_on_iris(seed=1, iterations=300)
    for name, model in comparison.items():
        np.testing.assert_array_equal(again[name].test.losses, model.test.losses)


def test_evaluation():
    sure = Evaluation(np.array([0.1, 0.5]), np.array([0, 2]), np.array([0, 2]))
    assert (sure.max_loss, sure.mean_loss, sure.accuracy) == (0.5, 0.3, 1.0)
    unsure = Evaluation(np.array([0.1, math.log(2)]), np.array([0, 2]), np.array([0, 1]))
    assert unsure.accuracy == 0.5


def trained(train, test, predicted=1):
    """Return a made-up model, given its losses and the prediction of its first test sample."""
    labels = np.array([1, 1])
    return TrainedModel(
        Evaluation(np.array(train), labels, labels),
        Evaluation(np.array(test), labels, np.array([predicted, 1])),
        1.0,
        2.0 / np.sqrt(np.arange(1, 3000)),
    )


@pytest.mark.parametrize(("loss", "words"), [(0.4, "certificate holds"), (0.9, "does not hold")])
def test_demo_certificate_text(loss, words):
    assert words in demo_module._certificate(trained([loss, 0.1], [1.0, 0.2]))


def test_iris_figure_has_models_metrics_and_a_dot_per_sample():
    pytest.importorskip("matplotlib")
    losses = [[1e-9, 1e-3], [0.4, 0.1], [0.4, 0.1]]
    models = [trained(losses[0], [80.0, 0.0], 0), *(trained(row, [1.0, 0.2]) for row in losses[1:])]
    figure = plot_comparison(dict(zip(PAPER, models, strict=True)))
    written = texts(figure)
    for words in ("MLP", "LMM", "$10^{-35}$", "0.67", "50.0%", "worst training flower"):
        assert words in written
    assert np.ptp(pixels(figure)) > 200
    dots = figure.axes[1].collections
    assert [len(row.get_offsets()) for row in dots] == [2] * 6
    np.testing.assert_allclose(dots[2].get_offsets()[:, 0], np.exp([-0.4, -0.1]))


def test_probability_histograms_count_all_samples():
    pytest.importorskip("matplotlib")
    losses = {"sure": np.array([0.01, 0.02]), "unsure": np.array([3.0, 0.1, 50.0, 2.0])}
    figure = _draw_probabilities(losses)
    assert "sure: 0.0% below ½" in texts(figure)
    assert "unsure: 75.0% below ½" in texts(figure)
    for ax in figure.axes:
        (bars,) = ax.patches
        assert bars.get_data().values.sum() == pytest.approx(1.0)


@pytest.fixture
def mlp_problem():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 4)), rng.integers(3, size=30)
    return MLP((4, 8, 5, 3), rng), X, y


def test_mlp_gradient_equals_finite_differences(mlp_problem):
    model, X, y = mlp_problem
    losses, gradients = model.losses_and_gradients(X, y)
    np.testing.assert_allclose(losses, model.losses(X, y), rtol=1e-12)
    for W, gradient in zip(model.weights, gradients, strict=True):
        for i, before in np.ndenumerate(W):
            mean = {}
            for step in (1e-6, -1e-6):
                W[i] = before + step
                mean[step] = model.losses(X, y).mean()
            W[i] = before
            assert (mean[1e-6] - mean[-1e-6]) / 2e-6 == pytest.approx(gradient[i], abs=1e-7)


def test_first_adam_step_equals_learning_rate(mlp_problem):
    model, X, y = mlp_problem
    before = [W.copy() for W in model.weights]
    _, gradients = model.losses_and_gradients(X, y)
    train_by_adam(model, X, y, 0.01, 1, np.random.default_rng(1))
    for old, new, gradient in zip(before, model.weights, gradients, strict=True):
        moved = np.abs(gradient) > 1e-4
        np.testing.assert_allclose((old - new)[moved], 0.01 * np.sign(gradient[moved]), rtol=1e-3)


def test_adam_batches_are_drawn_from_all_samples(mlp_problem):
    model, X, y = mlp_problem
    before = model.losses(X, y).mean()
    _, loss = train_by_adam(model, X, y, 0.01, 300, np.random.default_rng(1), 4)
    assert model.losses(X, y).mean() < 0.7 * before
    assert np.unique(loss).size > 250
