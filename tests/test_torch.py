"""PyTorch computes what the classifier does, with derivatives."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import maxplus.export
from exports import DATA, FLOATS, MNIST, briefly_trained, classifier, networks, normal_lmm
from maxplus import SubgradientLMMClassifier
from maxplus.algebra import maxplus as max_product
from maxplus.algebra import minplus as min_product
from strategies import DTYPES, SEEDS, SIZES, SIZES_OR_ZERO, grid_array, quick

PRODUCTS = pytest.mark.parametrize(
    ("name", "product"), [("MinPlus", min_product), ("MaxPlus", max_product)]
)


@pytest.fixture(scope="module")
def layers(torch):
    import maxplus.export.torch as layers

    return layers


def numbers(tensor):
    return tensor.detach().numpy()


@PRODUCTS
@quick(40)
@given(
    sizes=st.tuples(SIZES_OR_ZERO, SIZES, SIZES),
    seed=SEEDS,
    dtype=DTYPES,
    block=st.sampled_from([1, 10, 100, 1 << 22]),
)
def test_torch_layers_equal_the_algebra_and_gradients_go_to_the_first_winner(
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
    assert_array_equal(numbers(y), values, strict=True)

    y.backward(torch.tensor(weights))
    by_x, by_weight = np.zeros_like(A), np.zeros_like(B)
    rows, columns = np.indices((n, n_out))
    np.add.at(by_x, (rows, winners), weights)
    np.add.at(by_weight, (winners, columns), weights)
    assert_array_equal(x.grad.numpy(), by_x, strict=True)
    assert_array_equal(layer.weight.grad.numpy(), by_weight, strict=True)


@PRODUCTS
def test_torch_layer_gradients_match_difference_quotients(torch, layers, name, product):
    rng = np.random.default_rng(16)
    layer = getattr(layers, name)(rng.normal(size=(5, 4)))
    x = torch.tensor(rng.normal(size=(6, 5)), requires_grad=True)

    def output(x, weight):
        return torch.func.functional_call(layer, {"weight": weight}, x)

    inputs = x, layer.weight.detach().requires_grad_()
    assert torch.autograd.gradcheck(output, inputs)
    # Of a linear piece the second derivative is zero, but there must be one to ask for.
    assert torch.autograd.gradgradcheck(lambda *both: output(*both).square(), inputs)


@PRODUCTS
def test_torch_layers_keep_leading_dimensions(torch, layers, name, product):
    rng = np.random.default_rng(17)
    layer, X = getattr(layers, name)(rng.normal(size=(5, 4))), rng.normal(size=(2, 3, 5))
    expected = product(X.reshape(6, 5), numbers(layer.weight)).reshape(2, 3, 4)
    assert_array_equal(numbers(layer(torch.tensor(X))), expected)
    assert_array_equal(numbers(layer(torch.tensor(X[1, 2]))), expected[1, 2])
    assert layer(torch.zeros(2, 0, 5, dtype=torch.float64)).shape == (2, 0, 4)


@PRODUCTS
def test_torch_layers_allocate_no_large_array(torch, layers, name, product):
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
def test_torch_layers_with_random_weights(torch, layers, name, product):
    kind = getattr(layers, name)
    torch.manual_seed(0)
    layer, other = kind(30, 20), kind(in_features=30, out_features=20)
    torch.manual_seed(0)
    assert_array_equal(numbers(kind(30, 20).weight), numbers(layer.weight))
    reach = np.sqrt(6 / 50)
    W = numbers(layer.weight)
    assert W.shape == (30, 20)
    assert not np.array_equal(W, numbers(other.weight))
    assert reach * 0.9 < W.max() <= reach
    assert -reach <= W.min() < -reach * 0.9
    assert repr(layer) == f"{name}(in_features=30, out_features=20)"


def test_torch_layers_copy_their_weights(torch, layers):
    for weight in (np.ones((2, 3)), torch.ones(2, 3), torch.nn.Parameter(torch.ones(2, 3))):
        layer = layers.MinPlus(weight)
        with torch.no_grad():
            layer.weight.add_(1)
        assert weight.sum() == 6
    assert layers.MaxPlus([[1.0, 2.0]]).weight.tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize(
    "arguments", [(5,), ([1.0, 2.0],), ([[1, 2], [3, 4]],), (np.ones((0, 3)),), (3, 0), (0, 3)]
)
def test_torch_layers_reject_weights_that_are_no_matrix(layers, arguments):
    with pytest.raises(ValueError, match=r"weight must be a matrix of floats.*got shape \(.*\)"):
        layers.MinPlus(*arguments)


def test_torch_layers_train_in_a_network(torch, layers):
    torch.manual_seed(1)
    x = torch.rand(200, 2) * 2 - 1
    y = (x[:, 0] * x[:, 1] > 0).long()
    net = torch.nn.Sequential(
        torch.nn.Linear(2, 8), layers.MinPlus(8, 8), layers.MaxPlus(8, 8), torch.nn.Linear(8, 2)
    )
    before = [parameter.detach().clone() for parameter in net.parameters()]
    optimiser = torch.optim.Adam(net.parameters(), lr=0.02)
    losses = []
    for _ in range(150):
        optimiser.zero_grad()
        losses.append(torch.nn.functional.cross_entropy(net(x), y))
        losses[-1].backward()
        optimiser.step()
    assert losses[0] > 0.6
    assert losses[-1] < 0.3
    for old, new in zip(before, net.parameters(), strict=True):
        assert not torch.equal(old, new)


@DATA
@FLOATS
def test_torch_module_has_the_scores_of_classifier(request, torch, data, dtype):
    X, y = request.getfixturevalue(data).astype(dtype)
    clf = briefly_trained(X, y)
    network = maxplus.export.to_torch(clf)
    x = torch.tensor(X)
    assert_array_equal(numbers(network(x)), clf.model_.scores(X), strict=True)
    assert_array_equal(numbers(network(x[7])), clf.model_.scores(X[7:8])[0], strict=True)
    assert_allclose(numbers(network.probabilities(x)), clf.predict_proba(X), atol=1e-6, strict=True)


@quick(40)
@given(network=networks())
def test_torch_module_scores_equal_bit_by_bit(torch, network):
    lmm, X = network
    z = maxplus.export.to_torch(classifier(lmm))(torch.tensor(X))
    assert_array_equal(numbers(z), lmm.scores(X), strict=True)


@FLOATS
def test_torch_module_at_the_size_of_mnist(torch, dtype):
    lmm = normal_lmm(18, MNIST, dtype)
    X = np.random.default_rng(19).random((10, MNIST[0])).astype(dtype)
    z = maxplus.export.to_torch(classifier(lmm))(torch.tensor(X))
    assert_array_equal(numbers(z), lmm.scores(X), strict=True)


@quick(40)
@given(network=networks(), seed=SEEDS)
def test_torch_gradient_equals_the_subgradient(torch, network, seed):
    """Ties included: both take the lowest indices."""
    lmm, X = network
    rng = np.random.default_rng(seed)
    module = maxplus.export.to_torch(classifier(lmm)).double()
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


def test_torch_gradient_matches_difference_quotients(torch):
    module = maxplus.export.to_torch(classifier(normal_lmm(20, (3, 6, 4))))
    names = [name for name, _ in module.named_parameters()]
    assert names == ["W0", "minplus.weight", "maxplus.weight"]
    x = torch.tensor(np.random.default_rng(21).normal(size=(5, 3)), requires_grad=True)

    def probabilities(x, *values):
        named = dict(zip(names, values, strict=True))
        return torch.func.functional_call(module, named, x).log_softmax(-1)

    values = [p.detach().requires_grad_() for p in module.parameters()]
    assert torch.autograd.gradcheck(probabilities, (x, *values))


def test_torch_training_leaves_classifier_unchanged(torch, iris):
    clf = SubgradientLMMClassifier(n_hidden=9, engine="dense", max_iter=3, random_state=0).fit(
        *iris
    )
    before = clf.model_.copy()
    module = maxplus.export.to_torch(clf)
    x, y = torch.tensor(iris.X), torch.tensor(iris.y)
    optimiser = torch.optim.SGD(module.parameters(), lr=0.05)
    losses = []
    for _ in range(30):
        optimiser.zero_grad()
        losses.append(torch.nn.functional.cross_entropy(module(x), y))
        losses[-1].backward()
        optimiser.step()
    assert losses[-1] < 0.9 * losses[0]
    for name in ("W0", "W1", "W2"):
        assert_array_equal(getattr(clf.model_, name), getattr(before, name))
    assert not np.array_equal(numbers(module.minplus.weight), clf.W1_)


def test_torch_module_state_can_be_saved(torch, tmp_path):
    module, other = (
        maxplus.export.to_torch(classifier(normal_lmm(seed, (3, 6, 4)))) for seed in (22, 23)
    )
    x = torch.tensor(np.random.default_rng(24).normal(size=(5, 3)))
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
def test_torch_module_rejects_invalid_inputs(torch, layers, make, error, message):
    module = maxplus.export.to_torch(classifier(normal_lmm(25, (3, 6, 4))))
    for network in (module, layers.MaxPlus(np.ones((3, 2)))):
        with pytest.raises(error, match=message):
            network(make(torch))
