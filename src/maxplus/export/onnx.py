"""Export of fitted estimators to ONNX, with standard operators."""

from __future__ import annotations

import json
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from maxplus import __version__
from maxplus.models import LMM, FeatureMap, Term
from maxplus.models.additive import terms_by_shape
from maxplus.models.lmm import TermSum

try:
    import onnx
    from onnx import helper, numpy_helper
except ImportError as error:
    raise ImportError(
        "ONNX export requires onnx, which is not installed: pip install 'maxplus[onnx]'"
    ) from error

# Versions of ONNX 1.13, for compatibility with older runtimes.
OPSET, IR_VERSION = 18, 8
# Number of sums per sample in a tile, five units for MNIST. ONNX Runtime is slower with ten units.
# With fewer units, it is not faster, and the file has more nodes.
TILE_SUMS = 1 << 13
# Maximum size of a protocol buffer, the format of ONNX files.
MAX_BYTES = 1 << 31


def serialize(clf: Any, network: TermSum) -> bytes:
    """Return the content of the ONNX file of a fitted estimator (`maxplus.export.export_onnx`)."""
    size = sum(W.nbytes for W in network.weights_by_name().values())
    if size >= MAX_BYTES:
        raise ValueError(
            f"clf has {size:,} bytes of weights, but ONNX files must be smaller than "
            f"{MAX_BYTES:,} bytes; train with fewer hidden units, or on float32 data"
        )
    elem_type = helper.np_dtype_to_tensor_dtype(network.dtype)
    graph = Graph()
    z = add_network(graph, network)
    if is_classifier(clf):
        label = add_label(graph, clf.classes_, z)
        outputs = [
            helper.make_tensor_value_info("label", label, ["N"]),
            helper.make_tensor_value_info("probabilities", elem_type, ["N", network.n_classes]),
        ]
    else:
        add_value(graph, network, getattr(clf, "bounds_", None), z)
        outputs = [helper.make_tensor_value_info("value", elem_type, ["N"])]
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "LMM",
            [helper.make_tensor_value_info("X", elem_type, ["N", network.n_features])],
            outputs,
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="maxplus",
        producer_version=__version__,
        doc_string=_description(network),
    )
    names = _feature_names(clf)
    if names is not None:
        props = {"feature_names": json.dumps(names, ensure_ascii=False)}
        helper.set_model_props(model, props)
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString()


class Graph:
    """Nodes and constants of an ONNX graph, in the order they are added."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, name: str, value: NDArray) -> str:
        """Add an array and return its name."""
        self.constants.append(numpy_helper.from_array(np.array(value, order="C"), name))
        return name

    def integers(self, name: str, *values: int) -> str:
        """Add axes or a shape as a vector of int64, and return its name."""
        return self.constant(name, np.array(values, np.int64))

    def node(self, operator: str, inputs: Sequence[str], result: str, **attributes: Any) -> str:
        """Add an operation with one result and return the name of the result."""
        self.nodes.append(helper.make_node(operator, inputs, [result], result, **attributes))
        return result

    def product(self, operator: str, x: str, W: NDArray, name: str, result: str) -> str:
        """Add y[n, o] = min_i or max_i (x[n, i] + W[i, o]), by ReduceMin or ReduceMax.

        Columns of W are divided into tiles of TILE_SUMS sums per sample, or of one column. The
        last axis is reduced, which runtimes vectorise.
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


def add_network(graph: Graph, network: TermSum) -> str:
    """Add the nodes from ``X`` to scores and return the name of the scores."""
    if network.feature_map is not None:
        x = add_feature_map(graph, network.feature_map, "X", network.dtype)
    else:
        # As in estimators, large inputs are clipped to avoid an overflow of scores.
        limit = network.dtype.type(network.largest_input)
        ends = [graph.constant("least", -limit), graph.constant("most", limit)]
        x = graph.node("Clip", ["X", *ends], "x")
    features, lmm = network.terms[0]
    is_single = len(network.terms) == 1 and len(features) == network.n_features
    if is_single and not network.intercept.any():
        return add_scores(graph, lmm, x)
    return add_sum(graph, network, x)


def add_label(graph: Graph, classes: NDArray, z: str) -> int:
    """Add the nodes from scores to ``label`` and ``probabilities``; return the type of labels."""
    labels = label_values(classes)
    graph.node("Softmax", [z], "probabilities", axis=1)
    predicted = graph.node("ArgMax", [z], "predicted", axis=1, keepdims=0)
    graph.node("Gather", [graph.constant("classes", labels), predicted], "label")
    return onnx.TensorProto.STRING if labels.dtype == object else onnx.TensorProto.INT64


def add_value(graph: Graph, network: TermSum, bounds: NDArray | None, z: str) -> None:
    """Add the nodes from scores to ``value``, the only score or the clipped difference of two."""
    first = graph.constant("first", np.array(0, np.int64))
    if bounds is None:
        graph.node("Gather", [z, first], "value", axis=1)
        return
    second = graph.constant("second", np.array(1, np.int64))
    below = graph.node("Gather", [z, first], "z_0", axis=1)
    above = graph.node("Gather", [z, second], "z_1", axis=1)
    low, high = bounds.astype(network.dtype)
    limits = [graph.constant("lower", low), graph.constant("upper", high)]
    graph.node("Clip", [graph.node("Sub", [above, below], "difference"), *limits], "value")


def add_feature_map(graph: Graph, feature_map: FeatureMap, x: str, dtype: np.dtype) -> str:
    """Add the nodes from features to mapped features, in float64 as `FeatureMap` computes them.

    The knots of each feature are padded to a power of two. A binary search over all features at
    once finds the last knot that is <= x.
    """
    n_steps = int(np.diff(feature_map.starts).max() - 1).bit_length()
    width = 1 << n_steps
    tables = feature_map.segments(width)
    names = ("knots", "values", "slopes", "ends")
    knots, values, slopes, ends = (
        graph.constant(name, table.ravel()) for name, table in zip(names, tables, strict=True)
    )
    x = graph.node("Cast", [x], "x_double", to=onnx.TensorProto.DOUBLE)
    first = graph.constant("first_knots", tables.knots[:, 0])
    last = graph.constant("last_knots", feature_map.x[feature_map.starts[1:] - 1])
    x = graph.node("Min", [graph.node("Max", [x, first], "x_from_below"), last], "x_inside")
    position = graph.constant("position", width * np.arange(feature_map.n_features))
    for k in reversed(range(n_steps)):
        step = graph.constant(f"step_{k}", np.array(1 << k, np.int64))
        probe = graph.node("Add", [position, step], f"probe_{k}")
        knot = graph.node("Gather", [knots, probe], f"probed_knot_{k}")
        is_before = graph.node("LessOrEqual", [knot, x], f"is_before_{k}")
        position = graph.node("Where", [is_before, probe, position], f"position_{k}")
    knot, value, rise, end = (
        graph.node("Gather", [table, position], f"{table}_here")
        for table in (knots, values, slopes, ends)
    )
    risen = graph.node("Mul", [rise, graph.node("Sub", [x, knot], "run")], "risen")
    u = graph.node("Min", [graph.node("Add", [value, risen], "on_line"), end], "mapped_double")
    return graph.node("Cast", [u], "mapped", to=helper.np_dtype_to_tensor_dtype(dtype))


def add_sum(graph: Graph, model: TermSum, x: str) -> str:
    """Add the nodes from mapped features to the sum of all terms and the intercept."""
    parts = [graph.constant("intercept", model.intercept)]
    for terms in terms_by_shape(model):
        lmm = terms[0].lmm
        width = max(1, TILE_SUMS // (lmm.n_hidden * max(lmm.W0.size, model.n_classes)))
        for lo in range(0, len(terms), width):
            parts.append(add_terms(graph, terms[lo : lo + width], x, f"terms_{len(parts)}_"))
    return graph.node("Sum", parts, "z")


def add_terms(graph: Graph, terms: Sequence[Term], x: str, prefix: str) -> str:
    """Add the nodes from mapped features to the sum of the scores of terms with equal shapes."""
    features = graph.constant(f"{prefix}features", np.concatenate([f for f, _ in terms]))
    x = graph.node("Gather", [x, features], f"{prefix}x", axis=1)
    lmms = [lmm for _, lmm in terms]
    if len(lmms) == 1:
        return add_scores(graph, lmms[0], x, prefix)
    lam = add_linear_layers(graph, lmms, x, prefix, (len(lmms), 1, lmms[0].W0.size))
    row_axis = graph.integers(f"{prefix}row_axis", 2)
    in_axis = graph.integers(f"{prefix}in_axis", 3)
    W1 = graph.constant(f"{prefix}W1", np.stack([lmm.W1.T for lmm in lmms]))
    sums = graph.node("Add", [lam, W1], f"{prefix}g_sums")
    g = graph.node("ReduceMin", [sums, in_axis], f"{prefix}g", keepdims=0)
    g = graph.node("Unsqueeze", [g, row_axis], f"{prefix}g_rows")
    W2 = graph.constant(f"{prefix}W2", np.stack([lmm.W2.T for lmm in lmms]))
    sums = graph.node("Add", [g, W2], f"{prefix}z_sums")
    z = graph.node("ReduceMax", [sums, in_axis], f"{prefix}z_terms", keepdims=0)
    term_axis = graph.integers(f"{prefix}term_axis", 1)
    return graph.node("ReduceSum", [z, term_axis], f"{prefix}z", keepdims=0)


def add_scores(graph: Graph, lmm: LMM, x: str, prefix: str = "") -> str:
    """Add the nodes from features to the scores of one LMM; all names begin with the prefix."""
    lam = add_linear_layers(graph, [lmm], x, prefix, (lmm.W0.size,))
    g = graph.product("ReduceMin", lam, lmm.W1, f"{prefix}W1", f"{prefix}g")
    return graph.product("ReduceMax", g, lmm.W2, f"{prefix}W2", f"{prefix}z")


def add_linear_layers(
    graph: Graph, lmms: Sequence[LMM], x: str, prefix: str, shape: tuple[int, ...]
) -> str:
    """Add the nodes from features to λ of all LMMs, of the given shape for each sample."""
    axis = graph.integers(f"{prefix}slope_axis", 2)
    x = graph.node("Unsqueeze", [x, axis], f"{prefix}x_columns")
    W0 = graph.constant(f"{prefix}W0", np.concatenate([lmm.slopes for lmm in lmms]))
    pairs = graph.node("Mul", [x, W0], f"{prefix}lambda_pairs")
    # A size of 0 copies the dimension N, which may be 0.
    full_shape = graph.integers(f"{prefix}lambda_shape", 0, *shape)
    return graph.node("Reshape", [pairs, full_shape], f"{prefix}lambda")


def _description(network: TermSum) -> str:
    """Describe the network for the metadata of the file."""
    n_terms = len(network.terms)
    kind = f"Sum of {n_terms} Linear-Min-Max terms" if n_terms > 1 else "Linear-Min-Max network"
    return f"{kind} with {network.n_hidden} hidden units"


def _feature_names(estimator: Any) -> list[str] | None:
    """Return the names of the features, if the estimator has them."""
    if hasattr(estimator, "encoder_"):
        return [str(name) for name in estimator.encoder_.feature_names]
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def label_values(classes: NDArray) -> NDArray:
    """Return class labels in a type of ONNX, strings in an object array or int64.

    Raise TypeError for other labels.
    """
    values = classes.tolist()
    if all(isinstance(value, str) for value in values):
        return np.array(values, object)
    for value in values:
        is_integer = isinstance(value, Real) and float(value).is_integer()
        if not is_integer or not -(2**63) <= value < 2**63:
            raise TypeError(
                f"clf has the class label {value!r}, but ONNX labels must be strings or 64-bit "
                "integers; train on labels encoded with sklearn.preprocessing.LabelEncoder"
            )
    return np.array([int(value) for value in values], np.int64)
