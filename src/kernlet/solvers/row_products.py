"""Sums of training rows in feature space: their values at the rows, and their shortest form."""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

import numpy as np

from kernlet.kernels.columns import ColumnStore
from kernlet.kernels.gram import Gram
from kernlet.kernels.kernel import Floats
from kernlet.kernels.orthonormal import orthonormal_map

_DIAGONAL_ROWS = 64


class RowProducts(Protocol):
    """What sums over training rows need of a kernel."""

    @property
    def lengths(self) -> Floats:
        """|f(x_i)| of all rows."""
        ...

    def image(self, coef: Floats) -> Floats:
        """K coef."""
        ...

    def shortest(self, coef: Floats) -> Floats:
        """Coefficients of the same vector, without what adds up to nothing."""
        ...


class MatrixProducts:
    """Sums over rows whose whole kernel matrix is held.

    The first call of :meth:`shortest` takes the cube of the number of rows, and keeps a matrix
    as large as K.

    Parameters
    ----------
    K : ndarray of shape (n_rows, n_rows)

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.solvers.row_products import MatrixProducts
    >>> MatrixProducts(np.ones((2, 2))).shortest(np.array([1001.0, -999.0])).round(6)
    array([1., 1.])
    """

    def __init__(self, K: Floats) -> None:
        self.K = K

    @cached_property
    def lengths(self) -> Floats:
        """|f(x_i)| of all rows."""
        return np.sqrt(np.maximum(0.0, np.diagonal(self.K)))

    @cached_property
    def _map(self) -> Floats:
        return orthonormal_map(self.K)

    def image(self, coef: Floats) -> Floats:
        """K coef."""
        return np.asarray(self.K @ coef)

    def shortest(self, coef: Floats) -> Floats:
        """Coefficients of the same vector, without what adds up to nothing."""
        return np.asarray(self._map @ (self._map.T @ self.image(coef)))


class ColumnProducts:
    """Sums over few rows, by columns of the kernel matrix.

    :meth:`shortest` takes the cube of the number of coefficients.

    Parameters
    ----------
    gram : Gram
        K(X, X).
    columns : ColumnStore
        Of that matrix.
    """

    def __init__(self, gram: Gram, columns: ColumnStore) -> None:
        self.gram, self.columns = gram, columns

    @cached_property
    def lengths(self) -> Floats:
        """|f(x_i)| of all rows."""
        squares = np.empty(len(self.gram.x))
        for start in range(0, len(squares), _DIAGONAL_ROWS):
            rows = slice(start, min(start + _DIAGONAL_ROWS, len(squares)))
            squares[rows] = np.diagonal(self.gram.block(rows, rows))
        return np.sqrt(np.maximum(0.0, squares))

    def image(self, coef: Floats) -> Floats:
        """K coef."""
        rows = np.flatnonzero(coef)
        return self.columns.combine(rows, coef[rows, None])[0]

    def shortest(self, coef: Floats) -> Floats:
        """Coefficients of the same vector, without what adds up to nothing."""
        rows = np.flatnonzero(coef)
        short = np.zeros_like(coef)
        short[rows] = MatrixProducts(self.gram.block(rows, rows)).shortest(coef[rows])
        return short
