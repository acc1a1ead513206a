"""Export to ONNX: a graph of standard operators, in float32."""

from __future__ import annotations

from importlib import import_module
from itertools import combinations
from typing import Any

import numpy as np

from kernlet._typing import Floats
from kernlet.affine import AffineMap, CurvedMap, StepMap
from kernlet.export.rounding import (
    FLOAT32_TOLERANCE,
    about,
    clear_of_thresholds,
    dense_points,
    feature_rows,
    likely_rows,
    require_close,
    rows_as_float32,
    same_classes,
)
from kernlet.extras import missing
from kernlet.kernels.base import as_float32
from kernlet.kernels.gram import dense_centers
from kernlet.model.model import Model, as_model


class Graph:
    """A graph under construction; ``onnx`` is the package, which is an optional dependency."""

    def __init__(self, onnx: Any) -> None:
        self.onnx, self.helper, self.types = onnx, onnx.helper, onnx.TensorProto
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def input(self, name: str, n_features: int) -> str:
        """Declare the input: rows of float32 numbers."""
        kind = self.helper.make_tensor_value_info(name, self.types.FLOAT, ["rows", n_features])
        self.inputs.append(kind)
        return name

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add an operator and return the name of its output."""
        name = f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def constant(self, values: Any) -> str:
        """Add an array and return its name."""
        name = f"constant_{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(values, name))
        return name

    def floats(self, values: Any) -> str:
        """Numbers in float32; those that overflow are refused."""
        return self.constant(np.ascontiguousarray(as_float32(values)))

    def scalar(self, value: float) -> str:
        """One number in float32."""
        return self.constant(np.array(as_float32(value)))

    def integers(self, values: Any) -> str:
        """Integers in int64."""
        return self.constant(np.array(values, dtype=np.int64))

    def flat(self, values: str) -> str:
        """One number per row."""
        return self.node("Reshape", values, self.integers([-1]))

    def argmax(self, values: str) -> str:
        """The first of the largest values of each row."""
        return self.node("ArgMax", values, axis=1, keepdims=0)

    def sorted(self, values: str, width: int) -> str:
        """The numbers of each row in ascending order."""
        name = f"sorted_{len(self.nodes)}"
        node = self.helper.make_node(
            "TopK", [values, self.integers([width])], [name, f"{name}_order"], axis=1, largest=0
        )
        self.nodes.append(node)
        return name

    def pairs_won(self, first_wins: str, signs: Floats) -> str:
        """Number of pairs that each class wins."""
        wins = self.node("Cast", first_wins, to=self.types.FLOAT)
        return self.node("Gemm", wins, self.floats(signs), self.floats((signs < 0).sum(axis=0)))

    def output(self, name: str, values: str, width: int | None, dtype: Any = np.float32) -> None:
        """Declare an output of ``width`` numbers per row, or of one number (None)."""
        self.nodes.append(self.helper.make_node("Identity", [values], [name]))
        shape: list[Any] = ["rows"] if width is None else ["rows", width]
        kind = self.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.outputs.append(self.helper.make_tensor_value_info(name, kind, shape))

    def model(self, name: str, opset: int, ir_version: int, facts: dict[str, str]) -> Any:
        """The finished model."""
        graph = self.helper.make_graph(
            self.nodes, name, self.inputs, self.outputs, initializer=self.constants
        )
        opsets = [self.helper.make_opsetid("", opset)]
        proto = self.helper.make_model(
            graph, opset_imports=opsets, producer_name="kernlet", ir_version=ir_version
        )
        self.helper.set_model_props(proto, facts)
        return proto


def label_array(classes: Any) -> Any:
    """Classes in a type that ONNX has: int64, float64, booleans or texts."""
    kind = classes.dtype.kind
    if kind not in "biuf" and not all(isinstance(name, str) for name in classes.tolist()):
        raise ValueError(
            f"Classes in an array of {classes.dtype} cannot be in an ONNX graph: train with texts, "
            "such as y.astype(str), or with numbers."
        )
    if kind not in "biuf" and any(_has_surrogates(name) for name in classes.tolist()):
        raise ValueError(
            "A class has a name that is not valid Unicode (a lone surrogate), which an ONNX graph "
            "cannot hold: rename it."
        )
    if classes.dtype.kind in "iu":
        if int(classes.max()) > 2**63 - 1:
            raise ValueError(f"The class {classes.max()} is too large for an ONNX graph.")
        return classes.astype(np.int64)
    if classes.dtype.kind == "f":
        return classes.astype(np.float64)
    return classes if classes.dtype.kind == "b" else classes.astype(object)


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in text)


# The oldest versions with all operators used here, for the sake of old runtimes.
OPSET, IR_VERSION = 17, 8
_CHECKED_ROWS = 2000
OUTPUT_NAMES = {
    "classifier": "scores",
    "expansion": "scores",
    "novelty": "scores",
    "regressor": "values",
    "transformer": "features",
}


def to_onnx(model: Any, *, X: Any = None, check: bool = True) -> Any:
    """Make an ONNX model of a machine.

    It has operators of the standard domain only, in float32, for any number of rows. Distances are
    computed about the mean of the centers, so that features far from 0 do not cancel. The scaler of
    a pipeline is part of the graph.

    Parameters
    ----------
    model : fitted estimator, KernelExpansion or what kernlet.load gave
        See :func:`kernlet.save`.
    X : array-like of shape (n_samples, n_features), default=None
        Rows to check the graph on; the centers of the machine, moved a little, unless given.
    check : bool, default=True
        Run the graph in onnxruntime and compare it with Python.

    Returns
    -------
    graph : onnx.ModelProto
        Input ``X``: float32, (n_rows, n_features). Outputs of a classifier: ``label``, ``scores``
        as ``decision_function`` gives them and, where the machine has them, ``probabilities``. Of a
        novelty detector: ``label``, 1 or -1, and ``scores``. Of a regressor: ``values``; of an
        expansion: ``scores``.

    Raises
    ------
    ImportError
        Where onnx, or onnxruntime for the check, is missing.
    ValueError
        Where the graph in float32 predicts other classes than the machine.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> import kernlet
    >>> X, y = load_iris(return_X_y=True)
    >>> graph = kernlet.to_onnx(SVC().fit(X, y))
    >>> [output.name for output in graph.graph.output]
    ['label', 'scores']
    """
    model = as_model(model)
    onnx = require("onnx")
    graph = Graph(onnx)
    add_model(graph, model, graph.input("X", model.n_features))
    proto = graph.model("kernlet", OPSET, IR_VERSION, _facts(model))
    onnx.checker.check_model(proto, full_check=True)
    if check:
        check_graph(proto, model, X)
    return proto


def require(name: str) -> Any:
    """A package of the extra ``onnx``."""
    try:
        return import_module(name)
    except ImportError:
        advice = " Or give check=False." if name == "onnxruntime" else ""
        raise ImportError(f"{missing('ONNX', name, 'onnx')}{advice}") from None


def check_graph(proto: Any, model: Model, X: Any = None) -> float:
    """Run a graph and compare it with the model; the largest error of a score."""
    runtime = require("onnxruntime")
    rows = likely_rows(model) if X is None else feature_rows(model, X)[:_CHECKED_ROWS]
    rows = rows_as_float32(rows)
    rows = rows[clear_of_thresholds(model, rows)]
    providers = ["CPUExecutionProvider"]
    session = runtime.InferenceSession(proto.SerializeToString(), providers=providers)
    names = [output.name for output in session.get_outputs()]
    results = dict(zip(names, session.run(None, {"X": rows}), strict=True))
    outputs = model.outputs(rows.astype(np.float64))
    expected, scores = model.scores(outputs), results[OUTPUT_NAMES[model.kind]]
    same = model.classes is None or same_classes(
        model, outputs, results["label"], model.classes[model.codes(outputs)]
    )
    if not np.isfinite(results.get("probabilities", 0.0)).all():
        raise ValueError(
            "In float32 the probabilities of the graph overflow: scale the features, for example "
            "with a StandardScaler in front."
        )
    # A vote jumps by 1 where an output changes its sign, so that votes cannot be compared.
    tolerance = np.inf if model.classes is not None and model.votes else FLOAT32_TOLERANCE
    return require_close("graph", scores, expected, same, tolerance)


def add_model(graph: Graph, model: Model, x: str) -> None:
    """Everything from rows to predictions."""
    outputs = add_outputs(graph, model, x)
    if model.classes is None:
        is_flat, name = model.kind == "regressor" and model.is_flat, OUTPUT_NAMES[model.kind]
        width = None if is_flat else model.expansion.n_outputs
        if model.sorts_outputs:
            outputs = graph.sorted(outputs, model.expansion.n_outputs)
        graph.output(name, graph.flat(outputs) if is_flat else outputs, width)
        return
    codes, scores, width = add_classes(graph, model, outputs)
    labels = label_array(model.classes)
    graph.output("label", graph.node("Gather", graph.constant(labels), codes), None, labels.dtype)
    graph.output("scores", scores, width)
    if model.temperature is not None:
        probabilities = add_probabilities(graph, model, outputs)
        graph.output("probabilities", probabilities, len(model.classes))


def add_outputs(graph: Graph, model: Model, x: str) -> str:
    """Outputs of the expansion.

    Distances are computed about the mean of the centers, where the kernel allows it: by way of
    inner products they would cancel in float32 far from the origin.
    """
    expansion = model.expansion
    maps = [model.scaler, expansion.input_map]
    if not isinstance(expansion.input_map, CurvedMap):  # which may stand behind any matrix
        maps = [model.input_map]
    centers = dense_points(dense_centers(expansion.centers))
    if model.missing == "distance":
        for map in maps:
            x = _add_map(graph, x, map, expansion.n_features)
        values = _add_present_values(graph, x, expansion.kernel, centers)
        coef, intercept = graph.floats(expansion.coef.T), graph.floats(expansion.intercept)
        return graph.node("Gemm", values, coef, intercept)
    if expansion.kernel.is_translation_invariant:
        last = maps.pop()
        mean = centers.mean(axis=0) if len(centers) else np.zeros(centers.shape[1])
        if isinstance(last, CurvedMap) or (last is not None and last.matrix is not None):
            maps.append(last)
            last = None
        around, centers = about(last, centers, mean)  # one subtraction does for both
        maps.append(around)
    for map in maps:
        x = _add_map(graph, x, map, expansion.n_features)
    values = expansion.kernel.onnx_nodes(graph, x, centers)
    coef, intercept = graph.floats(expansion.coef.T), graph.floats(expansion.intercept)
    return graph.node("Gemm", values, coef, intercept)


def _add_map(graph: Graph, x: str, map: AffineMap | None, n_features: int) -> str:
    if map is None:
        return x
    if map.fill is not None:
        x = graph.node("Where", graph.node("IsNaN", x), graph.floats(map.fill), x)
    x = graph.node("Sub", x, graph.floats(map.shift))
    if not (map.scale == 1).all():
        x = graph.node("Mul", x, graph.floats(map.scale))
    if isinstance(map, CurvedMap):
        x = graph.node("Asinh", x) if map.is_asinh else x
        x = x if map.steps is None else _add_steps(graph, x, map.steps, n_features)
    return x if map.matrix is None else graph.node("MatMul", x, graph.floats(map.matrix.T))


def _add_present_values(graph: Graph, x: str, kernel: Any, centers: Floats) -> str:
    """Kernel values by d / |m| (|m x|^2 - 2 (m x).z + m.z^2), m being 1 where x is not NaN.

    A row without any present feature counts as one of zeros.
    """
    columns, n_features = graph.integers([1]), centers.shape[1]
    is_missing = graph.node("IsNaN", x)
    present = graph.node("Cast", graph.node("Not", is_missing), to=graph.types.FLOAT)
    n_present = graph.node("ReduceSum", present, columns, keepdims=1)
    has_none = graph.node("Less", n_present, graph.scalar(0.5))
    mask = graph.node("Add", present, graph.node("Cast", has_none, to=graph.types.FLOAT))
    n_counted = graph.node("ReduceSum", mask, columns, keepdims=1)
    x = graph.node("Where", is_missing, graph.scalar(0.0), x)
    norms = graph.node("ReduceSum", graph.node("Mul", x, x), columns, keepdims=1)
    products = graph.node("MatMul", x, graph.floats(-2 * centers.T))
    squares = graph.node("MatMul", mask, graph.floats((centers**2).T))
    distances = graph.node("Add", graph.node("Add", products, squares), norms)
    ratios = graph.node("Div", graph.scalar(float(n_features)), n_counted)
    distances = graph.node("Relu", graph.node("Mul", distances, ratios))
    return str(kernel.onnx_of_distances(graph, distances))


def _add_steps(graph: Graph, x: str, steps: StepMap, n_features: int) -> str:
    """Features plus the jumps of those steps whose thresholds they exceed."""
    jumps = np.zeros((len(steps.features), n_features))
    jumps[np.arange(len(jumps)), steps.features] = steps.jumps
    features = graph.node("Gather", x, graph.integers(steps.features), axis=1)
    is_above = graph.node("Greater", features, graph.floats(steps.thresholds))
    counts = graph.node("Cast", is_above, to=graph.types.FLOAT)
    return graph.node("Add", x, graph.node("MatMul", counts, graph.floats(jumps)))


def add_classes(graph: Graph, model: Model, outputs: str) -> tuple[str, str, int | None]:
    """Class numbers, scores, and the width of the scores (None for one number per row)."""
    n_classes = len(model.classes)
    if model.scheme == "one output":
        scores = graph.flat(outputs)
        wins = "Greater" if model.break_ties else "GreaterOrEqual"
        is_second = graph.node(wins, scores, graph.scalar(0.0))
        return graph.node("Cast", is_second, to=graph.types.INT64), scores, None
    if model.scheme == "one vs rest":
        return graph.argmax(outputs), outputs, n_classes
    signs = _pair_signs(n_classes)
    values = _add_votes(graph, outputs, signs)
    won = graph.pairs_won(graph.node("Greater", outputs, graph.scalar(0.0)), signs)
    codes = graph.argmax(values if model.break_ties else won)
    if not model.votes:
        return codes, outputs, model.expansion.n_outputs
    if n_classes == 2:
        second = graph.node("Gather", values, graph.integers([1]), axis=1)
        return codes, graph.flat(second), None
    return codes, values, n_classes


def _add_votes(graph: Graph, outputs: str, signs: Floats) -> str:
    """Won + s / (3 (abs(s) + 1)), as :func:`kernlet.model.model.vote_values`."""
    lost = graph.node("Less", outputs, graph.scalar(0.0))
    won = graph.pairs_won(graph.node("Not", lost), signs)
    sums = graph.node("MatMul", outputs, graph.floats(signs))
    sizes = graph.node("Add", graph.node("Abs", sums), graph.scalar(1.0))
    share = graph.node("Div", sums, graph.node("Mul", sizes, graph.scalar(3.0)))
    return graph.node("Add", won, share)


def add_probabilities(graph: Graph, model: Model, outputs: str) -> str:
    """Softmax of the class scores over the temperature; of two classes the sigmoid."""
    assert model.temperature is not None
    if model.scheme == "one vs one":
        outputs = graph.node("MatMul", outputs, graph.floats(_pair_signs(len(model.classes))))
        if len(model.classes) == 2:
            outputs = graph.node("Gather", outputs, graph.integers([1]), axis=1)
    if model.offset:
        outputs = graph.node("Sub", outputs, graph.scalar(model.offset))
    scaled = graph.node("Mul", outputs, graph.scalar(1 / model.temperature))
    if len(model.classes) > 2:
        return graph.node("Softmax", scaled, axis=1)
    first = graph.node("Neg", scaled)
    return graph.node("Sigmoid", graph.node("Concat", first, scaled, axis=1))


def _pair_signs(n_classes: int) -> Floats:
    """One row per pair i < j: 1 for class i, -1 for class j."""
    one = np.eye(n_classes)
    return np.array([one[i] - one[j] for i, j in combinations(range(n_classes), 2)])


def _facts(model: Model) -> dict[str, str]:
    """The metadata of the graph."""
    facts = {
        "centers": str(model.expansion.n_centers),
        "kernel": model.expansion.kernel.to_dict()["name"],
        "machine": "\n".join(f"{name}: {text}" for name, text in model.describe().items()),
        "estimator": str(model.summary.get("estimator", "")),
    }
    if model.feature_names is not None:
        facts["features"] = "\n".join(model.feature_names)
    if model.output_labels:
        facts["outputs"] = "\n".join(model.output_labels)
    if model.encoding is not None:
        facts["encoding"] = "\n".join(column.rule for column in model.encoding.columns)
    return {name: text.encode(errors="replace").decode() for name, text in facts.items()}
