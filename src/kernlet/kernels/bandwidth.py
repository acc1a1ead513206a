"""The kernel that an estimator's parameters describe, and its width chosen from data."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from kernlet._typing import Floats, Matrix
from kernlet.devices import is_sparse
from kernlet.kernels.base import KERNELS, Kernel
from kernlet.kernels.gram import canonical_csr, row_slices, squared_norms
from kernlet.kernels.laplacian import Laplacian
from kernlet.kernels.linear import Linear
from kernlet.kernels.polynomial import Polynomial
from kernlet.kernels.rbf import RBF
from kernlet.kernels.sigmoid import Sigmoid

#: Kernels that estimators take by name; all but the Laplacian are those of scikit-learn's SVC.
KERNEL_NAMES = tuple(kind.name for kind in (RBF, Polynomial, Linear, Sigmoid, Laplacian))

# A variance below this share of the squared mean is round-off: (1e-13)^2, some digits above the
# smallest difference of two float64 numbers.
_ROUND_OFF = 1e-26
# Numbers between 2^-400 and 2^400 have squares, and sums of many squares, within float64.
_SAFE_EXPONENT = 400


def make_kernel(
    kernel: str | Kernel,
    X: Matrix,
    sample_weight: Any = None,
    *,
    gamma: str | float,
    degree: int,
    coef0: float,
) -> Kernel:
    """The kernel of a name (or the given one); X and weights are what a rule for gamma sees."""
    if isinstance(kernel, Kernel):
        return kernel
    if kernel not in KERNEL_NAMES:
        raise ValueError(f"kernel={kernel!r} is not one of {', '.join(KERNEL_NAMES)} or a Kernel.")
    kind = KERNELS[kernel]
    names = {parameter.name for parameter in fields(kind)}  # type: ignore[arg-type]
    parameters: dict[str, Any] = {"coef0": as_float("coef0", coef0)}
    least, largest = kind.limits.get("degree", (1, 1))
    parameters["degree"] = degree
    if "degree" in names and not least <= degree <= largest:
        raise ValueError(f"degree must be from {least:g} to {largest:g}; it is {degree!r:.40}.")
    if "gamma" in names:  # a rule reads all rows, which the linear kernel need not
        parameters["gamma"] = resolve_gamma(gamma, X, sample_weight, l1=kind is Laplacian)
    return kind(**{name: parameters[name] for name in names})


def resolve_gamma(
    gamma: str | float, X: Matrix, sample_weight: Any = None, *, l1: bool = False
) -> float:
    """A number as it is, or the value of a rule; a row of weight 2 counts as two rows.

    ``l1`` is for a kernel of the 1-norm distance: see :func:`gamma_of_moments`.
    """
    if not isinstance(gamma, str):
        return as_float("gamma", gamma)
    if gamma == "auto":  # needs no pass over the rows
        return 1.0 / X.shape[1]
    weights = np.ones(X.shape[0]) if sample_weight is None else sample_weight
    X, scale = canonical_csr(X), _safe_scale(X)
    moments = _moments(X if scale == 1.0 else X / scale, weights / weights.sum())
    return gamma_of_moments(gamma, *moments, scale=scale, l1=l1)


def as_float(name: str, value: Any) -> float:
    """A parameter as a float; Python's integers may be larger than any."""
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} is too large: it must be below 1.8e308.") from None


def _safe_scale(X: Matrix) -> float:
    """1, or a power of two near the largest number in X if squares would over- or underflow."""
    largest = float(abs(X).max()) if 0 not in X.shape else 0.0
    exponent = int(np.frexp(largest)[1]) - 1 if largest > 0 else 0
    return 1.0 if abs(exponent) < _SAFE_EXPONENT else float(np.ldexp(1.0, max(exponent, -1000)))


def gamma_of_moments(
    gamma: str, means: Floats, spread: float, scale: float = 1.0, *, l1: bool = False
) -> float:
    """A rule for gamma, from the mean row and the mean squared distance of the rows from it.

    Both are of rows divided by ``scale``. 1.0 where all rows are equal and the rule would divide
    by zero; refused where it is not a normal number, because the squares of the features are not.

    With ``l1``, sqrt(gamma / n_features) of that value: the 1-norm of n numbers is at most sqrt(n)
    times their Euclidean norm. "auto" is again 1 / n_features, and "scale" is
    1 / (n_features X.std()).
    """
    if gamma == "auto":  # one over n_features, as in scikit-learn
        inverse = float(len(means))
    elif gamma == "scale":
        # One over n_features X.var(), as in scikit-learn: the variance of all entries is that
        # within the columns plus that between their means.
        between = float(np.square(means - means.mean()).sum())
        inverse = spread + between * (between > _ROUND_OFF * float(means @ means))
    elif gamma == "mean_distance":
        # One over the mean squared distance of two rows: E |x - x'|^2 = 2 E |x - E x|^2.
        inverse = 2.0 * spread
    else:
        raise ValueError(f"gamma={gamma!r} is not one of auto, scale, mean_distance or a number.")
    if inverse == 0:
        return 1.0
    inverse = float(np.sqrt(len(means) * inverse)) if l1 else inverse
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        value = float(np.float64(1.0) / inverse / scale / (1.0 if l1 else scale))
    if not np.finfo(float).tiny <= value < np.inf:
        size = "small" if value == np.inf else "large"
        raise ValueError(
            f"The features are so {size} that their squares, and with them gamma={gamma!r}, are "
            "out of the range of float64. Scale them, for example with StandardScaler."
        )
    return value


def _moments(X: Matrix, shares: Floats) -> tuple[Floats, float]:
    """The mean row, and the mean squared distance of the rows from it."""
    means = np.asarray(shares @ X)
    square = float(means @ means)
    if is_sparse(X):
        # Subtracting the mean would fill the matrix in, so the spread is a difference of two
        # large numbers; only half of the digits can be trusted.
        spread = float(shares @ squared_norms(X.astype(np.float64))) - square
        return means, spread * (spread > np.sqrt(_ROUND_OFF) * square)
    spread = 0.0
    for rows in row_slices(X.shape[0], 8 * X.shape[1]):
        spread += float(shares[rows] @ squared_norms(X[rows] - means))
    return means, spread * (spread > _ROUND_OFF * square)
