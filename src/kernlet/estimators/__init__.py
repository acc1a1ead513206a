"""The scikit-learn classes."""

from kernlet.estimators.l1_kernel import L1KernelClassifier
from kernlet.estimators.minimal_kernel import MinimalKernelClassifier

__all__ = ["L1KernelClassifier", "MinimalKernelClassifier"]
