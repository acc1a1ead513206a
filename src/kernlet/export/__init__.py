"""From a trained machine to a file, a graph or a few kilobytes of C."""

from kernlet.export.c import CSource, to_c
from kernlet.export.code_size import CodeSize, size_report
from kernlet.export.file import ModelFileError, load, save
from kernlet.export.onnx import to_onnx
from kernlet.export.predictors import LoadedClassifier, LoadedRegressor, LoadedTransformer
from kernlet.export.skl2onnx import register_skl2onnx
from kernlet.export.targets import Package, to_package
from kernlet.model.model import Model, as_model

__all__ = [
    "CSource",
    "CodeSize",
    "LoadedClassifier",
    "LoadedRegressor",
    "LoadedTransformer",
    "Model",
    "ModelFileError",
    "Package",
    "as_model",
    "load",
    "register_skl2onnx",
    "save",
    "size_report",
    "to_c",
    "to_onnx",
    "to_package",
]
