"""From a trained machine to a file, a graph or a few kilobytes of C."""

from kernlet.export.c_source import CSource, to_c
from kernlet.export.code_size import CodeSize, size_report
from kernlet.export.fields import ModelFileError
from kernlet.export.model_file import save
from kernlet.export.model_reading import load
from kernlet.export.onnx_graph import to_onnx
from kernlet.export.predictors import ShippedClassifier, ShippedRegressor, ShippedTransformer
from kernlet.export.shipped import ShippedModel, ship
from kernlet.export.skl2onnx_converters import register_skl2onnx

__all__ = [
    "CSource",
    "CodeSize",
    "ModelFileError",
    "ShippedClassifier",
    "ShippedModel",
    "ShippedRegressor",
    "ShippedTransformer",
    "load",
    "register_skl2onnx",
    "save",
    "ship",
    "size_report",
    "to_c",
    "to_onnx",
]
