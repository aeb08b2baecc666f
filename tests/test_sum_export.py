"""Sums of terms in ONNX and PyTorch: the scores of the library."""

from collections import Counter
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import maxplus.export
from commands import good
from exports import FLOATS
from maxplus import LipschitzInterpolator, LMMRegressor
from maxplus.models import LMM, AdditiveLMM, FeatureMap, Term
from strategies import SEEDS, grid_array, quick
from sums import classifier, mapped_sum, random_lmm, random_sum, regression_values, regressor


def run(path, X, *outputs):
    """What ONNX Runtime computes."""
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(list(outputs), {"X": X})


def assert_same_answers(clf, X, path):
    maxplus.export.export_onnx(clf, path)
    label, probabilities = run(path, X, "label", "probabilities")
    model = clf.model_
    size = np.abs(model.term_scores(X)).sum(axis=0).max(initial=1.0)
    tolerance = 4 * np.finfo(X.dtype).eps * size
    assert_allclose(probabilities, model.probabilities(X), rtol=0, atol=tolerance, strict=True)
    Z = model.scores(X)
    best = np.sort(Z, axis=1)
    is_clear = best[:, -1] - best[:, -2] > tolerance
    assert_array_equal(label[is_clear], clf.classes_[Z.argmax(axis=1)][is_clear])
    return is_clear


@FLOATS
@pytest.mark.parametrize("tile", [1, 40, 8192])
def test_onnx_has_the_probabilities_of_a_mapped_sum(onnx, dtype, tile, tmp_path):
    model, X = mapped_sum(dtype=dtype)
    beyond = np.concatenate([X, 3 * X, -X, model.feature_map(X).astype(dtype)])
    with mock.patch("maxplus.export.onnx.TILE_SUMS", tile):
        is_clear = assert_same_answers(
            classifier(model, X, ["a", "b", "c"]), beyond, tmp_path / "m.onnx"
        )
    assert is_clear.mean() > 0.9


@quick(15)
@given(seed=SEEDS)
def test_onnx_of_a_sum_is_exact_where_sums_are(onnx, tmp_path_factory, seed):
    """On a grid no sum is rounded, in whatever order: labels are equal, ties included."""
    path = tmp_path_factory.mktemp("onnx") / "m.onnx"
    X = grid_array(np.random.default_rng(seed), (40, 5), np.float64)
    model = random_sum(seed)
    clf = classifier(model, X)
    maxplus.export.export_onnx(clf, path)
    label, _ = run(path, X, "label", "probabilities")
    assert_array_equal(label, model.scores(X).argmax(axis=1))


@FLOATS
@quick(25)
@given(seed=SEEDS, n_knots=st.integers(1, 9))
def test_onnx_maps_features_to_the_last_bit(onnx, tmp_path_factory, dtype, seed, n_knots):
    """The difference of two outputs is the mapped feature itself."""
    path = tmp_path_factory.mktemp("onnx") / "m.onnx"
    rng = np.random.default_rng(seed)
    knots = []
    for size in (n_knots, int(rng.integers(1, 5))):
        x = np.unique(rng.normal(size=size) * 10.0 ** rng.integers(-6, 7))
        knots.append((x, np.sort(rng.normal(size=x.size))))
    feature_map = FeatureMap(knots)
    # Units min(u, 1000) and min(u + 1000, 0); the first decides output 1, the second output 0.
    W0, W1, W2 = [1, 0], [[0, 1000], [1000, 0]], [[-1e6, 0], [0, -1e6]]
    line = LMM(*(np.array(W, dtype) for W in (W0, W1, W2)))
    model = AdditiveLMM([Term([0], line)], 2, feature_map)
    reg = LMMRegressor()
    reg.__dict__ |= {"model_": model, "bounds_": np.array([-1e9, 1e9]), "n_features_in_": 2}
    reach = 1.0 + np.abs(knots[0][0]).max()
    points = np.concatenate([knots[0][0], rng.uniform(-2 * reach, 2 * reach, 50)]).astype(dtype)
    X = np.column_stack([points, points])
    maxplus.export.export_onnx(reg, path)
    (value,) = run(path, X, "value")
    assert_array_equal(value, model.mapped(X)[:, 0], strict=True)


def test_onnx_of_a_large_sum_has_few_nodes(onnx, tmp_path):
    """As many as for letter: shape functions, pairs and boxes of four members."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 16))
    shapes = [([p], 6) for p in range(16)]
    pairs = [([p, (p + 1) % 16], 6) for p in range(16)]
    boxes = [(range(16), 30)] * 8
    terms = [
        Term(np.sort(np.array(features)), random_lmm(rng, len(features), H, 3))
        for features, H in [*shapes, *pairs, *boxes]
    ]
    one = AdditiveLMM(terms, 16, FeatureMap.fit(X))
    model = AdditiveLMM.mean([one] * 4)
    assert len(model.terms) == 160
    assert_same_answers(classifier(model, X), X, tmp_path / "m.onnx")
    graph = onnx.load(tmp_path / "m.onnx").graph
    assert len(graph.node) < 120
    assert Counter(node.op_type for node in graph.node)["ReduceMin"] < 10
    assert len({node.name for node in graph.node}) == len(graph.node)


@FLOATS
def test_onnx_of_one_term_over_all_features_has_the_scores_of_its_lmm(onnx, dtype, tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20, 4)).astype(dtype)
    model = AdditiveLMM([Term(np.arange(4), random_lmm(rng, 4, 7, 3, dtype))], 4)
    maxplus.export.export_onnx(classifier(model, X), tmp_path / "m.onnx")
    label, probabilities = run(tmp_path / "m.onnx", X, "label", "probabilities")
    assert_array_equal(label, model.scores(X).argmax(axis=1))
    assert_allclose(probabilities, model.probabilities(X), atol=4 * np.finfo(dtype).eps)


@FLOATS
@pytest.mark.parametrize("is_mapped", [True, False])
def test_onnx_of_a_sum_takes_huge_numbers_and_no_rows(onnx, dtype, is_mapped, tmp_path):
    model, X = mapped_sum(dtype=dtype)
    if not is_mapped:
        model = random_sum(dtype=dtype)
    maxplus.export.export_onnx(classifier(model, X), tmp_path / "m.onnx")
    largest = np.finfo(dtype).max
    far = np.array([[largest] * 5, [-largest] * 5], dtype)
    label, probabilities = run(tmp_path / "m.onnx", far, "label", "probabilities")
    assert np.isfinite(probabilities).all()
    moved = np.clip(far, -model.largest_input, model.largest_input).astype(dtype)
    assert_array_equal(label, model.scores(moved).argmax(axis=1))
    label, probabilities = run(tmp_path / "m.onnx", far[:0], "label", "probabilities")
    assert label.shape == (0,)
    assert probabilities.shape == (0, 3)


@FLOATS
def test_onnx_predicts_a_regression_within_its_bounds(onnx, dtype, tmp_path):
    model, X = mapped_sum(n_classes=2, dtype=dtype)
    reg = regressor(model, X)
    reg.feature_names_in_ = np.array(list("abcde"), object)
    maxplus.export.export_onnx(reg, tmp_path / "m.onnx")
    (value,) = run(tmp_path / "m.onnx", X, "value")
    expected = regression_values(reg, X)
    assert_allclose(value, expected, atol=100 * np.finfo(dtype).eps, strict=True)
    low, high = reg.bounds_.astype(dtype)
    assert (value == low).any()
    assert (value == high).any()
    saved = onnx.load(tmp_path / "m.onnx")
    assert [output.name for output in saved.graph.output] == ["value"]
    assert saved.metadata_props[0].value == '["a", "b", "c", "d", "e"]'
    assert "Sum of 10 Linear-Min-Max terms" in saved.doc_string


def test_onnx_predicts_an_interpolation(onnx, tmp_path):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(40, 3))
    reg = LipschitzInterpolator().fit(X, np.sin(X).sum(axis=1))
    maxplus.export.export_onnx(reg, tmp_path / "m.onnx")
    rows = rng.normal(size=(50, 3))
    (value,) = run(tmp_path / "m.onnx", rows, "value")
    assert_array_equal(value, reg.predict(rows), strict=True)


def test_export_command_takes_a_regression(onnx, tmp_path):
    model, X = mapped_sum(n_classes=2)
    reg = regressor(model, X)
    reg.save(tmp_path / "m.maxplus")
    good("export", tmp_path / "m.maxplus", tmp_path / "m.onnx")
    (value,) = run(tmp_path / "m.onnx", X, "value")
    assert_allclose(value, regression_values(reg, X), atol=1e-12)


# -- PyTorch ----------------------------------------------------------------------------------


@FLOATS
@pytest.mark.parametrize("is_mapped", [True, False])
def test_torch_module_has_the_scores_of_a_sum(torch, dtype, is_mapped):
    model, X = mapped_sum(dtype=dtype)
    if not is_mapped:
        model = random_sum(dtype=dtype)
    X = np.concatenate([X, 3 * X, -X])
    module = maxplus.export.to_torch(classifier(model, X))
    assert len(module.groups) == 4
    z = module(torch.tensor(X)).detach().numpy()
    tolerance = 8 * np.finfo(dtype).eps * np.abs(model.term_scores(X)).sum(axis=0).max()
    assert_allclose(z, model.scores(X), rtol=0, atol=tolerance, strict=True)
    one = module(torch.tensor(X[5])).detach().numpy()
    assert_array_equal(one, z[5], strict=True)
    probabilities = module.probabilities(torch.tensor(X)).detach().numpy()
    assert_allclose(probabilities, model.probabilities(X), rtol=0, atol=tolerance)
    assert module(torch.tensor(X[:0])).shape == (0, 3)
    with pytest.raises(ValueError, match=r"\(…, 5\); got \(2, 4\)"):
        module(torch.zeros(2, 4, dtype=module.intercept.dtype))


@quick(15)
@given(seed=SEEDS)
def test_torch_module_of_a_sum_is_exact_where_sums_are(torch, seed):
    X = grid_array(np.random.default_rng(seed), (20, 5), np.float64)
    model = random_sum(seed)
    z = maxplus.export.to_torch(classifier(model, X))(torch.tensor(X))
    assert_array_equal(z.detach().numpy(), model.scores(X), strict=True)


@FLOATS
def test_torch_maps_features_to_the_last_bit(torch, dtype):
    from maxplus.export.torch import FeatureMapLayer

    model, X = mapped_sum(dtype=dtype)
    X = np.concatenate([X, 3 * X, -X, np.full((1, 5), np.nan, dtype)])
    u = FeatureMapLayer(model.feature_map)(torch.tensor(X)).numpy()
    assert_array_equal(u, model.mapped(X), strict=True)


def test_torch_derivatives_of_a_sum_are_difference_quotients(torch):
    model, X = mapped_sum()
    rng = np.random.default_rng(5)
    terms = [
        Term(f, LMM(*(W + 0.01 * rng.normal(size=W.shape) for W in (m.W0, m.W1, m.W2))))
        for f, m in model.terms
    ]
    module = maxplus.export.to_torch(classifier(AdditiveLMM(terms, 5, model.feature_map), X))
    names = [name for name, _ in module.named_parameters()]
    assert names == ["intercept"] + [f"groups.{g}.W{k}" for g in range(4) for k in range(3)]
    x = torch.tensor(X[:4] + 0.01, requires_grad=True)

    def scores(x, *values):
        named = dict(zip(names, values, strict=True))
        return torch.func.functional_call(module, named, x)

    values = [p.detach().requires_grad_() for p in module.parameters()]
    assert torch.autograd.gradcheck(scores, (x, *values), eps=1e-7, atol=1e-5)


def test_torch_training_of_a_sum_leaves_the_classifier_alone(torch):
    model, X = mapped_sum()
    y = np.random.default_rng(6).integers(0, 3, len(X))
    before = {name: W.copy() for name, W in model.weights_by_name().items()}
    module = maxplus.export.to_torch(classifier(model, X))
    optimiser = torch.optim.Adam(module.parameters(), lr=0.05)
    losses = []
    for _ in range(30):
        optimiser.zero_grad()
        losses.append(torch.nn.functional.cross_entropy(module(torch.tensor(X)), torch.tensor(y)))
        losses[-1].backward()
        optimiser.step()
    assert losses[-1] < 0.7 * losses[0]
    for name, W in model.weights_by_name().items():
        assert_array_equal(W, before[name])


def test_torch_state_of_a_sum_can_be_saved(torch, tmp_path):
    (one, X), (two, _) = mapped_sum(0), mapped_sum(1)
    module, other = (maxplus.export.to_torch(classifier(m, X)) for m in (one, two))
    x = torch.tensor(X)
    torch.save(module.state_dict(), tmp_path / "state.pt")
    assert not torch.equal(module(x), other(x))
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert torch.equal(module(x), other(x))


@FLOATS
def test_torch_predicts_a_regression_within_its_bounds(torch, dtype):
    model, X = mapped_sum(n_classes=2, dtype=dtype)
    reg = regressor(model, X)
    value = maxplus.export.to_torch(reg)(torch.tensor(X)).detach().numpy()
    assert_allclose(value, regression_values(reg, X), atol=100 * np.finfo(dtype).eps, strict=True)


def test_torch_predicts_an_interpolation(torch):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(40, 3))
    reg = LipschitzInterpolator().fit(X, np.sin(X).sum(axis=1))
    value = maxplus.export.to_torch(reg)(torch.tensor(X)).detach().numpy()
    assert_array_equal(value, reg.predict(X), strict=True)
