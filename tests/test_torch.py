"""PyTorch layers and modules: scores and derivatives of the models."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import sums
from exports import DATA, FLOATS, MNIST, briefly_trained, classifier, networks, normal_lmm
from maxplus import LipschitzInterpolator
from maxplus.algebra import maxplus as max_product
from maxplus.algebra import minplus as min_product
from maxplus.export import to_torch
from maxplus.models import LMM, AdditiveLMM, Term
from strategies import DTYPES, SEEDS, SIZES, SIZES_OR_ZERO, grid_array, quick

PRODUCTS = pytest.mark.parametrize(
    ("name", "product"), [("MinPlus", min_product), ("MaxPlus", max_product)]
)


@pytest.fixture(scope="module")
def layers(torch):
    import maxplus.export.torch as layers

    return layers


def to_numpy(tensor):
    return tensor.detach().numpy()


# -- layers ----------------------------------------------------------------------


@PRODUCTS
@quick(40)
@given(
    sizes=st.tuples(SIZES_OR_ZERO, SIZES, SIZES),
    seed=SEEDS,
    dtype=DTYPES,
    block=st.sampled_from([1, 10, 100, 1 << 22]),
)
def test_layers_equal_the_algebra_and_gradients_go_to_the_first_winner(
    torch, layers, name, product, sizes, seed, dtype, block
):
    n, n_in, n_out = sizes
    rng = np.random.default_rng(seed)
    A, B = grid_array(rng, (n, n_in), dtype), grid_array(rng, (n_in, n_out), dtype)
    weights = grid_array(rng, (n, n_out), dtype)
    layer, x = getattr(layers, name)(B), torch.tensor(A, requires_grad=True)
    with mock.patch.object(layers, "MAX_SUMS", block):
        y = layer(x)
    values, winners = product(A, B, return_index=True)
    assert_array_equal(to_numpy(y), values, strict=True)

    y.backward(torch.tensor(weights))
    by_x, by_weight = np.zeros_like(A), np.zeros_like(B)
    rows, columns = np.indices((n, n_out))
    np.add.at(by_x, (rows, winners), weights)
    np.add.at(by_weight, (winners, columns), weights)
    assert_array_equal(x.grad.numpy(), by_x, strict=True)
    assert_array_equal(layer.weight.grad.numpy(), by_weight, strict=True)


@PRODUCTS
def test_layer_gradients_match_difference_quotients(torch, layers, name, product):
    rng = np.random.default_rng(16)
    layer = getattr(layers, name)(rng.normal(size=(5, 4)))
    x = torch.tensor(rng.normal(size=(6, 5)), requires_grad=True)

    def output(x, weight):
        return torch.func.functional_call(layer, {"weight": weight}, x)

    inputs = x, layer.weight.detach().requires_grad_()
    assert torch.autograd.gradcheck(output, inputs)
    # The second derivative of a linear function is zero, but must be defined.
    assert torch.autograd.gradgradcheck(lambda *both: output(*both).square(), inputs)


@PRODUCTS
def test_layers_keep_leading_dimensions(torch, layers, name, product):
    rng = np.random.default_rng(17)
    layer, X = getattr(layers, name)(rng.normal(size=(5, 4))), rng.normal(size=(2, 3, 5))
    expected = product(X.reshape(6, 5), to_numpy(layer.weight)).reshape(2, 3, 4)
    assert_array_equal(to_numpy(layer(torch.tensor(X))), expected)
    assert_array_equal(to_numpy(layer(torch.tensor(X[1, 2]))), expected[1, 2])
    assert layer(torch.zeros(2, 0, 5, dtype=torch.float64)).shape == (2, 0, 4)


@PRODUCTS
def test_layers_allocate_no_large_array(torch, layers, name, product):
    from torch.utils._python_dispatch import TorchDispatchMode

    sizes = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), named=None):
            result = function(*arguments, **(named or {}))
            parts = result if isinstance(result, tuple | list) else [result]
            # Count memory: a broadcast view has many elements and little memory.
            sizes.extend(part.untyped_storage().nbytes() // part.element_size() for part in parts)
            return result

    layer, x = getattr(layers, name)(40, 30), torch.rand(50, 40, requires_grad=True)
    with mock.patch.object(layers, "MAX_SUMS", 2500), Watch():
        layer(x).sum().backward()
    assert 50 * 40 <= max(sizes) <= 2500
    assert layer.weight.grad.sum() == 50 * 30


@PRODUCTS
def test_layers_with_random_weights(torch, layers, name, product):
    kind = getattr(layers, name)
    torch.manual_seed(0)
    layer, other = kind(30, 20), kind(in_features=30, out_features=20)
    torch.manual_seed(0)
    assert_array_equal(to_numpy(kind(30, 20).weight), to_numpy(layer.weight))
    reach = np.sqrt(6 / 50)
    W = to_numpy(layer.weight)
    assert W.shape == (30, 20)
    assert not np.array_equal(W, to_numpy(other.weight))
    assert reach * 0.9 < W.max() <= reach
    assert -reach <= W.min() < -reach * 0.9
    assert repr(layer) == f"{name}(in_features=30, out_features=20)"


def test_layers_copy_their_weights(torch, layers):
    for weight in (np.ones((2, 3)), torch.ones(2, 3), torch.nn.Parameter(torch.ones(2, 3))):
        layer = layers.MinPlus(weight)
        with torch.no_grad():
            layer.weight.add_(1)
        assert weight.sum() == 6
    assert layers.MaxPlus([[1.0, 2.0]]).weight.tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize(
    "arguments", [(5,), ([1.0, 2.0],), ([[1, 2], [3, 4]],), (np.ones((0, 3)),), (3, 0), (0, 3)]
)
def test_layers_reject_invalid_weights(layers, arguments):
    with pytest.raises(ValueError, match=r"weight must be a matrix of floats.*got shape \(.*\)"):
        layers.MinPlus(*arguments)


# -- modules of estimators ---------------------------------------------------------


@DATA
@FLOATS
def test_module_has_the_scores_of_classifier(request, torch, data, dtype):
    X, y = request.getfixturevalue(data).astype(dtype)
    clf = briefly_trained(X, y)
    network = to_torch(clf)
    x = torch.tensor(X)
    assert_array_equal(to_numpy(network(x)), clf.model_.scores(X), strict=True)
    assert_array_equal(to_numpy(network(x[7])), clf.model_.scores(X[7:8])[0], strict=True)
    probabilities = to_numpy(network.probabilities(x))
    assert_allclose(probabilities, clf.predict_proba(X), atol=1e-6, strict=True)


@quick(40)
@given(network=networks())
def test_scores_of_network_are_exact(torch, network):
    lmm, X = network
    z = to_torch(classifier(lmm))(torch.tensor(X))
    assert_array_equal(to_numpy(z), lmm.scores(X), strict=True)


@FLOATS
def test_scores_at_the_size_of_mnist(torch, dtype):
    lmm = normal_lmm(18, MNIST, dtype)
    X = np.random.default_rng(19).random((10, MNIST[0])).astype(dtype)
    z = to_torch(classifier(lmm))(torch.tensor(X))
    assert_array_equal(to_numpy(z), lmm.scores(X), strict=True)


@FLOATS
@pytest.mark.parametrize("is_mapped", [True, False])
def test_scores_of_sum_are_equal_up_to_rounding(torch, dtype, is_mapped):
    model, X = sums.mapped_sum(dtype=dtype)
    if not is_mapped:
        model = sums.random_sum(dtype=dtype)
    X = np.concatenate([X, 3 * X, -X])
    module = to_torch(sums.classifier(model, X))
    assert len(module.groups) == 4
    z = to_numpy(module(torch.tensor(X)))
    tolerance = 8 * np.finfo(dtype).eps * np.abs(model.term_scores(X)).sum(axis=0).max()
    assert_allclose(z, model.scores(X), rtol=0, atol=tolerance, strict=True)
    assert_array_equal(to_numpy(module(torch.tensor(X[5]))), z[5], strict=True)
    probabilities = to_numpy(module.probabilities(torch.tensor(X)))
    assert_allclose(probabilities, model.probabilities(X), rtol=0, atol=tolerance)
    assert module(torch.tensor(X[:0])).shape == (0, 3)
    with pytest.raises(ValueError, match=r"\(…, 5\); got \(2, 4\)"):
        module(torch.zeros(2, 4, dtype=module.intercept.dtype))


@quick(15)
@given(seed=SEEDS)
def test_scores_of_sum_are_exact_on_a_grid(torch, seed):
    X = grid_array(np.random.default_rng(seed), (20, 5), np.float64)
    model = sums.random_sum(seed)
    z = to_torch(sums.classifier(model, X))(torch.tensor(X))
    assert_array_equal(to_numpy(z), model.scores(X), strict=True)


@FLOATS
def test_feature_map_is_exact(torch, layers, dtype):
    model, X = sums.mapped_sum(dtype=dtype)
    X = np.concatenate([X, 3 * X, -X, np.full((1, 5), np.nan, dtype)])
    u = layers.FeatureMapLayer(model.feature_map)(torch.tensor(X)).numpy()
    assert_array_equal(u, model.mapped(X), strict=True)


@FLOATS
def test_regression_is_clipped_to_its_bounds(torch, dtype):
    model, X = sums.mapped_sum(n_classes=2, dtype=dtype)
    reg = sums.regressor(model, X)
    value = to_numpy(to_torch(reg)(torch.tensor(X)))
    expected = sums.regression_values(reg, X)
    assert_allclose(value, expected, atol=100 * np.finfo(dtype).eps, strict=True)


def test_predictions_of_interpolation(torch):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(40, 3))
    reg = LipschitzInterpolator().fit(X, np.sin(X).sum(axis=1))
    assert_array_equal(to_numpy(to_torch(reg)(torch.tensor(X))), reg.predict(X), strict=True)


@quick(40)
@given(network=networks(), seed=SEEDS)
def test_gradient_equals_the_subgradient(torch, network, seed):
    """Both break ties by the lowest index."""
    lmm, X = network
    rng = np.random.default_rng(seed)
    module = to_torch(classifier(lmm)).double()
    layers = {"W0": module.W0, "W1": module.minplus.weight, "W2": module.maxplus.weight}
    for x in X[:3]:
        y = int(rng.integers(lmm.n_classes))
        module.zero_grad()
        z = module(torch.tensor(x.astype(np.float64)))
        torch.nn.functional.cross_entropy(z, torch.tensor(y)).backward()
        subgradient = lmm.subgradient(x, y)
        assert subgradient.keys() == layers.keys()
        for name, entries in subgradient.items():
            expected = np.zeros(getattr(lmm, name).shape)
            expected[entries.index] = entries.value
            got = layers[name].grad.numpy()
            assert_allclose(got, expected, rtol=1e-12, atol=1e-14, err_msg=name)


def a_network():
    return classifier(normal_lmm(20, (5, 6, 4)))


def a_sum(seed=0):
    """Return a classifier with a sum whose weights are not on a grid."""
    model, X = sums.mapped_sum(seed)
    rng = np.random.default_rng(5)
    terms = [
        Term(f, LMM(*(W + 0.01 * rng.normal(size=W.shape) for W in (m.W0, m.W1, m.W2))))
        for f, m in model.terms
    ]
    return sums.classifier(AdditiveLMM(terms, 5, model.feature_map), X)


NAMES = {
    a_network: ["W0", "minplus.weight", "maxplus.weight"],
    a_sum: ["intercept", *(f"groups.{g}.W{k}" for g in range(4) for k in range(3))],
}


@pytest.mark.parametrize("make", NAMES)
def test_gradients_match_difference_quotients(torch, make):
    module = to_torch(make())
    assert [name for name, _ in module.named_parameters()] == NAMES[make]
    X = sums.mapped_sum()[1][:4] if make is a_sum else np.random.default_rng(21).normal(size=(4, 5))
    x = torch.tensor(X + 0.01, requires_grad=True)

    def scores(x, *values):
        named = dict(zip(NAMES[make], values, strict=True))
        return torch.func.functional_call(module, named, x)

    values = [p.detach().requires_grad_() for p in module.parameters()]
    assert torch.autograd.gradcheck(scores, (x, *values), eps=1e-7, atol=1e-5)


@pytest.mark.parametrize("make", NAMES)
def test_training_leaves_classifier_unchanged(torch, make):
    clf = make()
    _, X = sums.mapped_sum()
    y = np.random.default_rng(6).integers(0, 3, len(X))
    before = {name: W.copy() for name, W in clf.model_.weights_by_name().items()}
    module, x, labels = to_torch(clf), torch.tensor(X), torch.tensor(y)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.05)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        losses.append(torch.nn.functional.cross_entropy(module(x), labels))
        losses[-1].backward()
        optimizer.step()
    assert losses[-1] < 0.9 * losses[0]
    for name, W in clf.model_.weights_by_name().items():
        assert_array_equal(W, before[name])


def test_state_can_be_saved(torch, tmp_path):
    x = torch.tensor(sums.mapped_sum()[1])
    for clf, other_clf in (
        (a_network(), classifier(normal_lmm(23, (5, 6, 4)))),
        (a_sum(), a_sum(1)),
    ):
        module, other = to_torch(clf), to_torch(other_clf)
        assert not torch.equal(module(x), other(x))
        torch.save(module.state_dict(), tmp_path / "state.pt")
        other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
        assert torch.equal(module(x), other(x))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda torch: np.ones((2, 3)), TypeError, "torch.Tensor; got ndarray"),
        (lambda torch: torch.ones(2, 3), TypeError, r"torch.float32.*x.to\(torch.float64\)"),
        (lambda torch: torch.ones(2, 4).double(), ValueError, r"\(…, 3\); got \(2, 4\)"),
        (lambda torch: torch.ones(2, 1).double(), ValueError, r"\(…, 3\); got \(2, 1\)"),
        (lambda torch: torch.tensor(1.0).double(), ValueError, r"\(…, 3\); got \(\)"),
    ],
)
def test_modules_reject_invalid_inputs(torch, layers, make, error, message):
    for module in (
        to_torch(classifier(normal_lmm(25, (3, 6, 4)))),
        layers.MaxPlus(np.ones((3, 2))),
    ):
        with pytest.raises(error, match=message):
            module(make(torch))
