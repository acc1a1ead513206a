"""Putting an ONNX graph together, node by node."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from kernlet.kernels.kernel import Floats


class Graph:
    """A graph under construction.

    Parameters
    ----------
    onnx : module
        The package, which is optional and therefore handed in.
    """

    def __init__(self, onnx: Any) -> None:
        self.onnx, self.helper, self.types = onnx, onnx.helper, onnx.TensorProto
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def input(self, name: str, n_features: int) -> str:
        """Rows of float32 numbers."""
        kind = self.helper.make_tensor_value_info(name, self.types.FLOAT, ["rows", n_features])
        self.inputs.append(kind)
        return name

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """An operator; the name of its output is returned."""
        name = f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def constant(self, values: Any) -> str:
        """An array that is part of the graph."""
        name = f"constant_{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(values, name))
        return name

    def floats(self, values: Any) -> str:
        """Numbers in float32."""
        return self.constant(np.ascontiguousarray(values, dtype=np.float32))

    def scalar(self, value: float) -> str:
        """One number in float32."""
        return self.constant(np.array(value, dtype=np.float32))

    def wholes(self, values: Any) -> str:
        """Whole numbers."""
        return self.constant(np.array(values, dtype=np.int64))

    def flat(self, values: str) -> str:
        """One number a row."""
        return self.node("Reshape", values, self.wholes([-1]))

    def whole(self, values: str) -> str:
        """Booleans as whole numbers."""
        return self.node("Cast", values, to=self.types.INT64)

    def argmax(self, values: str) -> str:
        """The first of the largest values of each row."""
        return self.node("ArgMax", values, axis=1, keepdims=0)

    def gather(self, classes: Any, codes: str) -> str:
        """Labels of class numbers."""
        return self.node("Gather", self.constant(label_array(classes)), codes)

    def pairs_won(self, first_wins: str, n_classes: int) -> str:
        """How many pairs each class wins."""
        signs = self.pair_signs(n_classes)
        wins = self.node("Cast", first_wins, to=self.types.FLOAT)
        return self.node("Gemm", wins, self.floats(signs), self.floats((signs < 0).sum(axis=0)))

    def pair_signs(self, n_classes: int) -> Floats:
        """For each pair i < j, +1 at i and -1 at j."""
        pairs = list(combinations(range(n_classes), 2))
        signs: Floats = np.zeros((len(pairs), n_classes))
        for pair, (i, j) in enumerate(pairs):
            signs[pair, i], signs[pair, j] = 1, -1
        return signs

    def output(self, name: str, values: str, width: int | None, labels: Any = None) -> None:
        """Name what the graph gives: so many numbers a row, or one (None)."""
        self.nodes.append(self.helper.make_node("Identity", [values], [name]))
        shape: list[Any] = ["rows"] if width is None else ["rows", width]
        kind = self.types.FLOAT
        if labels is not None:
            kind = self.helper.np_dtype_to_tensor_dtype(label_array(labels).dtype)
        self.outputs.append(self.helper.make_tensor_value_info(name, kind, shape))

    def model(self, name: str, opset: int, ir_version: int, facts: dict[str, str]) -> Any:
        """The whole."""
        graph = self.helper.make_graph(
            self.nodes, name, self.inputs, self.outputs, initializer=self.constants
        )
        opsets = [self.helper.make_opsetid("", opset)]
        made = self.helper.make_model(
            graph, opset_imports=opsets, producer_name="kernlet", ir_version=ir_version
        )
        self.helper.set_model_props(made, facts)
        return made


def label_array(classes: Any) -> Any:
    """Classes in a type that ONNX knows: int64, float64, booleans or texts."""
    if classes.dtype.kind in "iu":
        if int(classes.max()) > 2**63 - 1:
            raise ValueError(f"The class {classes.max()} is too large for an ONNX graph.")
        return classes.astype(np.int64)
    if classes.dtype.kind == "f":
        return classes.astype(np.float64)
    return classes if classes.dtype.kind == "b" else classes.astype(object)
