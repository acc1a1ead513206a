"""Kernels k(x, z), one file each, and the blocks of their values."""

from kernlet.kernels.bandwidth import KERNEL_NAMES, make_kernel, resolve_gamma
from kernlet.kernels.base import Derivatives, Kernel
from kernlet.kernels.diagonal import DiagonalRBF
from kernlet.kernels.gram import Gram, kernel_matrix
from kernlet.kernels.laplacian import Laplacian
from kernlet.kernels.linear import Linear
from kernlet.kernels.polynomial import Polynomial
from kernlet.kernels.rational_quadratic import RationalQuadratic
from kernlet.kernels.rbf import RBF
from kernlet.kernels.sigmoid import Sigmoid

__all__ = [
    "KERNEL_NAMES",
    "RBF",
    "Derivatives",
    "DiagonalRBF",
    "Gram",
    "Kernel",
    "Laplacian",
    "Linear",
    "Polynomial",
    "RationalQuadratic",
    "Sigmoid",
    "kernel_matrix",
    "make_kernel",
    "resolve_gamma",
]
