"""Figures of `maxplus.plots`."""

import subprocess
import sys
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from figure_helpers import labels, pixels, texts
from maxplus.explain import Domain, OneHotGroup, feature_importances, term_means
from maxplus.metrics import reliability
from maxplus.models import LMM, AdditiveLMM, Term
from maxplus.plots import (
    plot_certified_accuracy,
    plot_convergence,
    plot_importances,
    plot_reliability,
    plot_search,
    plot_shape_functions,
    plot_stages,
)
from maxplus.plots._style import new_figure
from maxplus.report.figures import draw_predictions, shapes_figure

pytest.importorskip("matplotlib")

CURVE = 2.0 / np.sqrt(np.arange(1, 3000))


@pytest.mark.parametrize("curve", [CURVE, CURVE[:1], np.full(5, 0.3), [0.5, 0.0]])
def test_convergence_plot_has_best_loss_and_levels(curve):
    figure = plot_convergence(curve, n_classes=3)
    assert f"best so far: {min(curve):.3f}" in texts(figure)
    assert "log 2" in texts(figure)
    assert "log 3" in texts(figure)
    assert np.ptp(pixels(figure)) > 200


def test_convergence_plot_has_running_minimum():
    (line,) = plot_convergence(CURVE[::-1], 3).axes[0].get_lines()[:1]
    iteration, best = line.get_data()
    assert iteration[0] == 1
    assert iteration[-1] == len(CURVE) + 1
    assert best[-1] == CURVE.min()
    assert (np.diff(best) <= 0).all()


def test_convergence_plot_options():
    figure = new_figure(8.0, 4.0)
    ax = figure.subplots(1, 2)[1]
    assert plot_convergence(CURVE, 3, scale="linear", ax=ax) is figure
    iteration, best = ax.get_lines()[0].get_data()
    assert ax.get_xscale() == "linear"
    assert iteration[-1] == len(CURVE) + 1
    assert best[-1] == CURVE.min()
    assert "constant steps" in texts(plot_convergence(CURVE, 3, switch=1500))
    assert "constant steps" not in texts(plot_convergence(CURVE, 3, switch=len(CURVE)))
    assert "uniform guess" not in texts(plot_convergence(CURVE, n_classes=2))


LOSSES = [[0.5, np.inf], [0.6, 0.2], [0.3, 0.4]]


@pytest.mark.parametrize(
    ("plot", "arguments", "message"),
    [
        (plot_convergence, ([], 3), "loss_curve must be a non-empty vector"),
        (plot_convergence, ([[1.0]], 3), "loss_curve must be a non-empty vector"),
        (partial(plot_convergence, scale="cubic"), ([1.0], 3), "'linear', got 'cubic'"),
        (plot_stages, ([],), "warmup_losses must be a non-empty vector"),
        (plot_search, ("ab", LOSSES, 0), "a row for each of the 2 candidates"),
        (plot_search, ("abc", LOSSES, 3), "chosen must be an index from 0 to 2; got 3"),
        (plot_importances, ([0.1, 0.5, 0.4], "ab"), "names must have one entry .* got 2"),
        (plot_reliability, (SimpleNamespace(count=np.zeros(3)),), "bins contains no samples"),
        (plot_certified_accuracy, ([], []), "radius and correct must have the same shape"),
        (plot_certified_accuracy, ([0.1], [True, False]), r"shapes \(1,\) and \(2,\)"),
        (plot_certified_accuracy, ([[0.1, 0.2]], [[True, False]]), "got shapes"),
        (plot_certified_accuracy, (0.1, True), r"shapes \(\) and \(\)"),
    ],
)
def test_plots_reject_invalid_arguments(plot, arguments, message):
    with pytest.raises(ValueError, match=message):
        plot(*arguments)


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


def test_search_plot_has_all_losses_and_chosen_candidate_first():
    figure = plot_search(["a", "b", "c"], LOSSES, 2)
    (ax,) = figure.axes
    assert [label.get_text() for label in ax.get_yticklabels()] == ["c", "b", "a"]
    dots = [line for line in ax.lines if line.get_marker() == "o"]
    assert [dot.get_xdata().tolist() for dot in dots] == [[0.3, 0.4], [0.6, 0.2], [0.5]]
    means = [float(line.get_xdata()[0]) for line in ax.lines if line.get_marker() == "|"]
    assert means == pytest.approx([0.35, 0.4, 0.5])


def test_search_plot_has_its_label_inside_the_figure():
    figure = plot_search(["a long name of a candidate, " * 3, "b", "c"], LOSSES, 2)
    figure.draw_without_rendering()
    label = figure.axes[0].xaxis.label.get_window_extent()
    assert label.x0 >= 0
    assert label.x1 <= figure.bbox.x1


def test_importances_plot_is_sorted():
    shares, names = np.array([0.1, 0.5, 0.05, 0.3, 0.05]), list("abcde")
    figure = plot_importances(shares, names, n=3, errors=np.full(5, 0.01))
    (ax,) = figure.axes
    widths = [bar.get_width() for bar in ax.patches]
    assert widths == [0.5, 0.3, 0.1]
    assert ax.get_yticklabels()[0].get_text() == "b"
    assert ax.yaxis_inverted()


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
    "random": np.random.default_rng(0).choice([0.0, 0.1, 0.2, 0.4, np.inf], 30),
}


@pytest.mark.parametrize("is_first_correct", [True, False])
@pytest.mark.parametrize("radius", RADII.values(), ids=RADII)
def test_certified_accuracy_plot_equals_share_of_larger_radii(plots, radius, is_first_correct):
    radius = np.array(radius)
    correct = np.arange(len(radius)) >= (not is_first_correct)
    figure = plots.plot_certified_accuracy(radius, correct)
    (ax,) = figure.axes
    curve = max(ax.get_lines(), key=lambda line: len(line.get_xdata()))
    assert curve.get_drawstyle() == "steps-post"
    (x, y), end = curve.get_data(), ax.get_xlim()[1]
    assert (np.diff(x) >= 0).all()
    assert (np.diff(y) <= 0).all()
    jumps = np.unique([0.0, *radius[np.isfinite(radius) & correct]])
    assert end > jumps[-1]
    for eps in (np.append(jumps[1:], end) + jumps) / 2:
        assert y[np.flatnonzero(x <= eps)[-1]] == pytest.approx(np.mean(correct & (radius > eps)))
    assert any(f"{100 * correct.mean():.1f} %" in text for text in labels(figure))


# -- shape functions ----------------------------------------------------------------------------


def random_sum(rng, groups, n_classes=3):
    sizes = [(2 * len(g), (2 * len(g), 3), (3, n_classes)) for g in groups]
    lmms = [LMM(*(rng.normal(size=shape) for shape in shapes)) for shapes in sizes]
    return AdditiveLMM([Term(g, lmm) for g, lmm in zip(groups, lmms, strict=True)], 4)


def titles(figure):
    return [ax.get_title(loc="left") for ax in figure.axes]


def test_shape_plot_of_two_classes_has_a_panel_for_each_column_and_pair_and_a_colour_bar():
    rng = np.random.default_rng(10)
    X = rng.normal(size=(80, 4))
    X[:, 3] = X[:, 3] > 0
    model = random_sum(rng, [[0], [1], [2], [3], [0, 3], [0, 1, 2, 3]], n_classes=2)
    figure = plot_shape_functions(model, X, ["a", "b", "c", "d"], ["no", "yes"])
    assert sorted(titles(figure)) == ["", "a", "a × d", "b", "c", "d"]
    assert figure.get_supylabel() == "score of yes − score of no"


@pytest.mark.parametrize("n_classes", [3, 9])
def test_shape_plot_of_several_classes_has_a_centred_line_for_each(n_classes):
    rng = np.random.default_rng(11)
    X = rng.normal(size=(80, 4))
    X[:, 1] = 0.0  # A constant column is plotted as well.
    names = [str(d) for d in range(n_classes)]
    model = random_sum(rng, [[0], [1], [3], [0, 1]], n_classes)
    figure = plot_shape_functions(model, X, class_names=names)
    assert len(figure.axes) == 4
    panel = figure.axes[titles(figure).index("x0")]
    curves = [line for line in panel.lines if len(line.get_xdata()) > 2]
    assert len(curves) == n_classes
    np.testing.assert_allclose(sum(line.get_ydata() for line in curves), 0.0, atol=1e-9)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == names
    assert np.ptp(pixels(figure)) > 200


def test_shape_plot_has_the_most_important_columns_first():
    rng = np.random.default_rng(12)
    model, X = random_sum(rng, [[p] for p in range(4)]), rng.normal(size=(50, 4))
    order = np.argsort(-feature_importances(model, X))
    assert titles(plot_shape_functions(model, X, max_features=2)) == [f"x{p}" for p in order[:2]]


def test_alternative_text_of_shape_plot_lists_its_panels():
    rng = np.random.default_rng(13)
    pairs = [[p, q] for p in range(4) for q in range(p + 1, 4)]
    model, X = random_sum(rng, [[0], *pairs]), rng.normal(size=(50, 4))
    clf = SimpleNamespace(model_=model, classes_=np.arange(3), term_means_=term_means(model, X))
    domain = Domain.from_rows(X)
    figure = plot_shape_functions(model, X, domain=domain)
    alt = shapes_figure(clf, X, domain)["alt"]
    panels = ", ".join(title for title in titles(figure) if title)
    assert alt == f"Contributions of {panels} to the scores."


def test_shape_plot_has_curves_of_terms_and_levels_of_categories():
    rng = np.random.default_rng(15)
    X = np.column_stack([rng.uniform(size=200), np.eye(2)[rng.integers(2, size=200)]])
    sex = OneHotGroup("sex", (1, 2), ("f", "m"))
    domain = Domain.from_rows(X, names=["age", "sex = f", "sex = m"], categories=[sex])
    line = LMM.from_boxes([[0.0], [1.0]], 0.5, np.eye(2), slope=1.0)
    pair = LMM.from_boxes([[1.0, 0.0], [0.0, 1.0]], 0.2, np.eye(2), slope=1.0)
    model = AdditiveLMM([Term([0], line.scaled(3.0)), Term([1, 2], pair)], 3)
    means = term_means(model, X)
    figure = plot_shape_functions(model, X, baseline=means, domain=domain)
    assert titles(figure) == ["age", "sex"]
    age, levels = figure.axes
    drawn = max(age.lines, key=lambda curve: len(curve.get_xdata())).get_xydata()
    expected = 3.0 * 2.0 * (drawn[:, 0] - X[:, 0].mean())
    np.testing.assert_allclose(drawn[:, 1], expected, atol=1e-9)
    assert [tick.get_text() for tick in levels.get_xticklabels()] == ["f", "m"]
    scores = pair.scores(np.eye(2)) - means[1]
    (found,) = [curve.get_ydata() for curve in levels.lines if len(curve.get_ydata()) == 2][-1:]
    np.testing.assert_allclose(found, scores[:, 1] - scores[:, 0], atol=1e-9)


def test_shape_plot_of_a_pair_is_a_surface():
    X = np.random.default_rng(0).uniform(0.0, 1.0, (200, 2))
    corners = LMM.from_boxes([[0.0, 0.0], [1.0, 1.0]], 0.2, np.eye(2), slope=2.0)
    figure = plot_shape_functions(AdditiveLMM([Term([0, 1], corners)], 2), X)
    cells = figure.axes[0].collections[0].get_array()
    assert cells[0, 0] < 0 < cells[-1, -1]


def test_shape_plot_rejects_models_without_small_terms():
    model = random_sum(np.random.default_rng(14), [[0, 1, 2, 3]])
    with pytest.raises(ValueError, match="terms over one or two columns"):
        plot_shape_functions(model, np.zeros((5, 4)))
    with pytest.raises(ValueError, match="max_features must be >= 1"):
        plot_shape_functions(model, np.zeros((5, 4)), max_features=0)
