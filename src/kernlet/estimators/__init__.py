"""The scikit-learn classes."""

from kernlet.estimators.chunking_synthetic import ChunkingSyntheticClassifier
from kernlet.estimators.l1_kernel import L1KernelClassifier
from kernlet.estimators.minimal_kernel import MinimalKernelClassifier

__all__ = ["ChunkingSyntheticClassifier", "L1KernelClassifier", "MinimalKernelClassifier"]
