"""Kernels by the names that scikit-learn gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernlet.kernels.bandwidth import resolve_gamma
from kernlet.kernels.base import Kernel
from kernlet.kernels.linear import Linear
from kernlet.kernels.polynomial import Polynomial
from kernlet.kernels.rbf import RBF, CenterWidths
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


def describe_kernel(kernel: Kernel) -> dict[str, Any]:
    """A kernel in words.

    Examples
    --------
    >>> from kernlet.kernels.named import describe_kernel
    >>> from kernlet.kernels.rbf import RBF
    >>> describe_kernel(RBF(0.5))
    {'name': 'rbf', 'gamma': 0.5}
    """
    if type(kernel) is RBF:
        return {"name": "rbf", "gamma": float(kernel.gamma)}
    if type(kernel) is CenterWidths:
        return {"name": "rbf of several widths"}
    if type(kernel) is Linear:
        return {"name": "linear"}
    if type(kernel) is Sigmoid:
        return {"name": "sigmoid", "gamma": float(kernel.gamma), "coef0": float(kernel.coef0)}
    if type(kernel) is Polynomial:
        return {
            "name": "poly",
            "gamma": float(kernel.gamma),
            "degree": int(kernel.degree),
            "coef0": float(kernel.coef0),
        }
    raise ValueError(
        f"{kernel!r} is code, and a file holds none: machines of rbf, poly, linear and sigmoid "
        "kernels can be saved and exported."
    )
