"""Orthonormal coordinates in the span of a few points of a feature space."""

from __future__ import annotations

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg import cholesky, eigh, solve_triangular

from kernlet.kernels.kernel import Floats


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
    >>> from kernlet.kernels.orthonormal import orthonormal_map
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
