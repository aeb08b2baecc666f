"""ONNX Runtime computes what the classifier does, from standard files."""

import json
import os
import stat
from collections import Counter
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import maxplus.export
from exports import DATA, FLOATS, MNIST, briefly_trained, classifier, networks, normal_lmm
from maxplus import SubgradientLMMClassifier
from maxplus.models import LMM
from maxplus.models.initialization import prototype_lmm
from processes import run_fresh
from strategies import quick


def assert_same_answers(run_onnx, clf, X, path):
    """ONNX Runtime's labels are the classifier's, its probabilities to a few roundings."""
    maxplus.export.export_onnx(clf, path)
    label, probabilities = run_onnx(path, X)
    assert_array_equal(label, clf.predict(X))
    tolerance = 4 * np.finfo(X.dtype).eps
    assert_allclose(probabilities, clf.predict_proba(X), rtol=0, atol=tolerance, strict=True)


@DATA
@FLOATS
def test_onnx_predictions_equal_classifier(request, run_onnx, data, dtype, tmp_path):
    X, y = request.getfixturevalue(data).astype(dtype)
    assert_same_answers(run_onnx, briefly_trained(X, y), X, tmp_path / "model.onnx")


@pytest.mark.slow
@FLOATS
def test_onnx_at_the_size_of_mnist(run_onnx, dtype, tmp_path):
    clf = classifier(normal_lmm(0, MNIST, dtype))
    X = np.random.default_rng(1).random((20, MNIST[0])).astype(dtype)
    assert_same_answers(run_onnx, clf, X, tmp_path / "model.onnx")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("onnx")


@quick(40)
@given(network=networks(), tile=st.sampled_from([1, 7, 40, 8192]))
def test_onnx_with_ties_and_tiles(run_onnx, scratch, network, tile):
    lmm, X = network
    path = scratch / "model.onnx"
    with mock.patch("maxplus.export.onnx.TILE_SUMS", tile):
        if len(X):
            assert_same_answers(run_onnx, classifier(lmm), X, path)
        else:
            maxplus.export.export_onnx(classifier(lmm), path)
            label, probabilities = run_onnx(path, X)
            assert label.shape == (0,)
            assert probabilities.shape == (0, lmm.n_classes)


def test_onnx_equal_scores_give_the_first_label(run_onnx, tmp_path):
    """Of 40 classes every score occurs four times; vectorised searches could find any."""
    W2 = np.tile(np.arange(10.0), 4)[np.newaxis]
    clf = classifier(LMM(np.ones(2), np.zeros((2, 1)), W2))
    X = np.linspace(-1, 1, 9)[:, np.newaxis]
    for dtype in (np.float32, np.float64):
        clf.model_ = LMM(*(W.astype(dtype) for W in (clf.W0_, clf.W1_, clf.W2_)))
        maxplus.export.export_onnx(clf, tmp_path / "model.onnx")
        label, _ = run_onnx(tmp_path / "model.onnx", X.astype(dtype))
        assert set(label) == {9}


@pytest.mark.parametrize("n", [1, 2, 1000])
def test_onnx_accepts_any_number_of_samples(run_onnx, n, tmp_path):
    clf = classifier(normal_lmm(2, (5, 9, 3)))
    X = np.random.default_rng(3).normal(size=(n, 5))
    assert_same_answers(run_onnx, clf, X, tmp_path / "model.onnx")


@FLOATS
def test_onnx_predictions_of_huge_numbers_equal_classifier(run_onnx, dtype, tmp_path):
    clf = classifier(normal_lmm(4, (3, 8, 4), dtype))
    clf.model_.W0[:] = [3, -3, 3, -3, 3, -3]
    largest = np.finfo(dtype).max
    X = np.array([[largest, 1, 2], [-largest, 0, 1], [1, largest / 2, -largest]], dtype)
    assert np.isfinite(clf.predict_proba(X)).all()
    assert_same_answers(run_onnx, clf, X, tmp_path / "model.onnx")


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
def test_onnx_labels_keep_their_type(run_onnx, classes, expected, tmp_path):
    points, codes = np.arange(len(classes))[:, np.newaxis] * 1.0, np.arange(len(classes))
    clf = classifier(prototype_lmm(points, codes, codes.size, 1.0, 1.0), classes)
    maxplus.export.export_onnx(clf, tmp_path / "model.onnx")
    label, _ = run_onnx(tmp_path / "model.onnx", points)
    assert_array_equal(label, expected, strict=True)
    assert_array_equal(label, clf.predict(points))


def test_onnx_labels_equal_training_labels(run_onnx, iris, tmp_path):
    X = iris.X
    for y in (iris.y - 2, np.array(["setosa", "versicolor", "virginica"])[iris.y], iris.y > 0):
        clf = SubgradientLMMClassifier(n_hidden=9, engine="dense", max_iter=5, random_state=0).fit(
            X, y
        )
        assert_same_answers(run_onnx, clf, X, tmp_path / "model.onnx")


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
def test_onnx_export_rejects_unsupported_labels(onnx, classes, value, tmp_path):
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
        "Clip",
        "Unsqueeze",
        "Mul",
        "Reshape",
        "Add",
        "ReduceMin",
        "ReduceMax",
        "Concat",
        "Softmax",
        "ArgMax",
        "Gather",
    }
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
def test_onnx_tiles_are_as_wide_as_memory_allows(onnx, tile, minima, maxima, tmp_path):
    """Five units of 8 sums, three classes of 5; a tile has one column at least."""
    with mock.patch("maxplus.export.onnx.TILE_SUMS", tile):
        maxplus.export.export_onnx(classifier(normal_lmm(26, (4, 5, 3))), tmp_path / "model.onnx")
    nodes = onnx.load(tmp_path / "model.onnx").graph.node
    operators = Counter(node.op_type for node in nodes)
    assert (operators["ReduceMin"], operators["ReduceMax"]) == (minima, maxima)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc to read memory from")
def test_onnx_of_a_thousand_mnist_samples_needs_little_memory(run_onnx, tmp_path):
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


def test_onnx_export_leaves_classifier_unchanged(onnx, tmp_path):
    clf = classifier(normal_lmm(11, (3, 4, 2)))
    before = {name: array.copy() for name, array in vars(clf.model_).items()}
    maxplus.export.export_onnx(clf, tmp_path / "model.onnx")
    for name, array in before.items():
        assert_array_equal(getattr(clf.model_, name), array)


def test_failed_onnx_export_keeps_old_file(onnx, monkeypatch, tmp_path):
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
def test_onnx_file_has_default_permissions(onnx, tmp_path):
    maxplus.export.export_onnx(classifier(normal_lmm(13, (3, 4, 2))), tmp_path / "model.onnx")
    (tmp_path / "other").touch()
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert len(modes) == 1


def test_onnx_export_names_missing_folder(onnx, tmp_path):
    clf = classifier(normal_lmm(14, (3, 4, 2)))
    with pytest.raises(FileNotFoundError, match=r"no folder '.*nowhere'; create it first"):
        maxplus.export.export_onnx(clf, tmp_path / "nowhere" / "model.onnx")


def test_onnx_export_rejects_too_large_model(onnx, tmp_path):
    clf = classifier(normal_lmm(15, (3, 4, 2)))
    clf.model_.W1 = np.broadcast_to(np.float64(0), (2**14, 2**14))
    with pytest.raises(ValueError, match=r"clf has 2,147,\d+,\d+ bytes .* fewer hidden units"):
        maxplus.export.export_onnx(clf, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())
