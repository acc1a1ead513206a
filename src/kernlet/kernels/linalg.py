"""Linear algebra of kernel matrices: jittered solves and orthonormal bases."""

from __future__ import annotations

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg import cho_factor, cho_solve, cholesky, eigh, solve_triangular

from kernlet._typing import Floats


def jittered_solve(matrix: Floats, right: Floats, ridge: float) -> Floats:
    """(matrix + ridge I)^-1 right for a symmetric matrix, with a larger ridge where needed."""
    # Gaussian kernel matrices of close points have eigenvalues below round-off, some of them
    # negative: the Cholesky factorisation then fails. A hundred times the ridge costs at most one
    # more try for two digits, and eight tries reach 1e16 times the first ridge, that is, the size
    # of the matrix itself: what still fails is not positive semi-definite at all.
    if not (np.isfinite(matrix).all() and np.isfinite(right).all() and np.isfinite(ridge)):
        raise ValueError("The kernel overflows at the centers. Scale the features.")
    for _ in range(8):
        try:
            return cho_solve(cho_factor(matrix + ridge * np.eye(len(matrix))), right)
        except LinAlgError:
            ridge *= 100.0
    raise ValueError(
        "The kernel matrix of the centers is not positive semi-definite. Scale the features, or "
        "use another kernel, such as rbf."
    )


def orthonormal_map(products: Floats, *, least: float = 1e-10) -> Floats:
    """T with T' products T = I, over the directions that are not round-off.

    A row of kernel values with the points, times T, is the row in an orthonormal basis of their
    span. Eigenvalues below ``least`` times the largest are left out.
    """
    return orthonormal_maps(products, least)[0]


def orthonormal_maps(products: Floats, least: float, least_known: float = 1.0) -> list[Floats]:
    """As :func:`orthonormal_map`, and T of the eigenvalues from ``least_known`` up to ``least``."""
    if not np.isfinite(products).all():
        raise ValueError("The kernel overflows at the landmarks. Scale the features.")
    eigenvalues, vectors = eigh(products)
    largest = max(float(eigenvalues[-1]), np.finfo(float).tiny)
    is_kept = eigenvalues > least * largest
    is_small = ~is_kept & (eigenvalues > least_known * largest)
    return [vectors[:, chosen] / np.sqrt(eigenvalues[chosen]) for chosen in (is_kept, is_small)]


def orthonormalized(coef: Floats, products: Floats) -> Floats:
    """Nearly orthonormal columns made orthonormal to the last digit, first column first."""
    # Gram-Schmidt by Cholesky: coef' products coef = L L', so coef L'^-1 is orthonormal. Forming
    # the inner products squares the condition number; a second round removes the error of the
    # first ("twice is enough").
    if not coef.size:  # which scipy before 1.14 cannot solve
        return coef
    for _ in range(2):
        inner = coef.T @ products @ coef
        try:
            factor = cholesky(0.5 * (inner + inner.T), lower=True)
        except LinAlgError:  # too ill-conditioned: return them unchanged
            return coef
        coef = solve_triangular(factor, coef.T, lower=True).T
    return coef
