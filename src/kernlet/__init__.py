"""kernlet: train, shrink and ship kernel machines that depend on very few points."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernlet.estimators import (
        ChunkingSyntheticClassifier,
        CompactKernelClassifier,
        CompactKernelRegressor,
        CompressedClassifier,
        HullPerceptronClassifier,
        L1KernelClassifier,
        MinimalKernelClassifier,
        compress,
    )
    from kernlet.expansion import KernelExpansion
    from kernlet.export import load, save, to_c, to_onnx
    from kernlet.quantized import QuantizedExpansion

__version__ = "0.1.0.dev0"

__all__ = [
    "ChunkingSyntheticClassifier",
    "CompactKernelClassifier",
    "CompactKernelRegressor",
    "CompressedClassifier",
    "HullPerceptronClassifier",
    "KernelExpansion",
    "L1KernelClassifier",
    "MinimalKernelClassifier",
    "QuantizedExpansion",
    "__version__",
    "compress",
    "load",
    "save",
    "to_c",
    "to_onnx",
]

# Importing scikit-learn takes a second or two; the command line must not pay for that
# before it needs it. So each name is imported when it is first used.
_HOMES = {
    "ChunkingSyntheticClassifier": "kernlet.estimators",
    "CompactKernelClassifier": "kernlet.estimators",
    "CompactKernelRegressor": "kernlet.estimators",
    "CompressedClassifier": "kernlet.estimators",
    "compress": "kernlet.estimators",
    "HullPerceptronClassifier": "kernlet.estimators",
    "KernelExpansion": "kernlet.expansion",
    "L1KernelClassifier": "kernlet.estimators",
    "MinimalKernelClassifier": "kernlet.estimators",
    "QuantizedExpansion": "kernlet.quantized",
    "load": "kernlet.export",
    "save": "kernlet.export",
    "to_c": "kernlet.export",
    "to_onnx": "kernlet.export",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
