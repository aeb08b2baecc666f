"""A fitted classifier as an ONNX file of standard operators."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxplus import __version__
from maxplus._files import write_whole
from maxplus.estimators._data import within_range
from maxplus.estimators._lmm import BaseLMMClassifier
from maxplus.export._model import fitted_model, members_of
from maxplus.models import LMM, Committee

try:
    import onnx
    from onnx import helper, numpy_helper
except ImportError as error:
    raise ImportError(
        "ONNX files need onnx, which is not installed: pip install 'maxplus[onnx]'"
    ) from error

# Operators and file format of ONNX 1.13, so that runtimes of some years ago read the file.
OPSET, IR_VERSION = 18, 8
# Sums per sample in one tile. At MNIST's size that is five units: with ten, ONNX Runtime is
# slower; with fewer, it is no faster and there are more nodes.
TILE_SUMS = 1 << 13
# A protocol buffer, which an ONNX file is, ends here.
LARGEST = 1 << 31


def export_onnx(clf: BaseLMMClassifier, path: str | os.PathLike[str]) -> None:
    """Write a fitted `LMMClassifier` or `LMMCommittee` as an ONNX model of ai.onnx operators.

    It computes what `predict` and `predict_proba` do, with the same sums in the
    same float type; a committee is one graph with the mean of its members' scores. Directions,
    where the model has some, are a MatMul before them, which a runtime may sum in another order:
    scores are then equal up to its rounding.

    Parameters
    ----------
    clf : fitted LMMClassifier, LMMCommittee or SubgradientLMMClassifier
    path : file to write; one that exists is replaced, whole, at the end

    Notes
    -----
    Input ``X`` (N, P) has the type of ``clf.model_.dtype``; N is free. Output
    ``label`` (N,) holds strings, or int64 where labels are whole numbers or
    bools; ``probabilities`` (N, C) has its columns in the order of
    ``clf.classes_``. The names of features, where clf knows them, are metadata:
    "feature_names", a JSON list.

    Hidden units are computed in tiles of 8192 sums per sample, or of one unit, so
    a runtime needs 4·8192 bytes per sample (float32) besides λ (N, 2P), g (N, H)
    and z (N, C); there are about 2PH / 8192 tiles of two nodes each.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_iris
    >>> from maxplus import SubgradientLMMClassifier
    >>> from maxplus.export import export_onnx
    >>> clf = SubgradientLMMClassifier(n_hidden=20, engine="dense", max_iter=5)
    >>> clf = clf.fit(*load_iris(return_X_y=True))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export_onnx(clf, os.path.join(folder, "iris.onnx"))
    ...     os.listdir(folder)
    ['iris.onnx']
    """
    network = fitted_model(clf)
    size = sum(W.nbytes for W in network.weights_by_name().values())
    if size >= LARGEST:
        raise ValueError(
            f"clf has {size:,} bytes of weights and an ONNX file must stay below {LARGEST:,}; "
            "train with fewer hidden units, or on float32 data"
        )
    labels = label_values(clf.classes_)
    number = helper.np_dtype_to_tensor_dtype(network.dtype)
    label = onnx.TensorProto.STRING if labels.dtype == object else onnx.TensorProto.INT64
    graph = classifier_graph(clf, labels)
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "LMMClassifier",
            [helper.make_tensor_value_info("X", number, ["N", network.n_features])],
            [
                helper.make_tensor_value_info("label", label, ["N"]),
                helper.make_tensor_value_info("probabilities", number, ["N", network.n_classes]),
            ],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="maxplus",
        producer_version=__version__,
        doc_string=_description(network),
    )
    if hasattr(clf, "preparation_") or hasattr(clf, "feature_names_in_"):
        names = json.dumps(clf._feature_words(), ensure_ascii=False)
        helper.set_model_props(model, {"feature_names": names})
    onnx.checker.check_model(model, full_check=True)
    write_whole(path, model.SerializeToString())


class Graph:
    """Nodes and constants of an ONNX graph, in the order they are added."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, name: str, value: NDArray) -> str:
        """Add an array; its name."""
        self.constants.append(numpy_helper.from_array(np.array(value, order="C"), name))
        return name

    def integers(self, name: str, *values: int) -> str:
        """Add axes or a shape, which ONNX wants as a vector of int64; its name."""
        return self.constant(name, np.array(values, np.int64))

    def node(self, operator: str, inputs: Sequence[str], result: str, **attributes: Any) -> str:
        """Add an operation with one result; the result's name."""
        self.nodes.append(helper.make_node(operator, inputs, [result], result, **attributes))
        return result

    def product(self, operator: str, x: str, W: NDArray, name: str, result: str) -> str:
        """y[n, o] = min_i or max_i (x[n, i] + W[i, o]), by the operator ReduceMin or ReduceMax.

        Some columns of W at a time: TILE_SUMS sums per sample, or one column. The
        reduced axis is the last, which runtimes vectorise.
        """
        row_axis = self.integers(f"{name}_row_axis", 1)
        in_axis = self.integers(f"{name}_in_axis", 2)
        rows = self.node("Unsqueeze", [x, row_axis], f"{x}_rows")
        n_in, n_out = W.shape
        width = max(1, TILE_SUMS // n_in)
        parts = []
        for lo in range(0, n_out, width):
            tile = self.constant(f"{name}_{lo}", W[:, lo : lo + width].T)
            sums = self.node("Add", [rows, tile], f"{result}_sums_{lo}")
            parts.append(self.node(operator, [sums, in_axis], f"{result}_{lo}", keepdims=0))
        return self.node("Concat", parts, result, axis=1)


def classifier_graph(clf: BaseLMMClassifier, labels: NDArray) -> Graph:
    """From ``X`` to ``label`` and ``probabilities``; names are the paper's."""
    network, graph = clf.model_, Graph()
    # The estimator moves numbers that would overflow closer: this is how far.
    huge = np.full((1, 1), np.finfo(network.dtype).max, network.dtype)
    limit = within_range(huge, network, clf._slopes)[0, 0]
    ends = [graph.constant("least", -limit), graph.constant("most", limit)]
    x = graph.node("Clip", ["X", *ends], "x")
    members = members_of(network)
    if len(members) == 1:
        z = add_scores(graph, members[0], x)
    else:
        own = [add_scores(graph, lmm, x, f"{k}_") for k, lmm in enumerate(members)]
        z = add_mean(graph, own, network.dtype)
    graph.node("Softmax", [z], "probabilities", axis=1)
    winner = graph.node("ArgMax", [z], "winner", axis=1, keepdims=0)
    graph.node("Gather", [graph.constant("classes", labels), winner], "label")
    return graph


def add_scores(graph: Graph, lmm: LMM, x: str, prefix: str = "") -> str:
    """From clipped features to the scores of one network; all names begin with the prefix."""
    if lmm.directions is not None:
        directions = graph.constant(f"{prefix}directions", lmm.directions.T)
        x = graph.node("MatMul", [x, directions], f"{prefix}views")
    axis = graph.integers(f"{prefix}slope_axis", 2)
    x = graph.node("Unsqueeze", [x, axis], f"{prefix}x_columns")
    W0 = graph.constant(f"{prefix}W0", lmm.W0.reshape(-1, 2))
    pairs = graph.node("Mul", [x, W0], f"{prefix}lambda_pairs")
    # 0 stands for N, which may be 0 itself.
    shape = graph.integers(f"{prefix}lambda_shape", 0, lmm.W0.size)
    lam = graph.node("Reshape", [pairs, shape], f"{prefix}lambda")
    g = graph.product("ReduceMin", lam, lmm.W1, f"{prefix}W1", f"{prefix}g")
    return graph.product("ReduceMax", g, lmm.W2, f"{prefix}W2", f"{prefix}z")


def add_mean(graph: Graph, scores: Sequence[str], dtype: np.dtype) -> str:
    """The mean of several scores, with the very sums of `maxplus.models.Committee`."""
    n_members = graph.constant("n_members", np.array(len(scores), dtype))
    total = scores[0]
    for k, z in enumerate(scores[1:], 1):
        total = graph.node("Add", [total, z], f"z_sum_{k}")
    return graph.node("Div", [total, n_members], "z")


def _description(network: LMM | Committee) -> str:
    """What the file holds, in words."""
    if isinstance(network, Committee):
        kind = f"Committee of {len(network.members)} Linear-Min-Max networks"
    else:
        kind = "Linear-Min-Max classifier"
    return f"{kind} with {network.n_hidden} hidden units"


def label_values(classes: NDArray) -> NDArray:
    """Class labels as ONNX has them: strings in an object array, or int64."""
    values = classes.tolist()
    if all(isinstance(value, str) for value in values):
        return np.array(values, object)
    for value in values:
        whole = isinstance(value, Real) and float(value).is_integer()
        if not whole or not -(2**63) <= value < 2**63:
            raise TypeError(
                f"clf has the class label {value!r}, and ONNX labels are strings or whole numbers "
                "of 64 bits; train on labels encoded with sklearn.preprocessing.LabelEncoder"
            )
    return np.array([int(value) for value in values], np.int64)
