"""Gaussian kernel values as the exponential of one product of matrices, for any array library.

-gamma_j |u - z_j|^2 = a.c_j with a = (u, |u|^2, 1) and c_j = (2 gamma_j z_j, -gamma_j,
-gamma_j |z_j|^2). Points should lie about the origin: the digits of |u|^2 are lost otherwise.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace, is_numpy_array

#: An array of any library that follows the array API standard: numpy, torch and others.
Array = Any

_LEAST = -60.0


def row_products(A: Array, B: Array) -> Array:
    """Inner products of the rows of A with those of B."""
    xp = array_namespace(A)
    if is_numpy_array(A):
        return xp.vecdot(A, B)
    return xp.sum(A * B, axis=1)  # torch would make a product of matrices of every pair


def lifted_rows(U: Array) -> Array:
    """(u, |u|^2, 1) of every row u."""
    xp = array_namespace(U)
    squares = row_products(U, U)[:, None]
    return xp.concat([U, squares, xp.ones_like(squares)], axis=1)


def lifted_centers(Z: Array, gamma: Array) -> Array:
    """(2 gamma z, -gamma, -gamma |z|^2) of every center z, for one gamma or one a center."""
    xp = array_namespace(Z)
    squares = row_products(Z, Z)[:, None]
    gamma = gamma[:, None] * xp.ones_like(squares)
    return xp.concat([2 * gamma * Z, -gamma, -gamma * squares], axis=1)


def gaussian(rows: Array, centers: Array) -> Array:
    """Kernel values between lifted rows and lifted centers.

    An exponent that was rounded to more than 0 is taken as 0. One below -60 is taken as -60:
    smaller values of float32 soon have less than all their digits, and products with those are
    a hundred times slower.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.kernels.lifted import gaussian, lifted_centers, lifted_rows
    >>> rows, centers = np.array([[0.0], [1.0]]), np.array([[0.0]])
    >>> gaussian(lifted_rows(rows), lifted_centers(centers, np.array([1.0]))).round(3)
    array([[1.   ],
           [0.368]])
    """
    xp = array_namespace(rows)
    return xp.exp(xp.clip(rows @ centers.T, _LEAST, 0.0))
