"""The scikit-learn classes."""

from kernlet.estimators.chunking_synthetic import ChunkingSyntheticClassifier
from kernlet.estimators.compressed import CompressedClassifier
from kernlet.estimators.compressing import compress
from kernlet.estimators.l1_kernel import L1KernelClassifier
from kernlet.estimators.minimal_kernel import MinimalKernelClassifier

__all__ = [
    "ChunkingSyntheticClassifier",
    "CompressedClassifier",
    "L1KernelClassifier",
    "MinimalKernelClassifier",
    "compress",
]
