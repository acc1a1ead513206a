"""Converters for ``skl2onnx.to_onnx``: pipelines that end in a kernlet machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import kernlet
from kernlet.export.onnx import OUTPUT_NAMES, Graph, add_model, label_array, require
from kernlet.export.predictors import PREDICTORS
from kernlet.model.model import as_model


def register_skl2onnx() -> None:
    """Register a converter for every kernlet estimator with skl2onnx.

    A classifier gives ``label`` and ``probabilities`` or, where it has none, ``scores``, as a
    novelty detector does; a regressor gives ``values``. Calling it twice does no harm.

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
    for kind in [*kinds, *PREDICTORS.values()]:
        skl2onnx.update_registered_converter(
            kind, f"Kernlet{kind.__name__}", _shapes, _convert, parser=_parse, overwrite=True
        )


def _output_types(model: Any) -> dict[str, Any]:
    """Names and types of the outputs."""
    from skl2onnx.common import data_types

    model, several = as_model(model), data_types.FloatTensorType([None, None])
    if model.classes is None:
        is_wide = model.kind == "transformer"
        return {OUTPUT_NAMES[model.kind]: several if is_wide else data_types.FloatTensorType()}
    label_types = {
        "i": data_types.Int64TensorType,
        "f": data_types.DoubleTensorType,
        "b": data_types.BooleanTensorType,
    }
    label_kind = label_array(model.classes).dtype.kind
    label = label_types.get(label_kind, data_types.StringTensorType)([None])
    if model.temperature is None:
        return {"label": label, "scores": data_types.FloatTensorType()}
    return {"label": label, "probabilities": several}


def _parse(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """Declare an operator with the outputs of a machine; skl2onnx's own would be a ZipMap.

    The steps that a compressed Pipeline kept are skl2onnx's own operators in front of it.
    """
    from skl2onnx import _parse

    steps = getattr(getattr(model, "model_", None), "steps", ())
    if steps:
        for _, step in steps:
            inputs = _parse._parse_sklearn(scope, step, inputs, custom_parsers)
        model = PREDICTORS[model.model_.kind](replace(model.model_, steps=()))
    operator = scope.declare_local_operator(f"Kernlet{type(model).__name__}", model)
    operator.inputs.extend(inputs)
    for name, kind in _output_types(model).items():
        operator.outputs.append(scope.declare_local_variable(name, kind))
    return operator.outputs


def _shapes(operator: Any) -> None:
    kinds = _output_types(operator.raw_operator).values()
    for output, kind in zip(operator.outputs, kinds, strict=True):
        output.type = kind


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Copy the nodes of a machine's graph under unique names."""
    onnx = require("onnx")
    graph = Graph(onnx)
    add_model(graph, as_model(operator.raw_operator), "X")
    rows, name = scope.get_unique_variable_name("rows"), scope.get_unique_operator_name("Cast")
    float32, inputs = onnx.TensorProto.FLOAT, [operator.inputs[0].full_name]
    container.add_node("Cast", inputs, [rows], to=float32, name=name)
    unique = {"X": rows}
    names = _output_types(operator.raw_operator)
    unique |= {name: out.full_name for name, out in zip(names, operator.outputs, strict=True)}

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
