"""Kernels of scikit-learn as kernels here: functions, names and those of Gaussian processes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics import pairwise

from kernlet._typing import Floats
from kernlet.affine import AffineMap
from kernlet.kernels.base import Kernel
from kernlet.kernels.linear import Linear
from kernlet.kernels.polynomial import Polynomial
from kernlet.kernels.rational_quadratic import RationalQuadratic
from kernlet.kernels.rbf import RBF

# How this works
# --------------
# A kernel of a Gaussian process is a tree of sums and products. What an expansion can hold of it is
#
#     k(x, z) = factor * kernel(x / lengths, z / lengths) + constant,
#
# whose factor goes into the coefficients, whose lengths into the scaler, and whose constant, times
# the sum of the coefficients, into the intercept. White noise is 0 between a row and a center, also
# where they are equal: it drops out of the mean.

# Names of scikit-learn's functions, with the defaults that they have; gamma is 1 / n_features.
_NAMES = {
    "rbf": ("rbf", {}),
    "laplacian": ("laplacian", {}),
    "linear": ("linear", {}),
    "poly": ("poly", {"degree": 3, "coef0": 1.0}),
    "polynomial": ("poly", {"degree": 3, "coef0": 1.0}),
    "sigmoid": ("sigmoid", {"coef0": 1.0}),
}
_FUNCTIONS = {
    pairwise.rbf_kernel: "rbf",
    pairwise.laplacian_kernel: "laplacian",
    pairwise.linear_kernel: "linear",
    pairwise.polynomial_kernel: "poly",
    pairwise.sigmoid_kernel: "sigmoid",
}
_TAKEN = (
    "RBF, Matern(nu=inf), RationalQuadratic, DotProduct, DotProduct() ** n or PairwiseKernel of "
    "rbf, laplacian, polynomial, linear or sigmoid, times and plus ConstantKernel and WhiteKernel"
)


@dataclass(frozen=True, eq=False)
class ForeignKernel:
    """factor * kernel(x / lengths, z / lengths) + constant; without a kernel the constant alone."""

    kernel: Kernel | None
    factor: float = 1.0
    constant: float = 0.0
    lengths: Floats | None = None

    @property
    def scaler(self) -> AffineMap | None:
        """The division by the lengths, where there are several."""
        return None if self.lengths is None else AffineMap(np.zeros(1), 1 / self.lengths)


def of_function(function: Any, n_features: int) -> ForeignKernel | None:
    """A function of two matrices or a kernel object; None where only its values are known."""
    if isinstance(function, Kernel):
        return ForeignKernel(function)
    if isinstance(function, gp.Kernel):
        return of_process(function, n_features)
    parameters: dict[str, Any] = {}
    if isinstance(function, partial) and not function.args:
        function, parameters = function.func, function.keywords
    if function not in _FUNCTIONS or not {*parameters} <= {"gamma", "degree", "coef0"}:
        return None
    return of_name(_FUNCTIONS[function], n_features, parameters)


def of_name(name: Any, n_features: int, parameters: dict[str, Any]) -> ForeignKernel | None:
    """A kernel of scikit-learn by its name; None where there is none like it here."""
    if name not in _NAMES:
        return None
    own, values = _NAMES[name]
    values = values | {key: value for key, value in parameters.items() if value is not None}
    if own == "poly" and float(values["degree"]) == 0:
        raise ValueError("A polynomial kernel of degree 0 is constant. Fit with a higher degree.")
    if own == "poly" and float(values["degree"]).is_integer():
        values["degree"] = int(values["degree"])
    gamma = float(values.pop("gamma", 1.0 / n_features))
    return ForeignKernel(Kernel.from_dict({"name": own, "gamma": gamma, **values}))


def of_process(kernel: Any, n_features: int) -> ForeignKernel:
    """A kernel of a Gaussian process; ValueError where an expansion cannot hold it."""
    of = partial(of_process, n_features=n_features)
    if isinstance(kernel, gp.Sum):
        return _added(kernel, of(kernel.k1), of(kernel.k2))
    if isinstance(kernel, gp.Product):
        return _multiplied(kernel, of(kernel.k1), of(kernel.k2))
    if isinstance(kernel, gp.Exponentiation):
        return _power(kernel, of(kernel.kernel))
    kind = type(kernel)  # a subclass may compute anything
    if kind is gp.WhiteKernel:
        return ForeignKernel(None)
    if kind is gp.ConstantKernel:
        return ForeignKernel(None, constant=float(kernel.constant_value))
    if kind is gp.DotProduct:
        return ForeignKernel(Linear(), constant=float(kernel.sigma_0) ** 2)
    if kind is gp.RBF or (kind is gp.Matern and kernel.nu == np.inf):
        lengths = np.ravel(np.asarray(kernel.length_scale, dtype=float))
        if len(lengths) > 1:
            return ForeignKernel(RBF(0.5), lengths=lengths)
        return ForeignKernel(RBF(0.5 / float(lengths[0]) ** 2))
    if kind is gp.RationalQuadratic:
        gamma = 0.5 / float(kernel.length_scale) ** 2
        return ForeignKernel(RationalQuadratic(gamma, float(kernel.alpha)))
    if kind is gp.PairwiseKernel and not kernel.pairwise_kernels_kwargs:
        name = kernel.metric if isinstance(kernel.metric, str) else None
        found = of_name(name, n_features, {"gamma": kernel.gamma})
        if found is not None:
            return found
    raise _refusal(kernel)


def _added(kernel: Any, *parts: ForeignKernel) -> ForeignKernel:
    """A sum of a kernel and a constant."""
    own = [part for part in parts if part.kernel is not None] or list(parts[:1])
    if len(own) > 1:
        raise _refusal(kernel)
    return replace(own[0], constant=sum(part.constant for part in parts))


def _multiplied(kernel: Any, *parts: ForeignKernel) -> ForeignKernel:
    """A product of a kernel and a constant."""
    first, second = sorted(parts, key=lambda part: part.kernel is None)
    if second.kernel is not None:
        raise _refusal(kernel)
    by = second.constant
    return replace(first, factor=by * first.factor, constant=by * first.constant)


def _power(kernel: Any, base: ForeignKernel) -> ForeignKernel:
    """A power of a dot product: (factor x.z + constant)^degree."""
    degree = float(kernel.exponent)
    if not isinstance(base.kernel, Linear) or not degree.is_integer() or degree < 1:
        raise _refusal(kernel)
    return ForeignKernel(Polynomial(base.factor, int(degree), base.constant))


def _refusal(kernel: Any) -> ValueError:
    return ValueError(
        f"The kernel {kernel!s:.200} cannot be held by an expansion, which takes {_TAKEN}; fit "
        "with one of them."
    )
