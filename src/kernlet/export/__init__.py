"""From a trained machine to a file, a graph or a few kilobytes of C."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernlet.export.c import CSource, to_c
    from kernlet.export.code_size import CodeSize, size_report
    from kernlet.export.file import ModelFileError, load, save
    from kernlet.export.limits import DeviceCost, DeviceLimits
    from kernlet.export.onnx import to_onnx
    from kernlet.export.predictors import (
        LoadedClassifier,
        LoadedNoveltyDetector,
        LoadedRegressor,
        LoadedTransformer,
    )
    from kernlet.export.skl2onnx import register_skl2onnx
    from kernlet.export.targets import Package, to_package
    from kernlet.model.model import Model, as_model

__all__ = [
    "CSource",
    "CodeSize",
    "DeviceCost",
    "DeviceLimits",
    "LoadedClassifier",
    "LoadedNoveltyDetector",
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

# Each name is imported when it is first used: kernlet.runtime reads files of this package, and must
# not import jinja2 or scikit-learn for that.
_HOMES = {
    "CSource": "kernlet.export.c",
    "CodeSize": "kernlet.export.code_size",
    "DeviceCost": "kernlet.export.limits",
    "DeviceLimits": "kernlet.export.limits",
    "LoadedClassifier": "kernlet.export.predictors",
    "LoadedNoveltyDetector": "kernlet.export.predictors",
    "LoadedRegressor": "kernlet.export.predictors",
    "LoadedTransformer": "kernlet.export.predictors",
    "Model": "kernlet.model.model",
    "ModelFileError": "kernlet.export.file",
    "Package": "kernlet.export.targets",
    "as_model": "kernlet.model.model",
    "load": "kernlet.export.file",
    "register_skl2onnx": "kernlet.export.skl2onnx",
    "save": "kernlet.export.file",
    "size_report": "kernlet.export.code_size",
    "to_c": "kernlet.export.c",
    "to_onnx": "kernlet.export.onnx",
    "to_package": "kernlet.export.targets",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
