"""Figures of `maxplus.plots`."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings

from figure_helpers import labels, pixels, texts
from maxplus.metrics import reliability
from maxplus.plots import (
    plot_convergence,
    plot_importances,
    plot_reliability,
    plot_search,
    plot_stages,
)
from maxplus.report.figures import draw_predictions
from strategies import SEEDS, quick

pytest.importorskip("matplotlib")

CURVE = 2.0 / np.sqrt(np.arange(1, 3000))


@pytest.mark.parametrize("curve", [CURVE, CURVE[:1], np.full(5, 0.3), [0.5, 0.0]])
def test_convergence_plot_has_best_loss_and_levels(curve):
    figure = plot_convergence(curve, n_classes=3)
    assert f"best so far: {min(curve):.3f}" in texts(figure)
    assert "log 2" in texts(figure)
    assert "log 3" in texts(figure)
    assert np.ptp(pixels(figure)) > 200


def test_convergence_plot_of_two_classes_has_one_level():
    assert "uniform guess" not in texts(plot_convergence(CURVE, n_classes=2))


def test_convergence_plot_marks_switch():
    assert "constant steps" in texts(plot_convergence(CURVE, 3, switch=1500))
    assert "constant steps" not in texts(plot_convergence(CURVE, 3, switch=len(CURVE)))


def test_convergence_plot_has_running_minimum():
    (line,) = plot_convergence(CURVE[::-1], 3).axes[0].get_lines()[:1]
    iteration, best = line.get_data()
    assert iteration[0] == 1
    assert iteration[-1] == len(CURVE) + 1
    assert best[-1] == CURVE.min()
    assert (np.diff(best) <= 0).all()


def test_convergence_plot_with_linear_scale():
    ax = plot_convergence(CURVE, 3, scale="linear").axes[0]
    iteration, best = ax.get_lines()[0].get_data()
    assert ax.get_xscale() == "linear"
    assert iteration[-1] == len(CURVE) + 1
    assert best[-1] == CURVE.min()
    with pytest.raises(ValueError, match="scale must be 'log' or 'linear', got 'cubic'"):
        plot_convergence(CURVE, 3, scale="cubic")


@pytest.mark.parametrize("curve", [[], [[1.0]]])
def test_convergence_plot_rejects_other_shapes(curve):
    with pytest.raises(ValueError, match="loss_curve must be a non-empty vector"):
        plot_convergence(curve, 3)


def test_missing_matplotlib_error_names_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install 'maxplus\[plot\]'"):
        plot_convergence(CURVE, 3)


def test_plots_do_not_import_pyplot():
    code = (
        "import sys, maxplus.plots as plots; assert 'matplotlib' not in sys.modules;"
        "plots.plot_convergence([1.0, 0.5], 3); assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_stages_plot_has_both_curves():
    figure = plot_stages([0.9, 0.3, 0.1], [4.0, 1.1, 0.6])
    left, right = figure.axes
    assert left.get_lines()[0].get_xydata().tolist() == [[1, 0.9], [2, 0.3], [3, 0.1]]
    assert right.get_lines()[0].get_xydata().tolist() == [[0, 4.0], [1, 1.1], [2, 0.6]]
    assert "log 2" in texts(figure)
    assert len(plot_stages([0.5]).axes) == 1
    with pytest.raises(ValueError, match="warmup_losses must be a non-empty vector"):
        plot_stages([])


def test_search_plot_has_all_losses_and_chosen_candidate_first():
    losses = [[0.5, np.inf], [0.6, 0.2], [0.3, 0.4]]
    figure = plot_search(["a", "b", "c"], losses, 2)
    (ax,) = figure.axes
    assert [label.get_text() for label in ax.get_yticklabels()] == ["c", "b", "a"]
    dots = [line for line in ax.lines if line.get_marker() == "o"]
    assert [dot.get_xdata().tolist() for dot in dots] == [[0.3, 0.4], [0.6, 0.2], [0.5]]
    means = [float(line.get_xdata()[0]) for line in ax.lines if line.get_marker() == "|"]
    assert means == pytest.approx([0.35, 0.4, 0.5])
    with pytest.raises(ValueError, match="a row for each of the 2 candidates"):
        plot_search(["a", "b"], losses, 0)
    with pytest.raises(ValueError, match="chosen must be 0 to 2; got 3"):
        plot_search(["a", "b", "c"], losses, 3)


def test_importances_plot_is_sorted():
    shares, names = np.array([0.1, 0.5, 0.05, 0.3, 0.05]), list("abcde")
    figure = plot_importances(shares, names, n=3, errors=np.full(5, 0.01))
    (ax,) = figure.axes
    widths = [bar.get_width() for bar in ax.patches]
    assert widths == [0.5, 0.3, 0.1]
    assert ax.get_yticklabels()[0].get_text() == "b"
    assert ax.yaxis_inverted()
    with pytest.raises(ValueError, match=r"^names must be one for each importance; got 2"):
        plot_importances(shares, names[:2])


def test_predictions_plot_has_points_and_interval():
    (ax,) = draw_predictions(np.array([1.0, 2.0, 4.0]), np.array([1.5, 2.0, 3.0]), 0.5).axes
    dots, band = ax.collections[1], ax.collections[0]
    assert dots.get_offsets().tolist() == [[1.5, 1.0], [2.0, 2.0], [3.0, 4.0]]
    corners = band.get_paths()[0].vertices
    assert (corners[:, 1].min(), corners[:, 1].max()) == (0.5, 4.5)
    (ax,) = draw_predictions(np.array([1.0, 2.0]), np.array([1.5, 2.0]), np.inf).axes
    assert len(ax.collections) == 1


def test_reliability_has_a_dot_for_each_bin_with_samples():
    bins = reliability([0, 0, 1, 1], [[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.4, 0.6]], 10)
    figure = plot_reliability(bins)
    above, below = figure.axes
    dots = above.collections[-1]
    np.testing.assert_allclose(dots.get_offsets(), [[0.6, 1.0], [0.9, 2 / 3]])
    assert np.diff(dots.get_sizes()) > 0
    gaps = [segment[:, 1].tolist() for segment in above.collections[0].get_segments()]
    np.testing.assert_allclose(gaps, [[0.6, 1.0], [0.9, 2 / 3]])
    (bars,) = below.patches
    assert bars.get_data().values.tolist() == bins.count.tolist()
    assert f"expected calibration error {bins.error:.3f}" in texts(figure)
    assert np.ptp(pixels(figure)) > 200
    with pytest.raises(ValueError, match="bins holds no samples"):
        plot_reliability(SimpleNamespace(count=np.zeros(3)))


@pytest.fixture
def plots(monkeypatch):
    """Return the package without pyplot."""
    matplotlib = pytest.importorskip("matplotlib")
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.delattr(matplotlib, "pyplot", raising=False)
    import maxplus.plots

    return maxplus.plots


def test_image_explanation_has_units_and_pixels(plots, reader, few_digits):
    X, shape, n = few_digits.X[:4], (4, 16), 2
    explanation = reader.explain(X, class_names=["nil", "one", "two", "three", "four"])
    figure = plots.plot_explanation(explanation, n, shape)
    records = explanation.to_records()[5 * n : 5 * n + 5]
    records = sorted(records, key=lambda record: -record["score"])
    first, *others = [ax for ax in figure.axes if ax.get_images()]
    assert "input" in labels(first)
    assert np.array_equal(first.get_images()[0].get_array(), X[n].reshape(shape))
    assert len(others) == 5
    W0, W1 = reader.W0_, reader.W1_
    assert (W0[0::2] * W0[1::2] < 0).all()
    for ax, record in zip(others, records, strict=True):
        share = f"{record['class']}: {100 * record['probability']:.0f}%"
        assert share in labels(ax)
        assert f"unit {record['unit']}" in labels(ax)
        h = record["unit"]
        tops = (W1[1::2, h] - W1[0::2, h]) / (W0[0::2] - W0[1::2])
        np.testing.assert_allclose(ax.get_images()[0].get_array(), tops.reshape(shape), atol=1e-9)
        p = int(record["feature"].removeprefix("feature "))
        assert marked(ax) == [(p % 16, p // 16)]
    assert marked(first) == marked(others[0])
    assert np.ptp(pixels(figure)) > 200


def marked(ax):
    """Return the pixels with a marker, (column, row)."""
    return [tuple(map(int, point)) for line in ax.get_lines() for point in line.get_xydata()]


def test_image_explanation_of_units_without_centre(plots, without_prototypes, iris):
    explanation = without_prototypes.explain(iris.X[:1])
    assert np.isnan(explanation.centres).any()
    figure = plots.plot_explanation(explanation, 0, (2, 2))
    assert {f"unit {h}" for h in explanation.paths.unit[0]} <= set(labels(figure))
    assert np.ptp(pixels(figure)) > 200


@pytest.mark.parametrize("shape", [(2, 3), (4,), (1, 2, 2), (0, 4), (-2, -2)], ids=str)
def test_image_explanation_rejects_wrong_shape(plots, without_prototypes, iris, shape):
    why = without_prototypes.explain(iris.X[:1])
    with pytest.raises(ValueError, match="image_shape"):
        plots.plot_explanation(why, 0, shape)


RADII = {
    "finite": [0.1, 0.3, 0.2, 0.25],
    "infinite": [0.1, np.inf, 0.2, np.inf, 0.3],
    "all infinite": [np.inf, np.inf, np.inf],
    "ties and zeros": [0.0, 0.5, 0.5, 0.0, 0.25, 0.5, np.inf],
    "one": [0.7],
}


def certified(plots, radius, correct):
    figure = plots.plot_certified_accuracy(radius, correct)
    (ax,) = figure.axes
    curve = max(ax.get_lines(), key=lambda line: len(line.get_xdata()))
    assert curve.get_drawstyle() == "steps-post"
    return figure, *curve.get_data(), ax.get_xlim()[1]


@pytest.mark.parametrize("wrong", [False, True])
@pytest.mark.parametrize("radius", RADII.values(), ids=RADII)
def test_certified_accuracy_plot_equals_share_of_larger_radii(plots, radius, wrong):
    radius = np.array(radius)
    correct = np.ones(len(radius), bool)
    correct[0] = not wrong
    figure, x, y, end = certified(plots, radius, correct)
    jumps = np.unique([0.0, *radius[np.isfinite(radius) & correct]])
    assert end > jumps[-1]
    for eps in (np.append(jumps[1:], end) + jumps) / 2:
        share = np.mean([ok and r > eps for r, ok in zip(radius, correct, strict=True)])
        drawn = y[np.flatnonzero(x <= eps)[-1]]
        assert drawn == pytest.approx(share)
    assert any(f"{100 * correct.mean():.1f}%" in text for text in labels(figure))
    assert np.ptp(pixels(figure)) > 200


@given(SEEDS)
@settings(quick(20), derandomize=True)
def test_certified_accuracy_plot_of_random_radii(seed):
    pytest.importorskip("matplotlib")
    import maxplus.plots

    rng = np.random.default_rng(seed)
    radius = rng.choice([0.0, 0.1, 0.2, 0.4, 0.8, np.inf], rng.integers(1, 30))
    correct = rng.random(len(radius)) < 0.7
    _, x, y, end = certified(maxplus.plots, radius, correct)
    for eps in (0.05, 0.15, 0.3, 0.6):
        if eps < end:
            share = np.mean(correct & (radius > eps))
            assert y[np.flatnonzero(x <= eps)[-1]] == pytest.approx(share)


@pytest.mark.parametrize("radius", RADII.values(), ids=RADII)
def test_certified_accuracy_plot_is_monotone(plots, radius):
    _, x, y, _ = certified(plots, radius, np.ones(len(radius), bool))
    assert (np.diff(x) >= 0).all()
    assert (np.diff(y) <= 0).all()
    assert y[-1] == pytest.approx(np.isinf(radius).mean())


@pytest.mark.parametrize(
    ("radius", "correct"),
    [([], []), ([0.1], [True, False]), ([[0.1, 0.2]], [[True, False]]), (0.1, True)],
    ids=str,
)
def test_certified_accuracy_plot_rejects_other_shapes(plots, radius, correct):
    with pytest.raises(ValueError, match="radius"):
        plots.plot_certified_accuracy(radius, correct)
