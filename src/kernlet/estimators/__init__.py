"""The scikit-learn classes."""

from kernlet.estimators.chunking_synthetic import ChunkingSyntheticClassifier
from kernlet.estimators.compact.classifier import CompactKernelClassifier
from kernlet.estimators.compact.regressor import CompactKernelRegressor
from kernlet.estimators.compressed import CompressedClassifier
from kernlet.estimators.compressing import compress
from kernlet.estimators.condensers.boundary import BoundaryCondenser
from kernlet.estimators.condensers.centroids import CentroidCondenser
from kernlet.estimators.condensers.typical import TypicalCondenser
from kernlet.estimators.core_vector import CoreVectorClassifier
from kernlet.estimators.fisher import KernelFisherDiscriminant
from kernlet.estimators.hull_perceptron import HullPerceptronClassifier
from kernlet.estimators.l1_kernel import L1KernelClassifier
from kernlet.estimators.minimal_kernel import MinimalKernelClassifier
from kernlet.estimators.mmda import MMDA
from kernlet.estimators.proximal import ProximalClassifier

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
    "KernelFisherDiscriminant",
    "L1KernelClassifier",
    "MinimalKernelClassifier",
    "ProximalClassifier",
    "TypicalCondenser",
    "compress",
]
