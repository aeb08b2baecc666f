"""Exports compute what the classifier does: in ONNX Runtime, and in PyTorch with derivatives."""

import doctest
import importlib
import json
import os
import stat
import sys
from collections import Counter
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

import maxplus.export
from maxplus import LMMClassifier, MaxPlusClassifier, SubgradientLMMClassifier
from maxplus.algebra import maxplus as max_product
from maxplus.algebra import minplus as min_product
from maxplus.models import LMM
from maxplus.models.starts import prototype_lmm
from processes import run_fresh
from strategies import DTYPES, SEEDS, SIZES, SIZES_OR_ZERO, grid_array, quick

FLOATS = pytest.mark.parametrize("dtype", [np.float32, np.float64])
DATA = pytest.mark.parametrize("data", ["iris", "digits"])
PRODUCTS = pytest.mark.parametrize(
    ("name", "product"), [("MinPlus", min_product), ("MaxPlus", max_product)]
)
MNIST = 784, 500, 10


@pytest.fixture(scope="module")
def onnx():
    return pytest.importorskip("onnx", reason="onnx is not installed")


@pytest.fixture(scope="module")
def run(onnx):
    """Labels and probabilities that ONNX Runtime computes from a file."""
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

    def run(path, X):
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1
        session = runtime.InferenceSession(
            os.fspath(path), options, providers=["CPUExecutionProvider"]
        )
        return session.run(["label", "probabilities"], {"X": X})

    return run


@pytest.fixture(scope="module")
def torch():
    """PyTorch on one thread: its threads wait for each other where cores are busy."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield torch
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def layers(torch):
    import maxplus.export.torch as layers

    return layers


@pytest.fixture
def fitted(request, data, dtype):
    """A classifier trained for a moment, and its samples."""
    X, y = request.getfixturevalue(data).astype(dtype)
    return SubgradientLMMClassifier(n_hidden=30, engine="dense", max_iter=20, random_state=0).fit(
        X, y
    ), X


def classifier(lmm, classes=None):
    """A classifier with these weights, as if it had been trained."""
    clf = SubgradientLMMClassifier(n_jobs=1)
    clf.model_ = lmm
    clf.classes_ = np.arange(lmm.n_classes) if classes is None else np.asarray(classes)
    clf.n_features_in_ = lmm.n_features
    return clf


def random_lmm(draw, P, H, C):
    return LMM(draw((2 * P,)), draw((2 * P, H)), draw((H, C)))


def normal_lmm(seed, shape, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return random_lmm(lambda s: rng.normal(size=s).astype(dtype), *shape)


@st.composite
def networks(draw):
    """A network and samples on a grid, where many terms are equal."""
    P, H, C = (draw(SIZES) for _ in range(3))
    rng, dtype = np.random.default_rng(draw(SEEDS)), draw(DTYPES)
    X = grid_array(rng, (draw(SIZES_OR_ZERO), P), dtype)
    return random_lmm(lambda s: grid_array(rng, s, dtype), P, H, C), X


# -- both -------------------------------------------------------------------------------------


def test_importing_the_room_loads_neither_package():
    loaded = run_fresh("import json, sys, maxplus.export; print(json.dumps(sorted(sys.modules)))")
    assert "maxplus.export" in loaded
    assert not {"onnx", "torch", "maxplus.export.onnx", "maxplus.export.torch"} & set(loaded)


def test_the_room_names_what_it_offers():
    assert {"export_onnx", "to_torch"} <= set(dir(maxplus.export))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        maxplus.export.nonsense  # noqa: B018


@pytest.mark.parametrize(
    ("name", "package", "arguments"),
    [("export_onnx", "onnx", (None, "m.onnx")), ("to_torch", "torch", (None,))],
)
def test_without_the_package_the_error_says_what_to_install(monkeypatch, name, package, arguments):
    """When it is called: whoever only looks at the name needs nothing."""
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"maxplus.export.{package}", raising=False)
    with pytest.raises(ImportError, match=rf"pip install 'maxplus\[{package}\]'"):
        getattr(maxplus.export, name)(*arguments)


@pytest.mark.parametrize("package", ["onnx", "torch"])
def test_examples_in_docstrings(request, package):
    request.getfixturevalue(package)
    result = doctest.testmod(importlib.import_module(f"maxplus.export.{package}"))
    assert result.attempted > 5
    assert result.failed == 0


@pytest.fixture(params=["onnx", "torch"])
def export(request, tmp_path):
    """Either export as a function of the classifier alone."""
    request.getfixturevalue(request.param)
    if request.param == "torch":
        return maxplus.export.to_torch
    return lambda clf: maxplus.export.export_onnx(clf, tmp_path / "model.onnx")


def test_an_unfitted_classifier_is_refused(export, tmp_path):
    with pytest.raises(NotFittedError, match="not fitted"):
        export(LMMClassifier())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "other", [MaxPlusClassifier(), make_pipeline(LMMClassifier()), LMMClassifier, None]
)
def test_other_estimators_are_refused(export, other, tmp_path):
    with pytest.raises(TypeError, match=f"LMMClassifier; got {type(other).__name__}"):
        export(other)
    assert not list(tmp_path.iterdir())


# -- ONNX -------------------------------------------------------------------------------------


def assert_same_answers(run, clf, X, path):
    """ONNX Runtime's labels are the classifier's, its probabilities to a few roundings."""
    maxplus.export.export_onnx(clf, path)
    label, probabilities = run(path, X)
    assert_array_equal(label, clf.predict(X))
    tolerance = 4 * np.finfo(X.dtype).eps
    assert_allclose(probabilities, clf.predict_proba(X), rtol=0, atol=tolerance, strict=True)


@DATA
@FLOATS
def test_onnx_runtime_predicts_the_same(run, fitted, tmp_path):
    assert_same_answers(run, *fitted, tmp_path / "model.onnx")


@pytest.mark.slow
@FLOATS
def test_onnx_at_the_size_of_mnist(run, dtype, tmp_path):
    clf = classifier(normal_lmm(0, MNIST, dtype))
    X = np.random.default_rng(1).random((20, MNIST[0])).astype(dtype)
    assert_same_answers(run, clf, X, tmp_path / "model.onnx")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("onnx")


@quick(40)
@given(network=networks(), tile=st.sampled_from([1, 7, 40, 8192]))
def test_onnx_with_ties_and_tiles(run, scratch, network, tile):
    lmm, X = network
    path = scratch / "model.onnx"
    with mock.patch("maxplus.export.onnx.TILE_SUMS", tile):
        if len(X):
            assert_same_answers(run, classifier(lmm), X, path)
        else:
            maxplus.export.export_onnx(classifier(lmm), path)
            label, probabilities = run(path, X)
            assert label.shape == (0,)
            assert probabilities.shape == (0, lmm.n_classes)


def test_equal_scores_go_to_the_first_label(run, tmp_path):
    """Of 40 classes every score occurs four times; vectorised searches could find any."""
    W2 = np.tile(np.arange(10.0), 4)[np.newaxis]
    clf = classifier(LMM(np.ones(2), np.zeros((2, 1)), W2))
    X = np.linspace(-1, 1, 9)[:, np.newaxis]
    for dtype in (np.float32, np.float64):
        clf.model_ = LMM(*(W.astype(dtype) for W in (clf.W0_, clf.W1_, clf.W2_)))
        maxplus.export.export_onnx(clf, tmp_path / "model.onnx")
        label, _ = run(tmp_path / "model.onnx", X.astype(dtype))
        assert set(label) == {9}


@pytest.mark.parametrize("n", [1, 2, 1000])
def test_one_file_takes_any_number_of_samples(run, n, tmp_path):
    clf = classifier(normal_lmm(2, (5, 9, 3)))
    X = np.random.default_rng(3).normal(size=(n, 5))
    assert_same_answers(run, clf, X, tmp_path / "model.onnx")


@FLOATS
def test_onnx_takes_huge_numbers_as_the_classifier_does(run, dtype, tmp_path):
    clf = classifier(normal_lmm(4, (3, 8, 4), dtype))
    clf.model_.W0[:] = [3, -3, 3, -3, 3, -3]
    largest = np.finfo(dtype).max
    X = np.array([[largest, 1, 2], [-largest, 0, 1], [1, largest / 2, -largest]], dtype)
    assert np.isfinite(clf.predict_proba(X)).all()
    assert_same_answers(run, clf, X, tmp_path / "model.onnx")


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        ([0, 1, 2], np.array([0, 1, 2])),
        ([-7, -1, 12], np.array([-7, -1, 12])),
        ([-(2**63), 0, 2**63 - 1], np.array([-(2**63), 0, 2**63 - 1])),
        (np.array([3, 5, 250], np.uint8), np.array([3, 5, 250])),
        ([False, True], np.array([0, 1])),
        ([-1.0, 0.0, 2.0], np.array([-1, 0, 2])),
        (["cat", "dog", "Übung 犬"], np.array(["cat", "dog", "Übung 犬"], object)),
        (np.array(["", "a", "b c"], object), np.array(["", "a", "b c"], object)),
        (["1", "10", "2"], np.array(["1", "10", "2"], object)),
    ],
)
def test_labels_come_back_in_their_kind(run, classes, expected, tmp_path):
    points, codes = np.arange(len(classes))[:, np.newaxis] * 1.0, np.arange(len(classes))
    clf = classifier(prototype_lmm(points, codes, codes.size, 1.0, 1.0), classes)
    maxplus.export.export_onnx(clf, tmp_path / "model.onnx")
    label, _ = run(tmp_path / "model.onnx", points)
    assert_array_equal(label, expected, strict=True)
    assert_array_equal(label, clf.predict(points))


def test_labels_of_a_training_come_back(run, iris, tmp_path):
    X = iris.X
    for y in (iris.y - 2, np.array(["setosa", "versicolor", "virginica"])[iris.y], iris.y > 0):
        clf = SubgradientLMMClassifier(n_hidden=9, engine="dense", max_iter=5, random_state=0).fit(
            X, y
        )
        assert_same_answers(run, clf, X, tmp_path / "model.onnx")


@pytest.mark.parametrize(
    ("classes", "value"),
    [
        ([0.0, 0.5], "0.5"),
        (np.array([0, 2**63], np.uint64), "9223372036854775808"),
        ([0.0, 1e30], "1e\\+30"),
        ([0.0, np.inf], "inf"),
        (np.array([b"a", b"b"]), "b'a'"),
        (np.array(["a", 1], object), "'a'"),
        (np.array(["2024-01-01", "2025-01-01"], "datetime64[D]"), "datetime.date"),
    ],
)
def test_labels_that_onnx_does_not_have_are_refused(onnx, classes, value, tmp_path):
    clf = classifier(normal_lmm(7, (2, 3, 2)), classes)
    with pytest.raises(TypeError, match=f"class label {value}.*LabelEncoder"):
        maxplus.export.export_onnx(clf, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


@FLOATS
def test_onnx_files_are_standard_and_need_little_memory(onnx, dtype, tmp_path):
    """No array is larger than 64 kB per sample at MNIST's size; W1 alone has 3 MB."""
    maxplus.export.export_onnx(classifier(normal_lmm(8, MNIST, dtype)), tmp_path / "model.onnx")
    model = onnx.load(tmp_path / "model.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 18)]
    assert model.ir_version == 8
    operators = Counter(node.op_type for node in model.graph.node)
    assert set(operators) == {
        "Clip", "Unsqueeze", "Mul", "Reshape", "Add", "ReduceMin", "ReduceMax", "Concat",
        "Softmax", "ArgMax", "Gather",
    }  # fmt: skip
    assert sum(operators.values()) < 300
    graph = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph
    inner = {info.name: info.type.tensor_type for info in graph.value_info}
    sizes = {}
    for name, tensor in inner.items():
        first, *others = tensor.shape.dim
        assert first.dim_param == "N", name
        sizes[name] = np.dtype(dtype).itemsize * np.prod([dim.dim_value for dim in others])
    assert {"lambda", "g", "z"} <= set(sizes)
    assert sizes["g"] == MNIST[1] * np.dtype(dtype).itemsize
    assert max(sizes.values()) <= 1 << 16
    assert len({node.name for node in model.graph.node}) == len(model.graph.node)


@pytest.mark.parametrize(("tile", "minima", "maxima"), [(3, 5, 3), (10, 5, 2), (24, 2, 1)])
def test_tiles_are_as_wide_as_fits(onnx, tile, minima, maxima, tmp_path):
    """Five units of 8 sums, three classes of 5; a tile has one column at least."""
    with mock.patch("maxplus.export.onnx.TILE_SUMS", tile):
        maxplus.export.export_onnx(classifier(normal_lmm(26, (4, 5, 3))), tmp_path / "model.onnx")
    nodes = onnx.load(tmp_path / "model.onnx").graph.node
    operators = Counter(node.op_type for node in nodes)
    assert (operators["ReduceMin"], operators["ReduceMax"]) == (minima, maxima)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc to read memory from")
def test_a_thousand_samples_of_mnist_need_little_memory(run, tmp_path):
    maxplus.export.export_onnx(classifier(normal_lmm(9, MNIST, np.float32)), tmp_path / "m.onnx")
    np.save(tmp_path / "X.npy", np.random.default_rng(0).random((1000, 784), np.float32))
    code = (
        "import json, re, sys\n"
        "import numpy as np, onnxruntime as ort\n"
        "def peak():\n"
        "    status = open('/proc/self/status').read()\n"
        "    return 1024 * int(re.search(r'VmHWM:\\s+(\\d+)', status)[1])\n"
        "X, session = np.load(sys.argv[1]), ort.InferenceSession(sys.argv[2])\n"
        "session.run(None, {'X': X[:1]})\n"
        "before = peak()\n"
        "session.run(None, {'X': X})\n"
        "print(json.dumps(peak() - before))"
    )
    more = run_fresh(code, tmp_path / "X.npy", tmp_path / "m.onnx")
    assert 10e6 < more < 150e6


def test_onnx_metadata(onnx, iris, tmp_path):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    names = ["sepal length", "sepal “width”", "petal länge", "petal, width"]
    clf = SubgradientLMMClassifier(n_hidden=9, engine="dense", max_iter=2)
    table = pandas.DataFrame(iris.X, columns=names)
    for X, expected in ((table, {"feature_names": names}), (iris.X, {})):
        maxplus.export.export_onnx(clf.fit(X, iris.y), tmp_path / "model.onnx")
        model = onnx.load(tmp_path / "model.onnx")
        assert (model.producer_name, model.producer_version) == ("maxplus", maxplus.__version__)
        assert "9 hidden units" in model.doc_string
        properties = {entry.key: json.loads(entry.value) for entry in model.metadata_props}
        assert properties == expected


def test_onnx_inputs_and_outputs_are_named_and_typed(onnx, tmp_path):
    for dtype, kind in ((np.float32, "FLOAT"), (np.float64, "DOUBLE")):
        clf = classifier(normal_lmm(10, (6, 4, 3), dtype), ["a", "b", "c"])
        maxplus.export.export_onnx(clf, str(tmp_path / "model.onnx"))
        graph = onnx.load(tmp_path / "model.onnx").graph
        seen = [
            (
                info.name,
                onnx.TensorProto.DataType.Name(info.type.tensor_type.elem_type),
                [dim.dim_param or dim.dim_value for dim in info.type.tensor_type.shape.dim],
            )
            for info in [*graph.input, *graph.output]
        ]
        assert seen == [
            ("X", kind, ["N", 6]),
            ("label", "STRING", ["N"]),
            ("probabilities", kind, ["N", 3]),
        ]


def test_onnx_export_leaves_the_classifier_alone(onnx, tmp_path):
    clf = classifier(normal_lmm(11, (3, 4, 2)))
    before = {name: array.copy() for name, array in vars(clf.model_).items()}
    maxplus.export.export_onnx(clf, tmp_path / "model.onnx")
    for name, array in before.items():
        assert_array_equal(getattr(clf.model_, name), array)


def test_a_failed_write_leaves_the_old_file(onnx, monkeypatch, tmp_path):
    path = tmp_path / "model.onnx"
    clf = classifier(normal_lmm(12, (3, 4, 2)))
    path.write_bytes(b"old")

    def fail(*_):
        raise OSError("disk full")

    with monkeypatch.context() as broken:
        broken.setattr(os, "replace", fail)
        with pytest.raises(OSError, match="disk full"):
            maxplus.export.export_onnx(clf, path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    maxplus.export.export_onnx(clf, path)
    onnx.checker.check_model(os.fspath(path))
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX")
def test_a_file_has_the_mode_of_any_new_file(onnx, tmp_path):
    maxplus.export.export_onnx(classifier(normal_lmm(13, (3, 4, 2))), tmp_path / "model.onnx")
    (tmp_path / "other").touch()
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert len(modes) == 1


def test_a_missing_folder_is_named(onnx, tmp_path):
    clf = classifier(normal_lmm(14, (3, 4, 2)))
    with pytest.raises(FileNotFoundError, match=r"no folder '.*nowhere'; create it first"):
        maxplus.export.export_onnx(clf, tmp_path / "nowhere" / "model.onnx")


def test_a_model_too_large_for_the_format_is_refused(onnx, tmp_path):
    clf = classifier(normal_lmm(15, (3, 4, 2)))
    clf.model_.W1 = np.broadcast_to(np.float64(0), (2**14, 2**14))
    with pytest.raises(ValueError, match=r"clf has 2,147,\d+,\d+ bytes .* fewer hidden units"):
        maxplus.export.export_onnx(clf, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


# -- PyTorch ----------------------------------------------------------------------------------


def numbers(tensor):
    return tensor.detach().numpy()


@PRODUCTS
@quick(40)
@given(sizes=st.tuples(SIZES_OR_ZERO, SIZES, SIZES), seed=SEEDS, dtype=DTYPES,
       block=st.sampled_from([1, 10, 100, 1 << 22]))  # fmt: skip
def test_layers_are_the_algebra_and_derivatives_go_to_the_first_winner(
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
def test_derivatives_of_layers_are_difference_quotients(torch, layers, name, product):
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
def test_layers_keep_leading_dimensions(torch, layers, name, product):
    rng = np.random.default_rng(17)
    layer, X = getattr(layers, name)(rng.normal(size=(5, 4))), rng.normal(size=(2, 3, 5))
    expected = product(X.reshape(6, 5), numbers(layer.weight)).reshape(2, 3, 4)
    assert_array_equal(numbers(layer(torch.tensor(X))), expected)
    assert_array_equal(numbers(layer(torch.tensor(X[1, 2]))), expected[1, 2])
    assert layer(torch.zeros(2, 0, 5, dtype=torch.float64)).shape == (2, 0, 4)


@PRODUCTS
def test_layers_form_no_large_array(torch, layers, name, product):
    from torch.utils._python_dispatch import TorchDispatchMode

    sizes = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), named=None):
            result = function(*arguments, **(named or {}))
            parts = result if isinstance(result, tuple | list) else [result]
            # What they take: a broadcast view has many elements and little memory.
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
    assert_array_equal(numbers(kind(30, 20).weight), numbers(layer.weight))
    reach = np.sqrt(6 / 50)
    W = numbers(layer.weight)
    assert W.shape == (30, 20)
    assert not np.array_equal(W, numbers(other.weight))
    assert reach * 0.9 < W.max() <= reach
    assert -reach <= W.min() < -reach * 0.9
    assert repr(layer) == f"{name}(in_features=30, out_features=20)"


def test_layers_have_weights_of_their_own(torch, layers):
    for weight in (np.ones((2, 3)), torch.ones(2, 3), torch.nn.Parameter(torch.ones(2, 3))):
        layer = layers.MinPlus(weight)
        with torch.no_grad():
            layer.weight.add_(1)
        assert weight.sum() == 6
    assert layers.MaxPlus([[1.0, 2.0]]).weight.tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize(
    "arguments", [(5,), ([1.0, 2.0],), ([[1, 2], [3, 4]],), (np.ones((0, 3)),), (3, 0), (0, 3)]
)
def test_weights_that_are_no_matrix_are_refused(layers, arguments):
    with pytest.raises(ValueError, match=r"weight must be a matrix of floats.*got shape \(.*\)"):
        layers.MinPlus(*arguments)


def test_layers_train_among_others(torch, layers):
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
def test_the_module_has_the_classifiers_scores(torch, fitted):
    clf, X = fitted
    network = maxplus.export.to_torch(clf)
    x = torch.tensor(X)
    assert_array_equal(numbers(network(x)), clf.model_.scores(X), strict=True)
    assert_array_equal(numbers(network(x[7])), clf.model_.scores(X[7:8])[0], strict=True)
    assert_allclose(numbers(network.probabilities(x)), clf.predict_proba(X), atol=1e-6, strict=True)


@quick(40)
@given(network=networks())
def test_the_module_has_the_scores_bit_by_bit(torch, network):
    lmm, X = network
    z = maxplus.export.to_torch(classifier(lmm))(torch.tensor(X))
    assert_array_equal(numbers(z), lmm.scores(X), strict=True)


@FLOATS
def test_the_module_at_the_size_of_mnist(torch, dtype):
    lmm = normal_lmm(18, MNIST, dtype)
    X = np.random.default_rng(19).random((10, MNIST[0])).astype(dtype)
    z = maxplus.export.to_torch(classifier(lmm))(torch.tensor(X))
    assert_array_equal(numbers(z), lmm.scores(X), strict=True)


@quick(40)
@given(network=networks(), seed=SEEDS)
def test_derivatives_are_the_librarys_subgradient(torch, network, seed):
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


def test_derivatives_are_difference_quotients(torch):
    module = maxplus.export.to_torch(classifier(normal_lmm(20, (3, 6, 4))))
    names = [name for name, _ in module.named_parameters()]
    assert names == ["W0", "minplus.weight", "maxplus.weight"]
    x = torch.tensor(np.random.default_rng(21).normal(size=(5, 3)), requires_grad=True)

    def probabilities(x, *values):
        named = dict(zip(names, values, strict=True))
        return torch.func.functional_call(module, named, x).log_softmax(-1)

    values = [p.detach().requires_grad_() for p in module.parameters()]
    assert torch.autograd.gradcheck(probabilities, (x, *values))


def test_training_the_module_leaves_the_classifier_alone(torch, iris):
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


def test_the_modules_state_can_be_saved(torch, tmp_path):
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
def test_inputs_that_do_not_fit_are_refused(torch, layers, make, error, message):
    module = maxplus.export.to_torch(classifier(normal_lmm(25, (3, 6, 4))))
    for network in (module, layers.MaxPlus(np.ones((3, 2)))):
        with pytest.raises(error, match=message):
            network(make(torch))


# -- linear directions ------------------------------------------------------------------------


def seen_lmm(seed, shape, n_features, dtype):
    """A network of sums of features."""
    lmm = normal_lmm(seed, shape, dtype)
    D = np.random.default_rng(seed + 1).normal(size=(shape[0], n_features))
    return LMM(lmm.W0, lmm.W1, lmm.W2, D)


@FLOATS
def test_onnx_with_directions(run, dtype, tmp_path):
    lmm = seen_lmm(0, (9, 20, 4), 6, dtype)
    X = np.random.default_rng(2).normal(size=(200, 6)).astype(dtype)
    maxplus.export.export_onnx(classifier(lmm), tmp_path / "model.onnx")
    label, probabilities = run(tmp_path / "model.onnx", X)
    tolerance = 100 * np.finfo(dtype).eps
    assert_allclose(probabilities, lmm.probabilities(X), rtol=0, atol=tolerance, strict=True)
    assert_array_equal(label, lmm.scores(X).argmax(axis=1))


def test_onnx_of_a_classifier_with_directions(run, seer, iris, tmp_path):
    maxplus.export.export_onnx(seer, tmp_path / "model.onnx")
    label, probabilities = run(tmp_path / "model.onnx", iris.X)
    assert_array_equal(label, seer.predict(iris.X))
    assert_allclose(probabilities, seer.predict_proba(iris.X), atol=1e-12)
    # Numbers that would overflow are moved closer, as the classifier does.
    huge = np.full((1, 4), np.finfo(float).max)
    label, probabilities = run(tmp_path / "model.onnx", huge)
    assert_array_equal(label, seer.predict(huge))
    assert np.isfinite(probabilities).all()


@FLOATS
def test_the_module_with_directions(torch, dtype):
    lmm = seen_lmm(3, (9, 20, 4), 6, dtype)
    X = np.random.default_rng(4).normal(size=(50, 6)).astype(dtype)
    network = maxplus.export.to_torch(classifier(lmm))
    tolerance = 100 * np.finfo(dtype).eps
    assert_allclose(numbers(network(torch.tensor(X))), lmm.scores(X), atol=tolerance, strict=True)
    assert_array_equal(numbers(network.views.weight), lmm.directions, strict=True)
    assert network.views.bias is None
    with pytest.raises(ValueError, match="6"):
        network(torch.tensor(X[:, :5]))
    network(torch.tensor(X)).sum().backward()
    assert network.views.weight.grad.abs().sum() > 0
    plain = maxplus.export.to_torch(classifier(normal_lmm(3, (9, 20, 4), dtype)))
    assert set(plain.state_dict()) == {"W0", "minplus.weight", "maxplus.weight"}
