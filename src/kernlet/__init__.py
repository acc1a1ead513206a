"""kernlet: train, shrink and ship kernel machines that depend on very few points."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernlet.chunking.estimator import ChunkingSyntheticClassifier
    from kernlet.compact.classifier import CompactKernelClassifier
    from kernlet.compact.novelty import CompactNoveltyDetector
    from kernlet.compact.regressor import CompactKernelRegressor
    from kernlet.compression.compress import compress
    from kernlet.compression.estimator import CompressedClassifier, CompressedRegressor
    from kernlet.condense.boundary import BoundaryCondenser
    from kernlet.condense.centroids import CentroidCondenser
    from kernlet.condense.typical import TypicalCondenser
    from kernlet.expansion import KernelExpansion
    from kernlet.explain.shapley import Explanation, shapley_values
    from kernlet.export.c import to_c
    from kernlet.export.file import load, save
    from kernlet.export.onnx import to_onnx
    from kernlet.export.targets import to_package
    from kernlet.least_squares.fisher import KernelFisherDiscriminant
    from kernlet.least_squares.proximal import ProximalClassifier
    from kernlet.lp.l1 import L1KernelClassifier
    from kernlet.lp.minimal import MinimalKernelClassifier
    from kernlet.lp.regressor import L1KernelRegressor, MinimalKernelRegressor
    from kernlet.quantization import QuantizedExpansion
    from kernlet.squared.core_vector import CoreVectorClassifier
    from kernlet.squared.hull import HullPerceptronClassifier, Removal
    from kernlet.squared.mmda import MMDA
    from kernlet.squared.novelty import CoreVectorNovelty

__version__ = "0.1.0"

__all__ = [
    "MMDA",
    "BoundaryCondenser",
    "CentroidCondenser",
    "ChunkingSyntheticClassifier",
    "CompactKernelClassifier",
    "CompactKernelRegressor",
    "CompactNoveltyDetector",
    "CompressedClassifier",
    "CompressedRegressor",
    "CoreVectorClassifier",
    "CoreVectorNovelty",
    "Explanation",
    "HullPerceptronClassifier",
    "KernelExpansion",
    "KernelFisherDiscriminant",
    "L1KernelClassifier",
    "L1KernelRegressor",
    "MinimalKernelClassifier",
    "MinimalKernelRegressor",
    "ProximalClassifier",
    "QuantizedExpansion",
    "Removal",
    "TypicalCondenser",
    "__version__",
    "compress",
    "load",
    "save",
    "shapley_values",
    "to_c",
    "to_onnx",
    "to_package",
]

# Importing scikit-learn takes a second or two; the command line must not pay for that
# before it needs it. So each name is imported when it is first used.
_HOMES = {
    "BoundaryCondenser": "kernlet.condense.boundary",
    "CentroidCondenser": "kernlet.condense.centroids",
    "ChunkingSyntheticClassifier": "kernlet.chunking.estimator",
    "CompactKernelClassifier": "kernlet.compact.classifier",
    "CompactKernelRegressor": "kernlet.compact.regressor",
    "CompactNoveltyDetector": "kernlet.compact.novelty",
    "CompressedClassifier": "kernlet.compression.estimator",
    "CompressedRegressor": "kernlet.compression.estimator",
    "CoreVectorClassifier": "kernlet.squared.core_vector",
    "CoreVectorNovelty": "kernlet.squared.novelty",
    "Explanation": "kernlet.explain.shapley",
    "HullPerceptronClassifier": "kernlet.squared.hull",
    "KernelExpansion": "kernlet.expansion",
    "KernelFisherDiscriminant": "kernlet.least_squares.fisher",
    "L1KernelClassifier": "kernlet.lp.l1",
    "L1KernelRegressor": "kernlet.lp.regressor",
    "MMDA": "kernlet.squared.mmda",
    "MinimalKernelClassifier": "kernlet.lp.minimal",
    "MinimalKernelRegressor": "kernlet.lp.regressor",
    "ProximalClassifier": "kernlet.least_squares.proximal",
    "QuantizedExpansion": "kernlet.quantization",
    "Removal": "kernlet.squared.hull",
    "TypicalCondenser": "kernlet.condense.typical",
    "compress": "kernlet.compression.compress",
    "load": "kernlet.export.file",
    "save": "kernlet.export.file",
    "shapley_values": "kernlet.explain.shapley",
    "to_c": "kernlet.export.c",
    "to_onnx": "kernlet.export.onnx",
    "to_package": "kernlet.export.targets",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
