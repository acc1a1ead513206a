"""Kernels by the names that scikit-learn gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernlet.kernels.bandwidth import resolve_gamma
from kernlet.kernels.kernel import Kernel
from kernlet.kernels.linear import Linear
from kernlet.kernels.polynomial import Polynomial
from kernlet.kernels.rbf import RBF
from kernlet.kernels.sigmoid import Sigmoid

_MAKERS: dict[str, Callable[[float, int, float], Kernel]] = {
    "rbf": lambda gamma, degree, coef0: RBF(gamma),
    "poly": Polynomial,
    "linear": lambda gamma, degree, coef0: Linear(),
    "sigmoid": lambda gamma, degree, coef0: Sigmoid(gamma, coef0),
}
KERNEL_NAMES = tuple(_MAKERS)


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
    if kernel == "linear":  # has no width: a rule would look at all rows for nothing
        return Linear()
    return _MAKERS[kernel](resolve_gamma(gamma, X, sample_weight), degree, coef0)
