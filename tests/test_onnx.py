"""Exported ONNX files: predictions, labels, and the operators and sizes of graphs."""

import json
from collections import Counter
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import sums
from commands import good
from exports import DATA, FLOATS, MNIST, briefly_trained, classifier, networks, normal_lmm
from maxplus import LipschitzInterpolator, LMMRegressor, SubgradientLMMClassifier, __version__
from maxplus.export import export_onnx
from maxplus.models import LMM, AdditiveLMM, FeatureMap, Term
from maxplus.models.initialization import prototype_lmm
from strategies import SEEDS, grid_array, quick

TILES = "maxplus.export.onnx.TILE_SUMS"


@pytest.fixture(scope="module")
def path(onnx, tmp_path_factory):
    return tmp_path_factory.mktemp("onnx") / "model.onnx"


@pytest.fixture(scope="module")
def run(path):
    """Return a function that exports an estimator and runs the file with ONNX Runtime."""
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

    def run(estimator, X):
        export_onnx(estimator, path)
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1
        session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        outputs = session.run(None, {"X": X})
        return outputs if len(outputs) > 1 else outputs[0]

    return run


def assert_same_predictions(run, clf, X):
    """Check labels, unless two scores are equal up to rounding, and probabilities."""
    model = clf.model_
    label, probabilities = run(clf, X)
    tolerance = 4 * np.finfo(X.dtype).eps
    is_clear = np.ones(len(X), bool)
    if model.is_sum:
        tolerance *= np.abs(model.term_scores(X)).sum(axis=0).max(initial=1.0)
        best = np.sort(model.scores(X), axis=1)
        is_clear = best[:, -1] - best[:, -2] > tolerance
        assert is_clear.mean() > 0.9
    assert_array_equal(label[is_clear], clf.predict(X)[is_clear])
    assert_allclose(probabilities, clf.predict_proba(X), rtol=0, atol=tolerance, strict=True)


# -- predictions -----------------------------------------------------------------


@DATA
@FLOATS
def test_predictions_of_trained_classifier(request, run, data, dtype):
    X, y = request.getfixturevalue(data).astype(dtype)
    assert_same_predictions(run, briefly_trained(X, y), X)


@FLOATS
def test_predictions_at_the_size_of_mnist(run, dtype):
    clf = classifier(normal_lmm(0, MNIST, dtype))
    X = np.random.default_rng(1).random((20, MNIST[0])).astype(dtype)
    assert_same_predictions(run, clf, X)


@quick(40)
@given(network=networks(), tile=st.sampled_from([1, 7, 40, 8192]))
def test_predictions_with_ties_and_tiles(run, network, tile):
    lmm, X = network
    with mock.patch(TILES, tile):
        if len(X):
            assert_same_predictions(run, classifier(lmm), X)
        else:
            label, probabilities = run(classifier(lmm), X)
            assert (label.shape, probabilities.shape) == ((0,), (0, lmm.n_classes))


@FLOATS
@pytest.mark.parametrize("tile", [1, 40, 8192])
def test_predictions_of_mapped_sum(run, dtype, tile):
    model, X = sums.mapped_sum(dtype=dtype)
    beyond = np.concatenate([X, 3 * X, -X, model.feature_map(X).astype(dtype)])
    with mock.patch(TILES, tile):
        assert_same_predictions(run, sums.classifier(model, X, ["a", "b", "c"]), beyond)


@quick(15)
@given(seed=SEEDS)
def test_labels_of_sums_are_exact_on_a_grid(run, seed):
    """Sums of grid values are not rounded, so that labels are equal in spite of ties."""
    X = grid_array(np.random.default_rng(seed), (40, 5), np.float64)
    model = sums.random_sum(seed)
    label, _ = run(sums.classifier(model, X), X)
    assert_array_equal(label, model.scores(X).argmax(axis=1))


@FLOATS
def test_sum_of_one_term_is_exported_as_its_network(run, dtype):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20, 4)).astype(dtype)
    model = AdditiveLMM([Term(np.arange(4), sums.random_lmm(rng, 4, 7, 3, dtype))], 4)
    assert_same_predictions(run, sums.classifier(model, X), X)


@FLOATS
@quick(25)
@given(seed=SEEDS, n_knots=st.integers(1, 9))
def test_feature_map_is_exact(run, dtype, seed, n_knots):
    """The difference of the two outputs of the model is the mapped feature itself."""
    rng = np.random.default_rng(seed)
    knots = []
    for size in (n_knots, int(rng.integers(1, 5))):
        x = np.unique(rng.normal(size=size) * 10.0 ** rng.integers(-6, 7))
        knots.append((x, np.sort(rng.normal(size=x.size))))
    # Units min(u, 1000) and min(u + 1000, 0); the first decides output 1, the second output 0.
    W0, W1, W2 = [1, 0], [[0, 1000], [1000, 0]], [[-1e6, 0], [0, -1e6]]
    line = LMM(*(np.array(W, dtype) for W in (W0, W1, W2)))
    model = AdditiveLMM([Term([0], line)], 2, FeatureMap(knots))
    reg = LMMRegressor()
    reg.__dict__ |= {"model_": model, "bounds_": np.array([-1e9, 1e9]), "n_features_in_": 2}
    reach = 1.0 + np.abs(knots[0][0]).max()
    points = np.concatenate([knots[0][0], rng.uniform(-2 * reach, 2 * reach, 50)]).astype(dtype)
    X = np.column_stack([points, points])
    assert_array_equal(run(reg, X), model.mapped(X)[:, 0], strict=True)


def test_equal_scores_give_the_first_label(run):
    """Each score occurs four times among 40 classes: vectorised searches could find any."""
    W2 = np.tile(np.arange(10.0), 4)[np.newaxis]
    X = np.linspace(-1, 1, 9)[:, np.newaxis]
    for dtype in (np.float32, np.float64):
        lmm = LMM(*(W.astype(dtype) for W in (np.ones(2), np.zeros((2, 1)), W2)))
        label, _ = run(classifier(lmm), X.astype(dtype))
        assert set(label) == {9}


@FLOATS
@pytest.mark.parametrize("kind", ["network", "sum", "mapped sum"])
def test_predictions_of_huge_inputs_and_of_no_rows(run, dtype, kind):
    if kind == "network":
        lmm = normal_lmm(4, (5, 8, 3), dtype)
        lmm.W0[:] = [3, -3] * 5
        clf = classifier(lmm)
    else:
        mapped, X = sums.mapped_sum(dtype=dtype)
        clf = sums.classifier(mapped if kind == "mapped sum" else sums.random_sum(dtype=dtype), X)
    largest = np.finfo(dtype).max
    far = np.array([[largest] * 5, [-largest] * 5, [largest, 1, 2, 0, -largest / 2]], dtype)
    label, probabilities = run(clf, far)
    assert np.isfinite(probabilities).all()
    limit = clf.model_.largest_input
    moved = np.clip(far, -limit, limit).astype(dtype)
    assert_array_equal(label, clf.model_.scores(moved).argmax(axis=1))
    label, probabilities = run(clf, far[:0])
    assert (label.shape, probabilities.shape) == ((0,), (0, 3))


@FLOATS
def test_regression_is_clipped_to_its_bounds(onnx, run, path, dtype):
    model, X = sums.mapped_sum(n_classes=2, dtype=dtype)
    reg = sums.regressor(model, X)
    reg.feature_names_in_ = np.array(list("abcde"), object)
    value = run(reg, X)
    expected = sums.regression_values(reg, X)
    assert_allclose(value, expected, atol=100 * np.finfo(dtype).eps, strict=True)
    assert set(reg.bounds_.astype(dtype)) <= set(value)
    saved = onnx.load(path)
    assert [output.name for output in saved.graph.output] == ["value"]
    assert saved.metadata_props[0].value == '["a", "b", "c", "d", "e"]'
    assert "Sum of 10 Linear-Min-Max terms" in saved.doc_string


def test_predictions_of_interpolation(run):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(40, 3))
    reg = LipschitzInterpolator().fit(X, np.sin(X).sum(axis=1))
    rows = rng.normal(size=(50, 3))
    assert_array_equal(run(reg, rows), reg.predict(rows), strict=True)


# -- labels ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        ([0, 1, 2], np.array([0, 1, 2])),
        ([-(2**63), 0, 2**63 - 1], np.array([-(2**63), 0, 2**63 - 1])),
        (np.array([3, 5, 250], np.uint8), np.array([3, 5, 250])),
        ([False, True], np.array([0, 1])),
        ([-1.0, 0.0, 2.0], np.array([-1, 0, 2])),
        (["cat", "dog", "Übung 犬"], np.array(["cat", "dog", "Übung 犬"], object)),
        (np.array(["", "a", "b c"], object), np.array(["", "a", "b c"], object)),
        (["1", "10", "2"], np.array(["1", "10", "2"], object)),
    ],
)
def test_labels_keep_their_type(run, classes, expected):
    points, codes = np.arange(len(classes))[:, np.newaxis] * 1.0, np.arange(len(classes))
    clf = classifier(prototype_lmm(points, codes, codes.size, 1.0, 1.0), classes)
    label, _ = run(clf, points)
    assert_array_equal(label, expected, strict=True)
    assert_array_equal(label, clf.predict(points))


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
def test_unsupported_labels_are_rejected(onnx, classes, value, tmp_path):
    clf = classifier(normal_lmm(7, (2, 3, 2)), classes)
    with pytest.raises(TypeError, match=f"class label {value}.*LabelEncoder"):
        export_onnx(clf, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


# -- graphs ----------------------------------------------------------------------


@FLOATS
def test_graph_is_standard_and_needs_little_memory(onnx, path, dtype):
    """No array is larger than 64 kB per sample for MNIST, where W1 has 3 MB."""
    export_onnx(classifier(normal_lmm(8, MNIST, dtype), [f"c{d}" for d in range(10)]), path)
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 18)]
    assert model.ir_version == 8
    assert len(model.graph.node) < 300
    assert len({node.name for node in model.graph.node}) == len(model.graph.node)
    number = "FLOAT" if dtype == np.float32 else "DOUBLE"
    seen = [
        (
            info.name,
            onnx.TensorProto.DataType.Name(info.type.tensor_type.elem_type),
            [dim.dim_param or dim.dim_value for dim in info.type.tensor_type.shape.dim],
        )
        for info in [*model.graph.input, *model.graph.output]
    ]
    assert seen == [
        ("X", number, ["N", 784]),
        ("label", "STRING", ["N"]),
        ("probabilities", number, ["N", 10]),
    ]
    graph = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph
    sizes = {}
    for info in graph.value_info:
        first, *others = info.type.tensor_type.shape.dim
        assert first.dim_param == "N", info.name
        sizes[info.name] = np.dtype(dtype).itemsize * np.prod([dim.dim_value for dim in others])
    assert {"lambda", "g", "z"} <= set(sizes)
    assert sizes["g"] == MNIST[1] * np.dtype(dtype).itemsize
    assert max(sizes.values()) <= 1 << 16


@pytest.mark.parametrize(("tile", "minima", "maxima"), [(3, 5, 3), (10, 5, 2), (24, 2, 1)])
def test_tiles_are_as_wide_as_memory_allows(onnx, path, tile, minima, maxima):
    """Five units of 8 sums, three classes of 5; a tile has at least one column."""
    with mock.patch(TILES, tile):
        export_onnx(classifier(normal_lmm(26, (4, 5, 3))), path)
    operators = Counter(node.op_type for node in onnx.load(path).graph.node)
    assert (operators["ReduceMin"], operators["ReduceMax"]) == (minima, maxima)


def test_graph_of_large_sum_has_few_nodes(onnx, run, path):
    """The terms are shape functions, pairs and boxes, as for a table of 16 columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 16))
    shapes = [([p], 6) for p in range(16)]
    pairs = [([p, (p + 1) % 16], 6) for p in range(16)]
    boxes = [(range(16), 30)] * 8
    terms = [
        Term(np.sort(np.array(features)), sums.random_lmm(rng, len(features), H, 3))
        for features, H in [*shapes, *pairs, *boxes]
    ]
    model = AdditiveLMM.mean([AdditiveLMM(terms, 16, FeatureMap.fit(X))] * 4)
    assert len(model.terms) == 160
    assert_same_predictions(run, sums.classifier(model, X), X)
    nodes = onnx.load(path).graph.node
    assert len(nodes) < 120
    assert Counter(node.op_type for node in nodes)["ReduceMin"] < 10
    assert len({node.name for node in nodes}) == len(nodes)


# -- files -----------------------------------------------------------------------


def test_metadata(onnx, iris, path):
    names = ["sepal length", "sepal “width”", "petal länge", "petal, width"]
    clf = SubgradientLMMClassifier(n_hidden=9, engine="dense", max_iter=2)
    table = pd.DataFrame(iris.X, columns=names)
    for X, expected in ((table, {"feature_names": names}), (iris.X, {})):
        export_onnx(clf.fit(X, iris.y), str(path))
        model = onnx.load(path)
        assert (model.producer_name, model.producer_version) == ("maxplus", __version__)
        assert "9 hidden units" in model.doc_string
        properties = {entry.key: json.loads(entry.value) for entry in model.metadata_props}
        assert properties == expected


def test_export_command_takes_a_regression(run, path, tmp_path):
    model, X = sums.mapped_sum(n_classes=2)
    reg = sums.regressor(model, X)
    reg.save(tmp_path / "m.maxplus")
    good("export", tmp_path / "m.maxplus", tmp_path / "m.onnx")
    export_onnx(reg, path)
    assert (tmp_path / "m.onnx").read_bytes() == path.read_bytes()


def test_export_leaves_classifier_unchanged(onnx, path):
    clf = classifier(normal_lmm(11, (3, 4, 2)))
    before = {name: array.copy() for name, array in vars(clf.model_).items()}
    export_onnx(clf, path)
    for name, array in before.items():
        assert_array_equal(getattr(clf.model_, name), array)


def test_missing_folder_is_reported(onnx, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no folder '.*nowhere'; create it first"):
        export_onnx(classifier(normal_lmm(12, (3, 4, 2))), tmp_path / "nowhere" / "model.onnx")


def test_too_large_model_is_rejected(onnx, tmp_path):
    clf = classifier(normal_lmm(15, (3, 4, 2)))
    clf.model_.W1 = np.broadcast_to(np.float64(0), (2**14, 2**14))
    with pytest.raises(ValueError, match=r"clf has 2,147,\d+,\d+ bytes .* fewer hidden units"):
        export_onnx(clf, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())
