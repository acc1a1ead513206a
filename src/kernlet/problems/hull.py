"""The hull of signed points, whose point nearest the origin is a margin machine."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kernlet.kernels.columns import Indices, as_indices
from kernlet.kernels.gram import Gram, Rows
from kernlet.kernels.kernel import Floats
from kernlet.problems.signed_rows import kernel_diagonal, require_signed_rows


@dataclass(frozen=True, eq=False)
class Hull:
    """Signed points of a feature space in which they are separable, as inner products.

    Row i is the point X_i = d_i (f(x_i), 1, ..., 1 / sqrt(2 C_i), ...), the last number in a
    coordinate of its own::

        Q_ij = X_i . X_j = d_i d_j (1 + k(x_i, x_j)) + delta_ij / (2 C_i)

    A point of the hull is W = sum_i alpha_i X_i with alpha >= 0 and sum alpha = 1; the one
    nearest the origin, over its squared norm, minimises 1/2 |w|^2 + sum_i C_i slack_i^2 with
    the intercept among the coordinates of w. delta goes by row number: equal rows are two.

    Parameters
    ----------
    gram : Gram
        K(X, X), square, of a positive semi-definite kernel.
    signs : ndarray of shape (n_rows,)
        d: +1 or -1.
    costs : ndarray of shape (n_rows,)
        C, positive.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.kernels import Gram, Linear
    >>> from kernlet.problems.hull import Hull
    >>> X = np.array([[2.0], [-1.0]])
    >>> hull = Hull(Gram(Linear(), X), np.array([1.0, -1.0]), np.full(2, 0.5))
    >>> hull.columns(np.arange(2))
    array([[6., 1.],
           [1., 3.]])
    """

    gram: Gram
    signs: Floats
    costs: Floats

    def __post_init__(self) -> None:
        require_signed_rows("A hull", self.gram, self.signs, self.costs)
        self.gram.x.norms  # noqa: B018  computed here, once for all columns

    @property
    def n_rows(self) -> int:
        """Points of the hull."""
        return len(self.gram.x)

    @cached_property
    def ridge(self) -> Floats:
        """1 / (2 C_i), what a row adds to its own product."""
        return 0.5 / self.costs

    @cached_property
    def diagonal(self) -> Floats:
        """Q_ii for all rows."""
        return kernel_diagonal(self.gram) + 1.0 + self.ridge

    def columns(self, numbers: Indices, rows: Rows = slice(None)) -> Floats:
        """Columns of Q, as lines of shape (n_columns, n_rows).

        Parameters
        ----------
        numbers : ndarray of shape (n_columns,)
        rows : slice or ndarray, default=all

        Returns
        -------
        values : ndarray
        """
        values = self.gram.block(numbers, rows)
        values += 1.0
        values *= self.signs[rows]
        values *= self.signs[numbers, None]
        lines, places = _same_rows(numbers, rows)
        values[lines, places] += self.ridge[numbers[lines]]
        return values

    def margins(self, alpha: Floats) -> Floats:
        """Q alpha for all rows, from scratch, by blocks.

        Parameters
        ----------
        alpha : ndarray of shape (n_rows,)

        Returns
        -------
        margins : ndarray of shape (n_rows,)
        """
        support = np.flatnonzero(alpha)
        coef = alpha[support] * self.signs[support]
        values = self.gram.dot(coef, support) + coef.sum()
        return self.signs * values + self.ridge * alpha

    def squared_norm(self, alpha: Floats, margins: Floats) -> float:
        """|W|^2, given the margins Q alpha; at least what the ridge alone makes of it.

        Parameters
        ----------
        alpha, margins : ndarrays of shape (n_rows,)

        Returns
        -------
        squared_norm : float
        """
        return max(float(alpha @ margins), float(self.ridge @ alpha**2))

    def subset(self, rows: Indices) -> Hull:
        """The hull of some of the rows; their points are copied."""
        points = self.gram.x
        gram = Gram(
            self.gram.kernel, points.X[rows], dtype=points.dtype, hold=True, shift=points.shift
        )
        return Hull(gram, self.signs[rows], self.costs[rows])


def _same_rows(numbers: Indices, rows: Any) -> tuple[Indices, Indices]:
    """Where a line and a place of a block are the same row of the hull."""
    if isinstance(rows, slice):
        if rows == slice(None):
            return np.arange(len(numbers)), numbers
        raise TypeError("Rows of a block of Q are all rows, or an array of row numbers.")
    lines, places = np.nonzero(numbers[:, None] == rows[None, :])
    return as_indices(lines), as_indices(places)
