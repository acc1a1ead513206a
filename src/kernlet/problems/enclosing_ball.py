"""The smallest ball around signed points whose center is orthogonal to given directions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernlet.kernels.columns import Indices
from kernlet.kernels.gram import Gram
from kernlet.kernels.kernel import Floats
from kernlet.problems.signed_rows import kernel_diagonal, require_signed_rows


@dataclass(frozen=True, eq=False)
class EnclosingBall:
    """The machine of squared errors, as a ball in feature space.

    With f the kernel's feature map, signs d_i, weights c_i and unit vectors u_q::

        minimise over w, b  1/2 (|w|^2 + b^2) + 1/2 sum_i c_i max(0, 1 - d_i (w.f(x_i) + b))^2
        subject to  w . u_q = 0 for all q

    Its dual is min 1/2 a'Qa - sum a over a >= 0, with the kernel less the directions::

        Q_ij = d_i d_j (k(x_i, x_j) + 1 - F_i . F_j) + delta_ij / c_i,   F_iq = u_q . f(x_i)

    a / sum a are the weights of the center of the smallest ball around the points
    d_i (f(x_i), 1, e_i / sqrt(c_i)), the center orthogonal to the u_q. The squared distance of
    point i from the center is n2 - 2 g_i + kappa with n2 = |center|^2 and g = Q a / sum a, where
    kappa is the squared norm of a point *before* the directions are taken off: the ball of the
    kernel Q alone is another one. Where norms differ (a polynomial kernel, several weights),
    kappa is the largest, and every other point has the rest in a coordinate of its own in
    which the center is 0. The intercept is not among what is orthogonal.

    Parameters
    ----------
    gram : Gram
        K(X, X), square, of a positive semi-definite kernel.
    signs : ndarray of shape (n_rows,)
        d: +1 or -1.
    costs : ndarray of shape (n_rows,)
        c, positive.
    images : ndarray of shape (n_rows, n_directions) or None, default=None
        F: the directions' values at the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from kernlet.kernels import RBF, Gram
    >>> from kernlet.problems.enclosing_ball import EnclosingBall
    >>> X = np.array([[0.0], [1.0]])
    >>> ball = EnclosingBall(Gram(RBF(1.0), X), np.array([1.0, -1.0]), np.ones(2))
    >>> ball.products(np.arange(2), np.arange(2)).round(3)
    array([[ 3.   , -1.368],
           [-1.368,  3.   ]])
    """

    gram: Gram
    signs: Floats
    costs: Floats
    images: Floats | None = None

    def __post_init__(self) -> None:
        require_signed_rows("A ball", self.gram, self.signs, self.costs)

    @property
    def n_rows(self) -> int:
        """Points to enclose."""
        return len(self.gram.x)

    @cached_property
    def ridge(self) -> Floats:
        """1 / c_i, what a row adds to its own product."""
        return 1.0 / self.costs

    @cached_property
    def kappa(self) -> float:
        """The largest squared norm of a point, directions not taken off."""
        return float((kernel_diagonal(self.gram) + self.ridge).max(initial=0.0)) + 1.0

    def products(self, rows: Indices, columns: Indices) -> Floats:
        """Q[rows][:, columns].

        Parameters
        ----------
        rows, columns : ndarrays of row numbers

        Returns
        -------
        values : ndarray of shape (len(rows), len(columns))
        """
        values = self.gram.block(rows, columns).astype(np.float64, copy=False)
        values += 1.0
        if self.images is not None:
            values -= self.images[rows] @ self.images[columns].T
        values *= self.signs[columns]
        values *= self.signs[rows, None]
        lines, places = np.nonzero(rows[:, None] == columns[None, :])
        values[lines, places] += self.ridge[rows[lines]]
        return values

    def coordinates(self, rows: Indices, coef: Floats) -> Floats:
        """What sum_j coef_j f(x_j) has in the directions."""
        if self.images is None:
            return np.zeros(0)
        return np.asarray(self.images[rows].T @ coef)

    def objective(self, squared_norm: float, values: Floats) -> float:
        """The primal value of a machine, given |w|^2 + b^2 and its values at all rows."""
        slacks = np.maximum(0.0, 1.0 - self.signs * values)
        return 0.5 * (squared_norm + float(self.costs @ slacks**2))

    def eps(self, squared_norm: float, least_margin: float) -> float:
        """How far outside a ball the furthest row lies: its distance is (1 + eps) radii.

        Parameters
        ----------
        squared_norm : float
            n2, of the center.
        least_margin : float
            The least g_i.

        Returns
        -------
        eps : float
            Not below 0.
        """
        furthest = squared_norm - 2.0 * least_margin + self.kappa
        return max(0.0, float(np.sqrt(furthest / (self.kappa - squared_norm))) - 1.0)
