"""kernlet: train, shrink and ship kernel machines that depend on very few points."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernlet.estimators import (
        MMDA,
        BoundaryCondenser,
        CentroidCondenser,
        ChunkingSyntheticClassifier,
        CompactKernelClassifier,
        CompactKernelRegressor,
        CompressedClassifier,
        CoreVectorClassifier,
        HullPerceptronClassifier,
        KernelFisherDiscriminant,
        L1KernelClassifier,
        MinimalKernelClassifier,
        ProximalClassifier,
        TypicalCondenser,
        compress,
    )
    from kernlet.expansion import KernelExpansion
    from kernlet.export import load, save, to_c, to_onnx
    from kernlet.quantized import QuantizedExpansion

__version__ = "0.1.0.dev0"

__all__ = [
    "MMDA",
    "BoundaryCondenser",
    "CentroidCondenser",
    "ChunkingSyntheticClassifier",
    "CompactKernelClassifier",
    "CompactKernelRegressor",
    "CompressedClassifier",
    "CoreVectorClassifier",
    "HullPerceptronClassifier",
    "KernelExpansion",
    "KernelFisherDiscriminant",
    "L1KernelClassifier",
    "MinimalKernelClassifier",
    "ProximalClassifier",
    "QuantizedExpansion",
    "TypicalCondenser",
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
    "BoundaryCondenser": "kernlet.estimators",
    "CentroidCondenser": "kernlet.estimators",
    "ChunkingSyntheticClassifier": "kernlet.estimators",
    "CompactKernelClassifier": "kernlet.estimators",
    "CompactKernelRegressor": "kernlet.estimators",
    "CompressedClassifier": "kernlet.estimators",
    "compress": "kernlet.estimators",
    "CoreVectorClassifier": "kernlet.estimators",
    "HullPerceptronClassifier": "kernlet.estimators",
    "KernelExpansion": "kernlet.expansion",
    "KernelFisherDiscriminant": "kernlet.estimators",
    "L1KernelClassifier": "kernlet.estimators",
    "MinimalKernelClassifier": "kernlet.estimators",
    "ProximalClassifier": "kernlet.estimators",
    "MMDA": "kernlet.estimators",
    "QuantizedExpansion": "kernlet.quantized",
    "TypicalCondenser": "kernlet.estimators",
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
