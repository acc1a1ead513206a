"""Linear algebra of kernel matrices: jittered solves and orthonormal bases."""

from __future__ import annotations

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg import cho_factor, cho_solve, cholesky, eigh, solve_triangular

from kernlet._typing import Floats


def solve_definite(matrix: Floats, right: Floats, ridge: float) -> Floats:
    """(matrix + ridge I)^-1 right, with a larger ridge where rounding asks for it.

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
        Symmetric.
    right : ndarray of shape (n,) or (n, n_sides)
    ridge : float
        Positive.

    Returns
    -------
    solution : ndarray of the shape of ``right``

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.kernels.linalg import solve_definite
    >>> solve_definite(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([2.0, 2.0]), 1e-12).round(6)
    array([1. , 0.5])
    """
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
    """T with T' products T = I, over the directions that have digits.

    A row of kernel values with the points, times T, is the row in an orthonormal basis of
    their span.

    Parameters
    ----------
    products : ndarray of shape (n_points, n_points)
        Inner products of the points.
    least : float, default=1e-10
        Directions with less than this share of the largest eigenvalue are left out.

    Returns
    -------
    map : ndarray of shape (n_points, rank)

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.kernels.linalg import orthonormal_map
    >>> orthonormal_map(np.ones((2, 2))).shape
    (2, 1)
    """
    if not np.isfinite(products).all():
        raise ValueError("The kernel overflows at the landmarks. Scale the features.")
    eigenvalues, vectors = eigh(products)
    kept = eigenvalues > least * max(float(eigenvalues[-1]), np.finfo(float).tiny)
    return np.asarray(vectors[:, kept] / np.sqrt(eigenvalues[kept]))


def orthonormalized(coef: Floats, products: Floats) -> Floats:
    """Coefficients of the same spans, first column first, that are orthonormal to the last digit.

    Parameters
    ----------
    coef : ndarray of shape (n_points, n_vectors)
        Coefficients of vectors that are nearly orthonormal already.
    products : ndarray of shape (n_points, n_points)

    Returns
    -------
    coef : ndarray of shape (n_points, n_vectors)
    """
    for _ in range(2):
        inner = coef.T @ products @ coef
        try:
            factor = cholesky(0.5 * (inner + inner.T), lower=True)
        except LinAlgError:  # no digits left: as they are
            return coef
        coef = solve_triangular(factor, coef.T, lower=True).T
    return coef
