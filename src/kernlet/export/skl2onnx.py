"""Converters for ``skl2onnx.to_onnx``: pipelines that end in a kernlet machine."""

from __future__ import annotations

from typing import Any

import kernlet
from kernlet.export.onnx import Graph, add_model, label_array, require
from kernlet.export.predictors import LoadedClassifier, LoadedRegressor, LoadedTransformer
from kernlet.model.model import as_model


def register_skl2onnx() -> None:
    """Register a converter for every kernlet estimator with skl2onnx.

    A classifier gives ``label`` and ``probabilities`` or, where it has none, ``scores``; a
    regressor gives ``values``. Calling it twice does no harm.

    Raises
    ------
    ImportError
        Where skl2onnx is missing.

    Examples
    --------
    >>> import numpy as np, skl2onnx
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from kernlet import CompactKernelClassifier
    >>> from kernlet.export.skl2onnx import register_skl2onnx
    >>> register_skl2onnx()
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = CompactKernelClassifier(8, n_epochs=5, random_state=0)
    >>> pipeline = make_pipeline(StandardScaler(), machine).fit(X, y)
    >>> graph = skl2onnx.to_onnx(pipeline, X[:1].astype(np.float32))
    >>> [output.name for output in graph.graph.output]
    ['label', 'probabilities']
    """
    skl2onnx = require("skl2onnx")
    names = [name for name in kernlet.__all__ if name[0].isupper()]
    kinds = [getattr(kernlet, name) for name in names]
    kinds = [kind for kind in kinds if hasattr(kind, "predict") or hasattr(kind, "transform")]
    for kind in [*kinds, LoadedClassifier, LoadedRegressor, LoadedTransformer]:
        skl2onnx.update_registered_converter(
            kind, f"Kernlet{kind.__name__}", _shapes, _convert, parser=_parse, overwrite=True
        )


def _names(model: Any) -> list[str]:
    model = as_model(model)
    if model.kind != "classifier":
        return ["features" if model.kind == "transformer" else "values"]
    return ["label", "scores" if model.temperature is None else "probabilities"]


def _parse(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """Declare an operator with the outputs of a machine; skl2onnx's own would be a ZipMap."""
    from skl2onnx.common.data_types import FloatTensorType

    operator = scope.declare_local_operator(f"Kernlet{type(model).__name__}", model)
    operator.inputs.extend(inputs)
    for name in _names(model):
        kind = _label_type(as_model(model).classes) if name == "label" else FloatTensorType()
        operator.outputs.append(scope.declare_local_variable(name, kind))
    return operator.outputs


def _shapes(operator: Any) -> None:
    from skl2onnx.common.data_types import FloatTensorType

    for name, output in zip(_names(operator.raw_operator), operator.outputs, strict=True):
        if name == "label":
            output.type = _label_type(as_model(operator.raw_operator).classes)
        else:
            output.type = FloatTensorType(
                [None, None] if name in ("probabilities", "features") else None
            )


def _label_type(classes: Any) -> Any:
    from skl2onnx.common import data_types

    kinds = {
        "i": data_types.Int64TensorType,
        "f": data_types.DoubleTensorType,
        "b": data_types.BooleanTensorType,
    }
    return kinds.get(label_array(classes).dtype.kind, data_types.StringTensorType)([None])


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Copy the nodes of a machine's graph under unique names."""
    onnx = require("onnx")
    graph = Graph(onnx)
    add_model(graph, as_model(operator.raw_operator), "X")
    unique = {"X": _as_floats(scope, container, operator.inputs[0].full_name)}
    for name, output in zip(_names(operator.raw_operator), operator.outputs, strict=True):
        unique[name] = output.full_name

    def renamed(name: str) -> str:
        if name not in unique:
            unique[name] = scope.get_unique_variable_name(name)
        return unique[name]

    for constant in graph.constants:
        values = onnx.numpy_helper.to_array(constant)
        container.add_initializer(
            renamed(constant.name), constant.data_type, list(values.shape), values.ravel().tolist()
        )
    for node in graph.nodes:
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        container.add_node(
            node.op_type,
            [renamed(name) for name in node.input],
            [renamed(name) for name in node.output],
            name=scope.get_unique_operator_name(node.op_type),
            **attributes,
        )


def _as_floats(scope: Any, container: Any, name: str) -> str:
    onnx = require("onnx")
    floats = scope.get_unique_variable_name("rows")
    container.add_node(
        "Cast",
        [name],
        [floats],
        to=onnx.TensorProto.FLOAT,
        name=scope.get_unique_operator_name("Cast"),
    )
    return floats
