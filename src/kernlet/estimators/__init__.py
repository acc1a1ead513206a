"""The scikit-learn classes."""

from kernlet.estimators.chunking_synthetic import ChunkingSyntheticClassifier
from kernlet.estimators.compact.classifier import CompactKernelClassifier
from kernlet.estimators.compact.regressor import CompactKernelRegressor
from kernlet.estimators.compressed import CompressedClassifier
from kernlet.estimators.compressing import compress
from kernlet.estimators.core_vector import CoreVectorClassifier
from kernlet.estimators.fisher import KernelFisherDiscriminant
from kernlet.estimators.hull_perceptron import HullPerceptronClassifier
from kernlet.estimators.l1_kernel import L1KernelClassifier
from kernlet.estimators.minimal_kernel import MinimalKernelClassifier
from kernlet.estimators.mmda import MMDA

__all__ = [
    "MMDA",
    "ChunkingSyntheticClassifier",
    "CompactKernelClassifier",
    "CompactKernelRegressor",
    "CompressedClassifier",
    "CoreVectorClassifier",
    "HullPerceptronClassifier",
    "KernelFisherDiscriminant",
    "L1KernelClassifier",
    "MinimalKernelClassifier",
    "compress",
]
