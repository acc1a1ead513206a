"""Kernels by the names that scikit-learn gives them."""

from __future__ import annotations

from typing import Any

from kernlet.kernels.bandwidth import resolve_gamma
from kernlet.kernels.kernel import Kernel
from kernlet.kernels.linear import Linear
from kernlet.kernels.polynomial import Polynomial
from kernlet.kernels.rbf import RBF
from kernlet.kernels.sigmoid import Sigmoid

KERNEL_NAMES = ("rbf", "poly", "linear", "sigmoid")


def make_kernel(
    kernel: str | Kernel,
    X: Any,
    sample_weight: Any = None,
    *,
    gamma: str | float,
    degree: int,
    coef0: float,
) -> Kernel:
    """Make the kernel that an estimator's parameters describe.

    Parameters
    ----------
    kernel : {"rbf", "poly", "linear", "sigmoid"} or Kernel
        A Kernel is returned as it is and the other parameters are not used.
    X : {ndarray, sparse matrix} of shape (n_rows, n_features)
        The rows from which a rule for ``gamma`` is computed.
    sample_weight : ndarray of shape (n_rows,) or None
        Their weights.
    gamma : float or {"scale", "auto", "mean_distance"}
    degree : int
    coef0 : float

    Returns
    -------
    kernel : Kernel
    """
    if isinstance(kernel, Kernel):
        return kernel
    if kernel not in KERNEL_NAMES:
        raise ValueError(f"kernel={kernel!r} is none of {', '.join(KERNEL_NAMES)}, nor a Kernel.")
    if kernel == "linear":
        return Linear()
    number = resolve_gamma(gamma, X, sample_weight)
    if kernel == "poly":
        return Polynomial(number, degree, coef0)
    return RBF(number) if kernel == "rbf" else Sigmoid(number, coef0)
