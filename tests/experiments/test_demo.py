"""The Iris comparison and ``python -m experiments.demo``, the MLP, and figures."""

import math
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from experiments import demo as demo_module
from experiments.comparison import MLP, Evaluation, TrainedModel, train_by_adam
from experiments.demo import app
from experiments.iris import LMM_MAX, PAPER, compare_on_iris, plot_comparison
from experiments.mnist import _draw_probabilities
from figure_helpers import pixels, texts

pytestmark = pytest.mark.filterwarnings("ignore::maxplus.estimators.NoEffectWarning")


def run(*arguments):
    """Run the demo in a wide terminal."""
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def comparison():
    return compare_on_iris(seed=1, iterations=300)


def test_demo_prints_the_table_and_saves_the_figure(tmp_path):
    pytest.importorskip("matplotlib")
    out = tmp_path / "new" / "folder"
    result = run("--seed", 1, "--iterations", 50, "--out", out)
    assert result.exit_code == 0, result.output
    assert (out / "iris.png").read_bytes().startswith(b"\x89PNG")
    for words in ("seed 1", *PAPER, "(paper)", "0.426", "certificate", f"Figure: {out}"):
        assert words in result.output
    for name in PAPER:
        assert f"{name.ljust(10)} " in result.stderr
    assert "50/50" in result.stderr


def test_demo_without_matplotlib_names_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = run("--iterations", 5, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert "pip install 'maxplus[plot]'" in result.output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("option", "value"),
    [("--iterations", 0), ("--seed", -1), ("--seed", "one"), ("--out", "f"), ("--out", "f/deeper")],
)
def test_demo_rejects_invalid_options(option, value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f").touch()
    result = run(option, value)
    assert result.exit_code == 2
    assert option in result.stderr


def test_demo_exit_code_after_ctrl_c(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo_module, "compare_on_iris", interrupted)
    result = run("--out", tmp_path)
    assert result.exit_code == 130
    assert result.stderr == "Interrupted; nothing was saved.\n"


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
    return MLP.random((4, 8, 5, 3), rng), X, y


def test_mlp_gradient_equals_finite_differences(mlp_problem):
    model, X, y = mlp_problem
    losses, gradient = model.losses_and_gradient(X, y)
    np.testing.assert_allclose(losses, model.losses(X, y), rtol=1e-12)
    for i in range(model.theta.size):
        mean = {}
        for step in (1e-6, -1e-6):
            moved = MLP((4, 8, 5, 3), model.theta.copy())
            moved.theta[i] += step
            mean[step] = moved.losses(X, y).mean()
        assert (mean[1e-6] - mean[-1e-6]) / 2e-6 == pytest.approx(gradient[i], abs=1e-7)


def test_first_adam_step_equals_learning_rate(mlp_problem):
    model, X, y = mlp_problem
    before = model.theta.copy()
    _, gradient = model.losses_and_gradient(X, y)
    train_by_adam(model, X, y, 0.01, 1, np.random.default_rng(1))
    moved = np.abs(gradient) > 1e-4
    np.testing.assert_allclose(
        (before - model.theta)[moved], 0.01 * np.sign(gradient[moved]), rtol=1e-3
    )


def test_adam_batches_are_drawn_from_all_samples(mlp_problem):
    model, X, y = mlp_problem
    before = model.losses(X, y).mean()
    _, loss = train_by_adam(model, X, y, 0.01, 300, np.random.default_rng(1), 4)
    assert model.losses(X, y).mean() < 0.7 * before
    assert np.unique(loss).size > 250
